/* SPDX-License-Identifier: ISC */
/*
 * model_bad.c - valid GGUF files that are invalid models: refused fast when
 * opened, with a message that names the key or tensor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/quant/quant.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const struct tiny_shape hybrid_moe = {
	.arch = "qwen35moe", .n_layer = 4, .n_embd = 32, .n_vocab = 19,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2, .n_head_v = 4,
	.n_expert = 5, .n_expert_used = 2, .n_ff_exp = 24, .n_ff_shexp = 40,
	.interval = 2,
};

static const struct tiny_shape dense = {
	.arch = "qwen3", .n_layer = 2, .n_embd = 32, .n_vocab = 19,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 48,
};

static char path[1024];

/* Processor time: what else the machine does is not counted. */
static double
now(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/* What qwen_model_check said, a line each. */
static char reasons[4096];

static void
reason(void *arg, const char *msg)
{
	size_t n = strlen(reasons);

	(void)arg;
	snprintf(reasons + n, sizeof reasons - n, "%s\n", msg);
}

/* How many reasons there are; 1 too where it is no file of this kind at all. */
static int
check(void)
{
	const struct qwen_gguf_checker c = { .problem = reason };
	struct qwen_err err;
	struct qwen_gguf *g;
	int n = 1;

	reasons[0] = '\0';
	if (qwen_gguf_open(&g, path, &err) == 0) {
		n = qwen_model_check(g, &c, &err);
		qwen_gguf_close(g);
	}
	return n;
}

/* Write t, open it, free it: it must fail with the code and the words. */
static void
refuse(struct tiny *t, const char *what, int code, const char *words)
{
	struct qwen_model_opts opts = { .n_threads = 1 };
	struct qwen_model *m = (struct qwen_model *)&opts;
	struct qwen_err err = { 0 };
	double start;
	int r;

	tiny_write(t, path);
	tiny_free(t);
	start = now();
	r = qwen_model_open(&m, path, &opts, &err);
	ok(r == -1 && m == NULL && err.code == code && check() > 0 &&
	    strstr(err.msg, words) != NULL && now() - start < 10,
	    "%s: %s", what, r == 0 ? "ACCEPTED" : err.msg);
	if (r == 0)
		qwen_model_close(m);
	unlink(path);
}

/* ---- tensors */

static void
every_tensor(void)
{
	struct tiny *t = tiny_new(&hybrid_moe);
	size_t i, n = t->n_tensor;

	for (i = 0; i < n; i++) {
		char name[64], what[96];

		snprintf(name, sizeof name, "%s", t->tensor[i].name);
		if (strcmp(name, "output.weight") == 0)
			continue;	/* then the embedding serves */
		tiny_drop(t, name);
		snprintf(what, sizeof what, "without %s", name);
		refuse(t, what, QWEN_EFORMAT, name);
		t = tiny_new(&hybrid_moe);
	}
	for (i = 0; i < n; i++) {
		struct tiny_tensor *x = &t->tensor[i];
		char name[64], what[96];
		unsigned d = x->n_dims - 1;

		snprintf(name, sizeof name, "%s", x->name);
		/* one more in its last dimension; the data are a hole */
		x->bytes += x->bytes / x->ne[d];
		x->ne[d]++;
		free(x->data);
		x->data = NULL;
		snprintf(what, sizeof what, "%s too long", name);
		/* the embedding gives the size of the vocabulary */
		refuse(t, what, QWEN_EFORMAT, i == 0 ? "output.weight" :
		    name);
		t = tiny_new(&hybrid_moe);
	}
	tiny_free(t);
}

static void
shapes(void)
{
	struct tiny *t = tiny_new(&dense);
	struct tiny_tensor *x = tiny_tensor(t, "blk.1.attn_q.weight");
	uint64_t ne = x->ne[0];

	x->ne[0] = x->ne[1];
	x->ne[1] = ne;
	refuse(t, "turned round", QWEN_EFORMAT,
	    "blk.1.attn_q.weight is 128x32, should be 32x128");
	t = tiny_new(&dense);
	x = tiny_tensor(t, "blk.0.ffn_up.weight");
	x->n_dims = 4;
	x->ne[3] = 2;
	x->bytes *= 2;
	free(x->data);
	x->data = NULL;
	refuse(t, "a fourth dimension", QWEN_EFORMAT,
	    "blk.0.ffn_up.weight is 32x48x1x2, should be 32x48");
	t = tiny_new(&dense);
	x = tiny_tensor(t, "blk.0.ffn_up.weight");
	x->ne[1] = (uint64_t)1 << 60;
	refuse(t, "2^60 rows", QWEN_EFORMAT, "blk.0.ffn_up.weight");
	t = tiny_new(&dense);
	x = tiny_tensor(t, "token_embd.weight");
	x->ne[0] = (uint64_t)1 << 62;
	refuse(t, "2^62 columns", QWEN_EFORMAT, "token_embd.weight");
	t = tiny_new(&dense);
	tiny_tensor(t, "token_embd.weight")->bytes -= 8;
	tiny_tensor(t, "blk.1.ffn_down.weight")->bytes -= 64;
	refuse(t, "cut off", QWEN_EFORMAT, "blk.1.ffn_down.weight");
	t = tiny_new(&hybrid_moe);
	x = tiny_tensor(t, "blk.0.ffn_gate_exps.weight");
	snprintf(x->name, sizeof x->name, "blk.0.ffn_gate_up_exps.weight");
	refuse(t, "fused experts of half the width", QWEN_EFORMAT,
	    "blk.0.ffn_gate_up_exps.weight");
}

static void
types(void)
{
	static const uint32_t bad[] = { 9, 15, 24, 25, 26, 27, 28 };
	struct tiny_shape s = dense;
	struct tiny *t;
	size_t i;

	s.n_embd = 256;
	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct tiny_tensor *x;

		t = tiny_new(&s);
		x = tiny_tensor(t, "blk.1.attn_k.weight");
		x->type = bad[i];
		x->bytes = 256 / qwen_ggml_block_len(bad[i]) *
		    qwen_ggml_block_bytes(bad[i]) * x->ne[1];
		free(x->data);
		x->data = NULL;
		refuse(t, qwen_ggml_name(bad[i]), QWEN_EUNSUP,
		    "blk.1.attn_k.weight");
	}
	t = tiny_new(&s);
	tiny_tensor(t, "blk.0.attn_norm.weight")->type = 26;
	refuse(t, "a norm of integers", QWEN_EUNSUP,
	    "blk.0.attn_norm.weight has type I32");
	t = tiny_new(&s);
	tiny_tensor(t, "output.weight")->type = 4;
	refuse(t, "a retired type", QWEN_EUNSUP, "output.weight");
}

