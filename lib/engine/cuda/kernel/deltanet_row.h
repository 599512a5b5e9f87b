/* SPDX-License-Identifier: ISC */
/*
 * deltanet_row.h - what a token is before the delta rule: inputs of the
 * convolution, l2 norms, gates.
 */
#ifndef QWEN_CUDA_DELTANET_ROW_H
#define QWEN_CUDA_DELTANET_ROW_H

#include "engine/cuda/kernel/deltanet.h"
#include "engine/cuda/kernel/math.h"

DEV struct dev_share
share_at(const struct dev_delta *a, u32 i)
{
	return a->pass.share != 0 ? a->pass.share[i] : a->alone;
}

/* Channels of the convolution: q, k and v. */
DEV u32
n_channel(const struct dev_delta *a)
{
	return 2 * a->n_head_k * a->dk + a->n_head_v * a->dv;
}

/* Where the gates are in a row of `made'. */
DEV u32
gates_at(const struct dev_delta *a)
{
	return (n_channel(a) + 3) / 4 * 4;
}

DEV u32
key_head(const struct dev_delta *a, u32 head)
{
	return a->grouped ? head / (a->n_head_v / a->n_head_k) :
	    head % a->n_head_k;
}

/* Where a head's alpha and beta are, from the first number of alpha on. */
struct gates { u32 alpha, beta; };

DEV struct gates
find_gates(const struct dev_delta *a, u32 head)
{
	u32 rep = a->n_head_v / a->n_head_k;
	struct gates g = { head, a->n_head_v + head };

	if (a->by_key) {	/* for each key head, beta, then alpha */
		g.beta = head / rep * 2 * rep + head % rep;
		g.alpha = g.beta + rep;
	}
	return g;
}

/* ---- tokens are counted from the share's first row on; earlier ones are < 0 */

/* The journal's row of a token. */
DEV GLOBAL f32 *
journal_at(const struct dev_delta *a, const struct dev_share *s, s32 t)
{
	return (GLOBAL f32 *)(s->state + a->journal +
	    (s->pos + (u32)t) % DELTA_JOURNAL * a->journal_row);
}

/*
 * The inputs of the convolution at a token: of a row, of the journal, or, before
 * what that has, of the state.
 */
DEV const GLOBAL f32 *
input_at(const struct dev_delta *a, const struct dev_share *s, s32 t)
{
	s32 owed = (s32)s->owed;

	if (t >= 0)
		return a->in + (u64)(s->first + (u32)t) * a->in_stride;
	if (t + owed >= 0)
		return journal_at(a, s, t);
	return (const GLOBAL f32 *)(s->state + a->state_conv) +
	    (u64)(u32)(t + owed + (s32)a->taps - 1) * n_channel(a);
}

/* Channel c of the convolution at row t. */
DEV f32
convolve(const struct dev_delta *a, const struct dev_share *s, s32 t, u32 c)
{
	f32 sum = 0.0f;
	u32 j;

	for (j = 0; j < a->taps; j++)
		sum = rn_fma(a->conv[(u64)j * n_channel(a) + c],
		    input_at(a, s, t + (s32)(j + 1 - a->taps))[c], sum);
	return dev_silu(sum);
}

/* The inputs of one with DELTA_TAPS taps. */
struct inputs { const GLOBAL f32 *tap[DELTA_TAPS]; };

DEV struct inputs
inputs_at(const struct dev_delta *a, const struct dev_share *s, s32 t)
{
	struct inputs in;
	u32 j;

	UNROLL for (j = 0; j < DELTA_TAPS; j++)
		in.tap[j] = input_at(a, s, t + (s32)j + 1 - DELTA_TAPS);
	return in;
}

/* The sum that its silu is taken of. */
DEV f32
add_inputs(const struct dev_delta *a, const struct inputs *in, u32 c)
{
	f32 sum = 0.0f;
	u32 j;

	UNROLL for (j = 0; j < DELTA_TAPS; j++)
		sum = rn_fma(a->conv[j * n_channel(a) + c], in->tap[j][c], sum);
	return sum;
}

/*
 * Channels c, c + 16 .. c + 112 of one.  No load waits for a silu, whose division
 * has a branch.
 */
DEV void
convolve_eight(const struct dev_delta *a, const struct dev_share *s, s32 t,
    u32 c, f32 *x)
{
	struct inputs in = inputs_at(a, s, t);
	u32 i;

	UNROLL for (i = 0; i < 8; i++)
		x[i] = add_inputs(a, &in, c + i * 16);
	UNROLL for (i = 0; i < 8; i++)
		x[i] = dev_silu(x[i]);
}

