/* SPDX-License-Identifier: ISC */
/* load.c - the keys and tensors of an mmproj file, checked. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "gguf/type.h"
#include "vision/encoder.h"

#define V "clip.vision."

enum {
	MAX_WIDTH = 1 << 16,	/* of a row */
	MAX_LAYERS = 1024,
	MAX_PATCH = 64,
	MAX_SIDE = 1024,
};

/* ------------------------------------------------------------------- keys */

/* Reads a key from 1 to most; missing: an error, or `otherwise' if above 0. */
static int
get_size(const struct qwen_vision *v, const char *key, uint64_t most,
    uint64_t otherwise, size_t *out, struct qwen_err *err)
{
	uint64_t n = otherwise;

	if (qwen_gguf_get_u64(v->gguf, key, 0, &n, err) < 0)
		return -1;
	if (n == 0 && qwen_gguf_find(v->gguf, key) == NULL)
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing", key);
	if (n == 0 || n > most)
		return qwen_fail(err, QWEN_EFORMAT, "key %s is %llu: it must be "
		    "1 to %llu", key, (unsigned long long)n,
		    (unsigned long long)most);
	*out = (size_t)n;
	return 0;
}

/* Reads three finite numbers; those of a deviation are above 0. */
static int
get_three(const struct qwen_vision *v, const char *key, int above,
    float out[3], struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(v->gguf, key);
	double x;
	size_t i;

	if (kv == NULL || kv->n != 3)
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing or has "
		    "not three numbers", key);
	for (i = 0; i < 3; i++) {
		if (qwen_gguf_get_f64(v->gguf, key, i, &x, err) < 0)
			return -1;
		out[i] = (float)x;
		if (!isfinite(out[i]) || (above && out[i] <= 0.0f))
			return qwen_fail(err, QWEN_EFORMAT, "key %s has a "
			    "number that no image can have", key);
	}
	return 0;
}

/* Checks that the file is an encoder of the one kind. */
static int
check_kind(const struct qwen_vision *v, struct qwen_err *err)
{
	static const char *const keys[2] = { V "projector_type",
	    "clip.projector_type" };
	struct qwen_str arch = { "", 0 }, kind = { "", 0 };
	int i, has = 0, gelu = 1;

	if (qwen_gguf_get_str(v->gguf, "general.architecture", &arch, err) < 0)
		return -1;
	if (!qwen_str_is(arch, "clip"))
		return qwen_fail(err, QWEN_EUNSUP, "this is a file of the "
		    "architecture \"%.*s\", and no encoder of images: give the "
		    "mmproj file", (int)(arch.len < 40 ? arch.len : 40),
		    arch.s);
	if (qwen_gguf_get_bool(v->gguf, "clip.has_vision_encoder", 0, &has,
	    err) < 0 || qwen_gguf_get_bool(v->gguf, "clip.use_gelu", 0, &gelu,
	    err) < 0)
		return -1;
	if (!has)
		return qwen_fail(err, QWEN_EUNSUP, "key clip.has_vision_encoder "
		    "is not true: the file encodes no images");
	for (i = 0; i < 2 && kind.len == 0; i++) {
		if (qwen_gguf_get_str(v->gguf, keys[i], &kind, err) < 0)
			return -1;
	}
	if (!qwen_str_is(kind, "qwen3vl_merger"))
		return qwen_fail(err, QWEN_EUNSUP, "key clip.projector_type is "
		    "\"%.*s\": only qwen3vl_merger, of Qwen3-VL and later "
		    "models, is known", (int)(kind.len < 40 ? kind.len : 40),
		    kind.s);
	return gelu ? 0 : qwen_fail(err, QWEN_EUNSUP,
	    "key clip.use_gelu is false: only GELU is known");
}

