/* SPDX-License-Identifier: ISC */
/*
 * kernel.h - the operations that have variants, and the table of variants.
 *
 * A file for an instruction set and an operation exports its variants, one for
 * each weight format where that matters, as an array qwen_<file>_kernels[] that
 * ends with {0}; the Makefile collects the files.  All variants of an operation
 * give the same bits, written down in qwen-numerics(7).  Variants are chosen
 * once, for the numerics version and the instruction sets allowed: of those
 * whose need is met, the one with the highest rank.
 */
#ifndef QWEN_KERNEL_H
#define QWEN_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/cpu.h"
#include "base/half.h"
#include "engine/kernel/kv.h"
#include "engine/quant/quant.h"

#define QWEN_NUMERICS_MAX 4

/*
 * 256 activations in 8 bits: x[i] ~ d * a[i/32] * q[i].  A row of n values is
 * (n + 255) / 256 of these; what is missing in the last is zero.
 */
struct qwen_q8 {
	int8_t	q[QWEN_GROUP];	/* -127 .. 127 */
	int16_t	asum16[16];	/* a[i/2] * sum of 16 q */
	int16_t	asum[8];	/* a[i] * sum of 32 q */
	int16_t	a[8];		/* 1 .. 7 */
	int32_t	off6[16];	/* -32 * sum of 16 q */
	int32_t	off8[8];	/* -128 * sum of 32 q */
	float	d;		/* NaN if an activation was not finite */
} __attribute__((aligned(64)));

#define QWEN_Q8_GROUPS(n) (((n) + QWEN_GROUP - 1) / QWEN_GROUP)

/*
 * What a row of activations is multiplied as; one as two terms of 8 bits is two
 * rows, of which products are added.
 */
enum qwen_operand {
	QWEN_AS_F32, QWEN_AS_Q8, QWEN_AS_BF16, QWEN_AS_TWO_Q8, QWEN_OPERANDS
};

/*
 * That of a format, by the numerics version.  Of the rows of F16 and BF16 that
 * version 3 takes as bf16 only those in whole 32s are, others as f32.
 */
enum qwen_operand qwen_operand_of(const struct qwen_quant *q, size_t n_in,
    unsigned numerics);

/*
 * In bf16 an activation below the least counts as zero, and so does a BF16
 * weight below its own.  So activations are whole multiples of 2^-67, weights of
 * 2^-59, and sums of their products of 2^-126: none is subnormal, and it makes
 * no difference whether an instruction takes subnormal numbers for zero.
 */
#define QWEN_BF16_LEAST 0x1p-60f
#define QWEN_BF16_WEIGHT_LEAST 0x1p-52f

/* A weight, of F16 or BF16, rounded to bf16 as it is multiplied. */
static inline uint16_t
qwen_weight_bf16(const struct qwen_quant *q, float w)
{
	if (q->type == QT_BF16 && w < QWEN_BF16_WEIGHT_LEAST &&
	    w > -QWEN_BF16_WEIGHT_LEAST)
		return 0;
	return qwen_f32_bf16(w);
}

struct qwen_packing;

/* y[t][r] = sum over i of w[r][i] * x[t][i], for r0 <= r < r1, t < n_tok. */
struct qwen_matmul {
	const unsigned char	*w;	/* row 0 */
	size_t			 row_bytes;
	size_t			 n_in;
	const struct qwen_quant	*quant;	/* of w */
	const void *const	*x;	/* a token: float[n_in]; struct
					   qwen_q8[]; or uint16_t[n_in], bf16:
					   see qwen_operand_of() */
	float *const		*y;	/* a token: indexed by r */
	size_t			 n_tok;
	int			 plain;	/* struct qwen_q8 with a of 1 alone */
	size_t			 r0, r1;
	const unsigned char	*next;	/* rows that come after these, as a
					   hint for the cache; or NULL */
	const struct qwen_packing	*packing;	/* of packed; or NULL */
	const void		*packed;	/* x as a variant wants it */
};

