/* SPDX-License-Identifier: ISC */
/*
 * dequant.h - a group of 16 rows as bf16 in f32, rows in the lanes: panels of
 * products in bf16.
 *
 * A weight is mul times its integer, or that and add.  Its format's definition
 * rounds the product and the difference, but a product that is added to is
 * exact (11 bits of d, up to 6 of a scale, up to 5 of the weight), so it is one
 * rounding; then comes that to bf16.
 */
#ifndef QWEN_ARM_DEQUANT_H
#define QWEN_ARM_DEQUANT_H

#include "engine/kernel/arm/unpack.h"

/* Sixteen rows; mul and add are for 16 columns each. */
struct dequant {
	struct rows	half[2];
	float		mul[16][16], add[16][16];
};

/*
 * To nearest even in the upper 16 bits: with m = 1.5 * 2^16 times the power of
 * two in x, m + x has its last bit where that of the bf16 is.
 */
AI float32x4_t
round_bf16(float32x4_t x)
{
	const float32x4_t k = vdupq_n_f32(0x1.8p16f);
	float32x4_t m = vreinterpretq_f32_u32(vreinterpretq_u32_f32(x) &
	    vdupq_n_u32(0xff800000));

	return vfmsq_f32(vfmaq_f32(x, m, k), m, k);
}

AI float32x4_t
four_floats(int16x8_t v, int upper)
{
	return vcvtq_f32_s32(upper ? vmovl_high_s16(v) :
	    vmovl_s16(vget_low_s16(v)));
}

/* d times scales, or d and m alone, of four rows at p: rows r to r + 3. */
AI void
factors_block(uint32_t type, const unsigned char *const *p,
    struct dequant *to, size_t r)
{
	const struct qwen_traits *f = &qwen_traits[type];
	size_t k;

	for (k = 0; k < 16; k++) {
		vst1q_f32(to->mul[k] + r, load_d4(type, p, 16 * k / f->span));
		if (f->has_min)
			vst1q_f32(to->add[k] + r,
			    load_min4(type, p, 16 * k / f->span));
	}
}

/* The same of eight rows with integer scales, half h. */
AI void
factors_super(uint32_t type, const unsigned char *const *p,
    struct dequant *to, size_t h)
{
	const struct qwen_traits *f = &qwen_traits[type];
	struct rows *rows = &to->half[h];
	const size_t n = QWEN_GROUP / f->span;
	int16x8_t scale[16], min[16];
	size_t i, k;

	for (k = 0; k < n; k += 8) {
		turn8(rows->scale, (int)k, scale + k);
		if (f->has_min)
			turn8(rows->min, (int)k, min + k);
	}
	for (i = 0; i < 2; i++) {
		const size_t r = 8 * h + 4 * i;
		float32x4_t d = load_d4(type, p + 4 * i, 0), m = d;

		if (f->has_min)
			m = vnegq_f32(load_min4(type, p + 4 * i, 0));
		for (k = 0; k < 16; k++) {
			vst1q_f32(to->mul[k] + r, vmulq_f32(d,
			    four_floats(scale[k * n / 16], (int)i)));
			if (f->has_min)
				vst1q_f32(to->add[k] + r, vmulq_f32(m,
				    four_floats(min[k * n / 16], (int)i)));
		}
	}
}

/* 16 columns from k on of 16 rows: o[i] is column k + i. */
AI void
turn16(const struct dequant *from, size_t k, int8x16_t *o)
{
	int8x16_t v[16];
	int i, n;

	UNROLL
	for (i = 0; i < 16; i++)
		o[i] = vld1q_s8(from->half[i / 8].w[i % 8] + k);
	UNROLL
	for (n = 0; n < 4; n++) {
		UNROLL
		for (i = 0; i < 8; i++) {
			v[2 * i] = vzip1q_s8(o[i], o[i + 8]);
			v[2 * i + 1] = vzip2q_s8(o[i], o[i + 8]);
		}
		UNROLL
		for (i = 0; i < 16; i++)
			o[i] = v[i];
	}
}

/* A column of 16 rows. */
AI void
column(uint32_t type, const float *mul, const float *add, int8x16_t v,
    float *to)
{
	int16x8_t w[2];
	int i;

	widen_signed(v, w);
	UNROLL
	for (i = 0; i < 4; i++) {
		float32x4_t x = four_floats(w[i / 2], i % 2);
		float32x4_t m = vld1q_f32(mul + 4 * i);

		x = qwen_traits[type].has_min ?
		    vfmaq_f32(vld1q_f32(add + 4 * i), m, x) : vmulq_f32(m, x);
		/* those of MXFP4 are bf16, with no room for m */
		vst1q_f32(to + 4 * i, type == QT_MXFP4 ? x : round_bf16(x));
	}
}

/* Weights of 256 columns; p: the rows' bytes of them. */
AI void
dequant_group(uint32_t type, const unsigned char *const *p,
    float (*to)[1][16])
{
	struct dequant u;
	int8x16_t v[16];
	size_t h, k;
	int i;

	for (h = 0; h < 2; h++) {
		decode_rows(type, p + 8 * h, &u.half[h]);
		if (qwen_traits[type].by_block) {
			factors_block(type, p + 8 * h, &u, 8 * h);
			factors_block(type, p + 8 * h + 4, &u, 8 * h + 4);
		} else {
			factors_super(type, p + 8 * h, &u, h);
		}
	}
	for (k = 0; k < 16; k++) {
		turn16(&u, 16 * k, v);
		UNROLL
		for (i = 0; i < 16; i++)
			column(type, u.mul[k], u.add[k], v[i],
			    to[16 * k + (size_t)i][0]);
	}
}

/* Four columns of a row of F16 or BF16, as bf16. */
AI float32x4_t
four_columns(uint32_t type, const unsigned char *p)
{
	uint16x4_t v = vreinterpret_u16_u8(vld1_u8(p));

	if (type == QT_F16)
		return round_bf16(vcvt_f32_f16(vreinterpret_f16_u16(v)));
	/* QWEN_BF16_WEIGHT_LEAST */
	v = vand_u16(v, vcge_u16(vand_u16(v, vdup_n_u16(0x7fff)),
	    vdup_n_u16((127 - 52) << 7)));
	return vreinterpretq_f32_u32(vshll_n_u16(v, 16));
}

/* Weights of 256 columns of F16 or BF16; p: the rows' bytes of them. */
AI void
floats_group(uint32_t type, const unsigned char *const *p,
    float (*to)[1][16])
{
	float32x4_t v[4], a, b;
	size_t r, k;
	int i;

	for (k = 0; k < QWEN_GROUP; k += 4) {
		for (r = 0; r < 16; r += 4) {
			UNROLL
			for (i = 0; i < 4; i++)
				v[i] = four_columns(type, p[r + (size_t)i] +
				    k * sizeof(uint16_t));
			UNROLL
			for (i = 0; i < 2; i++) {
				a = i == 0 ? vzip1q_f32(v[0], v[2]) :
				    vzip2q_f32(v[0], v[2]);
				b = i == 0 ? vzip1q_f32(v[1], v[3]) :
				    vzip2q_f32(v[1], v[3]);
				vst1q_f32(to[k + 2 * (size_t)i][0] + r,
				    vzip1q_f32(a, b));
				vst1q_f32(to[k + 2 * (size_t)i + 1][0] + r,
				    vzip2q_f32(a, b));
			}
		}
	}
}

#endif
