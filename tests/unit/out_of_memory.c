/* SPDX-License-Identifier: ISC */
/*
 * out_of_memory.c - malloc fails at every place in the library: each call
 * returns QWEN_ENOMEM, sets *out to NULL, and frees all that it allocated.
 *
 * A scenario runs once to record where it allocates, then once per place, which
 * fails the first time, the last time, or from the first time on.  make check
 * tries some of the places, drawn from SEED, each in one of these ways.
 */
#define _GNU_SOURCE
#include <sys/stat.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "text/schema/rules.h"
#include "qwen.h"
#include "qwentext.h"
#include "synth/synth.h"
#include "../faults/alloc.h"
#include "../tap.h"
#include "../tree.h"

#define MOST	4096	/* places */
#define FEW	24	/* of them, in a check */

static char dir[1024], model_path[1100], state_path[1100], store_path[1100],
    mapped_path[1100];
static const char *top;
static struct qwen_err err;
static uint64_t sum;		/* of what came out */
static int not_null;		/* an *out after a failure */

static void
note(const void *p, size_t n)
{
	const unsigned char *s = p;

	while (n-- > 0)
		sum = (sum ^ *s++) * 1099511628211u;
}

/* What a call returned that makes an object; out is the pointer's address. */
static int
made(int rc, const void *out)
{
	void *p;

	memcpy(&p, out, sizeof p);
	not_null |= rc < 0 && p != NULL;
	return rc;
}

/* ------------------------------------------------------------ ground floor */

static int
open_file(const char *name)
{
	struct qwen_gguf *g;
	char path[1200];
	int rc;

	snprintf(path, sizeof path, "%s/tests/files/gguf/%s", top, name);
	rc = made(qwen_gguf_open(&g, path, &err), &g);
	if (rc == 0)
		qwen_gguf_close(g);
	return rc;
}

static int
gguf(void)
{
	return open_file("good-types.gguf") < 0 ||
	    open_file("good-split-00001-of-00003.gguf") < 0 ||
	    open_file("good-vocab.gguf") < 0 ? -1 : 0;
}

/* What is refused leaves nothing either. */
static int
gguf_refused(void)
{
	static const char *const bad[] = {
		"bad-name-duplicate.gguf", "bad-overlap.gguf",
		"bad-array-string-cut.gguf", "bad-key-duplicate.gguf",
		"bad-split-count-00001-of-00002.gguf",
	};
	size_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (open_file(bad[i]) == 0)
			abort();
		if (err.code == QWEN_ENOMEM)
			return -1;
		note(err.msg, strlen(err.msg));
	}
	return 0;
}

/* -------------------------------------------------------------------- text */

static int
text_of(const struct qwen_tok *t, const int32_t *ids, size_t n)
{
	struct qwen_tok_decoder *d;
	struct qwen_str s;
	size_t i;
	int rc;

	if ((rc = made(qwen_tok_decoder_new(&d, t, 0, &err), &d)) < 0)
		return -1;
	for (i = 0; i < n && rc == 0; i++) {
		if ((rc = qwen_tok_decoder_put(d, ids[i], &s, &err)) == 0)
			note(s.s, s.len);
	}
	qwen_tok_decoder_free(d);
	return rc;
}

static int
tokens_of(const struct qwen_tok *t)
{
	static const char text[] = "In the beginning <|im_end|> caf\xc3\xa9 12";
	struct qwen_tok_encoder *e;
	const int32_t *part;
	int32_t *ids;
	size_t n;
	int rc;

	rc = made(qwen_tok_encode(t, text, sizeof text - 1, QWEN_TOK_SPECIAL,
	    &ids, &n, &err), &ids);
	if (rc < 0)
		return -1;
	note(ids, n * sizeof *ids);
	rc = text_of(t, ids, n);
	free(ids);
	if (rc < 0 || made(qwen_tok_encoder_new(&e, t, 0, &err), &e) < 0)
		return -1;
	rc = qwen_tok_encoder_feed(e, text, 9, &part, &n, &err);
	if (rc == 0)
		rc = qwen_tok_encoder_feed(e, text + 9, sizeof text - 10,
		    &part, &n, &err);
	if (rc == 0)
		rc = qwen_tok_encoder_finish(e, &part, &n, &err);
	qwen_tok_encoder_free(e);
	return rc;
}

/* The same of a text that is normalised, in a build that can. */
static int
nfc_tokens_of(const struct qwen_tok *t)
{
	struct qwen_tok *to = (struct qwen_tok *)(uintptr_t)t;
	int rc = qwen_tok_set_nfc(to, 1, &err);

	if (rc < 0 && err.code == QWEN_EUNSUP)
		return 0;
	return rc < 0 ? -1 : tokens_of(t);
}

