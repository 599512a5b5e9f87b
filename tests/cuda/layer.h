/* SPDX-License-Identifier: ISC */
/*
 * layer.h - a layer of random weights on a card and on the plain device, and a
 * pass through it on both.
 */
#ifndef LAYER_H
#define LAYER_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cuda/work.h"
#include "engine/plain/plain.h"
#include "../seed.h"
#include "../tap.h"

static uint64_t random_state;

static inline uint32_t
draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 32);
}

/* From -1 to 1. */
static inline float
draw_number(void)
{
	return (float)draw() * 0x1p-31f - 1.0f;
}

static inline float *
draw_numbers(size_t n)
{
	float *p = malloc(n * sizeof *p);
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = draw_number();
	return p;
}

extern const struct qwen_quant qwen_quant_f32, qwen_quant_f16;

/* n_matrix matrices of random f32. */
static inline struct qwen_weight
draw_weight(size_t n_in, size_t n_out, size_t n_matrix)
{
	return (struct qwen_weight){ .quant = &qwen_quant_f32,
	    .data = (void *)draw_numbers(n_in * n_out * n_matrix),
	    .operand = QWEN_AS_F32, .n_in = n_in, .n_out = n_out,
	    .row_bytes = n_in * sizeof(float),
	    .expert_bytes = n_matrix > 1 ? n_in * n_out * sizeof(float) : 0 };
}

static inline void
free_weight(struct qwen_weight *w)
{
	free((void *)(uintptr_t)w->data);
}

/* The same in f16. */
static inline struct qwen_weight
draw_half(size_t n_in, size_t n_out)
{
	struct qwen_weight w = draw_weight(n_in, n_out, 1);
	const float *from = (const void *)w.data;
	uint16_t *to = malloc(n_in * n_out * sizeof *to);
	size_t i;

	for (i = 0; i < n_in * n_out; i++)
		to[i] = qwen_f32_f16(from[i]);
	free((void *)(uintptr_t)w.data);
	w.data = (void *)to;
	w.quant = &qwen_quant_f16;
	w.row_bytes = n_in * sizeof *to;
	return w;
}

/* Are the bits of n numbers the same?  All NaN are. */
static inline int
same(const float *a, const float *b, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (memcmp(&a[i], &b[i], sizeof *a) != 0 &&
		    !(a[i] != a[i] && b[i] != b[i])) {
			printf("# number %zu: %a, not %a\n", i, (double)a[i],
			    (double)b[i]);
			return 0;
		}
	}
	return 1;
}

/* A pass on both devices, of n rows. */
struct both {
	struct qwen_net		 net;
	struct qwen_arch	 arch;
	unsigned char		 home_plain[8], home_cuda[8];
	struct qwen_plain	 plain;
	struct qwen_cuda	 cuda;
	struct qwen_plain_work	*p;
	struct qwen_cuda_work	*c;
	struct qwen_pass	 pass;
	struct qwen_err		 err;
};

/* The card, device 2, has no layers so far; -1 if there is none. */
static inline int
open_both(struct both *b)
{
	b->net.arch = &b->arch;
	memset(b->home_plain, 1, sizeof b->home_plain);
	memset(b->home_cuda, 2, sizeof b->home_cuda);
	b->plain.r = (struct qwen_resident){ .dev = &qwen_plain_device,
	    .net = &b->net, .home = b->home_plain, .index = 1 };
	b->cuda.r = (struct qwen_resident){ .dev = &qwen_cuda_device,
	    .net = &b->net, .home = b->home_cuda, .index = 2 };
	return qwen_cuda_card_open(&b->cuda.card, 0, &b->err);
}

/* Makes room for the shares of b->pass, and sends them. */
static inline int
begin_pass(struct both *b)
{
	struct qwen_pass *p = &b->pass;
	struct qwen_work *w[2];
	size_t i, n = 0;

	for (i = 0; i < p->n_share; i++)
		n += p->share[i].n;
	p->row = calloc(n, sizeof *p->row);
	p->owner = calloc(n, sizeof *p->owner);
	qwen_pass_number(p);
	if (qwen_plain_device.work_new(&w[0], &b->plain.r, &b->err) < 0 ||
	    qwen_plain_device.fit(w[0], n, p->n_share, 16, &b->err) < 0 ||
	    qwen_cuda_work_new(&w[1], &b->cuda.r, &b->err) < 0 ||
	    qwen_cuda_fit(w[1], n, p->n_share, 16, &b->err) < 0)
		return -1;
	b->p = (struct qwen_plain_work *)(void *)w[0];
	b->c = (struct qwen_cuda_work *)(void *)w[1];
	b->p->p = b->c->p = p;
	qwen_cuda_send(b->c);
	return 0;
}

static inline void
end_pass(struct both *b)
{
	qwen_plain_device.work_free(&b->p->w);
	qwen_cuda_work_free(&b->c->w);
	free(b->pass.row);
	free(b->pass.owner);
}

static inline void
close_both(struct both *b)
{
	size_t i;

	for (i = 0; i < b->cuda.n_owned; i++)
		qwen_cuda_free(b->cuda.card, b->cuda.owned[i]);
	free(b->cuda.owned);
	qwen_cuda_card_close(b->cuda.card);
}

/* Gives both devices the same rows of n numbers. */
static inline void
put_rows(struct both *b, const float *x, float *plain,
    enum qwen_cuda_array array, size_t n)
{
	size_t t;

	for (t = 0; t < b->pass.n; t++) {
		memcpy(plain + t * b->p->width, x + t * n, n * sizeof *x);
		qwen_cuda_put(b->cuda.card, b->c->array[array] +
		    t * b->c->width[array], x + t * n, n * sizeof *x);
	}
}

/* Makes GROUPS_X of XN, as qwen_cuda_norm does. */
static inline void
make_integers(struct both *b)
{
	size_t n = b->net.hp.n_embd;
	cu_ptr groups = b->c->array[QWEN_CUDA_GROUPS];

	b->c->array[QWEN_CUDA_GROUPS] = b->c->array[QWEN_CUDA_GROUPS_X];
	qwen_cuda_quantize(b->c, b->c->array[QWEN_CUDA_XN], n, n, b->pass.n);
	b->c->array[QWEN_CUDA_GROUPS] = groups;
}

/* Do both devices have the same rows? */
static inline int
same_rows(struct both *b, const float *plain, enum qwen_cuda_array array,
    size_t n)
{
	float *x = malloc(n * sizeof *x);
	size_t t;
	int is_same = 1;

	for (t = 0; t < b->pass.n && is_same; t++) {
		qwen_cuda_get(b->cuda.card, x, b->c->array[array] +
		    t * b->c->width[array], n * sizeof *x);
		is_same = same(x, plain + t * b->p->width, n);
	}
	free(x);
	if (!is_same)
		printf("# in row %zu of %zu\n", t - 1, b->pass.n);
	return is_same && b->cuda.card->failed == NULL;
}

#endif
