/* SPDX-License-Identifier: ISC */
/*
 * panel.h - many tokens: 8 rows unpacked into a panel in L1, then tiles of 8
 * rows by up to four tokens with SDOT or SMMLA.
 *
 * What is in a vector of four sums is the one difference between the two.
 * SDOT: four rows of one token, four weights of each row times the same four
 * activations.  SMMLA: two rows by two tokens, eight weights of each.  In both
 * a row has LANE_TOKS neighbouring lanes, and everything that belongs to rows
 * is stored in the panel that often.
 *
 * K is cut into slices, which keeps the panel small; sums go on in y from one
 * slice to the next, and the order of float steps stays that of the scalar
 * definition.  gemm_dotprod.c and gemm_i8mm.c take PANEL_KERNELS(their set).
 */
#include "engine/kernel/arm/formats.h"

#define SLICE 8			/* groups of 256 in a panel: K = 2048 */
#define ROWS 8
#define TOKS 4			/* of a tile */

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define LANE_TOKS 2
#else
#define LANE_TOKS 1
#endif
#define LANE_ROWS (4 / LANE_TOKS)
#define RV (ROWS / LANE_ROWS)	/* vectors of rows */
#define TV (TOKS / LANE_TOKS)	/* and of tokens */
#define LANES (ROWS * LANE_TOKS)

struct panel {
	int8_t	w[SLICE][16][ROWS * 16];	/* group, 16 weights, rows */
	int16_t	scale[SLICE][16][LANES];	/* of each sub_of() weights */
	int16_t	min[SLICE][8][LANES];
	float	d[SLICE][8][LANES];		/* of the group, or each 32 */
	float	dmin[SLICE][LANES];
} __attribute__((aligned(64)));

/* A row's value to all of its lanes. */
AI void
put_int(int16_t *lanes, size_t row, int16_t x)
{
	size_t i;

	for (i = 0; i < LANE_TOKS; i++)
		lanes[row * LANE_TOKS + i] = x;
}

AI void
put_float(float *lanes, size_t row, float x)
{
	size_t i;

	for (i = 0; i < LANE_TOKS; i++)
		lanes[row * LANE_TOKS + i] = x;
}

/*
 * A group of 8 rows: the bytes of LANE_ROWS rows interleaved by 4 or 8, as
 * SDOT and SMMLA take them.
 */
AI void
interleave(struct panel *p, size_t g, int8_t (*w)[QWEN_GROUP])
{
	size_t k, r;

	for (k = 0; k < 16; k++) {
		for (r = 0; r < ROWS; r += LANE_ROWS) {
			int8_t *to = p->w[g][k] + 16 * r;
			int8x16_t a = vld1q_s8(w[r] + 16 * k);
			int8x16_t b = vld1q_s8(w[r + 1] + 16 * k);
#if LANE_TOKS == 2
			int64x2_t c = vreinterpretq_s64_s8(a);
			int64x2_t d = vreinterpretq_s64_s8(b);

			vst1q_s8(to, vreinterpretq_s8_s64(vzip1q_s64(c, d)));
			vst1q_s8(to + 16,
			    vreinterpretq_s8_s64(vzip2q_s64(c, d)));
#else
			int32x4x4_t v = { {
			    vreinterpretq_s32_s8(a), vreinterpretq_s32_s8(b),
			    vreinterpretq_s32_s8(vld1q_s8(w[r + 2] + 16 * k)),
			    vreinterpretq_s32_s8(vld1q_s8(w[r + 3] + 16 * k)),
			} };

			vst4q_s32((int32_t *)(void *)to, v);
#endif
		}
	}
}

/* The tokens of a tile in one group. */
struct side {
	const int8_t	*q[TOKS];
	const int16_t	*a[TV], *asum[TV];	/* LANE_TOKS in turn */
	float32x4_t	 d[TV];
#if LANE_TOKS == 2
	int16_t		 turn[2][TV][16];
#endif
};

