/* SPDX-License-Identifier: ISC */
/*
 * decode.h - decodes a row's weights to bytes in the order of columns, and
 * their scales to integers, for each format.  The type is a constant at each
 * call.
 *
 * Weights are signed, as arm64 multiplies them, so they have no bias
 * (formats.h).
 */
#ifndef QWEN_ARM_DECODE_H
#define QWEN_ARM_DECODE_H

#include "engine/cpu/kernel/arm/grid.h"

/* Returns the bytes of 256 weights. */
AI size_t
bytes_of(uint32_t type)
{
	return QWEN_GROUP / qwen_traits[type].len * qwen_traits[type].bytes;
}

/* ---- k-quants */

AI void
decode_q2_k(const unsigned char *p, struct group *u)
{
	uint8x16_t s = vld1q_u8(p), w[16];
	int i;

	widen_unsigned(s & set8(15), u->scale);
	widen_unsigned(vshrq_n_u8(s, 4), u->min);
	crumbs(p + 16, w);
	UNROLL
	for (i = 0; i < 16; i++)
		u->w[i] = as_signed(w[i]);
}

/*
 * Unpacks six-bit scales minus 32: 16 nibbles by halves, then 16 pairs of bits.
 */
AI void
scales_q3_k(const unsigned char *p, int16x8_t *to)
{
	uint8x8_t lo = vld1_u8(p + 96);
	uint8x16_t v = vcombine_u8(lo & vdup_n_u8(15), vshr_n_u8(lo, 4));
	uint8x16_t hi = vreinterpretq_u8_u32(vshlq_u32(
	    vdupq_n_u32(qwen_le32(p + 104)), (int32x4_t){ 0, -2, -4, -6 }));

	v |= vshlq_n_u8(hi & set8(3), 4);
	widen_signed(as_signed(v - set8(32)), to);
}

AI void
decode_q3_k(const unsigned char *p, struct group *u)
{
	const uint8x16_t four = set8(4);
	uint8x16_t w[16];
	int i;

	scales_q3_k(p, u->scale);
	crumbs(p + 32, w);
	UNROLL
	for (i = 0; i < 2; i++) {
		uint8x16_t bits = vld1q_u8(p + 16 * i);
		/* subtract four where the bit is 0 */
#define PUT(j, bit) u->w[2 * (j) + i] = as_signed(w[2 * (j) + i] -	\
	vbicq_u8(four, bit))
		PUT(0, vshlq_n_u8(bits, 2));
		PUT(1, vshlq_n_u8(bits, 1));
		PUT(2, bits);
		PUT(3, vshrq_n_u8(bits, 1));
		PUT(4, vshrq_n_u8(bits, 2));
		PUT(5, vshrq_n_u8(bits, 3));
		PUT(6, vshrq_n_u8(bits, 4));
		PUT(7, vshrq_n_u8(bits, 5));
#undef PUT
	}
}

/*
 * Unpacks the scales of Q4_K and Q5_K: d, dmin, eight 6-bit scales and
 * minimums.
 */
AI void
scales_k(const unsigned char *p, struct group *u)
{
	uint32_t a = qwen_le32(p + 4), b = qwen_le32(p + 8);
	uint32_t c = qwen_le32(p + 12);
	uint64_t s = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
	uint64_t n = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);

	u->scale[0] = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(s << 32 |
	    (a & 0x3f3f3f3f))));
	u->min[0] = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(n << 32 |
	    (b & 0x3f3f3f3f))));
}

AI void
decode_q4_k(const unsigned char *p, struct group *u)
{
	uint8x16_t v[2];
	int i;

	scales_k(p, u);
	UNROLL
	for (i = 0; i < 8; i++) {
		nibbles(vld1q_u8(p + 16 + 16 * i), v);
		u->w[i / 2 * 4 + i % 2] = as_signed(v[0]);
		u->w[i / 2 * 4 + i % 2 + 2] = as_signed(v[1]);
	}
}

