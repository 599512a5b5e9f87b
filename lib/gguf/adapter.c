/* SPDX-License-Identifier: ISC */
/* adapter.c - adapter files: their metadata and tensor pairs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "gguf/adapter.h"
#include "gguf/arch.h"
#include "gguf/gguf.h"

#define SUFFIX_A ".lora_a"
#define SUFFIX_B ".lora_b"
enum { SUFFIX = sizeof SUFFIX_A - 1, TENSOR_MAX = 128 };

struct qwen_shape_text
qwen_shape_text(const uint64_t ne[4], int n)
{
	struct qwen_shape_text t = { "" };
	int i, at = 0;

	for (i = 3; i >= n && ne[i] == 1; i--)
		;
	for (n = i + 1, i = 0; i < n; i++)
		at += snprintf(t.s + at, sizeof t.s - (size_t)at, "%s%llu",
		    i > 0 ? "x" : "", (unsigned long long)ne[i]);
	return t;
}

int
qwen_adapter_fail(const struct qwen_adapter_file *f, struct qwen_err *err)
{
	return qwen_fail_in(err, "adapter %s", qwen_gguf_path(f->g, 0));
}

/* -------------------------------------------------------------------- files */

/* Reads a string key; "" if it is absent. */
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

/* Refuses files that are not adapters of a supported kind. */
static int
check_kind(const struct qwen_gguf *g, struct qwen_err *err)
{
	char arch[64], type[64], kind[64];

	if (get_text(g, "general.architecture", arch, err) < 0 ||
	    get_text(g, "general.type", type, err) < 0 ||
	    get_text(g, "adapter.type", kind, err) < 0)
		return -1;
	if (strcmp(arch, "controlvector") == 0)
		return qwen_fail(err, QWEN_EUNSUP, "a control vector: not "
		    "supported; only LoRA adapters are");
	if (strcmp(type, "adapter") != 0)
		return qwen_fail(err, QWEN_EFORMAT, "not an adapter: "
		    "general.type is \"%s\", not \"adapter\"%s", type,
		    strcmp(type, "model") == 0 || type[0] == '\0' ?
		    "; give a model with -m" : "");
	if (strcmp(kind, "lora") != 0)
		return qwen_fail(err, QWEN_EUNSUP, "adapter type \"%s\" is not "
		    "supported; only \"lora\" is", kind);
	if (qwen_gguf_find(g, "adapter.alora.invocation_tokens") != NULL)
		return qwen_fail(err, QWEN_EUNSUP, "activated LoRA (active "
		    "only after certain tokens) is not supported");
	return 0;
}

/* Refuses an adapter for another architecture. */
static int
check_arch(const struct qwen_gguf *g, const struct qwen_gguf *model,
    struct qwen_err *err)
{
	char mine[64], other[64];

	if (get_text(g, "general.architecture", mine, err) < 0 ||
	    get_text(model, "general.architecture", other, err) < 0)
		return -1;
	if (strcmp(mine, other) == 0)
		return 0;
	return qwen_fail(err, QWEN_EMISMATCH, "for another model: architecture "
	    "is \"%s\", not \"%s\"", mine, other);
}

/*
 * Sets *tiled if value heads are tiled over key heads: by ssm.v_head_reordered,
 * as in Ollama's files, else by the order that converters use for the
 * architecture.
 */
static int
read_order(const struct qwen_gguf *g, int *tiled, struct qwen_err *err)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(g,
	    "ssm.v_head_reordered");
	const struct qwen_arch *a = qwen_arch_find((struct qwen_str){ key.s,
	    strcspn(key.s, ".") });

	*tiled = a == NULL || !a->grouped;
	return qwen_gguf_get_bool(g, key.s, 0, tiled, err);
}

/* Records whether model and adapter order the value heads differently. */
static int
compare_orders(struct qwen_adapter_file *f, const struct qwen_gguf *model,
    struct qwen_err *err)
{
	uint64_t n_key = 0, n_value = 0;
	int mine, its;

