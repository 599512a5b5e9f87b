/* SPDX-License-Identifier: ISC */
/*
 * grain.c - a format whose scales have 8-bit exponents, made up here: its
 * products may be subnormal, so no variant that flushes those may have it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "random.h"
#include "variants.h"

enum { BLOCK = 1 + 32, N_IN = 512, ROWS = 64, TOKENS = 9 };

/* 2^(e - 127), 32 signed bytes. */
static float
number(const unsigned char *p)
{
	return *p == 255 ? NAN : ldexpf(1.0f, *p - 127);
}

static void
unpack(const unsigned char *block, int8_t *w, struct qwen_unpacked *u)
{
	(void)u;
	memcpy(w, block + 1, 32);
}

static const struct qwen_quant made_up = {
	.type = QT_N - 1, .block_len = 32, .block_bytes = BLOCK,
	.kind = QWEN_QUANT_BLOCK, .span = 32, .grain = 0x1p-127f, .number = number,
	.unpack = unpack,
};

/* A product with exponents around e, and activations small or not. */
struct product {
	unsigned char	w[ROWS * N_IN / 32 * BLOCK];
	struct qwen_q8	q8[TOKENS][N_IN / QWEN_GROUP];
	uint16_t	h[TOKENS][N_IN];
};

static void
fill(struct product *p, int e, int small)
{
	struct qwen_kernels plain;
	float x[N_IN];
	size_t i, t;

	qwen_kernels_init(&plain, 0, 2);
	for (i = 0; i < sizeof p->w; i++)
		p->w[i] = i % BLOCK > 0 ? (unsigned char)random_u32() :
		    (unsigned char)(e + (int)(random_u32() % 3));
	for (t = 0; t < TOKENS; t++) {
		for (i = 0; i < N_IN; i++)
			x[i] = ldexpf(random_float(), small ? -85 : 0);
		plain.vec->run.vec->quantize(p->q8[t], x, N_IN);
		plain.vec->run.vec->to_bf16(p->h[t], x, N_IN,
		    QWEN_BF16_LEAST(2));
	}
}

static void
multiply(const struct qwen_kernel *k, const struct product *p,
    float (*y)[ROWS])
{
	const void *x[TOKENS];
	float *yp[TOKENS];
	struct qwen_matmul m = { .w = p->w, .row_bytes = N_IN / 32 * BLOCK,
	    .n_in = N_IN, .quant = &made_up, .x = x, .y = yp,
	    .n_tok = TOKENS, .r1 = ROWS };
	size_t t;

	for (t = 0; t < TOKENS; t++) {
		x[t] = variant_is_bf16(k) ? (const void *)p->h[t] :
		    (const void *)p->q8[t];
		yp[t] = y[t];
	}
	k->run.matmul(&m);
}

/* The same bits as plain C, for all sizes of scales? */
static int
same(const struct qwen_kernel *k)
{
	static struct product p;
	static float want[TOKENS][ROWS], got[TOKENS][ROWS];
	const struct qwen_kernel *plain = qwen_kernel_choose(
	    variant_is_bf16(k) ? QWEN_OP_MATMUL_BF16 : QWEN_OP_MATMUL,
	    &made_up, 0, SIZE_MAX);
	int e, small, good = 1;

	for (e = 0; e < 250; e += e < 60 ? 3 : 40) {
		for (small = 0; small < 2; small++) {
			fill(&p, e, small);
			multiply(plain, &p, want);
			multiply(k, &p, got);
			good &= memcmp(want, got, sizeof want) == 0;
		}
	}
	return good;
}

int
main(void)
{
	unsigned have = variant_cpu();
	const struct qwen_kernel *k;
	size_t i, n = 0;

	for (i = 0; i < variant_count(); i++) {
		k = variant_get(i);
		if (!variant_is_product(k) || k->type != QWEN_ANY_TYPE)
			continue;
		ok(qwen_kernel_fits(k, &made_up) == !k->flushes,
		    "%s %s: %s", variant_op(k), k->name, k->flushes ?
		    "flushes, so it may not" : "may");
		if ((k->need & ~have) != 0)
			skip(k->name, "this CPU lacks it");
		else
			ok(same(k) == !k->flushes, "%s %s: %s", variant_op(k),
			    k->name, k->flushes ? "and would be wrong" :
			    "equals plain C");
		n++;
	}
	ok(n > 0, "%zu variants for any format", n);
	for (i = QWEN_OP_MATMUL; i <= QWEN_OP_GEMM_BF16; i++) {
		k = qwen_kernel_choose((enum qwen_op)i, &made_up, ~0u,
		    SIZE_MAX);
		ok(k == NULL || !k->flushes, "operation %zu: by %s", i,
		    k == NULL ? "none" : k->name);
	}
	return done_testing();
}