AI void
decode_q5_k(const unsigned char *p, struct group *u)
{
	const uint8x16_t bit = set8(16);
	uint8x16_t v[2], h[2];
	int i;

	scales_k(p, u);
	/* the fifth bit of the next 32 weights moves to bit 0 */
	h[0] = vld1q_u8(p + 16);
	h[1] = vld1q_u8(p + 32);
	UNROLL
	for (i = 0; i < 8; i++) {
		uint8x16_t *b = h + i % 2;
		int8x16_t *to = u->w + i / 2 * 4 + i % 2;

		nibbles(vld1q_u8(p + 48 + 16 * i), v);
		to[0] = as_signed(v[0] | (vshlq_n_u8(*b, 4) & bit));
		to[2] = as_signed(v[1] | (vshlq_n_u8(*b, 3) & bit));
		*b = vshrq_n_u8(*b, 2);
	}
}

AI void
decode_q6_k(const unsigned char *p, struct group *u)
{
	const uint8x16_t m2 = set8(0x30), m32 = set8(32);
	uint8x16_t a[2], b[2];
	int i;

	widen_signed(vld1q_s8((const int8_t *)p + 192), u->scale);
	UNROLL
	for (i = 0; i < 4; i++) {	/* 16 of every 32 weights in a half */
		const unsigned char *at = p + i / 2 * 64 + i % 2 * 16;
		uint8x16_t h = vld1q_u8(p + 128 + 16 * i);
		int8x16_t *to = u->w + i / 2 * 8 + i % 2;

		nibbles(vld1q_u8(at), a);
		nibbles(vld1q_u8(at + 32), b);
		to[0] = as_signed((a[0] | (vshlq_n_u8(h, 4) & m2)) - m32);
		to[2] = as_signed((b[0] | (vshlq_n_u8(h, 2) & m2)) - m32);
		to[4] = as_signed((a[1] | (h & m2)) - m32);
		to[6] = as_signed((b[1] | (vshrq_n_u8(h, 2) & m2)) - m32);
	}
}

AI void
decode_iq4_xs(const unsigned char *p, struct group *u)
{
	const int16x8_t down = { 0, -2, -4, -6, -8, -10, -12, -14 };
	const int8x16_t table = vld1q_s8(qwen_iq4_values);
	uint16x8_t s = vmovl_u8(vget_low_u8(nibbles_of(load4(p + 4))));
	uint16x8_t hi = vshlq_u16(vdupq_n_u16(qwen_le16(p + 2)), down);
	uint8x16_t v[2];
	int i;

	s |= vshlq_n_u16(hi & vdupq_n_u16(3), 4);
	u->scale[0] = vreinterpretq_s16_u16(s - vdupq_n_u16(32));
	UNROLL
	for (i = 0; i < 8; i++) {
		nibbles(vld1q_u8(p + 8 + 16 * i), v);
		u->w[2 * i] = vqtbl1q_s8(table, v[0]);
		u->w[2 * i + 1] = vqtbl1q_s8(table, v[1]);
	}
}

/* ---- ternary */

/* Returns the next digit minus 1; bytes are base-3 fractions of 256. */
AI int8x16_t
digit(uint8x16_t v)
{
	/* -1 for each threshold reached: 3 v / 256 >= 1, >= 2 */
	return as_signed(vmvnq_u8(vcgeq_u8(v, set8(86)) +
	    vcgeq_u8(v, set8(171))));
}

AI void
decode_tq1_0(const unsigned char *p, struct group *u)
{
	const uint8x16_t powers = vreinterpretq_u8_u32(
	    (uint32x4_t){ 0x01010101, 0x03030303, 0x09090909, 0x1b1b1b1b });
	uint8x16_t a = vld1q_u8(p), b = vld1q_u8(p + 16);
	uint8x16_t c = vld1q_u8(p + 32), three = set8(3);
	int i;

	u->scale[0] = vdupq_n_s16(1);
	UNROLL
	for (i = 0; i < 5; i++) {
		u->w[2 * i] = digit(a);
		u->w[2 * i + 1] = digit(b);
		u->w[10 + i] = digit(c);
		a *= three;
		b *= three;
		c *= three;
	}
	u->w[15] = digit(powers * vreinterpretq_u8_u32(
	    vdupq_n_u32(qwen_le32(p + 48))));
}

AI void
decode_tq2_0(const unsigned char *p, struct group *u)
{
	uint8x16_t w[16];
	int i;

	u->scale[0] = vdupq_n_s16(1);
	crumbs(p, w);
	UNROLL
	for (i = 0; i < 16; i++)
		u->w[i] = as_signed(w[i] - set8(1));
}