static int
with_tok(int (*fn)(const struct qwen_tok *, const struct qwen_gguf *))
{
	struct qwen_gguf *g;
	struct qwen_tok *t = NULL;
	int rc;

	if (made(qwen_gguf_open(&g, model_path, &err), &g) < 0)
		return -1;
	rc = made(qwen_tok_open(&t, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE, &err),
	    &t);
	if (rc == 0)
		rc = fn(t, g);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	return rc;
}

static int
all_tokens(const struct qwen_tok *t, const struct qwen_gguf *g)
{
	struct qwen_pieces *p;
	int rc = tokens_of(t);

	if (rc == 0)
		rc = nfc_tokens_of(t);
	if (rc == 0 && (rc = made(qwen_pieces_open(&p, g, &err), &p)) == 0)
		qwen_pieces_close(p);
	return rc;
}

static int
tok(void)
{
	return with_tok(all_tokens);
}

static const char request[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"},"
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\":"
    "\"function\", \"function\": {\"name\": \"f\", \"arguments\":"
    "\"{\\\"n\\\": 1}\"}}]}, {\"role\": \"tool\", \"content\": \"2\"}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\","
    "\"parameters\": {\"type\": \"object\", \"properties\": {\"n\":"
    "{\"type\": \"integer\"}, \"b\": {\"type\": \"boolean\"}}}}}]}";

static int
prompt_of(const char *template, const struct qwen_tok *t)
{
	struct qwen_template *c;
	struct qwen_prompt *p;
	int32_t *ids;
	size_t n;
	int rc;

	if (made(qwen_template_open(&c, template, &err), &c) < 0)
		return -1;
	rc = made(qwen_template_render(c, request, sizeof request - 1, &p, &err),
	    &p);
	if (rc == 0) {
		n = qwen_prompt_text(p).len;
		note(qwen_prompt_text(p).s, n);
		rc = made(qwen_prompt_encode(p, t, 0, n, &ids, &n, &err), &ids);
		if (rc == 0)
			free(ids);
		qwen_prompt_free(p);
	}
	qwen_template_close(c);
	return rc;
}

static int
prompts(const struct qwen_tok *t, const struct qwen_gguf *g)
{
	(void)g;
	return prompt_of("qwen3.6", t) < 0 || prompt_of("qwen3", t) < 0 ? -1 : 0;
}

static int
chat(void)
{
	return with_tok(prompts);
}

static int
texts_of_vectors(const struct qwen_tok *t, const struct qwen_gguf *g)
{
	struct qwen_str q = { "what?", 5 }, d = { "<|im_end|> {query}", 18 };
	struct qwen_embedding e = { .first = 1, .last = 2 };
	struct qwen_reranker *r = NULL;
	int32_t *ids, *of_rank = NULL;
	size_t n, all;
	int rc;

	rc = made(qwen_embedding_encode(&e, t, "Find", "it", 2, 0, &ids, &n,
	    &err), &ids);
	if (rc == 0)
		rc = made(qwen_reranker_open(&r, g, "Find", &err), &r);
	if (rc == 0)
		rc = made(qwen_reranker_encode(r, t, q, d, 0, 0, &of_rank,
		    &all, NULL, &err), &of_rank);
	free(of_rank);
	of_rank = NULL;
	if (rc == 0 && (rc = made(qwen_reranker_encode(r, t, q, d, 0, all - 4,
	    &of_rank, &all, NULL, &err), &of_rank)) == 0)
		note(of_rank, all * sizeof *of_rank);
	free(of_rank);
	free(ids);
	qwen_reranker_close(r);
	return rc;
}

static int
vectors(void)
{
	return with_tok(texts_of_vectors);
}

#include "oom_requests.h"

static int
requests(void)
{
	return with_tok(oom_service);
}

static int
on_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *e2)
{
	(void)arg;
	(void)e2;
	note(e->text.s, e->text.len);
	return 0;
}

