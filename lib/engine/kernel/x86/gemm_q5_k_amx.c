/* SPDX-License-Identifier: ISC */
/* gemm_q5_k_amx.c - y = Wx for many tokens, W in Q5_K, AMX. */
#define BLOCK_BYTES 176
#define OFFSET 0
#include "engine/kernel/x86/panel_amx_k4.h"
#include "engine/kernel/x86/unpack_q5_k.h"

PI __m512i
add_scaled(__m512i sum, __m512i s, __m512i m)
{
	return _mm512_add_epi32(sum, _mm512_mullo_epi32(s, m));
}

const struct qwen_kernel AMX_VARIANT(gemm_q5_k_amx) = {
	.op = QWEN_OP_GEMM, .type = QT_Q5_K, .name = AMX_NAME,
	.rank = 50, .need = AMX_NEED, .min_tok = AMX_MIN_TOK(8),
	.below = AMX_BELOW(gemm_q5_k_avx512vnni), .run.matmul = gemm,
};
