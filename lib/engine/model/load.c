/* SPDX-License-Identifier: ISC */
/* load.c - tensors by name into weights: shapes and types are checked here. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"

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
qwen_has_tensor(const struct qwen_model *m, long layer, const char *name)
{
	return qwen_gguf_find_tensor(m->gguf, full_name(layer, name).s) != NULL;
}

void *
qwen_model_own(struct qwen_model *m, size_t n, size_t size)
{
	void **list, *p = qwen_alloc(n, size);

	if (p == NULL)
		return NULL;
	list = realloc(m->owned, (m->n_owned + 1) * sizeof *list);
	if (list == NULL) {
		free(p);
		return NULL;
	}
	m->owned = list;
	m->owned[m->n_owned++] = p;
	return p;
}

struct shape { char s[96]; };

/* "256x512x6", at least as many dimensions as asked for. */
static struct shape
shape_text(const uint64_t ne[4], int n)
{
	struct shape t = { "" };
	int i, at = 0;

	for (i = 3; i >= n && ne[i] == 1; i--)
		;
	for (n = i + 1, i = 0; i < n; i++)
		at += snprintf(t.s + at, sizeof t.s - (size_t)at, "%s%llu",
		    i > 0 ? "x" : "", (unsigned long long)ne[i]);
	return t;
}

/* The tensor with this shape (trailing ones do not count), or NULL. */
static const struct qwen_gguf_tensor *
find(const struct qwen_model *m, const char *name, size_t n0, size_t n1,
    size_t n2, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(m->gguf, name);
	const uint64_t ne[4] = { n0, n1, n2, 1 };
	int n_dims = n2 > 1 ? 3 : n1 > 1 ? 2 : 1;

	if (t == NULL) {
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is missing", name);
		return NULL;
	}
	if (memcmp(t->ne, ne, sizeof ne) != 0) {
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is %s, should be %s",
		    name, shape_text(t->ne, n_dims).s,
		    shape_text(ne, n_dims).s);
		return NULL;
	}
	return t;
}

static const struct qwen_quant *
quant_of(const struct qwen_gguf_tensor *t, struct qwen_err *err)
{
	const struct qwen_quant *q = qwen_quant_find(t->type);
	const char *name = qwen_ggml_name(t->type);

	if (q == NULL) {
		qwen_fail(err, QWEN_EUNSUP,
		    "tensor %s has type %s: this library cannot compute with it",
		    t->name, name != NULL ? name : "unknown");
		return NULL;
	}
	if (q->kind == QWEN_QUANT_FLOAT &&
	    (uintptr_t)t->data % q->block_bytes != 0) {
		qwen_fail(err, QWEN_EUNSUP, "tensor %s is not aligned to %u "
		    "bytes", t->name, q->block_bytes);
		return NULL;
	}
	return q;
}

int
qwen_load_weight(struct qwen_model *m, struct qwen_weight *w, long layer,
    const char *name, size_t n_in, size_t n_out, size_t n_expert,
    struct qwen_err *err)
{
	struct name full = full_name(layer, name);
	const struct qwen_gguf_tensor *t = find(m, full.s, n_in, n_out,
	    n_expert > 0 ? n_expert : 1, err);

	if (t == NULL || (w->quant = quant_of(t, err)) == NULL)
		return -1;
	w->data = t->data;
	w->matmul = m->kernels.matmul[t->type];
	w->gemm = m->kernels.gemm[t->type];
	w->n_in = n_in;
	w->n_out = n_out;
	w->row_bytes = qwen_quant_row_bytes(t->type, n_in);
	w->expert_bytes = w->row_bytes * n_out;
	return 0;
}

int
qwen_load_vector(struct qwen_model *m, const float **v, long layer,
    const char *name, size_t n, struct qwen_err *err)
{
	struct name full = full_name(layer, name);
	const struct qwen_gguf_tensor *t = find(m, full.s, n, 1, 1, err);
	const struct qwen_quant *q;
	float *own;

	if (t == NULL || (q = quant_of(t, err)) == NULL)
		return -1;
	if (q->type == QT_F32) {
		*v = t->data;
		return 0;
	}
	own = qwen_model_own(m, n, sizeof *own);
	if (own == NULL)
		return qwen_oom(err);
	*v = own;
	return qwen_quant_dequantize(t->type, t->data, own, n, err);
}
