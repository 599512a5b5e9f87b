/* SPDX-License-Identifier: ISC */
/*
 * kernel.h - the operations that have variants, and the table of variants.
 *
 * A file implements an operation for an instruction set.  It exports its
 * variants, one per weight format if that matters, as an array
 * qwen_<file>_kernels[] that ends with {0}; the Makefile collects the files.
 * All variants of an operation give the same bits, defined in qwen-numerics(7).
 * Variants are chosen once, for the numerics version and the allowed
 * instruction sets: the one with the highest rank whose needs are met.
 */
#ifndef QWEN_KERNEL_H
#define QWEN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/half.h"
#include "engine/quant/kv.h"
#include "engine/quant/operand.h"

/*
 * 256 activations in 8 bits: x[i] ~ d * a[i/32] * q[i].  A row of n values is
 * (n + 255) / 256 of these; missing values in the last are zero.
 */
struct qwen_q8 {
	int8_t	q[QWEN_GROUP];	/* -127 .. 127 */
	int16_t	asum16[16];	/* a[i/2] * sum of 16 q */
	int16_t	asum[8];	/* a[i] * sum of 32 q */
	int16_t	a[8];		/* 1 .. 7 */
	int32_t	off6[16];	/* -32 * sum of 16 q */
	int32_t	off8[8];	/* -128 * sum of 32 q */
	float	d;		/* NaN if an activation is NaN or infinite */
} __attribute__((aligned(64)));

#define QWEN_Q8_GROUPS(n) (((n) + QWEN_GROUP - 1) / QWEN_GROUP)

/*
 * In bf16 an activation below QWEN_BF16_LEAST counts as zero, and so does a
 * BF16 weight below QWEN_BF16_WEIGHT_LEAST.  So activations are multiples of
 * 2^-67, weights of 2^-59, and sums of their products of 2^-126.  None of them
 * is subnormal, and so it does not matter whether an instruction flushes
 * subnormal numbers to zero.
 */
#define QWEN_BF16_LEAST 0x1p-60f
#define QWEN_BF16_WEIGHT_LEAST 0x1p-52f

/* Returns a weight of F16 or BF16, rounded to bf16 as in products. */
static inline uint16_t
qwen_weight_bf16(const struct qwen_quant *q, float w)
{
	if (q->type == QT_BF16 && w < QWEN_BF16_WEIGHT_LEAST &&
	    w > -QWEN_BF16_WEIGHT_LEAST)
		return 0;
	return qwen_f32_bf16(w);
}

struct qwen_packing;

/*
 * A product: y[t][r] = sum over i of w[r][i] * x[t][i], for r0 <= r < r1, t <
 * n_tok.
 */
struct qwen_matmul {
	const unsigned char	*w;	/* row 0 */
	size_t			 row_bytes;
	size_t			 n_in;
	const struct qwen_quant	*quant;	/* format of w */
	const void *const	*x;	/* per token: float[n_in]; struct
					   qwen_q8[]; or uint16_t[n_in], bf16:
					   see qwen_operand_of() */
	float *const		*y;	/* per token; indexed by r */
	size_t			 n_tok;
	int			 plain;	/* in all struct qwen_q8, every a is
					   1 */
	size_t			 r0, r1;
	const unsigned char	*next;	/* rows that will be multiplied next, as
					   a cache hint; or NULL */
	const struct qwen_packing	*packing;	/* layout of packed; or
							   NULL */
	const void		*packed;	/* x packed for a variant */
};

/*
 * Some variants for many tokens need the tokens transposed, or widened, in
 * tiles of 16.  A packed tile serves all rows of all matrices. pack writes n
 * tokens of n_groups groups of 256 as n_groups * bytes to an address that is a
 * multiple of 64.  Missing tokens of a tile are zero, or unused.  Variants
 * whose packing has the same kind share the packed tokens.
 */
