/* SPDX-License-Identifier: ISC */
/* vocab.c - the tokenizer's metadata, as llama.cpp's converter writes them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gguf/vocab.h"
#include "hub/json.h"
#include "hub/plan.h"

struct vocab {
	const struct qwen_hub	*h;
	struct qwen_gguf_writer	*w;
	yyjson_doc		*doc, *config;	/* tokenizer.json and
						   tokenizer_config.json */
	yyjson_val		*root;
	struct qwen_str		*token;
	int32_t			*type;
	size_t			 n;
};

static int
fail_tokenizer(const struct vocab *v, const char *what)
{
	return qwen_hub_fail(v->h, "tokenizer.json", "%s", what);
}

/* ----------------------------------------------------------------- tokens */

static int
put_token(struct vocab *v, uint64_t id, yyjson_val *text, int type)
{
	const char *s = yyjson_get_str(text);

	if (id >= v->n)
		return qwen_hub_fail(v->h, "tokenizer.json", "id %" PRIu64 " "
		    "of %.40s, but config.json has %zu ids", id, s != NULL ? s :
		    "a token", v->n);
	v->token[id].s = s;
	v->token[id].len = yyjson_get_len(text);
	v->type[id] = type;
	return 0;
}

static int
looks_special(const char *s, size_t n)
{
	return n >= 4 && memcmp(s, "<|", 2) == 0 &&
	    memcmp(s + n - 2, "|>", 2) == 0;
}

static int
read_tokens(struct vocab *v)
{
	yyjson_val *map = yyjson_obj_get(yyjson_obj_get(v->root, "model"),
	    "vocab"), *added = yyjson_obj_get(v->root, "added_tokens"), *key, *t;
	yyjson_val *text;
	uint64_t id;
	size_t i, n;

	yyjson_obj_foreach(map, i, n, key, t) {
		if (qwen_hub_u64(t, &id) < 0)
			return fail_tokenizer(v, "a token id is not a number");
		if (id < v->n && v->token[id].s != NULL)
			return fail_tokenizer(v, "two tokens have the same id");
		if (put_token(v, id, key, QWEN_TOKEN_NORMAL) < 0)
			return -1;
	}
	yyjson_arr_foreach(added, i, n, t) {
		text = yyjson_obj_get(t, "content");
		if (!yyjson_is_str(text) ||
		    qwen_hub_u64(yyjson_obj_get(t, "id"), &id) < 0)
			return fail_tokenizer(v,
			    "an added token has no content or no id");
		if (put_token(v, id, text, yyjson_is_true(
		    yyjson_obj_get(t, "special")) || looks_special(
		    yyjson_get_str(text), yyjson_get_len(text)) ?
		    QWEN_TOKEN_CONTROL : QWEN_TOKEN_USER_DEFINED) < 0)
			return -1;
	}
	return 0;
}

static int
put_tokens(struct vocab *v)
{
	v->token = calloc(v->n, sizeof *v->token);
	v->type = calloc(v->n, sizeof *v->type);
	if (v->token == NULL || v->type == NULL)
		return qwen_oom(v->h->err);
	if (read_tokens(v) < 0)
		return -1;
	qwen_gguf_put_tokens(v->w, v->token, v->type, v->n);
	return 0;
}

/* Appends half of a merge; a space within it becomes U+0120. */
static void
add_half(struct qwen_text *t, yyjson_val *half)
{
	const char *s = yyjson_get_str(half);
	size_t i, n = yyjson_get_len(half);

	for (i = 0; i < n; i++) {
		if (s[i] == ' ')
			qwen_text_str(t, "\xc4\xa0");
		else
			qwen_text_add(t, &s[i], 1);
	}
}

