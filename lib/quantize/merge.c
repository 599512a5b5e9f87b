/* SPDX-License-Identifier: ISC */
/* merge.c - adds adapters to the weights of a file: W + s BA. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "quantize/merge.h"

struct quantize_merge {
	const struct qwen_gguf	*in;
	struct qwen_adapter_file *v;
	size_t			 n;
	int			 tied;		/* the output head is the
						   embedding */
};

/* The change by one adapter of a whole tensor: scale * by * over. */
struct lora_change {
	size_t	 rank;
	float	 scale;
	float	*by;		/* [matrix][row][rank] */
	float	*over;		/* [matrix][rank][column] */
};

struct quantize_changes {
	size_t		 n_in, n_out, n;
	const float	*scale;		/* F32 factors of W's product, one per
					   matrix; or NULL */
	struct lora_change	 v[];
};

/*
 * Finds the pair of adapter i.  Returns 1; 0 if there is none, or its scale is
 * 0; -1 on errors.
 */
static int
find_pair(const struct quantize_merge *m, size_t i, const char *name,
    const struct qwen_gguf_tensor *t, struct qwen_adapter_pair *p,
    struct qwen_err *err)
{
	int rc = qwen_adapter_find(&m->v[i], name, t->ne, p, err);

	if (rc <= 0)
		return rc;
	if (qwen_quant_find(p->a->type) == NULL ||
	    qwen_quant_find(p->b->type) == NULL) {
		qwen_fail(err, QWEN_EUNSUP, "tensor %s or its .lora_b has an "
		    "unsupported type", p->a->name);
		return qwen_adapter_fail(&m->v[i], err);
	}
	return m->v[i].scale != 0;
}

/*
 * Finds NAME.scale, or NULL: one factor per matrix, by which NVFP4 files
 * multiply the product with NAME.weight.  A change of the weight must be
 * divided by it.
 */
static int
find_scale(const struct qwen_gguf_tensor **out, const struct quantize_merge *m,
    const char *name, const struct qwen_gguf_tensor *weight,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	char scale[GGUF_NAME_MAX + 1];
	const float *v;
	uint64_t i;

	snprintf(scale, sizeof scale, "%.*s.scale", (int)(strlen(name) - 7),
	    name);
	if ((*out = t = qwen_gguf_find_tensor(m->in, scale)) == NULL)
		return 0;
	if (t->type != QT_F32)
		return qwen_fail(err, QWEN_EUNSUP, "tensor %s is not F32",
		    scale);
	if (t->ne[0] != weight->ne[2] || t->ne[1] * t->ne[2] * t->ne[3] != 1)
		return qwen_fail(err, QWEN_EFORMAT, "tensor %s is %s, should "
		    "be %llu", scale, qwen_shape_text(t->ne, 1).s,
		    (unsigned long long)weight->ne[2]);
	for (v = t->data, i = 0; i < t->ne[0]; i++) {
		if (!isfinite(v[i]) || v[i] == 0)
			return qwen_fail(err, QWEN_ENUMERIC, "tensor %s: "
			    "cannot divide by %g", scale, (double)v[i]);
	}
	return 0;
}

