/* SPDX-License-Identifier: ISC */
/*
 * panel.h - products of many tokens: 8 rows are unpacked into a panel in L1,
 * then multiplied in tiles of 8 rows by up to four tokens with SDOT or SMMLA.
 *
 * The two instructions differ only in the content of a vector of four sums.
 * SDOT: four rows of one token, four weights of each row times the same four
 * activations.  SMMLA: two rows by two tokens, eight weights of each.  In both,
 * a row has LANE_TOKS adjacent lanes, and all data of rows is stored that often
 * in the panel.
 *
 * K is divided into slices, which keeps the panel small.  Sums continue in y
 * from slice to slice, and the order of float steps is that of the scalar
 * definition. gemm_dotprod.c and gemm_i8mm.c use PANEL_KERNELS(their set).
 */
#include "engine/cpu/kernel/arm/unpack.h"

#define SLICE 8			/* groups of 256 in a panel: K = 2048 */
#define ROWS 8
#define TOKS 4			/* tokens of a tile */

#if defined(__ARM_FEATURE_MATMUL_INT8)
#define LANE_TOKS 2
#else
#define LANE_TOKS 1
#endif
#define LANE_ROWS (4 / LANE_TOKS)
#define RV (ROWS / LANE_ROWS)	/* vectors per tile of rows, */
#define TV (TOKS / LANE_TOKS)	/* and of tokens */
#define LANES (ROWS * LANE_TOKS)

struct panel {
	int8_t	w[SLICE][16][ROWS * 16];	/* group, 16 weights, rows */
	int16_t	scale[SLICE][16][LANES];	/* per 16 or 32 weights */
	int16_t	min[SLICE][16][LANES];
	float	d[SLICE][16][LANES];		/* of the group, or of each
						   span */
	float	dmin[SLICE][LANES];
	float	m[SLICE][8][LANES];		/* of each 32 weights */
} __attribute__((aligned(64)));

/*
 * Stores values of rows to all their lanes: of eight rows, and of four from row
 * r on.
 */
AI void
put_ints(int16_t *lanes, int16x8_t v)
{
#if LANE_TOKS == 2
	vst1q_s16(lanes, vzip1q_s16(v, v));
	vst1q_s16(lanes + 8, vzip2q_s16(v, v));
#else
	vst1q_s16(lanes, v);
#endif
}

AI void
put_floats(float *lanes, size_t r, float32x4_t v)
{
#if LANE_TOKS == 2
	vst1q_f32(lanes + 2 * r, vzip1q_f32(v, v));
	vst1q_f32(lanes + 2 * r + 4, vzip2q_f32(v, v));
#else
	vst1q_f32(lanes + r, v);
#endif
}

/*
 * Packs a group of 8 rows: interleaves the bytes of LANE_ROWS rows by 4 or 8,
 * as SDOT and SMMLA need them.
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
	const int16_t	*a[TV];		/* LANE_TOKS tokens interleaved */
	const int16_t	*asum[TV];	/* of 16s or 32s */
	float32x4_t	 d[TV];
#if LANE_TOKS == 2
	int16_t		 turn[TV][16 + 32];
#endif
};

#if LANE_TOKS == 2
AI void
zip(int16_t *to, const int16_t *x, const int16_t *y)
{
	int16x8_t a = vld1q_s16(x), b = vld1q_s16(y);

	vst1q_s16(to, vzip1q_s16(a, b));
	vst1q_s16(to + 8, vzip2q_s16(a, b));
}
#endif

/* Returns the sums of the columns that share a minimum. */
AI const int16_t *
sums_of(uint32_t type, const struct qwen_q8 *x)
{
	return qwen_traits[type].span == 16 ? x->asum16 : x->asum;
}

AI void
take_side(uint32_t type, struct side *s, const struct qwen_q8 *const *x,
    int tv)
{
	int t;

	for (t = 0; t < tv * LANE_TOKS; t++)
		s->q[t] = x[t]->q;
	for (t = 0; t < tv; t++) {
#if LANE_TOKS == 2
		const struct qwen_q8 *u = x[2 * t], *v = x[2 * t + 1];
		float32x2_t d = vset_lane_f32(v->d, vdup_n_f32(u->d), 1);

		s->a[t] = s->turn[t];
		s->asum[t] = s->turn[t] + 16;
		zip(s->turn[t], u->a, v->a);
		zip(s->turn[t] + 16, sums_of(type, u), sums_of(type, v));
		if (qwen_traits[type].span == 16)
			zip(s->turn[t] + 32, u->asum16 + 8, v->asum16 + 8);
		s->d[t] = vcombine_f32(d, d);
#else
		s->a[t] = x[t]->a;
		s->asum[t] = sums_of(type, x[t]);
		s->d[t] = vdupq_n_f32(x[t]->d);
#endif
	}
}

