/* SPDX-License-Identifier: ISC */
/*
 * fuzz_score.c - any line of requests for scores: what is wrong with it is its
 * error, else there are tokens to score; the answer is JSON.
 *
 * The input: a byte of flags, then the line.
 */
#include "../unit/tok_util.h"
#include "cli/score.h"
#include <yyjson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 263 };

static struct cli_score run;

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
	run.tok = vocab_open(&v, &g);
	run.n_vocab = N_VOCAB;
	if (qwen_tok_decoder_new(&run.spell, run.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, NULL) < 0)
		abort();
}

static void
check_tokens(const struct cli_scored *q)
{
	size_t i;

	if (q->from < 1 || q->from >= q->n || q->front > q->from)
		abort();
	for (i = 0; i < q->n; i++) {
		if (q->tokens[i] < 0 || q->tokens[i] >= N_VOCAB)
			abort();
	}
}

static void
check_answer(const struct cli_scored *q)
{
	struct cli_score_sums sums = { 0 };
	struct cli_text t = { 0 };
	yyjson_val *root;
	yyjson_doc *d;

	cli_score_result(&run, q, &sums, &t);
	/* one line, and every line of it */
	if (t.n == 0 || memchr(t.s, '\n', t.n) != t.s + t.n - 1)
		abort();
	d = yyjson_read(t.s, t.n, YYJSON_READ_NUMBER_AS_RAW);
	root = yyjson_doc_get_root(d);
	if (!yyjson_is_obj(root) ||
	    (yyjson_obj_get(root, "error") != NULL) != (q->err.code != 0) ||
	    (yyjson_obj_get(root, "logprob") != NULL) != (q->err.code == 0))
		abort();
	yyjson_doc_free(d);
	cli_text_fini(&t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cli_line line = { (const char *)data + 1, size - 1 };
	struct cli_scored *q;
	size_t i, n;

	if (size == 0)
		return 0;
	if (run.tok == NULL)
		start();
	run.encode = data[0] & 1 ? QWEN_TOK_SPECIAL : 0;
	run.bos = data[0] >> 1 & 1;
	run.first = data[0] & 4 ? -1 : 7;
	run.each = data[0] >> 3 & 1;
	q = cli_scored_parse(&run, &line, 1);
	if (q->err.code == 0) {
		check_tokens(q);
		n = q->n - q->from;
		q->logprob = calloc(n, sizeof *q->logprob);
		q->rank = calloc(n, sizeof *q->rank);
		if (q->logprob == NULL || q->rank == NULL)
			abort();
		for (i = 0; i < n; i++)
			q->logprob[i] = i % 3 == 2 ? -3e38 : -(double)i;
	}
	check_answer(q);
	cli_scored_free(q);
	return 0;
}