static int
reply_to(const char *template, const char *text, int cut)
{
	static const char tools[] = "[{\"type\": \"function\", \"function\": {"
	    "\"name\": \"f\", \"parameters\": {\"type\": \"object\","
	    "\"properties\": {\"n\": {\"type\": \"integer\"}, \"b\":"
	    "{\"type\": \"boolean\"}, \"s\": {\"type\": \"string\"}}}}}]";
	struct qwen_reply_opts o = { .thinking = QWEN_THINKING_OPEN,
	    .tools = tools, .n_tools = sizeof tools - 1, .event = on_event };
	struct qwen_template *c;
	struct qwen_reply *r;
	size_t i, n = strlen(text), k;
	char *json;
	int rc;

	if (made(qwen_template_open(&c, template, &err), &c) < 0)
		return -1;
	rc = made(qwen_reply_new(&r, c, &o, &err), &r);
	for (i = 0; rc == 0 && i < n; i += k) {
		k = n - i < 7 ? n - i : 7;
		rc = qwen_reply_feed(r, text + i, k, &err);
	}
	if (rc == 0)
		rc = cut ? qwen_reply_cut(r, &err) :
		    qwen_reply_finish(r, &err);
	if (rc == 0 && (rc = made(qwen_reply_message(r, &json, &n, &err),
	    &json)) == 0) {
		note(json, n);
		free(json);
	}
	qwen_reply_free(r);
	qwen_template_close(c);
	return rc;
}

static int
reply(void)
{
	return reply_to("qwen3.6", "Hm.\n</think>\n\nNow:\n\n<tool_call>\n"
	    "<function=f>\n<parameter=n>\n1\n</parameter>\n<parameter=b>\nTrue\n"
	    "</parameter>\n<parameter=s>\nx\n</parameter>\n</function>\n"
	    "</tool_call>\n<tool_call>oh", 0) < 0 ||
	    reply_to("qwen3", "Hm.</think><tool_call>\n{\"name\": \"f\","
	    " \"arguments\": {\"n\": 1, \"s\": \"x\"}}\n</tool_call>", 0) <
	    0 ? -1 : 0;
}

/* Calls that are put right, and what there is of one that was cut off. */
static int
damaged_reply(void)
{
	return reply_to("qwen3.6", "Hm.\n</think>\n\n<tool_call>\n"
	    "  <function=f>\n    <parameter=s>\n      x\n    </parameter>\n"
	    "  <parameter=n>\n1\n</tool_call>\n<tool_call>\n[{\"name\": \"f\","
	    " \"parameters\": \"{\\\"s\\\": 1,}\"}]\n</tool_call>\n"
	    "<function=f>\n<parameter=s>\nx", 1) < 0 ||
	    reply_to("qwen3", "Hm.</think>```json\n{{\"name\": \"f\", "
	    "\"arguments\": {\"s\": \"x\ny\"}}}\n```", 0) < 0 ||
	    reply_to("qwen3", "Hm.</think>\n<tool_call>{\"name\": \"f\", "
	    "\"arguments\": {\"n\": 1, \"s", 1) < 0 ? -1 : 0;
}

static const char schema[] = "{\"type\": \"object\", \"properties\": {"
    "\"name\": {\"type\": \"string\", \"maxLength\": 3}, \"kind\": {\"enum\":"
    "[\"a\", \"b\", 1, null]}, \"at\": {\"type\": \"string\", \"pattern\":"
    "\"^[0-9]{2}-[a-f]$\"}, \"n\": {\"type\": \"integer\", \"minimum\": 3,"
    "\"maximum\": 17, \"format\": \"int32\"}, \"list\": {\"type\": \"array\","
    "\"items\": {\"anyOf\": [{\"type\": \"boolean\"}, {\"$ref\":"
    "\"#/$defs/x\"}]}, \"maxItems\": 2}}, \"required\": [\"name\", \"n\"],"
    "\"additionalProperties\": false, \"$defs\": {\"x\": {\"type\":"
    "\"number\"}}}";
static const char gbnf[] =
    "root ::= (\"a\" | [^b-d\\n]{2,3} word)+\nword ::= [a-z]* \".\" | \"\\n\"";

static int
schemas(void)
{
	struct qwen_grammar *g;
	char *text = NULL;
	size_t n;

	if (made(qwen_schema_gbnf(&text, &n, schema, sizeof schema - 1,
	    &(struct qwen_schema_how){ .strict = 1 }, &err), &text) < 0)
		return -1;
	note(text, n);
	free(text);
	if (made(qwen_grammar_open_schema(&g, schema, sizeof schema - 1, &err),
	    &g) < 0)
		return -1;
	qwen_grammar_close(g);
	return 0;
}