/* Make it one of that type, of zeros. */
static void
retype(struct tiny *t, const char *name, uint32_t type)
{
	struct tiny_tensor *x = tiny_tensor(t, name);

	x->type = type;
	x->bytes = (size_t)(x->ne[0] / qwen_ggml_block_len(type) *
	    qwen_ggml_block_bytes(type) * x->ne[1]);
	free(x->data);
	x->data = NULL;
}

/* qwen_model_check tells all that is wrong, not only the first. */
static void
all_reasons(void)
{
	struct tiny_shape s = dense;
	struct tiny *t;

	s.n_embd = 256;
	t = tiny_new(&s);
	tiny_write(t, path);
	ok(check() == 0 && reasons[0] == '\0', "nothing wrong: no reason");
	retype(t, "blk.0.attn_q.weight", 9);
	retype(t, "blk.1.attn_q.weight", 9);
	retype(t, "blk.1.attn_k.weight", 15);
	tiny_drop(t, "blk.0.ffn_up.weight");
	tiny_write(t, path);
	ok(check() == 3 && strcmp(reasons,
	    "tensor blk.0.ffn_up.weight is missing\n"
	    "blk.0.attn_q.weight and 1 more have Q8_1\n"
	    "blk.1.attn_k.weight has Q8_K\n") == 0, "each is told, types once");
	tiny_str(t, "general.architecture", "llama");
	tiny_write(t, path);
	ok(check() == 3 && strstr(reasons, "unknown architecture \"llama\"")
	    == reasons && strstr(reasons, "1 more have Q8_1") != NULL,
	    "of an architecture that is not known the types are told, too");
	tiny_str(t, "general.architecture", "clip");
	tiny_write(t, path);
	ok(check() == 3 && strstr(reasons, "an image encoder (mmproj)") ==
	    reasons, "an image encoder is named");
	tiny_free(t);
	unlink(path);
}