/* Loads value j of the tokens into the lanes. */
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

/* Adds the products of 16 weights of 8 rows; k is the first activation. */
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
	UNROLL
	for (r = 0; r < RV; r++) {
	UNROLL
		for (h = 0; h < 2; h++) {
			int8x16_t u = vld1q_s8(w + 32 * r + 16 * h);

	UNROLL
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
	UNROLL								\
	for (t = 0; t < tv; t++)					\
		v[r][t] = vdotq_laneq_s32(v[r][t], u, x[t], i);		\
} while (0)
	UNROLL
	for (r = 0; r < RV; r++) {
		QUAD(0); QUAD(1); QUAD(2); QUAD(3);
	}
#undef QUAD
#endif
}

/* ---- folding: adds group g to the sums of 8 rows and tv vectors of tokens */

/*
 * Returns the products of minimums: vector r of the rows, vector t of the
 * tokens.
 */
AI int32x4_t
min_sum(uint32_t type, const struct panel *p, size_t g, const struct side *s,
    int r, int t)
{
	const int n = QWEN_GROUP / (int)qwen_traits[type].span;
	int32x4_t sum = vdupq_n_s32(0);
	int j;

	UNROLL
	for (j = 0; j < n; j++)
		sum = vmlal_s16(sum, vld1_s16(p->min[g][j] + 4 * r),
		    lanes_of(s->asum[t], j));
	return sum;
}

AI void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct side *s, int tv, float32x4_t (*acc)[TV])
{
	const int sub = (int)qwen_traits[type].span;
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
	UNROLL
		for (k = 0; k < sub; k += 16)
			mac16(v, p->w[g][(sub * j + k) / 16], s, sub * j + k,
			    tv);
	UNROLL
		for (t = 0; t < tv; t++) {
			int16x4_t a = lanes_of(s->a[t], sub * j / 32);

	UNROLL
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
			if (qwen_traits[type].has_min)
				acc[r][t] = vfmsq_f32(acc[r][t],
				    vmulq_f32(dmin, s->d[t]),
				    vcvtq_f32_s32(min_sum(type, p, g, s,
				    r, t)));
		}
	}
}

/* Returns the float steps of minimums, one per 32 columns. */
AI float32x4_t
min_part(const struct panel *p, size_t g, const struct side *s, int r, int t)
{
	float32x4_t part = vdupq_n_f32(0.0f);
	int j;

	UNROLL
	for (j = 0; j < 8; j++)
		part = vfmaq_f32(part, vld1q_f32(p->m[g][j] + 4 * r),
		    vcvtq_f32_s32(vmovl_s16(lanes_of(s->asum[t], j))));
	return part;
}

/*
 * Computes sum: n columns from column 16 h of 32-block j on, times the
 * activations' scale, plus earlier blocks with the same d.
 */
AI void
block_sums(uint32_t type, const struct panel *p, size_t g,
    const struct side *s, int j, int h, int n, int tv, int32x4_t (*sum)[TV])
{
	const int blocks = (int)qwen_traits[type].span / n;
	int32x4_t v[RV][TV];
	int i, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++)
			v[r][t] = vdupq_n_s32(0);
	}
	UNROLL
	for (i = h; i < h + n / 16; i++)
		mac16(v, p->w[g][2 * j + i], s, 32 * j + 16 * i, tv);
	UNROLL
	for (t = 0; t < tv; t++) {
		int32x4_t a = vmovl_s16(lanes_of(s->a[t], j));

		UNROLL
		for (r = 0; r < RV; r++)
			sum[r][t] = blocks == 1 || j % blocks == 0 ?
			    vmulq_s32(v[r][t], a) :
			    vmlaq_s32(sum[r][t], v[r][t], a);
	}
}

