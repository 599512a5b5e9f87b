/* SPDX-License-Identifier: ISC */
/* bits.h - unpacking bits, nibbles and scales, for decode.h. */
#ifndef QWEN_ARM_BITS_H
#define QWEN_ARM_BITS_H

#include "engine/cpu/kernel/arm/dot.h"
#include "engine/cpu/kernel/formats.h"
#include "engine/quant/codebook.h"

/* 256 weights that share a d. */
struct group {
	int8x16_t	w[16];
	/*
	 * eight in both, for spans of 32; or eight in each of the two, for
	 * spans of 16
	 */
	int16x8_t	scale[2], min[2];
};

AI uint8x16_t
set8(int x)
{
	return vdupq_n_u8((uint8_t)x);
}

AI int8x16_t
as_signed(uint8x16_t v)
{
	return vreinterpretq_s8_u8(v);
}

/* ---- bits, pairs of bits, nibbles */

/* Expands the 16 bits of bytes 2k and 2k + 1 to bytes of 0 or -1. */
AI uint8x16_t
bits16(uint8x16_t v, int k)
{
	const uint8x16_t bit = vreinterpretq_u8_u64(
	    vdupq_n_u64(0x8040201008040201));

	return vtstq_u8(vqtbl1q_u8(v, vcombine_u8(vdup_n_u8((uint8_t)(2 * k)),
	    vdup_n_u8((uint8_t)(2 * k + 1)))), bit);
}

/* Expands bytes 4k to 4k + 3 to 16 pairs of bits, in order. */
AI uint8x16_t
crumbs_in_order(uint8x16_t v, int k)
{
	const uint8x16_t four = vreinterpretq_u8_u32(
	    (uint32x4_t){ 0, 0x01010101, 0x02020202, 0x03030303 });
	const int8x16_t down = vreinterpretq_s8_u32(
	    vdupq_n_u32(0xfafcfe00));	/* 0, -2, -4, -6 */

	return vshlq_u8(vqtbl1q_u8(v, four + set8(4 * k)), down) & set8(3);
}

/*
 * Unpacks 256 pairs of bits in the layout of Q2_K: 32 bytes hold 128 weights,
 * the first 32 in the lowest bits.
 */
AI void
crumbs(const unsigned char *p, uint8x16_t *w)
{
	const uint8x16_t m2 = set8(3);
	int i;

	UNROLL
	for (i = 0; i < 4; i++) {
		uint8x16_t v = vld1q_u8(p + 16 * i);
		uint8x16_t *to = w + i / 2 * 8 + i % 2;

		to[0] = v & m2;
		to[2] = vshrq_n_u8(v, 2) & m2;
		to[4] = vshrq_n_u8(v, 4) & m2;
		to[6] = vshrq_n_u8(v, 6);
	}
}

/* Unpacks 16 low nibbles to to[0], the high nibbles to to[1]. */
AI void
nibbles(uint8x16_t v, uint8x16_t *to)
{
	to[0] = v & set8(15);
	to[1] = vshrq_n_u8(v, 4);
}

/* Unpacks the nibbles of eight bytes in order, low before high. */
AI uint8x16_t
nibbles_of(uint8x8_t v)
{
	uint8x8_t lo = v & vdup_n_u8(15), hi = vshr_n_u8(v, 4);

	return vcombine_u8(vzip1_u8(lo, hi), vzip2_u8(lo, hi));
}

/* ---- scales */

AI void
widen_unsigned(uint8x16_t v, int16x8_t *to)
{
	to[0] = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(v)));
	to[1] = vreinterpretq_s16_u16(vmovl_high_u8(v));
}

AI void
widen_signed(int8x16_t v, int16x8_t *to)
{
	to[0] = vmovl_s8(vget_low_s8(v));
	to[1] = vmovl_high_s8(v);
}

/* Returns 2 c + 1. */
AI int16x8_t
odd(uint16x8_t c)
{
	return vreinterpretq_s16_u16((c + c) | vdupq_n_u16(1));
}

/* The same for the nibbles of eight bytes. */
AI void
odd_nibbles(uint8x8_t v, int16x8_t *to)
{
	uint8x16_t c = nibbles_of(v);

	widen_unsigned((c + c) | set8(1), to);
}

AI uint8x8_t
load4(const unsigned char *p)
{
	return vreinterpret_u8_u32(vdup_n_u32(qwen_le32(p)));
}

#endif
