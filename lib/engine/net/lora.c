/* SPDX-License-Identifier: ISC */
/* lora.c - loads adapters: for each weight, its additions in the form of products. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/net/lora.h"

struct qwen_loras {
	struct qwen_adapter_file *v;
	size_t			 n;
	struct qwen_pool	*pool;		/* copies matrices */
	uint64_t		 bytes;		/* of copied matrices */
	pthread_mutex_t		 lock;		/* protects fp */
	struct qwen_fp		*fp;		/* [n]; NULL until computed */
};

int
qwen_loras_open(struct qwen_net *m, const struct qwen_model_opts *opts,
    struct qwen_pool *pool, struct qwen_err *err)
{
	struct qwen_loras *l;
	size_t i;

	if (opts == NULL || opts->n_adapters == 0)
		return 0;
	l = qwen_alloc(1, sizeof *l);
	if (l == NULL)
		return qwen_oom(err);
	if ((l->v = qwen_alloc(opts->n_adapters, sizeof *l->v)) == NULL ||
	    pthread_mutex_init(&l->lock, NULL) != 0) {
		free(l->v);
		free(l);
		return qwen_oom(err);
	}
	m->loras = l;
	l->pool = pool;
	l->n = opts->n_adapters;
	for (i = 0; i < l->n; i++) {
		if (qwen_adapter_open(&l->v[i], &opts->adapters[i], m->gguf,
		    err) < 0)
			return -1;
	}
	return 0;
}

void
qwen_loras_close(struct qwen_loras *l)
{
	size_t i;

	if (l == NULL)
		return;
	for (i = 0; i < l->n; i++)
		qwen_adapter_fini(&l->v[i]);
	pthread_mutex_destroy(&l->lock);
	free(l->fp);
	free(l->v);
	free(l);
}

size_t
qwen_loras_n(const struct qwen_net *m)
{
	return m->loras != NULL ? m->loras->n : 0;
}

const struct qwen_adapter_file *
qwen_loras_get(const struct qwen_net *m, size_t i)
{
	return &m->loras->v[i];
}

uint64_t
qwen_loras_bytes(const struct qwen_net *m)
{
	return m->loras != NULL ? m->loras->bytes : 0;
}

size_t
qwen_loras_width(const struct qwen_net *m)
{
	size_t i, n = 0;

	for (i = 0; i < qwen_loras_n(m); i++)
		n += m->loras->v[i].rank;
	return n;
}

