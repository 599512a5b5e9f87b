/* SPDX-License-Identifier: ISC */
/* lora_load.c - adapters: their files, and what they have for each matrix. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "engine/model/lora.h"

#define SUFFIX_A ".lora_a"
#define SUFFIX_B ".lora_b"
enum { SUFFIX = sizeof SUFFIX_A - 1, TENSOR_MAX = 128 };

/* A file. */
struct adapter {
	struct qwen_gguf	*g;
	double			 scale, alpha;
	unsigned char		*used;	/* [tensors] */
	size_t			 n_matrices, rank;	/* the highest */
};

struct qwen_loras {
	struct adapter		*v;
	size_t			 n;
	uint64_t		 bytes;		/* of our own memory */
	pthread_mutex_t		 lock;		/* of these: */
	struct qwen_fp		*fp;		/* [n]; or NULL, not yet */
};

static int
fail_in(const struct adapter *a, struct qwen_err *err)
{
	return qwen_fail_in(err, "adapter %s", qwen_gguf_path(a->g, 0));
}

/* -------------------------------------------------------------------- files */

/* The text of a key, "" if it is not there. */
static int
get_text(const struct qwen_gguf *g, const char *key, char out[64],
    struct qwen_err *err)
{
	struct qwen_str s = { "", 0 };

	if (qwen_gguf_get_str(g, key, &s, err) < 0)
		return -1;
	snprintf(out, 64, "%.*s", (int)(s.len < 40 ? s.len : 40), s.s);
	return 0;
}

/* Is it an adapter of a kind that is known? */
static int
check_kind(const struct qwen_gguf *g, struct qwen_err *err)
{
	char arch[64], type[64], kind[64];

	if (get_text(g, "general.architecture", arch, err) < 0 ||
	    get_text(g, "general.type", type, err) < 0 ||
	    get_text(g, "adapter.type", kind, err) < 0)
		return -1;
	if (strcmp(arch, "controlvector") == 0)
		return qwen_fail(err, QWEN_EUNSUP, "a control vector: adapters "
		    "of this kind are not supported, LoRA is");
	if (strcmp(type, "adapter") != 0)
		return qwen_fail(err, QWEN_EFORMAT, "no adapter: general.type "
		    "is \"%s\", not \"adapter\"%s", type,
		    strcmp(type, "model") == 0 || type[0] == '\0' ?
		    "; a model is for -m" : "");
	if (strcmp(kind, "lora") != 0)
		return qwen_fail(err, QWEN_EUNSUP, "an adapter of type \"%s\": "
		    "only \"lora\" is supported", kind);
	if (qwen_gguf_find(g, "adapter.alora.invocation_tokens") != NULL)
		return qwen_fail(err, QWEN_EUNSUP, "an activated LoRA, which "
		    "works from certain tokens on: not supported");
	return 0;
}

static int
has_suffix(const char *name, const char *suffix)
{
	size_t n = strlen(name);

	return n > SUFFIX && strcmp(name + n - SUFFIX, suffix) == 0;
}

/* The other tensor of a pair. */
static const struct qwen_gguf_tensor *
other(const struct qwen_gguf *g, const char *name)
{
	char s[TENSOR_MAX];
	size_t n = strlen(name) - SUFFIX;

	snprintf(s, sizeof s, "%.*s%s", (int)n, name, has_suffix(name,
	    SUFFIX_A) ? SUFFIX_B : SUFFIX_A);
	return qwen_gguf_find_tensor(g, s);
}

