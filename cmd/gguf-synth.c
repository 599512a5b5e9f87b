/* SPDX-License-Identifier: ISC */
/*
 * gguf-synth.c - write a model with the names, shapes, types and metadata of a
 * published file and random weights, for measuring and testing without it.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"
#include "qwen.h"

static const char usage[] =
    "gguf-synth [-qv] [-o file] [--seed number] [--layers number] [--no-mtp]\n"
    "                  [--experts number] [--vocab-size number] [--vocab file]\n"
    "                  [--sparse] shape\n"
    "       gguf-synth --list\n";

enum {
	OPT_SEED = 256, OPT_LAYERS, OPT_NO_MTP, OPT_EXPERTS, OPT_VOCAB_SIZE,
	OPT_VOCAB, OPT_SPARSE, OPT_LIST
};

static const struct cli_option options[] = {
	{ 'o', "output", 1 },
	{ OPT_SEED, "seed", 1 },
	{ OPT_LAYERS, "layers", 1 },
	{ OPT_NO_MTP, "no-mtp", 0 },
	{ OPT_EXPERTS, "experts", 1 },
	{ OPT_VOCAB_SIZE, "vocab-size", 1 },
	{ OPT_VOCAB, "vocab", 1 },
	{ OPT_SPARSE, "sparse", 0 },
	{ OPT_LIST, "list", 0 },
	{ 0, NULL, 0 },
};

/* ------------------------------------------------------------------ shapes */

/* ggml's numbers for the types used here. */
enum { F32 = 0, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14, BF16 = 30 };

struct shape {
	const char	*name;
	const char	*arch, *title, *size, *pre;
	int		 ud;		/* unsloth's dynamic types, not Q4_K_M */
	int		 tied;		/* no output.weight */
	uint32_t	 layers, embd, heads, kv_heads, head_dim, ff;
	uint32_t	 experts, used, ff_exp, ff_shexp;
	uint32_t	 vocab, context;
	float		 rope_base;
	uint32_t	 mtp;		/* blocks after the layers */
	/* DeltaNet, where interval is not 0 */
	uint32_t	 interval, rope_dim, conv, state, groups, rank;
};

static const struct shape shapes[] = {
	{
		.name = "Qwen3.6-35B-A3B-UD-Q4_K_M", .arch = "qwen35moe",
		.title = "Qwen3.6-35B-A3B", .size = "35B-A3B",
		.pre = "qwen35", .ud = 1, .layers = 40, .embd = 2048,
		.heads = 16, .kv_heads = 2, .head_dim = 256, .experts = 256,
		.used = 8, .ff_exp = 512, .ff_shexp = 512, .vocab = 248320,
		.context = 262144, .rope_base = 1e7f, .mtp = 1, .interval = 4,
		.rope_dim = 64, .conv = 4, .state = 128, .groups = 16,
		.rank = 32,
	}, {
		.name = "Qwen3-30B-A3B-Q4_K_M", .arch = "qwen3moe",
		.title = "Qwen3-30B-A3B", .size = "30B-A3B", .pre = "qwen2",
		.layers = 48, .embd = 2048, .heads = 32, .kv_heads = 4,
		.head_dim = 128, .ff = 6144, .experts = 128, .used = 8,
		.ff_exp = 768, .vocab = 151936, .context = 40960,
		.rope_base = 1e6f,
	}, {
		.name = "Qwen3-0.6B-Q4_K_M", .arch = "qwen3",
		.title = "Qwen3-0.6B", .size = "0.6B", .pre = "qwen2",
		.tied = 1, .layers = 28, .embd = 1024, .heads = 16,
		.kv_heads = 8, .head_dim = 128, .ff = 3072, .vocab = 151936,
		.context = 40960, .rope_base = 1e6f,
	}, {
		.name = "Qwen3-8B-Q4_K_M", .arch = "qwen3",
		.title = "Qwen3-8B", .size = "8B", .pre = "qwen2",
		.layers = 36, .embd = 4096, .heads = 32, .kv_heads = 8,
		.head_dim = 128, .ff = 12288, .vocab = 151936,
		.context = 40960, .rope_base = 1e6f,
	},
};

