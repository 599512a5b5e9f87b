/* SPDX-License-Identifier: ISC */
/*
 * gemm_grid_avx512vbmi.c - y = Wx for many tokens, AVX-512 VBMI: weights of
 * grids, which are looked up when rows have been turned, and so need not be
 * turned themselves.
 */
#define UNPACK_GRID unpack_grid
#include "engine/cpu/kernel/x86/grid_vbmi.h"
#include "engine/cpu/kernel/x86/panel_vnni.h"

/* Dwords that each have their bytes from place q on, as the pattern says. */
KERNEL_INLINE __m512i
in_dwords(__m512i v, int pattern)
{
	return _mm512_shuffle_epi8(v, _mm512_add_epi8(_mm512_set1_epi32(pattern),
	    in_lanes(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12,
	    12, 12))));
}

/* Byte 4r + q of w[j], weight j of quad q of row r, to dword r of o[q]. */
KERNEL_INLINE void
quads(const __m512i *w, __m512i *o)
{
#define PAIRS_OF(r) 4 * (r), 64 + 4 * (r), 4 * (r) + 1, 65 + 4 * (r),
	TABLE(pairs_of, 64) = { QWORD8(PAIRS_OF) PAIRS_OF(8) PAIRS_OF(9)
	    PAIRS_OF(10) PAIRS_OF(11) PAIRS_OF(12) PAIRS_OF(13) PAIRS_OF(14)
	    PAIRS_OF(15) };
	__m512i a, b, at = _mm512_load_si512(pairs_of);
	int q;

	UNROLL
	for (q = 0; q < 4; q += 2) {
		a = _mm512_permutex2var_epi8(w[0], at, w[1]);
		b = _mm512_permutex2var_epi8(w[2], at, w[3]);
		o[q] = _mm512_mask_blend_epi16(0xaaaaaaaa, a,
		    _mm512_slli_epi32(b, 16));
		o[q + 1] = _mm512_mask_blend_epi16(0xaaaaaaaa,
		    _mm512_srli_epi32(a, 16), b);
		at |= set8(2);
	}
}

/* Scale k of 32-block j from the four bits of dwords from a place on. */
KERNEL_INLINE void
store_bits(uint32_t type, struct panel *to, size_t g, size_t j, size_t k,
    int half, __m512i v, unsigned from)
{
	v = _mm512_srli_epi32(v, from) & _mm512_set1_epi32(15);
	store_scale(type, to, g, j, k, half, _mm512_add_epi32(v, v) |
	    _mm512_set1_epi32(1));
}

/* ---- IQ3: registers of four entries of each row, two for 32 columns */

/* Seven signs for two entries, twice: the first two of four, or the second. */
KERNEL_INLINE __m512i
signs_iq3_xxs(__m512i dwords, int second)
{
#define FIRST_4(q) 0, 0, 7, 7, 32, 32, 39, 39,
	TABLE(first_4, 64) = { QWORD8(FIRST_4) };
	__m512i at = _mm512_load_si512(first_4);

	if (second)
		at = _mm512_add_epi8(at, set8(14));
	return eighth_signs(_mm512_multishift_epi64_epi8(at, dwords));
}

KERNEL_INLINE void
unpack_iq3(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	const int s = type == QT_IQ3_S;
	__m512i v[16], signs[8], high[2], a[4], b[4], w[4];
	__m512i scales = _mm512_setzero_si512();
	struct indices x[4];
	int i, k, q;

	transpose(p, 2, v);
	transpose(p, 34, v + 8);
	transpose(p, s ? 74 : 66, signs);
	if (s) {
		scales = dwords(p, 106);
		high[0] = dwords(p, 66);
		high[1] = dwords(p, 70);
	}
	UNROLL
	for (k = 0; k < 8; k++)
		store_bits(type, to, g, (size_t)k, 0, half, s ? scales :
		    signs[k], s ? 4 * (unsigned)k : 28);
	for (i = 0; i < 16; i += 4) {
		UNROLL
		for (k = 0; k < 4; k++) {
			x[k].i = v[i + k];
			x[k].ninth = 0;
			if (s)
				x[k].ninth = _mm512_test_epi8_mask(
				    in_dwords(high[i / 8], 0x01010101 *
				    ((i + k) / 2 % 4)), _mm512_set1_epi32(
				    k % 2 == 0 ? 0x08040201 : (int)0x80402010));
		}
		in_tables(type, x, 4, a, b);
		UNROLL
		for (k = 0; k < 4; k++) {
			__m512i t = signs[(i + k) / 2], o[4];

			t = s ? in_dwords(t, k % 2 == 0 ? 0x01010000 :
			    0x03030202) : signs_iq3_xxs(t, k % 2);
			t = _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaa, t,
			    _mm512_srli_epi16(t, 4));
			nibble_weights(s ? iq3_s_weights : iq3_xxs_weights,
			    a[k], b[k], t, w);
			quads(w, o);
			UNROLL
			for (q = 0; q < 4; q++)
				store_quad(type, to, g, (size_t)(i + k) / 2,
				    half, 4 * (k % 2) + q, o[q]);
		}
	}
}