/* ---- keys */

static void
set_u32(const struct tiny_shape *s, const char *key, uint32_t v, int code,
    const char *words)
{
	struct tiny *t = tiny_new(s);
	char what[96];

	tiny_u32(t, key, v);
	snprintf(what, sizeof what, "%s = %u", key, v);
	refuse(t, what, code, words != NULL ? words : key);
}

static void
set_f32(const struct tiny_shape *s, const char *key, float v)
{
	struct tiny *t = tiny_new(s);
	char what[96];

	tiny_f32(t, key, v);
	snprintf(what, sizeof what, "%s = %g", key, (double)v);
	/* RoPE's are told together */
	refuse(t, what, QWEN_ERANGE, strncmp(key, "rope.", 5) == 0 ? "RoPE" :
	    key);
}

/* Every size: absent, 0, 2^32 - 1, 2^63, text. */
static void
every_size(void)
{
	static const char *const keys[] = { "block_count", "context_length",
	    "embedding_length", "attention.head_count", "expert_count",
	    "expert_used_count", "ssm.conv_kernel", "ssm.state_size",
	    "ssm.group_count", "ssm.time_step_rank", "ssm.inner_size",
	    "attention.head_count_kv", "attention.key_length",
	    "attention.value_length", "rope.dimension_count",
	    "expert_feed_forward_length", "full_attention_interval",
	    "expert_shared_feed_forward_length" };
	size_t i, required = 11;

	for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const char *k = keys[i];
		struct tiny *t = tiny_new(&hybrid_moe);
		char what[96];

		snprintf(what, sizeof what, "%s absent", k);
		tiny_drop_key(t, k);
		if (i < required)
			refuse(t, what, QWEN_EFORMAT, k);
		else
			tiny_free(t);
		set_u32(&hybrid_moe, k, 0, QWEN_ERANGE, k);
		set_u32(&hybrid_moe, k, UINT32_MAX, QWEN_ERANGE, k);
		t = tiny_new(&hybrid_moe);
		tiny_u64(t, k, (uint64_t)1 << 63);
		snprintf(what, sizeof what, "%s = 2^63", k);
		refuse(t, what, QWEN_ERANGE, k);
		t = tiny_new(&hybrid_moe);
		tiny_str(t, k, "32");
		snprintf(what, sizeof what, "%s = \"32\"", k);
		refuse(t, what, QWEN_EFORMAT, k);
		t = tiny_new(&hybrid_moe);
		tiny_f32(t, k, 4);
		snprintf(what, sizeof what, "%s = 4.0", k);
		refuse(t, what, QWEN_EFORMAT, k);
	}
	set_u32(&dense, "feed_forward_length", 0, QWEN_ERANGE, NULL);
	set_u32(&dense, "feed_forward_length", 47, QWEN_EFORMAT,
	    "blk.0.ffn_gate.weight is 32x48, should be 32x47");
}

