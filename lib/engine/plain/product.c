/* SPDX-License-Identifier: ISC */
/*
 * product.c - y = Wx: activations in the form that the weights take, then row
 * by row of W.
 */
#include "base/half.h"
#include "engine/plain/plain.h"

/* Returns the numbers of n that are in the group from i on. */
static size_t
in_group(size_t n, size_t i)
{
	return n - i < QWEN_GROUP ? n - i : QWEN_GROUP;
}

/* ---- activations as integers */

/* Returns the largest magnitude of n numbers; NaN if one is not finite. */
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
 * Converts up to 256 numbers, and leaves in rest what is lost.  top is the
 * largest a: 7, or 1 where activations have two terms.
 */
static void
make_group(struct qwen_plain_group *g, const float *x, size_t n, float top,
    float *rest)
{
	float most = largest(x, n), a, q;
	int zero = !(most >= 0x1p-100f);
	size_t i;

	*g = (struct qwen_plain_group){ .d = isnan(most) ? NAN : zero ? 0.0f :
	    most / (127.0f * top) };
	for (i = 0; i < n; i++) {
		int32_t *aj = &g->a[i / 32];

		if (i % 32 == 0) {
			a = ceilf(largest(x + i, n - i < 32 ? n - i : 32) *
			    (top / most));
			*aj = zero || a < 1.0f ? 1 : (int)fminf(a, top);
		}
		q = zero ? 0.0f : rintf(x[i] * (127.0f * top / most /
		    (float)*aj));
		g->q[i] = (int8_t)fmaxf(-127.0f, fminf(127.0f, q));
		g->sum[i / 16] += *aj * g->q[i];
		rest[i] = fmaf(-g->d, (float)g->q[i], x[i]);
	}
}

/* Returns the groups of term k of row t. */
static struct qwen_plain_group *
groups_of(const struct qwen_plain_work *w, size_t t, size_t k)
{
	return w->group + (2 * t + k) * qwen_plain_groups(w->width);
}

/* Converts n numbers of row t to a term, or two. */
static void
make_groups(struct qwen_plain_work *w, size_t t, const float *x, size_t n,
    int two)
{
	float rest[QWEN_GROUP];
	size_t i, g, m;

	for (i = g = 0; i < n; i += m, g++) {
		m = in_group(n, i);
		make_group(groups_of(w, t, 0) + g, x + i, m, two ? 1.0f : 7.0f,
		    rest);
		if (two)
			make_group(groups_of(w, t, 1) + g, rest, m, 1.0f, rest);
	}
}

/* ---- products with integers */

/* Returns the sum of 16 weights times activations, of sub-block b. */
static int32_t
dot16(const struct qwen_unpacked *u, const struct qwen_plain_group *g, size_t b)
{
	const int8_t *w = u->w + 16 * b, *q = g->q + 16 * b;
	int32_t sum = 0;
	int i;

	for (i = 0; i < 16; i++)
		sum += w[i] * q[i];
	return sum;
}

/* Adds a block whose integer scales share one d. */
static float
add_super(const struct qwen_unpacked *u, const struct qwen_plain_group *g,
    int has_min, float acc)
{
	int32_t sum = 0, min = 0;
	size_t b;

	for (b = 0; b < QWEN_GROUP / 16; b++) {
		sum += u->scale[b] * g->a[b / 2] * dot16(u, g, b);
		min += u->min[b] * g->sum[b];
	}
	acc = fmaf(u->d[0] * g->d, (float)sum, acc);
	if (has_min)
		acc = fmaf(-u->m[0] * g->d, (float)min, acc);
	return acc;
}

