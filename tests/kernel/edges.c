/* SPDX-License-Identifier: ISC */
/*
 * edges.c - every matmul variant of this CPU: it accesses no memory outside
 * weights, activations and results, and a scale that is not finite makes
 * exactly its own row not finite.
 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../tap.h"
#include "random.h"
#include "variants.h"

#define MAX_TOK 13

static const size_t shapes[][3] = {	/* n_in, rows, tokens */
	{ 256, 1, 1 }, { 256, 39, 1 }, { 256, 39, 5 }, { 512, 64, 13 },
	{ 768, 33, 2 }, { 2304, 32, 6 }, { 32, 7, 3 }, { 96, 5, 4 },
	{ 288, 34, 7 }, { 17, 5, 6 }, { 1, 3, 2 },
};

#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* ---- memory between two pages that cannot be touched */

struct fenced {
	unsigned char	*map;
	size_t		 n_map;
	unsigned char	*p;
};

/* n bytes that end (or begin) at a forbidden page. */
static void
fence(struct fenced *f, size_t n, int at_end)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t inner = (n + page - 1) / page * page;

	f->n_map = inner + 2 * page;
	f->map = mmap(NULL, f->n_map, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->map == MAP_FAILED || mprotect(f->map, page, PROT_NONE) != 0 ||
	    mprotect(f->map + page + inner, page, PROT_NONE) != 0)
		abort();
	f->p = f->map + page + (at_end ? inner - n : 0);
}

static void
unfence(struct fenced *f)
{
	munmap(f->map, f->n_map);
}

static sigjmp_buf back;

static void
jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* ---- a product */

struct product {
	struct fenced		 w, x, y;
	const void		*xp[MAX_TOK];
	float			*yp[MAX_TOK];
	struct qwen_matmul	 m;
};

/* Random bytes with scales that are finite. */
static void
fill_w(const struct qwen_quant *q, unsigned char *w, size_t n_block)
{
	size_t i, j;

	for (i = 0; i < n_block; i++, w += q->block_bytes) {
		for (j = 0; j < q->block_bytes; j++)
			w[j] = (unsigned char)random_u32();
		for (j = 0; !qwen_quant_finite(q, w) && j < q->block_bytes; j++)
			w[j] &= 0xbb;
	}
}

static void
set_up(struct product *p, const struct qwen_quant *q, unsigned numerics,
    const size_t *shape, int at_end)
{
	size_t n_in = shape[0], n_out = shape[1], n_tok = shape[2], t, i;
	size_t row = qwen_quant_row_bytes(q->type, n_in);
	size_t groups = QWEN_Q8_GROUPS(n_in);
	enum qwen_operand as = qwen_operand_of(q, n_in, numerics);
	size_t x_bytes = as == QWEN_AS_F32 ? n_in * sizeof(float) :
	    as == QWEN_AS_BF16 ? n_in * sizeof(uint16_t) :
	    groups * sizeof(struct qwen_q8);
	struct qwen_kernels plain;
	float *x = malloc(n_in * sizeof *x);

	if (x == NULL)
		abort();
	fence(&p->w, row * n_out, at_end);
	fence(&p->x, x_bytes * n_tok, at_end);
	fence(&p->y, n_out * n_tok * sizeof(float), at_end);
	fill_w(q, p->w.p, row / q->block_bytes * n_out);
	qwen_kernels_init(&plain, 0, numerics);
	for (t = 0; t < n_tok; t++) {
		for (i = 0; i < n_in; i++)
			x[i] = t % 3 == 2 ? 0.0f : random_float();
		if (as == QWEN_AS_F32)
			memcpy(p->x.p + t * x_bytes, x, x_bytes);
		else if (as == QWEN_AS_BF16)
			plain.vec->run.vec->to_bf16((void *)(p->x.p +
			    t * x_bytes), x, n_in);
		else
			plain.vec->run.vec->quantize((void *)(p->x.p +
			    t * x_bytes), x, n_in);
		p->xp[t] = p->x.p + t * x_bytes;
		p->yp[t] = (float *)(void *)p->y.p + t * n_out;
	}
	p->m = (struct qwen_matmul){ .w = p->w.p, .row_bytes = row,
	    .n_in = n_in, .quant = q, .x = p->xp, .y = p->yp,
	    .n_tok = n_tok, .r0 = 0, .r1 = n_out };
	free(x);
}

static void
tear_down(struct product *p)
{
	unfence(&p->w);
	unfence(&p->x);
	unfence(&p->y);
}

/* ---- the two checks */

/* Has it nothing to do with rows of this length? */
static int
leaves(const struct qwen_kernel *k, const struct qwen_quant *q, size_t n_in)
{
	return n_in % q->block_len != 0 ||
	    (variant_is_bf16(k) && n_in % 32 != 0);
}

