/* SPDX-License-Identifier: ISC */
/*
 * norm.c - rows before products on a card, beside plain C: norms of the residual
 * stream, silu(gate) * up, and their integers; and numbers that are not finite.
 */
#include "bench.h"

enum { SHARES = 3 };

/* Rows of three sessions: the second has drafts, some rows are not wanted. */
static const struct dev_share shares[SHARES] = {
	{ .first = 0, .n = 9, .n_sure = 9 },
	{ .first = 9, .n = 12, .n_sure = 4, .want = 3 },
	{ .first = 21, .n = 2, .n_sure = 2, .want = 1 },
};
enum { ROWS = 23 };

struct rows {
	float	*x, *out, *xn, *weights;
	int	 is_bad[ROWS];
	size_t	 n;
	cu_ptr	 row, share, flag;
};

static cu_ptr
put(struct bench *b, const void *from, size_t bytes)
{
	cu_ptr p = qwen_cuda_alloc(b->c.card, bytes);

	qwen_cuda_put(b->c.card, p, from, bytes);
	return p;
}

static void
start(struct bench *b, struct rows *r, size_t n, unsigned numerics)
{
	struct dev_row row[ROWS] = { { 0 } };
	struct dev_flag none[SHARES];
	size_t bytes = ROWS * n * sizeof(float), i;
	static const enum qwen_cuda_array arrays[] = { QWEN_CUDA_X,
	    QWEN_CUDA_OUT, QWEN_CUDA_XN };

	*r = (struct rows){ .x = malloc(bytes), .out = malloc(bytes),
	    .xn = malloc(bytes), .weights = malloc(n * sizeof(float)), .n = n };
	for (i = 0; i < ROWS; i++) {
		bench_fill(r->x + i * n, n, i, 1);
		bench_fill(r->out + i * n, n, i + 1, 0);
		while (i >= shares[row[i].share].first + shares[row[i].share].n)
			row[i].share++;
	}
	for (i = 0; i < n; i++)
		r->weights[i] = random_float();
	b->net.hp.n_embd = n;
	b->net.hp.n_layer = 4;
	b->net.hp.eps = 1e-6f;
	memset(b->net.operands, 0, sizeof b->net.operands);
	b->net.operands[numerics == 4 ? QWEN_AS_TWO_Q8 : QWEN_AS_Q8] = 1;
	for (i = 0; i < 3; i++) {
		b->w.array[arrays[i]] = qwen_cuda_alloc(b->c.card, bytes);
		b->w.width[arrays[i]] = n * sizeof(float);
	}
	qwen_cuda_put(b->c.card, b->w.array[QWEN_CUDA_X], r->x, bytes);
	qwen_cuda_put(b->c.card, b->w.array[QWEN_CUDA_OUT], r->out, bytes);
	memset(none, 0xff, sizeof none);
	r->row = put(b, row, sizeof row);
	r->share = put(b, shares, sizeof shares);
	r->flag = put(b, none, sizeof none);
	b->w.pass = (struct dev_pass){ .row = QWEN_CUDA_P(r->row),
	    .share = QWEN_CUDA_P(r->share), .flag = QWEN_CUDA_P(r->flag),
	    .n = ROWS };
}

static void
end(struct bench *b, struct rows *r)
{
	static const enum qwen_cuda_array arrays[] = { QWEN_CUDA_X,
	    QWEN_CUDA_OUT, QWEN_CUDA_XN };
	size_t i;

	for (i = 0; i < 3; i++) {
		qwen_cuda_free(b->c.card, b->w.array[arrays[i]]);
		b->w.array[arrays[i]] = 0;
	}
	qwen_cuda_free(b->c.card, r->row);
	qwen_cuda_free(b->c.card, r->share);
	qwen_cuda_free(b->c.card, r->flag);
	free(r->x);
	free(r->out);
	free(r->xn);
	free(r->weights);
}

/* Adds, norms, and remembers which rows are not finite. */
static void
plain_norm(const struct bench *b, struct rows *r, int add)
{
	size_t t, i, n = r->n;

	for (t = 0; t < ROWS; t++) {
		for (i = 0; i < n && add; i++)
			r->x[t * n + i] += r->out[t * n + i];
		r->is_bad[t] = !isfinite(qwen_plain_rms_norm(r->xn + t * n,
		    r->x + t * n, r->weights, n, b->net.hp.eps));
	}
}

static int
is_array(struct bench *b, enum qwen_cuda_array array, const float *right,
    size_t n)
{
	float *got = malloc(n * sizeof *got);
	int same;

	qwen_cuda_get(b->c.card, got, b->w.array[array], n * sizeof *got);
	same = bench_same(got, right, n);
	free(got);
	return same;
}