/* Checks that each tensor of the adapters fits a tensor of the model. */
static int
check_all(struct quantize_merge *m, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t, *embd = NULL, *scale;
	struct qwen_adapter_pair p;
	size_t i, k;
	int rc;

	for (i = 0; i < m->n; i++) {
		for (k = 0; (t = qwen_gguf_tensor(m->in, k)) != NULL; k++) {
			if (strcmp(t->name, "token_embd.weight") == 0)
				embd = t;
			if (!qwen_ends(t->name, ".weight"))
				continue;
			rc = find_pair(m, i, t->name, t, &p, err);
			if (rc < 0 || (rc > 0 && find_scale(&scale, m, t->name,
			    t, err) < 0))
				return -1;
		}
		if (m->tied && embd != NULL &&
		    find_pair(m, i, "output.weight", embd, &p, err) < 0)
			return -1;
		if (qwen_adapter_check(&m->v[i], m->in, SIZE_MAX, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_merge_open(struct quantize_merge **out, const struct qwen_gguf *in,
    const struct qwen_adapter *a, size_t n, struct qwen_err *err)
{
	struct quantize_merge *m = qwen_alloc(1, sizeof *m);
	size_t i;

	*out = NULL;
	if (m == NULL || (m->v = qwen_alloc(n, sizeof *m->v)) == NULL) {
		free(m);
		return qwen_oom(err);
	}
	m->in = in;
	m->n = n;
	m->tied = qwen_gguf_find_tensor(in, "output.weight") == NULL;
	for (i = 0; i < n; i++) {
		if (qwen_adapter_open(&m->v[i], &a[i], in, err) < 0)
			break;
	}
	if (i < n || check_all(m, err) < 0) {
		qwen_merge_close(m);
		return -1;
	}
	*out = m;
	return 0;
}

void
qwen_merge_close(struct quantize_merge *m)
{
	size_t i;

	if (m == NULL)
		return;
	for (i = 0; i < m->n; i++)
		qwen_adapter_fini(&m->v[i]);
	free(m->v);
	free(m);
}

int
qwen_merge_changes(const struct quantize_merge *m, const char *name,
    const struct qwen_gguf_tensor *t)
{
	struct qwen_adapter_pair p;
	size_t i;

	for (i = 0; i < m->n; i++) {
		if (find_pair(m, i, name, t, &p, NULL) > 0)
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------ changes */

/*
 * Returns all numbers of a tensor, each of its matrices transposed if turned,
 * for free(); or NULL.
 */
static float *
numbers(const struct qwen_gguf_tensor *t, int turned)
{
	const struct qwen_quant *q = qwen_quant_find(t->type);
	size_t n_in = (size_t)t->ne[0], n_out = (size_t)t->ne[1];
	size_t rows = n_out * (size_t)t->ne[2], r, c, at;
	size_t bytes = qwen_quant_row_bytes(t->type, t->ne[0]);
	float *v = qwen_alloc(rows * n_in, sizeof *v);
	float *row = qwen_alloc(n_in, sizeof *row);

	for (r = 0; v != NULL && row != NULL && r < rows; r++) {
		qwen_quant_values(q, (const unsigned char *)t->data + r * bytes,
		    n_in, row);
		at = r / n_out * n_out * n_in;
		for (c = 0; c < n_in; c++)
			v[turned ? at + c * n_out + r % n_out : r * n_in + c] =
			    row[c];
	}
	if (row == NULL) {
		free(v);
		v = NULL;
	}
	free(row);
	return v;
}

/* Loads A or B; fails if a number is not finite. */
static int
load_half(float **out, const struct qwen_adapter_file *f,
    const struct qwen_gguf_tensor *t, int turned, struct qwen_err *err)
{
	size_t i, n = (size_t)(t->ne[0] * t->ne[1] * t->ne[2]);

	if ((*out = numbers(t, turned)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < n && isfinite((*out)[i]); i++)
		;
	if (i == n)
		return 0;
	qwen_fail(err, QWEN_ENUMERIC, "tensor %s has a value that is NaN or "
	    "infinite", t->name);
	return qwen_adapter_fail(f, err);
}

int
qwen_merge_load(struct quantize_changes **out, const struct quantize_merge *m,
    const char *name, const struct qwen_gguf_tensor *t, struct qwen_err *err)
{
	struct quantize_changes *c;
	const struct qwen_gguf_tensor *scale;
	struct qwen_adapter_pair p;
	struct lora_change *one;
	size_t i;
	int flip = qwen_adapter_by_rows(name);

	*out = NULL;
	if (m == NULL || !qwen_merge_changes(m, name, t))
		return 0;
	c = qwen_alloc(1, sizeof *c + m->n * sizeof *c->v);
	if (c == NULL)
		return qwen_oom(err);
	c->n_in = (size_t)t->ne[0];
	c->n_out = (size_t)t->ne[1];
	if (find_scale(&scale, m, name, t, err) < 0) {
		qwen_merge_free(c);
		return -1;
	}
	c->scale = scale != NULL ? scale->data : NULL;
	for (i = 0; i < m->n; i++) {
		if (find_pair(m, i, name, t, &p, NULL) <= 0)
			continue;
		one = &c->v[c->n++];
		one->rank = p.rank;
		one->scale = p.scale;
		/* for embeddings, A has the rows */
		if (load_half(&one->by, &m->v[i], flip ? p.a : p.b, 0,
		    err) < 0 ||
		    load_half(&one->over, &m->v[i], flip ? p.b : p.a, flip,
		    err) < 0) {
			qwen_merge_free(c);
			return -1;
		}
	}
	*out = c;
	return 0;
}

void
qwen_merge_free(struct quantize_changes *c)
{
	size_t i;

	if (c == NULL)
		return;
	for (i = 0; i < c->n; i++) {
		free(c->v[i].by);
		free(c->v[i].over);
	}
	free(c);
}

/* columns that are added up at a time */
enum { COLUMNS = 256 };

/* Adds the changes to columns c0 .. c0 + n - 1 of a row of matrix e. */
static void
add_change(const struct quantize_changes *c, float *x, uint64_t row, uint64_t e,
    size_t c0, size_t n)
{
	double sum[COLUMNS], v[COLUMNS], b, scale = 1;
	const float *over;
	size_t i, k, j;

	if (c->scale != NULL)
		scale = (double)c->scale[e];
	for (j = 0; j < n; j++)
		v[j] = 0;
	for (i = 0; i < c->n; i++) {
		const struct lora_change *one = &c->v[i];

		for (j = 0; j < n; j++)
			sum[j] = 0;
		for (k = 0; k < one->rank; k++) {
			b = (double)one->by[row * one->rank + k];
			over = one->over + (e * one->rank + k) * c->n_in + c0;
			for (j = 0; j < n; j++)
				sum[j] += b * (double)over[j];
		}
		for (j = 0; j < n; j++)
			v[j] += (double)one->scale * sum[j];
	}
	for (j = 0; j < n; j++)
		x[c0 + j] = (float)((double)x[c0 + j] + v[j] / scale);
}

void
qwen_merge_rows(const struct quantize_changes *c, float *x, uint64_t row,
    uint64_t n)
{
	size_t c0, many;

	for (; n > 0; n--, row++, x += c->n_in) {
		for (c0 = 0; c0 < c->n_in; c0 += many) {
			many = c->n_in - c0 < COLUMNS ? c->n_in - c0 : COLUMNS;
			add_change(c, x, row, row / c->n_out, c0, many);
		}
	}
}
