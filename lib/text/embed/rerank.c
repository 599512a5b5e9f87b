/* SPDX-License-Identifier: ISC */
/* rerank.c - prompts that ask a model whether a document answers a query. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "qwentext.h"
#include "text/embed/rerank.h"

#define KEY QWEN_RERANK_KEY
#define QUERY "{query}"
#define DOCUMENT "{document}"
#define INSTRUCT "<Instruct>: "

static const char usual[] = QWEN_RERANK_TEMPLATE;

enum { TEMPLATE_MAX = 1 << 20 };

/* Kinds of template parts. */
enum kind { PART_TEXT, PART_INSTRUCT, PART_QUERY, PART_DOCUMENT };

struct prompt_piece {
	enum kind	 kind;
	struct qwen_str	 s;	/* of PART_TEXT, in source */
};

struct qwen_reranker {
	char		*source;
	char		*instruct;	/* or NULL */
	struct prompt_piece	*part;
	size_t		 n_part, cap_part;
	size_t		 yes;		/* index of the class; SIZE_MAX:
					   unknown */
	size_t		 n_labels;
	int32_t		 id[2];		/* tokens of yes and no; -1: none */
};

void
qwen_reranker_close(struct qwen_reranker *r)
{
	if (r == NULL)
		return;
	free(r->source);
	free(r->instruct);
	free(r->part);
	free(r);
}

/* ------------------------------------------------------------ the template */

static int
add_piece(struct qwen_reranker *r, enum kind kind, const char *s, size_t n,
    struct qwen_err *err)
{
	if (kind == PART_TEXT && n == 0)
		return 0;
	if (qwen_grow(&r->part, &r->cap_part, r->n_part + 1,
	    sizeof *r->part) < 0)
		return qwen_oom(err);
	r->part[r->n_part++] = (struct prompt_piece){ kind, { s, n } };
	return 0;
}

/* Adds the text from s to end; {query} and {document} in it become pieces. */
static int
add_marked(struct qwen_reranker *r, const char *s, const char *end,
    struct qwen_err *err)
{
	static const struct { const char *s; size_t n; enum kind kind; }
	mark[] = {
		{ QUERY, sizeof QUERY - 1, PART_QUERY },
		{ DOCUMENT, sizeof DOCUMENT - 1, PART_DOCUMENT },
	};
	const char *from = s;
	size_t i;

	while (s < end) {
		for (i = 0; i < 2 && ((size_t)(end - s) < mark[i].n ||
		    memcmp(s, mark[i].s, mark[i].n) != 0); i++)
			;
		if (i == 2) {
			s++;
			continue;
		}
		if (add_piece(r, PART_TEXT, from, (size_t)(s - from),
		    err) < 0 ||
		    add_piece(r, mark[i].kind, NULL, 0, err) < 0)
			return -1;
		from = s += mark[i].n;
	}
	return add_piece(r, PART_TEXT, from, (size_t)(s - from), err);
}

static int
has(const struct qwen_reranker *r, enum kind kind)
{
	size_t i;

	for (i = 0; i < r->n_part && r->part[i].kind != kind; i++)
		;
	return i < r->n_part;
}

static int
parse(struct qwen_reranker *r, size_t n, struct qwen_err *err)
{
	const char *s = r->source, *end = s + n, *at;

	if (r->instruct != NULL) {
		if ((at = strstr(s, INSTRUCT)) == NULL)
			return qwen_fail(err, QWEN_EUNSUP, KEY " has no place "
			    "for an instruction (\"" INSTRUCT "\")");
		at += sizeof INSTRUCT - 1;
		if (add_marked(r, s, at, err) < 0 ||
		    add_piece(r, PART_INSTRUCT, r->instruct,
		    strlen(r->instruct),
		    err) < 0)
			return -1;
		s = at + strcspn(at, "\n");
	}
	if (add_marked(r, s, end, err) < 0)
		return -1;
	return has(r, PART_QUERY) && has(r, PART_DOCUMENT) ? 0 :
	    qwen_fail(err, QWEN_EFORMAT, KEY " has not both " QUERY " and "
	    DOCUMENT);
}

