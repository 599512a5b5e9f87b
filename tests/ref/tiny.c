/* SPDX-License-Identifier: ISC */
/* tiny.c - makes small models of any shape (see tiny.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/half.h"
#include "qwen.h"
#include "qwentext.h"
#include "tiny.h"
#include "synth/synth.h"

#define ALIGN 32

static void
die(const char *what)
{
	fprintf(stderr, "tiny: %s\n", what);
	exit(1);
}

static void *
need(void *old, size_t n)
{
	void *p = realloc(old, n > 0 ? n : 1);

	if (p == NULL)
		die("out of memory");
	return p;
}

/* ---- keys */

static void
full_key(const struct tiny *t, const char *key, char out[80])
{
	if (strncmp(key, "general.", 8) == 0 ||
	    strncmp(key, "tokenizer.", 10) == 0)
		snprintf(out, 80, "%s", key);
	else
		snprintf(out, 80, "%s.%s", t->shape.arch, key);
}

static struct tiny_kv *
find_key(const struct tiny *t, const char *full)
{
	size_t i;

	for (i = 0; i < t->n_kv; i++) {
		if (strcmp(t->kv[i].key, full) == 0)
			return &t->kv[i];
	}
	return NULL;
}

/* Room for n bytes after the type of the value. */
static unsigned char *
set_key(struct tiny *t, const char *key, uint32_t type, size_t n)
{
	char full[80];
	struct tiny_kv *kv;

	full_key(t, key, full);
	kv = find_key(t, full);
	if (kv == NULL) {
		t->kv = need(t->kv, (t->n_kv + 1) * sizeof *t->kv);
		kv = &t->kv[t->n_kv++];
		kv->value = NULL;
		memcpy(kv->key, full, sizeof full);
	}
	kv->n = 4 + n;
	kv->value = need(kv->value, kv->n);
	qwen_put_le32(kv->value, type);
	return kv->value + 4;
}

/* Room for n elements of an array after its head. */
static unsigned char *
set_array(struct tiny *t, const char *key, uint32_t elem, size_t n,
    size_t bytes)
{
	unsigned char *p = set_key(t, key, QWEN_GGUF_ARRAY, 12 + bytes);

	qwen_put_le32(p, elem);
	qwen_put_le64(p + 4, n);
	return p + 12;
}

void
tiny_u32(struct tiny *t, const char *key, uint32_t v)
{
	qwen_put_le32(set_key(t, key, QWEN_GGUF_UINT32, 4), v);
}

void
tiny_u64(struct tiny *t, const char *key, uint64_t v)
{
	qwen_put_le64(set_key(t, key, QWEN_GGUF_UINT64, 8), v);
}

void
tiny_f32(struct tiny *t, const char *key, float v)
{
	qwen_put_le32(set_key(t, key, QWEN_GGUF_FLOAT32, 4),
	    qwen_f32_bits(v));
}

void
tiny_f64(struct tiny *t, const char *key, double v)
{
	uint64_t u;

	memcpy(&u, &v, sizeof u);
	qwen_put_le64(set_key(t, key, QWEN_GGUF_FLOAT64, 8), u);
}

void
tiny_str(struct tiny *t, const char *key, const char *s)
{
	unsigned char *p = set_key(t, key, QWEN_GGUF_STRING, 8 + strlen(s));

	qwen_put_le64(p, strlen(s));
	memcpy(p + 8, s, strlen(s));
}

void
tiny_u32s(struct tiny *t, const char *key, const uint32_t *v, size_t n)
{
	unsigned char *p = set_array(t, key, QWEN_GGUF_UINT32, n, 4 * n);
	size_t i;

	for (i = 0; i < n; i++)
		qwen_put_le32(p + 4 * i, v[i]);
}

void
tiny_i32s(struct tiny *t, const char *key, const int32_t *v, size_t n)
{
	unsigned char *p = set_array(t, key, QWEN_GGUF_INT32, n, 4 * n);
	size_t i;

	for (i = 0; i < n; i++)
		qwen_put_le32(p + 4 * i, (uint32_t)v[i]);
}

