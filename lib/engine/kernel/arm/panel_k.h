/* SPDX-License-Identifier: ISC */
/*
 * panel_k.h - panel.h for formats with 256 weights under one d: integer scales
 * of each SUB of them, and minimums for some.
 */
#include "engine/kernel/arm/panel.h"

AI void
unpack(const unsigned char *p, struct panel *to, size_t g, size_t i,
    int8x16_t *w)
{
	int16_t s[16], n[8];
	int16x8_t scale[2], min;
	size_t j;

	weights(p, w);
	scales(p, scale, &min);
	for (j = 0; j < 256 / SUB / 8; j++)
		vst1q_s16(s + 8 * j, scale[j]);
	vst1q_s16(n, min);
	for (j = 0; j < 256 / SUB; j++)
		put16(to->scale[g][j], i, s[j]);
	for (j = 0; j < 8; j++)
		put16(to->min[g][j], i, n[j]);
	put32(to->d[g][0], i, load_f16(p + D_AT));
	put32(to->dmin[g], i, load_f16(p + DMIN_AT));
}

/* The minimums of vector r of the rows with vector t of the tokens. */
AI int32x4_t
min_sum(const struct panel *p, size_t g, const struct side *s, int r, int t)
{
	int32x4_t sum = vdupq_n_s32(0);
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		sum = vmlal_s16(sum, vld1_s16(p->min[g][j] + 4 * r),
		    lanes_of(s->asum[t], j));
	return sum;
}

AI void
fold(const struct panel *p, size_t g, const struct side *s, int tv,
    float32x4_t (*acc)[TV])
{
	int32x4_t sum[RV][TV], v[RV][TV];
	int j, k, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			sum[r][t] = vdupq_n_s32(0);
	}
	for (j = 0; j < 256 / SUB; j++) {
		for (r = 0; r < RV; r++) {
			for (t = 0; t < tv; t++)
				v[r][t] = vdupq_n_s32(0);
		}
#pragma GCC unroll 2
		for (k = 0; k < SUB; k += 16)
			mac16(v, p->w[g][(SUB * j + k) / 16], s, SUB * j + k,
			    tv);
#pragma GCC unroll 4
		for (t = 0; t < tv; t++) {
			int16x4_t a = lanes_of(s->a[t], SUB * j / 32);

#pragma GCC unroll 4
			for (r = 0; r < RV; r++)
				sum[r][t] = vmlaq_s32(sum[r][t], v[r][t],
				    vmull_s16(vld1_s16(p->scale[g][j] +
				    4 * r), a));
		}
	}
	for (r = 0; r < RV; r++) {
		float32x4_t d = vld1q_f32(p->d[g][0] + 4 * r);
		float32x4_t dmin = vld1q_f32(p->dmin[g] + 4 * r);

		for (t = 0; t < tv; t++) {
			acc[r][t] = vfmaq_f32(acc[r][t],
			    vmulq_f32(d, s->d[t]), vcvtq_f32_s32(sum[r][t]));
			if (HAS_MIN)
				acc[r][t] = vfmsq_f32(acc[r][t],
				    vmulq_f32(dmin, s->d[t]),
				    vcvtq_f32_s32(min_sum(p, g, s, r, t)));
		}
	}
}
