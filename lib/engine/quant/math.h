/* SPDX-License-Identifier: ISC */
/*
 * math.h - exp and similar functions with the same bits on every machine.
 *
 * libm may differ in the last bit between systems.  These functions use only
 * operations that IEEE 754 rounds in one way.  The vector forms in vec.h follow
 * qwen_expf step by step.
 */
#ifndef QWEN_QUANT_MATH_H
#define QWEN_QUANT_MATH_H

#include <math.h>

#include "base/half.h"

/* Below EXP_LO the result is 0, above EXP_HI infinity. */
#define EXP_LO		-0x1.5d58a0p+6f		/* -87.3365 */
#define EXP_HI		88.0f
#define EXP_LOG2E	0x1.715476p+0f
#define EXP_LN2_HI	0x1.63p-1f		/* few bits, so that n *
						   EXP_LN2_HI is exact */
#define EXP_LN2_LO	-0x1.bd0106p-13f
/* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2, error 3.2e-9 of e^r */
#define EXP_C2		0x1p-1f
#define EXP_C3		0x1.55548ep-3f
#define EXP_C4		0x1.55545ep-5f
#define EXP_C5		0x1.123be0p-7f
#define EXP_C6		0x1.6db4e8p-10f

/* Returns e^x, within about 1 ulp; NaN for NaN. */
static inline float
qwen_expf(float x)
{
	float n, r, p;

	if (!(x >= EXP_LO))
		return x != x ? x : 0.0f;
	if (x > EXP_HI)
		return INFINITY;
	n = rintf(x * EXP_LOG2E);
	r = fmaf(-n, EXP_LN2_HI, x);
	r = fmaf(-n, EXP_LN2_LO, r);
	p = fmaf(EXP_C6, r, EXP_C5);
	p = fmaf(p, r, EXP_C4);
	p = fmaf(p, r, EXP_C3);
	p = fmaf(p, r, EXP_C2);
	p = fmaf(p, r * r, r) + 1.0f;
	return p * qwen_bits_f32((uint32_t)((int)n + 127) << 23);
}

/* 2 sqrt(2 / pi), and that times 0.044715: in the GELU with a tanh. */
#define QWEN_GELU_1	0x1.988454p+0f
#define QWEN_GELU_3	0x1.2444f2p-4f

/* Returns 1 / (1 + e^-x). */
static inline float
qwen_sigmoidf(float x)
{
	return 1.0f / (1.0f + qwen_expf(-x));
}

/* The functions below compute in double; use them for few values. */

/* e^x for |x| <= 700 */
double qwen_exp(double x);

/* ln x for a positive, normal x */
double qwen_log(double x);

/* ln(1 + e^x) */
float qwen_softplusf(float x);

/* x times the normal distribution's integral up to x: the GELU with an erf */
float qwen_geluf(float x);

/* sin and cos of x, |x| up to about 2^30 */
void qwen_sincos(double x, double *s, double *c);

#endif