/* ---- IQ2: a register of four entries of each row for 32 columns */

/* What each format has them from. */
struct iq2 {
	__m512i	v[16];		/* indices, with the rest or without it */
	__m512i	signs[8];	/* of IQ2_S */
	__m512i	high[2];	/* upper bits of its indices */
	__m512i	scales[2];	/* of all but IQ2_XXS */
};

KERNEL_INLINE void
open_iq2(uint32_t type, const unsigned char *const *p, struct iq2 *u)
{
	const size_t scales = type == QT_IQ2_XS ? 66 : 74;

	transpose(p, 2, u->v);
	transpose(p, 34, type == QT_IQ2_S ? u->signs : u->v + 8);
	if (type == QT_IQ2_XXS)
		return;
	u->scales[0] = dwords(p, scales);
	u->scales[1] = dwords(p, scales + 4);
	if (type == QT_IQ2_S) {
		u->high[0] = dwords(p, 66);
		u->high[1] = dwords(p, 70);
	}
}

/* Of block j: indices, and a byte of signs for each entry. */
KERNEL_INLINE __m512i
block_iq2(uint32_t type, const struct iq2 *u, int j, struct indices *x)
{
	__m512i v;

	x->ninth = x->tenth = 0;
	switch (type) {
	case QT_IQ2_XXS:
		x->i = u->v[2 * j];
		return eighth_signs(_mm512_multishift_epi64_epi8(
		    _mm512_load_si512(signs_of_8), u->v[2 * j + 1]));
	case QT_IQ2_XS:		/* bytes of words: lower ones, upper ones */
		x->i = _mm512_mask_blend_epi16(0xaaaaaaaa,
		    in_dwords(u->v[2 * j], 0x0200),
		    in_dwords(u->v[2 * j + 1], 0x02000000));
		v = _mm512_mask_blend_epi16(0xaaaaaaaa,
		    in_dwords(u->v[2 * j], 0x0301),
		    in_dwords(u->v[2 * j + 1], 0x03010000));
		x->ninth = _mm512_test_epi8_mask(v, set8(1));
		return eighth_signs(_mm512_srli_epi16(v, 1));
	default:
		v = in_dwords(u->high[j / 4], 0x01010101 * (j % 4));
		x->i = u->v[j];
		x->ninth = _mm512_test_epi8_mask(v,
		    _mm512_set1_epi32(0x40100401));
		x->tenth = _mm512_test_epi8_mask(v,
		    _mm512_set1_epi32((int)0x80200802));
		return u->signs[j];
	}
}

KERNEL_INLINE void
unpack_iq2(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	__m512i sign[4], a[4], b[4], w[4], o[4];
	struct indices x[4];
	struct iq2 u;
	int i, j, q;

	open_iq2(type, p, &u);
	UNROLL
	for (j = 0; j < 8; j++) {
		if (type == QT_IQ2_XXS) {
			store_bits(type, to, g, (size_t)j, 0, half,
			    u.v[2 * j + 1], 28);
			continue;
		}
		store_bits(type, to, g, (size_t)j, 0, half, u.scales[j / 4],
		    8 * (unsigned)(j % 4));
		store_bits(type, to, g, (size_t)j, 1, half, u.scales[j / 4],
		    8 * (unsigned)(j % 4) + 4);
	}
	for (i = 0; i < 8; i += 4) {
		UNROLL
		for (j = 0; j < 4; j++)
			sign[j] = block_iq2(type, &u, i + j, &x[j]);
		in_tables(type, x, 4, a, b);
		UNROLL
		for (j = 0; j < 4; j++) {
			/* four lower signs, four upper ones */
			crumb_weights(a[j], sign[j], 0x0101, w);
			quads(w, o);
			UNROLL
			for (q = 0; q < 4; q++)
				store_quad(type, to, g, (size_t)(i + j), half,
				    2 * q, o[q]);
			crumb_weights(b[j], sign[j], 0x1010, w);
			quads(w, o);
			UNROLL
			for (q = 0; q < 4; q++)
				store_quad(type, to, g, (size_t)(i + j), half,
				    2 * q + 1, o[q]);
		}
	}
}

KERNEL_INLINE void
unpack_grid(uint32_t type, const unsigned char *const *p, struct panel *to,
    size_t g, int half)
{
	size_t i;

	for (i = 0; i < (size_t)LANES; i += 4)
		_mm_store_ps(to->d[g][0] + (size_t)(LANES * half) + i,
		    load_d4(type, p + i, 0));
	if (type == QT_IQ3_S || type == QT_IQ3_XXS)
		unpack_iq3(type, p, to, g, half);
	else
		unpack_iq2(type, p, to, g, half);
}

QWEN_SMALL_GRID_FORMATS(QWEN_PRODUCT)

const struct qwen_kernel qwen_gemm_grid_avx512vbmi_kernels[] = {
	QWEN_SMALL_GRID_FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = FROM_TOKENS,
	    QWEN_AVX512VBMI)
	{ 0 }
};