#if LANE_TOKS == 2
AI const int16_t *
zip(int16_t *to, const int16_t *x, const int16_t *y)
{
	int16x8_t a = vld1q_s16(x), b = vld1q_s16(y);

	vst1q_s16(to, vzip1q_s16(a, b));
	vst1q_s16(to + 8, vzip2q_s16(a, b));
	return to;
}
#endif

AI void
take_side(struct side *s, const struct qwen_q8 *const *x, int tv)
{
	int t;

	for (t = 0; t < tv * LANE_TOKS; t++)
		s->q[t] = x[t]->q;
	for (t = 0; t < tv; t++) {
#if LANE_TOKS == 2
		const struct qwen_q8 *u = x[2 * t], *v = x[2 * t + 1];
		float32x2_t d = vset_lane_f32(v->d, vdup_n_f32(u->d), 1);

		s->a[t] = zip(s->turn[0][t], u->a, v->a);
		s->asum[t] = zip(s->turn[1][t], u->asum, v->asum);
		s->d[t] = vcombine_f32(d, d);
#else
		s->a[t] = x[t]->a;
		s->asum[t] = x[t]->asum;
		s->d[t] = vdupq_n_f32(x[t]->d);
#endif
	}
}

/* Value j of the tokens in the lanes. */
AI int16x4_t
lanes_of(const int16_t *v, int j)
{
#if LANE_TOKS == 2
	int32_t two;

	memcpy(&two, v + 2 * j, sizeof two);
	return vreinterpret_s16_s32(vdup_n_s32(two));
#else
	return vdup_n_s16(v[j]);
#endif
}

/* Add the products of 16 weights of 8 rows, k the first activation. */
AI void
mac16(int32x4_t (*v)[TV], const int8_t *w, const struct side *s, int k, int tv)
{
	int r, t;

#if LANE_TOKS == 2
	int8x16_t x[TV][2];
	int h;

	for (t = 0; t < tv; t++) {
		int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(s->q[2 * t] + k));
		int64x2_t b = vreinterpretq_s64_s8(
		    vld1q_s8(s->q[2 * t + 1] + k));

		x[t][0] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
		x[t][1] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
	}
#pragma GCC unroll 4
	for (r = 0; r < RV; r++) {
#pragma GCC unroll 2
		for (h = 0; h < 2; h++) {
			int8x16_t u = vld1q_s8(w + 32 * r + 16 * h);

#pragma GCC unroll 2
			for (t = 0; t < tv; t++)
				v[r][t] = vmmlaq_s32(v[r][t], u, x[t][h]);
		}
	}
#else
	int8x16_t x[TV];

	for (t = 0; t < tv; t++)
		x[t] = vld1q_s8(s->q[t] + k);
#define QUAD(i) do {							\
	int8x16_t u = vld1q_s8(w + 64 * r + 16 * (i));			\
									\
	_Pragma("GCC unroll 4")						\
	for (t = 0; t < tv; t++)					\
		v[r][t] = vdotq_laneq_s32(v[r][t], u, x[t], i);		\
} while (0)
#pragma GCC unroll 2
	for (r = 0; r < RV; r++) {
		QUAD(0); QUAD(1); QUAD(2); QUAD(3);
	}
#undef QUAD
#endif
}

/* ---- folds: group g added to the sums of 8 rows and tv vectors of tokens */

/* The minimums of vector r of the rows with vector t of the tokens. */
AI int32x4_t
min_sum(const struct panel *p, size_t g, const struct side *s, int r, int t)
{
	int32x4_t sum = vdupq_n_s32(0);
	int j;

#pragma GCC unroll 8
	for (j = 0; j < 8; j++)
		sum = vmlal_s16(sum, vld1_s16(p->min[g][j] + 4 * r),
		    lanes_of(s->asum[t], j));
	return sum;
}

