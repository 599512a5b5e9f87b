/* SPDX-License-Identifier: ISC */
/*
 * matmul_bf16.h - products in bf16 for x86, where formats are made into panels as
 * dequant.h says.
 */
#include "engine/kernel/matmul_bf16.inc"
#include "engine/kernel/x86/dequant.h"

#if COLUMNS == 2
/* Lanes of the lower and the upper half, as bf16. */
PI wide_f round_pairs(wide_f low, wide_f high);
#endif

PI void
store_four(uint32_t type, struct panel *p, size_t k, int half, wide_f *w)
{
	float (*to)[PARTS][16] = ((struct panel_bf16 *)p->to)->w + UNITS(k);
	int i;

#if COLUMNS == 2
	(void)type;
	w[0] = round_pairs(w[2], w[0]);
	w[1] = round_pairs(w[3], w[1]);
#else
	round4(type, w);
#endif
	UNROLL
	for (i = 0; i < UNITS(4); i++)
		W(store_ps)((float *)to[i] + LANES * half, w[i]);
}

PI void
store_pairs(struct panel *p, size_t k, int half, wide_i a, wide_i b)
{
	float (*to)[PARTS][16] = ((struct panel_bf16 *)p->to)->w + UNITS(k);
	const wide_i upper = W(set1_epi32)((int)0xffff0000);
	wide_i w[4];
	int i;

#if COLUMNS == 2
	w[0] = W(slli_epi32)(a, 16) | (b & ~upper);
	w[1] = (a & upper) | W(srli_epi32)(b, 16);
#else
	w[0] = W(slli_epi32)(a, 16);
	w[1] = a & upper;
	w[2] = W(slli_epi32)(b, 16);
	w[3] = b & upper;
#endif
	UNROLL
	for (i = 0; i < UNITS(4); i++)
		store_i((float *)to[i] + LANES * half, w[i]);
}

PI void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_bf16 *to, struct ahead *ahead)
{
	const unsigned char *r[2 * LANES];	/* that no store can change */
	struct panel p;
	int half;

	memcpy(r, row, sizeof r);
	p.to = to;
	spread_ahead(ahead, QWEN_GROUP / TURN);
	for (half = 0; half < 2; half++)
		unpack_any(type, r + LANES * half, &p, half, ahead);
}

QWEN_ALL_FORMATS(FORMAT_BF16)
QWEN_16_BIT_FLOATS(FORMAT_BF16)
