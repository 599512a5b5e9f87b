/* SPDX-License-Identifier: ISC */
/*
 * rowdot_32.h - rows4.h for Q8_0: a float step every 32 weights, and one for
 * up to eight of them, which share the activations' scale.
 */
#include "engine/kernel/arm/rows4.h"

/* Block b of a group, at w: to part. */
AI void
add_block(const unsigned char *const *w, const struct qwen_q8 *const *x,
    size_t b, int nt, float32x4_t *part)
{
	float32x4_t d = load_d4(w, 0);
	int32x4_t v[4][4];
	int i, j;

	for (i = 0; i < 4; i++) {
		int8x16_t w0 = vld1q_s8((const int8_t *)w[i] + 2);
		int8x16_t w1 = vld1q_s8((const int8_t *)w[i] + 18);

		for (j = 0; j < nt; j++)
			v[j][i] = dot16(dot16(vdupq_n_s32(0), w0,
			    vld1q_s8(x[j]->q + 32 * b)), w1,
			    vld1q_s8(x[j]->q + 32 * b + 16));
	}
	for (j = 0; j < nt; j++)
		part[j] = vfmaq_f32(part[j], d, vcvtq_f32_s32(vmulq_n_s32(
		    sum4x4(v[j]), x[j]->a[b])));
}

AI void
sums(const struct qwen_matmul *p, const unsigned char *const *row,
    const struct qwen_q8 *const *first, int nt, float32x4_t *acc)
{
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / 32, at, nb;
	int j;

	for (at = 0; at < n; at += nb) {
		const struct qwen_q8 *x[4];
		float32x4_t part[4];

		nb = n - at < 8 ? n - at : 8;
		for (j = 0; j < nt; j++) {
			x[j] = first[j] + at / 8;
			part[j] = vdupq_n_f32(0.0f);
		}
		for (i = 0; i < 4; i++)
			prefetch_next(p, w[i], nb * 34);
		for (b = 0; b < nb; b++) {
			add_block(w, x, b, nt, part);
			for (i = 0; i < 4; i++)
				w[i] += 34;
		}
		for (j = 0; j < nt; j++)
			acc[j] = vfmaq_f32(acc[j], vdupq_n_f32(x[j]->d),
			    part[j]);
	}
}