#define N_SHAPES (sizeof shapes / sizeof shapes[0])

/* The one whose name begins with s, in any case; usage error if not one. */
static const struct shape *
find_shape(const char *s)
{
	const struct shape *found = NULL;
	size_t i;

	for (i = 0; i < N_SHAPES; i++) {
		if (strncasecmp(shapes[i].name, s, strlen(s)) != 0)
			continue;
		if (found != NULL)
			cli_usage("%s fits %s and %s", s, found->name,
			    shapes[i].name);
		found = &shapes[i];
	}
	if (found == NULL)
		cli_usage("unknown shape %s; --list shows those known", s);
	return found;
}

static void
list_shapes(void)
{
	size_t i;

	for (i = 0; i < N_SHAPES; i++)
		printf("%-26s %-10s %u layers%s, %u tokens\n", shapes[i].name,
		    shapes[i].arch, shapes[i].layers,
		    shapes[i].mtp ? " + MTP" : "", shapes[i].vocab);
}

/* ------------------------------------------------------------------ tensors */

/* What the numbers of a tensor look like. */
enum content {
	WEIGHT,		/* mean 0, sd 1/sqrt(inputs) */
	NORM,		/* near 1 */
	DECAY,		/* ssm_a: -1 to -16 */
	DT_BIAS,	/* softplus of it: 0.001 to 0.1 */
	CONV,		/* taps, as torch starts them */
};

struct tensor {
	char		name[64];
	uint32_t	type;
	unsigned	n_dims;
	uint64_t	ne[3];
	enum content	content;
};

struct plan {
	struct shape	 s;		/* after the options */
	struct tensor	*t;
	size_t		 n, cap;
};

static void __attribute__((format(printf, 7, 8)))
add(struct plan *p, enum content content, uint32_t type, uint64_t ne0,
    uint64_t ne1, uint64_t ne2, const char *fmt, ...)
{
	struct tensor *t;
	va_list ap;

	if (p->n == p->cap) {
		p->cap = p->cap ? p->cap * 2 : 1024;
		p->t = realloc(p->t, p->cap * sizeof *p->t);
		if (p->t == NULL)
			die("out of memory");
	}
	t = &p->t[p->n++];
	va_start(ap, fmt);
	vsnprintf(t->name, sizeof t->name, fmt, ap);
	va_end(ap);
	t->type = type;
	t->content = content;
	t->ne[0] = ne0;
	t->ne[1] = ne1;
	t->ne[2] = ne2;
	t->n_dims = ne2 ? 3 : ne1 ? 2 : 1;
}