static int
grammar_refused(void)
{
	static const char *const bad[] = {
		"root ::= [a-", "root ::= x", "root ::= (\"a\" | root",
		"root ::= root \"a\"", "x ::= \"a\"", "root ::= \"\\xff\"",
	};
	static const char *const bad_schema[] = {
		"{", "{\"type\": \"thing\"}", ("{\"type\": \"string\", "
		"\"pattern\": \"(?<=a)\"}"), "{\"$ref\": \"#/none\"}",
		"{\"enum\": []}", "{\"minimum\": 5, \"maximum\": 2}",
	};
	struct qwen_grammar *g;
	size_t i;

	for (i = 0; i < 6; i++) {
		if (made(qwen_grammar_open(&g, bad[i], strlen(bad[i]), &err),
		    &g) == 0) {
			qwen_grammar_close(g);
			continue;
		}
		if (err.code == QWEN_ENOMEM)
			return -1;
		note(err.msg, strlen(err.msg));
	}
	for (i = 0; i < 6; i++) {
		if (made(qwen_grammar_open_schema(&g, bad_schema[i],
		    strlen(bad_schema[i]), &err), &g) == 0) {
			qwen_grammar_close(g);
			continue;
		}
		if (err.code == QWEN_ENOMEM)
			return -1;
		note(err.msg, strlen(err.msg));
	}
	return 0;
}

/* ---------------------------------------------------------------- sampling */

static int
draw(struct qwen_sampler *s, size_t n_vocab)
{
	static float logits[1000];
	int32_t id;
	size_t i, k;

	if (qwen_sampler_begin(s, n_vocab, &err) < 0)
		return -1;
	for (i = 0; i < 5; i++) {
		for (k = 0; k < n_vocab; k++)
			logits[k] = (float)((k * 7919 + i * 31) % 97) / 20;
		if (qwen_sampler_sample(s, logits, NULL, n_vocab, i, &id,
		    &err) < 0 || qwen_sampler_accept(s, &id, 1, 1, &err) < 0)
			return -1;
		note(&id, sizeof id);
	}
	return 0;
}

static int
set_all(struct qwen_sampler *s)
{
	static const char *const opt[][2] = {
		{ "temp", "0.9" }, { "seed", "7" }, { "top-k", "60" },
		{ "top-p", "0.95" }, { "min-p", "0.001" }, { "typical", "0.9" },
		{ "repeat-penalty", "1.1" }, { "frequency-penalty", "0.1" },
		{ "dry-multiplier", "0.8" }, { "dry-breaker", "x" },
		{ "dry-allowed-length", "1" }, { "xtc-probability", "0.2" },
		{ "logit-bias", "3=1.5" }, { "stop", "abc" }, { "stop", "de" },
		{ "top-n-sigma", "3" }, { "dyntemp-max", "1.2" },
		{ "min-tokens", "1" },
	};
	size_t i;

	for (i = 0; i < sizeof opt / sizeof opt[0]; i++) {
		if (qwen_sampler_set(s, opt[i][0], opt[i][1], &err) < 0)
			return -1;
	}
	return 0;
}

static int
all_methods(const struct qwen_pieces *p, size_t n_vocab)
{
	static const int32_t some[] = { 1, 5 };
	struct qwen_sampler *s;
	int rc;

	if (made(qwen_sampler_new(&s, &err), &s) < 0)
		return -1;
	rc = set_all(s);
	if (rc == 0)
		rc = qwen_sampler_eog(s, some, 2, &err);
	if (rc == 0)
		rc = qwen_sampler_mask(s, some + 1, 1, &err);
	qwen_sampler_pieces(s, p);
	if (rc == 0)
		rc = draw(s, n_vocab);
	qwen_sampler_free(s);
	return rc;
}

static int
by_grammar(const struct qwen_pieces *p, size_t n_vocab)
{
	struct qwen_sampler *s = NULL;
	struct qwen_grammar *g;
	struct qwen_trie *t = NULL;
	int rc;

	if (made(qwen_grammar_open(&g, gbnf, sizeof gbnf - 1, &err), &g) < 0)
		return -1;
	rc = made(qwen_trie_new(&t, p, &err), &t);
	if (rc == 0)
		rc = made(qwen_sampler_new(&s, &err), &s);
	if (rc == 0)
		rc = qwen_sampler_set(s, "temp", "1", &err);
	if (rc == 0) {
		qwen_sampler_pieces(s, p);
		qwen_sampler_constrain(s, qwen_grammar_constraint(g, t));
		rc = draw(s, n_vocab);
	}
	qwen_sampler_free(s);
	qwen_trie_free(t);
	qwen_grammar_close(g);
	return rc;
}

static int
best(void)
{
	static const float row[] = { 1, 3, 2, 5 };
	struct qwen_sample_top b[2];

	if (qwen_sample_top(row, NULL, 4, 4, b, 2, &err) < 0)
		return -1;
	note(&b[0].id, sizeof b[0].id);
	return 0;
}

