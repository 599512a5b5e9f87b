/* SPDX-License-Identifier: ISC */
/*
 * product.c - products on a card, in all formats, beside plain C: random and
 * extreme rows, odd sizes, two terms, scales and biases, stacks of matrices.
 */
#include "bench.h"

enum { MATRICES = 5, GUARD = 3 };

/*
 * Random bytes with finite scales: any bytes are weights, in every format.  Of
 * floats, half are from 2^-7 to 2, since sums of others depend on the largest
 * alone.
 */
static void
fill_weights(const struct qwen_quant *q, unsigned char *w, size_t n_block)
{
	size_t i, j;

	for (i = 0; i < n_block; i++, w += q->block_bytes) {
		for (j = 0; j < q->block_bytes; j++)
			w[j] = i % 7 == 3 ? 0x80 : i % 7 == 5 ? 0xff :
			    (unsigned char)random_u32();
		for (j = 0; !qwen_quant_finite(q, w) && j < q->block_bytes; j++)
			w[j] &= 0xbb;
		if ((q->type == QT_F32 || q->type == QT_BF16) && i / 256 % 2 == 0)
			w[q->block_bytes - 1] = (unsigned char)(
			    (random_u32() & 0x83) | 0x3c);
	}
}

struct problem {
	struct qwen_weight	 w;
	struct qwen_cuda_weight	 on;
	size_t			 n, n_matrix;
	unsigned char		*bytes;
	float			*x, *y, *right;
	float			 scale[MATRICES], *bias;
};

static void
start(struct bench *b, struct problem *p, uint32_t type, const size_t shape[3],
    size_t n_matrix, unsigned numerics)
{
	const struct qwen_quant *q = qwen_quant_find(type);
	size_t row = qwen_quant_row_bytes(type, shape[0]), i;
	size_t bytes = row * shape[1] * n_matrix;
	struct qwen_err err = { 0 };

	*p = (struct problem){ .n = shape[2], .n_matrix = n_matrix };
	p->bytes = malloc(bytes);
	p->x = malloc(p->n * shape[0] * sizeof *p->x);
	p->y = malloc(p->n * (shape[1] + GUARD) * sizeof *p->y);
	p->right = malloc(p->n * (shape[1] + GUARD) * sizeof *p->y);
	p->bias = malloc(shape[1] * sizeof *p->bias);
	fill_weights(q, p->bytes, bytes / q->block_bytes);
	for (i = 0; i < p->n; i++)
		bench_fill(p->x + i * shape[0], shape[0], i + shape[1], 1);
	for (i = 0; i < MATRICES; i++)
		p->scale[i] = random_float();
	for (i = 0; i < shape[1]; i++)
		p->bias[i] = random_float();
	p->w = (struct qwen_weight){ .data = p->bytes, .quant = q,
	    .operand = qwen_operand_of(q, shape[0], numerics),
	    .n_in = shape[0], .n_out = shape[1], .row_bytes = row,
	    .expert_bytes = n_matrix > 1 ? row * shape[1] : 0,
	    .scale = shape[1] % 2 ? p->scale : NULL,
	    .bias = shape[2] % 2 && n_matrix == 1 ? p->bias : NULL };
	memset(b->net.operands, 0, sizeof b->net.operands);
	b->net.operands[p->w.operand] = 1;
	if (!qwen_cuda_can_multiply(&p->w) || qwen_cuda_weight_put(&b->c,
	    &p->on, &p->w, n_matrix, &err) < 0)
		ok(0, "%s", err.msg);
}

static void
end(struct bench *b, struct problem *p)
{
	bench_forget(b);
	free(p->bytes);
	free(p->x);
	free(p->y);
	free(p->right);
	free(p->bias);
}

/* Row `from' of x by matrix e, in plain C, to row `to' of what is right. */
static void
plain_row(struct bench *b, struct problem *p, size_t from, size_t to, size_t e)
{
	b->from[0] = p->x + from * p->w.n_in;
	b->to[0] = p->right + to * (p->w.n_out + GUARD);
	qwen_plain_product(&b->plain, &p->w, e, 1);
}

/* Puts n_x rows, and n_y rows of results whose guards will show. */
static struct qwen_cuda_rows
put_rows(struct bench *b, struct problem *p, size_t n_x, size_t n_y)
{
	size_t y = n_y * (p->w.n_out + GUARD), i;

	for (i = 0; i < y; i++)
		p->right[i] = 12345.0f;
	qwen_cuda_put(b->c.card, b->x, p->x, n_x * p->w.n_in * sizeof *p->x);
	qwen_cuda_put(b->c.card, b->y, p->right, y * sizeof *p->y);
	qwen_cuda_quantize(&b->w, b->x, p->w.n_in, p->w.n_in, n_x);
	return (struct qwen_cuda_rows){ .x = b->x, .stride = p->w.n_in,
	    .groups = b->w.array[QWEN_CUDA_GROUPS], .n = n_x };
}

static int
is_right(struct bench *b, struct problem *p, size_t n_y)
{
	size_t n = n_y * (p->w.n_out + GUARD);

	qwen_cuda_get(b->c.card, p->y, b->y, n * sizeof *p->y);
	return b->c.card->failed == NULL && bench_same(p->y, p->right, n);
}

static int
multiply(struct bench *b, uint32_t type, const size_t shape[3],
    unsigned numerics)
{
	struct qwen_cuda_rows x;
	struct problem p;
	size_t i;
	int right;

	start(b, &p, type, shape, 1, numerics);
	x = put_rows(b, &p, p.n, p.n);
	qwen_cuda_multiply(&b->w, &p.on, &x, b->y, p.w.n_out + GUARD);
	for (i = 0; i < p.n; i++)
		plain_row(b, &p, i, i, 0);
	right = is_right(b, &p, p.n);
	end(b, &p);
	return right;
}

