/* SPDX-License-Identifier: ISC */
/*
 * fuzz_batch.c - any line of a batch: it is refused with an error, or has
 * prompts. The answer, made of any tokens, is a line that qbatch can read back.
 *
 * Input: a byte of flags, then the line.
 */
#include "../unit/tok_util.h"
#include "qwen/sample.h"
#include "text/request/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 263 };

static struct qwen_service service;

static void
start(void)
{
	static struct qwen_template *t;
	static struct qwen_grammars grammars;
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_pair(&v, "t", "h");
	vocab_pair(&v, "th", "e");
	vocab_pair(&v, "\xc4\xa0", "the");
	vocab_pair(&v, "a", "a");
	vocab_pair(&v, "\xc4\xa0", "\xc4\xa0");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	service.n_vocab = N_VOCAB;
	service.model = "m";
	service.max = 9;
	service.no_template = "none";
	if (qwen_template_open(&t, "qwen3", NULL) < 0 ||
	    qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
	service.template = t;
	grammars.gguf = g;
	service.grammars = &grammars;
	service.sample_opt = qwen_sample_opt;
}

/* Some tokens, and the end; what there is of an answer only grows. */
static void
answer(struct qwen_answer *a, uint64_t *seed)
{
	const struct qwen_request *q = a->request;
	struct qwen_likely top[QWEN_LOGPROBS_MAX], c = { 0, -1 };
	char text[4096];
	size_t i, k, n = 0;
	int cut = 0;

	if (q->n_top > QWEN_LOGPROBS_MAX)
		abort();
	for (i = 0; i < 9 && i < q->max && !cut; i++) {
		c.id = (int32_t)(rnd(seed) % N_VOCAB);
		for (k = 0; k < q->n_top; k++)
			top[k] = (struct qwen_likely){
			    (int32_t)(rnd(seed) % N_VOCAB), -2 };
		if ((cut = qwen_answer_put(a, &c, top, q->n_top, NULL)) < 0 ||
		    a->text.n < n || a->text.n > sizeof text ||
		    (n > 0 && memcmp(a->text.s, text, n) != 0))
			abort();
		if ((n = a->text.n) > 0)
			memcpy(text, a->text.s, n);
	}
	if (qwen_answer_end(a, "length", NULL) < 0 || a->text.n < n ||
	    (n > 0 && memcmp(a->text.s, text, n) != 0) ||
	    (cut && strcmp(a->finish, "stop") != 0))
		abort();
}

static void
check_result(const struct qwen_request *q)
{
	struct qwen_text t = { 0 };
	struct qwen_result_run run = { "m\"\\", "0123", "n=3 stop=%20", "4567" };
	struct qwen_result r;

	qwen_request_result(q, q->n_prompt_tokens % 2 ? &run : NULL, &t);
	if (t.failed || memchr(t.s, '\n', t.n) != t.s + t.n - 1 ||
	    qwen_result_parse(t.s, t.n - 1, &r, NULL) < 0 ||
	    r.number != q->number || r.failed != (q->refusal.err.code != 0) ||
	    (r.id == NULL) != (q->id == NULL) ||
	    (r.id != NULL && strcmp(r.id, q->id) != 0))
		abort();
	if (q->n_prompt_tokens % 2 ? strcmp(r.model, run.model) != 0 ||
	    strcmp(r.hash, run.hash) != 0 || r.cut != qwen_request_cut(q) ||
	    strcmp(r.options, run.options) != 0 ||
	    strcmp(r.request, run.request) != 0 : r.model != NULL)
		abort();
	qwen_result_fini(&r);
	qwen_text_fini(&t);
}

/* The body alone is a request of the same sort, or none. */
static void
check_body(const char *json, size_t n)
{
	struct qwen_request *q;
	struct qwen_text t = { 0 };

	if (qwen_request_parse(&q, &service, QWEN_FORM_CHAT, json, n,
	    NULL) < 0)
		abort();
	if (q->refusal.err.code != 0) {
		qwen_request_body(q, 0, &t);
		if (t.failed || strncmp(t.s, "{\"error\":", 9) != 0)
			abort();
	} else if (q->n_answers != q->n)
		abort();
	qwen_text_fini(&t);
	qwen_request_free(q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *line = (const char *)data + 1;
	struct qwen_request *q;
	uint64_t seed = size;
	size_t i;
	enum qwen_line_kind kind;
	char *id;

	if (size == 0)
		return 0;
	if (service.tok == NULL)
		start();
	service.encode = data[0] & 1 ? QWEN_TOK_SPECIAL : 0;
	service.streams = data[0] >> 1 & 1;
	service.plain_lines = data[0] >> 2 & 1;
	if (qwen_request_parse_line(&q, &service, line, size - 1, NULL) < 0 ||
	    qwen_request_line_id(line, size - 1, &id, &kind, NULL) < 0)
		abort();
	q->number = 3;
	/* as --resume knows it */
	if ((id == NULL) != (q->id == NULL) || (id != NULL &&
	    strcmp(id, q->id) != 0) || (kind == QWEN_LINE_BAD ?
	    !service.plain_lines : kind == QWEN_LINE_ENVELOPE) !=
	    (q->form != QWEN_FORM_PLAIN))
		abort();
	free(id);
	if (q->refusal.err.code == 0 && (q->n_answers == 0 ||
	    q->n_answers > QWEN_CHOICES_MAX))
		abort();
	for (i = 0; i < q->n_answers && q->refusal.err.code == 0; i++) {
		if (q->answer[i].prompt->n == 0)
			abort();
		answer(&q->answer[i], &seed);
	}
	check_result(q);
	qwen_request_free(q);
	check_body(line, size - 1);
	return 0;
}
