/* SPDX-License-Identifier: ISC */
/*
 * gemm_q4_k_amx.c - y = Wx for many tokens, W in Q4_K, AMX.
 *
 * Weights go in as -8 .. 7: the sum of 32 products with -127 .. 127 is then
 * 32512 at most, and one VPDPWSSD multiplies and adds it.
 */
#define BLOCK_BYTES 144
#define OFFSET 8
#include "engine/kernel/x86/panel_amx_k4.h"
#include "engine/kernel/x86/unpack_q4_k.h"

PI __m512i
add_scaled(__m512i sum, __m512i s, __m512i m)
{
	return _mm512_dpwssd_epi32(sum, s, m);
}

const struct qwen_kernel AMX_VARIANT(gemm_q4_k_amx) = {
	.op = QWEN_OP_GEMM, .type = QT_Q4_K, .name = AMX_NAME,
	.rank = 50, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(8),
	.below = AMX_BELOW(gemm_q4_k_avx512vnni), .run.matmul = gemm,
};