#define QWEN_PACK_TOKENS 16
enum qwen_pack_kind {
	QWEN_PACK_PLANES, QWEN_PACK_BLOCKS, QWEN_PACK_PAIRS, QWEN_PACK_QUADS,
	QWEN_PACK_HALVES, QWEN_PACK_KINDS
};
struct qwen_packing {
	enum qwen_pack_kind	kind;
	size_t			bytes;	/* of a group of a tile */
	void	(*pack)(void *to, const void *const *x, size_t n,
		    size_t n_groups);
};

/*
 * The gated delta rule over n_tok tokens, one value head, columns c0 .. c1-1
 * (a multiple of 16 wide).  For each token
 *	S1 = g S;  u = b (v - S1' k);  S = S1 + k u';  o = S' q.
 * Strides are in floats between tokens.
 *
 * S may lack tokens: they are in before, which has its own rows, and earlier
 * ones in before->before; no deeper.  Their s is ignored, and their o is
 * overwritten.  The n_ahead rows after the n_tok do not change S: their o is
 * computed as if they followed.
 */
struct qwen_delta {
	float		*s;		/* [dk][dv] */
	size_t		 dk, dv;
	size_t		 c0, c1;
	size_t		 n_tok, n_ahead;
	const struct qwen_delta	*before;	/* or NULL */
	const float	*q, *k;		/* per token: [dk] */
	size_t		 qk_stride;
	const float	*v;		/* per token: [dv] */
	size_t		 v_stride;
	const float	*g, *b;		/* one number per token */
	size_t		 gb_stride;
	float		*o;		/* per token: [dv] */
	size_t		 o_stride;
	const float	*next;		/* the columns that come next, [dk] rows
					   dv apart, as a cache hint; or NULL */
};

/*
 * A query for integer keys, stored in the place of d floats: q[i] is about
 * scale * the int16_t i; the scale is the float at index d / 2.
 */
static inline float
qwen_kv_query_scale(const float *q, size_t d)
{
	return q[d / 2];
}

/* Keys are processed in chunks at fixed absolute positions. */
#define QWEN_ATTN_CHUNK	256
#define QWEN_ATTN_MAX_Q	64

/* Returns the floats of scratch memory for a head size. */
#define QWEN_ATTN_WORK(d) (QWEN_ATTN_MAX_Q * QWEN_ATTN_CHUNK + \
	32 * ((d) > QWEN_ATTN_CHUNK ? (d) : QWEN_ATTN_CHUNK))

/*
 * Softmax attention of some queries over the keys of one chunk, for one kv
 * head: m = max, l = sum of exp(score - m), o = sum of exp(score - m) v.  If
 * merge is set, the results are merged into m, l and o of the chunks before.  A
 * query sees the keys below its limit; if the chunk has none of them, its m, l
 * and o are unchanged.  Several queries share the reading of keys and values;
 * with eight, memory is the limit.
 */
struct qwen_attn {
	size_t			 d;	/* head size, a multiple of 16; of 32 if
					   k or v is not f16 */
	enum qwen_kv		 k, v;
	size_t			 n_q;	/* 1 .. QWEN_ATTN_MAX_Q */
	const float		*q[QWEN_ATTN_MAX_Q];	/* scaled and rotated;
							   if k is not f16, as
							   ->query makes them */
	size_t			 limit[QWEN_ATTN_MAX_Q];
	size_t			 chunk;	/* keys from position chunk * 256 on */
	int			 merge;
	uint16_t *const		*block;	/* KV blocks of the layer, from 0 */
	uint16_t *const		*next;	/* blocks of the chunk that comes next,
					   as a cache hint; or NULL */
	size_t			 k_off;	/* offset of the head's K in a block, in
					   uint16_t, */
	size_t			 v_off;	/* and of its V */
	float			*m, *l;	/* [n_q] */
	float			*o[QWEN_ATTN_MAX_Q];	/* [d] */
	float			*work;	/* QWEN_ATTN_WORK(d), aligned to 64 */
};

