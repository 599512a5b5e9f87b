/* SPDX-License-Identifier: ISC */
/* gemm_q6_k_avx512vnni.c - y = Wx for many tokens, W in Q6_K, AVX-512 VNNI. */
#define BLOCK_BYTES 210
#include "kernel/x86/panel.h"

/* Sixteen signed scales; also as pairs of int16 for the offset of 32. */
PI void
unpack_scales(const unsigned char *const *p, struct panel *to, size_t g,
    int half)
{
	const unsigned char *s[16];
	__m512i v[4];
	int i, j;

	for (i = 0; i < 16; i++)
		s[i] = p[i] + 192;
	turn4(s, v);
	for (i = 0; i < 4; i++) {
		__m512i even, odd;

		for (j = 0; j < 4; j++)
			_mm512_store_si512(to->scale[g][4 * i + j] + 16 * half,
			    _mm512_srai_epi32(_mm512_slli_epi32(v[i],
			    (unsigned)(24 - 8 * j)), 24));
		for (j = 0; j < 2; j++) {
			even = _mm512_load_si512(
			    to->scale[g][4 * i + 2 * j] + 16 * half);
			odd = _mm512_load_si512(
			    to->scale[g][4 * i + 2 * j + 1] + 16 * half);
			_mm512_store_si512(to->min[g][2 * i + j] + 16 * half,
			    _mm512_mask_blend_epi16(0xaaaaaaaa, even,
			    _mm512_slli_epi32(odd, 16)));
		}
	}
	_mm512_store_ps(to->d[g][0] + 16 * half, load_d16(p, 208));
}

PI void
unpack16(const unsigned char *const *p, struct panel *to, size_t g, int half)
{
	const __m512i m4 = _mm512_set1_epi8(15), m2 = _mm512_set1_epi8(0x30);
	const unsigned char *q[16];
	__m512i a[8], b[8], h[8];
	size_t k;
	int i;

	unpack_scales(p, to, g, half);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k;
		turn8(q, a);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 64 * k + 32;
		turn8(q, b);
		for (i = 0; i < 16; i++)
			q[i] = p[i] + 128 + 32 * k;
		turn8(q, h);
#define PUT(j, nibbles, high)						\
	store_quad(to, g, 4 * k + (j), half, i, _mm512_or_si512(	\
	    _mm512_and_si512(nibbles, m4), _mm512_and_si512(high, m2)))
#pragma GCC unroll 8
		for (i = 0; i < 8; i++) {
			PUT(0, a[i], _mm512_slli_epi16(h[i], 4));
			PUT(1, b[i], _mm512_slli_epi16(h[i], 2));
			PUT(2, _mm512_srli_epi16(a[i], 4), h[i]);
			PUT(3, _mm512_srli_epi16(b[i], 4),
			    _mm512_srli_epi16(h[i], 2));
		}
#undef PUT
	}
}

/* Weights are 0 .. 63 in the panel: 32 times scale times sum comes off. */
PI void
fold(const struct panel *p, size_t g, const struct qwen_q8 *const *x, int n,
    __m512 (*acc)[2])
{
	__m512i sum[MAX_TILE][2];
	int j, t, h, k;

	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		const int8_t *act[MAX_TILE];
		__m512i v[MAX_TILE][2];

#pragma GCC unroll 2
		for (k = 0; k < 2; k++) {
			__m512i s0 = _mm512_load_si512(p->scale[g][2 * j + k]);
			__m512i s1 = _mm512_load_si512(
			    p->scale[g][2 * j + k] + 16);

#pragma GCC unroll 6
			for (t = 0; t < n; t++) {
				act[t] = x[t]->q + 32 * j;
				v[t][0] = v[t][1] = _mm512_setzero_si512();
			}
			QUADS(v, p->w[g][j], 4 * k, 4 * k + 4, act, n);
#pragma GCC unroll 6
			for (t = 0; t < n; t++) {
				__m512i a = _mm512_set1_epi32(x[t]->a[j]);

				sum[t][0] = _mm512_add_epi32(sum[t][0],
				    _mm512_mullo_epi32(_mm512_mullo_epi32(
				    v[t][0], s0), a));
				sum[t][1] = _mm512_add_epi32(sum[t][1],
				    _mm512_mullo_epi32(_mm512_mullo_epi32(
				    v[t][1], s1), a));
			}
		}
	}
#pragma GCC unroll 6
	for (t = 0; t < n; t++) {
		__m512 scale = _mm512_set1_ps(x[t]->d);

#pragma GCC unroll 2
		for (h = 0; h < 2; h++) {
			__m512i off = _mm512_setzero_si512();

#pragma GCC unroll 8
			for (j = 0; j < 8; j++)
				off = _mm512_dpwssd_epi32(off,
				    _mm512_load_si512(p->min[g][j] + 16 * h),
				    broadcast(x[t]->asum16 + 2 * j));
			off = _mm512_sub_epi32(sum[t][h],
			    _mm512_slli_epi32(off, 5));
			acc[t][h] = _mm512_fmadd_ps(_mm512_mul_ps(
			    _mm512_load_ps(p->d[g][0] + 16 * h), scale),
			    _mm512_cvtepi32_ps(off), acc[t][h]);
		}
	}
}

const struct qwen_kernel qwen_gemm_q6_k_avx512vnni = {
	.op = QWEN_OP_GEMM, .type = QT_Q6_K, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .min_tok = 4,
	.run.matmul = gemm,
};
