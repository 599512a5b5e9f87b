/* SPDX-License-Identifier: ISC */
/*
 * product.c - y = Wx: activations in the form that the weights take, then row by
 * row of W.
 */
#include <string.h>

#include "base/half.h"
#include "engine/plain/plain.h"

/* ---- activations as integers */

/* Returns the largest magnitude of n numbers; NaN or infinity if there is one. */
static float
largest(const float *x, size_t n)
{
	float most = 0.0f;
	size_t i;

	for (i = 0; i < n; i++) {
		if (!isfinite(x[i]))
			return NAN;
		most = fmaxf(most, fabsf(x[i]));
	}
	return most;
}

/*
 * Converts up to 256 numbers; the rest of the group is 0.  top is the largest a:
 * 7, or 1 where activations have two terms.
 */
static void
make_group(struct qwen_plain_group *g, const float *x, size_t n, int top)
{
	float most = largest(x, n), scale, a, q;
	size_t i, j;

	*g = (struct qwen_plain_group){ .d = isfinite(most) ? 0.0f : NAN };
	for (j = 0; j < QWEN_GROUP / 32; j++)
		g->a[j] = 1;
	if (!(most >= 0x1p-100f))
		return;
	g->d = most / (127.0f * (float)top);
	for (i = 0; i < n; i++) {
		j = i / 32;
		if (i % 32 == 0) {
			a = ceilf(largest(x + i, n - i < 32 ? n - i : 32) *
			    ((float)top / most));
			g->a[j] = a < 1.0f ? 1 : a > (float)top ? top : (int)a;
		}
		scale = 127.0f * (float)top / most / (float)g->a[j];
		q = rintf(x[i] * scale);
		g->q[i] = (int8_t)(q < -127.0f ? -127.0f : q > 127.0f ?
		    127.0f : q);
	}
}

/* Sets to[0 .. 255] to what a group leaves of n numbers. */
static void
subtract(const struct qwen_plain_group *g, const float *x, size_t n, float *to)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = fmaf(-g->d, (float)g->q[i], x[i]);
}

/* Returns the groups of term k of row t. */
static struct qwen_plain_group *
groups_of(const struct qwen_plain_work *w, size_t t, size_t k)
{
	size_t n = (w->widest + QWEN_GROUP - 1) / QWEN_GROUP;

	return w->group + (2 * t + k) * n;
}

/* Converts n numbers of row t to one term, or two. */
static void
make_groups(struct qwen_plain_work *w, size_t t, const float *x, size_t n,
    int two)
{
	struct qwen_plain_group *first = groups_of(w, t, 0);
	struct qwen_plain_group *second = groups_of(w, t, 1);
	float rest[QWEN_GROUP];
	size_t i, m;

	for (i = 0; i < n; i += m, first++, second++) {
		m = n - i < QWEN_GROUP ? n - i : QWEN_GROUP;
		make_group(first, x + i, m, two ? 1 : 7);
		if (!two)
			continue;
		subtract(first, x + i, m, rest);
		make_group(second, rest, m, 1);
	}
}

/* ---- products with integers */

/* Sums of 16 weights times activations, and of these activations. */
struct sums {
	int32_t	wq[QWEN_GROUP / 16], q[QWEN_GROUP / 16];
};

static void
add_up(struct sums *s, const int8_t *weight, const int8_t *q, size_t n)
{
	size_t i;

	memset(s, 0, sizeof *s);
	for (i = 0; i < n; i++) {
		s->wq[i / 16] += weight[i] * q[i];
		s->q[i / 16] += q[i];
	}
}

/* Adds a block whose integer scales share one d. */
static float
add_super(const struct qwen_unpacked *u, const struct qwen_plain_group *g,
    const struct sums *s, int has_min, float acc)
{
	int32_t sum = 0, min = 0;
	int b;

	for (b = 0; b < QWEN_GROUP / 16; b++) {
		sum += u->scale[b] * g->a[b / 2] * s->wq[b];
		min += u->min[b] * g->a[b / 2] * s->q[b];
	}
	acc = fmaf(u->d[0] * g->d, (float)sum, acc);
	if (has_min)
		acc = fmaf(-u->m[0] * g->d, (float)min, acc);
	return acc;
}

/* Adds n weights of blocks that each have their d. */
static float
add_blocks(const struct qwen_unpacked *u, const struct qwen_plain_group *g,
    const struct sums *s, size_t n, const struct qwen_quant *quant, float acc)
{
	float part = 0.0f, part_min = 0.0f;
	size_t k, b = 0;

	for (k = 0; k < n / quant->span; k++) {
		int32_t sum = 0, min = 0;

		for (; b < (k + 1) * quant->span / 16; b++) {
			sum += g->a[b / 2] * s->wq[b];
			min += g->a[b / 2] * s->q[b];
		}
		part = fmaf(u->d[k], (float)sum, part);
		part_min = fmaf(u->m[k], (float)min, part_min);
	}
	acc = fmaf(g->d, part, acc);
	return quant->has_min ? fmaf(g->d, part_min, acc) : acc;
}

