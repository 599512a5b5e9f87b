/* SPDX-License-Identifier: ISC */
/*
 * one.h - the product of one row of activations: all of a matrix is read once, and
 * nothing else matters.
 *
 * Of integers, two lanes have 256 weights of a row, so a warp has 16 groups at a time, of its
 * rows one after another.  A lane asks for its next weights before it computes with
 * the last ones.  What each group gives is put into the block's memory, where one
 * lane a row adds it up in order.
 */
#ifndef QWEN_CUDA_ONE_H
#define QWEN_CUDA_ONE_H

#include "engine/cuda/kernel/ones.h"

/* Half of the bytes of 256 weights: numbers, upper bits, scales. */
struct one_weights {
	u32x4	w[8], hi[2], head;
};

/* Activations in the block's memory. */
struct one_x {
	SHARED u8	*q, *side;
};

/* Asks for half h of group b of a row. */
DEV void
one_load(const int f, const GLOBAL u8 *row, u32 nb, u32 b, u32 h,
    struct one_weights *o)
{
	const GLOBAL u8 *p = row + b * (f == F_Q4_K ? 144 : f == F_Q5_K ? 176 :
	    f == F_Q8_0 ? DEV_Q8_0_BYTES : f == F_Q2_K ? DEV_Q2_K_BYTES :
	    BLOCK_BYTES(f));
	const GLOBAL u8 *w = p + (f == F_Q4_K ? 16 : f == F_Q5_K ? 48 : 0) +
	    (f == F_Q8_0 ? 128 : 64) * h;
	const GLOBAL u8 *hi = p + (f == F_Q5_K ? 16 : 128 + 32 * h);
	u32x2 some;
	u32 i;

	UNROLL for (i = 0; i < (f == F_Q8_0 ? 8 : 4); i++)
		o->w[i] = *(const GLOBAL u32x4 *)(w + 16 * i);
	UNROLL for (i = 0; i < 2 && (f == F_Q5_K || f == F_Q6_K); i++)
		o->hi[i] = *(const GLOBAL u32x4 *)(hi + 16 * i);
	if (f == F_Q4_K || f == F_Q5_K || f == F_IQ4_XS) {
		o->head = *(const GLOBAL u32x4 *)(p + (f == F_IQ4_XS ? 128 :
		    0));
		return;
	}
	some = *(const GLOBAL u32x2 *)(p + (f == F_Q6_K ? 192 : f == F_Q8_0 ?
	    256 : 128) + 8 * h);
	o->head[0] = some[0];
	o->head[1] = some[1];
	if (f == F_Q2_K) {
		some = *(const GLOBAL u32x2 *)(p + 144 + 8 * h);
		o->head[2] = some[0];
		o->head[3] = some[1];
		some = *(const GLOBAL u32x2 *)(p + 160);
		o->hi[0][0] = some[0];
		o->hi[0][1] = some[1];
	}
	if (f == F_Q6_K || f == F_Q3_K)
		o->head[2] = *(const GLOBAL u16 *)(row + nb * BLOCK_BYTES(f) +
		    2 * b);
}

/* Copies a row's groups to the block's memory. */
DEV struct one_x
one_take(const GLOBAL u8 *groups, u32 nb)
{
	struct one_x x = { .q = SMEM, .side = SMEM + nb * 256 };
	u32 i, g, c;

	for (i = tid(); i < nb * 16; i += n_threads()) {
		g = i / 16;
		c = i % 16;
		*(SHARED u32x4 *)(x.q + g * 256 + (c & 8) * 16 + ((c & 7) ^
		    ((2 * g + c / 8) & 7)) * 16) = *(const GLOBAL u32x4 *)
		    (groups + g * sizeof(struct dev_group) + c * 16);
	}
	for (i = tid(); i < nb * 16; i += n_threads())
		*(SHARED u32 *)(x.side + i / 16 * ONE_SIDE + i % 16 * 4) =
		    *(const GLOBAL u32 *)(groups + i / 16 *
		    sizeof(struct dev_group) + 256 + i % 16 * 4);
	bar();
	return x;
}

/* Sixteen activations, number c of half h of group b. */
DEV u32x4
one_x16(const struct one_x *x, u32 b, u32 h, u32 c)
{
	return *(const SHARED u32x4 *)(x->q + b * 256 + h * 128 +
	    (c ^ ((2 * b + h) & 7)) * 16);
}

/* Bytes of a group beside its numbers, from struct dev_group's `a' on. */
DEV u32
one_side(const struct one_x *x, u32 b, u32 at)
{
	return *(const SHARED u32 *)(x->side + b * ONE_SIDE + at);
}

