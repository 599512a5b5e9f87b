/* SPDX-License-Identifier: ISC */
/*
 * measure.c - writes importance matrices: sums of squared inputs of a model's
 * matrices, in llama.cpp's format.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "engine/watch/inputs.h"
#include "gguf/write.h"
#include "quantize/quantize.h"

int
qwen_imatrix_start(struct qwen_model *m, struct qwen_err *err)
{
	return qwen_model_measure_inputs(m, err);
}

static int
by_name(const void *a, const void *b)
{
	const struct qwen_inputs *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void
put_tensors(struct qwen_gguf_writer *w, const struct qwen_inputs *const *e,
    size_t n)
{
	char name[128];
	size_t i;

	for (i = 0; i < n; i++) {
		const uint64_t sums[2] = { e[i]->n_in, e[i]->n_matrix };
		const uint64_t counts[2] = { 1, e[i]->n_matrix };

		snprintf(name, sizeof name, "%s.in_sum2", e[i]->name);
		qwen_gguf_put_tensor(w, name, 0, 2, sums);
		snprintf(name, sizeof name, "%s.counts", e[i]->name);
		qwen_gguf_put_tensor(w, name, 0, 2, counts);
	}
}

/* Writes the sums of all matrices of an entry, then their counts. */
static int
write_sums(struct qwen_gguf_writer *w, int fd, const struct qwen_inputs *e,
    struct qwen_err *err)
{
	unsigned char *row = malloc(4 * e->n_in);
	size_t i, k;
	int rc = 0;

	if (row == NULL)
		return qwen_oom(err);
	for (k = 0; k < e->n_matrix && rc == 0; k++) {
		for (i = 0; i < e->n_in; i++)
			qwen_put_le32(row + 4 * i, qwen_f32_bits((float)
			    e->sum[k * e->n_in + i]));
		rc = qwen_gguf_write_data(w, fd, row, 4 * e->n_in, err);
	}
	for (k = 0; k < e->n_matrix && rc == 0; k++) {
		qwen_put_le32(row, qwen_f32_bits((float)e->count[k]));
		rc = qwen_gguf_write_data(w, fd, row, 4, err);
	}
	free(row);
	return rc;
}

static int
write_file(struct qwen_gguf_writer *w, const struct qwen_inputs *const *e,
    size_t n, int fd, struct qwen_err *err)
{
	size_t i;

	put_tensors(w, e, n);
	if (qwen_gguf_write_head(w, fd, err) < 0)
		return -1;
	for (i = 0; i < n; i++) {
		if (write_sums(w, fd, e[i], err) < 0)
			return -1;
	}
	return qwen_gguf_write_end(w, err);
}

/* Returns the entries that were used, sorted by name, for free(). */
static const struct qwen_inputs **
used(const struct qwen_model *m, size_t *n)
{
	const struct qwen_inputs *e, **v;
	size_t i;

	for (i = 0; qwen_model_inputs(m, i) != NULL; i++)
		continue;
	v = malloc((i > 0 ? i : 1) * sizeof *v);
	if (v == NULL)
		return NULL;
	for (*n = i = 0; (e = qwen_model_inputs(m, i)) != NULL; i++) {
		if (e->sum != NULL)
			v[(*n)++] = e;
	}
	qsort(v, *n, sizeof *v, by_name);
	return v;
}

int
qwen_imatrix_write(const struct qwen_model *m, size_t n_tokens,
    const char *dataset, int fd, struct qwen_err *err)
{
	struct qwen_str name = { dataset, dataset != NULL ?
	    strlen(dataset) : 0 };
	const struct qwen_inputs **e;
	struct qwen_gguf_writer *w;
	size_t n;
	int rc;

	if (qwen_model_inputs_failed(m) || (e = used(m, &n)) == NULL)
		return qwen_oom(err);
	if (qwen_gguf_writer_new(&w, err) < 0) {
		free(e);
		return -1;
	}
	qwen_gguf_put_str(w, "general.type", "imatrix");
	qwen_gguf_put_strs(w, "imatrix.datasets", &name, dataset != NULL);
	qwen_gguf_put_u32(w, "imatrix.chunk_count", 1);
	qwen_gguf_put_u32(w, "imatrix.chunk_size", (uint32_t)n_tokens);
	rc = write_file(w, e, n, fd, err);
	qwen_gguf_writer_free(w);
	free(e);
	return rc;
}
