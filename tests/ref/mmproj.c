/* SPDX-License-Identifier: ISC */
/* mmproj.c - writes an encoder's file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/type.h"
#include "gguf/write.h"
#include "engine/quant/quant.h"
#include "mmproj.h"
#include "synth/synth.h"

enum { PATCH = 16, MAX = 256 };

struct maker {
	const struct mmproj	*p;
	struct qwen_gguf_writer	*w;
	struct qwen_text	*out;
	uint64_t		 rng;
	struct { uint32_t type; size_t n; } tensor[MAX];
	size_t			 n;
};

static int
is_left_out(const struct maker *m, const char *name)
{
	return m->p->without != NULL && strcmp(name, m->p->without) == 0;
}

static void
put(struct maker *m, const char *name, uint32_t type, uint64_t a, uint64_t b,
    uint64_t c, uint64_t d)
{
	uint64_t ne[4] = { a, b, c, d };

	if (is_left_out(m, name))
		return;
	if (m->p->narrow != NULL && strcmp(name, m->p->narrow) == 0)
		ne[1] /= 2;
	if (m->p->other != NULL && strcmp(name, m->p->other) == 0)
		type = QT_Q4_0;
	if (ne[0] % qwen_ggml_block_len(type) != 0)
		type = QT_F16;
	qwen_gguf_put_tensor(m->w, name, type, d > 1 ? 4 : b > 1 ? 2 : 1, ne);
	m->tensor[m->n].type = type;
	m->tensor[m->n++].n = (size_t)(ne[0] * ne[1] * ne[2] * ne[3]);
}

/* A matrix with its bias; b 0: a norm. */
static void
pair(struct maker *m, const char *name, uint64_t a, uint64_t b)
{
	char full[80];

	snprintf(full, sizeof full, "%s.weight", name);
	put(m, full, b > 0 ? m->p->type : QT_F32, a, b > 0 ? b : 1, 1, 1);
	snprintf(full, sizeof full, "%s.bias", name);
	put(m, full, QT_F32, b > 0 ? b : a, 1, 1, 1);
}

static void
key_u32(struct maker *m, const char *key, uint64_t v)
{
	if (!is_left_out(m, key))
		qwen_gguf_put_u32(m->w, key, (uint32_t)v);
}

static void
put_three(struct maker *m, const char *key)
{
	unsigned char half[12] = { 0, 0, 0, 0x3f, 0, 0, 0, 0x3f, 0, 0, 0, 0x3f };
	struct qwen_gguf_kv kv = { .key = { key, strlen(key) },
	    .type = QWEN_GGUF_ARRAY, .elem = QWEN_GGUF_FLOAT32, .n = 3,
	    .data = half, .bytes = sizeof half };

	if (!is_left_out(m, key))
		qwen_gguf_put_kv(m->w, &kv);
}

static void
put_keys(struct maker *m)
{
	const struct mmproj *p = m->p;
	unsigned char deep[64] = { 0 };
	size_t i;

	for (i = 0; i < p->n_layer; i++)
		deep[i] = p->deep >> i & 1;
	qwen_gguf_put_str(m->w, "general.architecture", p->arch != NULL ?
	    p->arch : "clip");
	qwen_gguf_put_str(m->w, "general.type", "mmproj");
	qwen_gguf_put_bool(m->w, "clip.has_vision_encoder", !p->is_false);
	qwen_gguf_put_str(m->w, "clip.projector_type", p->projector != NULL ?
	    p->projector : "qwen3vl_merger");
	qwen_gguf_put_bool(m->w, "clip.use_gelu", 1);
	key_u32(m, "clip.vision.image_size", p->side * PATCH);
	key_u32(m, "clip.vision.patch_size", PATCH);
	key_u32(m, "clip.vision.embedding_length", p->n_embd);
	key_u32(m, "clip.vision.feed_forward_length", p->n_ff);
	key_u32(m, "clip.vision.block_count", p->n_layer);
	key_u32(m, "clip.vision.attention.head_count", p->n_head);
	key_u32(m, "clip.vision.projection_dim", p->n_out);
	if (!is_left_out(m, "clip.vision.attention.layer_norm_epsilon"))
		qwen_gguf_put_f32(m->w,
		    "clip.vision.attention.layer_norm_epsilon", 1e-6f);
	if (p->merge > 0)
		key_u32(m, "clip.vision.spatial_merge_size", p->merge);
	put_three(m, "clip.vision.image_mean");
	put_three(m, "clip.vision.image_std");
	if (p->deep != 0)
		qwen_gguf_put_bools(m->w, "clip.vision.is_deepstack_layers",
		    deep, p->n_layer);
}