/* llama.cpp's Q4_K_M gives more bits to these layers' attn_v and ffn_down. */
static int
more_bits(const struct shape *s, uint32_t i)
{
	uint32_t n = s->layers;

	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

/* 38 of the 41 ffn_down_exps of the UD file are Q5_K, these are not. */
static uint32_t
ud_down(uint32_t i)
{
	return i == 34 || i == 38 || i == 39 ? Q6_K : Q5_K;
}

static void
add_attention(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;
	uint64_t q = (uint64_t)s->heads * s->head_dim;
	uint64_t kv = (uint64_t)s->kv_heads * s->head_dim;
	uint32_t type = s->ud ? Q8_0 : Q4_K;
	uint32_t v_type = s->ud ? Q8_0 : more_bits(s, i) ? Q6_K : Q4_K;

	/* with the output gate, a query of twice the width */
	add(p, WEIGHT, type, s->embd, s->interval ? 2 * q : q, 0,
	    "blk.%u.attn_q.weight", i);
	add(p, WEIGHT, type, s->embd, kv, 0, "blk.%u.attn_k.weight", i);
	add(p, WEIGHT, v_type, s->embd, kv, 0, "blk.%u.attn_v.weight", i);
	add(p, WEIGHT, type, q, s->embd, 0, "blk.%u.attn_output.weight", i);
	add(p, NORM, F32, s->head_dim, 0, 0, "blk.%u.attn_q_norm.weight", i);
	add(p, NORM, F32, s->head_dim, 0, 0, "blk.%u.attn_k_norm.weight", i);
}

static void
add_deltanet(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;
	uint64_t inner = (uint64_t)s->rank * s->state;
	uint64_t qkv = 2 * (uint64_t)s->groups * s->state + inner;

	add(p, WEIGHT, Q8_0, s->embd, qkv, 0, "blk.%u.attn_qkv.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, inner, 0, "blk.%u.attn_gate.weight", i);
	add(p, CONV, F32, s->conv, qkv, 0, "blk.%u.ssm_conv1d.weight", i);
	add(p, DT_BIAS, F32, s->rank, 0, 0, "blk.%u.ssm_dt.bias", i);
	add(p, DECAY, F32, s->rank, 0, 0, "blk.%u.ssm_a", i);
	add(p, WEIGHT, F32, s->embd, s->rank, 0, "blk.%u.ssm_beta.weight", i);
	add(p, WEIGHT, F32, s->embd, s->rank, 0, "blk.%u.ssm_alpha.weight", i);
	add(p, NORM, F32, s->state, 0, 0, "blk.%u.ssm_norm.weight", i);
	add(p, WEIGHT, Q8_0, inner, s->embd, 0, "blk.%u.ssm_out.weight", i);
}

static void
add_experts(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;
	int mtp = i >= s->layers;
	uint32_t router = mtp ? BF16 : F32;
	uint32_t down = s->ud ? ud_down(i) : more_bits(s, i) ? Q6_K : Q4_K;

	add(p, WEIGHT, router, s->embd, s->experts, 0,
	    "blk.%u.ffn_gate_inp.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff_exp, s->experts,
	    "blk.%u.ffn_gate_exps.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff_exp, s->experts,
	    "blk.%u.ffn_up_exps.weight", i);
	add(p, WEIGHT, down, s->ff_exp, s->embd, s->experts,
	    "blk.%u.ffn_down_exps.weight", i);
	if (s->ff_shexp == 0)
		return;
	add(p, WEIGHT, router, s->embd, 0, 0,
	    "blk.%u.ffn_gate_inp_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, s->ff_shexp, 0,
	    "blk.%u.ffn_gate_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->embd, s->ff_shexp, 0,
	    "blk.%u.ffn_up_shexp.weight", i);
	add(p, WEIGHT, Q8_0, s->ff_shexp, s->embd, 0,
	    "blk.%u.ffn_down_shexp.weight", i);
}

static void
add_ffn(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;
	uint32_t down = more_bits(s, i) ? Q6_K : Q4_K;

	add(p, WEIGHT, Q4_K, s->embd, s->ff, 0, "blk.%u.ffn_gate.weight", i);
	add(p, WEIGHT, Q4_K, s->embd, s->ff, 0, "blk.%u.ffn_up.weight", i);
	add(p, WEIGHT, down, s->ff, s->embd, 0, "blk.%u.ffn_down.weight", i);
}

static void
add_block(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;

	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.attn_norm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, s->interval ?
	    "blk.%u.post_attention_norm.weight" : "blk.%u.ffn_norm.weight", i);
	if (s->interval && i < s->layers && (i + 1) % s->interval != 0)
		add_deltanet(p, i);
	else
		add_attention(p, i);
	if (s->experts)
		add_experts(p, i);
	else
		add_ffn(p, i);
}

static void
add_nextn(struct plan *p, uint32_t i)
{
	const struct shape *s = &p->s;

	add(p, WEIGHT, Q8_0, 2 * (uint64_t)s->embd, s->embd, 0,
	    "blk.%u.nextn.eh_proj.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.nextn.enorm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0, "blk.%u.nextn.hnorm.weight", i);
	add(p, NORM, F32, s->embd, 0, 0,
	    "blk.%u.nextn.shared_head_norm.weight", i);
}

static void
plan_tensors(struct plan *p)
{
	const struct shape *s = &p->s;
	uint32_t i;

	add(p, WEIGHT, s->ud ? Q8_0 : s->tied ? Q6_K : Q4_K, s->embd,
	    s->vocab, 0, "token_embd.weight");
	add(p, NORM, F32, s->embd, 0, 0, "output_norm.weight");
	if (!s->tied)
		add(p, WEIGHT, Q6_K, s->embd, s->vocab, 0, "output.weight");
	for (i = 0; i < s->layers + s->mtp; i++) {
		add_block(p, i);
		if (i >= s->layers)
			add_nextn(p, i);
	}
}

/* --------------------------------------------------------------- metadata */

static const char *
arch_key(const struct shape *s, const char *key)
{
	static char buf[96];

	snprintf(buf, sizeof buf, "%s.%s", s->arch, key);
	return buf;
}

static void
put(struct qwen_gguf_writer *w, const struct shape *s, const char *key,
    uint32_t v)
{
	qwen_gguf_put_u32(w, arch_key(s, key), v);
}

static void
put_general(struct qwen_gguf_writer *w, const struct shape *s)
{
	char name[96];

	snprintf(name, sizeof name, "%s, random weights", s->title);
	qwen_gguf_put_str(w, "general.architecture", s->arch);
	qwen_gguf_put_str(w, "general.type", "model");
	qwen_gguf_put_str(w, "general.name", name);
	qwen_gguf_put_str(w, "general.basename", s->title);
	qwen_gguf_put_str(w, "general.size_label", s->size);
	qwen_gguf_put_str(w, "general.quantized_by", "gguf-synth");
	qwen_gguf_put_u32(w, "general.quantization_version", 2);
	qwen_gguf_put_u32(w, "general.file_type", 15);	/* mostly Q4_K_M */
}

static void
put_deltanet(struct qwen_gguf_writer *w, const struct shape *s)
{
	const int32_t sections[4] = { 11, 11, 10, 0 };

	assert(11 + 11 + 10 == s->rope_dim / 2);
	qwen_gguf_put_i32s(w, arch_key(s, "rope.dimension_sections"),
	    sections, 4);
	put(w, s, "rope.dimension_count", s->rope_dim);
	put(w, s, "ssm.conv_kernel", s->conv);
	put(w, s, "ssm.state_size", s->state);
	put(w, s, "ssm.group_count", s->groups);
	put(w, s, "ssm.time_step_rank", s->rank);
	put(w, s, "ssm.inner_size", s->rank * s->state);
	put(w, s, "full_attention_interval", s->interval);
}

static void
put_hparams(struct qwen_gguf_writer *w, const struct shape *s)
{
	put(w, s, "block_count", s->layers + s->mtp);
	put(w, s, "context_length", s->context);
	put(w, s, "embedding_length", s->embd);
	if (s->ff)
		put(w, s, "feed_forward_length", s->ff);
	put(w, s, "attention.head_count", s->heads);
	put(w, s, "attention.head_count_kv", s->kv_heads);
	put(w, s, "attention.key_length", s->head_dim);
	put(w, s, "attention.value_length", s->head_dim);
	qwen_gguf_put_f32(w, arch_key(s, "attention.layer_norm_rms_epsilon"),
	    1e-6f);
	qwen_gguf_put_f32(w, arch_key(s, "rope.freq_base"), s->rope_base);
	if (s->experts) {
		put(w, s, "expert_count", s->experts);
		put(w, s, "expert_used_count", s->used);
		put(w, s, "expert_feed_forward_length", s->ff_exp);
	}
	if (s->ff_shexp)
		put(w, s, "expert_shared_feed_forward_length", s->ff_shexp);
	if (s->interval)
		put_deltanet(w, s);
	if (s->mtp)
		put(w, s, "nextn_predict_layers", s->mtp);
}

/* ------------------------------------------------------------- vocabulary */

/* The vocabulary of a file, stretched to the size of the shape. */
struct vocab {
	struct qwen_str	*token;
	int32_t		*type;
	char		*pad;		/* text of the padding */
	size_t		 n, n_file;
	size_t		 end;		/* a token that can end a text */
};

enum { PAD_BYTES = 16, TYPE_NORMAL = 1, TYPE_UNUSED = 5 };

static int
is_text(const struct qwen_str *s, const char *text)
{
	return s->len == strlen(text) && memcmp(s->s, text, s->len) == 0;
}

static const struct qwen_gguf_kv *
need_strings(const struct qwen_gguf *g, const char *path, const char *key)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);

	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY ||
	    kv->elem != QWEN_GGUF_STRING || kv->n == 0)
		die("%s: no vocabulary: %s is missing or not strings", path,
		    key);
	return kv;
}