/*
 * Some variants for many tokens want them turned, or widened, in tiles of 16,
 * which serves all rows of all matrices: n tokens of so many groups of 256, to
 * n_groups * bytes at an address that is a multiple of 64.  Tokens that a tile
 * lacks are zero, or not looked at.  Variants whose packing is of the same kind
 * share it.
 */
#define QWEN_PACK_TOKENS 16
enum qwen_pack_kind {
	QWEN_PACK_PLANES, QWEN_PACK_BLOCKS, QWEN_PACK_PAIRS, QWEN_PACK_QUADS,
	QWEN_PACK_HALVES, QWEN_PACK_KINDS
};
struct qwen_packing {
	enum qwen_pack_kind	kind;
	size_t			bytes;	/* of a tile's group */
	void	(*pack)(void *to, const void *const *x, size_t n,
		    size_t n_groups);
};

/*
 * The gated delta rule over n_tok tokens, one value head, columns c0 .. c1-1
 * (a multiple of 16 wide): for each token S1 = g S; u = b (v - S1' k);
 * S = S1 + k u'; o = S' q.  Strides are in floats between tokens.
 *
 * S may lack tokens, which are in before with rows of their own, and others
 * in before->before; no further.  Their s is of no meaning, and their o is
 * overwritten.  n_ahead rows follow the n_tok that leave no trace in S: o is
 * made as if they did.
 */
struct qwen_delta {
	float		*s;		/* [dk][dv] */
	size_t		 dk, dv;
	size_t		 c0, c1;
	size_t		 n_tok, n_ahead;
	const struct qwen_delta	*before;	/* or NULL */
	const float	*q, *k;		/* [dk] a token */
	size_t		 qk_stride;
	const float	*v;		/* [dv] a token */
	size_t		 v_stride;
	const float	*g, *b;		/* one a token */
	size_t		 gb_stride;
	float		*o;		/* [dv] a token */
	size_t		 o_stride;
	const float	*next;		/* the columns that come after, [dk]
					   rows dv apart, as a hint; or NULL */
};

/*
 * A query for keys that are whole numbers, in the place of d floats: q[i] is
 * about scale * the int16_t i, and the scale is the float at d / 2.
 */
static inline float
qwen_kv_query_scale(const float *q, size_t d)
{
	return q[d / 2];
}

/* Keys are taken in chunks at fixed absolute positions. */
#define QWEN_ATTN_CHUNK	256
#define QWEN_ATTN_MAX_Q	64

/* Floats of scratch memory for a head size. */
#define QWEN_ATTN_WORK(d) (QWEN_ATTN_MAX_Q * QWEN_ATTN_CHUNK + \
	32 * ((d) > QWEN_ATTN_CHUNK ? (d) : QWEN_ATTN_CHUNK))

/*
 * Softmax attention of some queries over the keys of one chunk, one kv head:
 * m = max, l = sum of exp(score - m), o = sum of exp(score - m) v; merged, if
 * merge is set, into those of the chunks before, which m, l and o hold then.
 * A query sees the keys below its limit; with none in the chunk its m, l and
 * o are left alone.  Many queries at once share the work of reading keys and
 * values; eight are as fast as the memory.
 */
struct qwen_attn {
	size_t			 d;	/* head size, a multiple of 16; of 32
					   where k or v is not f16 */
	enum qwen_kv		 k, v;
	size_t			 n_q;	/* 1 .. QWEN_ATTN_MAX_Q */
	const float		*q[QWEN_ATTN_MAX_Q];	/* scaled, turned; as
							   ->query makes them
							   where k is not f16 */
	size_t			 limit[QWEN_ATTN_MAX_Q];
	size_t			 chunk;	/* keys from chunk * 256 */
	int			 merge;
	uint16_t *const		*block;	/* KV blocks of the layer, from 0 */
	uint16_t *const		*next;	/* those of a chunk that comes after
					   this, as a hint; or NULL */
	size_t			 k_off;	/* of the head's K in a block, in */
	size_t			 v_off;	/* uint16_t, and of its V */
	float			*m, *l;	/* [n_q] */
	float			*o[QWEN_ATTN_MAX_Q];	/* [d] */
	float			*work;	/* QWEN_ATTN_WORK(d), aligned to 64 */
};

