/* SPDX-License-Identifier: ISC */
/*
 * matmul.c - every matmul variant that this CPU has, against the plain C one,
 * bit by bit: random blocks, extreme ones, row lengths, odd tails, guards.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "random.h"
#include "variants.h"

#define GUARD 8
#define MAX_TOK 200

/* Plain C of the same numerics version. */
static const struct qwen_kernel *
scalar_for(const struct qwen_kernel *of, const struct qwen_quant *q)
{
	struct qwen_kernels k;

	qwen_kernels_init(&k, 0, variant_numerics(of));
	return k.matmul[q->type];
}

/*
 * Activations: spread out, with some rows of zeros and of extremes; blocks of
 * 32 of one sign make the largest sums that there are.  With small, they are
 * around the least that counts in version 2, where products would be subnormal
 * if they were not exact multiples of something larger.
 */
static void
fill_x(float *x, size_t n, size_t t, int small)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (small) {
			x[i] = ldexpf(random_float(), -84 - (int)(i % 17) -
			    (t % 3 == 1 ? 40 : 0));
			continue;
		}
		switch (t % 5) {
		case 2:
			x[i] = i / 32 % 3 ? 1e30f : -1e30f;
			break;
		case 3:
			x[i] = 0.0f;
			break;
		case 4:
			x[i] = i % 2 ? 1e30f : -1e30f;
			break;
		default:
			x[i] = random_float() *
			    (i / 32 % 3 == 0 ? 10.0f : 0.3f);
		}
	}
}

/* The least scales in a block, of both signs: where an f16 would spoil it. */
static void
least_scales(const struct qwen_quant *q, unsigned char *w)
{
	unsigned char zero[QWEN_GROUP * 4];
	size_t j;

	memset(zero, 0, sizeof zero);
	for (j = 0; j + 1 < q->block_bytes; j += 2) {
		zero[j + 1] = 0x7c;
		if (!qwen_quant_finite(q, zero) || q->kind == QWEN_QUANT_FLOAT) {
			w[j] = 1 + random_u32() % 2;
			w[j + 1] = random_u32() % 2 ? 0x80 : 0;
		}
		zero[j + 1] = 0;
	}
}

/*
 * What is in weights and activations: at random; weights of one byte, 0x80 or
 * 0xff; small activations; least scales, with ordinary activations and with
 * small ones.
 */
enum kind { RANDOM, BYTES_80, BYTES_FF, SMALL, LEAST, LEAST_SMALL, KINDS };

/* Random bytes with finite scales: any bytes are weights, in every format. */
static void
fill_w(const struct qwen_quant *q, unsigned char *w, size_t n_block,
    enum kind kind)
{
	size_t i, j;

	for (i = 0; i < n_block; i++, w += q->block_bytes) {
		for (j = 0; j < q->block_bytes; j++)
			w[j] = kind == BYTES_80 ? 0x80 : kind == BYTES_FF ? 0xff :
			    (unsigned char)random_u32();
		/* NaN would be equal only by luck of its payload */
		for (j = 0; !qwen_quant_finite(q, w) && j < q->block_bytes; j++)
			w[j] &= 0xbb;
		if (kind == LEAST || kind == LEAST_SMALL)
			least_scales(q, w);
	}
}

/*
 * The variant (through qwen_multiply, which gives a GEMM only what it takes)
 * and plain C on one shape; 1 if all bits agree.
 */