/*
 * Adds the product with a matrix B of few columns to rows r .. r + n_rows - 1:
 * y[t][i] = fma(low[t][k], B[r + i][k], y[t][i]) for k ascending.  B is stored
 * transposed (quant/operand.h).
 */
struct qwen_low {
	const float	*b;
	size_t		 rank;		/* columns of B */
	size_t		 r, n_rows;
	const float	*low;		/* per token: [rank] */
	size_t		 low_stride;
	float *const	*y;
	size_t		 y_at;		/* index of row r in y[t] */
	size_t		 n_tok;
};

/* Small functions over rows of f32; n need not be a multiple of the lanes. */
struct qwen_vec {
	/* y = x / sqrt(mean(x^2) + eps) * w; returns the sum of squares */
	float	(*rmsnorm)(float *y, const float *x, const float *w, size_t n,
		    float eps);
	/* y = (rmsnorm of y with w) * silu(z) */
	void	(*gated_norm)(float *y, const float *w, const float *z,
		    size_t n, float eps);
	/* y *= scale / sqrt(sum(y^2) + eps) */
	void	(*l2norm)(float *y, size_t n, float eps, float scale);
	/* x to 8 bits */
	void	(*quantize)(struct qwen_q8 *q, const float *x, size_t n);
	/*
	 * x to two 8-bit terms: the first terms, then as many groups with the
	 * remainders
	 */
	void	(*quantize_twice)(struct qwen_q8 *q, const float *x, size_t n);
	/* x to bf16; values below QWEN_BF16_LEAST become 0 */
	void	(*to_bf16)(uint16_t *y, const float *x, size_t n);
	/* y = silu(g) * u */
	void	(*swiglu)(float *y, const float *g, const float *u, size_t n);
	/* y *= sigmoid(g) */
	void	(*gate)(float *y, const float *g, size_t n);
	/* y = fma(w, x, y) */
	void	(*axpy)(float *y, float w, const float *x, size_t n);
	void	(*low)(const struct qwen_low *p);
	/* rotates the pairs (x[i], x[i+half]) by the angles of cos, sin */
	void	(*rope)(float *x, const float *cos, const float *sin,
		    size_t half);
	/*
	 * Causal depthwise convolution and SiLU over n_tok rows of stride
	 * floats, in place, channels c0 .. c1-1 of nc.  Taps w [kc][nc]. hist
	 * [kc-1][nc] has the inputs before the rows, and afterwards the last
	 * inputs.
	 */
	void	(*conv)(float *x, size_t stride, size_t n_tok, const float *w,
		    float *hist, size_t kc, size_t nc, size_t c0, size_t c1);
	/*
	 * Merges a chunk's attention (m1, l1, o1) into (m, l, o); chunks are
	 * merged in the order of positions.
	 */
	void	(*attn_merge)(float *m, float *l, float *o, float m1, float l1,
		    const float *o1, size_t d);
	/* y = o / l */
	void	(*attn_finish)(float *y, const float *o, float l, size_t d);
	/* f32 to f16 */
	void	(*to_f16)(uint16_t *y, const float *x, size_t n);
	/*
	 * For integer keys and values; n is a multiple of 32. hadamard
	 * multiplies x by the orthonormal Hadamard matrix, in pieces of the
	 * largest power of two that divides n. round_kv rounds x to integers
	 * with a scale per 32 numbers; query rounds x to 16 bits, in place.
	 * These two return 0, and set all to zero, if a number is NaN or
	 * infinite.
	 */
	void	(*hadamard)(float *x, size_t n);
	int	(*round_kv)(int8_t *q, uint16_t *scale, const float *x,
		    size_t n, enum qwen_kv kv);
	int	(*query)(float *x, size_t n);
};

