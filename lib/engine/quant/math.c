/* SPDX-License-Identifier: ISC */
/* math.c - the double-precision functions: series on reduced arguments. */
#include <string.h>

#include "engine/quant/math.h"

/* ln 2 and pi/2 in parts; the upper ones have zeros at their ends. */
#define LN2_HI		0x1.62e42fee00000p-1
#define LN2_LO		0x1.a39ef35793c76p-33
#define PIO2_1		0x1.921fb54400000p+0
#define PIO2_2		0x1.0b4611a600000p-34
#define PIO2_3		0x1.3198a2e037073p-69

static double
pow2(int n)
{
	uint64_t u = (uint64_t)(n + 1023) << 52;
	double d;

	memcpy(&d, &u, sizeof d);
	return d;
}

double
qwen_exp(double x)
{
	double n = rint(x * 0x1.71547652b82fep+0);
	double r = fma(-n, LN2_LO, fma(-n, LN2_HI, x));
	double p = 1.0;
	int i;

	for (i = 14; i > 0; i--)	/* Taylor, |r| < 0.35 */
		p = fma(p, r / (double)i, 1.0);
	return p * pow2((int)n);
}

double
qwen_log(double x)
{
	uint64_t u;
	double s, z, p = 0.0;
	int e, i;

	memcpy(&u, &x, sizeof u);
	e = (int)(u >> 52) - 1023;
	u = (u & 0xfffffffffffffULL) | 0x3ff0000000000000ULL;
	memcpy(&x, &u, sizeof x);
	if (x > 1.4142135623730951) {
		x *= 0.5;
		e++;
	}
	s = (x - 1.0) / (x + 1.0);	/* ln x = 2 artanh s, |s| < 0.172 */
	z = s * s;
	for (i = 23; i > 1; i -= 2)
		p = fma(p, z, 1.0 / (double)i);
	p = fma(p * z, 2.0 * s, 2.0 * s);
	return fma((double)e, LN2_HI, fma((double)e, LN2_LO, p));
}

float
qwen_softplusf(float x)
{
	double e;

	if (x != x || x > 20.0f)
		return x;
	if (x < -700.0f)
		return 0.0f;
	e = qwen_exp((double)x);
	if (e < 0x1p-27)		/* ln(1 + e) = e - e^2/2 + ... */
		return (float)e;
	return (float)qwen_log(1.0 + e);
}

/*
 * erf(x) = 2 / sqrt(pi) e^(-x^2) (x + 2 x^3 / 3 + 4 x^5 / 15 + ...), whose
 * terms have the same sign.
 */
static double
erf_of(double x)
{
	double t = x, sum = x, last, n;

	if (x >= 6.0)
		return 1.0;
	if (x <= -6.0)
		return -1.0;
	for (n = 3.0, last = 0.0; sum != last; n += 2.0) {
		last = sum;
		t = t * (2.0 * x * x) / n;
		sum += t;
	}
	return 0x1.20dd750429b6dp+0 * qwen_exp(-x * x) * sum;
}

float
qwen_geluf(float x)
{
	if (!isfinite(x))
		return x - x;		/* NaN: an error of the layer */
	return (float)(0.5 * (double)x *
	    (1.0 + erf_of((double)x * 0x1.6a09e667f3bcdp-1)));
}

void
qwen_sincos(double x, double *s, double *c)
{
	double n = rint(x * 0x1.45f306dc9c883p-1);
	double r = fma(-n, PIO2_3, fma(-n, PIO2_2, fma(-n, PIO2_1, x)));
	double z = r * r, ps = 1.0, pc = 1.0, t;
	int i;

	for (i = 20; i > 0; i -= 2) {	/* Taylor, |r| < 0.79 */
		ps = fma(ps, -z / (double)(i * (i + 1)), 1.0);
		pc = fma(pc, -z / (double)(i * (i - 1)), 1.0);
	}
	ps *= r;
	switch ((unsigned)(int64_t)n & 3) {
	case 1:
		t = ps, ps = pc, pc = -t;
		break;
	case 2:
		ps = -ps, pc = -pc;
		break;
	case 3:
		t = ps, ps = -pc, pc = t;
		break;
	}
	*s = ps;
	*c = pc;
}