/* All tensors are pairs. */
static int
check_pairs(struct adapter *a, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	size_t i, rank;

	for (i = 0; i < qwen_gguf_n_tensors(a->g); i++) {
		t = qwen_gguf_tensor(a->g, i);
		if (!has_suffix(t->name, SUFFIX_A) &&
		    !has_suffix(t->name, SUFFIX_B))
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s is "
			    "neither .lora_a nor .lora_b of a matrix", t->name);
		if (other(a->g, t->name) == NULL)
			return qwen_fail(err, QWEN_EFORMAT, "tensor %s is "
			    "there without its %s", t->name,
			    has_suffix(t->name, SUFFIX_A) ? SUFFIX_B :
			    SUFFIX_A);
		if (qwen_quant_find(t->type) == NULL)
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s has "
			    "type %s: this library cannot compute with it",
			    t->name, qwen_ggml_name(t->type));
		if (!has_suffix(t->name, SUFFIX_B))
			continue;
		rank = (size_t)t->ne[0];
		a->n_matrices++;
		a->rank = rank > a->rank ? rank : a->rank;
	}
	if (a->n_matrices == 0)
		return qwen_fail(err, QWEN_EFORMAT, "an adapter without "
		    "tensors");
	return 0;
}

static int
open_one(struct qwen_model *m, struct adapter *a,
    const struct qwen_adapter *from, struct qwen_err *err)
{
	a->scale = from->scale;
	if (qwen_gguf_open(&a->g, from->path, err) < 0)
		return qwen_fail_in(err, "adapter %s", from->path);
	if (!isfinite(a->scale))
		return qwen_fail(err, QWEN_ERANGE, "adapter %s: its scale is "
		    "not finite", from->path);
	if (check_kind(a->g, err) < 0 ||
	    qwen_check_arch(m, a->g, err) < 0 ||
	    qwen_gguf_get_f64(a->g, "adapter.lora.alpha", 0, &a->alpha,
	    err) < 0 || check_pairs(a, err) < 0)
		return fail_in(a, err);
	if (!isfinite(a->alpha)) {
		qwen_fail(err, QWEN_EFORMAT, "adapter.lora.alpha is not "
		    "finite");
		return fail_in(a, err);
	}
	a->used = qwen_alloc(qwen_gguf_n_tensors(a->g), 1);
	return a->used != NULL ? 0 : qwen_oom(err);
}

int
qwen_loras_open(struct qwen_model *m, const struct qwen_model_opts *opts,
    struct qwen_err *err)
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
	l->n = opts->n_adapters;
	for (i = 0; i < l->n; i++) {
		if (open_one(m, &l->v[i], &opts->adapters[i], err) < 0)
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
	for (i = 0; i < l->n; i++) {
		qwen_gguf_close(l->v[i].g);
		free(l->v[i].used);
	}
	pthread_mutex_destroy(&l->lock);
	free(l->fp);
	free(l->v);
	free(l);
}

size_t
qwen_loras_n(const struct qwen_model *m)
{
	return m->loras != NULL ? m->loras->n : 0;
}

const struct qwen_gguf *
qwen_loras_get(const struct qwen_model *m, size_t i, double *scale,
    size_t *n_matrices, size_t *rank)
{
	const struct adapter *a = &m->loras->v[i];

	*scale = a->scale;
	*n_matrices = a->n_matrices;
	*rank = a->rank;
	return a->g;
}

uint64_t
qwen_loras_bytes(const struct qwen_model *m)
{
	return m->loras != NULL ? m->loras->bytes : 0;
}

size_t
qwen_loras_width(const struct qwen_model *m)
{
	size_t i, n = 0;

	for (i = 0; i < qwen_loras_n(m); i++)
		n += m->loras->v[i].rank;
	return n;
}