static void
load_tokens(struct vocab *v, const struct qwen_gguf *g, const char *path)
{
	const struct qwen_gguf_kv *types;
	const struct qwen_gguf_kv *tokens;
	size_t pos = 0, i;
	const unsigned char *p;

	tokens = need_strings(g, path, "tokenizer.ggml.tokens");
	types = qwen_gguf_find(g, "tokenizer.ggml.token_type");
	if (types != NULL && (types->type != QWEN_GGUF_ARRAY ||
	    types->elem != QWEN_GGUF_INT32 || types->n != tokens->n))
		die("%s: tokenizer.ggml.token_type does not fit the tokens",
		    path);
	v->end = v->n_file - 1;
	for (i = 0; i < v->n_file; i++) {
		qwen_gguf_next_str(tokens, &pos, &v->token[i]);
		p = types != NULL ? types->data + 4 * i : NULL;
		v->type[i] = p == NULL ? TYPE_NORMAL : (int32_t)
		    ((uint32_t)p[0] | (uint32_t)p[1] << 8 |
		    (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
		if (is_text(&v->token[i], "<|im_end|>"))
			v->end = i;
	}
}

/* Unused entries with the texts that converters give them. */
static void
pad_tokens(struct vocab *v)
{
	size_t i;
	int n;

	for (i = v->n_file; i < v->n; i++) {
		v->token[i].s = v->pad + (i - v->n_file) * PAD_BYTES;
		n = snprintf(v->pad + (i - v->n_file) * PAD_BYTES, PAD_BYTES,
		    "[PAD%u]", (unsigned)i);
		v->token[i].len = (size_t)n;
		v->type[i] = TYPE_UNUSED;
	}
}

static void
free_vocab(struct vocab *v)
{
	free(v->token);
	free(v->type);
	free(v->pad);
}

/* All other tokenizer keys go along as they are. */
static void
copy_keys(struct qwen_gguf_writer *w, const struct qwen_gguf *g)
{
	static const char *const own[] = {
		"tokenizer.ggml.pre", "tokenizer.ggml.tokens",
		"tokenizer.ggml.token_type", "tokenizer.ggml.scores",
	};
	const struct qwen_gguf_kv *kv;
	size_t i, k;

	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		if (kv->key.len < 10 || memcmp(kv->key.s, "tokenizer.", 10))
			continue;
		for (k = 0; k < 4 && !is_text(&kv->key, own[k]); k++)
			;
		if (k == 4)
			qwen_gguf_put_kv(w, kv);
	}
}

static void
put_vocab(struct qwen_gguf_writer *w, const struct shape *s,
    const struct qwen_gguf *g, const char *path)
{
	struct vocab v = { .n = s->vocab };

	v.n_file = (size_t)need_strings(g, path, "tokenizer.ggml.tokens")->n;
	need_strings(g, path, "tokenizer.ggml.merges");
	if (v.n_file > v.n)
		die("%s: has %zu tokens, the model has room for %zu", path,
		    v.n_file, v.n);
	v.token = calloc(v.n, sizeof *v.token);
	v.type = calloc(v.n, sizeof *v.type);
	v.pad = calloc(v.n - v.n_file + 1, PAD_BYTES);
	if (v.token == NULL || v.type == NULL || v.pad == NULL)
		die("out of memory");
	load_tokens(&v, g, path);
	pad_tokens(&v);
	qwen_gguf_put_str(w, "tokenizer.ggml.pre", s->pre);
	qwen_gguf_put_strs(w, "tokenizer.ggml.tokens", v.token, v.n);
	qwen_gguf_put_i32s(w, "tokenizer.ggml.token_type", v.type, v.n);
	copy_keys(w, g);
	if (qwen_gguf_find(g, "tokenizer.ggml.eos_token_id") == NULL)
		qwen_gguf_put_u32(w, "tokenizer.ggml.eos_token_id",
		    (uint32_t)v.end);
	free_vocab(&v);
}

/* -------------------------------------------------------------------- data */

enum { CHUNK_BYTES = 1 << 20 };

static void
store_f32(unsigned char *p, float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof u);
	p[0] = (unsigned char)u;
	p[1] = (unsigned char)(u >> 8);
	p[2] = (unsigned char)(u >> 16);
	p[3] = (unsigned char)(u >> 24);
}