/*
 * Passes over a row of n logits, or of related numbers, for choosing a token.
 * Arrays have whole blocks.  Elements after the n-th may be read and changed,
 * unless a comment says otherwise.
 */
#define QWEN_SIFT_BLOCK 256	/* weights are summed in blocks of this size */
#define QWEN_SIFT_SPAN 64	/* numbers that share a maximum */
#define QWEN_SIFT_BINS 1024

struct qwen_sift {
	/*
	 * the highest of n > 0 numbers, not reading further; valid if *finite
	 * is set
	 */
	float	(*highest)(const float *x, size_t n, int *finite);
	/*
	 * the highest minus the lowest number; all are finite; *max is the
	 * highest
	 */
	float	(*range)(const float *x, size_t n, float *max);
	/* the highest number of each span */
	void	(*spans)(float *best, const float *x, size_t n);
	/*
	 * sets a bit per number, 64 in a word: x >= limit; returns how many are
	 * set
	 */
	size_t	(*at_least)(uint64_t *bits, const float *x, size_t n,
		    float limit);
	/*
	 * moves the 32-bit numbers whose bit is set to the front; returns how
	 * many
	 */
	size_t	(*squeeze)(void *x, const uint64_t *bits, size_t n);
	/* w = exp(x - max) for x <= max; 0 if x is 87 or more below max */
	void	(*weigh)(float *w, const float *x, size_t n, float max);
	/*
	 * Returns the sum of weights, and zeroes those after the n-th.  Each
	 * block has eight sums by index mod 8, added as ((0 + 4) + (2 + 6)) +
	 * ((1 + 5) + (3 + 7)); the blocks are added in order.
	 */
	double	(*sum)(double *block, float *w, size_t n);
	/*
	 * returns the sum of w (max - x): four sums by index mod 4, (0 + 1) +
	 * (2 + 3)
	 */
	double	(*mean)(const float *w, const float *x, size_t n, double max);
	/* the sums of max - x and of its square, in the same order */
	void	(*moments)(const float *x, size_t n, double max, double *first,
		    double *second);
	/* x = (x - max) / temp */
	void	(*temper)(float *x, size_t n, float max, float temp);
	/* score = -|max - x - middle|, but at least -1e38 */
	void	(*nearness)(float *score, const float *x, size_t n, double max,
		    double middle);
	/* bin = qwen_sift_bin(max - x, base) */
	void	(*bins)(uint16_t *bin, const float *x, size_t n, float max,
		    uint32_t base);
};

/*
 * Returns the bin of a distance: nearest first, 64 bins per power of two; a bin
 * is 2^17 consecutive floats, beginning at base.
 */
static inline uint32_t
qwen_sift_bin(float distance, uint32_t base)
{
	uint32_t u = qwen_f32_bits(distance) >> 17;

	u = u > base ? u - base : 0;
	return u < QWEN_SIFT_BINS ? u : QWEN_SIFT_BINS - 1;
}

/*
 * Measures the peak speed of an instruction set.  The functions return results
 * only so that the compiler keeps the work.
 */
struct qwen_probe {
	const char	*int8_op;	/* the multiplying instruction */
	/* loads all n bytes; p and n are multiples of 4096 */
	uint64_t	(*read)(const void *p, size_t n);
	/* n steps of 8-bit multiply-adds, int8_macs per step */
	uint64_t	(*int8)(size_t n);
	size_t		 int8_macs;
	uint64_t	(*f32)(size_t n);	/* the same in f32, f32_macs per
						   step */
	size_t		 f32_macs;
};

enum qwen_op {
	QWEN_OP_MATMUL,		/* one variant per format */
	QWEN_OP_GEMM,		/* for at least min_tok tokens, whole groups of
				   n_in, and rows in multiples of 32 */
	QWEN_OP_MATMUL_BF16,	/* these two with weights and activations in */
	QWEN_OP_GEMM_BF16,	/* bf16 */
	QWEN_OP_DELTA,
	QWEN_OP_ATTN,
	QWEN_OP_VEC,
	QWEN_OP_SIFT,
	QWEN_OP_PROBE,		/* not part of a model: see machine.c */
	QWEN_OP_N
};