/* The shape at which it strays, or N_SHAPES. */
static size_t
strays(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	static volatile size_t i;
	static struct product p;
	static volatile int at_end;

	for (i = 0; i < N_SHAPES; i++) {
		if (leaves(k, q, shapes[i][0]))
			continue;
		for (at_end = 0; at_end < 2; at_end++) {
			set_up(&p, q, variant_numerics(k), shapes[i], at_end);
			if (sigsetjmp(back, 1) != 0)
				return i;
			variant_multiply(k, p.m);
			tear_down(&p);
		}
	}
	return i;
}

/* Put a bad number in a random block of row r; what says it is bad. */
static int
spoil(const struct qwen_quant *q, unsigned char *row, size_t n_block)
{
	unsigned char *b = row + random_u32() % n_block * q->block_bytes;
	unsigned bits = random_u32() % 2 ? 0xff80 : 0x7fc0, i;
	size_t at;

	if (q->type == QT_F32 || q->type == QT_BF16) {
		at = q->type == QT_F32 ? 2 : 0;
		b[at] = (unsigned char)bits;
		b[at + 1] = (unsigned char)(bits >> 8);
		return !qwen_quant_finite(q, b);
	}
	if (q->type == QT_MXFP4) {
		*b = (unsigned char)(253 + random_u32() % 3);
		return 1;
	}
	if (q->type == QT_IQ1_M) {	/* an f16 in four high nibbles */
		for (i = 0; i < 4; i++)
			b[49 + 2 * i] |= 0xf0;
		return !qwen_quant_finite(q, b);
	}
	/* wherever the f16 is that makes it bad: NaN or infinity */
	for (at = 0; at + 1 < q->block_bytes; at += 2) {
		unsigned char keep[2] = { b[at], b[at + 1] };

		b[at] = bits & 1 ? 1 : 0;
		b[at + 1] = bits & 0x8000 ? 0xfc : 0x7e;
		if (!qwen_quant_finite(q, b) && random_u32() % 2)
			return 1;
		b[at] = keep[0];
		b[at + 1] = keep[1];
	}
	return !qwen_quant_finite(q, b);
}

/* One row spoiled: does it show in all tokens, and only there? */
static int
shows(const struct qwen_kernel *k, const struct product *p, size_t r,
    const float *want)
{
	size_t n_out = p->m.r1, t, i;
	const struct qwen_quant *q = p->m.quant;
	size_t n_block = p->m.row_bytes / q->block_bytes;
	unsigned char *row = p->w.p + r * p->m.row_bytes;
	unsigned char *keep = malloc(p->m.row_bytes);
	int good = 1;

	if (keep == NULL)
		abort();
	memcpy(keep, row, p->m.row_bytes);
	while (!spoil(q, row, n_block))
		;
	variant_multiply(k, p->m);
	for (t = 0; t < p->m.n_tok; t++) {
		for (i = 0; i < n_out; i++) {
			const float *y = &p->yp[t][i];

			good &= i == r ? !isfinite(*y) :
			    memcmp(y, want + t * n_out + i, sizeof *y) == 0;
		}
	}
	memcpy(row, keep, p->m.row_bytes);
	free(keep);
	return good;
}

static size_t
hides(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	struct product p;
	size_t i, r, n;
	float *want;
	int good = 1;

	for (i = 0; good && i < N_SHAPES; i++) {
		if (leaves(k, q, shapes[i][0]))
			continue;
		set_up(&p, q, variant_numerics(k), shapes[i], 1);
		n = shapes[i][1] * shapes[i][2];
		if ((want = malloc(n * sizeof *want)) == NULL)
			abort();
		variant_multiply(k, p.m);
		memcpy(want, p.y.p, n * sizeof *want);
		for (r = 0; good && r < shapes[i][1]; r += 1 + r / 4)
			good = shows(k, &p, r, want);
		free(want);
		tear_down(&p);
		if (!good)
			return i;
	}
	return i;
}

static void
check(const struct qwen_kernel *k, const struct qwen_quant *q)
{
	const char *op = variant_op(k), *name = qwen_ggml_name(q->type);
	char what[80];
	size_t i;

	snprintf(what, sizeof what, "%s %s %s", op, name, k->name);
	random_seed(what);
	i = strays(k, q);
	ok(i == N_SHAPES, "%s %s %s stays within its arrays%s", op, name,
	    k->name, i == N_SHAPES ? "" : ", not for");
	if (i < N_SHAPES) {
		printf("# n_in %zu, rows %zu, tokens %zu\n", shapes[i][0],
		    shapes[i][1], shapes[i][2]);
		return;
	}
	if (q->type == QT_NVFP4)	/* it has no bad scale */
		return;
	i = hides(k, q);
	ok(i == N_SHAPES, "%s %s %s: a bad scale spoils its row", op, name,
	    k->name);
	if (i < N_SHAPES)
		printf("# n_in %zu, rows %zu, tokens %zu\n", shapes[i][0],
		    shapes[i][1], shapes[i][2]);
}

int
main(void)
{
	struct sigaction sa = { .sa_handler = jump };
	unsigned have = variant_cpu();
	uint32_t type;
	size_t i;

	sigaction(SIGSEGV, &sa, NULL);
	sigaction(SIGBUS, &sa, NULL);
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
