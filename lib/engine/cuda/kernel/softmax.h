/* SPDX-License-Identifier: ISC */
/* softmax.h - what several kernels of attention do. */
#ifndef QWEN_CUDA_SOFTMAX_H
#define QWEN_CUDA_SOFTMAX_H

#include "engine/cuda/kernel/kv.h"
#include "engine/cuda/kernel/math.h"

/* Before a loop: some rounds at a time, whose loads may come first. */
#ifdef __NVPTX__
#define UNROLL_2 _Pragma("unroll 2")
#define UNROLL_8 _Pragma("unroll 8")
#else
#define UNROLL_2
#define UNROLL_8
#endif

#define LEAST bits_f32(0xff800000)	/* -infinity */

DEV f32 magnitude(f32 x) { return bits_f32(f32_bits(x) & 0x7fffffff); }
DEV f32 larger(f32 a, f32 b) { return a > b ? a : b; }

/* The maximum of all lanes. */
DEV f32
warp_max(f32 x)
{
	u32 i;

	UNROLL for (i = 1; i < 32; i *= 2)
		x = larger(x, shfl_xor_f32(x, i));
	return x;
}

/* The sum of sixteen partial sums, which lanes 0 .. 15 and 16 .. 31 have. */
DEV f32
add_parts(f32 s)
{
	u32 i;

	UNROLL for (i = 8; i > 0; i /= 2)
		s = s + shfl_xor_f32(s, i);
	return s;
}

/* One stage of Hadamard matrices: pairs h apart, by n threads; this is i. */
DEV void
add_pairs(SHARED f32 *x, u32 d, u32 h, u32 i, u32 n)
{
	for (; i < d / 2; i += n) {
		SHARED f32 *p = x + i / h * 2 * h + i % h;
		f32 u = p[0], w = p[h];

		p[0] = u + w;
		p[h] = u - w;
	}
}

DEV int
has_integers(u32 kv)
{
	return kv == QWEN_KV_Q8_0 || kv == QWEN_KV_Q4_0;
}

#endif