DEV s32 one_byte(u32 w, u32 i) { return (s32)(w >> 8 * i & 255); }

DEV s32
one_dot(u32x4 w, u32x4 x, s32 sum)
{
	sum = dp4a(w[0], x[0], sum);
	sum = dp4a(w[1], x[1], sum);
	sum = dp4a(w[2], x[2], sum);
	return dp4a(w[3], x[3], sum);
}

/* Sixteen weights, whose values have the numbers in the nibbles of n. */
DEV u32x4
one_values(const struct dev_product *a, u32 n0, u32 n1)
{
	return (u32x4){ nibble_values(a->values, n0),
	    nibble_values(a->values, n0 >> 16), nibble_values(a->values, n1),
	    nibble_values(a->values, n1 >> 16) };
}

/* Q4_K and Q5_K: factor and sum, and those of minimums. */
DEV f32x4
part_k4(const int f, const struct one_weights *o, const struct one_x *x, u32 b,
    u32 h)
{
	const u32x4 s = o->head;
	u32 scale = h ? (s[3] & 0x0f0f0f0f) | (s[1] >> 2 & 0x30303030) :
	    s[1] & 0x3f3f3f3f;
	u32 least = h ? (s[3] >> 4 & 0x0f0f0f0f) | (s[2] >> 2 & 0x30303030) :
	    s[2] & 0x3f3f3f3f;
	u32 av = one_side(x, b, 4 * h), i, j;
	f32 d = bits_f32(one_side(x, b, 24));
	s32 sum = 0, min, dot;

	UNROLL for (j = 0; j < 4; j++) {
		dot = 0;
		UNROLL for (i = 0; i < 2; i++) {
			u32x4 w = (j & 1 ? o->w[(j & 2) + i] >> 4 :
			    o->w[(j & 2) + i]) & 0x0f0f0f0f;

			if (f == F_Q5_K)
				w |= (o->hi[i] >> (4 * h + j) & 0x01010101) <<
				    4;
			dot = one_dot(w, one_x16(x, b, h, 2 * j + i), dot);
		}
		sum += one_byte(scale, j) * one_byte(av, j) * dot;
	}
	min = dp4a_uu(least, one_side(x, b, 8 + 4 * h), 0) +
	    256 * dp4a(least, one_side(x, b, 16 + 4 * h), 0);
	sum += shfl_xor(sum, 1);
	min += shfl_xor(min, 1);
	return (f32x4){ f16_f32((u16)s[0]) * d, (f32)sum,
	    -f16_f32((u16)(s[0] >> 16)) * d, (f32)min };
}

/* IQ4_XS: factor and sum. */
DEV f32x4
part_iq4_xs(const struct dev_product *a, const struct one_weights *o,
    const struct one_x *x, u32 b, u32 h)
{
	u32 av = one_side(x, b, 4 * h), scale = h ? o->head[1] : o->head[0], j;
	s32 sum = 0, dot;

	UNROLL for (j = 0; j < 4; j++) {
		u32x4 n = o->w[j];

		dot = one_dot(one_values(a, n[0], n[1]), one_x16(x, b, h,
		    2 * j), 0);
		dot = one_dot(one_values(a, n[2], n[3]), one_x16(x, b, h,
		    2 * j + 1), dot);
		sum += (s8)one_byte(scale, j) * one_byte(av, j) * dot;
	}
	sum += shfl_xor(sum, 1);
	return (f32x4){ f16_f32((u16)o->head[2]) *
	    bits_f32(one_side(x, b, 24)), (f32)sum, 0.0f, 0.0f };
}

/* Q3_K, and Q2_K with minimums: the same with scales of 16. */
DEV f32x4
part_q3_k(const int f, const struct dev_product *a, const struct one_weights *o,
    const struct one_x *x, u32 b, u32 h)
{
	u32 av = one_side(x, b, 4 * h), i, j;
	f32 d = bits_f32(one_side(x, b, 24));
	s32 sum = 0, min = 0;

	UNROLL for (j = 0; j < 4; j++) UNROLL for (i = 0; i < 2; i++) {
		u32 k = 2 * j + i;
		s32 scale = (s8)(o->head[k / 4] >> 8 * (k % 4));

		sum += scale * one_byte(av, j) * one_dot(one_values(a,
		    o->w[j][2 * i], o->w[j][2 * i + 1]), one_x16(x, b, h, k),
		    0);
	}
	sum += shfl_xor(sum, 1);
	if (f == F_Q2_K) {
		UNROLL for (j = 0; j < 2; j++)
			min += dp4a_uu(o->head[2 + j], one_side(x, b, 32 +
			    8 * h + 4 * j), 0) + 256 * dp4a(o->head[2 + j],
			    one_side(x, b, 48 + 8 * h + 4 * j), 0);
		min += shfl_xor(min, 1);
		return (f32x4){ bits_f32(o->hi[0][0]) * d, (f32)sum,
		    -bits_f32(o->hi[0][1]) * d, (f32)min };
	}
	return (f32x4){ f16_f32((u16)o->head[2]) * d, (f32)sum, 0.0f, 0.0f };
}

