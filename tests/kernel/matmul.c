/* SPDX-License-Identifier: ISC */
/*
 * matmul.c - every matmul variant of this CPU against the plain C one, bit by
 * bit: random and extreme blocks, row lengths, odd tails, guards.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "random.h"
#include "variants.h"

#define GUARD 8
#define MAX_TOK 200

/*
 * Activations: spread out, with some rows of zeros and of extremes; blocks of
 * 32 of one sign make the largest sums that there are.  With an exponent, they
 * are around the least that counts in bf16, where products would be subnormal if
 * they were not exact multiples of something larger.
 */
static void
fill_x(float *x, size_t n, size_t t, int exponent)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (exponent != 0) {
			x[i] = ldexpf(random_float(), exponent -
			    (int)(i % 17) - (t % 3 == 1 ? 40 : 0));
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

/*
 * The least scales in a block, of both signs: where an f16 would spoil it.  Of
 * BF16 weights around the least that counts.
 */
static void
least_scales(const struct qwen_quant *q, unsigned char *w)
{
	unsigned char zero[QWEN_GROUP * 4];
	uint16_t v = (uint16_t)((random_u32() % 2 << 15) +
	    ((127 - 52) << 7) - 8 + random_u32() % 16);
	size_t j;

	if (q->type == QT_BF16 && random_u32() % 2 == 0) {
		memcpy(w, &v, sizeof v);
		return;
	}
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
 * small ones; activations in two terms of 8 bits, a row for each.
 */
enum kind {
	RANDOM, BYTES_80, BYTES_FF, SMALL, LEAST, LEAST_SMALL, TERMS, KINDS
};

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

/* A product, and what plain C of all versions makes of it. */
struct problem {
	const struct qwen_quant	*q;
	size_t			 n_in, n_out, n_tok, width;
	enum kind		 kind;
	unsigned char		*w;
	float			*x;	/* in the three forms */
	struct qwen_q8		*xq;
	uint16_t		*xh;
	float			*y, *plain[2];	/* with guards; or NULL */
};

/* Row t in 8 bits, or the terms of it and of the one after it. */
static void
quantize(struct problem *p, const struct qwen_vec *vec, size_t t)
{
	size_t groups = QWEN_Q8_GROUPS(p->n_in);
	struct qwen_q8 *to = p->xq + t * groups;
	const float *x = p->x + t * p->n_in;

	if (p->kind != TERMS)
		vec->quantize(to, x, p->n_in);
	else if (t % 2 == 0)
		vec->quantize_twice(to, x, p->n_in);
}

static void
start(struct problem *p, const struct qwen_quant *q, const size_t shape[3],
    enum kind kind)
{
	size_t row = qwen_quant_row_bytes(q->type, shape[0]), t, n = shape[0];
	struct qwen_kernels plain;
	char what[80];

	snprintf(what, sizeof what, "%s %zu %zu %zu %d", qwen_ggml_name(q->type),
	    n, shape[1], shape[2], (int)kind);
	random_seed(what);
	*p = (struct problem){ .q = q, .n_in = n, .n_out = shape[1],
	    .n_tok = shape[2], .width = shape[1] + 2 * GUARD, .kind = kind };
	p->w = malloc(row * p->n_out + 64);
	p->x = malloc(p->n_tok * n * sizeof *p->x);
	p->xq = aligned_alloc(64, (p->n_tok + 1) * QWEN_Q8_GROUPS(n) *
	    sizeof *p->xq);
	p->xh = malloc(p->n_tok * n * sizeof *p->xh);
	p->y = malloc(p->n_tok * p->width * sizeof *p->y);
	qwen_kernels_init(&plain, 0, 1);
	fill_w(q, p->w, row / q->block_bytes * p->n_out, kind);
	for (t = 0; t < p->n_tok; t++) {
		fill_x(p->x + t * n, n, t,
		    kind != SMALL && kind != LEAST_SMALL ? 0 : -54);
		quantize(p, plain.vec->run.vec, t);
		plain.vec->run.vec->to_bf16(p->xh + t * n, p->x + t * n,
		    n);
	}
}

static void
end(struct problem *p)
{
	free(p->w);
	free(p->x);
	free(p->xq);
	free(p->xh);
	free(p->y);
	free(p->plain[0]);
	free(p->plain[1]);
}

static void
multiply(const struct problem *p, const struct qwen_kernel *k, float *y)
{
	const void *xp[MAX_TOK];
	float *yp[MAX_TOK];
	struct qwen_matmul m = { .w = p->w, .n_in = p->n_in, .quant = p->q,
	    .row_bytes = qwen_quant_row_bytes(p->q->type, p->n_in), .x = xp,
	    .y = yp, .n_tok = p->n_tok, .r0 = p->n_out / 7, .r1 = p->n_out,
	    .plain = p->kind == TERMS };
	size_t t, i;

	for (t = 0; t < p->n_tok; t++) {
		xp[t] = variant_is_bf16(k) ?
		    (const void *)(p->xh + t * p->n_in) :
		    p->q->kind == QWEN_QUANT_FLOAT ?
		    (const void *)(p->x + t * p->n_in) :
		    (const void *)(p->xq + t * QWEN_Q8_GROUPS(p->n_in));
		yp[t] = y + t * p->width + GUARD;
	}
	for (i = 0; i < p->n_tok * p->width; i++)
		y[i] = 12345.0f;
	variant_multiply(k, m);
}

/* 1 if the variant and plain C of its version agree in all bits. */
static int
same(struct problem *p, const struct qwen_kernel *k)
{
	size_t bytes = p->n_tok * p->width * sizeof *p->y;
	unsigned version = variant_numerics(k);
	float **plain = &p->plain[variant_is_bf16(k)];
	struct qwen_kernels c;

	qwen_kernels_init(&c, 0, version);
	if (*plain == NULL) {
		*plain = malloc(bytes);
		multiply(p, c.matmul[p->q->type], *plain);
	}
	multiply(p, k, p->y);
	return memcmp(p->y, *plain, bytes) == 0;
}

/* What could go wrong on another processor: large products of one kind each. */
static int quick;

/*
 * Small activations alone matter in bf16 alone, whose plain C is slow: each large
 * product has one kind, and another than the one before.  In bf16 rows are whole
 * 32s.
 */
static int
is_worth(const struct qwen_kernel *k, const size_t shape[3], size_t i,
    enum kind kind)
{
	int large = shape[0] * shape[1] * shape[2] >= 1000000;

	if (variant_is_bf16(k) && (shape[0] % 32 != 0 || kind == TERMS))
		return 0;
	if (quick && large && !variant_is_bf16(k))
		return kind == (enum kind[]){ RANDOM, TERMS, BYTES_80,
		    BYTES_FF }[i % 4];
	if (kind == TERMS)
		return 1;
	if (!variant_is_bf16(k) && kind < LEAST)
		return kind != SMALL;
	return !large || kind == i % KINDS;
}

/* A variant on the shapes of a format so far. */
struct tried {
	const struct qwen_kernel *k;
	size_t	n;		/* problems solved */
	int	wrong;
};

static void
try_all(struct tried *v, size_t n_v, const struct qwen_quant *q,
    const size_t shape[3], size_t i, enum kind kind)
{
	struct problem p = { 0 };
	size_t j;

	for (j = 0; j < n_v; j++) {
		if (v[j].wrong || !is_worth(v[j].k, shape, i, kind))
			continue;
		if (p.w == NULL)
			start(&p, q, shape, kind);
		v[j].n++;
		v[j].wrong = !same(&p, v[j].k);
		if (v[j].wrong)
			ok(0, "%s %s %s: n_in %zu, rows %zu, tokens %zu, "
			    "kind %d", variant_op(v[j].k),
			    qwen_ggml_name(q->type), v[j].k->name, shape[0],
			    shape[1], shape[2], (int)kind);
	}
	end(&p);
}

/* Variants of a format, n_v of them. */
static void
check(struct tried *v, size_t n_v, const struct qwen_quant *q)
{
	static const size_t shapes[][3] = {
		{ 256, 64, 1 }, { 512, 31, 2 }, { 2048, 8, 4 },
		{ 4096, 5, 3 }, { 768, 17, 9 }, { 256, 1, 1 }, { 512, 3, 7 },
		{ 32, 9, 2 }, { 320, 7, 5 }, { 96, 4, 4 }, { 48, 6, 3 },
		{ 17, 5, 6 }, { 1041, 13, 29 },
		/* whole panels of 32 rows, and more than one slice of K */
		{ 256, 37, 4 }, { 512, 74, 5 }, { 2048, 37, 6 },
		{ 2304, 75, 7 }, { 4352, 37, 13 }, { 256, 112, 70 },
		{ 256, 38, 200 },
		/* 32 tokens and more share tables; slice by slice */
		{ 1280, 37, 31 }, { 1280, 37, 32 }, { 2304, 39, 67 },
	};
	size_t i, j;
	enum kind kind;

	for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
		if (shapes[i][0] % q->block_len != 0)
			continue;
		for (kind = 0; kind < KINDS; kind++)
			try_all(v, n_v, q, shapes[i], i, kind);
	}
	for (j = 0; j < n_v; j++) {
		if (!v[j].wrong)
			ok(v[j].n > 0, "%s %s %s: %zu shapes equal plain C",
			    variant_op(v[j].k), qwen_ggml_name(q->type),
			    v[j].k->name, v[j].n);
	}
}

int
main(int argc, char **argv)
{
	unsigned have = variant_cpu();
	size_t i, n, count = variant_count();
	struct tried *v = malloc(count * sizeof *v);
	uint32_t type;

	(void)argv;
	quick = argc > 1;
	for (type = 0; type < QT_N; type++) {
		const struct qwen_quant *q = qwen_quant_find(type);

		for (i = n = 0; q != NULL && i < count; i++) {
			const struct qwen_kernel *k = variant_get(i);

			if (!variant_is_product(k) || !qwen_kernel_fits(k, q))
				continue;
			if ((k->need & ~have) != 0)
				skip(k->name, "this CPU lacks it");
			else
				v[n++] = (struct tried){ .k = k };
		}
		if (q != NULL)
			check(v, n, q);
	}
	free(v);
	return done_testing();
}