static double
special(enum content content, double inputs, uint64_t *rng)
{
	double u = qwen_gguf_random_uniform(rng);

	switch (content) {
	case NORM:
		return 1.0 + 0.1 * qwen_gguf_random_normal(rng);
	case DECAY:
		return -(1.0 + 15.0 * u);
	case DT_BIAS:		/* no exp or log here: they vary by libm */
		return -6.9 + u * 4.65;
	case CONV:
		return (2.0 * u - 1.0) / sqrt(inputs);
	default:
		return 0.0;
	}
}

/* n elements, whole blocks, of tensor t. */
static void
fill(const struct tensor *t, unsigned char *buf, size_t n, uint64_t *rng)
{
	double inputs = (double)t->ne[0];
	struct qwen_err err;
	size_t i;

	if (t->content == WEIGHT) {
		if (qwen_gguf_random(t->type, buf, n, 1.0 / sqrt(inputs), rng,
		    &err) < 0)
			cli_die_err(t->name, &err);
		return;
	}
	for (i = 0; i < n; i++)
		store_f32(buf + 4 * i, (float)special(t->content, inputs, rng));
}

/* FNV-1a: weights depend on seed and name, not on what else is in the file. */
static uint64_t
seed_of(uint64_t seed, const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (; *name != '\0'; name++)
		h = (h ^ (unsigned char)*name) * 0x100000001b3u;
	return h ^ seed * 0x9e3779b97f4a7c15u;
}