AI void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct side *s, int tv, float32x4_t (*acc)[TV])
{
	const int sub = sub_of(type);
	int32x4_t sum[RV][TV], v[RV][TV];
	int j, k, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			sum[r][t] = vdupq_n_s32(0);
	}
	for (j = 0; j < 256 / sub; j++) {
		for (r = 0; r < RV; r++) {
			for (t = 0; t < tv; t++)
				v[r][t] = vdupq_n_s32(0);
		}
#pragma GCC unroll 2
		for (k = 0; k < sub; k += 16)
			mac16(v, p->w[g][(sub * j + k) / 16], s, sub * j + k,
			    tv);
#pragma GCC unroll 4
		for (t = 0; t < tv; t++) {
			int16x4_t a = lanes_of(s->a[t], sub * j / 32);

#pragma GCC unroll 4
			for (r = 0; r < RV; r++)
				sum[r][t] = vmlaq_s32(sum[r][t], v[r][t],
				    vmull_s16(vld1_s16(p->scale[g][j] +
				    4 * r), a));
		}
	}
	for (r = 0; r < RV; r++) {
		float32x4_t d = vld1q_f32(p->d[g][0] + 4 * r);
		float32x4_t dmin = vld1q_f32(p->dmin[g] + 4 * r);

		for (t = 0; t < tv; t++) {
			acc[r][t] = vfmaq_f32(acc[r][t],
			    vmulq_f32(d, s->d[t]), vcvtq_f32_s32(sum[r][t]));
			if (has_min(type))
				acc[r][t] = vfmsq_f32(acc[r][t],
				    vmulq_f32(dmin, s->d[t]),
				    vcvtq_f32_s32(min_sum(p, g, s, r, t)));
		}
	}
}

AI void
fold_32(const struct panel *p, size_t g, const struct side *s, int tv,
    float32x4_t (*acc)[TV])
{
	float32x4_t part[RV][TV];
	int32x4_t v[RV][TV];
	int j, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			part[r][t] = vdupq_n_f32(0.0f);
	}
	for (j = 0; j < 8; j++) {
		for (r = 0; r < RV; r++) {
			for (t = 0; t < tv; t++)
				v[r][t] = vdupq_n_s32(0);
		}
		mac16(v, p->w[g][2 * j], s, 32 * j, tv);
		mac16(v, p->w[g][2 * j + 1], s, 32 * j + 16, tv);
#pragma GCC unroll 4
		for (t = 0; t < tv; t++) {
			int32x4_t a = vmovl_s16(lanes_of(s->a[t], j));

#pragma GCC unroll 4
			for (r = 0; r < RV; r++)
				part[r][t] = vfmaq_f32(part[r][t],
				    vld1q_f32(p->d[g][j] + 4 * r),
				    vcvtq_f32_s32(vmulq_s32(v[r][t], a)));
		}
	}
	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			acc[r][t] = vfmaq_f32(acc[r][t], s->d[t],
			    part[r][t]);
	}
}

/* ---- tiles */

/* The sums of row i and token t, among a tile's. */
AI float *
place(float (*y)[TV][4], size_t i, size_t t)
{
	return &y[i / LANE_ROWS][t / LANE_TOKS][i % LANE_ROWS * LANE_TOKS +
	    t % LANE_TOKS];
}

/* n tokens from t over ng groups from g0 of rows r .. r+7. */
AI void
panel_tile(uint32_t type, const struct qwen_matmul *m, const struct panel *p,
    size_t r, size_t g0, size_t ng, size_t t, size_t n, int tv)
{
	const struct qwen_q8 *x[TOKS];
	float y[RV][TV][4] = { 0 };
	float32x4_t acc[RV][TV];
	struct side s;
	size_t g, i, j;
	int a, b;

	for (j = 0; j < (size_t)tv * LANE_TOKS; j++) {
		size_t at = t + (j < n ? j : n - 1);	/* repeat the last */

		x[j] = (const struct qwen_q8 *)m->x[at] + g0;
		for (i = 0; g0 > 0 && i < ROWS; i++)
			*place(y, i, j) = m->y[at][r + i];
	}
	for (a = 0; a < RV; a++) {
		for (b = 0; b < tv; b++)
			acc[a][b] = vld1q_f32(y[a][b]);
	}
	for (g = 0; g < ng; g++) {
		take_side(&s, x, tv);
		if (type == QT_Q8_0)
			fold_32(p, g, &s, tv, acc);
		else
			fold_super(type, p, g, &s, tv, acc);
		for (j = 0; j < (size_t)tv * LANE_TOKS; j++)
			x[j]++;
	}
	for (a = 0; a < RV; a++) {
		for (b = 0; b < tv; b++)
			vst1q_f32(y[a][b], acc[a][b]);
	}
	for (j = 0; j < n; j++) {
		for (i = 0; i < ROWS; i++)
			m->y[t + j][r + i] = *place(y, i, j);
	}
}