static int
sample_texts(const struct qwen_tok *t, const struct qwen_gguf *g)
{
	struct qwen_pieces *p;
	int rc;

	if (made(qwen_pieces_open(&p, g, &err), &p) < 0)
		return -1;
	rc = all_methods(p, qwen_tok_n_vocab(t)) < 0 ||
	    by_grammar(p, qwen_tok_n_vocab(t)) < 0 || best() < 0 ? -1 : 0;
	qwen_pieces_close(p);
	return rc;
}

static int
sampler(void)
{
	return with_tok(sample_texts);
}

/* --------------------------------------------------------------- computing */

static const int32_t ids[] = {
	5, 9, 17, 33, 65, 129, 257, 2, 4, 8, 16, 32, 64, 128, 256, 511, 3, 6,
	12, 24, 48, 96,
};
#define N_IDS (sizeof ids / sizeof ids[0])

static struct qwen_adapter adapter = { .scale = 0.5 };
static char adapter_path[1100];

static int
with_model(int (*fn)(struct qwen_model *))
{
	/* there is an adapter in some scenarios */
	struct qwen_model_opts o = { .n_threads = 1, .adapters = &adapter,
	    .n_adapters = adapter.path != NULL };
	struct qwen_model *m;
	int rc;

	if (made(qwen_model_open(&m, model_path, &o, &err), &m) < 0)
		return -1;
	rc = fn(m);
	qwen_model_close(m);
	return rc;
}

static int
look(const struct qwen_session *s)
{
	note(qwen_session_logits(s), sizeof(float) *
	    qwen_model_n_vocab(qwen_session_model(s)));
	return 0;
}

static int
read_all(struct qwen_session *s)
{
	static const uint64_t at[] = { 4, 11 };
	struct qwen_checkpoints keep = { .at = at, .n_at = 2 };
	struct qwen_eval how = { .keep = &keep };

	return qwen_session_eval(s, ids, N_IDS, &how, &err);
}

/* Forks, checkpoints, and a cut. */
static int
timeline(struct qwen_model *m)
{
	struct qwen_session *s, *f;
	struct qwen_part part[2] = { 0 };
	size_t at;
	int rc;

	if (made(qwen_session_new(&s, m, &err), &s) < 0)
		return -1;
	rc = read_all(s) < 0 || look(s) < 0 ||
	    made(qwen_session_fork(&f, s, &err), &f) < 0 ? -1 : 0;
	if (rc == 0) {
		part[0] = (struct qwen_part){ .s = s, .tokens = ids, .n = 3,
		    .guess = ids + 3, .n_guess = 4 };
		part[1] = (struct qwen_part){ .s = f, .tokens = ids, .n = 1 };
		rc = qwen_eval_parts(part, 2, &err) < 0 || look(f) < 0 ||
		    look(s) < 0 ||
		    qwen_session_eval(s, ids + 3, 2, NULL, &err) < 0 ||
		    look(s) < 0 || qwen_session_keep(s, 1, &err) < 0 ||
		    qwen_session_rewind(s, 12, 0, &at, &err) < 0 ||
		    qwen_session_eval(s, ids + at, 2, NULL, &err) < 0 ||
		    look(s) < 0 ? -1 : 0;
		qwen_session_free(f);
	}
	qwen_session_free(s);
	return rc;
}

static int
note_stage(void *arg, const struct qwen_trace_value *v, struct qwen_err *e)
{
	(void)arg;
	(void)e;
	if (v->row != NULL)
		note(v->row, v->n * sizeof *v->row);
	return 0;
}

static int
note_name(void *arg, const struct qwen_trace_stage *st)
{
	(void)arg;
	note(st->name, strlen(st->name));
	return 0;
}

/* Looked at while it computes. */
static int
looked_at(struct qwen_model *m)
{
	static const char *const stages[] = { "*.ffn", "*.probs.h0", "logits" };
	static const struct qwen_trace_range at[] = { { 2, 5 }, { 7, 7 } };
	const struct qwen_trace t = { .patterns = stages, .n_patterns = 3,
	    .at = at, .n_at = 2, .value = note_stage };
	struct qwen_session *s;
	int rc;

	if (qwen_trace_stages(qwen_model_gguf(m), note_name, NULL, &err) < 0 ||
	    made(qwen_session_new(&s, m, &err), &s) < 0)
		return -1;
	rc = qwen_session_trace(s, &t, &err) < 0 || read_all(s) < 0 ||
	    look(s) < 0 ? -1 : 0;
	qwen_session_free(s);
	return rc;
}

