/* SPDX-License-Identifier: ISC */
/* dequant_members.h - what dequant.h needs in a struct panel. */
#ifndef QWEN_KERNEL_DEQUANT_MEMBERS_H
#define QWEN_KERNEL_DEQUANT_MEMBERS_H

#include "engine/kernel/x86/unpack.h"

#define DEQUANT_MEMBERS							\
	/* as the unpack16() of all formats want them */		\
	int32_t	scale[1][16][32];					\
	int32_t	min[1][4][32];						\
	float	d[1][8][32];						\
	float	dmin[1][32];						\
	/* of the 32-blocks under way */				\
	float	mul[8][32];						\
	float	add[8][32];

struct panel;

/* A quad's four columns; v as store_quad() gets it. */
PI void dequant4(struct panel *p, size_t j, int half, int quad, __m512i v,
    __m512 *w);

#endif