void
tiny_bool(struct tiny *t, const char *key, int v)
{
	*set_key(t, key, QWEN_GGUF_BOOL, 1) = (unsigned char)v;
}

void
tiny_bools(struct tiny *t, const char *key, const unsigned char *v, size_t n)
{
	memcpy(set_array(t, key, QWEN_GGUF_BOOL, n, n), v, n);
}

/* The same string n times. */
void
tiny_strs(struct tiny *t, const char *key, const char *s, size_t n)
{
	size_t len = strlen(s), i;
	unsigned char *p = set_array(t, key, QWEN_GGUF_STRING, n,
	    n * (8 + len));

	for (i = 0; i < n; i++, p += 8 + len) {
		qwen_put_le64(p, len);
		memcpy(p + 8, s, len);
	}
}

/* Different ones. */
void
tiny_words(struct tiny *t, const char *key, const char *const *s, size_t n)
{
	size_t bytes = 0, len, i;
	unsigned char *p;

	for (i = 0; i < n; i++)
		bytes += 8 + strlen(s[i]);
	p = set_array(t, key, QWEN_GGUF_STRING, n, bytes);
	for (i = 0; i < n; i++, p += 8 + len) {
		len = strlen(s[i]);
		qwen_put_le64(p, len);
		memcpy(p + 8, s[i], len);
	}
}

void
tiny_drop_key(struct tiny *t, const char *key)
{
	char full[80];
	struct tiny_kv *kv;

	full_key(t, key, full);
	if ((kv = find_key(t, full)) == NULL)
		die(full);
	free(kv->value);
	*kv = t->kv[--t->n_kv];
}

/* ---- weights */

/* Weights about m are F32. */
static void
fill(struct tiny *t, struct tiny_tensor *x, size_t n, double m, double sd)
{
	size_t i;
	float v;

	if (m != 0) {
		for (i = 0; i < n; i++) {
			v = (float)(m + sd *
			    qwen_gguf_random_normal(&t->rng));
			memcpy(x->data + 4 * i, &v, 4);
		}
		return;
	}
	if (qwen_gguf_random(x->type, x->data, n, sd, &t->rng, NULL) < 0)
		die("no weights of this type");
}

void
tiny_add(struct tiny *t, const char *name, uint32_t type, size_t ne0,
    size_t ne1, size_t ne2, double m, double sd)
{
	struct tiny_tensor *x;

	t->tensor = need(t->tensor, (t->n_tensor + 1) * sizeof *t->tensor);
	x = &t->tensor[t->n_tensor++];
	snprintf(x->name, sizeof x->name, "%s", name);
	x->type = type;
	x->n_dims = ne2 > 0 ? 3 : ne1 > 0 ? 2 : 1;
	x->ne[0] = ne0;
	x->ne[1] = ne1 > 0 ? ne1 : 1;
	x->ne[2] = ne2 > 0 ? ne2 : 1;
	x->ne[3] = 1;
	x->bytes = ne0 / qwen_ggml_block_len(type) *
	    qwen_ggml_block_bytes(type) * x->ne[1] * x->ne[2];
	x->data = need(NULL, x->bytes);
	fill(t, x, ne0 * x->ne[1] * x->ne[2], m, sd);
}

struct tiny_tensor *
tiny_tensor(struct tiny *t, const char *name)
{
	size_t i;

	for (i = 0; i < t->n_tensor; i++) {
		if (strcmp(t->tensor[i].name, name) == 0)
			return &t->tensor[i];
	}
	die(name);
	return NULL;
}

void
tiny_drop(struct tiny *t, const char *name)
{
	struct tiny_tensor *x = tiny_tensor(t, name);

	free(x->data);
	memmove(x, x + 1, (size_t)(t->tensor + t->n_tensor - (x + 1)) *
	    sizeof *x);
	t->n_tensor--;
}

/* ---- a whole model */