static int
tracing(void)
{
	return with_model(looked_at);
}

static int
session(void)
{
	return with_model(timeline);
}

static int
headers(struct qwen_model *m)
{
	struct qwen_header h;

	if (timeline(m) < 0 ||
	    qwen_model_header(&h, m, QWEN_STREAM_STATE, &err) < 0)
		return -1;
	note(&h.model, sizeof h.model);
	return 0;
}

static int
adapted(void)
{
	struct qwen_header h = { .kind = QWEN_STREAM_STATE };
	int rc;

	adapter.path = adapter_path;
	rc = with_model(headers);
	if (rc == 0 && (rc = qwen_header_adapt(&h, &adapter, 1, &err)) == 0)
		note(&h.model, sizeof h.model);
	adapter.path = NULL;
	return rc;
}

static int
save(const struct qwen_session *s, const char *path, int no_compress)
{
	struct qwen_state_opts o = { .no_compress = no_compress };
	struct qwen_writer_opts wo = { .format = QWEN_FORMAT_CBOR };
	struct qwen_writer *w;
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666), rc;

	rc = made(qwen_writer_open(&w, fd, &wo, &err), &w);
	if (rc == 0) {
		rc = qwen_state_save(s, NULL, w, &o, NULL, &err);
		if (rc == 0)
			rc = qwen_writer_close(w, &err);
		else
			qwen_writer_free(w);
	}
	close(fd);
	return rc;
}

static int
save_both(struct qwen_model *m)
{
	struct qwen_session *s;
	int rc;

	if (made(qwen_session_new(&s, m, &err), &s) < 0)
		return -1;
	rc = read_all(s) < 0 || save(s, state_path, 0) < 0 ||
	    save(s, mapped_path, 1) < 0 ? -1 : 0;
	qwen_session_free(s);
	return rc;
}

static int
saving(void)
{
	return with_model(save_both);
}

static int
restore(struct qwen_model *m, const char *path, size_t n)
{
	struct qwen_state_extra x = { 0 };
	struct qwen_state_file *f;
	struct qwen_session *s;
	int rc;

	if (made(qwen_state_open(&f, path, &err), &f) < 0)
		return -1;
	rc = made(qwen_state_restore(&s, &x, m, &f, 1, n, 0, &err), &s);
	qwen_state_close(f);
	if (rc == 0) {
		rc = qwen_session_eval(s, ids, 2, NULL, &err);
		if (rc == 0)
			look(s);
		qwen_session_free(s);
	}
	qwen_state_extra_fini(&x);
	return rc;
}

static int
load(struct qwen_model *m)
{
	struct qwen_state_extra x = { 0 };
	struct qwen_session *s;
	struct qwen_header h;
	size_t n;
	int32_t *t;

	if (made(qwen_state_load_file(&s, &x, m, state_path, NULL, &err),
	    &s) < 0)
		return -1;
	look(s);
	qwen_session_free(s);
	qwen_state_extra_fini(&x);
	if (made(qwen_state_load_tokens(&t, &n, &x, &h, state_path, NULL,
	    &err), &t) < 0)
		return -1;
	free(t);
	qwen_state_extra_fini(&x);
	return qwen_state_verify(state_path, 1, &err) < 0 ||
	    restore(m, state_path, SIZE_MAX) < 0 ||
	    restore(m, mapped_path, 11) < 0 ? -1 : 0;
}

static int
loading(void)
{
	return with_model(load);
}

static int
store_both(struct qwen_store *st, struct qwen_model *m)
{
	struct qwen_session *s, *found;
	struct qwen_store_list *l;
	int rc;

	if (made(qwen_session_new(&s, m, &err), &s) < 0)
		return -1;
	rc = read_all(s) < 0 || qwen_store_insert(st, s, &err) < 0 ? -1 : 0;
	qwen_session_free(s);
	if (rc < 0 || made(qwen_store_restore(st, &found, m, ids, N_IDS, &err),
	    &found) < 0)
		return -1;
	if (found != NULL)
		look(found);
	qwen_session_free(found);
	if (made(qwen_store_list(&l, st, &err), &l) < 0)
		return -1;
	qwen_store_list_free(l);
	return qwen_store_gc(st, 1 << 14, NULL, &err);
}

static int
stored(struct qwen_model *m)
{
	struct qwen_store_opts o = { .dir = store_path };
	struct qwen_store *st;
	int rc;

	if (made(qwen_store_open(&st, &o, &err), &st) < 0)
		return -1;
	rc = store_both(st, m);
	qwen_store_close(st);
	return rc;
}

static int
store(void)
{
	return with_model(stored);
}

