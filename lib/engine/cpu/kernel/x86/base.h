/* SPDX-License-Identifier: ISC */
/* base.h - macros and functions that all x86 kernels use. */
#ifndef QWEN_KERNEL_X86_BASE_H
#define QWEN_KERNEL_X86_BASE_H

#include <immintrin.h>
#include <string.h>

#include "engine/cpu/kernel/ahead.h"
#include "engine/cpu/kernel/kernel.h"

#define KERNEL_INLINE static inline __attribute__((always_inline, unused))

/* For loops that index arrays of registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/*
 * Keeps a chain of sums in order; gcc would make it a tree, which takes more
 * registers.
 */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

/* Returns the bytes of 256 weights. */
KERNEL_INLINE size_t
group_bytes(const struct qwen_matmul *m)
{
	return QWEN_GROUP / m->quant->block_len * m->quant->block_bytes;
}

/* Returns the 4 bytes at p as a dword. */
KERNEL_INLINE int32_t
dword_at(const void *p)
{
	int32_t x;

	memcpy(&x, p, 4);
	return x;
}

#endif