/*
 * Rows by matrices of a stack: of n pairs, matrix 0 has a few, matrix 1 none, the
 * last most.  at is any order of the pairs.
 */
static int
multiply_pairs(struct bench *b, uint32_t type, const size_t shape[3],
    size_t per, unsigned numerics)
{
	u32 first[MATRICES + 1] = { 0 }, at[BENCH_ROWS], i, e = 0;
	struct qwen_cuda_pairs pairs = { .n_pair = shape[2], .per = per };
	struct qwen_cuda_rows x;
	struct problem p;
	int right;

	start(b, &p, type, shape, MATRICES, numerics);
	x = put_rows(b, &p, (shape[2] + per - 1) / per, shape[2]);
	first[1] = first[2] = (u32)shape[2] / 8;
	first[3] = first[2] + 1;
	first[4] = first[3] + (u32)shape[2] / 5;
	first[5] = (u32)shape[2];
	for (i = 0; i < shape[2]; i++) {
		at[i] = (i * 7 + 3) % (u32)shape[2];
		while (first[e + 1] <= i)
			e++;
		plain_row(b, &p, at[i] / per, at[i], e);
	}
	pairs.at = qwen_cuda_alloc(b->c.card, sizeof at);
	pairs.first = qwen_cuda_alloc(b->c.card, sizeof first);
	qwen_cuda_put(b->c.card, pairs.at, at, shape[2] * sizeof *at);
	qwen_cuda_put(b->c.card, pairs.first, first, sizeof first);
	qwen_cuda_multiply_pairs(&b->w, &p.on, &x, &pairs, b->y,
	    p.w.n_out + GUARD);
	right = is_right(b, &p, shape[2]);
	qwen_cuda_free(b->c.card, pairs.at);
	qwen_cuda_free(b->c.card, pairs.first);
	end(b, &p);
	return right;
}

static void
test_format(struct bench *b, const struct qwen_quant *q)
{
	/* numbers of a row, rows of the matrix, rows of x */
	static const size_t shapes[][3] = { { 512, 5, 1 }, { 256, 37, 3 },
	    { 768, 18, 8 }, { 384, 7, 11 }, { 320, 2, 2 }, { 2048, 3, 1 },
	    { 768, 70, 67 }, { 37, 9, 5 },
	    { 48, 67, 9 } };
	static const size_t pairs[][3] = { { 512, 19, 8 }, { 768, 66, 43 },
	    { 320, 6, 13 } };
	const char *name = qwen_ggml_name(q->type);
	unsigned numerics = 1;
	size_t i;

	for (; numerics <= (q->kind == QWEN_QUANT_FLOAT ? 1 : 4); numerics += 3) {
		for (i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
			const size_t *s = shapes[i];

			if (s[0] % q->block_len == 0)
				ok(multiply(b, q->type, s, numerics), "%s: %zu "
				    "x %zu by %zu rows, version %u", name,
				    s[1], s[0], s[2], numerics);
		}
		for (i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
			const size_t *s = pairs[i];

			if (s[0] % q->block_len == 0)
				ok(multiply_pairs(b, q->type, s, 1 + 2 * i,
				    numerics), "%s: %zu x %zu by %zu pairs, "
				    "version %u", name, s[1], s[0], s[2],
				    numerics);
		}
	}
}

/* A stack whose matrices have addresses of their own, in any order. */
static void
test_parts(struct bench *b)
{
	static const size_t shape[] = { 512, 19, 8 };
	const void *part[MATRICES];
	struct problem p;
	struct qwen_err err = { 0 };
	unsigned char *got;
	size_t e, bytes;
	int right = 1;

	start(b, &p, QT_Q4_K, shape, MATRICES, 1);
	bytes = p.w.row_bytes * p.w.n_out;
	for (e = 0; e < MATRICES; e++)
		part[e] = p.bytes + (e * 2 + 1) % MATRICES * bytes;
	p.w.part = part;
	got = malloc(bytes);
	if (qwen_cuda_weight_put(&b->c, &p.on, &p.w, MATRICES, &err) < 0)
		right = 0;
	for (e = 0; e < MATRICES && right; e++) {
		qwen_cuda_get(b->c.card, got, p.on.data +
		    e * p.on.matrix_bytes, bytes);
		right = memcmp(got, part[e], bytes) == 0;
	}
	ok(right, "a stack of parts");
	free(got);
	end(b, &p);
}

/* Products in bf16 are left to other devices. */
static void
test_refused(void)
{
	struct qwen_weight w = { .data = (const unsigned char *)"",
	    .quant = qwen_quant_find(QT_BF16), .operand = QWEN_AS_BF16,
	    .n_in = 32, .n_out = 1 };

	ok(!qwen_cuda_can_multiply(&w), "no products in bf16");
	w.operand = QWEN_AS_F32;
	ok(qwen_cuda_can_multiply(&w), "but in f32");
}

int
main(int argc, char **argv)
{
	static struct bench b;
	uint32_t type;

	bench_open(&b);
	for (type = 0; type < QT_N; type++) {
		const struct qwen_quant *q = qwen_quant_find(type);

		random_seed("cuda product");
		if (q != NULL && (argc < 2 ||
		    strcmp(argv[1], qwen_ggml_name(type)) == 0))
			test_format(&b, q);
	}
	/* more than a buffer of staging.c */
	ok(multiply(&b, QT_F32, (const size_t[]){ 256, 40000, 1 }, 1),
	    "a large matrix");
	test_parts(&b);
	test_refused();
	bench_close(&b);
	return done_testing();
}