/* Numbers that are fair each, and do not go together. */
static void
relations(void)
{
	struct tiny *t;

	set_u32(&dense, "attention.head_count_kv", 3, QWEN_EFORMAT,
	    "4 heads cannot share 3");
	set_u32(&dense, "attention.head_count", 1, QWEN_EFORMAT,
	    "1 heads cannot share 2");
	set_u32(&dense, "attention.value_length", 16, QWEN_EUNSUP,
	    "head sizes 32 and 16");
	set_u32(&dense, "attention.key_length", 4096, QWEN_EUNSUP,
	    "head sizes 4096 and 32");
	set_u32(&hybrid_moe, "expert_used_count", 6, QWEN_ERANGE, NULL);
	set_u32(&hybrid_moe, "expert_gating_func", 2, QWEN_EUNSUP,
	    "expert_gating_func is 2; only 1");
	set_u32(&hybrid_moe, "rope.dimension_count", 7, QWEN_ERANGE, "RoPE");
	set_u32(&hybrid_moe, "rope.dimension_count", 34, QWEN_ERANGE, NULL);
	set_u32(&hybrid_moe, "rope.dimension_count", 10, QWEN_EUNSUP,
	    "covers 4 of 5 pairs");
	set_u32(&hybrid_moe, "ssm.inner_size", 126, QWEN_EFORMAT, "126");
	set_u32(&hybrid_moe, "ssm.inner_size", 100, QWEN_EUNSUP, "25");
	set_u32(&hybrid_moe, "ssm.group_count", 3, QWEN_EFORMAT, "3 key");
	set_u32(&hybrid_moe, "nextn_predict_layers", 4, QWEN_ERANGE, NULL);
	set_u32(&hybrid_moe, "block_count", 5, QWEN_EFORMAT, "blk.4.");
	set_u32(&dense, "embedding_length", 64, QWEN_EFORMAT,
	    "token_embd.weight");
	t = tiny_new(&hybrid_moe);
	tiny_drop_key(t, "rope.dimension_sections");
	refuse(t, "no sections", QWEN_EFORMAT, "rope.dimension_sections");
	t = tiny_new(&hybrid_moe);
	tiny_u32s(t, "rope.dimension_sections",
	    (const uint32_t[]){ 4 }, 1);
	refuse(t, "one section", QWEN_ERANGE, "rope.dimension_sections");
	t = tiny_new(&hybrid_moe);
	tiny_bools(t, "attention.recurrent_layers",
	    (const unsigned char[]){ 1, 0, 1 }, 3);
	refuse(t, "a plan for three of four blocks", QWEN_EFORMAT,
	    "attention.recurrent_layers has 3 entries");
	t = tiny_new(&hybrid_moe);
	tiny_bools(t, "attention.recurrent_layers",
	    (const unsigned char[]){ 0, 1, 0, 1 }, 4);
	refuse(t, "a plan the other way round", QWEN_EFORMAT, "blk.0.attn_q");
	t = tiny_new(&hybrid_moe);
	tiny_drop_key(t, "full_attention_interval");
	tiny_u32s(t, "attention.head_count_kv",
	    (const uint32_t[]){ 0, 2, 0 }, 3);
	refuse(t, "head counts for three of four blocks", QWEN_EFORMAT,
	    "attention.head_count_kv");
	t = tiny_new(&hybrid_moe);
	tiny_bool(t, "norm_top_k_prob", 0);
	refuse(t, "weights of experts that are not normed", QWEN_EUNSUP,
	    "norm_top_k_prob is false");
	t = tiny_new(&hybrid_moe);
	tiny_add(t, "blk.0.ssm_ba.weight", QT_F32, 32, 8, 0, 0, 1);
	refuse(t, "gates by key head, value heads tiled", QWEN_EUNSUP,
	    "blk.0.ssm_ba.weight: not supported where value heads are tiled");
	t = tiny_new(&hybrid_moe);
	tiny_str(t, "ssm.v_head_reordered", "true");
	refuse(t, "an order that is a text", QWEN_EFORMAT,
	    "ssm.v_head_reordered");
	t = tiny_new(&dense);
	tiny_u32s(t, "attention.head_count", (const uint32_t[]){ 4, 2 }, 2);
	refuse(t, "head counts that differ", QWEN_EUNSUP,
	    "attention.head_count");
	t = tiny_new(&dense);
	tiny_strs(t, "tokenizer.ggml.tokens", "a", 18);
	refuse(t, "18 tokens for 19 rows", QWEN_EFORMAT, "19 rows, but the vocabulary 18");
}