static int
read_sizes(struct qwen_vision *v, struct qwen_err *err)
{
	struct qwen_vision_info *f = &v->info;
	size_t image, merge;

	if (get_size(v, V "spatial_merge_size", MAX_SIDE, MERGE, &merge,
	    err) < 0)
		return -1;
	if (merge != MERGE)
		return qwen_fail(err, QWEN_EUNSUP, "key " V "spatial_merge_size "
		    "is %zu: only %d is known", merge, MERGE);
	if (get_size(v, V "patch_size", MAX_PATCH, 0, &v->patch, err) < 0 ||
	    get_size(v, V "image_size", MAX_PATCH * MAX_SIDE, 0, &image,
	    err) < 0 ||
	    get_size(v, V "embedding_length", MAX_WIDTH, 0, &f->n_embd_vision,
	    err) < 0 ||
	    get_size(v, V "feed_forward_length", MAX_WIDTH, 0, &f->n_ff,
	    err) < 0 ||
	    get_size(v, V "block_count", MAX_LAYERS, 0, &f->n_layer, err) < 0 ||
	    get_size(v, V "attention.head_count", MAX_WIDTH, 0, &f->n_head,
	    err) < 0 ||
	    get_size(v, V "projection_dim", MAX_WIDTH, 0, &f->n_embd, err) < 0)
		return -1;
	if (f->n_embd_vision % (4 * f->n_head) != 0)
		return qwen_fail(err, QWEN_EFORMAT, "an embedding of %zu numbers "
		    "cannot be shared out to %zu heads, in fours",
		    f->n_embd_vision, f->n_head);
	if (image % v->patch != 0 || image / v->patch > MAX_SIDE)
		return qwen_fail(err, QWEN_EFORMAT, "key " V "image_size is %zu, "
		    "and not up to %d patches of %zu", image, MAX_SIDE,
		    v->patch);
	v->side = image / v->patch;
	f->unit = MERGE * v->patch;
	v->d = f->n_embd_vision / f->n_head;
	v->d_pad = (v->d + LANES - 1) / LANES * LANES;
	return 0;
}

static int
read_keys(struct qwen_vision *v, struct qwen_err *err)
{
	struct qwen_vision_info *f = &v->info;
	double eps = 0;

	if (check_kind(v, err) < 0 || read_sizes(v, err) < 0 ||
	    qwen_gguf_get_f64(v->gguf, V "attention.layer_norm_epsilon", 0,
	    &eps, err) < 0 ||
	    get_three(v, V "image_mean", 0, v->mean, err) < 0 ||
	    get_three(v, V "image_std", 1, v->std, err) < 0 ||
	    qwen_gguf_get_u64(v->gguf, V "image_min_pixels", 0,
	    &f->min_pixels, err) < 0 ||
	    qwen_gguf_get_u64(v->gguf, V "image_max_pixels", 0,
	    &f->max_pixels, err) < 0)
		return -1;
	v->eps = (float)eps;
	if (!(v->eps > 0.0f && v->eps < 1.0f))
		return qwen_fail(err, QWEN_EFORMAT, "key " V "attention."
		    "layer_norm_epsilon is missing, or not between 0 and 1");
	return 0;
}

/* ---------------------------------------------------------------- tensors */

struct name { char s[64]; };

__attribute__((format(printf, 1, 2)))
static struct name
name_of(const char *fmt, ...)
{
	struct name n;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(n.s, sizeof n.s, fmt, ap);
	va_end(ap);
	return n;
}

/* Returns the tensor if it has this shape and one of the types; else NULL. */
static const struct qwen_gguf_tensor *
find(const struct qwen_vision *v, const char *name, const uint64_t ne[4],
    int q8_0, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(v->gguf,
	    name);
	const struct qwen_quant *q;
	const char *type;

	if (t == NULL) {
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is missing", name);
		return NULL;
	}
	type = qwen_ggml_name(t->type);
	q = qwen_quant_find(t->type);
	if (memcmp(t->ne, ne, sizeof t->ne) != 0)
		qwen_fail(err, QWEN_EFORMAT, "tensor %s is %llux%llux%llux%llu, "
		    "should be %llux%llux%llux%llu", name,
		    (unsigned long long)t->ne[0], (unsigned long long)t->ne[1],
		    (unsigned long long)t->ne[2], (unsigned long long)t->ne[3],
		    (unsigned long long)ne[0], (unsigned long long)ne[1],
		    (unsigned long long)ne[2], (unsigned long long)ne[3]);
	else if (q == NULL || (q->kind != QWEN_QUANT_FLOAT &&
	    !(q8_0 && q->type == QT_Q8_0)))
		qwen_fail(err, QWEN_EUNSUP, "tensor %s has type %s, and not "
		    "F32, F16, BF16%s: give an mmproj file of these", name,
		    type != NULL ? type : "unknown", q8_0 ? " or Q8_0" : "");
	else if (q->kind == QWEN_QUANT_FLOAT &&
	    (uintptr_t)t->data % q->block_bytes != 0)
		qwen_fail(err, QWEN_EUNSUP, "tensor %s is not aligned to %u "
		    "bytes", name, q->block_bytes);
	else
		return t;
	return NULL;
}