static int
on_token(void *arg, const struct qwen_choice *c)
{
	(void)arg;
	note(&c->id, sizeof c->id);
	return 0;
}

static void
on_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	struct qwen_err *failed = arg;

	if (why == QWEN_JOB_FAILED && e != NULL)
		*failed = *e;
}

static void
on_hidden(void *arg, size_t at, const float *x)
{
	(void)arg;
	note(&at, sizeof at);
	note(x, sizeof *x);
}

/* Of a state of ones. */
static int
logits_of(const struct qwen_model *m, float logits[2])
{
	float *x = calloc(qwen_model_n_embd(m), sizeof *x);
	int rc;

	if (x == NULL) {
		err.code = QWEN_ENOMEM;
		strcpy(err.msg, "out of memory");
		return -1;
	}
	rc = qwen_model_logits(m, x, ids, 2, logits, &err);
	free(x);
	return rc;
}

/* Jobs with a common beginning; what fails one of them fails the whole. */
static int
work(struct qwen_model *m)
{
	struct qwen_err failed = { 0 }, other = { 0 };
	struct qwen_job job = { .tokens = ids, .n = N_IDS, .max = 3,
	    .token = on_token, .end = on_end, .arg = &failed, .logprobs = 1,
	    .n_top = 2 };
	struct qwen_job states = { .tokens = ids, .n = N_IDS - 2,
	    .from = N_IDS - 4, .hidden = on_hidden, .end = on_end,
	    .arg = &failed };
	struct qwen_work_opts o = { .model = m, .n_keep = 3 };
	static const size_t keep[] = { 17 };
	float logits[2];
	struct qwen_cache *c;
	struct qwen_work *w = NULL;
	int rc;

	if (made(qwen_cache_new(&c, m, 0, &err), &c) < 0)
		return -1;
	o.cache = c;
	rc = made(qwen_work_new(&w, &o, &err), &w);
	if (rc == 0)
		rc = qwen_work_add(w, &job, &err);
	job.n -= 3;
	job.keep = keep;
	job.n_keep = 1;
	if (rc == 0)
		rc = qwen_work_add(w, &job, &err);
	/* one that is cancelled, after some of it has been read */
	job.arg = &other;
	if (rc == 0)
		rc = qwen_work_add(w, &job, &err);
	if (rc == 0)
		rc = qwen_work_add(w, &states, &err);
	if (rc == 0)
		rc = qwen_work_step(w, &err) < 0 ? -1 : 0;
	if (rc == 0)
		qwen_work_cancel(w, &other);
	while (rc == 0 && (rc = qwen_work_step(w, &err)) > 0)
		rc = 0;
	qwen_work_free(w);
	qwen_cache_free(c);
	if (rc == 0)
		rc = logits_of(m, logits);
	if (rc == 0 && failed.code != 0) {
		err = failed;
		rc = -1;
	}
	return rc;
}

static int
many(void)
{
	return with_model(work);
}

/* ------------------------------------------------------------------ driver */

static const struct scenario {
	const char	*name;
	int		(*run)(void);
	int		(*before)(void);
} scenario[] = {
	{ "gguf", gguf, NULL },
	{ "gguf refused", gguf_refused, NULL },
	{ "tokenizer", tok, NULL },
	{ "chat template", chat, NULL },
	{ "vectors", vectors, NULL },
	{ "requests", requests, NULL },
	{ "reply", reply, NULL },
	{ "damaged reply", damaged_reply, NULL },
	{ "schema", schemas, NULL },
	{ "grammar refused", grammar_refused, NULL },
	{ "sampler", sampler, NULL },
	{ "session", session, NULL },
	{ "adapter", adapted, NULL },
	{ "trace", tracing, NULL },
	{ "saving", saving, NULL },
	{ "loading", loading, saving },
	{ "store", store, NULL },
	{ "many texts", many, NULL },
};

/* One run; what is wrong with it, or NULL. */
static const char *
run(const struct scenario *s, uint64_t place, unsigned long n, int all,
    uint64_t *out)
{
	uint64_t want = *out;
	long left;
	int rc;

	memset(&err, 0, sizeof err);
	sum = 1;
	not_null = 0;
	remove_tree(store_path);
	fault_watch(place, n, all);
	rc = s->run();
	left = fault_stop();
	*out = sum;
	if (left != 0)
		return "something is left";
	if (not_null)
		return "*out is not NULL";
	if (rc < 0 && err.code != QWEN_ENOMEM)
		return "another error";
	if (rc < 0 && strstr(err.msg, "out of memory") == NULL)
		return "a message that does not say so";
	if (rc == 0 && place != 0 && *out != want)
		return "it went on, with another result";
	return NULL;
}