/* Q6_K: numbers are stored plus 32, which the sums of 16 take off. */
DEV f32x4
part_q6_k(const struct one_weights *o, const struct one_x *x, u32 b, u32 h)
{
	u32 av = one_side(x, b, 4 * h), i, j;
	s32 sum = 0, less = 0;

	UNROLL for (j = 0; j < 4; j++) UNROLL for (i = 0; i < 2; i++) {
		u32 k = 2 * j + i;
		s32 scale = (s8)(o->head[k / 4] >> 8 * (k % 4));
		u32x4 w = (o->w[(j & 1) * 2 + i] >> (j < 2 ? 0 : 4) &
		    0x0f0f0f0f) | (o->hi[i] >> 2 * j & 0x03030303) << 4;
		u32 at = 8 * h + k;
		s32 low = one_byte(one_side(x, b, 32 + at / 4 * 4), at % 4);
		s32 high = (s8)one_byte(one_side(x, b, 48 + at / 4 * 4),
		    at % 4);

		sum += scale * one_byte(av, j) * one_dot(w, one_x16(x, b, h,
		    k), 0);
		less += scale * (low + 256 * high);
	}
	sum -= 32 * less;
	sum += shfl_xor(sum, 1);
	return (f32x4){ f16_f32((u16)o->head[2]) *
	    bits_f32(one_side(x, b, 24)), (f32)sum, 0.0f, 0.0f };
}

/* Q8_0 and Q4: the sum of a second half starts with the sum of the first half. */
DEV f32x4
part_q8_0(const int f, const struct dev_product *a,
    const struct one_weights *o, const struct one_x *x, u32 b, u32 h)
{
	u32 av = one_side(x, b, 4 * h), j;
	f32 part = 0.0f, t[4], d[4], first;

	UNROLL for (j = 0; j < 4; j++) {
		u32x4 n = o->w[j], w[2];
		s32 dot;

		w[0] = f == F_Q4 ? one_values(a, n[0], n[1]) : o->w[2 * j];
		w[1] = f == F_Q4 ? one_values(a, n[2], n[3]) : o->w[2 * j + 1];
		dot = one_dot(w[0], one_x16(x, b, h, 2 * j), 0);
		dot = one_dot(w[1], one_x16(x, b, h, 2 * j + 1), dot);
		t[j] = (f32)(one_byte(av, j) * dot);
		d[j] = d_of(f, a, o->head[j / 2] >> 16 * (j % 2) & 0xffff);
	}
	UNROLL for (j = 0; j < 4; j++)
		part = rn_fma(d[j], t[j], part);
	first = shfl_xor_f32(part, 1);
	part = first;
	UNROLL for (j = 0; j < 4; j++)
		part = rn_fma(d[j], t[j], part);
	return (f32x4){ bits_f32(one_side(x, b, 24)), part, 0.0f, 0.0f };
}

/* Adds up what the groups of each row of the warp gave; first is its first row. */
DEV void
one_end(const int f, const struct dev_product *a, const SHARED f32x4 *stage,
    u32 nb, u32 first, u32 matrix, u32 pair)
{
	const u32 lane = tid() & 31, r = first + lane;
	f32 sum = 0.0f;
	u32 i;

	warp_bar();
	if (lane >= a->rows || r >= a->n_out)
		return;
	stage += lane * nb;
#ifdef __NVPTX__
#pragma unroll 8
#endif
	for (i = 0; i < nb; i++) {
		sum = rn_fma(stage[i][0], stage[i][1], sum);
		if (f == F_Q4_K || f == F_Q5_K || f == F_Q2_K)
			sum = rn_fma(stage[i][2], stage[i][3], sum);
	}
	put_product(a, matrix, pair, r, sum);
}

/* The matrix of a pair, which an earlier launch has chosen. */
DEV u32
one_matrix(const struct dev_product *a, u32 pair)
{
	if (a->matrix == (void *)0)
		return 0;
	await_launch();
	return a->matrix[pair];
}