/* The next type of the list whose blocks divide a row; else F32. */
static uint32_t
next_type(struct tiny *t, size_t n_in)
{
	const struct tiny_shape *s = &t->shape;
	size_t i;

	for (i = 0; i < s->n_types; i++) {
		uint32_t type = s->types[t->n_matrix++ % s->n_types];

		if (n_in % qwen_ggml_block_len(type) == 0)
			return type;
	}
	return 0;
}

/* blk.<block>.<name>, n matrices of n_out rows of n_in; or just <name>. */
static void
matrix(struct tiny *t, long block, const char *name, size_t n_in,
    size_t n_out, size_t n)
{
	char full[64];

	if (block >= 0)
		snprintf(full, sizeof full, "blk.%ld.%s", block, name);
	else
		snprintf(full, sizeof full, "%s", name);
	tiny_add(t, full, next_type(t, n_in), n_in, n_out, n, 0,
	    1 / sqrt((double)n_in));
}

static void
vector(struct tiny *t, long block, const char *name, size_t n, double m,
    double sd)
{
	char full[64];

	if (block >= 0)
		snprintf(full, sizeof full, "blk.%ld.%s", block, name);
	else
		snprintf(full, sizeof full, "%s", name);
	tiny_add(t, full, 0, n, 0, 0, m, sd);
}

static void
add_attention(struct tiny *t, long b, int gated)
{
	const struct tiny_shape *s = &t->shape;
	size_t q = s->n_head * s->n_embd_head;
	size_t kv = s->n_head_kv * s->n_embd_head;

	matrix(t, b, "attn_q.weight", s->n_embd, gated ? 2 * q : q, 0);
	matrix(t, b, "attn_k.weight", s->n_embd, kv, 0);
	matrix(t, b, "attn_v.weight", s->n_embd, kv, 0);
	matrix(t, b, "attn_output.weight", q, s->n_embd, 0);
	vector(t, b, "attn_q_norm.weight", s->n_embd_head, 1.5, 0.2);
	vector(t, b, "attn_k_norm.weight", s->n_embd_head, 1.5, 0.2);
}

static void
add_deltanet(struct tiny *t, long b)
{
	const struct tiny_shape *s = &t->shape;
	size_t vd = s->n_head_v * s->dv, c = 2 * s->n_head_k * s->dk + vd;
	char conv[64];

	matrix(t, b, "attn_qkv.weight", s->n_embd, c, 0);
	matrix(t, b, "attn_gate.weight", s->n_embd, vd, 0);
	snprintf(conv, sizeof conv, "blk.%ld.ssm_conv1d.weight", b);
	tiny_add(t, conv, 0, s->conv_kernel, c, 0, 0.2, 0.4);
	vector(t, b, "ssm_dt.bias", s->n_head_v, -1, 0.5);
	vector(t, b, "ssm_a", s->n_head_v, -0.6, 0.1);
	matrix(t, b, "ssm_beta.weight", s->n_embd, s->n_head_v, 0);
	matrix(t, b, "ssm_alpha.weight", s->n_embd, s->n_head_v, 0);
	vector(t, b, "ssm_norm.weight", s->dv, 1, 0.1);
	matrix(t, b, "ssm_out.weight", vd, s->n_embd, 0);
}

static void
add_experts(struct tiny *t, long b)
{
	const struct tiny_shape *s = &t->shape;

	matrix(t, b, "ffn_gate_inp.weight", s->n_embd, s->n_expert, 0);
	if (s->fused)
		matrix(t, b, "ffn_gate_up_exps.weight", s->n_embd,
		    2 * s->n_ff_exp, s->n_expert);
	else {
		matrix(t, b, "ffn_gate_exps.weight", s->n_embd, s->n_ff_exp,
		    s->n_expert);
		matrix(t, b, "ffn_up_exps.weight", s->n_embd, s->n_ff_exp,
		    s->n_expert);
	}
	matrix(t, b, "ffn_down_exps.weight", s->n_ff_exp, s->n_embd,
	    s->n_expert);
	if (s->n_ff_shexp == 0)
		return;
	matrix(t, b, "ffn_gate_inp_shexp.weight", s->n_embd, 0, 0);
	matrix(t, b, "ffn_gate_shexp.weight", s->n_embd, s->n_ff_shexp, 0);
	matrix(t, b, "ffn_up_shexp.weight", s->n_embd, s->n_ff_shexp, 0);
	matrix(t, b, "ffn_down_shexp.weight", s->n_ff_shexp, s->n_embd, 0);
}

