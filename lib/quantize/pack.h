/* SPDX-License-Identifier: ISC */
/*
 * pack.h - stores blocks of 256 as bytes, one function per format (static
 * inline only).
 */
#ifndef QWEN_QUANTIZE_PACK_H
#define QWEN_QUANTIZE_PACK_H

#include "quantize/super.h"

/* Q(i): code i of a block whose first sub-block is lane `first'. */
#define Q(i) ((unsigned)q[(i) % sub][first + (i) / sub])
#define SCALE(j) ((int)c->scale.v[first + (j)])
#define MIN(j) ((int)c->min.v[first + (j)])

/* Stores the block whose first sub-block is lane `first'. */
#define PACK_ARGS const struct scales *c, int first,	\
    signed char q[32][WIDE], unsigned char *p
typedef void pack_fn(PACK_ARGS);

INLINE void
put_half(unsigned char *p, float f)
{
	qwen_put_le16(p, qwen_f32_f16(f));
}

static void
pack_q2_k(PACK_ARGS)
{
	enum { sub = 16 };
	int i, h, l;

	for (i = 0; i < 16; i++)
		p[i] = (unsigned char)(SCALE(i) | MIN(i) << 4);
	for (i = 0; i < 64; i++) {
		h = i / 32 * 128;
		l = i % 32;
		p[16 + i] = (unsigned char)(Q(h + l) | Q(h + 32 + l) << 2 |
		    Q(h + 64 + l) << 4 | Q(h + 96 + l) << 6);
	}
	put_half(p + 80, c->d[0]);
	put_half(p + 82, c->dmin[0]);
}

static void
pack_q3_k(PACK_ARGS)
{
	enum { sub = 16 };
	unsigned v;
	int i, s;

	for (i = 0; i < 108; i++)
		p[i] = 0;
	for (i = 0; i < 256; i++) {
		v = (unsigned)(q[i % 16][first + i / 16] + 4);
		p[i % 32] |= (unsigned char)(v >> 2 << (i / 32));
		p[32 + i / 128 * 32 + i % 32] |=
		    (unsigned char)((v & 3) << 2 * (i / 32 % 4));
	}
	for (i = 0; i < 16; i++) {
		s = SCALE(i) + 32;
		p[96 + i % 8] |= (unsigned char)((s & 15) << (i < 8 ? 0 : 4));
		p[104 + i % 4] |= (unsigned char)(s >> 4 << 2 * (i / 4));
	}
	put_half(p + 108, c->d[0]);
}

/* Packs the scales of Q4_K and Q5_K. */
INLINE void
pack_head(const struct scales *c, int first, unsigned char *p)
{
	int j, b = first / 8;

	put_half(p, c->d[b]);
	put_half(p + 2, c->dmin[b]);
	for (j = 0; j < 4; j++) {
		p[4 + j] = (unsigned char)(SCALE(j) | SCALE(j + 4) >> 4 << 6);
		p[8 + j] = (unsigned char)(MIN(j) | MIN(j + 4) >> 4 << 6);
		p[12 + j] = (unsigned char)((SCALE(j + 4) & 15) |
		    (MIN(j + 4) & 15) << 4);
	}
}

static void
pack_q4_k(PACK_ARGS)
{
	enum { sub = 32 };
	int i, j;

	pack_head(c, first, p);
	for (i = 0; i < 128; i++) {
		j = i / 32 * 64 + i % 32;
		p[16 + i] = (unsigned char)(Q(j) | Q(j + 32) << 4);
	}
}

static void
pack_q5_k(PACK_ARGS)
{
	enum { sub = 32 };
	unsigned h;
	int i, j;

	pack_head(c, first, p);
	for (i = 0; i < 32; i++) {
		for (h = 0, j = 0; j < 8; j++)
			h |= Q(32 * j + i) >> 4 << j;
		p[16 + i] = (unsigned char)h;
	}
	for (i = 0; i < 128; i++) {
		j = i / 32 * 64 + i % 32;
		p[48 + i] = (unsigned char)((Q(j) & 15) |
		    (Q(j + 32) & 15) << 4);
	}
}

static void
pack_q6_k(PACK_ARGS)
{
	unsigned v[4];
	int i, g, k;

	for (i = 0; i < 64; i++) {
		for (g = 0; g < 4; g++) {
			k = i / 32 * 128 + 32 * g + i % 32;
			v[g] = (unsigned)(q[k % 16][first + k / 16] + 32);
		}
		k = i / 32 * 64 + i % 32;
		p[k] = (unsigned char)((v[0] & 15) | (v[2] & 15) << 4);
		p[k + 32] = (unsigned char)((v[1] & 15) | (v[3] & 15) << 4);
		p[128 + i] = (unsigned char)(v[0] >> 4 | v[1] >> 4 << 2 |
		    v[2] >> 4 << 4 | v[3] >> 4 << 6);
	}
	for (i = 0; i < 16; i++)
		p[192 + i] = (unsigned char)SCALE(i);
	put_half(p + 208, c->d[0]);
}

static void
pack_iq4_xs(PACK_ARGS)
{
	unsigned high = 0, s;
	int j;

	put_half(p, c->d[first / 8]);
	p[4] = p[5] = p[6] = p[7] = 0;
	for (j = 0; j < 8; j++) {
		s = (unsigned)(SCALE(j) + 32);
		high |= s >> 4 << 2 * j;
		p[4 + j / 2] |= (unsigned char)((s & 15) << 4 * (j & 1));
		put_nibbles(p + 8 + 16 * j, q, (size_t)(first + j), 0);
	}
	qwen_put_le16(p + 2, (uint16_t)high);
}

#undef Q
#undef SCALE
#undef MIN

#endif
