/* SPDX-License-Identifier: ISC */
/*
 * rows.c - converts rows of weights from number format and order of the folder
 * to those of the GGUF file.
 */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/half.h"
#include "hub/plan.h"

/* ---------------------------------------------------------------- numbers */

static float
real(const unsigned char *p)
{
	uint64_t u = qwen_le64(p);
	double d;

	memcpy(&d, &u, sizeof d);
	return (float)d;
}

/* Converts n elements, `step' bytes apart, to f32. */
static void
load(const struct qwen_hub_gguf *g, enum qwen_st_type type,
    const unsigned char *p, size_t step, size_t n, float *x)
{
	size_t i;

#define EACH(value) \
	for (i = 0; i < n; i++, p += step) \
		x[i] = (value); \
	break
	switch (type) {
	case ST_F32: EACH(qwen_bits_f32(qwen_le32(p)));
	case ST_BF16: EACH(qwen_bf16_f32(qwen_le16(p)));
	case ST_F16: EACH(qwen_f16_f32(qwen_le16(p)));
	case ST_F8_E4M3: EACH(g->e4m3[*p]);
	case ST_F8_E5M2: EACH(g->e5m2[*p]);
	case ST_I8: EACH((float)(signed char)*p);
	default: EACH(real(p));		/* ST_F64 */
	}
#undef EACH
}

/*
 * Returns the largest magnitude of 32 numbers; NaN if any is NaN. Magnitudes
 * compare like their bits as integers.
 */
static float
largest(const float *x)
{
	uint32_t u[32], max = 0;
	size_t k;

	memcpy(u, x, sizeof u);
	for (k = 0; k < 32; k++)
		u[k] &= 0x7fffffff;
	for (k = 0; k < 32; k++)
		max = u[k] > max ? u[k] : max;
	return qwen_bits_f32(max);
}

static int
store_q8_0(const float *x, size_t n, unsigned char *dst)
{
	float d, id, a;
	uint16_t h;
	int32_t q[32];
	size_t i, k;

	for (i = 0; i < n; i += 32, x += 32, dst += 34) {
		d = largest(x) / 127;
		id = d == 0 ? 0 : 1 / d;
		h = qwen_f32_f16(d);
		if (!isfinite(qwen_f16_f32(h)))
			return -1;
		qwen_put_le16(dst, h);
		for (k = 0; k < 32; k++) {
			a = fabsf(x[k] * id);
			/* round to nearest, ties away from 0; NaN becomes 0 */
			a = a < 128 ? a : 0;
			q[k] = (int32_t)a;
			q[k] += a - (float)q[k] >= 0.5f;
			q[k] = x[k] < 0 ? -q[k] : q[k];
		}
		for (k = 0; k < 32; k++)
			dst[2 + k] = (unsigned char)q[k];
	}
	return 0;
}

/* Stores n numbers in a format; -1 if one is too large for it. */
static int
store(uint32_t type, const float *x, size_t n, unsigned char *dst)
{
	int half = type == QT_F16;
	uint16_t h;
	size_t i;

	if (type == QT_Q8_0)
		return store_q8_0(x, n, dst);
	for (i = 0; i < n; i++) {
		if (type == QT_F32) {
			qwen_put_le32(dst + 4 * i, qwen_f32_bits(x[i]));
			continue;
		}
		h = half ? qwen_f32_f16(x[i]) : qwen_f32_bf16(x[i]);
		if (!isfinite(half ? qwen_f16_f32(h) : qwen_bf16_f32(h)) &&
		    isfinite(x[i]))
			return -1;
		qwen_put_le16(dst + 2 * i, h);
	}
	return 0;
}

/* ------------------------------------------------------------------ order */

/*
 * Returns the index in the folder of value head `head' of GGUF.  The folder has
 * the value heads that share a key head next to each other; GGUF has the first
 * of each key head, then the second of each, and so on.
 */