static int
put_merges(struct vocab *v)
{
	yyjson_val *list = yyjson_obj_get(yyjson_obj_get(v->root, "model"),
	    "merges"), *m;
	size_t n = yyjson_arr_size(list), i, max;
	struct qwen_str *s = calloc(n > 0 ? n : 1, sizeof *s);
	struct qwen_text t = { 0 };
	const char *at;
	int rc = s != NULL ? 0 : qwen_oom(v->h->err);

	yyjson_arr_foreach(list, i, max, m) {
		size_t from = t.n;

		if (rc < 0)
			break;
		if (yyjson_is_str(m))
			qwen_text_add(&t, yyjson_get_str(m), yyjson_get_len(m));
		else if (yyjson_arr_size(m) == 2 &&
		    yyjson_is_str(yyjson_arr_get(m, 0)) &&
		    yyjson_is_str(yyjson_arr_get(m, 1))) {
			add_half(&t, yyjson_arr_get(m, 0));
			qwen_text_str(&t, " ");
			add_half(&t, yyjson_arr_get(m, 1));
		} else
			rc = fail_tokenizer(v, "a merge is not a pair");
		s[i].len = t.n - from;
	}
	if (rc == 0 && t.failed)
		rc = qwen_oom(v->h->err);
	for (i = 0, at = t.s; rc == 0 && i < n; at += s[i++].len)
		s[i].s = at;
	if (rc == 0 && n > 0)
		qwen_gguf_put_strs(v->w, "tokenizer.ggml.merges", s, n);
	qwen_text_fini(&t);
	free(s);
	return rc;
}

/* --------------------------------------------------------- pre-tokenizer */

/* Returns the regular expression that splits texts, or NULL. */
static const char *
pattern(yyjson_val *pre)
{
	yyjson_val *list = yyjson_obj_get(pre, "pretokenizers"), *p;
	const char *s = qwen_hub_str(yyjson_obj_get(pre, "pattern"), "Regex");
	size_t i, n;

	yyjson_arr_foreach(list, i, n, p) {
		if (s == NULL)
			s = qwen_hub_str(yyjson_obj_get(p, "pattern"), "Regex");
	}
	return s;
}

/*
 * Writes the pre-tokenizer's name, chosen by its regular expression.
 * llama.cpp's converter chooses by how known vocabularies tokenize a sample
 * text, with the same result for the vocabularies that it knows.
 */
static void
put_pre(const struct vocab *v)
{
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
	static const char qwen2[] = CONTRACTIONS
	    "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
	    SPACES;
	static const char qwen35[] = CONTRACTIONS
	    "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}|"
	    " ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES;
	const char *s = pattern(yyjson_obj_get(v->root, "pre_tokenizer"));
	const char *name = v->h->arch->pre;

	if (s != NULL && strcmp(s, qwen2) == 0)
		name = "qwen2";
	else if (s != NULL && strcmp(s, qwen35) == 0)
		name = "qwen35";
	else
		qwen_gguf_note(v->w, "tokenizer.json splits text in an unknown "
		    "way; %s will be used for this file", name);
	qwen_gguf_put_str(v->w, "tokenizer.ggml.pre", name);
}

/* ---------------------------------------------------------- special tokens */

enum { BOS, EOS, UNK, SEP, PAD, MASK, EOT, N_SPECIAL };

static const struct {
	const char	*token, *id, *add, *key;
} special[N_SPECIAL] = {
	[BOS] = { "bos_token", "bos_token_id", "add_bos_token", "bos" },
	[EOS] = { "eos_token", "eos_token_id", "add_eos_token", "eos" },
	[UNK] = { "unk_token", "unk_token_id", NULL, "unknown" },
	[SEP] = { "sep_token", "sep_token_id", "add_sep_token", "seperator" },
	[PAD] = { "pad_token", "pad_token_id", NULL, "padding" },
	[MASK] = { "mask_token", "mask_token_id", NULL, "mask" },
	[EOT] = { NULL, "eot_token_id", NULL, "eot" },
};

struct specials {
	const char	*text[N_SPECIAL];
	int		 add[N_SPECIAL];	/* -1: not in the files */
	int		 put[N_SPECIAL];
};

/* Returns the text of a token: a string, or an object with "content". */
static const char *
content(yyjson_val *v)
{
	const char *s = yyjson_get_str(v);

	return s != NULL ? s : qwen_hub_str(v, "content");
}