static void
reals(void)
{
	static const float inf = 1e30f * 1e30f;
	static const struct {
		const char	*key;
		float		 v;
		int		 code;
		const char	*word;
	} scaled[] = {
		{ "rope.scaling.factor", 0, QWEN_ERANGE, "RoPE" },
		{ "rope.scaling.yarn_beta_fast", 0, QWEN_ERANGE, "ramp" },
		{ "rope.scaling.yarn_beta_fast", 2e6f, QWEN_ERANGE, "ramp" },
		{ "rope.scaling.yarn_beta_slow", 40, QWEN_ERANGE, "ramp" },
		{ "rope.scaling.yarn_attn_factor", 1000, QWEN_ERANGE,
		    "yarn_attn_factor is 1000: must be 0.01 to 100" },
		{ "rope.scaling.yarn_ext_factor", 0, QWEN_EUNSUP,
		    "yarn_ext_factor is 0; only 1" },
	};
	struct tiny *t;
	size_t i;

	set_f32(&dense, "attention.layer_norm_rms_epsilon", -1e-6f);
	set_f32(&dense, "attention.layer_norm_rms_epsilon", inf - inf);
	set_f32(&dense, "attention.layer_norm_rms_epsilon", 2);
	set_f32(&dense, "rope.freq_base", 0);
	set_f32(&dense, "rope.freq_base", -10000);
	set_f32(&dense, "rope.freq_base", 1e30f);
	set_f32(&dense, "attention.scale", inf);
	set_f32(&hybrid_moe, "expert_weights_scale", inf - inf);
	for (i = 0; i < sizeof scaled / sizeof scaled[0]; i++) {
		t = tiny_new(&dense);
		tiny_str(t, "rope.scaling.type", "yarn");
		tiny_f32(t, "rope.scaling.factor", 4);
		tiny_f32(t, scaled[i].key, scaled[i].v);
		refuse(t, scaled[i].key, scaled[i].code, scaled[i].word);
	}
	t = tiny_new(&dense);
	tiny_f64(t, "attention.scale", 1e300);
	refuse(t, "a scale that no float holds", QWEN_ERANGE,
	    "attention.scale");
	t = tiny_new(&dense);
	tiny_drop_key(t, "attention.layer_norm_rms_epsilon");
	refuse(t, "no epsilon", QWEN_EFORMAT, "layer_norm_rms_epsilon");
	t = tiny_new(&dense);
	tiny_bools(t, "attention.causal", &(unsigned char){ 0 }, 1);
	refuse(t, "attention to later tokens", QWEN_EUNSUP,
	    "attention.causal is false");
	t = tiny_new(&dense);
	tiny_add(t, "cls.output.weight", QT_F32, 16, 2, 1, 0, 1);
	refuse(t, "a classifier of another width", QWEN_EFORMAT,
	    "cls.output.weight is 16x2, should be 32x2");
	t = tiny_new(&dense);
	tiny_add(t, "cls.output.weight", QT_F32, 32, 2, 1, 0, 1);
	tiny_add(t, "cls.weight", QT_F32, 32, 32, 1, 0, 1);
	refuse(t, "a classifier of two layers", QWEN_EUNSUP,
	    "cls.output.weight is not supported");
	t = tiny_new(&dense);
	tiny_str(t, "rope.scaling.type", "longrope");
	refuse(t, "a RoPE scaling nobody knows", QWEN_EUNSUP, "longrope");
	t = tiny_new(&dense);
	tiny_str(t, "rope.scaling.type", "yarn");
	tiny_f32(t, "rope.scaling.factor", 0);
	refuse(t, "YaRN by 0", QWEN_ERANGE, "factor 0");
	t = tiny_new(&dense);
	tiny_u32(t, "rope.scaling.type", 1);
	refuse(t, "a scaling type that is a number", QWEN_EFORMAT,
	    "rope.scaling.type");
}

/* ---- architecture */

