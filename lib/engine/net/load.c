/* SPDX-License-Identifier: ISC */
/* load.c - binds weights to tensors by name; checks shapes and types. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "gguf/adapter.h"
#include "engine/net/lora.h"

struct name { char s[96]; };

static struct name
full_name(long layer, const char *name)
{
	struct name n;

	if (layer < 0)
		snprintf(n.s, sizeof n.s, "%s", name);
	else
		snprintf(n.s, sizeof n.s, "blk.%ld.%s", layer, name);
	return n;
}

int
qwen_has_tensor(const struct qwen_loader *ld, const char *name)
{
	return qwen_gguf_find_tensor(ld->g,
	    full_name(ld->layer, name).s) != NULL;
}

static void *
own(struct qwen_loader *ld, void *(*alloc)(size_t, size_t), size_t n,
    size_t size)
{
	struct qwen_net *m = ld->m;
	void *p = NULL;

	if (qwen_grow(&m->owned, &m->cap_owned, m->n_owned + 1,
	    sizeof *m->owned) < 0 || (p = alloc(n, size)) == NULL)
		ld->rc = qwen_oom(ld->err);
	else
		m->owned[m->n_owned++] = p;
	return p;
}

void *
qwen_load_memory(struct qwen_loader *ld, size_t n, size_t size)
{
	return own(ld, qwen_alloc, n, size);
}

void *
qwen_load_large(struct qwen_loader *ld, size_t n, size_t size)
{
	return own(ld, qwen_alloc_large, n, size);
}

/*
 * Returns the tensor if it has this shape (trailing ones do not count) and a
 * supported type; else NULL, and rc is -1.
 */
static const struct qwen_gguf_tensor *
look(struct qwen_loader *ld, const char *name, size_t n0, size_t n1, size_t n2)
{
	struct name full = full_name(ld->layer, name);
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(ld->g,
	    full.s);
	const uint64_t ne[4] = { n0, n1, n2, 1 };
	int n_dims = n2 > 1 ? 3 : n1 > 1 ? 2 : 1;
	const struct qwen_quant *q;
	const char *type;

	ld->rc = -1;
	if (t == NULL) {
		qwen_fail(ld->err, QWEN_EFORMAT, "tensor %s is missing",
		    full.s);
		return NULL;
	}
	q = qwen_quant_find(t->type);
	type = qwen_ggml_name(t->type);
	if (memcmp(t->ne, ne, sizeof ne) != 0)
		qwen_fail(ld->err, QWEN_EFORMAT,
		    "tensor %s is %s, should be %s", full.s,
		    qwen_shape_text(t->ne, n_dims).s,
		    qwen_shape_text(ne, n_dims).s);
	else if (q == NULL)
		qwen_fail(ld->err, QWEN_EUNSUP, "tensor %s has type %s, which "
		    "this library cannot compute with", full.s,
		    type != NULL ? type : "unknown");
	else if (q->kind == QWEN_QUANT_FLOAT &&
	    (uintptr_t)t->data % q->block_bytes != 0)
		qwen_fail(ld->err, QWEN_EUNSUP,
		    "tensor %s is not aligned to %u bytes", full.s,
		    q->block_bytes);
	else
		ld->rc = 0;
	return ld->rc == 0 ? t : NULL;
}

/* The same; NULL after an error. With ld->wrong set, reports each error. */
static const struct qwen_gguf_tensor *
find(struct qwen_loader *ld, const char *name, size_t n0, size_t n1, size_t n2)
{
	const struct qwen_gguf_tensor *t;

	if (ld->rc < 0)
		return NULL;
	t = look(ld, name, n0, n1, n2);
	if (t != NULL || ld->wrong == NULL)
		return t;
	t = qwen_gguf_find_tensor(ld->g, full_name(ld->layer, name).s);
	ld->wrong(ld, t != NULL && qwen_quant_find(t->type) == NULL ? t : NULL);
	ld->rc = 0;
	return NULL;
}

/* Returns "<name>.<suffix>" for "<name>.weight". */
static struct name
beside(const char *name, const char *suffix)
{
	struct name n;

	snprintf(n.s, sizeof n.s, "%.*s.%s",
	    (int)(strrchr(name, '.') - name), name, suffix);
	return n;
}

static void
load_beside(struct qwen_loader *ld, const float **v, const char *name,
    const char *suffix, size_t n)
{
	struct name other = beside(name, suffix);

	*v = NULL;
	if (qwen_has_tensor(ld, other.s))
		qwen_load_vector(ld, v, other.s, n);
}

void
qwen_load_weight(struct qwen_loader *ld, struct qwen_weight *w,
    const char *name, size_t n_in, size_t n_out, size_t n_expert)
{
	const struct qwen_gguf_tensor *t = find(ld, name, n_in, n_out,
	    n_expert > 0 ? n_expert : 1);

	if (t == NULL)
		return;
	w->data = t->data;
	w->part = t->part;
	w->quant = qwen_quant_find(t->type);
	ld->m->used[t->type] = 1;
	w->purpose = ld->purpose;
	w->operand = qwen_operand_of(w->quant, n_in, ld->m->numerics);
	ld->m->operands[w->operand] = 1;
	w->n_in = n_in;
	w->n_out = n_out;
	w->row_bytes = qwen_quant_row_bytes(t->type, n_in);
	w->expert_bytes = n_expert > 0 ? w->row_bytes * n_out : 0;
	w->bias = NULL;
	load_beside(ld, &w->scale, name, "scale", n_expert > 0 ? n_expert : 1);
	if (n_expert == 0)
		load_beside(ld, &w->bias, name, "bias", n_out);
	qwen_lora_load(ld, w, full_name(ld->layer, name).s, n_expert);
}

struct qwen_weight
qwen_weight_rows(const struct qwen_weight *w, size_t from, size_t n)
{
	struct qwen_weight part = *w;

	if (w->data == NULL)	/* not loaded */
		return part;
	part.data += from * w->row_bytes;
	part.n_out = n;
	if (w->bias != NULL)
		part.bias += from;
	part.lora_at += from;
	return part;
}

void
qwen_load_vector(struct qwen_loader *ld, const float **v, const char *name,
    size_t n)
{
	const struct qwen_gguf_tensor *t = find(ld, name, n, 1, 1);
	float *own;

	if (t == NULL)
		return;
	*v = t->data;
	if (t->type == QT_F32)
		return;
	if ((own = qwen_load_memory(ld, n, sizeof *own)) != NULL)
		ld->rc = qwen_quant_dequantize(t->type, t->data, own, n,
		    ld->err);
	*v = own;
}
