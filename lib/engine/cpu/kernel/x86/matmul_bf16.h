/* SPDX-License-Identifier: ISC */
/* matmul_bf16.h - products in bf16 for x86, with the panels of floats16.h. */
#include "engine/cpu/kernel/matmul_bf16.inc"
#include "engine/cpu/kernel/x86/floats16.h"

KERNEL_INLINE void
store_pairs(void *to, size_t k, int half, wide_i a, wide_i b)
{
	float (*p)[PARTS][16] = ((struct panel_bf16 *)to)->w + UNITS(k);
	const wide_i upper = MM(set1_epi32)((int)0xffff0000);
	wide_i w[4];
	int i;

#if COLUMNS == 2
	w[0] = MM(slli_epi32)(a, 16) | (b & ~upper);
	w[1] = (a & upper) | MM(srli_epi32)(b, 16);
#else
	w[0] = MM(slli_epi32)(a, 16);
	w[1] = a & upper;
	w[2] = MM(slli_epi32)(b, 16);
	w[3] = b & upper;
#endif
	UNROLL
	for (i = 0; i < UNITS(4); i++)
		store_i((float *)p[i] + LANES * half, w[i]);
}

KERNEL_INLINE void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_bf16 *to, struct ahead *ahead)
{
	const unsigned char *r[2 * LANES];	/* a copy that stores cannot
						   change */
	int half;

	memcpy(r, row, sizeof r);
	spread_ahead(ahead, QWEN_GROUP / TURN);
	for (half = 0; half < 2; half++)
		unpack_floats(type, r + LANES * half, to, half, ahead);
}

QWEN_16_BIT_FLOATS(FORMAT_BF16)
