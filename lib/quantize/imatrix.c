/* SPDX-License-Identifier: ISC */
/*
 * imatrix.c - reads importance matrices.  In GGUF, matrix NAME has the tensors
 * NAME.in_sum2, sums of squared inputs, and NAME.counts, the number of tokens.
 * imatrix_dat.c reads the older format.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/what.h"
#include "quantize/imatrix.h"
#include "quantize/imatrix_dat.h"

struct qwen_imatrix {
	struct qwen_gguf	*g;	/* NULL: older format */
	struct imatrix_dat	 dat;
	const void		*map;	/* its file */
	size_t			 bytes;
};

static int
check(const struct qwen_gguf *g, const char *path, struct qwen_err *err)
{
	struct qwen_str type = { NULL, 0 };

	if (qwen_gguf_get_str(g, "general.type", &type, err) < 0)
		return -1;
	if (!qwen_str_is(type, "imatrix"))
		return qwen_fail(err, QWEN_EFORMAT, "%s is not an importance "
		    "matrix: its general.type is not imatrix", path);
	return 0;
}

/* Opens a file in either format: the older one has no magic number. */
static int
open_file(struct qwen_imatrix *m, const char *path, struct qwen_err *err)
{
	if (qwen_map_file(&m->map, &m->bytes, path, err) < 0)
		return -1;
	if (qwen_what(m->map, m->bytes < 512 ? m->bytes : 512) ==
	    QWEN_IS_OTHER)
		return qwen_imatrix_dat_read(&m->dat, m->map, m->bytes, err);
	return qwen_gguf_open(&m->g, path, err) < 0 ? -1 :
	    check(m->g, path, err);
}

int
qwen_imatrix_open(struct qwen_imatrix **out, const char *path,
    struct qwen_err *err)
{
	struct qwen_imatrix *m = calloc(1, sizeof *m);

	*out = NULL;
	if (m == NULL)
		return qwen_oom(err);
	if (open_file(m, path, err) < 0) {
		qwen_imatrix_close(m);
		return -1;
	}
	*out = m;
	return 0;
}

void
qwen_imatrix_close(struct qwen_imatrix *m)
{
	if (m == NULL)
		return;
	qwen_gguf_close(m->g);
	qwen_imatrix_dat_fini(&m->dat);
	qwen_unmap_file(m->map, m->bytes);
	free(m);
}

static const struct qwen_gguf_tensor *
find_tensor(const struct qwen_imatrix *m, const char *name, const char *what)
{
	char full[96];

	snprintf(full, sizeof full, "%s.%s", name, what);
	return qwen_gguf_find_tensor(m->g, full);
}

static float
number(const void *data, uint64_t i)
{
	return qwen_bits_f32(qwen_le32((const unsigned char *)data + 4 * i));
}

/* Checks that n numbers are from 0 to 1e30. */
static int
check_numbers(const char *name, const void *data, uint64_t n,
    struct qwen_err *err)
{
	uint64_t i;
	float f;

	for (i = 0; i < n; i++) {
		f = number(data, i);
		if (!(f >= 0.0f && f <= 1e30f))
			return qwen_fail(err, QWEN_EFORMAT, "importance of %s: "
			    "a value is not in 0 to 1e30", name);
	}
	return 0;
}

/*
 * The values of a tensor: for each column the sum of its squared inputs; for
 * each matrix how many there were, or NULL: the older format has equal sums
 * where there were none.
 */
struct values {
	const void	*sum, *count;
};

/*
 * Finds the values for tensor t.  Returns 1, or 0 if the matrix has no values for
 * it, or -1 if their number is not that of t.
 */
static int
find_values(const struct qwen_imatrix *m, const struct qwen_gguf_tensor *t,
    struct values *out, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *sum, *count;
	const struct imatrix_dat_entry *e;
	uint64_t n_matrix = t->ne[2] * t->ne[3];
	int fits;

	if (m->g == NULL) {
		if ((e = qwen_imatrix_dat_find(&m->dat, t->name)) == NULL)
			return 0;
		*out = (struct values){ e->v, NULL };
		fits = e->n == t->ne[0] * n_matrix;
	} else {
		sum = find_tensor(m, t->name, "in_sum2");
		count = find_tensor(m, t->name, "counts");
		if (sum == NULL && count == NULL)
			return 0;
		if (sum == NULL || count == NULL)
			return qwen_fail(err, QWEN_EFORMAT, "importance of %s: "
			    "in_sum2 and counts must both be there", t->name);
		*out = (struct values){ sum->data, count->data };
		fits = sum->type == 0 && count->type == 0 &&
		    sum->ne[0] == t->ne[0] && sum->ne[1] * sum->ne[2] *
		    sum->ne[3] == n_matrix && count->ne[0] == 1 &&
		    count->bytes == 4 * n_matrix;
	}
	return fits ? 1 : qwen_fail(err, QWEN_EFORMAT, "importance of %s: for "
	    "a model of another shape", t->name);
}

int
qwen_imatrix_has(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, struct qwen_err *err)
{
	uint64_t n_matrix = t->ne[2] * t->ne[3];
	struct values v;
	int rc = find_values(m, t, &v, err);

	if (rc <= 0)
		return rc;
	if (check_numbers(t->name, v.sum, t->ne[0] * n_matrix, err) < 0 ||
	    (v.count != NULL &&
	    check_numbers(t->name, v.count, n_matrix, err) < 0))
		return -1;
	return 1;
}

/*
 * Scales the values to a mean of 1, so that nothing overflows, and raises them
 * to 1e-3 at least: another text may use an input that this one did not.
 */
float *
qwen_imatrix_weights(const struct qwen_imatrix *m,
    const struct qwen_gguf_tensor *t, struct qwen_err *err)
{
	uint64_t k, i, n = t->ne[0], n_matrix = t->ne[2] * t->ne[3];
	float *weights = qwen_alloc((size_t)(n * n_matrix), sizeof *weights);
	float *w = weights;
	struct values of;
	double mean, v;

	if (w == NULL) {
		qwen_oom(err);
		return NULL;
	}
	(void)find_values(m, t, &of, err);
	for (k = 0; k < n_matrix; k++, w += n) {
		mean = 0.0;
		for (i = 0; i < n; i++)
			mean += (double)number(of.sum, k * n + i);
		mean /= (double)n;
		for (i = 0; i < n; i++) {
			v = mean > 0.0 && (of.count == NULL ||
			    number(of.count, k) > 0.0f) ?
			    (double)number(of.sum, k * n + i) / mean : 1.0;
			w[i] = (float)(v > 1e-3 ? v : 1e-3);
		}
	}
	return weights;
}

size_t
qwen_imatrix_entries(const struct qwen_imatrix *m)
{
	return m->g != NULL ? qwen_gguf_n_tensors(m->g) / 2 : m->dat.n;
}

uint32_t
qwen_imatrix_chunks(const struct qwen_imatrix *m)
{
	struct qwen_err err;
	uint64_t n = 0;

	if (m->g == NULL)
		return m->dat.n_chunk;
	(void)qwen_gguf_get_u64(m->g, "imatrix.chunk_count", 0, &n, &err);
	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

int
qwen_imatrix_dataset(const struct qwen_imatrix *m, struct qwen_str *out)
{
	const struct qwen_gguf_kv *kv;
	size_t pos = 0;

	*out = m->dat.dataset;
	if (m->g == NULL)
		return out->s != NULL;
	kv = qwen_gguf_find(m->g, "imatrix.datasets");
	return kv != NULL && kv->elem == QWEN_GGUF_STRING &&
	    qwen_gguf_next_str(kv, &pos, out);
}
