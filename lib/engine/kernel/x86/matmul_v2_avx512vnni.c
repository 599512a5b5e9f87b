/* SPDX-License-Identifier: ISC */
/* matmul_v2_avx512vnni.c - products of numerics version 2, AVX-512. */
#include "engine/kernel/matmul_v2.inc"
#include "engine/kernel/x86/dequant512.h"

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m512i v)
{
	float (*to)[PARTS][16] = ((struct panel_v2 *)p->to)->w + 32 * j +
	    4 * (size_t)quad;
	__m512 w[4];
	int i;

	(void)g;
	dequant4(type, p, j, half, quad, v, w);
	UNROLL
	for (i = 0; i < 4; i++)
		_mm512_store_ps(to[i][half], w[i]);
}

PI void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_v2 *to)
{
	const unsigned char *r[2 * 16];	/* that no store can change */
	struct panel p;
	int half;

	memcpy(r, row, sizeof r);
	p.to = to;
	for (half = 0; half < 2; half++)
		unpack16(type, r + 16 * half, &p, 0, half);
}

FORMAT_V2(q4_k, QT_Q4_K)
FORMAT_V2(q5_k, QT_Q5_K)
FORMAT_V2(q6_k, QT_Q6_K)
FORMAT_V2(q8_0, QT_Q8_0)

const struct qwen_kernel qwen_matmul_v2_avx512vnni_kernels[] = {
	ENTRY_V2(QWEN_ANY_TYPE, any, QWEN_AVX512VNNI),
	ENTRY_V2(QT_Q4_K, q4_k, QWEN_AVX512VNNI),
	ENTRY_V2(QT_Q5_K, q5_k, QWEN_AVX512VNNI),
	ENTRY_V2(QT_Q6_K, q6_k, QWEN_AVX512VNNI),
	ENTRY_V2(QT_Q8_0, q8_0, QWEN_AVX512VNNI),
	{ 0 }
};