static int
try(const struct scenario *s, uint64_t place, unsigned long n, int all,
    uint64_t want)
{
	const char *wrong = run(s, place, n, all, &want);

	if (wrong == NULL)
		return 0;
	printf("# %s, %lu%s: %s (%s)\n", s->name, n, all ? "+" : "", wrong,
	    err.msg);
	fault_print(place);
	return 1;
}

static uint64_t
draw_number(void)
{
	static uint64_t state;
	const char *seed = getenv("SEED");

	if (state == 0)
		state = seed != NULL ? strtoull(seed, NULL, 10) : 1;
	state = state * 6364136223846793005u + 1442695040888963407u;
	return state >> 33;
}

/* A place in each way, or in one that is drawn: how many were bad. */
static int
try_place(const struct scenario *s, uint64_t place, unsigned long met,
    uint64_t want)
{
	if (getenv("QPIPE_LONG") == NULL)
		return try(s, place, 1 + draw_number() % met,
		    (int)(draw_number() % 2), want);
	return try(s, place, 1, 0, want) + try(s, place, 1, 1, want) +
	    (met > 1 ? try(s, place, met, 0, want) : 0);
}

static void
try_all(const struct scenario *s)
{
	static uint64_t place[MOST];
	static unsigned long met[MOST];
	uint64_t want = 0;
	const char *wrong;
	size_t i, n, step;
	int bad = 0;

	if (s->before != NULL && s->before() < 0)
		abort();
	/* once before, for what is made once in a process */
	run(s, 0, 0, 0, &want);
	wrong = run(s, 0, 0, 0, &want);
	n = fault_places(place, met, MOST);
	ok(wrong == NULL && err.code != QWEN_ENOMEM && n > 0, "%s: %zu places%s%s",
	    s->name, n, wrong != NULL ? ", " : "", wrong != NULL ? wrong : "");
	step = getenv("QPIPE_LONG") != NULL || n < FEW ? 1 : n / FEW;
	for (i = step > 1 ? draw_number() % step : 0; i < n; i += step)
		bad += try_place(s, place[i], met[i], want);
	ok(bad == 0, "%s: a failure of each is told, and leaves nothing",
	    s->name);
}

/* The fixture, unpacked. */
static int
unpack(void)
{
	static unsigned char in[1 << 23], out[1 << 24];
	char path[1200];
	size_t n;
	FILE *f;

	snprintf(path, sizeof path,
	    "%s/tests/golden/models/qwen35moe-ud/model.gguf.zst", top);
	if ((f = fopen(path, "rb")) == NULL)
		return -1;
	n = fread(in, 1, sizeof in, f);
	fclose(f);
	n = ZSTD_decompress(out, sizeof out, in, n);
	if (ZSTD_isError(n) || (f = fopen(model_path, "wb")) == NULL)
		return -1;
	fwrite(out, 1, n, f);
	return fclose(f);
}

/* Made for it. */
static int
make_adapter(void)
{
	struct qwen_synth_lora o = { .seed = 3, .rank = 5, .alpha = 5 };
	struct qwen_gguf *g;
	int fd = open(adapter_path, O_WRONLY | O_CREAT, 0600), rc;

	if (fd < 0 || qwen_gguf_open(&g, model_path, &err) < 0)
		return -1;
	rc = qwen_synth_write_lora(g, &o, fd, &err);
	qwen_gguf_close(g);
	return close(fd) < 0 ? -1 : rc;
}

int
main(int argc, char *argv[])
{
	const char *tmp = getenv("TMPDIR");
	size_t i;

	if ((top = getenv("TOP")) == NULL)
		top = ".";
	snprintf(dir, sizeof dir, "%s/out-of-memory-XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL)
		return 1;
	snprintf(model_path, sizeof model_path, "%s/model.gguf", dir);
	snprintf(state_path, sizeof state_path, "%s/state", dir);
	snprintf(mapped_path, sizeof mapped_path, "%s/mapped", dir);
	snprintf(store_path, sizeof store_path, "%s/store", dir);
	snprintf(adapter_path, sizeof adapter_path, "%s/adapter.gguf", dir);
	if (unpack() != 0 || make_adapter() != 0)
		return 1;
	for (i = 0; i < sizeof scenario / sizeof scenario[0]; i++) {
		if (argc < 2 || strcmp(argv[1], scenario[i].name) == 0)
			try_all(&scenario[i]);
	}
	remove_tree(dir);
	return done_testing();
}