	if (qwen_gguf_get_u64(model, qwen_gguf_arch_key(model,
	    "ssm.group_count").s, 0, &n_key, err) < 0 ||
	    qwen_gguf_get_u64(model, qwen_gguf_arch_key(model,
	    "ssm.time_step_rank").s, 0, &n_value, err) < 0 || read_order(f->g,
	    &mine, err) < 0 || read_order(model, &its, err) < 0)
		return -1;
	f->other_order = mine != its && n_key != n_value;
	return 0;
}

/* Returns the other tensor of a pair. */
static const struct qwen_gguf_tensor *
other(const struct qwen_gguf *g, const char *name)
{
	char s[TENSOR_MAX];
	size_t n = strlen(name) - SUFFIX;

	snprintf(s, sizeof s, "%.*s%s", (int)n, name, qwen_ends(name,
	    SUFFIX_A) ? SUFFIX_B : SUFFIX_A);
	return qwen_gguf_find_tensor(g, s);
}

/* Checks that every tensor belongs to a pair. */
static int
check_pairs(struct qwen_adapter_file *f, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	size_t i, rank;

	for (i = 0; i < qwen_gguf_n_tensors(f->g); i++) {
		t = qwen_gguf_tensor(f->g, i);
		if (!qwen_ends(t->name, SUFFIX_A) &&
		    !qwen_ends(t->name, SUFFIX_B))
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s is "
			    "neither the .lora_a nor the .lora_b of a matrix",
			    t->name);
		if (other(f->g, t->name) == NULL)
			return qwen_fail(err, QWEN_EFORMAT, "tensor %s has no "
			    "matching %s", t->name,
			    qwen_ends(t->name, SUFFIX_A) ? SUFFIX_B :
			    SUFFIX_A);
		if (!qwen_ends(t->name, SUFFIX_B))
			continue;
		rank = (size_t)t->ne[0];
		f->n_matrices++;
		f->rank = rank > f->rank ? rank : f->rank;
	}
	if (f->n_matrices == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the adapter has no "
		    "tensors");
	return 0;
}

int
qwen_adapter_open(struct qwen_adapter_file *f, const struct qwen_adapter *a,
    const struct qwen_gguf *model, struct qwen_err *err)
{
	f->scale = a->scale;
	if (qwen_gguf_open(&f->g, a->path, err) < 0)
		return qwen_fail_in(err, "adapter %s", a->path);
	if (check_kind(f->g, err) < 0 || check_arch(f->g, model, err) < 0 ||
	    compare_orders(f, model, err) < 0 ||
	    qwen_gguf_get_f64(f->g, "adapter.lora.alpha", 0, &f->alpha,
	    err) < 0 || check_pairs(f, err) < 0)
		return qwen_adapter_fail(f, err);
	if (!isfinite(f->scale) || !isfinite(f->alpha)) {
		qwen_fail(err, QWEN_ERANGE, "%s is not finite",
		    isfinite(f->scale) ? "adapter.lora.alpha" : "its scale");
		return qwen_adapter_fail(f, err);
	}
	f->used = qwen_alloc(qwen_gguf_n_tensors(f->g), 1);
	return f->used != NULL ? 0 : qwen_oom(err);
}

void
qwen_adapter_fini(struct qwen_adapter_file *f)
{
	qwen_gguf_close(f->g);
	free(f->used);
	f->g = NULL;
	f->used = NULL;
}

/* -------------------------------------------------------------------- pairs */

int
qwen_adapter_by_rows(const char *tensor)
{
	return strcmp(tensor, "token_embd.weight") == 0 ||
	    qwen_ends(tensor, "nextn.embed_tokens.weight");
}

/*
 * Returns 1 if the tensor is not used as a matrix, so that LoRA cannot change
 * it: the taps of a convolution have only the shape of one.
 */
static int
is_no_matrix(const char *tensor)
{
	return strstr(tensor, "ssm_conv1d") != NULL ||
	    strstr(tensor, "norm.") != NULL;
}