/* Multiplies the groups of n rows by row r, whose bytes are given. */
static void
row_of_integers(struct qwen_plain_work *w, const struct qwen_weight *m,
    const unsigned char *bytes, size_t r, size_t n)
{
	const struct qwen_quant *quant = m->quant;
	size_t terms = m->operand == QWEN_AS_TWO_Q8 ? 2 : 1, t, k, i, len;
	const struct qwen_plain_group *g;
	struct qwen_unpacked u;
	struct sums s;
	float *acc = w->acc;

	memset(acc, 0, 2 * n * sizeof *acc);
	for (i = 0; i < m->n_in; i += len) {
		len = m->n_in - i < QWEN_GROUP ? m->n_in - i : QWEN_GROUP;
		qwen_quant_unpack(quant, bytes, len, &u);
		bytes += len / quant->block_len * quant->block_bytes;
		for (t = 0; t < n * terms; t++) {
			g = groups_of(w, t / terms, t % terms) +
			    i / QWEN_GROUP;
			add_up(&s, u.w, g->q, len);
			acc[t] = quant->kind == QWEN_QUANT_SUPER ?
			    add_super(&u, g, &s, quant->has_min, acc[t]) :
			    add_blocks(&u, g, &s, len, quant, acc[t]);
		}
	}
	for (t = 0, k = 0; t < n; t++, k += terms)
		w->to[t][r] = terms == 1 ? acc[k] : acc[k] + acc[k + 1];
}

/* ---- products with floats */

static float
round_bf16(float x, float least)
{
	return fabsf(x) < least ? 0.0f : qwen_bf16_f32(qwen_f32_bf16(x));
}

/* Returns the sum of products in bf16. */
static float
dot_bf16(const float *a, const float *b, size_t n)
{
	float acc = 0.0f, even, odd;
	size_t i, k;

	for (i = 0; i < n; i += 32) {
		even = odd = 0.0f;
		for (k = i; k < i + 32; k += 2) {
			even = fmaf(a[k], b[k], even);
			odd = fmaf(a[k + 1], b[k + 1], odd);
		}
		acc = acc + (even + odd);
	}
	return acc;
}

static void
row_of_floats(struct qwen_plain_work *w, const struct qwen_weight *m,
    const unsigned char *bytes, size_t r, size_t n)
{
	int bf16 = m->operand == QWEN_AS_BF16;
	float least = m->quant->type == QT_BF16 ? 0x1p-52f : 0.0f;
	size_t i, t;

	qwen_quant_values(m->quant, bytes, m->n_in, w->row);
	for (i = 0; bf16 && i < m->n_in; i++)
		w->row[i] = round_bf16(w->row[i], least);
	for (t = 0; t < n; t++)
		w->to[t][r] = bf16 ? dot_bf16(w->row, w->rounded +
		    t * w->widest, m->n_in) :
		    qwen_plain_dot(w->row, w->from[t], m->n_in);
}

/* ---- all products */

const unsigned char *
qwen_plain_matrix(const struct qwen_weight *m, size_t e)
{
	return m->part != NULL ? m->part[e] : m->data + e * m->expert_bytes;
}

/* Makes of row t of w->from what the weights take. */
static void
convert(struct qwen_plain_work *w, const struct qwen_weight *m, size_t t)
{
	const float *x = w->from[t];
	size_t i;

	if (m->operand == QWEN_AS_BF16) {
		for (i = 0; i < m->n_in; i++)
			w->rounded[t * w->widest + i] = round_bf16(x[i],
			    0x1p-60f);
	} else if (m->operand != QWEN_AS_F32)
		make_groups(w, t, x, m->n_in, m->operand == QWEN_AS_TWO_Q8);
}

void
qwen_plain_product(struct qwen_plain_work *w, const struct qwen_weight *m,
    size_t e, size_t n)
{
	const unsigned char *bytes = qwen_plain_matrix(m, e);
	float scale = m->scale == NULL ? 1.0f :
	    m->scale[m->expert_bytes > 0 ? e : 0];
	size_t r, t;

	for (t = 0; t < n; t++)
		convert(w, m, t);
	for (r = 0; r < m->n_out; r++, bytes += m->row_bytes) {
		if (m->quant->kind == QWEN_QUANT_FLOAT)
			row_of_floats(w, m, bytes, r, n);
		else
			row_of_integers(w, m, bytes, r, n);
		for (t = 0; t < n; t++) {
			w->to[t][r] *= scale;
			if (m->bias != NULL)
				w->to[t][r] += m->bias[r];
		}
	}
	if (m->lora != NULL)
		qwen_plain_lora(w, m, e, n);
}

void
qwen_plain_multiply(struct qwen_plain_work *w, const struct qwen_weight *m,
    const float *x, size_t x_width, float *y, size_t y_width, size_t n)
{
	size_t t;

	for (t = 0; t < n; t++) {
		w->from[t] = x + t * x_width;
		w->to[t] = y + t * y_width;
	}
	qwen_plain_product(w, m, 0, n);
}
