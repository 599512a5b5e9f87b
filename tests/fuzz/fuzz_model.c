/* SPDX-License-Identifier: ISC */
/*
 * fuzz_model.c - any bytes as a model.  If it can be opened, evaluates two
 * tokens at once and one by one, in plain C and with the best kernels;
 * differing bits are a bug.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "engine/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A failure must say so, and leave nothing behind. */
static void
check_failure(const void *out, const struct qwen_err *err)
{
	if (out != NULL || err->code == 0 || err->msg[0] == '\0')
		abort();
}

static struct qwen_model *
open_bytes(const uint8_t *data, size_t size, const char *cpu)
{
	struct qwen_model_opts opts = { .n_threads = 1, .cpu = cpu };
	struct qwen_err err = { 0 };
	struct qwen_gguf *g;
	struct qwen_model *m;

	if (qwen_gguf_open_memory(&g, data, size, &err) < 0) {
		check_failure(g, &err);
		return NULL;
	}
	if (qwen_model_open_gguf(&m, g, &opts, &err) < 0) {
		check_failure(m, &err);
		return NULL;
	}
	return m;
}

/* Logits of all ids, step at a time; NULL if that fails. */
static struct qwen_session *
evaluate(struct qwen_model *m, const int32_t *ids, size_t n, size_t step)
{
	const struct qwen_eval how = { .logits = QWEN_LOGITS_ALL };
	struct qwen_session *s;
	struct qwen_err err = { 0 };
	size_t i;

	if (qwen_session_new(&s, m, &err) < 0) {
		check_failure(s, &err);
		return NULL;
	}
	for (i = 0; i < n; i += step) {
		if (qwen_session_eval(s, ids + i, step, &how, &err) < 0) {
			check_failure(NULL, &err);
			qwen_session_free(s);
			return NULL;
		}
	}
	return s;
}

static void
compare(const struct qwen_session *a, const struct qwen_session *b,
    size_t n_vocab)
{
	const float *x, *y;
	size_t i;

	if ((a == NULL) != (b == NULL))
		abort();
	if (a == NULL)
		return;
	x = qwen_session_logits(a);
	y = qwen_session_logits(b);
	for (i = 0; i < n_vocab; i++) {
		if (!isfinite(x[i]))
			abort();
	}
	if (memcmp(x, y, n_vocab * sizeof *x) != 0)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_model *m = open_bytes(data, size, NULL), *plain;
	struct qwen_session *s, *t;
	int32_t ids[2] = { 0, 0 };
	size_t n_vocab;

	if (m == NULL)
		return 0;
	plain = open_bytes(data, size, "scalar");
	if (plain == NULL)
		abort();
	n_vocab = qwen_model_n_vocab(m);
	ids[1] = (int32_t)(n_vocab - 1);
	s = evaluate(m, ids, 2, 2);
	t = evaluate(m, ids, 2, 1);
	compare(s, t, n_vocab);
	qwen_session_free(t);
	t = evaluate(plain, ids, 2, 2);
	compare(s, t, n_vocab);
	qwen_session_free(t);
	qwen_session_free(s);
	qwen_model_close(plain);
	qwen_model_close(m);
	return 0;
}