static uint64_t
blocks_of(const struct tensor *t)
{
	uint64_t n = t->ne[0] / qwen_quant_block_len(t->type);

	return n * (t->ne[1] ? t->ne[1] : 1) * (t->ne[2] ? t->ne[2] : 1);
}

static void
write_tensor(struct qwen_gguf_writer *w, int fd, const struct tensor *t,
    uint64_t seed, unsigned char *buf, uint64_t *done, const char *out)
{
	size_t size = qwen_quant_block_bytes(t->type);
	size_t len = qwen_quant_block_len(t->type);
	uint64_t left = blocks_of(t), step = CHUNK_BYTES / size, n;
	uint64_t rng = seed_of(seed, t->name);
	struct qwen_err err;

	for (; left > 0; left -= n) {
		n = left < step ? left : step;
		fill(t, buf, (size_t)n * len, &rng);
		if (qwen_gguf_write_data(w, fd, buf, (size_t)n * size,
		    &err) < 0)
			cli_die_err(out, &err);
		*done += n * size;
		cli_progress(*done >> 20);
	}
}

static void
write_data(struct qwen_gguf_writer *w, int fd, const struct plan *p,
    uint64_t seed, const char *out)
{
	unsigned char *buf = malloc(CHUNK_BYTES);
	struct qwen_err err;
	uint64_t done = 0;
	size_t i;

	if (buf == NULL)
		die("out of memory");
	cli_progress_start("MiB", qwen_gguf_writer_bytes(w) >> 20);
	for (i = 0; i < p->n; i++)
		write_tensor(w, fd, &p->t[i], seed, buf, &done, out);
	if (qwen_gguf_write_end(w, &err) < 0)
		cli_die_err(out, &err);
	cli_progress_end();
	free(buf);
}

/* -------------------------------------------------------------------- main */

struct opts {
	const char	*out, *vocab;
	uint64_t	 seed;
	uint32_t	 layers, experts, vocab_size;
	int		 no_mtp, sparse;
};

