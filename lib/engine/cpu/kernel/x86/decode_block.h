/* SPDX-License-Identifier: ISC */
/*
 * decode_block.h - formats with fewer than 256 weights per d; and d of all
 * formats.
 */
#ifndef QWEN_KERNEL_DECODE_BLOCK_H
#define QWEN_KERNEL_DECODE_BLOCK_H

#include "engine/cpu/kernel/x86/bits.h"

/* Returns 1 for blocks of 32 nibbles with a d per block. */
KERNEL_INLINE int
in_nibbles(uint32_t type)
{
	return type == QT_Q4_0 || type == QT_Q4_1 || type == QT_Q5_0 ||
	    type == QT_Q5_1 || type == QT_IQ4_NL || type == QT_MXFP4;
}

/* Loads 32 fifth bits at p; with 512 bits also those `next' bytes further. */
KERNEL_INLINE wide_mask
fifth_bits(const unsigned char *p, size_t next)
{
#ifdef __AVX512F__
	return (uint32_t)dword_at(p) |
	    (uint64_t)(uint32_t)dword_at(p + next) << 32;
#else
	(void)next;
	return bits_at(p);
#endif
}

/* Unpacks WIDE pairs of bits in order, four per byte, from p on. */
KERNEL_INLINE wide_i
crumbs_in_order(const unsigned char *p)
{
	/* index: the rest of a nibble, with the pair in bits 0, 1 or in 2, 3 */
	static const int8_t pair[16] = {
		0, 1, 2, 3, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0
	};
#ifdef __AVX512F__
	const __m512i each = _mm512_set_epi32(0x0f0f0f0f, 0x0e0e0e0e,
	    0x0d0d0d0d, 0x0c0c0c0c, 0x0b0b0b0b, 0x0a0a0a0a, 0x09090909,
	    0x08080808, 0x07070707, 0x06060606, 0x05050505, 0x04040404,
	    0x03030303, 0x02020202, 0x01010101, 0);
	__m512i v = _mm512_shuffle_epi8(in_lanes(load16(p)), each);

	v = _mm512_mask_srli_epi16(v, 0xaaaaaaaa, v, 4);
#else
	const __m256i each = _mm256_set_epi32(0x07070707, 0x06060606,
	    0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0);
	__m256i v = _mm256_shuffle_epi8(in_lanes(load8(p)), each);

	v = _mm256_blend_epi16(v, _mm256_srli_epi16(v, 4), 0xaa);
#endif
	return look_up(v & MM(set1_epi32)(0x0c030c03), pair);
}

/* Unpacks register k of a group. */
KERNEL_INLINE wide_i
block_weights(uint32_t type, const unsigned char *p, int k)
{
	const size_t next = qwen_traits[type].bytes;
	static const int8_t fp4[16] = {
		16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4
	};

	p += (size_t)(WIDE * k) / qwen_traits[type].len * next;
	switch (type) {
	case QT_Q4_0:
		return nibbles(p + 2, next);
	case QT_Q4_1:
		return nibbles(p + 4, next);
	case QT_Q5_0:
		return nibbles(p + 6, next) |
		    keep_where(fifth_bits(p + 2, next), set8(16));
	case QT_Q5_1:
		return nibbles(p + 8, next) |
		    keep_where(fifth_bits(p + 4, next), set8(16));
	case QT_IQ4_NL:
		return look_up(nibbles(p + 2, next), qwen_iq4_values);
	case QT_MXFP4:
		return look_up(nibbles(p + 1, next), fp4);
	case QT_NVFP4:
		return look_up(nibbles8(p + 4 + WIDE / 2 * k % 32), fp4);
	case QT_Q1_0:
		return keep_where(bits_at(p + 2 + WIDE / 8 * k % 16), set8(2));
	case QT_Q2_0:
		return crumbs_in_order(p + 2 + WIDE / 4 * k % 16);
	default:
		return join(load32(p + 2), load32(p + 2 + next));
	}
}

/* ---- d of four rows */

/* Loads the f16 at this offset of four rows as f32. */
KERNEL_INLINE __m128
f16x4(const unsigned char *const *w, size_t at)
{
	uint16_t h[8] = { 0 };
	int i;

	for (i = 0; i < 4; i++)
		memcpy(&h[i], w[i] + at, 2);
	return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)h));
}

/* Loads d of IQ1_M: four bits in each of four words. */
KERNEL_INLINE __m128
f16_of_parts(const unsigned char *const *w)
{
	uint16_t h[8] = { 0 };
	int i;

	for (i = 0; i < 4; i++) {
		uint64_t x = qword_at(w[i] + 48);

		h[i] = (uint16_t)((x >> 12 & 15) | (x >> 24 & 0xf0) |
		    (x >> 36 & 0xf00) | (x >> 48 & 0xf000));
	}
	return _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)h));
}

KERNEL_INLINE __m128i
bytes4(const unsigned char *const *w, size_t at)
{
	return _mm_setr_epi32(w[0][at], w[1][at], w[2][at], w[3][at]);
}

/* Converts the scales of MXFP4: 2^(x - 128); above 252 NaN. */
KERNEL_INLINE __m128
powers_of_two(__m128i x)
{
	const __m128i one = _mm_set1_epi32(1);
	__m128i v = _mm_slli_epi32(_mm_sub_epi32(x, one), 23);

	v = _mm_blendv_epi8(_mm_sllv_epi32(_mm_set1_epi32(0x200000), x), v,
	    _mm_cmpgt_epi32(x, one));
	return _mm_castsi128_ps(v |
	    _mm_cmpgt_epi32(x, _mm_set1_epi32(252)));
}

/* Converts the scales of NVFP4: half of E4M3 without sign; 127 is 0. */
KERNEL_INLINE __m128
e4m3(__m128i x)
{
	__m128i v = _mm_add_epi32(_mm_slli_epi32(x &= _mm_set1_epi32(127), 20),
	    _mm_set1_epi32(119 << 23));
	__m128 small = _mm_mul_ps(_mm_cvtepi32_ps(x), _mm_set1_ps(0x1p-10f));

	v = _mm_blendv_epi8(_mm_castps_si128(small), v,
	    _mm_cmpgt_epi32(x, _mm_set1_epi32(7)));
	return _mm_castsi128_ps(_mm_andnot_si128(_mm_cmpeq_epi32(x,
	    _mm_set1_epi32(127)), v));
}

/* Loads d number k of a group. */
KERNEL_INLINE __m128
load_d4(uint32_t type, const unsigned char *const *w, size_t k)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t each = f->by_block ? f->len / f->span : 1;
	const size_t at = k / each * f->bytes + f->d_at;

	if (type == QT_MXFP4)
		return powers_of_two(bytes4(w, at));
	if (type == QT_NVFP4)
		return e4m3(bytes4(w, at + k % each));
	return _mm_mul_ps(type == QT_IQ1_M ? f16_of_parts(w) : f16x4(w, at),
	    _mm_set1_ps(f->d_by));
}

/* Loads minimum number k of a group. */
KERNEL_INLINE __m128
load_min4(uint32_t type, const unsigned char *const *w, size_t k)
{
	return f16x4(w, k * qwen_traits[type].bytes +
	    qwen_traits[type].d_at + 2);
}

#endif
