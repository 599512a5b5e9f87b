/* SPDX-License-Identifier: ISC */
/*
 * floats16.h - converts a group of LANES rows of F16 or BF16 to pairs of bf16,
 * rows in the lanes, for products in bf16.
 */
#ifndef QWEN_X86_FLOATS16_H
#define QWEN_X86_FLOATS16_H

#include "engine/cpu/kernel/ahead.h"
#include "engine/cpu/kernel/x86/decode.h"
#include "engine/cpu/kernel/x86/turn.h"

/*
 * Defined by the including file: stores four columns, from column k of the
 * group on, of the rows of a half.
 */
KERNEL_INLINE void store_pairs(void *to, size_t k, int half, wide_i a,
    wide_i b);

/*
 * Rounds to nearest even in the upper 16 bits.  With m = 1.5 * 2^16 times the
 * power of two in x, the last bit of m + x is that of the bf16.
 */
KERNEL_INLINE wide_f
round_bf16(wide_f x)
{
	const wide_f k = MM(set1_ps)(0x1.8p16f);
	wide_f m = (wide_f)((wide_i)x & MM(set1_epi32)((int)0xff800000));

	return MM(fnmadd_ps)(m, k, MM(fmadd_ps)(m, k, x));
}

/* Converts pairs of F16, rounded. */
KERNEL_INLINE wide_i
pairs_f16(wide_i v)
{
#ifdef __AVX512F__
	__m512 even = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v));
	__m512 odd = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(
	    _mm512_srli_epi32(v, 16)));
#else
	const __m256i apart = _mm256_broadcastsi128_si256(_mm_setr_epi8(
	    0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15));
	__m256i t = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(v, apart),
	    0xd8);
	__m256 even = _mm256_cvtph_ps(_mm256_castsi256_si128(t));
	__m256 odd = _mm256_cvtph_ps(_mm256_extracti128_si256(t, 1));
#endif

	return MM(srli_epi32)((wide_i)round_bf16(even), 16) |
	    (wide_i)round_bf16(odd);
}

/* Converts pairs of BF16; values below QWEN_BF16_WEIGHT_LEAST become 0. */
KERNEL_INLINE wide_i
pairs_bf16(wide_i v)
{
	typedef int16_t words __attribute__((vector_size(sizeof(wide_i))));
	const int16_t least = (127 - 52) << 7;

	return v & (wide_i)(((words)v & 0x7fff) >= least);
}

/* Converts a group, prefetching the next memory meanwhile. */
KERNEL_INLINE void
unpack_floats(uint32_t type, const unsigned char *const *row, void *to,
    int half, struct ahead *ahead)
{
	wide_i o[TURN];
	size_t k;
	int i;

	for (k = 0; k < QWEN_GROUP; k += 2 * TURN) {
		fetch_ahead(ahead);
		transpose(row, k * sizeof(uint16_t), o);
		UNROLL
		for (i = 0; i < TURN; i++)
			o[i] = type == QT_F16 ? pairs_f16(o[i]) :
			    pairs_bf16(o[i]);
		UNROLL
		for (i = 0; i < TURN; i += 2)
			store_pairs(to, k + 2 * (size_t)i, half, o[i],
			    o[i + 1]);
	}
}

#endif