static void
write_model(struct qwen_gguf_writer *w, int fd, const struct plan *p,
    const struct opts *o)
{
	const char *out = o->out != NULL ? o->out : "stdout";
	struct qwen_err err;
	double start = cli_now();
	size_t i;

	for (i = 0; i < p->n; i++)
		qwen_gguf_put_tensor(w, p->t[i].name, p->t[i].type,
		    p->t[i].n_dims, p->t[i].ne);
	if (qwen_gguf_write_head(w, fd, &err) < 0)
		cli_die_err(out, &err);
	if (!o->sparse)
		write_data(w, fd, p, o->seed, out);
	else if (ftruncate(fd, (off_t)qwen_gguf_writer_bytes(w)) == -1)
		die("%s: cannot leave a hole: %s", out, strerror(errno));
	if (cli_verbose)
		cli_note("%zu tensors, %.2f MiB in %.1f s", p->n,
		    (double)qwen_gguf_writer_bytes(w) / (1 << 20),
		    cli_now() - start);
}

static void
synth(const struct plan *p, const struct opts *o)
{
	const char *vocab = o->vocab ? o->vocab : cli_model_path(NULL);
	struct cli_output *file = NULL;
	struct qwen_gguf_writer *w;
	struct qwen_gguf *g;
	struct qwen_err err;

	if (qwen_gguf_open(&g, vocab, &err) < 0)
		cli_die_err(vocab, &err);
	if (qwen_gguf_writer_new(&w, &err) < 0)
		cli_die_err(NULL, &err);
	put_general(w, &p->s);
	put_hparams(w, &p->s);
	put_vocab(w, &p->s, g, vocab);
	if (o->out != NULL) {
		file = cli_output_open(o->out);
		write_model(w, cli_output_fd(file), p, o);
		cli_output_commit(file);
	} else {
		write_model(w, STDOUT_FILENO, p, o);
	}
	qwen_gguf_writer_free(w);
	qwen_gguf_close(g);
}

static void
adjust(struct shape *s, const struct opts *o)
{
	if (o->layers)
		s->layers = o->layers;
	if (o->no_mtp)
		s->mtp = 0;
	if (o->vocab_size)
		s->vocab = o->vocab_size;
	if (o->experts && s->experts == 0)
		cli_usage("--experts: %s has none", s->name);
	if (o->experts)
		s->experts = o->experts;
	if (s->used > s->experts)
		s->used = s->experts;
}

static void
set(struct opts *o, int c, const char *arg)
{
	switch (c) {
	case 'o':
		o->out = strcmp(arg, "-") == 0 ? NULL : arg;
		break;
	case OPT_SEED:
		o->seed = cli_u64("--seed", arg);
		break;
	case OPT_LAYERS:
		o->layers = (uint32_t)cli_int("--layers", arg, 1, 1000);
		break;
	case OPT_NO_MTP:
		o->no_mtp = 1;
		break;
	case OPT_EXPERTS:
		o->experts = (uint32_t)cli_int("--experts", arg, 1, 4096);
		break;
	case OPT_VOCAB_SIZE:
		o->vocab_size = (uint32_t)cli_int("--vocab-size", arg, 1,
		    10000000);
		break;
	case OPT_VOCAB:
		o->vocab = arg;
		break;
	case OPT_SPARSE:
		o->sparse = 1;
		break;
	}
}

int
main(int argc, char *argv[])
{
	struct opts o = { .seed = 1 };
	struct plan p = { 0 };
	const char *arg;
	int c, operand;

	cli_init("gguf-synth", usage);
	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1) {
		if (c == OPT_LIST) {
			list_shapes();
			return cli_finish();
		}
		set(&o, c, arg);
	}
	if (operand == argc)
		cli_usage("which shape? --list shows those known");
	cli_no_operands(argc, argv, operand + 1);
	p.s = *find_shape(argv[operand]);
	adjust(&p.s, &o);
	if (o.out == NULL && isatty(STDOUT_FILENO))
		die("not writing a model to a terminal; give -o file");
	plan_tensors(&p);
	synth(&p, &o);
	free(p.t);
	return cli_finish();
}
