/* SPDX-License-Identifier: ISC */
/* matmul_avx512vnni.c - y = Wx, x in 8 bits, AVX-512 VNNI. */
#include "engine/cpu/kernel/x86/rows_k45.h"
#include "engine/cpu/kernel/x86/rows_q6.h"

KERNEL_INLINE void
sums(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, int plain, const unsigned char *ahead, __m128 *acc)
{
	if (type == QT_Q4_K || type == QT_Q5_K)
		sums_k45(type, w, x, n_in / QWEN_GROUP, nt, plain, ahead, acc);
	else if (type == QT_Q6_K)
		sums_q6(w, x, n_in / QWEN_GROUP, nt, plain, ahead, acc);
	else
		sums_any(type, w, x, n_in, nt, ahead, acc);
}

#define ROW_PLAIN(type) ((type) != QT_Q8_0)
#define ROW_SUMS sums
#define ROW_FORMATS QWEN_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_avx512vnni_kernels[] = {
	ROW_KERNELS(QWEN_AVX512VNNI)
	{ 0 }
};