/* Checks that the pair fits a matrix of this shape. */
static int
check_shape(const struct qwen_gguf_tensor *a, const struct qwen_gguf_tensor *b,
    const char *tensor, const uint64_t ne[4], struct qwen_err *err)
{
	int flip = qwen_adapter_by_rows(tensor);
	uint64_t rank = a->ne[!flip];

	if (a->ne[flip] == ne[flip] && b->ne[1] == ne[!flip] &&
	    b->ne[0] == rank && rank > 0 && a->ne[2] == ne[2] &&
	    b->ne[2] == ne[2] && a->ne[3] == 1 && b->ne[3] == 1)
		return 0;
	return qwen_fail(err, QWEN_EFORMAT, "tensor %s is %s and its .lora_b "
	    "%s: they do not fit the model's %s", a->name,
	    qwen_shape_text(a->ne, 2).s, qwen_shape_text(b->ne, 2).s,
	    qwen_shape_text(ne, 2).s);
}

/* Computes the scale of the product. */
static int
scale_of(const struct qwen_adapter_file *f, const struct qwen_gguf_tensor *a,
    struct qwen_adapter_pair *p, struct qwen_err *err)
{
	double scale = f->scale;

	if (f->alpha != 0)
		scale = scale * f->alpha / (double)p->rank;
	p->scale = (float)scale;
	if (isfinite(p->scale))
		return 0;
	return qwen_fail(err, QWEN_ERANGE, "tensor %s: its scale and alpha "
	    "give an infinite factor", a->name);
}

/*
 * Refuses matrices whose rows or columns are ordered by value heads, if the
 * orders differ.
 */
static int
check_order(const struct qwen_adapter_file *f, const char *tensor,
    struct qwen_err *err)
{
	if (!f->other_order || (strstr(tensor, ".ssm_") == NULL &&
	    strstr(tensor, ".attn_qkv.") == NULL &&
	    strstr(tensor, ".attn_gate.") == NULL))
		return 0;
	return qwen_fail(err, QWEN_EMISMATCH, "tensor %s orders the value "
	    "heads differently from the model file (ssm.v_head_reordered): "
	    "convert model and adapter with the same program", tensor);
}

int
qwen_adapter_find(struct qwen_adapter_file *f, const char *tensor,
    const uint64_t ne[4], struct qwen_adapter_pair *out, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *a;
	char name[TENSOR_MAX];
	size_t i;

	snprintf(name, sizeof name, "%s%s", tensor, SUFFIX_A);
	a = qwen_gguf_find_tensor(f->g, name);
	if (a == NULL || is_no_matrix(tensor))
		return 0;
	for (i = 0; qwen_gguf_tensor(f->g, i) != a; i++)
		;
	f->used[i] = 1;
	out->a = a;
	out->b = other(f->g, a->name);
	out->rank = (size_t)out->b->ne[0];
	if (check_shape(a, out->b, tensor, ne, err) < 0 ||
	    check_order(f, tensor, err) < 0 ||
	    scale_of(f, a, out, err) < 0)
		return qwen_adapter_fail(f, err);
	return 1;
}

/*
 * Checks a pair that no tensor used: does it belong to a layer that is not
 * loaded?
 */
static int
check_unused(const struct qwen_adapter_file *f, const struct qwen_gguf *model,
    size_t n_layer, const struct qwen_gguf_tensor *a, struct qwen_err *err)
{
	char name[TENSOR_MAX];
	const struct qwen_gguf_tensor *t;
	unsigned block;

	snprintf(name, sizeof name, "%.*s", (int)(strlen(a->name) - SUFFIX),
	    a->name);
	t = qwen_gguf_find_tensor(model, name);
	if (t == NULL)
		return qwen_fail(err, QWEN_EMISMATCH, "for another model: this "
		    "model has no tensor %s", name);
	if (sscanf(name, "blk.%u.", &block) == 1 && block >= n_layer &&
	    !is_no_matrix(name))
		return check_shape(a, other(f->g, a->name), name, t->ne, err);
	return qwen_fail(err, QWEN_EUNSUP, "tensor %s: the model's tensor is "
	    "not a matrix that LoRA can change", a->name);
}

int
qwen_adapter_check(const struct qwen_adapter_file *f,
    const struct qwen_gguf *model, size_t n_layer, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(f->g, i)) != NULL; i++) {
		if (qwen_ends(t->name, SUFFIX_A) && !f->used[i] &&
		    check_unused(f, model, n_layer, t, err) < 0)
			return qwen_adapter_fail(f, err);
	}
	return 0;
}
