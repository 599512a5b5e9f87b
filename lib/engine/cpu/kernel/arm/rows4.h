/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - products of rows in the file's layout, four rows by up to four
 * tokens; and ROW_KERNELS(set), for matmul_neon.c and matmul_dotprod.c.
 */
#include "engine/cpu/kernel/arm/decode.h"

/*
 * Prefetches the bytes four rows further, where the next tile begins: rows are
 * too short for the hardware to detect a stream.  A prefetch never faults.
 */
AI void
prefetch_next(const struct qwen_matmul *p, const unsigned char *w,
    size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i += 64)
		__builtin_prefetch(w + 4 * p->row_bytes + i);
}

/* ---- 256 weights under one d */

/*
 * Multiplies scales by the activations' scales, widened: one product per span.
 */
AI void
scale_products(uint32_t type, const struct group *u, const struct qwen_q8 *x,
    int32x4_t *s)
{
	int16x8_t a = vld1q_s16(x->a), v;

	if (qwen_traits[type].span == 32) {
		v = vmulq_s16(u->scale[0], a);
	} else {
		v = vmulq_s16(u->scale[1], vzip2q_s16(a, a));
		s[2] = vmovl_s16(vget_low_s16(v));
		s[3] = vmovl_s16(vget_high_s16(v));
		v = vmulq_s16(u->scale[0], vzip1q_s16(a, a));
	}
	s[0] = vmovl_s16(vget_low_s16(v));
	s[1] = vmovl_s16(vget_high_s16(v));
}

/* Returns four int32 whose total is the integer sum of a block. */
AI int32x4_t
dot(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	const int32x4_t zero = vdupq_n_s32(0);
	int32x4_t s[4], even = zero, odd = zero, v;

	scale_products(type, u, x, s);
#define PART(v, i) dot16(v, u->w[i], vld1q_s8(x->q + 16 * (i)))
#define TIMES(to, v, k) to = vmlaq_laneq_s32(to, v, s[(k) / 4], (k) % 4)
#define WHOLE(to, j) do {						\
	v = PART(PART(zero, 2 * (j)), 2 * (j) + 1);			\
	TIMES(to, v, j);						\
} while (0)
#define HALVES(j) do {							\
	v = PART(zero, 2 * (j));					\
	TIMES(even, v, 2 * (j));					\
	v = PART(zero, 2 * (j) + 1);					\
	TIMES(odd, v, 2 * (j) + 1);					\
} while (0)
	if (qwen_traits[type].span == 32) {
		WHOLE(even, 0); WHOLE(odd, 1); WHOLE(even, 2); WHOLE(odd, 3);
		WHOLE(even, 4); WHOLE(odd, 5); WHOLE(even, 6); WHOLE(odd, 7);
	} else {
		HALVES(0); HALVES(1); HALVES(2); HALVES(3);
		HALVES(4); HALVES(5); HALVES(6); HALVES(7);
	}
#undef HALVES
#undef WHOLE
#undef TIMES
#undef PART
	return vaddq_s32(even, odd);
}

/* The same for the sum of its minimums. */
AI int32x4_t
dot_min(uint32_t type, const struct group *u, const struct qwen_q8 *x)
{
	const int by16 = qwen_traits[type].span == 16;
	int32x4_t sum = vdupq_n_s32(0);
	int i;

	UNROLL
	for (i = 0; i < 1 + by16; i++) {
		int16x8_t a = vld1q_s16(by16 ? x->asum16 + 8 * i : x->asum);

		sum = vmlal_s16(sum, vget_low_s16(u->min[i]), vget_low_s16(a));
		sum = vmlal_high_s16(sum, u->min[i], a);
	}
	return sum;
}

AI void
sums_super(uint32_t type, const struct qwen_matmul *p,
    const unsigned char *const *row, const struct qwen_q8 *const *x, int nt,
    float32x4_t *acc)
{
	const int has_min = qwen_traits[type].has_min;
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / QWEN_GROUP;
	int j;

	for (b = 0; b < n; b++) {
		float32x4_t d = load_d4(type, w, 0), dmin = d;
		int32x4_t sum[4][4], min[4][4];

		if (has_min)
			dmin = load_min4(type, w, 0);
		for (i = 0; i < 4; i++) {
			struct group u;

			prefetch_next(p, w[i], bytes_of(type));
			decode(type, w[i], &u);
			for (j = 0; j < nt; j++) {
				sum[j][i] = dot(type, &u, x[j] + b);
				if (has_min)
					min[j][i] = dot_min(type, &u, x[j] + b);
			}
			w[i] += bytes_of(type);
		}
		for (j = 0; j < nt; j++) {
			float32x4_t s = vdupq_n_f32(x[j][b].d);

			acc[j] = vfmaq_f32(acc[j], vmulq_f32(d, s),
			    vcvtq_f32_s32(sum4x4(sum[j])));
			if (has_min)
				acc[j] = vfmsq_f32(acc[j], vmulq_f32(dmin, s),
				    vcvtq_f32_s32(sum4x4(min[j])));
		}
	}
}