/* Decodes a group of a format with 256 weights per d. */
AI void
decode(uint32_t type, const unsigned char *p, struct group *u)
{
#define CASE(name, type_, ...)						\
	case type_:							\
		decode_##name(p, u);					\
		break;
	switch (type) {
	CASE(q4_k, QT_Q4_K)
	CASE(q5_k, QT_Q5_K)
	CASE(q6_k, QT_Q6_K)
	QWEN_K_FORMATS(CASE)
	QWEN_GRID_FORMATS(CASE)
	}
#undef CASE
}

/* ---- formats with fewer weights per d: block j of 32 in a group */

/* Looks 32 nibbles up in a table. */
AI void
look_up(uint8x16_t v, const int8_t *table, int8x16_t *w)
{
	uint8x16_t n[2];

	nibbles(v, n);
	w[0] = vqtbl1q_s8(vld1q_s8(table), n[0]);
	w[1] = vqtbl1q_s8(vld1q_s8(table), n[1]);
}

/* Unpacks 32 nibbles minus off. */
AI void
fours(uint8x16_t v, int off, int8x16_t *w)
{
	uint8x16_t n[2];

	nibbles(v, n);
	w[0] = as_signed(n[0] - set8(off));
	w[1] = as_signed(n[1] - set8(off));
}

/* Unpacks 32 five-bit weights, minus 16 if centred. */
AI void
fives(const unsigned char *bits, uint8x16_t v, int centred, int8x16_t *w)
{
	uint8x16_t h = vreinterpretq_u8_u32(vdupq_n_u32(qwen_le32(bits)));
	uint8x16_t n[2];
	int i;

	nibbles(v, n);
	UNROLL
	for (i = 0; i < 2; i++)
		w[i] = as_signed(n[i] | (centred ?
		    vbicq_u8(set8(0xf0), bits16(h, i)) :
		    bits16(h, i) & set8(16)));
}

/*
 * Unpacks four blocks of eight low, then eight high nibbles; 16 share a scale.
 */
AI void
decode_nvfp4(const unsigned char *p, int8x16_t *w)
{
	const uint8x16_t m4 = set8(15);
	const int8x16_t table = vld1q_s8(qwen_fp4_values);
	uint8x8_t a = vld1_u8(p), b = vld1_u8(p + 8);

	w[0] = vqtbl1q_s8(table, vcombine_u8(a, vshr_n_u8(a, 4)) & m4);
	w[1] = vqtbl1q_s8(table, vcombine_u8(b, vshr_n_u8(b, 4)) & m4);
}

AI void
decode_q1_0(const unsigned char *p, int8x16_t *w)
{
	uint8x16_t v = vreinterpretq_u8_u32(vdupq_n_u32(qwen_le32(p)));
	int i;

	UNROLL
	for (i = 0; i < 2; i++)
		w[i] = vbslq_s8(bits16(v, i), vdupq_n_s8(1), vdupq_n_s8(-1));
}

AI void
decode_q2_0(const unsigned char *p, int8x16_t *w)
{
	uint8x16_t v = vreinterpretq_u8_u64(vdupq_n_u64(qwen_le64(p)));
	int i;

	UNROLL
	for (i = 0; i < 2; i++)
		w[i] = as_signed(crumbs_in_order(v, i) - set8(1));
}

AI void
decode_32(uint32_t type, const unsigned char *p, size_t j, int8x16_t *w)
{
	p += 32 * j / qwen_traits[type].len * qwen_traits[type].bytes;
	switch (type) {
	case QT_Q4_0:
		fours(vld1q_u8(p + 2), 8, w);
		break;
	case QT_Q4_1:
		fours(vld1q_u8(p + 4), 0, w);
		break;
	case QT_Q5_0:
		fives(p + 2, vld1q_u8(p + 6), 1, w);
		break;
	case QT_Q5_1:
		fives(p + 4, vld1q_u8(p + 8), 0, w);
		break;
	case QT_IQ4_NL:
		look_up(vld1q_u8(p + 2), qwen_iq4_values, w);
		break;
	case QT_MXFP4:
		look_up(vld1q_u8(p + 1), qwen_fp4_values, w);
		break;
	case QT_NVFP4:
		decode_nvfp4(p + 4 + j % 2 * 16, w);
		break;
	case QT_Q1_0:
		decode_q1_0(p + 2 + j % 4 * 4, w);
		break;
	case QT_Q2_0:
		decode_q2_0(p + 2 + j % 2 * 8, w);
		break;
	default:
		w[0] = vld1q_s8((const int8_t *)p + 2);
		w[1] = vld1q_s8((const int8_t *)p + 18);
	}
}