/*
 * What a matrix B of few columns adds to rows r to r + n_rows - 1:
 * y[t][i] = fma(low[t][k], B[r + i][k], y[t][i]) for k ascending.  B is kept
 * turned, so that its rows are lanes: in blocks of so many rows, the last filled
 * up, in each a piece for each column.
 */
#define QWEN_LOW_ROWS 64
struct qwen_low {
	const float	*b;
	size_t		 rank;		/* columns */
	size_t		 r, n_rows;
	const float	*low;		/* [rank] a token */
	size_t		 low_stride;
	float *const	*y;
	size_t		 y_at;		/* where row r is in y[t] */
	size_t		 n_tok;
};

/* Numbers of B in all; where row r has its first one. */
static inline size_t
qwen_low_size(size_t rank, size_t n_rows)
{
	return (n_rows + QWEN_LOW_ROWS - 1) / QWEN_LOW_ROWS * QWEN_LOW_ROWS *
	    rank;
}

static inline size_t
qwen_low_at(size_t rank, size_t r)
{
	return r / QWEN_LOW_ROWS * QWEN_LOW_ROWS * rank + r % QWEN_LOW_ROWS;
}

/* What is small: functions over rows of f32.  n need not be a multiple. */
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
	/* x to 8 bits, and what those leave to 8 more, in as many groups after
	   them */
	void	(*quantize_twice)(struct qwen_q8 *q, const float *x, size_t n);
	/* x to bf16, what is below QWEN_BF16_LEAST to 0 */
	void	(*to_bf16)(uint16_t *y, const float *x, size_t n);
	/* y = silu(g) * u */
	void	(*swiglu)(float *y, const float *g, const float *u, size_t n);
	/* y *= sigmoid(g) */
	void	(*gate)(float *y, const float *g, size_t n);
	/* y = fma(w, x, y) */
	void	(*axpy)(float *y, float w, const float *x, size_t n);
	void	(*low)(const struct qwen_low *p);
	/* pairs (x[i], x[i+half]) turned by the angles of cos, sin */
	void	(*rope)(float *x, const float *cos, const float *sin,
		    size_t half);
	/*
	 * Causal depthwise convolution and SiLU over n_tok rows of stride
	 * floats, in place, channels c0 .. c1-1 of nc: taps w [kc][nc],
	 * hist [kc-1][nc] holds the inputs before, then the last ones.
	 */
	void	(*conv)(float *x, size_t stride, size_t n_tok, const float *w,
		    float *hist, size_t kc, size_t nc, size_t c0, size_t c1);
	/*
	 * Merge a chunk's attention (m1, l1, o1) into (m, l, o), in the order
	 * of positions.
	 */
	void	(*attn_merge)(float *m, float *l, float *o, float m1, float l1,
		    const float *o1, size_t d);
	/* y = o / l */
	void	(*attn_finish)(float *y, const float *o, float l, size_t d);
	/* f32 to f16 */
	void	(*to_f16)(uint16_t *y, const float *x, size_t n);
	/*
	 * For keys and values as whole numbers, n a multiple of 32.  hadamard:
	 * x is multiplied by the orthonormal Hadamard matrix, in pieces of the
	 * largest power of two that divides n.  round_kv: x to whole numbers,
	 * with a scale for 32 of them; query: x to 16 bits, in place.  These
	 * return 0, and all is zero, if something is not finite.
	 */
	void	(*hadamard)(float *x, size_t n);
	int	(*round_kv)(int8_t *q, uint16_t *scale, const float *x,
		    size_t n, enum qwen_kv kv);
	int	(*query)(float *x, size_t n);
};

/*
 * Passes over a row of n logits, or of what goes with them, for choosing a
 * token.  Arrays have room for whole blocks, and what is after the n-th may be
 * read and changed, except where something else is said.
 */