static int
read_template(struct qwen_reranker *r, const struct qwen_gguf *g,
    const char *instruct, struct qwen_err *err)
{
	struct qwen_str s = { usual, sizeof usual - 1 };

	if (qwen_gguf_get_str(g, KEY, &s, err) < 0)
		return -1;
	if (s.len > TEMPLATE_MAX)
		return qwen_fail(err, QWEN_EUNSUP, KEY " has %zu bytes; at "
		    "most %d are read", s.len, TEMPLATE_MAX);
	if ((r->source = malloc(s.len + 1)) == NULL ||
	    (instruct != NULL && (r->instruct = strdup(instruct)) == NULL))
		return qwen_oom(err);
	memcpy(r->source, s.s, s.len);
	r->source[s.len] = '\0';
	return parse(r, s.len, err);
}

/* ---------------------------------------------------------------- yes or no */

static int
is(struct qwen_str s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.s, word, s.len) == 0;
}

/* Returns the index of the word among the strings, or SIZE_MAX. */
static size_t
find_word(const struct qwen_gguf_kv *kv, const char *word)
{
	size_t pos = 0, i;
	struct qwen_str s;

	for (i = 0; qwen_gguf_next_str(kv, &pos, &s); i++) {
		if (is(s, word))
			return i;
	}
	return SIZE_MAX;
}

static int
is_strings(const struct qwen_gguf_kv *kv)
{
	return kv != NULL && kv->elem == QWEN_GGUF_STRING;
}

static void
read_words(struct qwen_reranker *r, const struct qwen_gguf *g)
{
	static const char *const word[2] = { "yes", "no" };
	const struct qwen_gguf_kv *kv;
	struct qwen_str arch = { "", 0 };
	char key[128];
	size_t at, i;

	qwen_gguf_get_str(g, "general.architecture", &arch, NULL);
	snprintf(key, sizeof key, "%.*s.classifier.output_labels",
	    arch.len > 60 ? 60 : (int)arch.len, arch.s);
	r->yes = SIZE_MAX;
	kv = qwen_gguf_find(g, key);
	if (is_strings(kv)) {
		r->n_labels = (size_t)kv->n;
		r->yes = find_word(kv, "yes");
		/* transformers' default names of two classes: no and yes */
		if (r->yes == SIZE_MAX && kv->n == 2 &&
		    find_word(kv, "LABEL_0") == 0)
			r->yes = find_word(kv, "LABEL_1");
	}
	kv = qwen_gguf_find(g, "tokenizer.ggml.tokens");
	for (i = 0; i < 2; i++) {
		at = is_strings(kv) ? find_word(kv, word[i]) : SIZE_MAX;
		r->id[i] = at < QWEN_VOCAB_MAX ? (int32_t)at : -1;
	}
}

int
qwen_reranker_open(struct qwen_reranker **out, const struct qwen_gguf *g,
    const char *instruct, struct qwen_err *err)
{
	struct qwen_reranker *r = calloc(1, sizeof *r);

	*out = NULL;
	if (r == NULL)
		return qwen_oom(err);
	if (read_template(r, g, instruct, err) < 0) {
		qwen_reranker_close(r);
		return -1;
	}
	read_words(r, g);
	*out = r;
	return 0;
}

int
qwen_reranker_yes(const struct qwen_reranker *r, size_t n, size_t *yes,
    int32_t ids[2], struct qwen_err *err)
{
	*yes = 0;
	memcpy(ids, r->id, sizeof r->id);
	if (n == 0)
		return r->id[0] >= 0 && r->id[1] >= 0 ? 0 : qwen_fail(err,
		    QWEN_EUNSUP, "not a reranker: no cls.output.weight and no "
		    "tokens \"yes\" and \"no\"");
	/*
	 * Without labels: Qwen's rerankers have yes, then no, and llama.cpp's
	 * server uses the first of any classes.  A single number is yes minus
	 * no.
	 */
	if (r->n_labels == 0 && n <= 2)
		return 0;
	if (n == 1 && r->n_labels == 1)
		return 0;
	if (r->n_labels != n || r->yes == SIZE_MAX)
		return qwen_fail(err, QWEN_EUNSUP, "cls.output.weight has %zu "
		    "classes, but none is known to mean \"yes\"", n);
	*yes = r->yes;
	return 0;
}

