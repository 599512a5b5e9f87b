/* SPDX-License-Identifier: ISC */
/*
 * rowdot.h - rows4.h for formats with 256 weights under one d.  A file that
 * includes this has included the format's header (q4_k.h and the like).
 */
#include "engine/kernel/arm/rows4.h"

/* A row's block, taken apart. */
struct block {
	int8x16_t	w[16];
	int16x8_t	scale[2], min;
};

/* Scales times the activations' own, widened: one for each SUB weights. */
AI void
scale_products(const struct block *u, const struct qwen_q8 *x, int32x4_t *s)
{
	int16x8_t a = vld1q_s16(x->a), v;

#if SUB == 32
	v = vmulq_s16(u->scale[0], a);
#else
	v = vmulq_s16(u->scale[1], vzip2q_s16(a, a));
	s[2] = vmovl_s16(vget_low_s16(v));
	s[3] = vmovl_s16(vget_high_s16(v));
	v = vmulq_s16(u->scale[0], vzip1q_s16(a, a));
#endif
	s[0] = vmovl_s16(vget_low_s16(v));
	s[1] = vmovl_s16(vget_high_s16(v));
}

/* Four int32 that add up to the integer sum of a block. */
AI int32x4_t
dot(const struct block *u, const struct qwen_q8 *x)
{
	const int32x4_t zero = vdupq_n_s32(0);
	int32x4_t s[256 / SUB / 4], even = zero, odd = zero, v;

	scale_products(u, x, s);
#define PART(v, i) dot16(v, u->w[i], vld1q_s8(x->q + 16 * (i)))
#if SUB == 32
#define STEP(to, j) do {						\
	v = PART(PART(zero, 2 * (j)), 2 * (j) + 1);			\
	to = vmlaq_laneq_s32(to, v, s[(j) / 4], (j) % 4);		\
} while (0)
#else
#define HALF(to, i) do {						\
	v = PART(zero, i);						\
	to = vmlaq_laneq_s32(to, v, s[(i) / 4], (i) % 4);		\
} while (0)
#define STEP(to, j) do {						\
	HALF(even, 2 * (j));						\
	HALF(odd, 2 * (j) + 1);						\
} while (0)
#endif
	STEP(even, 0); STEP(odd, 1); STEP(even, 2); STEP(odd, 3);
	STEP(even, 4); STEP(odd, 5); STEP(even, 6); STEP(odd, 7);
#undef STEP
#undef PART
	return vaddq_s32(even, odd);
}

/* And to the sum of its minimums. */
AI int32x4_t
dot_min(const struct block *u, const struct qwen_q8 *x)
{
	int16x8_t a = vld1q_s16(x->asum);

	return vmlal_high_s16(vmull_s16(vget_low_s16(u->min),
	    vget_low_s16(a)), u->min, a);
}

AI void
sums(const struct qwen_matmul *p, const unsigned char *const *row,
    const struct qwen_q8 *const *x, int nt, float32x4_t *acc)
{
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / QWEN_GROUP;
	int j;

	for (b = 0; b < n; b++) {
		float32x4_t d = load_d4(w, D_AT), dmin = load_d4(w, DMIN_AT);
		int32x4_t sum[4][4], min[4][4];

		for (i = 0; i < 4; i++) {
			struct block u;

			prefetch_next(p, w[i], BLOCK_BYTES);
			weights(w[i], u.w);
			scales(w[i], u.scale, &u.min);
			for (j = 0; j < nt; j++) {
				sum[j][i] = dot(&u, x[j] + b);
				min[j][i] = dot_min(&u, x[j] + b);
			}
			w[i] += BLOCK_BYTES;
		}
		for (j = 0; j < nt; j++) {
			float32x4_t s = vdupq_n_f32(x[j][b].d);

			acc[j] = vfmaq_f32(acc[j], vmulq_f32(d, s),
			    vcvtq_f32_s32(sum4x4(sum[j])));
			if (HAS_MIN)
				acc[j] = vfmsq_f32(acc[j], vmulq_f32(dmin, s),
				    vcvtq_f32_s32(sum4x4(min[j])));
		}
	}
}