/* Returns memory that lives as long as the encoder. */
static float *
own(struct qwen_vision *v, size_t n, struct qwen_err *err)
{
	float *p;

	if (qwen_grow(&v->owned, &v->cap_owned, v->n_owned + 1,
	    sizeof *v->owned) < 0 ||
	    (p = qwen_alloc_large(n, sizeof *p)) == NULL) {
		qwen_oom(err);
		return NULL;
	}
	v->owned[v->n_owned++] = p;
	return p;
}

/* Loads n numbers in rows of `width', as f32. */
static int
load_numbers(struct qwen_vision *v, const char *name, size_t width, size_t n,
    const float **out, struct qwen_err *err)
{
	const uint64_t ne[4] = { width, n / width, 1, 1 };
	const struct qwen_gguf_tensor *t = find(v, name, ne, 0, err);
	float *p;

	if (t == NULL)
		return -1;
	*out = t->data;
	if (t->type == QT_F32)
		return 0;
	if ((p = own(v, n, err)) == NULL)
		return -1;
	qwen_quant_values(qwen_quant_find(t->type), t->data, n, p);
	*out = p;
	return 0;
}

static int
load_norm(struct qwen_vision *v, const char *name, size_t n,
    struct qwen_vision_norm *out, struct qwen_err *err)
{
	out->n = n;
	return load_numbers(v, name_of("%s.weight", name).s, n, n, &out->w,
	    err) < 0 || load_numbers(v, name_of("%s.bias", name).s, n, n,
	    &out->b, err) < 0 ? -1 : 0;
}

static int
load_matrix(struct qwen_vision *v, const char *name, size_t n_in, size_t n_out,
    struct qwen_vision_matrix *out, struct qwen_err *err)
{
	const uint64_t ne[4] = { n_in, n_out, 1, 1 };
	const struct qwen_gguf_tensor *t = find(v, name_of("%s.weight",
	    name).s, ne, 1, err);

	if (t == NULL)
		return -1;
	*out = (struct qwen_vision_matrix){ .data = t->data, .n_in = n_in,
	    .n_out = n_out, .quant = qwen_quant_find(t->type),
	    .row_bytes = qwen_quant_row_bytes(t->type, n_in) };
	return load_numbers(v, name_of("%s.bias", name).s, n_out, n_out,
	    &out->bias, err);
}

/* Adds the kernels of both frames: a still image is two equal ones. */
static int
load_kernel(struct qwen_vision *v, struct qwen_err *err)
{
	size_t D = v->info.n_embd_vision, p = v->patch, n = 3 * p * p, i;
	const uint64_t ne[4] = { p, p, 3, D };
	const struct qwen_gguf_tensor *t[2];
	float *sum, *second;

	if ((t[0] = find(v, "v.patch_embd.weight", ne, 0, err)) == NULL ||
	    (t[1] = find(v, "v.patch_embd.weight.1", ne, 0, err)) == NULL ||
	    (sum = own(v, D * n, err)) == NULL)
		return -1;
	if ((second = qwen_alloc_large(D * n, sizeof *second)) == NULL)
		return qwen_oom(err);
	qwen_quant_values(qwen_quant_find(t[0]->type), t[0]->data, D * n, sum);
	qwen_quant_values(qwen_quant_find(t[1]->type), t[1]->data, D * n,
	    second);
	for (i = 0; i < D * n; i++)
		sum[i] += second[i];
	free(second);
	v->embed = (struct qwen_vision_matrix){ .n_in = n, .n_out = D,
	    .data = (const unsigned char *)sum,
	    .quant = qwen_quant_find(QT_F32), .row_bytes = n * sizeof *sum };
	return load_numbers(v, "v.patch_embd.bias", D, D, &v->embed.bias, err);
}

