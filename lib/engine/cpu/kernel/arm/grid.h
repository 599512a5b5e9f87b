/* SPDX-License-Identifier: ISC */
/* grid.h - weights from grid entries, with signs or shifts; for decode.h. */
#ifndef QWEN_ARM_GRID_H
#define QWEN_ARM_GRID_H

#include "engine/cpu/kernel/arm/bits.h"

/* Return 16 weights of four entries of four, or of two entries of eight. */
AI uint8x16_t
four4(const uint8_t (*grid)[4], unsigned a, unsigned b, unsigned c, unsigned d)
{
	uint64_t lo = qwen_le32(grid[a]) | (uint64_t)qwen_le32(grid[b]) << 32;
	uint64_t hi = qwen_le32(grid[c]) | (uint64_t)qwen_le32(grid[d]) << 32;

	return vcombine_u8(vcreate_u8(lo), vcreate_u8(hi));
}

AI uint8x16_t
two8(const uint8_t (*grid)[8], unsigned a, unsigned b)
{
	return vcombine_u8(vld1_u8(grid[a]), vld1_u8(grid[b]));
}

/* Joins 16 indices: low has the lower eight bits, high the upper bits. */
AI void
indices(uint16_t *i, uint8x16_t low, uint8x16_t high)
{
	vst1q_u16(i, vreinterpretq_u16_u8(vzip1q_u8(low, high)));
	vst1q_u16(i + 8, vreinterpretq_u16_u8(vzip2q_u8(low, high)));
}

/* Negates v where the bit is set; 16 bits from bit 16k on. */
AI int8x16_t
with_signs(uint8x16_t v, const uint8x16_t *sign, int k)
{
	uint8x16_t m = bits16(sign[k / 8], k % 8);

	return as_signed((v ^ m) - m);
}

/*
 * Completes bytes of seven signs with an eighth, so that the number of ones is
 * even.
 */
AI uint8x16_t
eighth_sign(uint8x16_t v)
{
	return vsliq_n_u8(v, vcntq_u8(v), 7);
}

/*
 * Unpacks eight dwords of four times seven signs and four bits of scale: 32
 * bytes of signs, and the scales.
 */
AI void
signs_xxs(const uint32x4_t *a, uint8x16_t *sign, int16x8_t *scale)
{
	const uint32x4_t m7 = vdupq_n_u32(0x7f);
	int i;

	UNROLL
	for (i = 0; i < 2; i++)
		sign[i] = eighth_sign(vreinterpretq_u8_u32((a[i] & m7) |
		    (vshlq_n_u32(a[i], 1) & vshlq_n_u32(m7, 8)) |
		    (vshlq_n_u32(a[i], 2) & vshlq_n_u32(m7, 16)) |
		    (vshlq_n_u32(a[i], 3) & vshlq_n_u32(m7, 24))));
	*scale = odd(vshrq_n_u16(vuzp2q_u16(vreinterpretq_u16_u32(a[0]),
	    vreinterpretq_u16_u32(a[1])), 12));
}

AI void
decode_iq3_xxs(const unsigned char *p, struct group *u)
{
	const unsigned char *i = p + 2;
	uint32x4_t a[2];
	uint8x16_t sign[2];
	int k;

	a[0] = vreinterpretq_u32_u8(vld1q_u8(p + 66));
	a[1] = vreinterpretq_u32_u8(vld1q_u8(p + 82));
	signs_xxs(a, sign, u->scale);
	UNROLL
	for (k = 0; k < 16; k++, i += 4)
		u->w[k] = with_signs(four4(qwen_grid_iq3_xxs, i[0], i[1], i[2],
		    i[3]), sign, k);
}

AI void
decode_iq3_s(const unsigned char *p, struct group *u)
{
	const uint8x16_t high = vreinterpretq_u8_u64(
	    vdupq_n_u64(qwen_le64(p + 66)));
	uint8x16_t sign[2];
	uint16_t i[64];
	int k;

	odd_nibbles(load4(p + 106), u->scale);
	sign[0] = vld1q_u8(p + 74);
	sign[1] = vld1q_u8(p + 90);
	UNROLL
	for (k = 0; k < 4; k++)
		indices(i + 16 * k, vld1q_u8(p + 2 + 16 * k),
		    bits16(high, k) & set8(1));
	UNROLL
	for (k = 0; k < 16; k++)
		u->w[k] = with_signs(four4(qwen_grid_iq3_s, i[4 * k],
		    i[4 * k + 1], i[4 * k + 2], i[4 * k + 3]), sign, k);
}

AI void
decode_iq2_xxs(const unsigned char *p, struct group *u)
{
	uint32x4_t a[2], v, w;
	uint8x16_t sign[2];
	int k;

	/* layout: eight times four indices, then a dword */
	UNROLL
	for (k = 0; k < 2; k++) {
		v = vreinterpretq_u32_u8(vld1q_u8(p + 2 + 32 * k));
		w = vreinterpretq_u32_u8(vld1q_u8(p + 18 + 32 * k));
		a[k] = vuzp2q_u32(v, w);
	}
	signs_xxs(a, sign, u->scale);
	UNROLL
	for (k = 0; k < 16; k++) {
		const unsigned char *i = p + 2 + k / 2 * 8 + k % 2 * 2;

		u->w[k] = with_signs(two8(qwen_grid_iq2_xxs, i[0], i[1]),
		    sign, k);
	}
}