AI void
panel_tokens(uint32_t type, const struct qwen_matmul *m,
    const struct panel *p, size_t r, size_t g0, size_t ng)
{
	size_t t, n;

	for (t = 0; t < m->n_tok; t += n) {
		n = m->n_tok - t < TOKS ? m->n_tok - t : TOKS;
		switch ((n + LANE_TOKS - 1) / LANE_TOKS) {
#if LANE_TOKS == 1
		case 4:
			panel_tile(type, m, p, r, g0, ng, t, n, 4);
			break;
		case 3:
			panel_tile(type, m, p, r, g0, ng, t, n, 3);
			break;
#endif
		case 2:
			panel_tile(type, m, p, r, g0, ng, t, n, 2);
			break;
		default:
			panel_tile(type, m, p, r, g0, ng, t, n, 1);
			break;
		}
	}
}

/* Row i of a panel's group g, at p: its weights, and the rest to the panel. */
AI void
unpack(uint32_t type, const unsigned char *p, struct panel *to, size_t g,
    size_t i, int8x16_t *w)
{
	int16_t s[16], n[8];
	int16x8_t scale[2], min;
	size_t j, n_scale = 256 / (size_t)sub_of(type);

	weights(type, p, w);
	if (type == QT_Q8_0) {
		for (j = 0; j < 8; j++)
			put_float(to->d[g][j], i, load_f16(p + 34 * j));
		return;
	}
	scales(type, p, scale, &min);
	for (j = 0; j < n_scale / 8; j++)
		vst1q_s16(s + 8 * j, scale[j]);
	vst1q_s16(n, min);
	for (j = 0; j < n_scale; j++)
		put_int(to->scale[g][j], i, s[j]);
	for (j = 0; j < 8; j++)
		put_int(to->min[g][j], i, n[j]);
	put_float(to->d[g][0], i, load_f16(p + d_at(type)));
	put_float(to->dmin[g], i, load_f16(p + dmin_at(type)));
}

AI void
unpack8(uint32_t type, const struct qwen_matmul *m, struct panel *p, size_t r,
    size_t g0, size_t ng)
{
	int8_t w[ROWS][QWEN_GROUP];
	int8x16_t v[16];
	size_t g, i, k;

	for (g = 0; g < ng; g++) {
		for (i = 0; i < ROWS; i++) {
			unpack(type, m->w + (r + i) * m->row_bytes +
			    (g0 + g) * bytes_of(type), p, g, i, v);
			for (k = 0; k < 16; k++)
				vst1q_s8(w[i] + 16 * k, v[k]);
		}
		interleave(p, g, w);
	}
}

/* Rows r0 .. r1-1 must be whole 8s (they are 32s), n_in whole groups. */
AI void
product(uint32_t type, const struct qwen_matmul *m)
{
	struct panel p;
	size_t r, g, n, groups = m->n_in / QWEN_GROUP;

	for (r = m->r0; r < m->r1; r += ROWS) {
		for (g = 0; g < groups; g += n) {
			n = groups - g < SLICE ? groups - g : SLICE;
			unpack8(type, m, &p, r, g, n);
			panel_tokens(type, m, &p, r, g, n);
		}
	}
}

QWEN_FORMATS(QWEN_PRODUCT)

#define PANEL_KERNELS(...)						\
	QWEN_FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = 4,	\
	    __VA_ARGS__)						\
	{ 0 }
