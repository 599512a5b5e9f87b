/* SPDX-License-Identifier: ISC */
/*
 * fuzz_vector.c - any line of embedding or reranking requests: it is refused
 * with an error, or has tokens of this vocabulary, and no more than allowed.
 *
 * Input: a byte of flags, then the line.
 */
#include "../unit/tok_util.h"
#include "text/request/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 263, CUT = 9 };

static struct qwen_vectors vectors;
static struct qwen_ranking ranking;

static void
start(void)
{
	static struct vocab v;
	static struct qwen_gguf *g;
	struct qwen_reranker *r;

	vocab_init(&v, "qwen2");
	vocab_pair(&v, "t", "h");
	vocab_pair(&v, "th", "e");
	vocab_pair(&v, "\xc4\xa0", "the");
	vocab_pair(&v, "a", "a");
	vocab_pair(&v, "\xc4\xa0", "\xc4\xa0");
	vocab_token(&v, "<|e|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<e>", QWEN_TOKEN_USER_DEFINED);
	vectors.tok = ranking.tok = vocab_open(&v, &g);
	vectors.n_vocab = N_VOCAB;
	if (qwen_reranker_open(&r, g, NULL, NULL) < 0)
		abort();
	ranking.how = r;
}

static void
check_ids(const struct qwen_ids *t)
{
	size_t i;

	if (t->n == 0)
		abort();
	for (i = 0; i < t->n; i++) {
		if (t->id[i] < 0 || t->id[i] >= N_VOCAB)
			abort();
	}
}

static void
check_refusal(const struct qwen_refusal *no)
{
	if (no->code == NULL || no->err.msg[0] == '\0')
		abort();
}

static void
vector(const char *s, size_t n)
{
	struct qwen_vector_request q = { 0 };

	if (qwen_vector_request_parse(&q, &vectors, s, n, NULL) < 0)
		abort();
	if (q.refusal.err.code != 0)
		check_refusal(&q.refusal);
	else {
		check_ids(&q.text);
		if (vectors.cut > 0 && q.text.n > vectors.cut)
			abort();
		if (vectors.how.last >= 0 && q.text.id[q.text.n - 1] !=
		    vectors.how.last)
			abort();
	}
	qwen_vector_request_fini(&q);
}

static void
rank(const char *s, size_t n)
{
	struct qwen_rank_request q = { 0 };
	size_t i;

	if (qwen_rank_request_parse(&q, &ranking, s, n, NULL) < 0)
		abort();
	if (q.refusal.err.code != 0)
		check_refusal(&q.refusal);
	else {
		if (!q.is_list && q.n != 1)
			abort();
		for (i = 0; i < q.n; i++)
			check_ids(&q.prompt[i]);
	}
	qwen_rank_request_fini(&q);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (vectors.tok == NULL)
		start();
	vectors.encode = ranking.encode = data[0] & 1 ? QWEN_TOK_SPECIAL : 0;
	vectors.instruct = data[0] & 2 ? "the" : NULL;
	vectors.how.last = data[0] & 4 ? -1 : 7;
	vectors.how.first = data[0] & 8 ? 5 : -1;
	vectors.cut = data[0] & 16 ? CUT : 0;
	ranking.cut = data[0] & 16 ? 600 : 0;
	vector((const char *)data + 1, size - 1);
	rank((const char *)data + 1, size - 1);
	return 0;
}
