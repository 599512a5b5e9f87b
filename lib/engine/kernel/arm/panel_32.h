/* SPDX-License-Identifier: ISC */
/* panel_32.h - panel.h for Q8_0: a d of its own for every 32 weights. */
#include "engine/kernel/arm/panel.h"

AI void
unpack(const unsigned char *p, struct panel *to, size_t g, size_t i,
    int8x16_t *w)
{
	size_t j;

	weights(p, w);
	for (j = 0; j < 8; j++)
		put32(to->d[g][j], i, load_f16(p + 34 * j));
}

AI void
fold(const struct panel *p, size_t g, const struct side *s, int tv,
    float32x4_t (*acc)[TV])
{
	float32x4_t part[RV][TV];
	int32x4_t v[RV][TV];
	int j, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			part[r][t] = vdupq_n_f32(0.0f);
	}
	for (j = 0; j < 8; j++) {
		for (r = 0; r < RV; r++) {
			for (t = 0; t < tv; t++)
				v[r][t] = vdupq_n_s32(0);
		}
		mac16(v, p->w[g][2 * j], s, 32 * j, tv);
		mac16(v, p->w[g][2 * j + 1], s, 32 * j + 16, tv);
#pragma GCC unroll 4
		for (t = 0; t < tv; t++) {
			int32x4_t a = vmovl_s16(lanes_of(s->a[t], j));

#pragma GCC unroll 4
			for (r = 0; r < RV; r++)
				part[r][t] = vfmaq_f32(part[r][t],
				    vld1q_f32(p->d[g][j] + 4 * r),
				    vcvtq_f32_s32(vmulq_s32(v[r][t], a)));
		}
	}
	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			acc[r][t] = vfmaq_f32(acc[r][t], s->d[t],
			    part[r][t]);
	}
}