/*
 * ---- fewer weights per d: a float step per d, and one per group of up to 256
 * weights, which share the activations' scale
 */

/*
 * Adds 32 columns of a group.  If a d has more columns, they are collected in
 * run.
 */
AI void
add_32(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *const *x, size_t b, int nt, int32x4_t *run,
    float32x4_t *part)
{
	const unsigned span = qwen_traits[type].span;
	const size_t n_d = span == 16 ? 2 : 1;
	int32x4_t v[2][4][4], sum;
	int8x16_t u[2];
	size_t i, k;
	int j;

	for (i = 0; i < 4; i++) {
		decode_32(type, w[i], b, u);
		for (j = 0; j < nt; j++) {
			int32x4_t s = dot16(vdupq_n_s32(0), u[0],
			    vld1q_s8(x[j]->q + 32 * b));

			v[0][j][i] = s;
			v[n_d - 1][j][i] = dot16(n_d == 1 ? s :
			    vdupq_n_s32(0), u[1],
			    vld1q_s8(x[j]->q + 32 * b + 16));
		}
	}
	for (k = 0; k < n_d; k++) {
		float32x4_t d = load_d4(type, w, n_d == 2 ? 2 * b + k :
		    32 * b / span);

		for (j = 0; j < nt; j++) {
			sum = vmulq_n_s32(sum4x4(v[k][j]), x[j]->a[b]);
			if (32 * b % span != 0)
				sum = vaddq_s32(sum, run[j]);
			run[j] = sum;
			if (span <= 32 || 32 * (b + 1) % span == 0)
				part[j] = vfmaq_f32(part[j], d,
				    vcvtq_f32_s32(sum));
		}
	}
}

/* Returns the sums of minimums. */
AI float32x4_t
block_mins(uint32_t type, const unsigned char *const *w,
    const struct qwen_q8 *x, size_t nb)
{
	float32x4_t part = vdupq_n_f32(0.0f);
	size_t b;

	for (b = 0; b < nb; b++)
		part = vfmaq_n_f32(part, load_min4(type, w, b),
		    (float)x->asum[b]);
	return part;
}

AI void
sums_block(uint32_t type, const struct qwen_matmul *p,
    const unsigned char *const *row, const struct qwen_q8 *const *first,
    int nt, float32x4_t *acc)
{
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / 32, at, nb, bytes;
	int j;

	for (at = 0; at < n; at += nb) {
		const struct qwen_q8 *x[4];
		float32x4_t part[4];
		int32x4_t run[4];

		nb = n - at < 8 ? n - at : 8;
		bytes = nb * bytes_of(type) / 8;
		for (j = 0; j < nt; j++) {
			x[j] = first[j] + at / 8;
			part[j] = vdupq_n_f32(0.0f);
			run[j] = vdupq_n_s32(0);
		}
		for (i = 0; i < 4; i++)
			prefetch_next(p, w[i], bytes);
		for (b = 0; b < nb; b++)
			add_32(type, w, x, b, nt, run, part);
		for (j = 0; j < nt; j++) {
			acc[j] = vfmaq_n_f32(acc[j], part[j], x[j]->d);
			if (qwen_traits[type].has_min)
				acc[j] = vfmaq_n_f32(acc[j], block_mins(type,
				    w, x[j], nb), x[j]->d);
		}
		for (i = 0; i < 4; i++)
			w[i] += bytes;
	}
}

/* ---- all formats */

/*
 * Multiplies nr rows from r on (the last is repeated to make four) with nt
 * tokens from t on.
 */
AI void
tile(uint32_t type, const struct qwen_matmul *p, size_t r, size_t nr, size_t t,
    int nt)
{
	const unsigned char *w[4];
	const struct qwen_q8 *x[4];
	float32x4_t acc[4];
	float out[4];
	size_t i;
	int j;

	for (i = 0; i < 4; i++)
		w[i] = p->w + (r + (i < nr ? i : nr - 1)) * p->row_bytes;
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = vdupq_n_f32(0.0f);
	}
	if (qwen_traits[type].by_block)
		sums_block(type, p, w, x, nt, acc);
	else
		sums_super(type, p, w, x, nt, acc);
	for (j = 0; j < nt; j++) {
		vst1q_f32(out, acc[j]);
		memcpy(p->y[t + (size_t)j] + r, out, nr * sizeof *out);
	}
}

#define ROW_FORMATS QWEN_ALL_FORMATS
#include "engine/cpu/kernel/rows4.inc"