/* ------------------------------------------------------------------ prompts */

/*
 * A prompt under construction: its text, and for each byte whether control
 * tokens are recognised in it.
 */
struct prompt {
	struct qwen_text	 text, own;
};

static void
put_text(struct prompt *p, struct qwen_str s, int own)
{
	char mark[256];
	size_t n, left;

	memset(mark, own, sizeof mark);
	qwen_text_add(&p->text, s.s, s.len);
	for (left = s.len; left > 0; left -= n) {
		n = left < sizeof mark ? left : sizeof mark;
		qwen_text_add(&p->own, mark, n);
	}
}

static int
encode(const struct qwen_tok *tok, struct prompt *p, int32_t **ids, size_t *n,
    struct qwen_err *err)
{
	int rc;

	rc = p->text.failed || p->own.failed ? qwen_oom(err) :
	    qwen_tok_encode_trusted(tok, p->text.n > 0 ? p->text.s : "",
	    (const unsigned char *)(p->own.n > 0 ? p->own.s : ""), p->text.n,
	    ids, n, err);
	qwen_text_fini(&p->text);
	qwen_text_fini(&p->own);
	return rc;
}

/* Counts the ids of everything except the document. */
static int
count_others(const struct qwen_reranker *r, const struct qwen_tok *tok,
    struct qwen_str query, int special, size_t *n, struct qwen_err *err)
{
	struct prompt p = { 0 };
	int32_t *ids;
	size_t i;

	for (i = 0; i < r->n_part; i++) {
		const struct prompt_piece *q = &r->part[i];

		if (q->kind != PART_DOCUMENT)
			put_text(&p, q->kind == PART_QUERY ? query : q->s,
			    q->kind == PART_TEXT || special);
	}
	if (encode(tok, &p, &ids, n, err) < 0)
		return -1;
	free(ids);
	return 0;
}

/*
 * Truncates n ids to max, so that the last part of the template still ends
 * them.  Only a document right before that part is truncated, and not entirely;
 * otherwise the ids are unchanged.
 */
static int
cut(const struct qwen_reranker *r, const struct qwen_tok *tok,
    struct qwen_str query, int special, size_t max, int32_t *ids, size_t *n,
    struct qwen_err *err)
{
	const struct prompt_piece *last = &r->part[r->n_part - 1];
	struct prompt p = { 0 };
	int32_t *tail;
	size_t n_tail, others;

	if (r->n_part < 2 || last->kind != PART_TEXT ||
	    last[-1].kind != PART_DOCUMENT)
		return 0;
	if (count_others(r, tok, query, special, &others, err) < 0)
		return -1;
	if (others >= max)
		return 0;
	put_text(&p, last->s, 1);
	if (encode(tok, &p, &tail, &n_tail, err) < 0)
		return -1;
	if (n_tail < max && n_tail <= *n) {
		memcpy(ids + max - n_tail, tail, n_tail * sizeof *tail);
		*n = max;
	}
	free(tail);
	return 0;
}

int
qwen_reranker_encode(const struct qwen_reranker *r,
    const struct qwen_tok *tok, struct qwen_str query, struct qwen_str document,
    unsigned flags, size_t max, int32_t **ids, size_t *n_ids, size_t *n_all,
    struct qwen_err *err)
{
	int special = (flags & QWEN_TOK_SPECIAL) != 0;
	struct prompt p = { 0 };
	size_t i;

	*ids = NULL;
	*n_ids = 0;
	for (i = 0; i < r->n_part; i++) {
		const struct prompt_piece *q = &r->part[i];

		put_text(&p, q->kind == PART_QUERY ? query : q->kind ==
		    PART_DOCUMENT ? document : q->s,
		    q->kind == PART_TEXT || special);
	}
	if (encode(tok, &p, ids, n_ids, err) < 0)
		return -1;
	if (n_all != NULL)
		*n_all = *n_ids;
	if (max == 0 || *n_ids <= max ||
	    cut(r, tok, query, special, max, *ids, n_ids, err) == 0)
		return 0;
	free(*ids);
	*ids = NULL;
	*n_ids = 0;
	return -1;
}
