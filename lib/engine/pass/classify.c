/* SPDX-License-Identifier: ISC */
/*
 * classify.c - what a hidden state says of a few tokens or classes: some rows of
 * a matrix, for which no kernel is worth its while.
 */
#include <math.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "engine/quant/math.h"
#include "engine/model.h"
#include "engine/net/lora.h"

/*
 * Computes what the adapters' A make of one row, scale included; v has room for
 * n_in numbers.
 */
static void
lower_row(const struct qwen_weight *w, const float *x,
    double *low, float *v)
{
	const struct qwen_lora *l;
	size_t i, k, c;

	for (i = 0; w->lora != NULL && i < w->lora->n; i++) {
		l = &w->lora->v[i];
		for (k = 0; k < l->rank; k++, low++) {
			qwen_quant_values(l->a.quant, l->a.data +
			    k * l->a.row_bytes, w->n_in, v);
			for (*low = 0, c = 0; c < w->n_in; c++)
				*low += (double)v[c] * (double)x[c];
			*low *= (double)l->scale;
		}
	}
}

/* Returns what the adapters add to row r of the product. */
static double
add_to_row(const struct qwen_weight *w, size_t r,
    const double *low)
{
	const struct qwen_lora *l;
	double sum = 0;
	size_t i, k;

	for (i = 0; w->lora != NULL && i < w->lora->n; i++) {
		l = &w->lora->v[i];
		for (k = 0; k < l->rank; k++)
			sum += *low++ * (double)l->b[qwen_low_at(l->rank,
			    w->lora_at + r) + k * QWEN_LOW_ROWS];
	}
	return sum;
}

/*
 * Row r of w times x, with what belongs to the product: low is of adapters.  v
 * has room for a row.
 */
static float
row_times(const struct qwen_weight *w, size_t r, const float *x,
    const double *low, float *v)
{
	double sum = 0;
	size_t i;

	qwen_quant_dequantize(w->quant->type, w->data + r * w->row_bytes, v,
	    w->n_in, NULL);
	for (i = 0; i < w->n_in; i++)
		sum += (double)v[i] * (double)x[i];
	if (w->scale != NULL)
		sum *= (double)w->scale[0];
	if (w->bias != NULL)
		sum += (double)w->bias[r];
	if (w->lora != NULL)
		sum += add_to_row(w, r, low);
	return (float)sum;
}

/* The rows at ids, or the first n. */
static int
rows_times(const struct qwen_weight *w, const int32_t *ids, size_t n,
    const float *x, float *out, struct qwen_err *err)
{
	float *v = qwen_alloc(w->n_in, sizeof *v);
	double *low = qwen_alloc(qwen_lora_width(w) + 1, sizeof *low);
	size_t i;

	if (v != NULL && low != NULL) {
		lower_row(w, x, low, v);
		for (i = 0; i < n; i++)
			out[i] = row_times(w, ids != NULL ? (size_t)ids[i] :
			    i, x, low, v);
	}
	i = v != NULL && low != NULL;
	free(low);
	free(v);
	return i ? 0 : qwen_oom(err);
}

int
qwen_model_logits(const struct qwen_model *m, const float *hidden,
    const int32_t *ids, size_t n, float *out, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (ids[i] < 0 || (size_t)ids[i] >= m->net.hp.n_vocab)
			return qwen_fail(err, QWEN_ERANGE,
			    "token %ld is outside the vocabulary of %zu",
			    (long)ids[i], m->net.hp.n_vocab);
	}
	return rows_times(&m->net.output, ids, n, hidden, out, err);
}

size_t
qwen_model_n_classes(const struct qwen_model *m)
{
	return m->net.cls.n_out;
}

int
qwen_model_classify(const struct qwen_model *m, const float *hidden,
    float *out, struct qwen_err *err)
{
	if (m->net.cls.n_out == 0)
		return qwen_fail(err, QWEN_EUNSUP, "the model has no "
		    "cls.output.weight");
	return rows_times(&m->net.cls, NULL, m->net.cls.n_out, hidden, out, err);
}

/* qwen_exp() is for numbers that are not too large. */
static double
exp_of(double x)
{
	return x > 700 ? HUGE_VAL : x < -700 ? 0 : qwen_exp(x);
}

double
qwen_softmax_share(const float *logits, size_t n, size_t i)
{
	double sum = n == 1 ? exp_of(-(double)logits[0]) : 0;
	size_t k;

	for (k = 0; k < n; k++)
		sum += k == i ? 1 : exp_of((double)logits[k] -
		    (double)logits[i]);
	return 1 / sum;
}