static void
architectures(void)
{
	struct tiny *t = tiny_new(&dense);
	char *name = malloc(100001);

	tiny_str(t, "general.architecture", "llama");
	refuse(t, "llama", QWEN_EUNSUP,
	    "\"llama\"; supported: qwen2, qwen2moe, qwen3, "
	    "qwen35, qwen35moe, qwen3moe, qwen3next, qwen3vl, qwen3vlmoe");
	t = tiny_new(&dense);
	tiny_str(t, "general.architecture", "qwen3\033[31m");
	refuse(t, "an escape sequence", QWEN_EUNSUP, "\"qwen3?[31m\"");
	t = tiny_new(&dense);
	tiny_str(t, "general.architecture", "");
	refuse(t, "an empty one", QWEN_EUNSUP, "unknown architecture \"\"");
	t = tiny_new(&dense);
	memset(name, 'x', 100000);
	name[100000] = '\0';
	tiny_str(t, "general.architecture", name);
	refuse(t, "a long one", QWEN_EUNSUP, "qwen35moe");
	t = tiny_new(&dense);
	tiny_drop_key(t, "general.architecture");
	refuse(t, "none", QWEN_EFORMAT, "general.architecture is missing");
	t = tiny_new(&dense);
	tiny_u32(t, "general.architecture", 3);
	refuse(t, "a number", QWEN_EFORMAT, "general.architecture");
	t = tiny_new(&dense);
	tiny_str(t, "general.architecture", "qwen35");
	refuse(t, "another one's keys", QWEN_EFORMAT, "qwen35.block_count");
	free(name);
}

/* ---- what is only too large */

/* A matrix without data on the disk. */
static void
add_hole(struct tiny *t, const char *name, uint32_t type, size_t ne0,
    size_t ne1)
{
	struct tiny_tensor *x;

	tiny_drop(t, name);
	tiny_add(t, name, type, 32, 1, 0, 0, 1);
	x = tiny_tensor(t, name);
	free(x->data);
	x->data = NULL;
	x->ne[0] = ne0;
	x->ne[1] = ne1;
	x->bytes = ne0 / qwen_ggml_block_len(type) *
	    qwen_ggml_block_bytes(type) * ne1;
}

/* A head size that no key gives, beyond what a key may give. */
static void
large_head(void)
{
	struct tiny_shape s = dense;
	struct tiny *t;
	const size_t e = 4128;

	s.n_layer = 1;
	t = tiny_new(&s);
	tiny_drop_key(t, "attention.key_length");
	tiny_drop_key(t, "attention.value_length");
	tiny_u32(t, "attention.head_count", 1);
	tiny_u32(t, "attention.head_count_kv", 1);
	tiny_u32(t, "embedding_length", (uint32_t)e);
	add_hole(t, "token_embd.weight", QT_Q4_0, e, 19);
	add_hole(t, "output.weight", QT_Q4_0, e, 19);
	add_hole(t, "output_norm.weight", QT_F32, e, 1);
	add_hole(t, "blk.0.attn_norm.weight", QT_F32, e, 1);
	add_hole(t, "blk.0.ffn_norm.weight", QT_F32, e, 1);
	add_hole(t, "blk.0.attn_q.weight", QT_Q4_0, e, e);
	add_hole(t, "blk.0.attn_k.weight", QT_Q4_0, e, e);
	add_hole(t, "blk.0.attn_v.weight", QT_Q4_0, e, e);
	add_hole(t, "blk.0.attn_output.weight", QT_Q4_0, e, e);
	add_hole(t, "blk.0.attn_q_norm.weight", QT_F32, e, 1);
	add_hole(t, "blk.0.attn_k_norm.weight", QT_F32, e, 1);
	add_hole(t, "blk.0.ffn_gate.weight", QT_Q4_0, e, 48);
	add_hole(t, "blk.0.ffn_up.weight", QT_Q4_0, e, 48);
	add_hole(t, "blk.0.ffn_down.weight", QT_F32, 48, e);
	refuse(t, "one head of 4128 by default", QWEN_EUNSUP, "4128");
}

/* A few MB of weights that ask for a GB of state a layer. */
static void
large_state(void)
{
	struct tiny *t = tiny_new(&hybrid_moe);

	tiny_u32(t, "ssm.time_step_rank", 4096);
	tiny_u32(t, "ssm.inner_size", 4096 * 256);
	tiny_u32(t, "ssm.state_size", 256);
	refuse(t, "4096 states of 256x256", QWEN_EUNSUP, "4096x256x256");
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, sizeof path, "%s/bad.gguf", tmp != NULL ? tmp : "/tmp");
	every_tensor();
	shapes();
	types();
	all_reasons();
	every_size();
	relations();
	reals();
	architectures();
	large_head();
	large_state();
	return done_testing();
}