/* Adds n weights of blocks that each have their d. */
static float
add_blocks(const struct qwen_unpacked *u, const struct qwen_plain_group *g,
    size_t n, const struct qwen_quant *quant, float acc)
{
	float part = 0.0f, part_min = 0.0f;
	size_t k, b = 0;

	for (k = 0; k < n / quant->span; k++) {
		int32_t sum = 0, min = 0;

		for (; b < (k + 1) * quant->span / 16; b++) {
			sum += g->a[b / 2] * dot16(u, g, b);
			min += g->sum[b];
		}
		part = fmaf(u->d[k], (float)sum, part);
		part_min = fmaf(u->m[k], (float)min, part_min);
	}
	acc = fmaf(g->d, part, acc);
	return quant->has_min ? fmaf(g->d, part_min, acc) : acc;
}

/* Returns the product of the row in w->unpacked with groups. */
static float
dot_integers(const struct qwen_plain_work *w, const struct qwen_weight *m,
    const struct qwen_plain_group *g)
{
	const struct qwen_unpacked *u = w->unpacked;
	float acc = 0.0f;
	size_t i;

	for (i = 0; i < m->n_in; i += QWEN_GROUP, u++, g++)
		acc = m->quant->kind == QWEN_QUANT_SUPER ?
		    add_super(u, g, m->quant->has_min, acc) :
		    add_blocks(u, g, in_group(m->n_in, i), m->quant, acc);
	return acc;
}

/* ---- products with floats */

/* Returns x rounded to bf16; magnitudes below least become 0. */
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
	float *to = w->rounded + t * w->width;
	const float *x = w->from[t];
	size_t i;

	if (m->quant->kind != QWEN_QUANT_FLOAT)
		make_groups(w, t, x, m->n_in, m->operand == QWEN_AS_TWO_Q8);
	for (i = 0; m->operand == QWEN_AS_BF16 && i < m->n_in; i++)
		to[i] = round_bf16(x[i], 0x1p-60f);
}

/* Reads a row of weights to w->row or w->unpacked. */
static void
read_row(struct qwen_plain_work *w, const struct qwen_weight *m,
    const unsigned char *bytes)
{
	const struct qwen_quant *q = m->quant;
	size_t i, n;

	if (q->kind == QWEN_QUANT_FLOAT)
		qwen_quant_values(q, bytes, m->n_in, w->row);
	for (i = 0; m->operand == QWEN_AS_BF16 && i < m->n_in; i++)
		w->row[i] = round_bf16(w->row[i], q->type == QT_BF16 ?
		    0x1p-52f : 0.0f);
	for (i = 0; q->kind != QWEN_QUANT_FLOAT && i < m->n_in; i += n) {
		n = in_group(m->n_in, i);
		qwen_quant_unpack(q, bytes, n, &w->unpacked[i / QWEN_GROUP]);
		bytes += n / q->block_len * q->block_bytes;
	}
}

/* Returns the product of that row with row t. */
static float
dot(const struct qwen_plain_work *w, const struct qwen_weight *m, size_t t)
{
	switch (m->operand) {
	case QWEN_AS_F32:
		return qwen_plain_dot(w->row, w->from[t], m->n_in);
	case QWEN_AS_BF16:
		return dot_bf16(w->row, w->rounded + t * w->width, m->n_in);
	case QWEN_AS_Q8:
		return dot_integers(w, m, groups_of(w, t, 0));
	default:
		return dot_integers(w, m, groups_of(w, t, 0)) +
		    dot_integers(w, m, groups_of(w, t, 1));
	}
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
		read_row(w, m, bytes);
		for (t = 0; t < n; t++) {
			w->to[t][r] = dot(w, m, t) * scale;
			if (m->bias != NULL)
				w->to[t][r] += m->bias[r];
		}
	}
	if (m->lora != NULL)
		qwen_plain_lora(w, m, e, n);
}

void
qwen_plain_multiply(struct qwen_plain_work *w, const struct qwen_weight *m,
    const float *x, float *y, size_t n)
{
	size_t t;

	for (t = 0; t < n; t++) {
		w->from[t] = x + t * w->width;
		w->to[t] = y + t * w->width;
	}
	qwen_plain_product(w, m, 0, n);
}
