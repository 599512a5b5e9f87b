/* SPDX-License-Identifier: ISC */
/* math.h - the functions of quant/math.h that kernels use, step by step. */
#ifndef QWEN_CUDA_MATH_H
#define QWEN_CUDA_MATH_H

#include "engine/cuda/kernel/dev.h"

/*
 * qwen_expf().  Added to 1.5 * 2^23 a number is rounded as rint does, and the
 * lowest bits of the sum are the integer; cards are slow at rint.
 */
DEV f32
dev_exp(f32 x)
{
	f32 z, n, r, p, y;

	y = x < -0x1.5d58a0p+6f ? -0x1.5d58a0p+6f : x > 88.0f ? 88.0f : x;
	z = y * 0x1.715476p+0f + 12582912.0f;
	n = z - 12582912.0f;
	r = rn_fma(-n, 0x1.63p-1f, y);
	r = rn_fma(-n, -0x1.bd0106p-13f, r);
	p = rn_fma(0x1.6db4e8p-10f, r, 0x1.123be0p-7f);
	p = rn_fma(p, r, 0x1.55545ep-5f);
	p = rn_fma(p, r, 0x1.55548ep-3f);
	p = rn_fma(p, r, 0x1p-1f);
	p = rn_fma(p, r * r, r) + 1.0f;
	p = p * bits_f32((f32_bits(z) << 23) + (127u << 23));
	p = x >= -0x1.5d58a0p+6f ? p : 0.0f;
	p = x > 88.0f ? bits_f32(0x7f800000) : p;
	return x != x ? x : p;
}

DEV f32 dev_sigmoid(f32 x) { return 1.0f / (1.0f + dev_exp(-x)); }
DEV f32 dev_silu(f32 x) { return x / (1.0f + dev_exp(-x)); }

#endif