/* The row of x that a pair has. */
DEV u32
one_row(const struct dev_product *a, u32 pair)
{
	return a->at != (void *)0 ? pair / a->per : 0;
}

/* Block `block' of rows of a pair, or of the only row of x. */
DEV void
multiply_one(const int f, const struct dev_product *a, u32 block, u32 pair)
{
	const u32 nb = (a->n_in + 255) / 256, rows = a->rows;
	const u32 lane = tid() & 31, h = lane & 1, warp = tid() / 32;
	const u32 first = (block * ONE_WARPS + warp) * rows;
	const u32 units = rows * nb, matrix = one_matrix(a, pair);
	const GLOBAL u8 *w = a->w + matrix * a->matrix_bytes;
	SHARED f32x4 *stage = (SHARED f32x4 *)(SMEM + (nb * (256 + ONE_SIDE) +
	    15) / 16 * 16) + warp * rows * nb;
	struct one_weights now, next;
	struct one_x x;
	u32 base, u, row, b, r;
	f32x4 v;

#define ONE_PLACE(at) do {						\
	u = (at) + lane / 2 < units ? (at) + lane / 2 : units - 1;	\
	row = u / nb;							\
	b = u - row * nb;						\
	r = first + row < a->n_out ? first + row : a->n_out - 1;	\
} while (0)
	ONE_PLACE(0);
	one_load(f, w + r * a->row_bytes, nb, b, h, &now);
	if (first + lane * 128 / a->row_bytes < a->n_out)
		prefetch(w + first * a->row_bytes + lane * 128);
	await_launch();
	x = one_take(a->groups + one_row(a, pair) * a->group_bytes, nb);
	for (base = 0; base < units; base += ONE_UNITS) {
		if (base + ONE_UNITS < units) {
			ONE_PLACE(base + ONE_UNITS);
			one_load(f, w + r * a->row_bytes, nb, b, h, &next);
		}
		ONE_PLACE(base);
		v = f == F_Q6_K ? part_q6_k(&now, &x, b, h) :
		    f == F_Q3_K || f == F_Q2_K ? part_q3_k(f, a, &now, &x, b, h) :
		    f == F_IQ4_XS ? part_iq4_xs(a, &now, &x, b, h) :
		    f == F_Q8_0 || f == F_Q4 ? part_q8_0(f, a, &now, &x, b,
		    h) : part_k4(f, &now, &x, b, h);
		if (h == (f == F_Q8_0 || f == F_Q4))
			stage[row * nb + b] = v;
		now = next;
	}
	one_end(f, a, stage, nb, first, matrix, pair);
#undef ONE_PLACE
}

/* The same with floats: sixteen lanes have a row of weights, a partial sum each. */
DEV void
multiply_floats(const struct dev_product *a, const u32 kind, u32 block,
    u32 pair)
{
	enum { AHEAD = 16 };	/* loads under way */
	const u32 lane = tid() & 15, at = block * ONE_FLOATS + tid() / 16;
	const u32 r = at < a->n_out ? at : a->n_out - 1;
	const u32 matrix = one_matrix(a, pair);
	const GLOBAL u8 *w = a->w + matrix * a->matrix_bytes +
	    r * a->row_bytes;
	const GLOBAL f32 *from = a->x + one_row(a, pair) * a->x_stride;
	f32 v[AHEAD], x[AHEAD], sum = 0.0f;
	u32 k, i;

	if (lane * 128 < a->row_bytes)
		prefetch(w + lane * 128);
	await_launch();
	for (k = lane; k + 16 * (AHEAD - 1) < a->n_in; k += 16 * AHEAD) {
		UNROLL for (i = 0; i < AHEAD; i++) {
			v[i] = float_weight(w, k + 16 * i, kind);
			x[i] = from[k + 16 * i];
		}
		UNROLL for (i = 0; i < AHEAD; i++)
			sum = rn_fma(v[i], x[i], sum);
	}
	for (; k < a->n_in; k += 16)
		sum = rn_fma(float_weight(w, k, kind), from[k], sum);
	/* a last term that is missing */
	if (a->n_in % 16 != 0 && lane >= a->n_in % 16)
		sum = sum + 0.0f;
	UNROLL for (i = 8; i > 0; i /= 2)
		sum = sum + shfl_xor_f32(sum, i);
	if (lane == 0 && at < a->n_out)
		put_product(a, matrix, pair, at, sum);
}

#endif
