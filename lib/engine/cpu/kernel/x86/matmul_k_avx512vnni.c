/* SPDX-License-Identifier: ISC */
/* matmul_k_avx512vnni.c - y = Wx, x in 8 bits, AVX-512 VNNI: more k-quants. */
#include "engine/cpu/kernel/x86/rows_k23_two.h"

KERNEL_INLINE void
sums(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, int plain, const unsigned char *ahead, __m128 *acc)
{
	if (type == QT_Q2_K || type == QT_Q3_K)
		sums_k23_two(type, w, x, n_in / QWEN_GROUP, nt, plain, ahead,
		    acc);
	else
		sums_any(type, w, x, n_in, nt, ahead, acc);
}

#define ROW_PLAIN(type) ((type) == QT_Q2_K || (type) == QT_Q3_K)
#define ROW_SUMS sums
#define ROW_FORMATS QWEN_K_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_k_avx512vnni_kernels[] = {
	ROW_KERNELS(QWEN_AVX512VNNI)
	{ 0 }
};