/* Instruction sets, in ascending order of preference. */
enum qwen_kernel_rank {
	QWEN_BY_SCALAR,
	QWEN_BY_NEON, QWEN_BY_DOTPROD, QWEN_BY_I8MM,
	QWEN_BY_AVX2, QWEN_BY_AVXVNNI, QWEN_BY_AVX512VNNI,
	QWEN_BY_AVX512VBMI, QWEN_BY_AVX512BF16, QWEN_BY_AMX
};

/* The members of struct qwen_kernel that depend on the instruction set. */
#define QWEN_SCALAR .name = "scalar", .rank = QWEN_BY_SCALAR
#define QWEN_NEON .name = "neon", .rank = QWEN_BY_NEON, .need = QWEN_CPU_NEON
#define QWEN_DOTPROD .name = "dotprod", .rank = QWEN_BY_DOTPROD,		\
	.need = QWEN_CPU_DOTPROD
#define QWEN_I8MM .name = "i8mm", .rank = QWEN_BY_I8MM, .need = QWEN_CPU_I8MM
#define QWEN_AVX2 .name = "avx2", .rank = QWEN_BY_AVX2, .need = QWEN_CPU_AVX2
#define QWEN_AVXVNNI .name = "avxvnni", .rank = QWEN_BY_AVXVNNI,		\
	.need = QWEN_CPU_AVX2 | QWEN_CPU_AVXVNNI
#define QWEN_AVX512VNNI .name = "avx512vnni", .rank = QWEN_BY_AVX512VNNI,	\
	.need = QWEN_CPU_AVX512VNNI
#define QWEN_AVX512VBMI .name = "avx512vbmi", .rank = QWEN_BY_AVX512VBMI,	\
	.need = QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI
#define QWEN_AVX512BF16 .name = "avx512bf16", .rank = QWEN_BY_AVX512BF16,	\
	.need = QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512BF16

/*
 * DO(name, type, ...) for each format that has its own variants.  QWEN_PRODUCT
 * instantiates the file's product(type, m), inlined, so that the type is a
 * constant; QWEN_ENTRY is its entry in the table.
 */
#define QWEN_FORMATS(DO, ...)						\
	DO(q4_k, QT_Q4_K, __VA_ARGS__)					\
	DO(q5_k, QT_Q5_K, __VA_ARGS__)					\
	DO(q6_k, QT_Q6_K, __VA_ARGS__)					\
	DO(q8_0, QT_Q8_0, __VA_ARGS__)