/*
 * Decodes all weights of a group of any format; scales only if they are
 * integers.
 */
AI void
decode_group(uint32_t type, const unsigned char *p, struct group *u)
{
	size_t j;

	if (!qwen_traits[type].by_block) {
		decode(type, p, u);
		return;
	}
	UNROLL
	for (j = 0; j < 8; j++)
		decode_32(type, p, j, u->w + 2 * j);
}

/* ---- d of four rows */

/* Loads the f16 at this offset of four rows as f32. */
AI float32x4_t
f16x4(const unsigned char *const *w, size_t at)
{
	uint16x4_t h = vdup_n_u16(0);

	h = vld1_lane_u16((const void *)(w[0] + at), h, 0);
	h = vld1_lane_u16((const void *)(w[1] + at), h, 1);
	h = vld1_lane_u16((const void *)(w[2] + at), h, 2);
	h = vld1_lane_u16((const void *)(w[3] + at), h, 3);
	return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

/* Loads d of IQ1_M: four bits in each of four words. */
AI float32x4_t
f16_of_parts(const unsigned char *const *w)
{
	uint16x4_t h[4];
	int i;

	UNROLL
	for (i = 0; i < 4; i++) {
		h[i] = vreinterpret_u16_u8(vld1_u8(w[i] + 48));
		h[i] = vshl_u16(vshr_n_u16(h[i], 12),
		    (int16x4_t){ 0, 4, 8, 12 });
	}
	return vcvt_f32_f16(vreinterpret_f16_u16(vpadd_u16(
	    vpadd_u16(h[0], h[1]), vpadd_u16(h[2], h[3]))));
}

/* Loads the byte at this offset of four rows. */
AI uint8x8_t
bytes4(const unsigned char *const *w, size_t at)
{
	uint8x8_t v = vdup_n_u8(0);

	v = vld1_lane_u8(w[0] + at, v, 0);
	v = vld1_lane_u8(w[1] + at, v, 1);
	v = vld1_lane_u8(w[2] + at, v, 2);
	return vld1_lane_u8(w[3] + at, v, 3);
}

/* Converts the scales of MXFP4: 2^(x - 128); above 252 NaN. */
AI float32x4_t
powers_of_two(uint8x8_t bytes)
{
	const uint32x4_t one = vdupq_n_u32(1);
	uint32x4_t x = vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
	uint32x4_t v = vbslq_u32(vcgtq_u32(x, one), vshlq_n_u32(x - one, 23),
	    vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(x)));

	return vreinterpretq_f32_u32(v | vcgtq_u32(x, vdupq_n_u32(252)));
}

/*
 * Converts the scales of NVFP4: half of E4M3 without sign; 127 is 0.  As the
 * upper bits of an f16, whose exponent bias is 8 more, the value is 2^-7 times
 * the result.
 */
AI float32x4_t
e4m3(uint8x8_t x)
{
	x &= vdup_n_u8(127);
	x = vbic_u8(x, vceq_u8(x, vdup_n_u8(127)));
	return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(
	    vget_low_u16(vshll_n_u8(x, 7)))), 0x1p7f);
}

/* Loads d number k of a group. */
AI float32x4_t
load_d4(uint32_t type, const unsigned char *const *w, size_t k)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t each = f->by_block ? f->len / f->span : 1;
	const size_t at = k / each * f->bytes + f->d_at;
	float32x4_t d;

	if (type == QT_MXFP4)
		return powers_of_two(bytes4(w, at));
	if (type == QT_NVFP4)
		return e4m3(bytes4(w, at + k % each));
	d = type == QT_IQ1_M ? f16_of_parts(w) : f16x4(w, at);
	return f->d_by == 1.0f ? d : vmulq_n_f32(d, f->d_by);
}

/* Loads minimum number k of a group. */
AI float32x4_t
load_min4(uint32_t type, const unsigned char *const *w, size_t k)
{
	return f16x4(w, k * qwen_traits[type].bytes +
	    qwen_traits[type].d_at + 2);
}

#endif