static uint64_t
tiled(const struct hub_heads *h, uint64_t head)
{
	uint64_t share = h->n_value / h->n_key;

	return head % h->n_key * share + head / h->n_key;
}

/*
 * Returns the row in the folder of row r of [q k v], or of z if z is set.  The
 * folder has rows [q k v z] for each key head.
 */
static uint64_t
interleaved(const struct hub_heads *h, int z, uint64_t r)
{
	uint64_t share = h->n_value / h->n_key * h->value_dim;
	uint64_t group = 2 * h->key_dim + 2 * share;
	uint64_t n_k = h->n_key * h->key_dim;

	if (z)
		return r / share * group + 2 * h->key_dim + share + r % share;
	if (r < 2 * n_k)
		return r % n_k / h->key_dim * group + r / n_k * h->key_dim +
		    r % h->key_dim;
	r -= 2 * n_k;
	return r / share * group + 2 * h->key_dim + r % share;
}

uint64_t
qwen_hub_row(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    uint64_t r)
{
	uint64_t v;

	switch (t->order) {
	case HUB_TILED_ROWS:
		if (r < t->head_from)
			return r;
		v = r - t->head_from;
		return t->head_from + tiled(&g->heads, v / t->head_rows) *
		    t->head_rows + v % t->head_rows;
	case HUB_SPLIT_QKV:
	case HUB_SPLIT_Z:
		return interleaved(&g->heads, t->order == HUB_SPLIT_Z, r);
	case HUB_PICKED:
		return g->word[r];
	default:
		return t->row0 + r;
	}
}

/* Copies a row, putting its value heads of size bytes each into tiled order. */
static void
tile_columns(const struct qwen_hub_gguf *g, const void *from, void *to,
    size_t size)
{
	uint64_t i;

	for (i = 0; i < g->heads.n_value; i++)
		memcpy((char *)to + i * size, (const char *)from +
		    tiled(&g->heads, i) * size, size);
}

/* ------------------------------------------------------------------- rows */

/* Multiplies row r of plane p of the folder by its scales. */
static void
scale_row(const struct qwen_hub_gguf *g, const struct hub_source *s,
    uint64_t p, uint64_t r, float *x)
{
	uint64_t rows = (s->rows + s->block_rows - 1) / s->block_rows, at, c, k;
	size_t size = qwen_st_type_bytes(s->scale->type);
	float by;

	at = s->scale->n == 1 ? 0 :
	    (p * rows + r / s->block_rows) * s->scale_columns;
	for (c = 0; c < s->columns; at++) {
		load(g, s->scale->type, s->scale->data + at * size, size, 1, &by);
		for (k = 0; k < s->block_columns && c < s->columns; k++, c++)
			x[c] *= by;
	}
}

/* Returns row r of plane p of the tensor as f32, somewhere in x. */
static float *
numbers(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t r, float *x)
{
	size_t size = qwen_st_type_bytes(s->w->type);
	const unsigned char *plane = s->w->data + p * s->rows * s->columns * size;
	uint64_t from = qwen_hub_row(g, t, r);

	if (t->order == HUB_MIXED) {
		load(g, s->w->type, s->w->data + (from * s->columns *
		    s->planes + p) * size, s->planes * size, s->columns, x);
		return x;
	}
	if (t->order == HUB_MIXED_TRANSPOSED) {
		load(g, s->w->type, s->w->data + (from * s->planes + p) * size,
		    s->columns * s->planes * size, s->rows, x);
		return x;
	}
	if (t->order == HUB_TRANSPOSED) {
		load(g, s->w->type, plane + from * size, s->columns * size,
		    s->rows, x);
		return x;
	}
	if (s->bits != 0)
		qwen_hub_affine_row(s, p, from, x);
	else
		load(g, s->w->type, plane + from * s->columns * size, size,
		    s->columns, x);
	if (s->bits == 0 && s->scale != NULL)
		scale_row(g, s, p, from, x);
	if (t->order != HUB_TILED_COLUMNS)
		return x;
	tile_columns(g, x, x + s->columns, t->head_rows * sizeof *x);
	return x + s->columns;
}