/* The sum of the 16 parts of a sum of squares, which 16 lanes have. */
DEV f32
add_parts(f32 part)
{
	u32 m;

	for (m = 8; m > 0; m /= 2)
		part = part + shfl_xor_f32(part, m);
	return part;
}

DEV f32
unit_factor(f32 sum, f32 scale)
{
	return scale / rn_sqrt(sum + 1e-6f);
}

/* ---- gates */

/* x / c, with the bits of a division, for c up to 14 and 1 / c (Markstein) */
DEV f64
divide(f64 x, f64 c, f64 one_by_c)
{
	f64 q = x * one_by_c;

	return rn_fma64(rn_fma64(-q, c, x), one_by_c, q);
}

DEV u64
f64_bits(f64 x)
{
	union { f64 x; u64 u; } v = { .x = x };

	return v.u;
}

DEV f64
bits_f64(u64 u)
{
	union { u64 u; f64 x; } v = { .u = u };

	return v.x;
}

/* qwen_exp(), for |x| <= 700 */
DEV f64
dev_exp64(f64 x)
{
	/* rint by adding what leaves no fraction */
	f64 n = x * 0x1.71547652b82fep+0 + 0x1.8p+52 - 0x1.8p+52;
	f64 r = rn_fma64(-n, 0x1.a39ef35793c76p-33,
	    rn_fma64(-n, 0x1.62e42fee00000p-1, x));
	f64 p = 1.0;

#define TERM(i) p = rn_fma64(p, divide(r, i, 1.0 / i), 1.0)
	TERM(14.0);
	TERM(13.0);
	TERM(12.0);
	TERM(11.0);
	TERM(10.0);
	TERM(9.0);
	TERM(8.0);
	TERM(7.0);
	TERM(6.0);
	TERM(5.0);
	TERM(4.0);
	TERM(3.0);
	TERM(2.0);
	TERM(1.0);
#undef TERM
	return p * bits_f64((u64)((s32)n + 1023) << 52);
}

/* qwen_log() */
DEV f64
dev_log64(f64 x)
{
	u64 u = f64_bits(x);
	s32 e = (s32)(u >> 52) - 1023;
	f64 s, z, p = 0.0;

	x = bits_f64((u & 0xfffffffffffffull) | 0x3ff0000000000000ull);
	if (x > 1.4142135623730951) {
		x *= 0.5;
		e++;
	}
	s = (x - 1.0) / (x + 1.0);
	z = s * s;
#define TERM(i) p = rn_fma64(p, z, 1.0 / i)
	TERM(23.0);
	TERM(21.0);
	TERM(19.0);
	TERM(17.0);
	TERM(15.0);
	TERM(13.0);
	TERM(11.0);
	TERM(9.0);
	TERM(7.0);
	TERM(5.0);
	TERM(3.0);
#undef TERM
	s = 2.0 * s;
	p = rn_fma64(p * z, s, s);
	return rn_fma64((f64)e, 0x1.62e42fee00000p-1,
	    rn_fma64((f64)e, 0x1.a39ef35793c76p-33, p));
}

/* qwen_softplusf() */
DEV f32
dev_softplus(f32 x)
{
	f64 e;

	if (x != x || x > 20.0f)
		return x;
	if (x < -700.0f)
		return 0.0f;
	e = dev_exp64((f64)x);
	return (f32)(e < 0x1p-27 ? e : dev_log64(1.0 + e));
}

/* Decay and beta of a head at row t; what is not finite gives NaN. */
DEV f32x2
make_gates(const struct dev_delta *a, const struct dev_share *s, s32 t,
    u32 head)
{
	struct gates at = find_gates(a, head);
	const GLOBAL f32 *x = input_at(a, s, t) + n_channel(a) +
	    a->n_head_v * a->dv;
	f32 in = x[at.alpha] + a->dt[head];
	f32 g = a->a[head] * dev_softplus(in), beta = x[at.beta];
	f32x2 r;

	r[0] = is_finite(in) && is_finite(g) ? dev_exp(g) :
	    bits_f32(0x7fc00000);
	r[1] = is_finite(beta) ? dev_sigmoid(beta) : bits_f32(0x7fc00000);
	return r;
}

#endif
