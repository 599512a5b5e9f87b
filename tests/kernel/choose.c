/* SPDX-License-Identifier: ISC */
/*
 * choose.c - which kernels are chosen for each instruction set, even those that
 * this CPU lacks, and number of tokens.
 */
#include <string.h>

#include "../tap.h"
#include "engine/cpu/kernel/kernel.h"

#define ALL (QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI | QWEN_CPU_AVX512VBMI | \
	QWEN_CPU_AVX512BF16 | QWEN_CPU_AMX)

/* The name of the product of so many tokens, 256 x 64. */
static const char *
name(unsigned features, unsigned numerics, uint32_t type, size_t n_tok)
{
	struct qwen_matmul m = { .n_in = 256, .r1 = 64, .n_tok = n_tok };
	const struct qwen_kernel *k;
	struct qwen_kernels all;

	qwen_kernels_init(&all, features, numerics);
	k = qwen_gemm_for(all.matmul[type], &all.gemm[type], &m);
	return k != NULL ? k->name : "none";
}

/* Tiles from so many tokens on, AVX-512 below. */
static void
check_amx(uint32_t type, size_t from)
{
	const char *few = name(ALL, 1, type, from - 1);
	const char *many = name(ALL, 1, type, from);

	ok(strcmp(few, "avx512vnni") == 0 && strcmp(many, "amx") == 0 &&
	    strcmp(name(ALL, 1, type, 5000), "amx") == 0,
	    "format %u: below %zu tokens %s, then %s", type, from, few, many);
	ok(strcmp(name(ALL & ~(unsigned)QWEN_CPU_AMX, 1, type, from),
	    "avx512vnni") == 0, "without AMX it is AVX-512");
}

/* Counts of tokens that have a product without AMX have one with it. */
static void
check_counts(void)
{
	const unsigned less = ALL & ~(unsigned)QWEN_CPU_AMX;
	uint32_t type;
	size_t n, without = 0, all = 0;

	for (type = 0; type < QT_N; type++) {
		for (n = 1; n < 200 && qwen_quant_find(type) != NULL; n++) {
			all++;
			without += strcmp(name(ALL, 1, type, n), "none") == 0 &&
			    strcmp(name(less, 1, type, n), "none") != 0;
		}
	}
	ok(all > 0 && without == 0, "of %zu formats and counts, tiles leave "
	    "%zu without a product", all, without);
}

/* How many of 100 places of the tiles of 16 are taken by n tokens. */
static unsigned
fill(size_t n)
{
	return (unsigned)(100 * n / ((n + 15) / 16 * 16));
}

/* Classes begin where they say, where a product does, with the least fill. */
static void
check_classes(void)
{
	const unsigned *c = qwen_token_classes;
	const struct qwen_kernel *k;
	size_t n, i, inside = 0, emptier = 0;

	for (n = 1; n < 2000; n++) {
		i = qwen_token_class(n);
		if (i >= QWEN_TOKEN_CLASSES || n < c[i] ||
		    (i + 1 < QWEN_TOKEN_CLASSES && n >= c[i + 1]))
			break;
		emptier += fill(n) < fill(c[i]);
	}
	ok(n == 2000, "each count has its class, the last is open");
	ok(emptier == 0, "%zu counts fill tiles less than the first of their "
	    "class, which is measured", emptier);
	for (i = 0; (k = qwen_kernel_get(i)) != NULL; i++) {
		if ((k->op == QWEN_OP_GEMM || k->op == QWEN_OP_GEMM_BF16) &&
		    c[qwen_token_class(k->min_tok)] != k->min_tok &&
		    k->min_tok > 0)
			inside++;
	}
	ok(inside == 0, "%zu limits are inside a class", inside);
}

int
main(void)
{
	static const uint32_t from[][2] = { { QT_Q4_K, 8 }, { QT_Q5_K, 8 },
	    { QT_Q6_K, 8 }, { QT_Q8_0, 8 } };
	const struct qwen_kernel *k;
	size_t i;
	struct qwen_kernels all;
	int amx = 0, bf16 = 0;

	for (i = 0; (k = qwen_kernel_get(i)) != NULL; i++)
		amx |= (k->need & QWEN_CPU_AMX) != 0;
	for (i = 0; amx && i < sizeof from / sizeof from[0]; i++)
		check_amx(from[i][0], from[i][1]);
	ok(!amx || (strcmp(name(ALL, 3, QT_BF16, 4), "amx") == 0 &&
	    strcmp(name(ALL, 3, QT_BF16, 3), "none") == 0),
	    "BF16 by tiles from 4 tokens on");
	for (i = 0; (k = qwen_kernel_get(i)) != NULL; i++)
		bf16 |= (k->need & QWEN_CPU_AVX512BF16) != 0;
	qwen_kernels_init(&all, ALL & ~(unsigned)QWEN_CPU_AMX, 3);
	ok(!bf16 || (strcmp(all.matmul[QT_F16]->name, "avx512bf16") == 0 &&
	    strcmp(all.matmul_f32[QT_F16]->name, "avx512vnni") == 0),
	    "F16 by pairs of bf16 in version 3, but where rows are no 32s");
	if (!amx)
		skip("AMX", "another kind of processor, or an old compiler");
	check_classes();
	check_counts();
	return done_testing();
}