AI void
decode_iq2_xs(const unsigned char *p, struct group *u)
{
	const unsigned char *i = p + 2;
	uint8x16_t sign[2];
	int k;

	odd_nibbles(vld1_u8(p + 66), u->scale);
	UNROLL
	for (k = 0; k < 2; k++) {
		uint16x8_t a = vreinterpretq_u16_u8(vld1q_u8(i + 32 * k));
		uint16x8_t b = vreinterpretq_u16_u8(vld1q_u8(i + 32 * k + 16));

		/* the upper bytes, shifted right by the ninth bit */
		sign[k] = vcombine_u8(vmovn_u16(vshrq_n_u16(a, 9)),
		    vmovn_u16(vshrq_n_u16(b, 9)));
		sign[k] = eighth_sign(sign[k]);
	}
	UNROLL
	for (k = 0; k < 16; k++, i += 4)
		u->w[k] = with_signs(two8(qwen_grid_iq2_xs,
		    qwen_le16(i) & 511, qwen_le16(i + 2) & 511), sign, k);
}

AI void
decode_iq2_s(const unsigned char *p, struct group *u)
{
	const uint8x16_t high = vreinterpretq_u8_u64(
	    vdupq_n_u64(qwen_le64(p + 66)));
	uint8x16_t sign[2];
	uint16_t i[32];
	int k;

	odd_nibbles(vld1_u8(p + 74), u->scale);
	sign[0] = vld1q_u8(p + 34);
	sign[1] = vld1q_u8(p + 50);
	UNROLL
	for (k = 0; k < 2; k++)
		indices(i + 16 * k, vld1q_u8(p + 2 + 16 * k),
		    crumbs_in_order(high, k));
	UNROLL
	for (k = 0; k < 16; k++)
		u->w[k] = with_signs(two8(qwen_grid_iq2_s, i[2 * k],
		    i[2 * k + 1]), sign, k);
}

AI void
decode_iq1_s(const unsigned char *p, struct group *u)
{
	/* a word has four times three bits */
	const int16x8_t to_8 = { 8, 5, 2, -1, 8, 5, 2, -1 };
	uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8(p + 34));
	/* subtracted from entries: 7 or 9 */
	uint8x8_t off = vmovn_u16(vshrq_n_u16(h, 14) & vdupq_n_u16(2)) +
	    vdup_n_u8(7);
	uint16_t i[32];
	int k;

	u->scale[0] = odd(vshrq_n_u16(h, 12) & vdupq_n_u16(7));
	UNROLL
	for (k = 0; k < 4; k++) {
		const uint8x16_t at = vreinterpretq_u8_u16((uint16x8_t){
		    0x100, 0x100, 0x100, 0x100, 0x302, 0x302, 0x302, 0x302 });
		uint16x8_t v = vshlq_u16(vreinterpretq_u16_u8(vqtbl1q_u8(
		    vreinterpretq_u8_u16(h), at + set8(4 * k))), to_8);

		vst1q_u16(i + 8 * k, vaddw_u8(v & vdupq_n_u16(0x700),
		    vld1_u8(p + 2 + 8 * k)));
	}
#define PUT(k)								\
	u->w[k] = as_signed(two8(qwen_grid_iq1, i[2 * (k)],		\
	    i[2 * (k) + 1]) - vdupq_lane_u8(off, (k) / 2))
	PUT(0); PUT(1); PUT(2); PUT(3); PUT(4); PUT(5); PUT(6); PUT(7);
	PUT(8); PUT(9); PUT(10); PUT(11); PUT(12); PUT(13); PUT(14); PUT(15);
#undef PUT
}

/* Unpacks scales of three bits per 16 weights, four in each of four words. */
AI void
scales_iq1_m(const unsigned char *p, int16x8_t *scale)
{
	const int16x8_t down = { 0, -3, -6, -9, 0, -3, -6, -9 };
	uint16x4_t s = vreinterpret_u16_u8(vld1_u8(p + 48));
	uint16x4_t a = vzip1_u16(s, s), b = vzip2_u16(s, s);
	int k;

	UNROLL
	for (k = 0; k < 2; k++) {
		uint16x4_t t = k == 0 ? a : b;
		uint16x8_t v = vcombine_u16(vzip1_u16(t, t), vzip2_u16(t, t));

		/* words 0, 0, 1, 1, each twice */
		scale[k] = odd(vshlq_u16(v, down) & vdupq_n_u16(7));
	}
}

AI void
decode_iq1_m(const unsigned char *p, struct group *u)
{
	uint8x16_t off[2];
	uint16_t i[32];
	int k;

	scales_iq1_m(p, u->scale);
	UNROLL
	for (k = 0; k < 2; k++) {
		uint8x16_t n = nibbles_of(vld1_u8(p + 32 + 8 * k));

		indices(i + 16 * k, vld1q_u8(p + 16 * k), n & set8(7));
		off[k] = (vshrq_n_u8(n, 2) & set8(2)) + set8(7);
	}
	UNROLL
	for (k = 0; k < 16; k++) {
		uint8x16_t two = vcombine_u8(vdup_n_u8((uint8_t)(2 * (k % 8))),
		    vdup_n_u8((uint8_t)(2 * (k % 8) + 1)));

		u->w[k] = as_signed(two8(qwen_grid_iq1, i[2 * k],
		    i[2 * k + 1]) - vqtbl1q_u8(off[k / 8], two));
	}
}

#endif