static int
load_block(struct qwen_vision *v, size_t i, struct qwen_err *err)
{
	struct qwen_vision_block *b = &v->block[i];
	size_t D = v->info.n_embd_vision, F = v->info.n_ff;
	struct name n = name_of("v.blk.%zu.", i);

#define AT(x) name_of("%s" x, n.s).s
	return load_norm(v, AT("ln1"), D, &b->norm, err) < 0 ||
	    load_matrix(v, AT("attn_qkv"), D, 3 * D, &b->qkv, err) < 0 ||
	    load_matrix(v, AT("attn_out"), D, D, &b->out, err) < 0 ||
	    load_norm(v, AT("ln2"), D, &b->mlp.norm, err) < 0 ||
	    load_matrix(v, AT("ffn_up"), D, F, &b->mlp.up, err) < 0 ||
	    load_matrix(v, AT("ffn_down"), F, D, &b->mlp.down, err) < 0 ?
	    -1 : 0;
}

static int
load_merger(struct qwen_vision *v, const char *norm, size_t n, const char *up,
    const char *down, struct qwen_vision_mlp *m, struct qwen_err *err)
{
	size_t wide = PER_TOKEN * v->info.n_embd_vision;

	return load_norm(v, norm, n, &m->norm, err) < 0 ||
	    load_matrix(v, up, wide, wide, &m->up, err) < 0 ||
	    load_matrix(v, down, wide, v->info.n_embd, &m->down, err) < 0 ?
	    -1 : 0;
}

/* Loads the mergers of the layers that the file lists. */
static int
load_deepstack(struct qwen_vision *v, struct qwen_err *err)
{
	const char *key = V "is_deepstack_layers";
	const struct qwen_gguf_kv *kv = qwen_gguf_find(v->gguf, key);
	size_t wide = PER_TOKEN * v->info.n_embd_vision, i;
	struct name n;
	int on;

	if (kv != NULL && kv->n != v->info.n_layer)
		return qwen_fail(err, QWEN_EFORMAT, "key %s has %llu entries for "
		    "%zu layers", key, (unsigned long long)kv->n,
		    v->info.n_layer);
	for (i = 0; kv != NULL && i < v->info.n_layer; i++) {
		if (qwen_gguf_get_bool(v->gguf, key, i, &on, err) < 0)
			return -1;
		if (!on)
			continue;
		n = name_of("v.deepstack.%zu.", i);
		v->block[i].deep = &v->deep[v->info.n_deepstack++];
		if (load_merger(v, AT("norm"), wide, AT("fc1"), AT("fc2"),
		    v->block[i].deep, err) < 0)
			return -1;
	}
	return 0;
#undef AT
}

int
qwen_vision_load(struct qwen_vision *v, struct qwen_err *err)
{
	size_t D, i;

	if (read_keys(v, err) < 0)
		return -1;
	D = v->info.n_embd_vision;
	v->block = qwen_alloc(v->info.n_layer, sizeof *v->block);
	v->deep = qwen_alloc(v->info.n_layer, sizeof *v->deep);
	if (v->block == NULL || v->deep == NULL)
		return qwen_oom(err);
	if (load_kernel(v, err) < 0 || load_numbers(v,
	    "v.position_embd.weight", D, v->side * v->side * D, &v->position,
	    err) < 0)
		return -1;
	for (i = 0; i < v->info.n_layer; i++) {
		if (load_block(v, i, err) < 0)
			return -1;
	}
	if (load_deepstack(v, err) < 0)
		return -1;
	v->info.n_row = v->info.n_embd * (1 + v->info.n_deepstack);
	return load_merger(v, "v.post_ln", D, "mm.0", "mm.2", &v->merger, err);
}