AI void
fold_block(uint32_t type, const struct panel *p, size_t g,
    const struct side *s, int tv, float32x4_t (*acc)[TV])
{
	const int span = (int)qwen_traits[type].span;
	const int n = span < 32 ? span : 32, blocks = span / n;
	float32x4_t part[RV][TV];
	int32x4_t sum[RV][TV];
	int j, h, r, t;

	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++) {
			part[r][t] = vdupq_n_f32(0.0f);
			sum[r][t] = vdupq_n_s32(0);
		}
	}
	for (j = 0; j < 8; j++) {
		UNROLL
		for (h = 0; h < 2; h += n / 16) {
			const float *d = p->d[g][span < 32 ? 2 * j + h :
			    j / blocks];

			block_sums(type, p, g, s, j, h, n, tv, sum);
			if (blocks > 1 && j % blocks != blocks - 1)
				continue;
			UNROLL
			for (t = 0; t < tv; t++) {
				UNROLL
				for (r = 0; r < RV; r++)
					part[r][t] = vfmaq_f32(part[r][t],
					    vld1q_f32(d + 4 * r),
					    vcvtq_f32_s32(sum[r][t]));
			}
		}
	}
	for (r = 0; r < RV; r++) {
		for (t = 0; t < tv; t++) {
			acc[r][t] = vfmaq_f32(acc[r][t], s->d[t], part[r][t]);
			if (qwen_traits[type].has_min)
				acc[r][t] = vfmaq_f32(acc[r][t], s->d[t],
				    min_part(p, g, s, r, t));
		}
	}
}

/* ---- tiles */

/* Returns the sum of row i and token t in a tile's sums. */
AI float *
place(float (*y)[TV][4], size_t i, size_t t)
{
	return &y[i / LANE_ROWS][t / LANE_TOKS][i % LANE_ROWS * LANE_TOKS +
	    t % LANE_TOKS];
}

/*
 * Multiplies n tokens from t on with rows r .. r+7 over ng groups from g0 on.
 */
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
		size_t at = t + (j < n ? j : n - 1);	/* repeat the last
							   token */

		x[j] = (const struct qwen_q8 *)m->x[at] + g0;
		for (i = 0; g0 > 0 && i < ROWS; i++)
			*place(y, i, j) = m->y[at][r + i];
	}
	for (a = 0; a < RV; a++) {
		for (b = 0; b < tv; b++)
			acc[a][b] = vld1q_f32(y[a][b]);
	}
	for (g = 0; g < ng; g++) {
		take_side(type, &s, x, tv);
		if (qwen_traits[type].by_block)
			fold_block(type, p, g, &s, tv, acc);
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

/* Stores n scales, or minimums, of group g of the rows. */
AI void
put_scales(int16_t (*to)[LANES], int16_t (*rows)[16], int n)
{
	int16x8_t v[8];
	int j, k;

	for (k = 0; k < n; k += 8) {
		turn8(rows, k, v);
		UNROLL
		for (j = 0; j < 8; j++)
			put_ints(to[k + j], v[j]);
	}
}

/* Unpacks group g of eight rows, whose bytes are at row. */
AI void
unpack8(uint32_t type, const unsigned char *const *row, struct panel *p,
    size_t g)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const int n = QWEN_GROUP / (int)f->span;
	struct rows u;
	size_t k, r;

	decode_rows(type, row, &u);
	interleave(p, g, u.w);
	if (!f->by_block)
		put_scales(p->scale[g], u.scale, n);
	if (!f->by_block && f->has_min)
		put_scales(p->min[g], u.min, n);
	for (r = 0; r < ROWS; r += 4) {
		for (k = 0; k < (f->by_block ? (size_t)n : 1); k++) {
			put_floats(p->d[g][k], r, load_d4(type, row + r, k));
			if (f->has_min)
				put_floats(f->by_block ? p->m[g][k] :
				    p->dmin[g], r, load_min4(type, row + r, k));
		}
	}
}

/* Unpacks ng groups from g0 on of the rows from r on. */
AI void
unpack_panel(uint32_t type, const struct qwen_matmul *m, struct panel *p,
    size_t r, size_t g0, size_t ng)
{
	const unsigned char *row[ROWS];
	size_t g, i;

	for (g = 0; g < ng; g++) {
		for (i = 0; i < ROWS; i++)
			row[i] = m->w + (r + i) * m->row_bytes +
			    (g0 + g) * bytes_of(type);
		unpack8(type, row, p, g);
	}
}

/*
 * Rows r0 .. r1-1 must be a multiple of 8 (they are of 32), n_in whole groups.
 */
AI void
product(uint32_t type, const struct qwen_matmul *m)
{
	struct panel p;
	size_t r, g, n, groups = m->n_in / QWEN_GROUP;

	for (r = m->r0; r < m->r1; r += ROWS) {
		for (g = 0; g < groups; g += n) {
			n = groups - g < SLICE ? groups - g : SLICE;
			unpack_panel(type, m, &p, r, g, n);
			panel_tokens(type, m, &p, r, g, n);
		}
	}
}

QWEN_ALL_FORMATS(QWEN_PRODUCT)

#define PANEL_KERNELS(...)						\
	QWEN_ALL_FORMATS(QWEN_ENTRY, .op = QWEN_OP_GEMM, .min_tok = 4,	\
	    __VA_ARGS__)						\
	{ 0 }
