/* SPDX-License-Identifier: ISC */
/*
 * kernel.h - the table of variants: what a kernel is, and how one is chosen.
 * The operations are in attn.h, delta.h, matmul.h, rows.h and sift.h.
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

#include "base/cpu.h"
#include "engine/cpu/kernel/attn.h"
#include "engine/cpu/kernel/delta.h"
#include "engine/cpu/kernel/matmul.h"
#include "engine/cpu/kernel/rows.h"
#include "engine/cpu/kernel/sift.h"

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
 * QWEN_PRODUCT instantiates a file's product(type, m), inlined, so that the type
 * is a constant; QWEN_ENTRY is its entry in the table.
 */
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
 * Returns the variant for a set of QWEN_CPU_ bits that serves n_tok tokens, or
 * NULL.
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
