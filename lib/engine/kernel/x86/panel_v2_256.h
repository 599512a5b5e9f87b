/* SPDX-License-Identifier: ISC */
/*
 * panel_v2_256.h - products of numerics version 2, AVX2, for formats that have
 * an unpack8().
 */
#include "engine/kernel/x86/unpack256.h"

#define PANEL_MORE							\
	/* as the unpack8() of all formats want them */			\
	int32_t	scale[1][16][16];					\
	int32_t	min[1][8][16];						\
	float	d[1][8][16];						\
	float	dmin[1][16];						\
	/* of the 32-blocks under way */				\
	float	mul[8][16];						\
	float	add[8][16];
#define FILL fill_group
#include "engine/kernel/matmul_v2.inc"

static void
fill_group(const unsigned char *const *row, struct panel *p)
{
	unpack8(row, p, 0, 0);
	unpack8(row + 8, p, 0, 1);
}
