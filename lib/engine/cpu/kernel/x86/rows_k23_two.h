/* SPDX-License-Identifier: ISC */
/*
 * rows_k23_two.h - four rows by up to four tokens of Q2_K and Q3_K, AVX-512:
 * like rows_k23.h, but two rows at a time, with both halves of a block in a
 * register.
 */
#ifndef QWEN_X86_ROWS_K23_TWO_H
#define QWEN_X86_ROWS_K23_TWO_H

#include "engine/cpu/kernel/x86/rows512.h"

/* Unpacks the planes of both halves. */
KERNEL_INLINE void
weights_k23(uint32_t type, const unsigned char *p, __m512i *u)
{
	const __m512i m4 = set8(15), m2 = set8(0x33);
	__m512i v, bit, a, b;
	int k;

	if (type == QT_Q2_K) {
		v = _mm512_loadu_si512(p + 16);
		UNROLL
		for (k = 0; k < 4; k++)
			u[k] = _mm512_srli_epi16(v, (unsigned)(2 * k)) &
			    set8(3);
		return;
	}
	v = _mm512_loadu_si512(p + 32);
	bit = _mm512_srlv_epi16(in_halves(load32(p)), join(
	    _mm256_setzero_si256(), _mm256_set1_epi16(4))) & m4;
	a = (v & m2) | _mm512_shuffle_epi8(in_halves(in_each_lane(EVEN_K3)),
	    bit);
	b = (_mm512_srli_epi16(v, 2) & m2) |
	    _mm512_shuffle_epi8(in_halves(in_each_lane(ODD_K3)), bit);
	u[0] = a & m4;
	u[1] = b & m4;
	u[2] = _mm512_srli_epi16(a, 4) & m4;
	u[3] = _mm512_srli_epi16(b, 4) & m4;
}

/* A token: activations in the order of planes, factors, sums of 16. */
struct act_k23 {
	__m512i	q[4], a;
	__m256i	asum;
};

KERNEL_INLINE void
open_k23(const struct qwen_q8 *x, struct act_k23 *y)
{
	__m256i a;
	int k;

	UNROLL
	for (k = 0; k < 4; k++)
		y->q[k] = join(load32(x->q + 32 * k),
		    load32(x->q + 128 + 32 * k));
	k23_act(x, &a, &y->asum);
	y->a = in_halves(a);
}

/* Multiplies two rows; plain: as in rows_k45.h. */
KERNEL_INLINE __m512i
two_rows_k23(uint32_t type, __m512i (*u)[4], const __m256i *scale,
    const struct act_k23 *y, int plain)
{
	__m512i s = join(scale[0], scale[1]), at[4], v;
	int k;

	UNROLL
	for (k = 0; k < 4; k++)
		at[k] = lane_places(k, 8 + k, 4 + k, 12 + k, 16);
	v = dot_two(u[0], u[1], y->q, plain ? s : _mm512_mullo_epi16(s, y->a),
	    at);
	if (type == QT_Q2_K)
		return v;
	return _mm512_sub_epi32(v, _mm512_zextsi256_si512(rows_beside(
	    _mm256_madd_epi16(_mm256_slli_epi16(scale[0], 2), y->asum),
	    _mm256_madd_epi16(_mm256_slli_epi16(scale[1], 2), y->asum))));
}

KERNEL_INLINE void
sums_k23_two(uint32_t type, const unsigned char **w,
    const struct qwen_q8 **x, size_t n, int nt, int plain,
    const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[type].bytes;
	const unsigned char *const *p = (const unsigned char *const *)w;
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m512i sum[4], min[4], u[2][4];
		struct act_k23 y[4];
		struct k23_heads h;
		__m128 d = load_d4(type, p, 0), dmin = d;

		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		if (type == QT_Q2_K)
			dmin = f16x4(p, qwen_traits[type].d_at + 2);
		heads_k23(type, p, &h);
		for (j = 0; j < nt; j++)
			open_k23(x[j] + b, &y[j]);
		UNROLL
		for (i = 0; i < 4; i += 2) {
			weights_k23(type, w[i], u[0]);
			weights_k23(type, w[i + 1], u[1]);
			for (j = 0; j < nt; j++) {
				__m512i v = two_rows_k23(type, u,
				    h.scale + i, &y[j], plain), m;

				sum[j] = i == 0 ? v : join_two(sum[j], v);
				if (type != QT_Q2_K)
					continue;
				m = _mm512_zextsi256_si512(rows_beside(
				    _mm256_madd_epi16(h.min[i], y[j].asum),
				    _mm256_madd_epi16(h.min[i + 1],
				    y[j].asum)));
				min[j] = i == 0 ? m : join_two(min[j], m);
			}
			w[i] += bytes;
			w[i + 1] += bytes;
		}
		for (j = 0; j < nt; j++) {
			__m128 by = _mm_set1_ps(x[j][b].d);

			acc[j] = _mm_fmadd_ps(_mm_mul_ps(d, by),
			    _mm_cvtepi32_ps(add_lanes(sum[j])), acc[j]);
			if (type == QT_Q2_K)
				acc[j] = _mm_fmadd_ps(_mm_mul_ps(-dmin, by),
				    _mm_cvtepi32_ps(add_lanes(min[j])),
				    acc[j]);
		}
	}
}

#endif
