/* SPDX-License-Identifier: ISC */
/*
 * panel_v2.h - products of numerics version 2, AVX-512, for formats that have
 * an unpack16().  A file includes this and its format's dequant header, and
 * gets matmul().
 */
#include "engine/kernel/x86/dequant_members.h"

#define PANEL_MORE DEQUANT_MEMBERS
#define FILL fill_group
#include "engine/kernel/matmul_v2.inc"

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	float (*to)[PARTS][16] = p->w + 32 * j + 4 * (size_t)quad;
	__m512 w[4];
	int i;

	(void)g;
	dequant4(p, j, half, quad, v, w);
	UNROLL
	for (i = 0; i < 4; i++)
		_mm512_store_ps(to[i][half], w[i]);
}

static void
fill_group(const unsigned char *const *row, struct panel *p)
{
	unpack16(row, p, 0, 0);
	unpack16(row + 16, p, 0, 1);
}