/* Are the integers of an array those which quantize makes of x? */
static int
is_quantized(struct bench *b, enum qwen_cuda_array array, cu_ptr x, size_t n,
    size_t n_row)
{
	size_t bytes = n_row * qwen_cuda_groups_bytes(&b->net, n);
	unsigned char *got = malloc(bytes), *right = malloc(bytes);
	int same;

	qwen_cuda_get(b->c.card, got, b->w.array[array], bytes);
	qwen_cuda_quantize(&b->w, x, n, n, n_row);
	qwen_cuda_get(b->c.card, right, b->w.array[QWEN_CUDA_GROUPS], bytes);
	same = memcmp(got, right, bytes) == 0;
	free(got);
	free(right);
	return same;
}

/* What plain/device.c notes: bad tokens by place, bad drafts by number. */
static int
is_noted(struct bench *b, const struct rows *r, u32 place)
{
	struct dev_flag got[SHARES];
	u32 t, s, bad, good;
	int right = 1;

	qwen_cuda_get(b->c.card, got, r->flag, sizeof got);
	for (s = 0; s < SHARES; s++) {
		bad = good = ~0u;
		for (t = shares[s].n; t-- > 0;) {
			u32 row = shares[s].first + t;

			if (!r->is_bad[row] || (t < shares[s].want &&
			    place >= QWEN_PLACE_MIXER(b->net.hp.n_layer - 1)))
				continue;
			if (t < shares[s].n_sure)
				bad = place;
			else
				good = t - shares[s].n_sure;
		}
		right &= got[s].bad == bad && got[s].good == good;
	}
	return right;
}

static void
test_norm(struct bench *b, size_t n, int add, unsigned numerics)
{
	size_t place = add ? QWEN_PLACE_MIXER(3) : QWEN_PLACE_FFN(1);
	struct rows r;
	cu_ptr weights;

	start(b, &r, n, numerics);
	weights = qwen_cuda_alloc(b->c.card, n * sizeof(float));
	qwen_cuda_put(b->c.card, weights, r.weights, n * sizeof(float));
	qwen_cuda_norm(&b->w, weights, add, place);
	plain_norm(b, &r, add);
	ok(is_array(b, QWEN_CUDA_X, r.x, ROWS * n) &&
	    is_array(b, QWEN_CUDA_XN, r.xn, ROWS * n), "norm of %zu%s", n,
	    add ? " after adding" : "");
	ok(is_quantized(b, QWEN_CUDA_GROUPS_X, b->w.array[QWEN_CUDA_XN], n,
	    ROWS), "its integers, version %u", numerics);
	ok(is_noted(b, &r, (u32)place), "rows that are not finite");
	qwen_cuda_free(b->c.card, weights);
	end(b, &r);
}

static void
test_silu(struct bench *b, size_t n, unsigned numerics)
{
	size_t all = ROWS * n, i;
	struct rows r;

	start(b, &r, n, numerics);
	qwen_cuda_silu_multiply(&b->w, b->w.array[QWEN_CUDA_X],
	    b->w.array[QWEN_CUDA_OUT], n, n, ROWS);
	for (i = 0; i < all; i++)
		r.x[i] = qwen_plain_silu(r.x[i]) * r.out[i];
	ok(is_array(b, QWEN_CUDA_X, r.x, all), "silu of %zu", n);
	ok(is_quantized(b, QWEN_CUDA_GROUPS, b->w.array[QWEN_CUDA_X], n, ROWS),
	    "its integers, version %u", numerics);
	end(b, &r);
}

/* A model of floats has no integers. */
static void
test_floats(struct bench *b)
{
	unsigned char before[64], after[64];
	struct rows r;

	start(b, &r, 64, 1);
	memset(b->net.operands, 0, sizeof b->net.operands);
	b->net.operands[QWEN_AS_F32] = 1;
	qwen_cuda_get(b->c.card, before, b->w.array[QWEN_CUDA_GROUPS],
	    sizeof before);
	qwen_cuda_quantize(&b->w, b->w.array[QWEN_CUDA_X], 64, 64, ROWS);
	qwen_cuda_get(b->c.card, after, b->w.array[QWEN_CUDA_GROUPS],
	    sizeof after);
	ok(memcmp(before, after, sizeof before) == 0, "floats: no integers");
	end(b, &r);
}

int
main(void)
{
	static const size_t lengths[] = { 16, 37, 256, 300, 896, 2048, 5120 };
	static struct bench b;
	size_t i;

	random_seed("cuda norm");
	bench_open(&b);
	for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		test_norm(&b, lengths[i], i % 2, 1 + i % 3 / 2 * 3);
		test_norm(&b, lengths[i], 1, 4);
		test_silu(&b, lengths[i], 1);
		test_silu(&b, lengths[i], 4);
	}
	test_floats(&b);
	bench_close(&b);
	return done_testing();
}