#define QWEN_SIFT_BLOCK 256	/* weights are summed up in these */
#define QWEN_SIFT_SPAN 64	/* numbers that have a highest one */
#define QWEN_SIFT_BINS 1024

struct qwen_sift {
	/* the highest of n > 0, not more; means something if all are finite */
	float	(*highest)(const float *x, size_t n, int *finite);
	/* the highest less the lowest of finite ones */
	float	(*range)(const float *x, size_t n, float *max);
	/* the highest of each span */
	void	(*spans)(float *best, const float *x, size_t n);
	/* a bit for each, 64 in a word: x >= limit; how many are set */
	size_t	(*at_least)(uint64_t *bits, const float *x, size_t n,
		    float limit);
	/* those with a bit to the front, of 32-bit numbers; how many */
	size_t	(*squeeze)(void *x, const uint64_t *bits, size_t n);
	/* w = exp(x - max) for x <= max; 0 from 87 below it on */
	void	(*weigh)(float *w, const float *x, size_t n, float max);
	/*
	 * The sum of weights, those after the n-th becoming 0: in each block
	 * eight sums by index mod 8, then ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 +
	 * 7)), and the blocks one after another.
	 */
	double	(*sum)(double *block, float *w, size_t n);
	/* the sum of w (max - x): four by index mod 4, (0 + 1) + (2 + 3) */
	double	(*mean)(const float *w, const float *x, size_t n, double max);
	/* those of max - x and of its square, likewise */
	void	(*moments)(const float *x, size_t n, double max, double *first,
		    double *second);
	/* x = (x - max) / temp */
	void	(*temper)(float *x, size_t n, float max, float temp);
	/* score = -|max - x - middle|, -1e38 at least */
	void	(*nearness)(float *score, const float *x, size_t n, double max,
		    double middle);
	/* bin = qwen_sift_bin(max - x, base) */
	void	(*bins)(uint16_t *bin, const float *x, size_t n, float max,
		    uint32_t base);
};

/*
 * Distances in bins, nearest first, 64 for each power of two: 2^17 numbers that
 * floats can be from the base on.
 */
static inline uint32_t
qwen_sift_bin(float distance, uint32_t base)
{
	uint32_t u = qwen_f32_bits(distance) >> 17;

	u = u > base ? u - base : 0;
	return u < QWEN_SIFT_BINS ? u : QWEN_SIFT_BINS - 1;
}

/*
 * What the instruction set does at best.  Results are only there to be used:
 * without them a compiler would leave the work out.
 */
struct qwen_probe {
	const char	*int8_op;	/* the instruction that multiplies */
	/* load all of n bytes, a multiple of 4096 at such an address */
	uint64_t	(*read)(const void *p, size_t n);
	/* n steps of 8-bit multiply-adds, int8_macs in each */
	uint64_t	(*int8)(size_t n);
	size_t		 int8_macs;
	uint64_t	(*f32)(size_t n);	/* likewise */
	size_t		 f32_macs;
};

enum qwen_op {
	QWEN_OP_MATMUL,		/* one variant a format */
	QWEN_OP_GEMM,		/* the same for min_tok tokens and more, whole
				   groups of n_in and whole 32s of rows */
	QWEN_OP_MATMUL_BF16,	/* these two with weights and activations in */
	QWEN_OP_GEMM_BF16,	/* bf16 */
	QWEN_OP_DELTA,
	QWEN_OP_ATTN,
	QWEN_OP_VEC,
	QWEN_OP_SIFT,
	QWEN_OP_PROBE,		/* no part of a model: see machine.c */
	QWEN_OP_N
};

/* Instruction sets, those that are chosen rather than others later. */
enum qwen_kernel_rank {
	QWEN_BY_SCALAR,
	QWEN_BY_NEON, QWEN_BY_DOTPROD, QWEN_BY_I8MM,
	QWEN_BY_AVX2, QWEN_BY_AVXVNNI, QWEN_BY_AVX512VNNI,
	QWEN_BY_AVX512VBMI, QWEN_BY_AVX512BF16, QWEN_BY_AMX
};

