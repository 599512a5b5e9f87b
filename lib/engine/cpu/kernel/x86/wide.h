/* SPDX-License-Identifier: ISC */
/*
 * wide.h - the widest registers that the file is compiled for, 256 or 512 bits,
 * for code that is the same for both.
 *
 * C's operators combine bits, and a cast between these types changes no bit.
 */
#ifndef QWEN_KERNEL_WIDE_H
#define QWEN_KERNEL_WIDE_H

#include "engine/cpu/kernel/x86/base.h"

#ifdef __AVX512F__
typedef __m512i wide_i;
typedef __m512 wide_f;
typedef __m256i wide_half;	/* f16 for a wide_f */
#define MM(name) _mm512_##name
#else
typedef __m256i wide_i;
typedef __m256 wide_f;
typedef __m128i wide_half;
#define MM(name) _mm256_##name
#endif

#define LANES ((int)sizeof(wide_f) / 4)

/* Load and store at an aligned address. */
KERNEL_INLINE wide_i
load_i(const void *p)
{
	return *(const wide_i *)p;
}

KERNEL_INLINE void
store_i(void *p, wide_i v)
{
	*(wide_i *)p = v;
}

#endif