/* Returns the special token of a template's part, or NULL. */
static const char *
special_of(yyjson_val *part)
{
	return qwen_hub_str(yyjson_obj_get(part, "SpecialToken"), "id");
}

/* Reads which tokens are put before and after a text. */
static void
read_template(yyjson_val *p, struct specials *s)
{
	yyjson_val *single = yyjson_obj_get(p, "single");
	size_t n = yyjson_arr_size(single);
	const char *first, *last;

	if (n < 2)
		return;
	first = special_of(yyjson_arr_get_first(single));
	last = special_of(yyjson_arr_get_last(single));
	if (first != NULL) {
		if (s->text[BOS] == NULL)
			s->text[BOS] = first;
		s->add[BOS] = strcmp(s->text[BOS], first) == 0;
	}
	if (last != NULL) {
		if (s->text[EOS] != NULL && strcmp(s->text[EOS], last) != 0)
			s->text[EOT] = s->text[EOS];
		s->text[EOS] = last;
		s->add[EOS] = 1;
	}
}

static void
read_processor(yyjson_val *p, struct specials *s)
{
	const char *type = qwen_hub_str(p, "type");
	int i;

	if (type == NULL)
		return;
	if (strcmp(type, "ByteLevel") == 0) {
		for (i = BOS; i <= EOS; i++)
			s->add[i] = s->add[i] < 0 ? 0 : s->add[i];
	} else if (strcmp(type, "TemplateProcessing") == 0)
		read_template(p, s);
}

static void
read_specials(const struct vocab *v, struct specials *s)
{
	yyjson_val *config = yyjson_doc_get_root(v->config), *p, *list, *x;
	size_t i, n;

	memset(s, 0, sizeof *s);
	for (i = 0; i < N_SPECIAL; i++) {
		s->add[i] = -1;
		if (special[i].token != NULL)
			s->text[i] = content(yyjson_obj_get(config,
			    special[i].token));
	}
	p = yyjson_obj_get(v->root, "post_processor");
	list = yyjson_obj_get(p, "processors");
	if (!yyjson_is_arr(list))
		read_processor(p, s);
	yyjson_arr_foreach(list, i, n, x)
		read_processor(x, s);
	for (i = 0; i < N_SPECIAL; i++) {
		x = special[i].add == NULL ? NULL :
		    yyjson_obj_get(config, special[i].add);
		if (s->add[i] < 0 && yyjson_is_bool(x))
			s->add[i] = yyjson_get_bool(x);
	}
}

static void
put_special(const struct vocab *v, struct specials *s, int which, uint64_t id)
{
	char key[64];

	if (s->put[which] || id > UINT32_MAX)
		return;
	s->put[which] = 1;
	snprintf(key, sizeof key, "tokenizer.ggml.%s_token_id",
	    special[which].key);
	qwen_gguf_put_u32(v->w, key, (uint32_t)id);
}

static void
put_specials(const struct vocab *v)
{
	yyjson_val *added = yyjson_obj_get(v->root, "added_tokens"), *t, *x;
	struct specials s;
	const char *text;
	uint64_t id;
	size_t i, k, n;
	char key[64];

	read_specials(v, &s);
	for (i = 0; i < N_SPECIAL; i++) {
		yyjson_arr_foreach(added, k, n, t) {
			text = qwen_hub_str(t, "content");
			if (s.text[i] != NULL && text != NULL &&
			    strcmp(text, s.text[i]) == 0 && qwen_hub_u64(
			    yyjson_obj_get(t, "id"), &id) == 0)
				put_special(v, &s, (int)i, id);
		}
	}
	for (i = 0; i < N_SPECIAL; i++) {
		/* here the top level of the config comes before text_config */
		x = yyjson_obj_get(yyjson_doc_get_root(v->h->config),
		    special[i].id);
		if (x == NULL || yyjson_is_null(x))
			x = yyjson_obj_get(v->h->text, special[i].id);
		if (qwen_hub_u64(x, &id) == 0)
			put_special(v, &s, (int)i, id);
	}
	for (i = 0; i < N_SPECIAL; i++) {
		if (s.add[i] < 0 || special[i].add == NULL)
			continue;
		snprintf(key, sizeof key, "tokenizer.ggml.%s", special[i].add);
		qwen_gguf_put_bool(v->w, key, s.add[i]);
	}
}

