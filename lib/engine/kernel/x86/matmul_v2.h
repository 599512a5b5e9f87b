/* SPDX-License-Identifier: ISC */
/*
 * matmul_v2.h - products of numerics version 2 for x86, where formats are made
 * into panels as dequant.h says; and MATMUL_V2_KERNELS(its set).
 */
#include "engine/kernel/matmul_v2.inc"
#include "engine/kernel/x86/dequant.h"

#if COLUMNS == 2
/* Lanes of the lower and the upper half, as bf16. */
PI wide_f round_pairs(wide_f low, wide_f high);
#endif

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, wide_i v)
{
	float (*to)[PARTS][16] = ((struct panel_v2 *)p->to)->w +
	    UNITS(32 * j + 4 * (size_t)quad);
	wide_f w[4];
	int i;

	(void)g;
#if COLUMNS == 2
	exact4(type, p, j, half, quad, v, w);
	w[0] = round_pairs(w[2], w[0]);
	w[1] = round_pairs(w[3], w[1]);
#else
	dequant4(type, p, j, half, quad, v, w);
#endif
	UNROLL
	for (i = 0; i < UNITS(4); i++)
		W(store_ps)((float *)to[i] + LANES * half, w[i]);
}

PI void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_v2 *to)
{
	const unsigned char *r[2 * LANES];	/* that no store can change */
	struct panel p;
	int half;

	memcpy(r, row, sizeof r);
	p.to = to;
	for (half = 0; half < 2; half++)
		unpack(type, r + LANES * half, &p, 0, half);
}

#define FORMAT_V2(name, type, ...)					\
static void								\
fill_##name(const unsigned char *const *row, struct panel_v2 *to)	\
{									\
	fill_group(type, row, to);					\
}									\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	matmul_v2(m, fill_##name);					\
}

QWEN_ALL_FORMATS(FORMAT_V2)

#define MATMUL_V2_KERNELS(...)						\
	ANY_V2(__VA_ARGS__)						\
	QWEN_ALL_FORMATS(QWEN_ENTRY, .op = QWEN_OP_MATMUL_V2, __VA_ARGS__)	\
	{ 0 }