static void
put_block(struct maker *m, size_t i)
{
	const struct mmproj *p = m->p;
	static const char *const name[] = { "ln1", "ln2", "attn_qkv",
	    "attn_out", "ffn_up", "ffn_down" };
	const size_t D = p->n_embd, in[] = { D, D, D, D, D, p->n_ff };
	const size_t out[] = { 0, 0, 3 * D, D, p->n_ff, D };
	char full[64];
	size_t k;

	for (k = 0; k < 6; k++) {
		snprintf(full, sizeof full, "v.blk.%zu.%s", i, name[k]);
		pair(m, full, in[k], out[k]);
	}
	if ((p->deep >> i & 1) == 0)
		return;
	snprintf(full, sizeof full, "v.deepstack.%zu.norm", i);
	pair(m, full, 4 * D, 0);
	snprintf(full, sizeof full, "v.deepstack.%zu.fc1", i);
	pair(m, full, 4 * D, 4 * D);
	snprintf(full, sizeof full, "v.deepstack.%zu.fc2", i);
	pair(m, full, 4 * D, p->n_out);
}

static void
put_tensors(struct maker *m)
{
	const struct mmproj *p = m->p;
	uint32_t kernel = p->type == QT_F32 ? QT_F32 : QT_F16;
	size_t D = p->n_embd, i;

	put(m, "v.patch_embd.weight", kernel, PATCH, PATCH, 3, D);
	put(m, "v.patch_embd.weight.1", kernel, PATCH, PATCH, 3, D);
	put(m, "v.patch_embd.bias", QT_F32, D, 1, 1, 1);
	put(m, "v.position_embd.weight", QT_F32, D, p->side * p->side, 1, 1);
	for (i = 0; i < p->n_layer; i++)
		put_block(m, i);
	pair(m, "v.post_ln", D, 0);
	pair(m, "mm.0", 4 * D, 4 * D);
	pair(m, "mm.2", 4 * D, p->n_out);
}

static void
put_data(struct maker *m)
{
	static const char zero[32];
	size_t i, bytes;
	void *p;

	for (i = 0; i < m->n; i++) {
		bytes = m->tensor[i].n / qwen_ggml_block_len(m->tensor[i].type)
		    * qwen_ggml_block_bytes(m->tensor[i].type);
		if ((p = malloc(bytes)) == NULL || qwen_gguf_random(
		    m->tensor[i].type, p, m->tensor[i].n, 0.1, &m->rng,
		    NULL) < 0)
			abort();
		qwen_text_add(m->out, p, bytes);
		qwen_text_add(m->out, zero, (32 - bytes % 32) % 32);
		free(p);
	}
}

void
mmproj_make(struct qwen_text *out, const struct mmproj *p)
{
	struct maker m = { .p = p, .out = out, .rng = 77 };
	struct qwen_err err;

	if (qwen_gguf_writer_new(&m.w, &err) < 0)
		abort();
	put_keys(&m);
	put_tensors(&m);
	if (qwen_gguf_make_head(m.w, out, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	put_data(&m);
	qwen_gguf_writer_free(m.w);
	if (out->failed)
		abort();
}
