/* SPDX-License-Identifier: ISC */
/*
 * fuzz_score.c - any line of score requests: it is refused with an error, or
 * has tokens to score.  The answer is JSON.
 *
 * Input: a byte of flags, then the line.
 */
#include "../unit/tok_util.h"
#include "../../cmd/qscore/result.c"
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 263 };

static struct qscore_run run;

static void
start(void)
{
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_pair(&v, "t", "h");
	vocab_pair(&v, "th", "e");
	vocab_pair(&v, "\xc4\xa0", "the");
	vocab_pair(&v, "a", "a");
	vocab_pair(&v, "\xc4\xa0", "\xc4\xa0");
	vocab_token(&v, "<|e|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<e>", QWEN_TOKEN_USER_DEFINED);
	run.how.tok = vocab_open(&v, &g);
	run.how.n_vocab = N_VOCAB;
	if (qwen_tok_decoder_new(&run.work.spell, run.how.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
}

static void
check_tokens(const struct qwen_score_request *q)
{
	size_t i;

	if (q->from < 1 || q->from >= q->text.n || q->n_front > q->from)
		abort();
	for (i = 0; i < q->text.n; i++) {
		if (q->text.id[i] < 0 || q->text.id[i] >= N_VOCAB)
			abort();
	}
}

static void
check_answer(const struct qscore_text *x)
{
	struct qscore_sums sums = { 0 };
	struct qwen_text t = { 0 };
	yyjson_val *root;
	yyjson_doc *d;

	qscore_result(&run, x, &sums, &t);
	/* one line, and every line of it */
	if (t.n == 0 || memchr(t.s, '\n', t.n) != t.s + t.n - 1)
		abort();
	d = yyjson_read(t.s, t.n, YYJSON_READ_NUMBER_AS_RAW);
	root = yyjson_doc_get_root(d);
	if (!yyjson_is_obj(root) || (yyjson_obj_get(root, "error") != NULL) !=
	    (x->q.refusal.err.code != 0) || (yyjson_obj_get(root, "logprob") !=
	    NULL) != (x->q.refusal.err.code == 0))
		abort();
	yyjson_doc_free(d);
	qwen_text_fini(&t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qscore_text x = { .line = 1 };
	size_t i, n;

	if (size == 0)
		return 0;
	if (run.how.tok == NULL)
		start();
	run.how.encode = data[0] & 1 ? QWEN_TOK_SPECIAL : 0;
	run.how.bos = data[0] >> 1 & 1;
	run.how.bos_id = data[0] & 4 ? -1 : 7;
	run.per_token = data[0] >> 3 & 1;
	if (qwen_score_request_parse(&x.q, &run.how, (const char *)data + 1,
	    size - 1, NULL) < 0)
		abort();
	if (x.q.refusal.err.code == 0) {
		check_tokens(&x.q);
		n = x.q.text.n - x.q.from;
		x.logprob = calloc(n, sizeof *x.logprob);
		x.rank = calloc(n, sizeof *x.rank);
		if (x.logprob == NULL || x.rank == NULL)
			abort();
		for (i = 0; i < n; i++)
			x.logprob[i] = i % 3 == 2 ? -3e38 : -(double)i;
	}
	check_answer(&x);
	qwen_score_request_fini(&x.q);
	free(x.logprob);
	free(x.rank);
	return 0;
}
