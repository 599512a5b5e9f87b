/* SPDX-License-Identifier: ISC */
/*
 * unpack.h - decodes a group of 256 weights of eight rows, and transposes its
 * scales so that rows are in the lanes.
 */
#ifndef QWEN_ARM_UNPACK_H
#define QWEN_ARM_UNPACK_H

#include "engine/cpu/kernel/arm/decode.h"

struct rows {
	int8_t	w[8][QWEN_GROUP];
	int16_t	scale[8][16], min[8][16];	/* as in struct group */
};

/* Decodes the groups of eight rows at p. */
AI void
decode_rows(uint32_t type, const unsigned char *const *p, struct rows *to)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const int n_scale = f->by_block ? 0 : f->span == 16 ? 2 : 1;
	struct group u;
	int i, k;

	for (i = 0; i < 8; i++) {
		decode_group(type, p[i], &u);
		UNROLL
		for (k = 0; k < 16; k++)
			vst1q_s8(to->w[i] + 16 * k, u.w[k]);
		for (k = 0; k < n_scale; k++) {
			vst1q_s16(to->scale[i] + 8 * k, u.scale[k]);
			if (f->has_min)
				vst1q_s16(to->min[i] + 8 * k, u.min[k]);
		}
	}
}

/*
 * Transposes eight int16 of eight rows, from index `at' on: o[i] is number i of
 * all rows.
 */
AI void
turn8(int16_t (*rows)[16], int at, int16x8_t *o)
{
	int16x8_t v[8];
	int i, k;

	UNROLL
	for (i = 0; i < 8; i++)
		o[i] = vld1q_s16(rows[i] + at);
	/* three times: interleave rows 0 and 4, 1 and 5, ... */
	UNROLL
	for (k = 0; k < 3; k++) {
		UNROLL
		for (i = 0; i < 4; i++) {
			v[2 * i] = vzip1q_s16(o[i], o[i + 4]);
			v[2 * i + 1] = vzip2q_s16(o[i], o[i + 4]);
		}
		UNROLL
		for (i = 0; i < 8; i++)
			o[i] = v[i];
	}
}

#endif
