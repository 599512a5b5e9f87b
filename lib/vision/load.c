/* SPDX-License-Identifier: ISC */
/*
 * load.c - an mmproj file to an encoder.  gguf/mmproj.h reads its keys and has the
 * list of its tensors; they are taken here in the order of that list.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "gguf/mmproj.h"
#include "gguf/type.h"
#include "vision/encoder.h"

/* A file on its way: its keys, and the number of the next tensor. */
struct loading {
	struct qwen_vision	*v;
	struct qwen_mmproj	 m;
	size_t			 next;
	struct qwen_err		*err;
};

/* Returns the next tensor; NULL with an error if its data cannot be used. */
static const struct qwen_gguf_tensor *
next_tensor(struct loading *l)
{
	const struct qwen_gguf_tensor *t;
	struct qwen_mmproj_tensor name;
	const struct qwen_quant *q;

	qwen_mmproj_tensor(&l->m, l->next++, &name);
	t = qwen_gguf_find_tensor(l->v->gguf, name.name);
	q = qwen_quant_find(t->type);
	if (q->kind == QWEN_QUANT_FLOAT &&
	    (uintptr_t)t->data % q->block_bytes != 0) {
		qwen_fail(l->err, QWEN_EUNSUP, "tensor %s is not aligned to %u "
		    "bytes", name.name, q->block_bytes);
		return NULL;
	}
	return t;
}

/* Returns memory that lives as long as the encoder. */
static float *
own(struct loading *l, size_t n)
{
	struct qwen_vision *v = l->v;
	float *p;

	if (qwen_grow(&v->owned, &v->cap_owned, v->n_owned + 1,
	    sizeof *v->owned) < 0 ||
	    (p = qwen_alloc_large(n, sizeof *p)) == NULL) {
		qwen_oom(l->err);
		return NULL;
	}
	v->owned[v->n_owned++] = p;
	return p;
}

/* Takes n numbers, as f32. */
static int
load_numbers(struct loading *l, size_t n, const float **out)
{
	const struct qwen_gguf_tensor *t = next_tensor(l);
	float *p;

	if (t == NULL)
		return -1;
	*out = t->data;
	if (t->type == QT_F32)
		return 0;
	if ((p = own(l, n)) == NULL)
		return -1;
	qwen_quant_values(qwen_quant_find(t->type), t->data, n, p);
	*out = p;
	return 0;
}

static int
load_norm(struct loading *l, size_t n, struct qwen_vision_norm *out)
{
	out->n = n;
	return load_numbers(l, n, &out->w) < 0 || load_numbers(l, n,
	    &out->b) < 0 ? -1 : 0;
}

static int
load_matrix(struct loading *l, size_t n_in, size_t n_out,
    struct qwen_vision_matrix *out)
{
	const struct qwen_gguf_tensor *t = next_tensor(l);

	if (t == NULL)
		return -1;
	*out = (struct qwen_vision_matrix){ .data = t->data, .n_in = n_in,
	    .n_out = n_out, .quant = qwen_quant_find(t->type),
	    .row_bytes = qwen_quant_row_bytes(t->type, n_in) };
	return load_numbers(l, n_out, &out->bias);
}

/* Adds the kernels of both frames: a still image is two equal ones. */
static int
load_kernel(struct loading *l)
{
	size_t D = l->m.n_embd, n = 3 * (size_t)l->m.patch * l->m.patch, i;
	const struct qwen_gguf_tensor *t[2];
	float *sum, *second;

	if ((t[0] = next_tensor(l)) == NULL ||
	    (t[1] = next_tensor(l)) == NULL || (sum = own(l, D * n)) == NULL)
		return -1;
	if ((second = qwen_alloc_large(D * n, sizeof *second)) == NULL)
		return qwen_oom(l->err);
	qwen_quant_values(qwen_quant_find(t[0]->type), t[0]->data, D * n, sum);
	qwen_quant_values(qwen_quant_find(t[1]->type), t[1]->data, D * n,
	    second);
	for (i = 0; i < D * n; i++)
		sum[i] += second[i];
	free(second);
	l->v->embed = (struct qwen_vision_matrix){ .n_in = n, .n_out = D,
	    .data = (const unsigned char *)sum,
	    .quant = qwen_quant_find(QT_F32), .row_bytes = n * sizeof *sum };
	return load_numbers(l, D, &l->v->embed.bias);
}

