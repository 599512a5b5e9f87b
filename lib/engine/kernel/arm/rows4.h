/* SPDX-License-Identifier: ISC */
/*
 * rows4.h - rows as the file has them, four at a time, times up to four
 * tokens; and ROW_KERNELS(its set), for matmul_neon.c and matmul_dotprod.c.
 */
#include "engine/kernel/arm/formats.h"

/*
 * Ask for the bytes four rows further on, where the next tile begins: a row is
 * too short for the hardware to see a stream in it.  A hint never faults.
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

/* A row's block, taken apart. */
struct block {
	int8x16_t	w[16];
	int16x8_t	scale[2], min;
};

/* Scales times the activations' own, widened: one for each sub_of() weights. */
AI void
scale_products(uint32_t type, const struct block *u, const struct qwen_q8 *x,
    int32x4_t *s)
{
	int16x8_t a = vld1q_s16(x->a), v;

	if (sub_of(type) == 32) {
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

/* Four int32 that add up to the integer sum of a block. */
AI int32x4_t
dot(uint32_t type, const struct block *u, const struct qwen_q8 *x)
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
	if (sub_of(type) == 32) {
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

/* And to the sum of its minimums. */
AI int32x4_t
dot_min(const struct block *u, const struct qwen_q8 *x)
{
	int16x8_t a = vld1q_s16(x->asum);

	return vmlal_high_s16(vmull_s16(vget_low_s16(u->min),
	    vget_low_s16(a)), u->min, a);
}

AI void
sums_super(uint32_t type, const struct qwen_matmul *p,
    const unsigned char *const *row, const struct qwen_q8 *const *x, int nt,
    float32x4_t *acc)
{
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / QWEN_GROUP;
	int j;

	for (b = 0; b < n; b++) {
		float32x4_t d = load_d4(w, d_at(type));
		float32x4_t dmin = load_d4(w, dmin_at(type));
		int32x4_t sum[4][4], min[4][4];

		for (i = 0; i < 4; i++) {
			struct block u;

			prefetch_next(p, w[i], bytes_of(type));
			weights(type, w[i], u.w);
			scales(type, w[i], u.scale, &u.min);
			for (j = 0; j < nt; j++) {
				sum[j][i] = dot(type, &u, x[j] + b);
				min[j][i] = dot_min(&u, x[j] + b);
			}
			w[i] += bytes_of(type);
		}
		for (j = 0; j < nt; j++) {
			float32x4_t s = vdupq_n_f32(x[j][b].d);

			acc[j] = vfmaq_f32(acc[j], vmulq_f32(d, s),
			    vcvtq_f32_s32(sum4x4(sum[j])));
			if (has_min(type))
				acc[j] = vfmsq_f32(acc[j], vmulq_f32(dmin, s),
				    vcvtq_f32_s32(sum4x4(min[j])));
		}
	}
}

/*
 * ---- Q8_0: a float step every 32 weights, and one for up to eight of them,
 * which share the activations' scale
 */

/* Block b of a group, at w: to part. */
AI void
add_block(const unsigned char *const *w, const struct qwen_q8 *const *x,
    size_t b, int nt, float32x4_t *part)
{
	float32x4_t d = load_d4(w, 0);
	int32x4_t v[4][4];
	int i, j;

	for (i = 0; i < 4; i++) {
		int8x16_t w0 = vld1q_s8((const int8_t *)w[i] + 2);
		int8x16_t w1 = vld1q_s8((const int8_t *)w[i] + 18);

		for (j = 0; j < nt; j++)
			v[j][i] = dot16(dot16(vdupq_n_s32(0), w0,
			    vld1q_s8(x[j]->q + 32 * b)), w1,
			    vld1q_s8(x[j]->q + 32 * b + 16));
	}
	for (j = 0; j < nt; j++)
		part[j] = vfmaq_f32(part[j], d, vcvtq_f32_s32(vmulq_n_s32(
		    sum4x4(v[j]), x[j]->a[b])));
}

AI void
sums_32(const struct qwen_matmul *p, const unsigned char *const *row,
    const struct qwen_q8 *const *first, int nt, float32x4_t *acc)
{
	const unsigned char *w[4] = { row[0], row[1], row[2], row[3] };
	size_t b, i, n = p->n_in / 32, at, nb;
	int j;

	for (at = 0; at < n; at += nb) {
		const struct qwen_q8 *x[4];
		float32x4_t part[4];

		nb = n - at < 8 ? n - at : 8;
		for (j = 0; j < nt; j++) {
			x[j] = first[j] + at / 8;
			part[j] = vdupq_n_f32(0.0f);
		}
		for (i = 0; i < 4; i++)
			prefetch_next(p, w[i], nb * 34);
		for (b = 0; b < nb; b++) {
			add_block(w, x, b, nt, part);
			for (i = 0; i < 4; i++)
				w[i] += 34;
		}
		for (j = 0; j < nt; j++)
			acc[j] = vfmaq_f32(acc[j], vdupq_n_f32(x[j]->d),
			    part[j]);
	}
}

/* ---- all of them */

/* nr rows from r (the last is repeated to make four), nt tokens from t. */
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
	if (type == QT_Q8_0)
		sums_32(p, w, x, nt, acc);
	else
		sums_super(type, p, w, x, nt, acc);
	for (j = 0; j < nt; j++) {
		vst1q_f32(out, acc[j]);
		memcpy(p->y[t + (size_t)j] + r, out, nr * sizeof *out);
	}
}

#define ROW_FORMATS QWEN_FORMATS
#include "engine/kernel/rows4.inc"