int
qwen_loras_fingerprints(const struct qwen_model *m,
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

/* Rows whose numbers are ids: A has a row for each, too. */
static int
is_embedding(const char *tensor)
{
	static const char own[] = "nextn.embed_tokens.weight";
	size_t n = strlen(tensor);

	return strcmp(tensor, "token_embd.weight") == 0 ||
	    (n > sizeof own && strcmp(tensor + n - (sizeof own - 1), own) == 0);
}

/* Does the pair fit a matrix of this shape? */
static int
check_shape(const struct qwen_gguf_tensor *a, const struct qwen_gguf_tensor *b,
    const char *tensor, const uint64_t ne[4], struct qwen_err *err)
{
	int flip = is_embedding(tensor);
	uint64_t rank = a->ne[!flip];

	if (a->ne[flip] == ne[flip] && b->ne[1] == ne[!flip] &&
	    b->ne[0] == rank && rank > 0 && a->ne[2] == ne[2] &&
	    b->ne[2] == ne[2] && a->ne[3] == 1 && b->ne[3] == 1)
		return 0;
	return qwen_fail(err, QWEN_EFORMAT, "tensor %s is %s and its .lora_b "
	    "%s, which is no pair for the model's %s", a->name,
	    qwen_shape_text(a->ne, 2).s, qwen_shape_text(b->ne, 2).s,
	    qwen_shape_text(ne, 2).s);
}

/* Rows of a tensor, checked and, of B, turned; some rows of a matrix an item. */
enum { ROWS = 64 };

struct copy {
	const struct qwen_gguf_tensor	*t;
	size_t				 n_in, n_row;	/* of a matrix */
	const struct qwen_quant		*quant;
	size_t				 row_bytes;
	float				*to;		/* NULL: only look */
	size_t				 by_row, by_column;	/* there */
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
		to = c->to + e * c->n_row * c->n_in + r * c->by_row;
		for (i = 0; i < c->n_in; i++)
			to[i * c->by_column] = row[i];
	}
}

/* A copy as f32 if wanted, turned or not; or NULL, and rc is -1. */
static const float *
copy_rows(struct qwen_loader *ld, const struct qwen_gguf_tensor *t, int wanted,
    int turned)
{
	struct qwen_pool *pool = ld->m->pool;
	struct copy c = { .t = t, .n_in = (size_t)t->ne[0],
	    .n_row = (size_t)t->ne[1], .quant = qwen_quant_find(t->type),
	    .row_bytes = qwen_quant_row_bytes(t->type, t->ne[0]) };
	size_t n = (size_t)t->ne[2];

	c.by_row = turned ? 1 : c.n_in;
	c.by_column = turned ? c.n_row : 1;
	c.row = qwen_alloc((size_t)qwen_pool_threads(pool) * c.n_in,
	    sizeof *c.row);
	if (c.row == NULL)
		ld->rc = qwen_oom(ld->err);
	else if (wanted && (c.to = qwen_load_large(ld, n * c.n_row * c.n_in,
	    sizeof *c.to)) != NULL)
		ld->m->loras->bytes += n * c.n_row * c.n_in * sizeof *c.to;
	if (ld->rc == 0)
		qwen_pool_run(pool, do_copy, &c, (c.n_row + ROWS - 1) / ROWS *
		    n);
	free(c.row);
	if (ld->rc == 0 && atomic_load(&c.bad))
		ld->rc = qwen_fail(ld->err, QWEN_ENUMERIC, "tensor %s has a "
		    "number that is not finite", t->name);
	return c.to;
}

/* A as a weight: where it lies, or widened, if kernels cannot take it there. */
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
	w->matmul = ld->m->kernels.matmul[type];
	w->n_in = (size_t)t->ne[0];
	w->n_out = (size_t)t->ne[1];
	w->row_bytes = qwen_quant_row_bytes(type, t->ne[0]);
	if (t->ne[2] > 1)
		w->expert_bytes = w->n_out * w->row_bytes;
}

static void
load_one(struct qwen_loader *ld, struct qwen_lora *l, const struct adapter *f,
    const struct qwen_gguf_tensor *a, const struct qwen_gguf_tensor *b)
{
	double scale = f->scale;

	l->rank = (size_t)b->ne[0];
	l->n_out = (size_t)b->ne[1];
	l->b_expert = b->ne[2] > 1 ? l->rank * l->n_out : 0;
	if (f->alpha != 0)
		scale = scale * f->alpha / (double)l->rank;
	l->scale = (float)scale;
	if (!isfinite(l->scale)) {
		ld->rc = qwen_fail(ld->err, QWEN_ERANGE, "tensor %s: scale "
		    "and alpha make a number that is not finite", a->name);
		return;
	}
	load_a(ld, &l->a, a);
	if (ld->rc == 0)
		l->b = copy_rows(ld, b, 1, 1);
}

