/* SPDX-License-Identifier: ISC */
/* load.c - tensors by name into weights: shapes and types are checked here. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"

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

/* The tensor with this shape (trailing ones do not count), or NULL. */
static const struct qwen_gguf_tensor *
find(const struct qwen_model *m, const char *name, const uint64_t ne[3],
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(m->gguf, name);

	if (t == NULL) {
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is missing", name);
		return NULL;
	}
	if (t->ne[0] != ne[0] || t->ne[1] != ne[1] || t->ne[2] != ne[2] ||
	    t->ne[3] != 1) {
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is %llu x %llu x %llu,"
		    " should be %llu x %llu x %llu", name,
		    (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
		    (unsigned long long)t->ne[2], (unsigned long long)ne[0],
		    (unsigned long long)ne[1], (unsigned long long)ne[2]);
		return NULL;
	}
	return t;
}

static const struct qwen_quant *
quant_of(const struct qwen_gguf_tensor *t, struct qwen_err *err)
{
	const struct qwen_quant *q = qwen_quant_find(t->type);
	const char *name = qwen_quant_name(t->type);

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
	uint64_t ne[3] = { n_in, n_out, n_expert > 0 ? n_expert : 1 };
	const struct qwen_gguf_tensor *t = find(m, full.s, ne, err);

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
	uint64_t ne[3] = { n, 1, 1 };
	const struct qwen_gguf_tensor *t = find(m, full.s, ne, err);
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
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	*v = own;
	return qwen_quant_dequantize(t->type, t->data, own, n, err);
}