/* ----------------------------------------------------------- chat template */

/* Returns the template; of several the one named "default". */
static const char *
template_of(yyjson_val *t)
{
	yyjson_val *x;
	const char *name;
	size_t i, n;

	yyjson_arr_foreach(t, i, n, x) {
		name = qwen_hub_str(x, "name");
		if (name != NULL && strcmp(name, "default") == 0)
			return qwen_hub_str(x, "template");
	}
	return yyjson_get_str(t);
}

static int
put_template(const struct vocab *v)
{
	yyjson_doc *doc = NULL;
	const char *s = template_of(yyjson_obj_get(
	    yyjson_doc_get_root(v->config), "chat_template"));
	char *text = NULL;
	int rc = 0;

	if (s == NULL) {
		if ((rc = qwen_hub_text(v->h, "chat_template.jinja", &text)) ==
		    1)
			s = text;
		else if (rc == 0 &&
		    (rc = qwen_hub_json(v->h, "chat_template.json", &doc)) == 1)
			s = template_of(yyjson_obj_get(
			    yyjson_doc_get_root(doc), "chat_template"));
	}
	if (rc >= 0 && s != NULL)
		qwen_gguf_put_str(v->w, "tokenizer.chat_template", s);
	free(text);
	yyjson_doc_free(doc);
	return rc < 0 ? -1 : 0;
}

/* --------------------------------------------------------------- interface */

static int
count(struct vocab *v)
{
	yyjson_val *model = yyjson_obj_get(v->root, "model");
	const char *type = qwen_hub_str(model, "type");
	uint32_t n = 0;

	if (!yyjson_is_obj(yyjson_obj_get(model, "vocab")) ||
	    (type != NULL && strcmp(type, "BPE") != 0))
		return qwen_hub_fail(v->h, "tokenizer.json", "not a BPE "
		    "vocabulary; use --no-vocab to leave it out");
	if (qwen_hub_need_u32(v->h, "vocab_size", &n) < 0)
		return -1;
	if (n > QWEN_VOCAB_MAX)
		return qwen_hub_bad(v->h, "a vocabulary of %u", n);
	v->n = n;
	return 0;
}

int
qwen_hub_token_id(const struct qwen_hub *h, const char *token, uint64_t *id)
{
	yyjson_doc *doc;
	int rc = qwen_hub_json(h, "tokenizer.json", &doc);

	if (rc <= 0)
		return rc;
	rc = qwen_hub_u64(yyjson_obj_get(yyjson_obj_get(yyjson_obj_get(
	    yyjson_doc_get_root(doc), "model"), "vocab"), token), id) == 0;
	yyjson_doc_free(doc);
	return rc;
}

int
qwen_hub_put_vocab(struct qwen_hub_gguf *g)
{
	struct vocab v = { .h = g->hub, .w = g->w };
	int rc = qwen_hub_json(v.h, "tokenizer.json", &v.doc);

	if (rc == 0) {
		qwen_gguf_note(g->w, "no tokenizer.json: the file gets no "
		    "vocabulary, and no tool will read text with it");
		return 0;
	}
	v.root = yyjson_doc_get_root(v.doc);
	if (rc > 0)
		rc = qwen_hub_json(v.h, "tokenizer_config.json", &v.config) <
		    0 ? -1 : count(&v);
	if (rc == 0) {
		qwen_gguf_put_str(v.w, "tokenizer.ggml.model", "gpt2");
		put_pre(&v);
	}
	if (rc == 0 && (rc = put_tokens(&v)) == 0 &&
	    (rc = put_merges(&v)) == 0) {
		put_specials(&v);
		rc = put_template(&v);
	}
	free(v.token);
	free(v.type);
	yyjson_doc_free(v.doc);
	yyjson_doc_free(v.config);
	return rc;
}
