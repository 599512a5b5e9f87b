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

/* A format: 2 * 16 rows of a whole group, and the product. */
#define FORMAT(name, type)						\
static void								\
fill_##name(const unsigned char *const *row, struct panel_v2 *to)	\
{									\
	fill_group(type, row, to);					\
}									\
static void								\
matmul_##name(const struct qwen_matmul *m)				\
{									\
	matmul_v2(m, fill_##name);					\
}

FORMAT(q4_k, QT_Q4_K)
FORMAT(q5_k, QT_Q5_K)
FORMAT(q6_k, QT_Q6_K)
FORMAT(q8_0, QT_Q8_0)

const struct qwen_kernel qwen_matmul_v2_avx512vnni_kernels[] = {
	{ .op = QWEN_OP_MATMUL_V2, .type = QWEN_ANY_TYPE, QWEN_AVX512VNNI,
	    .run.matmul = matmul_v2_any },
	{ .op = QWEN_OP_MATMUL_V2, .type = QT_Q4_K, QWEN_AVX512VNNI,
	    .run.matmul = matmul_q4_k },
	{ .op = QWEN_OP_MATMUL_V2, .type = QT_Q5_K, QWEN_AVX512VNNI,
	    .run.matmul = matmul_q5_k },
	{ .op = QWEN_OP_MATMUL_V2, .type = QT_Q6_K, QWEN_AVX512VNNI,
	    .run.matmul = matmul_q6_k },
	{ .op = QWEN_OP_MATMUL_V2, .type = QT_Q8_0, QWEN_AVX512VNNI,
	    .run.matmul = matmul_q8_0 },
	{ 0 }
};