/* Applies t->op with the rounding of the folder's type: f16 stays f16. */
static void
change(const struct hub_tensor *t, enum qwen_st_type type, float *x, size_t n)
{
	size_t i;

	if (t->op == HUB_KEEP)
		return;
	for (i = 0; i < n; i++) {
		x[i] = t->op == HUB_PLUS_ONE ? x[i] + 1 : t->op == HUB_TIMES ?
		    x[i] * t->by : -(float)exp((double)x[i]);
		if (type == ST_F16 && t->op != HUB_TIMES)
			x[i] = qwen_f16_f32(qwen_f32_f16(x[i]));
	}
}

/*
 * Repacks a row of 4-bit codes.  Each group of codes shares a scale; GGUF has
 * its first half in the low bits of the bytes and its second half in the high
 * bits.  len is the group's length: 32 for MXFP4, where the scale precedes each
 * group; 16 for NVFP4, where four scales precede four groups.
 */
static void
codes(const unsigned char *w, const unsigned char *scale, uint64_t columns,
    size_t len, unsigned char *dst)
{
	uint64_t n = columns / len, i;
	size_t j, half = len / 2;
	unsigned char *q, a, b;

	for (i = 0; i < n; i++, w += half) {
		if (len == 32) {
			dst[17 * i] = scale[i];
			q = dst + 17 * i + 1;
		} else {
			dst[36 * (i / 4) + i % 4] = scale[i] & 0x7f;
			q = dst + 36 * (i / 4) + 4 + 8 * (i % 4);
		}
		for (j = 0; j < half; j++) {
			a = w[j / 2];
			b = w[(j + half) / 2];
			q[j] = (unsigned char)((j % 2 ? a >> 4 : a & 15) |
			    (j % 2 ? b >> 4 : b & 15) << 4);
		}
	}
}

static void
fp4_row(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t r, unsigned char *x,
    unsigned char *dst)
{
	size_t len = t->type == QT_MXFP4 ? 32 : 16;
	uint64_t at = p * s->rows + qwen_hub_row(g, t, r);
	const unsigned char *w = s->w->data + at * (s->columns / 2);
	const unsigned char *scale = s->scale->data + at * (s->columns / len);

	if (t->order == HUB_TILED_COLUMNS) {
		tile_columns(g, w, x, t->head_rows / 2);
		tile_columns(g, scale, x + s->columns / 2, t->head_rows / len);
		w = x;
		scale = x + s->columns / 2;
	}
	codes(w, scale, s->columns, len, dst);
}

static void
affine_row(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t r, unsigned char *x,
    unsigned char *dst)
{
	int tiled = t->order == HUB_TILED_COLUMNS;

	qwen_hub_affine_q4_1(s, p, qwen_hub_row(g, t, r), tiled ? x : dst);
	if (tiled)
		tile_columns(g, x, dst, t->head_rows /
		    qwen_ggml_block_len(QT_Q4_1) *
		    qwen_ggml_block_bytes(QT_Q4_1));
}

uint64_t
qwen_hub_rows(const struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t p, uint64_t first, uint64_t n,
    float *x, unsigned char *dst)
{
	size_t bytes = t->ne[0] / qwen_ggml_block_len(t->type) *
	    qwen_ggml_block_bytes(t->type);
	uint64_t r;
	float *row;

	for (r = first; r < first + n; r++, dst += bytes) {
		if (t->kind == HUB_FP4) {
			fp4_row(g, t, s, p, r, (unsigned char *)x, dst);
			continue;
		}
		if (t->kind == HUB_AFFINE) {
			affine_row(g, t, s, p, r, (unsigned char *)x, dst);
			continue;
		}
		row = numbers(g, t, s, p, r, x);
		change(t, s->w->type, row, t->ne[0]);
		if (store(t->type, row, t->ne[0], dst) < 0)
			break;
	}
	return r - first;
}
