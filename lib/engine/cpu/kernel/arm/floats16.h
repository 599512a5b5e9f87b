/* SPDX-License-Identifier: ISC */
/*
 * floats16.h - converts a group of 16 rows of F16 or BF16 to bf16 values in
 * f32, rows in the lanes: panels of products in bf16.
 */
#ifndef QWEN_ARM_FLOATS16_H
#define QWEN_ARM_FLOATS16_H

#include "engine/cpu/kernel/arm/unpack.h"

/*
 * Rounds to nearest even in the upper 16 bits.  With m = 1.5 * 2^16 times the
 * power of two in x, the last bit of m + x is that of the bf16.
 */
AI float32x4_t
round_bf16(float32x4_t x)
{
	const float32x4_t k = vdupq_n_f32(0x1.8p16f);
	float32x4_t m = vreinterpretq_f32_u32(vreinterpretq_u32_f32(x) &
	    vdupq_n_u32(0xff800000));

	return vfmsq_f32(vfmaq_f32(x, m, k), m, k);
}

/* Converts four columns of a row of F16 or BF16 to bf16. */
AI float32x4_t
four_columns(uint32_t type, const unsigned char *p)
{
	uint16x4_t v = vreinterpret_u16_u8(vld1_u8(p));

	if (type == QT_F16)
		return round_bf16(vcvt_f32_f16(vreinterpret_f16_u16(v)));
	/* below QWEN_BF16_WEIGHT_LEAST: 0 */
	v = vand_u16(v, vcge_u16(vand_u16(v, vdup_n_u16(0x7fff)),
	    vdup_n_u16((127 - 52) << 7)));
	return vreinterpretq_f32_u32(vshll_n_u16(v, 16));
}

/* Converts 256 columns of F16 or BF16; p: the rows' bytes of these columns. */
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