static int
same(const struct qwen_kernel *k, const struct qwen_quant *q, size_t n_in,
    size_t n_out, size_t n_tok, enum kind kind)
{
	size_t row = qwen_quant_row_bytes(q->type, n_in), t, i;
	size_t width = n_out + 2 * GUARD;
	unsigned char *w = malloc(row * n_out + 64);
	float *x = malloc(n_tok * n_in * sizeof *x);
	struct qwen_q8 *xq = aligned_alloc(64, n_tok * QWEN_Q8_GROUPS(n_in) *
	    sizeof *xq);
	float *y = malloc(2 * n_tok * width * sizeof *y);
	uint16_t *xh = malloc(n_tok * n_in * sizeof *xh);
	const void *xp[MAX_TOK];
	float *yp[MAX_TOK];
	const struct qwen_kernel *c = scalar_for(k, q);
	struct qwen_kernels plain;
	struct qwen_matmul m = { .w = w, .row_bytes = row, .n_in = n_in,
	    .quant = q, .x = xp, .y = yp, .n_tok = n_tok, .r0 = n_out / 7,
	    .r1 = n_out };
	int good;

	qwen_kernels_init(&plain, 0, 1);
	fill_w(q, w, row / q->block_bytes * n_out, kind);
	for (i = 0; i < 2 * n_tok * width; i++)
		y[i] = 12345.0f;
	for (t = 0; t < n_tok; t++) {
		fill_x(x + t * n_in, n_in, t,
		    kind == SMALL || kind == LEAST_SMALL);
		plain.vec->run.vec->quantize(xq + t * QWEN_Q8_GROUPS(n_in),
		    x + t * n_in, n_in);
		plain.vec->run.vec->to_bf16(xh + t * n_in, x + t * n_in, n_in);
		xp[t] = q->kind == QWEN_QUANT_FLOAT ?
		    (const void *)(x + t * n_in) : variant_numerics(k) == 2 ?
		    (const void *)(xh + t * n_in) :
		    (const void *)(xq + t * QWEN_Q8_GROUPS(n_in));
	}
	for (i = 0; i < 2; i++) {
		for (t = 0; t < n_tok; t++)
			yp[t] = y + (i * n_tok + t) * width + GUARD;
		if (i == 0)
			qwen_multiply(variant_is_gemm(k) ? c : k,
			    variant_is_gemm(k) ? k : NULL, &m);
		else
			c->run.matmul(&m);
	}
	good = memcmp(y, y + n_tok * width, n_tok * width * sizeof *y) == 0;
	free(w);
	free(x);
	free(xq);
	free(xh);
	free(y);
	return good;
}

/*
 * Small activations alone matter in version 2 alone, whose plain C is slow: each
 * large product has one kind, and another than the one before.
 */
static int
is_worth(const struct qwen_kernel *k, const size_t shape[3], size_t i,
    enum kind kind)
{
	int large = shape[0] * shape[1] * shape[2] >= 1000000;

	if (variant_numerics(k) == 1 && kind < LEAST)
		return kind != SMALL;
	return !large || kind == i % KINDS;
}

static void
check(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	static const size_t shapes[][3] = {
		{ 256, 64, 1 }, { 512, 31, 2 }, { 2048, 8, 4 },
		{ 4096, 5, 3 }, { 768, 17, 9 }, { 256, 1, 1 }, { 512, 3, 7 },
		{ 32, 9, 2 }, { 320, 7, 5 }, { 96, 4, 4 }, { 48, 6, 3 },
		{ 17, 5, 6 },
		/* whole panels of 32 rows, and more than one slice of K */
		{ 256, 37, 4 }, { 512, 74, 5 }, { 2048, 37, 6 },
		{ 2304, 75, 7 }, { 4352, 37, 13 }, { 256, 112, 70 },
		{ 256, 38, 200 },
		/* 32 tokens and more share tables; slice by slice */
		{ 1280, 37, 31 }, { 1280, 37, 32 }, { 2304, 39, 67 },
	};
	const char *name = qwen_ggml_name(q->type);
	size_t i, n = 0;
	enum kind kind;

	for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		if (shapes[i][0] % q->block_len != 0)
			continue;
		for (kind = 0; kind < KINDS; kind++) {
			if (!is_worth(k, shapes[i], i, kind))
				continue;
			n++;
			if (same(k, q, shapes[i][0], shapes[i][1],
			    shapes[i][2], kind))
				continue;
			ok(0, "%s %s %s: n_in %zu, rows %zu, tokens %zu, "
			    "kind %d", variant_op(k), name, k->name,
			    shapes[i][0], shapes[i][1], shapes[i][2], (int)kind);
			return;
		}
	}
	ok(n > 0, "%s %s %s: %zu shapes equal plain C", variant_op(k), name,
	    k->name, n);
}

int
main(void)
{
	unsigned have = variant_cpu();
	size_t i;
	uint32_t type;

	for (i = 0; i < variant_count(); i++) {
		const struct qwen_kernel *k = variant_get(i);

		if (!variant_is_product(k))
			continue;
		for (type = 0; type < QT_N; type++) {
			const struct qwen_quant *q = qwen_quant_find(type);

			if (q == NULL || !qwen_kernel_fits(k, q))
				continue;
			if ((k->need & ~have) != 0)
				skip(k->name, "this CPU lacks it");
			else
				check(k, q);
		}
	}
	return done_testing();
}