int
qwen_loras_fingerprints(const struct qwen_net *m,
    int (*make)(const struct qwen_gguf *, struct qwen_fp *, struct qwen_err *),
    const struct qwen_fp **out, struct qwen_err *err)
{
	struct qwen_loras *l = m->loras;
	struct qwen_fp *fp;
	size_t i;
	int rc = 0;

	pthread_mutex_lock(&l->lock);
	if (l->fp == NULL) {
		if ((fp = qwen_alloc(l->n, sizeof *fp)) == NULL)
			rc = qwen_oom(err);
		for (i = 0; rc == 0 && i < l->n; i++)
			rc = make(l->v[i].g, &fp[i], err);
		if (rc == 0)
			l->fp = fp;
		else
			free(fp);
	}
	*out = l->fp;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ----------------------------------------------------------------- matrices */

/* A task copies ROWS rows of a matrix, checks them, and transposes those of B. */
enum { ROWS = 64 };

struct copy {
	const struct qwen_gguf_tensor	*t;
	size_t				 n_in, n_row;	/* of a matrix */
	const struct qwen_quant		*quant;
	size_t				 row_bytes;
	float				*to;		/* NULL: only check */
	int				 turned;	/* transposed, as B is stored */
	size_t				 size;		/* numbers of a copied matrix */
	float				*row;		/* [threads][n_in] */
	atomic_int			 bad;
};

static void
do_copy(void *arg, size_t item, int thread)
{
	struct copy *c = arg;
	size_t per = (c->n_row + ROWS - 1) / ROWS, e = item / per;
	size_t r = item % per * ROWS, end = r + ROWS, i;
	float *row = c->row + (size_t)thread * c->n_in, *to;

	for (; r < end && r < c->n_row; r++) {
		qwen_quant_values(c->quant, (const unsigned char *)c->t->data +
		    (e * c->n_row + r) * c->row_bytes, c->n_in, row);
		for (i = 0; i < c->n_in; i++) {
			if (!isfinite(row[i]))
				atomic_store(&c->bad, 1);
		}
		if (c->to == NULL)
			continue;
		to = c->to + e * c->size + (c->turned ?
		    qwen_low_at(c->n_in, r) : r * c->n_in);
		for (i = 0; i < c->n_in; i++)
			to[c->turned ? i * QWEN_LOW_ROWS : i] = row[i];
	}
}

/* Checks a tensor; returns an f32 copy if wanted.  NULL and rc -1 on errors. */
static const float *
copy_rows(struct qwen_loader *ld, const struct qwen_gguf_tensor *t, int wanted,
    int turned)
{
	struct qwen_pool *pool = ld->m->loras->pool;
	struct copy c = { .t = t, .n_in = (size_t)t->ne[0],
	    .n_row = (size_t)t->ne[1], .quant = qwen_quant_find(t->type),
	    .row_bytes = qwen_quant_row_bytes(t->type, t->ne[0]) };
	size_t n = (size_t)t->ne[2];

	c.turned = turned;
	c.size = turned ? qwen_low_size(c.n_in, c.n_row) :
	    c.n_row * c.n_in;
	c.row = qwen_alloc((size_t)qwen_pool_threads(pool) * c.n_in,
	    sizeof *c.row);
	if (c.row == NULL)
		ld->rc = qwen_oom(ld->err);
	else if (wanted && (c.to = qwen_load_large(ld, n * c.size,
	    sizeof *c.to)) != NULL)
		ld->m->loras->bytes += n * c.size * sizeof *c.to;
	if (ld->rc == 0)
		qwen_pool_run(pool, do_copy, &c, (c.n_row + ROWS - 1) / ROWS *
		    n);
	free(c.row);
	if (ld->rc == 0 && atomic_load(&c.bad))
		ld->rc = qwen_fail(ld->err, QWEN_ENUMERIC, "tensor %s has a "
		    "value that is NaN or infinite", t->name);
	return c.to;
}

/* Binds A to the mapping, or to an f32 copy if the kernels need one. */
static void
load_a(struct qwen_loader *ld, struct qwen_weight *w,
    const struct qwen_gguf_tensor *t)
{
	const struct qwen_quant *q = qwen_quant_find(t->type);
	uint32_t type = t->type;
	const float *own;

	w->data = t->data;
	if (q->kind != QWEN_QUANT_FLOAT ||
	    (uintptr_t)t->data % q->block_bytes != 0) {
		type = QT_F32;
		own = copy_rows(ld, t, 1, 0);
		w->data = (const unsigned char *)own;
	} else
		copy_rows(ld, t, 0, 0);
	w->quant = qwen_quant_find(type);
	w->operand = QWEN_AS_F32;
	w->n_in = (size_t)t->ne[0];
	w->n_out = (size_t)t->ne[1];
	w->row_bytes = qwen_quant_row_bytes(type, t->ne[0]);
	if (t->ne[2] > 1)
		w->expert_bytes = w->n_out * w->row_bytes;
}

static void
load_one(struct qwen_loader *ld, struct qwen_lora *l,
    const struct qwen_adapter_pair *p)
{
	l->rank = p->rank;
	l->n_out = (size_t)p->b->ne[1];
	l->b_expert = p->b->ne[2] > 1 ? qwen_low_size(l->rank, l->n_out) :
	    0;
	l->scale = p->scale;
	load_a(ld, &l->a, p->a);
	if (ld->rc == 0)
		l->b = copy_rows(ld, p->b, 1, 1);
}

/* Checks that the types of A and B are supported. */
static int
check_types(const struct qwen_adapter_pair *p, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = qwen_quant_find(p->a->type) ==
	    NULL ? p->a : p->b;

	if (qwen_quant_find(t->type) != NULL)
		return 0;
	return qwen_fail(err, QWEN_EUNSUP, "tensor %s has type %s, which this "
	    "library cannot compute with", t->name, qwen_ggml_name(t->type));
}

void
qwen_lora_load(struct qwen_loader *ld, struct qwen_weight *w,
    const char *tensor, size_t n_expert)
{
	struct qwen_loras *l = ld->m->loras;
	const uint64_t ne[4] = { w->n_in, w->n_out, n_expert > 0 ? n_expert :
	    1, 1 };
	struct qwen_lora_set *set = NULL;
	struct qwen_adapter_pair p;
	size_t i;
	int rc;

	w->lora = NULL;
	w->lora_at = 0;
	if (l == NULL || ld->g != ld->m->gguf)
		return;
	for (i = 0; ld->rc == 0 && i < l->n; i++) {
		rc = qwen_adapter_find(&l->v[i], tensor, ne, &p, ld->err);
		if (rc < 0)
			ld->rc = -1;
		if (rc <= 0)
			continue;
		if (set == NULL && (set = qwen_load_memory(ld, 1, sizeof *set +
		    l->n * sizeof *set->v)) == NULL)
			return;
		if ((ld->rc = check_types(&p, ld->err)) == 0 &&
		    l->v[i].scale != 0) {
			load_one(ld, &set->v[set->n], &p);
			set->width += set->v[set->n++].rank;
		}
		if (ld->rc < 0)
			qwen_adapter_fail(&l->v[i], ld->err);
	}
	if (ld->rc == 0 && set != NULL && set->n > 0)
		w->lora = set;
}

int
qwen_loras_check(const struct qwen_net *m, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < qwen_loras_n(m); i++) {
		if (qwen_adapter_check(&m->loras->v[i], m->gguf,
		    m->hp.n_layer, err) < 0)
			return -1;
	}
	return 0;
}