static int
is_hybrid(const char *arch)
{
	return strncmp(arch, "qwen35", 6) == 0 ||
	    strcmp(arch, "qwen3next") == 0;
}

/* Is trunk block i DeltaNet? */
static int
is_recurrent(const struct tiny_shape *s, size_t i)
{
	size_t interval = s->interval > 0 ? s->interval : 4;

	if (!is_hybrid(s->arch) || i >= s->n_layer)
		return 0;
	return s->recurrent != NULL ? s->recurrent[i] :
	    (i + 1) % interval != 0;
}

static void
add_block(struct tiny *t, size_t i, int hybrid)
{
	const struct tiny_shape *s = &t->shape;
	long b = (long)i;

	vector(t, b, "attn_norm.weight", s->n_embd, 1, 0.1);
	vector(t, b, hybrid ? "post_attention_norm.weight" :
	    "ffn_norm.weight", s->n_embd, 1, 0.1);
	if (is_recurrent(s, i))
		add_deltanet(t, b);
	else
		add_attention(t, b, hybrid);
	if (s->n_expert > 0)
		add_experts(t, b);
	else {
		matrix(t, b, "ffn_gate.weight", s->n_embd, s->n_ff, 0);
		matrix(t, b, "ffn_up.weight", s->n_embd, s->n_ff, 0);
		matrix(t, b, "ffn_down.weight", s->n_ff, s->n_embd, 0);
	}
	if (i < s->n_layer)
		return;
	matrix(t, b, "nextn.eh_proj.weight", 2 * s->n_embd, s->n_embd, 0);
	vector(t, b, "nextn.enorm.weight", s->n_embd, 1, 0.1);
	vector(t, b, "nextn.hnorm.weight", s->n_embd, 1, 0.1);
}

static void
add_keys(struct tiny *t)
{
	const struct tiny_shape *s = &t->shape;
	size_t n_rot = s->n_rot > 0 ? s->n_rot : s->n_embd_head;
	uint32_t sections[4] = { (uint32_t)n_rot / 2, 0, 0, 0 };
	struct { const char *key; size_t v; } sizes[] = {
		{ "block_count", s->n_layer + s->n_nextn },
		{ "embedding_length", s->n_embd },
		{ "feed_forward_length", s->n_ff },
		{ "attention.head_count", s->n_head },
		{ "attention.head_count_kv", s->n_head_kv },
		{ "attention.key_length", s->n_embd_head },
		{ "attention.value_length", s->n_embd_head },
		{ "rope.dimension_count", s->n_rot },
		{ "expert_count", s->n_expert },
		{ "expert_used_count", s->n_expert_used },
		{ "expert_feed_forward_length", s->n_ff_exp },
		{ "expert_shared_feed_forward_length", s->n_ff_shexp },
		{ "ssm.conv_kernel", s->conv_kernel },
		{ "ssm.state_size", s->dk },
		{ "ssm.group_count", s->n_head_k },
		{ "ssm.time_step_rank", s->n_head_v },
		{ "ssm.inner_size", s->n_head_v * s->dv },
		{ "full_attention_interval", s->interval },
		{ "nextn_predict_layers", s->n_nextn },
	};
	size_t i;

	tiny_str(t, "general.architecture", s->arch);
	tiny_u32(t, "context_length", 512);
	tiny_f32(t, "attention.layer_norm_rms_epsilon", 1e-6f);
	tiny_f32(t, "rope.freq_base", 1e4f);
	for (i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		if (sizes[i].v > 0)
			tiny_u32(t, sizes[i].key, (uint32_t)sizes[i].v);
	}
	if (strncmp(s->arch, "qwen35", 6) == 0)
		tiny_u32s(t, "rope.dimension_sections", sections, 4);
	if (s->recurrent != NULL)
		tiny_bools(t, "attention.recurrent_layers", s->recurrent,
		    s->n_layer);
}