/* What a variant says of its instruction set. */
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
 * DO(name, type, ...) for each of the formats that have variants of their own:
 * QWEN_PRODUCT, a function out of the file's product(type, m), which is inlined
 * so that the type is a constant in it; QWEN_ENTRY, its entry in the table.
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
	uint32_t	 type;		/* of the weights; QWEN_ANY_TYPE */
	const char	*name;		/* "scalar", "avx2", ...; NULL: the end
					   of an array */
	enum qwen_kernel_rank rank;
	unsigned	 need;		/* QWEN_CPU_ bits */
	size_t		 min_tok;	/* GEMM from so many tokens on: both say */
	const struct qwen_packing *packing;	/* of its tokens; or NULL */
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
 * An operation on no weights, or a product for formats without one: quantised
 * ones, or, in bf16, F16 and BF16.
 */
#define QWEN_ANY_TYPE UINT32_MAX

/*
 * Numbers of tokens for which a product of many may have different variants:
 * 1, 2 and 3, 4 to 7, .. 64 to 127, 128 and more.  NULL: none.
 */
#define QWEN_TOKEN_CLASSES 8
struct qwen_gemms {
	const struct qwen_kernel	*by[QWEN_TOKEN_CLASSES];
};

static inline size_t
qwen_token_class(size_t n)
{
	size_t c = 0;

	while ((n >>= 1) > 0 && c < QWEN_TOKEN_CLASSES - 1)
		c++;
	return c;
}

/* The variants in use. */
struct qwen_kernels {
	unsigned			 numerics;
	const struct qwen_kernel	*matmul[QT_N];
	struct qwen_gemms		 gemm[QT_N];
	/* where rows that are not whole 32s have others, and those of adapters;
	   of floats alone */
	const struct qwen_kernel	*matmul_f32[QT_N];
	size_t				 pack_bytes;	/* of all kinds that
							   they take */
	const struct qwen_kernel	*delta;
	const struct qwen_kernel	*attn;
	const struct qwen_kernel	*vec;
	const struct qwen_kernel	*probe;
};

/*
 * Can the variant multiply weights of this format?  NULL: an operation on no
 * weights.
 */
int qwen_kernel_fits(const struct qwen_kernel *k, const struct qwen_quant *q);

/*
 * The variant to use for a set of QWEN_CPU_ bits, and for some number of tokens
 * below the limit; NULL: there is none.
 */
const struct qwen_kernel *qwen_kernel_choose(enum qwen_op op,
    const struct qwen_quant *q, unsigned features, size_t limit);

/* The sampler's passes for a set of QWEN_CPU_ bits. */
const struct qwen_sift *qwen_sift_choose(unsigned features);

/* Choose for a set of QWEN_CPU_ bits and a numerics version. */
void qwen_kernels_init(struct qwen_kernels *k, unsigned features,
    unsigned numerics);

/*
 * Set pack_bytes anew, after other variants were chosen, or for the formats
 * that are used alone; NULL: all are.
 */
void qwen_kernels_packing(struct qwen_kernels *k, const unsigned char *used);

/* The GEMM that serves m, whatever is packed; NULL: matmul does. */
const struct qwen_kernel *qwen_gemm_for(const struct qwen_kernel *matmul,
    const struct qwen_gemms *gemm, const struct qwen_matmul *m);

/*
 * The product by whichever serves its shape better; 1 if it was a GEMM.  m has
 * packed tokens if that one wants them.
 */
int qwen_multiply(const struct qwen_kernel *matmul,
    const struct qwen_gemms *gemm, const struct qwen_matmul *m);

/* Bytes of n_tok tokens packed; the tokens x of n_in numbers to p. */
size_t qwen_packed_bytes(const struct qwen_packing *k, size_t n_tok,
    size_t n_in);
void qwen_pack(const struct qwen_packing *k, void *p, const void *const *x,
    size_t n_tok, size_t n_in);

/* All variants compiled in: 0 .. n-1, for tests and benchmarks. */
size_t qwen_kernel_count(void);
const struct qwen_kernel *qwen_kernel_get(size_t i);

#endif
