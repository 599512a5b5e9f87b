/* SPDX-License-Identifier: ISC */
/*
 * affine.c - matrices quantised by MLX: codes of 2, 4 or 8 bits in 32-bit
 * words, the first code in the lowest bits.  Each group of codes in a row has a
 * scale and a bias, in separate tensors.  A weight is scale * code + bias.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "hub/json.h"
#include "hub/plan.h"

enum { BLOCK = 32, BLOCK_BYTES = 20 };	/* of Q4_1 */

yyjson_val *
qwen_hub_mlx(const struct qwen_hub *h)
{
	static const char *const key[] = { "quantization",
	    "quantization_config" };
	yyjson_val *v, *method;
	size_t i;

	for (i = 0; i < 2; i++) {
		v = qwen_hub_get(h, key[i]);
		method = yyjson_obj_get(v, "quant_method");
		if (yyjson_obj_get(v, "group_size") != NULL &&
		    (method == NULL || yyjson_equals_str(method, "mlx")))
			return v;
	}
	return NULL;
}

int
qwen_hub_is_affine(const struct qwen_hub *h, const struct qwen_st_tensor *w)
{
	return w->type == ST_U32 && qwen_hub_mlx(h) != NULL &&
	    qwen_hub_after(h, w, ".scales") != NULL &&
	    qwen_hub_after(h, w, ".biases") != NULL;
}

/*
 * Reads bits and group size from config.json: those of this matrix, else those
 * of all matrices.
 */
static int
read_config(const struct qwen_hub *h, struct hub_source *s)
{
	yyjson_val *all = qwen_hub_mlx(h), *own;
	size_t n = strlen(s->w->name);
	uint64_t bits;

	n -= qwen_ends(s->w->name, ".weight") ? strlen(".weight") : 0;
	own = yyjson_obj_getn(all, s->w->name, n);
	own = yyjson_is_obj(own) ? own : all;
	if (qwen_hub_u64(yyjson_obj_get(own, "bits"), &bits) < 0 ||
	    qwen_hub_u64(yyjson_obj_get(own, "group_size"), &s->group) < 0 ||
	    s->group == 0 || s->group > 1 << 20)
		return qwen_hub_bad_tensor(h, s->w, "config.json has no bits "
		    "and group_size for it");
	if (bits != 2 && bits != 4 && bits != 8)
		return qwen_hub_bad_tensor(h, s->w, "quantised by MLX with %"
		    PRIu64 " bits; 2, 4 and 8 are supported: use the original "
		    "model, or a GGUF file of it", bits);
	s->bits = (unsigned)bits;
	return 0;
}

/* Returns 1 if t has one number for each group of each row of the matrix. */
static int
fits(const struct hub_source *s, const struct qwen_st_tensor *t)
{
	unsigned d = t->n_dims;

	return d == s->w->n_dims && d >= 2 && (t->type == ST_F16 ||
	    t->type == ST_BF16 || t->type == ST_F32) &&
	    t->shape[d - 1] == s->columns / s->group &&
	    t->shape[d - 2] == s->rows &&
	    (d < 3 || t->shape[0] == s->planes);
}

int
qwen_hub_affine(const struct qwen_hub_gguf *g, struct hub_source *s)
{
	if (read_config(g->hub, s) < 0)
		return -1;
	s->scale = qwen_hub_after(g->hub, s->w, ".scales");
	s->bias = qwen_hub_after(g->hub, s->w, ".biases");
	if (s->columns > UINT64_MAX / 32)
		return qwen_oom(g->hub->err);
	s->columns = s->columns * 32 / s->bits;
	if (s->columns % s->group != 0 || !fits(s, s->scale) ||
	    !fits(s, s->bias) || s->scale->type != s->bias->type)
		return qwen_hub_bad_tensor(g->hub, s->w, "its scales and "
		    "biases do not match %u bits and groups of %" PRIu64
		    " (config.json)", s->bits, s->group);
	return 0;
}

static float
number_at(const struct qwen_st_tensor *t, uint64_t i)
{
	const unsigned char *p = t->data + i * qwen_st_type_bytes(t->type);

	return t->type == ST_F32 ? qwen_bits_f32(qwen_le32(p)) :
	    t->type == ST_BF16 ? qwen_bf16_f32(qwen_le16(p)) :
	    qwen_f16_f32(qwen_le16(p));
}

/*
 * Returns code i of a row: words are little-endian, so bits count from byte 0.
 */
static unsigned
code_at(const struct hub_source *s, const unsigned char *row, uint64_t i)
{
	uint64_t at = i * s->bits;

	return row[at / 8] >> at % 8 & ((1u << s->bits) - 1);
}

static const unsigned char *
row_of(const struct hub_source *s, uint64_t row)
{
	return s->w->data + row * (s->columns * s->bits / 8);
}

void
qwen_hub_affine_row(const struct hub_source *s, uint64_t p, uint64_t r, float *x)
{
	uint64_t row = p * s->rows + r, groups = s->columns / s->group, i, k;
	const unsigned char *w = row_of(s, row);
	float scale, bias;

	for (i = 0; i < groups; i++) {
		scale = number_at(s->scale, row * groups + i);
		bias = number_at(s->bias, row * groups + i);
		for (k = i * s->group; k < (i + 1) * s->group; k++)
			x[k] = fmaf(scale, (float)code_at(s, w, k), bias);
	}
}

static int
is_half(float x)
{
	float h = qwen_f16_f32(qwen_f32_f16(x));

	return isfinite(h) && h == x;
}

int
qwen_hub_affine_is_q4_1(const struct hub_source *s)
{
	uint64_t groups = s->columns / s->group, i, k;
	const unsigned char *w;

	if (s->bits != 4 || s->group % BLOCK != 0)
		return 0;
	for (i = 0; i < s->scale->n; i++) {
		if (!is_half(number_at(s->bias, i)))
			return 0;
		if (is_half(number_at(s->scale, i)))
			continue;
		/* if all codes are 0, any finite scale will do */
		if (!isfinite(number_at(s->scale, i)))
			return 0;
		w = row_of(s, i / groups);
		for (k = 0; k < s->group; k++) {
			if (code_at(s, w, i % groups * s->group + k) != 0)
				return 0;
		}
	}
	return 1;
}

void
qwen_hub_affine_q4_1(const struct hub_source *s, uint64_t p, uint64_t r,
    unsigned char *dst)
{
	uint64_t row = p * s->rows + r, groups = s->columns / s->group, i, at;
	const unsigned char *w = row_of(s, row);
	float scale;
	size_t k;

	for (i = 0; i < s->columns; i += BLOCK, dst += BLOCK_BYTES) {
		at = row * groups + i / s->group;
		scale = number_at(s->scale, at);
		qwen_put_le16(dst, qwen_f32_f16(is_half(scale) ? scale : 0));
		qwen_put_le16(dst + 2, qwen_f32_f16(number_at(s->bias, at)));
		for (k = 0; k < BLOCK / 2; k++)
			dst[4 + k] = (unsigned char)(code_at(s, w, i + k) |
			    code_at(s, w, i + k + BLOCK / 2) << 4);
	}
}