#define QWEN_PRODUCT(name, type, ...)					\
static void								\
product_##name(const struct qwen_matmul *m)				\
{									\
	product(type, m);						\
}
#define QWEN_ENTRY(name_, type_, ...)					\
	{ .type = type_, .run.matmul = product_##name_, __VA_ARGS__ },

struct qwen_kernel {
	enum qwen_op	 op;
	uint32_t	 type;		/* of the weights; or QWEN_ANY_TYPE */
	const char	*name;		/* "scalar", "avx2", ...; NULL ends an
					   array */
	enum qwen_kernel_rank rank;
	unsigned	 need;		/* QWEN_CPU_ bits */
	size_t		 min_tok;	/* GEMM: minimum number of tokens */
	const struct qwen_packing *packing;	/* of the tokens; or NULL */
	union {
		void	(*matmul)(const struct qwen_matmul *);
		void	(*delta)(const struct qwen_delta *);
		void	(*attn)(const struct qwen_attn *);
		const struct qwen_vec *vec;
		const struct qwen_sift *sift;
		const struct qwen_probe *probe;
	} run;
};

/*
 * An operation without weights, or a product for formats without their own
 * variant: quantized formats or, in bf16, F16 and BF16.
 */
#define QWEN_ANY_TYPE UINT32_MAX

/*
 * Classes of token counts, which may have different GEMM variants: the least
 * count of each.  A class begins where some variant does, or where tiles of 16
 * tokens become fuller or emptier: a tile takes as long for one token as for 16.
 * No count of a class fills its tiles less than the first does, so tiles that
 * are faster there are faster in the whole class.
 */
static const unsigned qwen_token_classes[] = {
	1, 2, 3, 4, 5, 8, 10, 12, 17, 20, 23, 27, 33, 36, 65, 97
};
#define QWEN_TOKEN_CLASSES						\
	(sizeof qwen_token_classes / sizeof qwen_token_classes[0])

struct qwen_gemms {
	const struct qwen_kernel	*by[QWEN_TOKEN_CLASSES];	/* NULL:
							   no GEMM */
};

static inline size_t
qwen_token_class(size_t n)
{
	size_t c = 0;

	while (c + 1 < QWEN_TOKEN_CLASSES && n >= qwen_token_classes[c + 1])
		c++;
	return c;
}

/* The variants in use. */
struct qwen_kernels {
	unsigned			 numerics;
	const struct qwen_kernel	*matmul[QT_N];
	struct qwen_gemms		 gemm[QT_N];
	/*
	 * for f32 products: rows whose length is no multiple of 32, and
	 * adapters
	 */
	const struct qwen_kernel	*matmul_f32[QT_N];
	size_t				 pack_bytes;	/* of all packings in
							   use */
	const struct qwen_kernel	*delta;
	const struct qwen_kernel	*attn;
	const struct qwen_kernel	*vec;
	const struct qwen_kernel	*probe;
};

/*
 * Returns 1 if the variant can multiply weights of this format. q is NULL for
 * an operation without weights.
 */
int qwen_kernel_fits(const struct qwen_kernel *k, const struct qwen_quant *q);

/*
 * Returns the variant for a set of QWEN_CPU_ bits that serves n_tok tokens; NULL
 * if there is none.
 */
const struct qwen_kernel *qwen_kernel_choose(enum qwen_op op,
    const struct qwen_quant *q, unsigned features, size_t n_tok);

/* Returns the sampler's kernels for a set of QWEN_CPU_ bits. */
const struct qwen_sift *qwen_sift_choose(unsigned features);

/* Chooses all variants for a set of QWEN_CPU_ bits and a numerics version. */
void qwen_kernels_init(struct qwen_kernels *k, unsigned features,
    unsigned numerics);

/*
 * Computes pack_bytes again, after variants were changed, or for used formats
 * only; used NULL: all formats.
 */
void qwen_kernels_packing(struct qwen_kernels *k, const unsigned char *used);

/* Returns the GEMM variant for m, whatever is packed; NULL: use matmul. */
const struct qwen_kernel *qwen_gemm_for(const struct qwen_kernel *matmul,
    const struct qwen_gemms *gemm, const struct qwen_matmul *m);

/*
 * Computes the product with the variant that serves its shape best; returns 1
 * if that was a GEMM. m must have the packed tokens that the GEMM needs.
 */
int qwen_multiply(const struct qwen_kernel *matmul,
    const struct qwen_gemms *gemm, const struct qwen_matmul *m);

/*
 * qwen_packed_bytes returns the bytes of n_tok packed tokens; qwen_pack packs
 * the tokens x of n_in numbers to p.
 */
size_t qwen_packed_bytes(const struct qwen_packing *k, size_t n_tok,
    size_t n_in);
void qwen_pack(const struct qwen_packing *k, void *p, const void *const *x,
    size_t n_tok, size_t n_in);

/* All compiled variants, 0 .. n - 1, for tests and benchmarks. */
size_t qwen_kernel_count(void);
const struct qwen_kernel *qwen_kernel_get(size_t i);

#endif