struct tiny *
tiny_new(const struct tiny_shape *s)
{
	struct tiny *t = need(NULL, sizeof *t);
	size_t i;

	memset(t, 0, sizeof *t);
	t->shape = *s;
	t->rng = s->seed;
	add_keys(t);
	matrix(t, -1, "token_embd.weight", s->n_embd, s->n_vocab, 0);
	vector(t, -1, "output_norm.weight", s->n_embd, 3, 0.2);
	if (!s->tied)
		matrix(t, -1, "output.weight", s->n_embd, s->n_vocab, 0);
	for (i = 0; i < s->n_layer + s->n_nextn; i++)
		add_block(t, i, is_hybrid(s->arch));
	return t;
}

void
tiny_free(struct tiny *t)
{
	size_t i;

	for (i = 0; i < t->n_kv; i++)
		free(t->kv[i].value);
	for (i = 0; i < t->n_tensor; i++)
		free(t->tensor[i].data);
	free(t->kv);
	free(t->tensor);
	free(t);
}

/* ---- the file */

struct out {
	unsigned char	*p;
	size_t		 n;
};

static void
put(struct out *o, const void *p, size_t n)
{
	o->p = need(o->p, o->n + n);
	memcpy(o->p + o->n, p, n);
	o->n += n;
}

static void
put64(struct out *o, uint64_t v)
{
	unsigned char b[8];

	qwen_put_le64(b, v);
	put(o, b, 8);
}

static void
put_str(struct out *o, const char *s)
{
	put64(o, strlen(s));
	put(o, s, strlen(s));
}

static size_t
padded(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Header, keys and directory, padded. */
static struct out
encode_head(const struct tiny *t)
{
	static const unsigned char zeros[ALIGN];
	struct out o = { NULL, 0 };
	unsigned char b[4];
	size_t i, d, at = 0;

	put(&o, "GGUF\3\0\0\0", 8);
	put64(&o, t->n_tensor);
	put64(&o, t->n_kv);
	for (i = 0; i < t->n_kv; i++) {
		put_str(&o, t->kv[i].key);
		put(&o, t->kv[i].value, t->kv[i].n);
	}
	for (i = 0; i < t->n_tensor; i++) {
		const struct tiny_tensor *x = &t->tensor[i];

		put_str(&o, x->name);
		qwen_put_le32(b, x->n_dims);
		put(&o, b, 4);
		for (d = 0; d < x->n_dims; d++)
			put64(&o, x->ne[d]);
		qwen_put_le32(b, x->type);
		put(&o, b, 4);
		put64(&o, at);
		at += padded(x->bytes);
	}
	put(&o, zeros, padded(o.n) - o.n);
	return o;
}

unsigned char *
tiny_encode(const struct tiny *t, size_t *n)
{
	struct out o = encode_head(t);
	size_t i;

	for (i = 0; i < t->n_tensor; i++) {
		const struct tiny_tensor *x = &t->tensor[i];

		o.p = need(o.p, o.n + padded(x->bytes));
		memset(o.p + o.n, 0, padded(x->bytes));
		if (x->data != NULL)
			memcpy(o.p + o.n, x->data, x->bytes);
		o.n += padded(x->bytes);
	}
	*n = o.n;
	return o.p;
}

void
tiny_write(const struct tiny *t, const char *path)
{
	struct out o = encode_head(t);
	FILE *f = fopen(path, "wb");
	size_t i, at = o.n;

	if (f == NULL || fwrite(o.p, 1, o.n, f) != o.n)
		die(path);
	for (i = 0; i < t->n_tensor; i++) {
		const struct tiny_tensor *x = &t->tensor[i];

		if (x->data != NULL && (fseek(f, (long)at, SEEK_SET) != 0 ||
		    fwrite(x->data, 1, x->bytes, f) != x->bytes))
			die(path);
		at += padded(x->bytes);
	}
	if (fflush(f) != 0 || ftruncate(fileno(f), (off_t)at) != 0 ||
	    fclose(f) != 0)
		die(path);
	free(o.p);
}