static int
load_block(struct loading *l, struct qwen_vision_block *b)
{
	size_t D = l->m.n_embd, F = l->m.n_ff;

	return load_norm(l, D, &b->norm) < 0 ||
	    load_matrix(l, D, 3 * D, &b->qkv) < 0 ||
	    load_matrix(l, D, D, &b->out) < 0 ||
	    load_norm(l, D, &b->mlp.norm) < 0 ||
	    load_matrix(l, D, F, &b->mlp.up) < 0 ||
	    load_matrix(l, F, D, &b->mlp.down) < 0 ? -1 : 0;
}

/* Takes a merger whose norm is over n numbers. */
static int
load_merger(struct loading *l, size_t n, struct qwen_vision_mlp *m)
{
	size_t wide = PER_TOKEN * (size_t)l->m.n_embd;

	return load_norm(l, n, &m->norm) < 0 ||
	    load_matrix(l, wide, wide, &m->up) < 0 ||
	    load_matrix(l, wide, l->m.n_out, &m->down) < 0 ? -1 : 0;
}

/* Takes all tensors. */
static int
load_tensors(struct loading *l)
{
	struct qwen_vision *v = l->v;
	size_t D = l->m.n_embd, i, k = 0;

	if (load_kernel(l) < 0 ||
	    load_numbers(l, v->side * v->side * D, &v->position) < 0)
		return -1;
	for (i = 0; i < l->m.n_layer; i++) {
		if (load_block(l, &v->block[i]) < 0)
			return -1;
	}
	for (i = 0; i < l->m.n_layer; i++) {
		if (!l->m.deepstack[i])
			continue;
		v->block[i].deep = &v->deep[k++];
		if (load_merger(l, PER_TOKEN * D, v->block[i].deep) < 0)
			return -1;
	}
	return load_merger(l, D, &v->merger);
}

static void
set_sizes(struct qwen_vision *v, const struct qwen_mmproj *m)
{
	struct qwen_vision_info *f = &v->info;

	f->n_embd = m->n_out;
	f->n_deepstack = m->n_deepstack;
	f->n_row = f->n_embd * (1 + f->n_deepstack);
	f->unit = MERGE * m->patch;
	f->n_layer = m->n_layer;
	f->n_embd_vision = m->n_embd;
	f->n_ff = m->n_ff;
	f->n_head = m->n_head;
	v->patch = m->patch;
	v->side = m->side;
	v->d = m->n_embd / m->n_head;
	v->d_pad = (v->d + LANES - 1) / LANES * LANES;
	v->eps = m->eps;
	memcpy(v->mean, m->mean, sizeof v->mean);
	memcpy(v->std, m->std, sizeof v->std);
}

int
qwen_vision_load(struct qwen_vision *v, struct qwen_err *err)
{
	struct loading l = { .v = v, .err = err };
	struct qwen_str arch = { "", 0 };

	if (qwen_gguf_get_str(v->gguf, "general.architecture", &arch, err) < 0)
		return -1;
	if (!qwen_str_is(arch, QWEN_MMPROJ_ARCH))
		return qwen_fail(err, QWEN_EUNSUP, "this is a file of the "
		    "architecture \"%.*s\", and no encoder of images: give the "
		    "mmproj file", (int)(arch.len < 40 ? arch.len : 40),
		    arch.s);
	if (qwen_mmproj_read(&l.m, v->gguf, err) < 0 ||
	    qwen_mmproj_check(&l.m, v->gguf, err) < 0)
		return -1;
	set_sizes(v, &l.m);
	v->block = qwen_alloc(l.m.n_layer, sizeof *v->block);
	v->deep = qwen_alloc(l.m.n_deepstack + 1, sizeof *v->deep);
	if (v->block == NULL || v->deep == NULL)
		return qwen_oom(err);
	return load_tensors(&l);
}