/* A of the pair for a tensor, noted as used; or NULL. */
static const struct qwen_gguf_tensor *
find(struct adapter *f, const char *tensor)
{
	const struct qwen_gguf_tensor *a;
	char name[TENSOR_MAX];
	size_t i;

	snprintf(name, sizeof name, "%s%s", tensor, SUFFIX_A);
	a = qwen_gguf_find_tensor(f->g, name);
	for (i = 0; a != NULL && qwen_gguf_tensor(f->g, i) != a;)
		i++;
	if (a != NULL)
		f->used[i] = 1;
	return a;
}

/* The set for a tensor of this shape. */
static struct qwen_lora_set *
load_set(struct qwen_loader *ld, const char *tensor, const uint64_t ne[4])
{
	struct qwen_loras *l = ld->m->loras;
	const struct qwen_gguf_tensor *a;
	struct qwen_lora_set *set;
	size_t i;

	set = qwen_load_memory(ld, 1, sizeof *set + l->n * sizeof *set->v);
	for (i = 0; ld->rc == 0 && i < l->n; i++) {
		struct adapter *f = &l->v[i];

		if ((a = find(f, tensor)) == NULL)
			continue;
		ld->rc = check_shape(a, other(f->g, a->name), tensor, ne,
		    ld->err);
		if (ld->rc == 0 && f->scale != 0) {
			load_one(ld, &set->v[set->n], f, a,
			    other(f->g, a->name));
			set->width += set->v[set->n++].rank;
		}
		if (ld->rc < 0)
			fail_in(f, ld->err);
	}
	return set;
}

void
qwen_lora_load(struct qwen_loader *ld, struct qwen_weight *w,
    const char *tensor, size_t n_expert)
{
	const struct qwen_loras *l = ld->m->loras;
	const uint64_t ne[4] = { w->n_in, w->n_out, n_expert > 0 ? n_expert :
	    1, 1 };
	struct qwen_lora_set *set;
	size_t i, any = 0;

	w->lora = NULL;
	w->lora_at = 0;
	/* the convolution's taps are no product */
	if (l == NULL || ld->g != ld->m->gguf || ld->rc < 0 ||
	    strstr(tensor, "ssm_conv1d") != NULL)
		return;
	for (i = 0; i < l->n; i++)
		any += find(&l->v[i], tensor) != NULL;
	if (any == 0)
		return;
	set = load_set(ld, tensor, ne);
	if (ld->rc == 0 && set->n > 0)
		w->lora = set;
}

/* A tensor that no weight was loaded for: is it of a block that is not used? */
static int
check_unused(const struct qwen_model *m, const struct adapter *f,
    const struct qwen_gguf_tensor *a, struct qwen_err *err)
{
	char name[TENSOR_MAX];
	const struct qwen_gguf_tensor *t;
	unsigned block;

	snprintf(name, sizeof name, "%.*s", (int)(strlen(a->name) - SUFFIX),
	    a->name);
	t = qwen_gguf_find_tensor(m->gguf, name);
	if (t == NULL)
		return qwen_fail(err, QWEN_EMISMATCH, "it is for another "
		    "model: this one has no tensor %s", name);
	if (sscanf(name, "blk.%u.", &block) == 1 && block >= m->hp.n_layer &&
	    (t->n_dims > 1 || strstr(name, "ffn_gate_inp_shexp") != NULL))
		return check_shape(a, other(f->g, a->name), name, t->ne, err);
	return qwen_fail(err, QWEN_EUNSUP, "tensor %s is for what is no matrix "
	    "that tokens are multiplied with", a->name);
}

int
qwen_loras_check(const struct qwen_model *m, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	size_t i, k;

	for (i = 0; i < qwen_loras_n(m); i++) {
		const struct adapter *f = &m->loras->v[i];

		for (k = 0; (t = qwen_gguf_tensor(f->g, k)) != NULL; k++) {
			if (has_suffix(t->name, SUFFIX_A) && !f->used[k] &&
			    check_unused(m, f, t, err) < 0)
				return fail_in(f, err);
		}
	}
	return 0;
}
