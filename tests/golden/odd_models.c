/* SPDX-License-Identifier: ISC */
/*
 * odd_models.c - the library against the reference pass on models of shapes,
 * keys and formats that no fixture has.
 *
 * With floating-point weights the results differ only by rounding; a wrong
 * index, head or angle changes logits by whole units.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "qwen.h"
#include "qwentext.h"
#include "../kernel/random.h"
#include "../ref/ref.h"
#include "../ref/tiny.h"
#include "synth/synth.h"
#include "../levels.h"
#include "../tap.h"

/* Adapters of the models that follow: F32, F16, ... of these ranks. */
static struct lora {
	uint32_t	type;
	uint64_t	rank;
	double		scale;
} lora[2];
static size_t n_lora;
static struct qwen_adapter adapter[2];
static char adapter_path[2][1048];

/* Tokens, and how the library gets them: some at once, then in steps. */
struct split {
	size_t	n, first, step;
};

static const struct split usual = { 37, 20, 17 };
static const struct qwen_model_opts two_threads = { .n_threads = 2 };

static const struct tiny_shape dense = {
	.arch = "qwen3", .n_layer = 2, .n_embd = 48, .n_vocab = 71,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 80,
};

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 4, .n_embd = 48, .n_vocab = 71,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4,
};

static const struct tiny_shape sparse = {
	.arch = "qwen3moe", .n_layer = 2, .n_embd = 48, .n_vocab = 71,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_expert = 7,
	.n_expert_used = 3, .n_ff_exp = 24,
};

static const struct tiny_shape hybrid_moe = {
	.arch = "qwen35moe", .n_layer = 4, .n_embd = 48, .n_vocab = 71,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	.conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2, .n_head_v = 4,
	.n_expert = 7, .n_expert_used = 3, .n_ff_exp = 24, .n_ff_shexp = 40,
};

/* ---- comparing */

static void *
need(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (p == NULL)
		abort();
	return p;
}

static int
keep_row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct golden_case *c = arg;	/* n_rows: n_vocab, rows: unused */

	(void)err;
	memcpy(c->logits + pos * c->n_rows, logits,
	    c->n_rows * sizeof *logits);
	return 0;
}

/* The library's logits of all tokens; -1 if it fails. */
static int
evaluate(const char *path, const struct qwen_model_opts *opts,
    const int32_t *tokens, const struct split *sp, size_t n_vocab, float *got)
{
	struct golden_case out = { .n_rows = n_vocab, .logits = got };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep_row,
	    .arg = &out };
	struct qwen_model_opts with = *opts;
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct qwen_err err;
	size_t i;
	int r;

	with.adapters = adapter;
	with.n_adapters = n_lora;
	r = qwen_model_open(&m, path, &with, &err);
	if (r == 0)
		r = qwen_session_new(&s, m, &err);
	if (r == 0)
		r = qwen_session_eval(s, tokens, sp->first, &how, &err);
	for (i = sp->first; r == 0 && i < sp->n; i += sp->step)
		r = qwen_session_eval(s, tokens + i, sp->step, &how, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.msg);
	qwen_session_free(s);
	qwen_model_close(m);
	return r;
}

struct distance {
	double	max_abs, mean_kl;
	double	size;		/* deviation of the logits themselves */
};

static void
measure(const double *want, const float *got, size_t n_row, size_t n_vocab,
    struct distance *d)
{
	struct golden_model m = { .n_vocab = n_vocab };
	struct golden_case c = { .n_rows = n_row };
	double out[6], sum = 0, sum2 = 0, n = (double)(n_row * n_vocab);
	size_t i;

	c.logits = need(n_row * n_vocab, sizeof *c.logits);
	for (i = 0; i < n_row * n_vocab; i++) {
		c.logits[i] = (float)want[i];
		sum += want[i];
		sum2 += want[i] * want[i];
	}
	golden_distance(&m, &c, got, out);
	d->max_abs = out[2];
	d->mean_kl = out[0];
	d->size = sqrt(sum2 / n - sum / n * (sum / n));
	free(c.logits);
}

/* The same bits at once and one by one, on every level, with 1 to 3 threads? */
static void
same_bits(const char *path, const char *what, const int32_t *tokens, size_t n,
    size_t n_vocab, const float *want)
{
	const struct split splits[] = { { n, n, 1 }, { n, 1, 1 } };
	float *got = need(n * n_vocab, sizeof *got);
	size_t l, i;

	for (l = 0; l < N_LEVELS; l++) {
		if (qwen_cpu_check(levels[l]) != 1) {
			skip(levels[l], "this CPU lacks it");
			continue;
		}
		for (i = 0; i < 2; i++) {
			struct qwen_model_opts opts = { .cpu = levels[l],
			    .n_threads = 1 + (int)(2 * l + i) % 3 };

			memset(got, 0, n * n_vocab * sizeof *got);
			ok(evaluate(path, &opts, tokens, &splits[i], n_vocab,
			    got) == 0 && memcmp(got, want, n * n_vocab *
			    sizeof *got) == 0, "%s: the same bits %s, %s, %d "
			    "threads", what, i == 0 ? "at once" : "one by one",
			    levels[l], opts.n_threads);
		}
	}
	free(got);
}

/* Adapters for the model at path; the reference with them. */
static struct ref_model *
open_ref(const char *path)
{
	struct ref_model *ref = ref_open(path);
	struct qwen_gguf *g;
	struct qwen_err err;
	size_t i;
	int fd;

	ref_round_kv(ref);
	if (qwen_gguf_open(&g, path, &err) < 0)
		abort();
	for (i = 0; i < n_lora; i++) {
		struct qwen_synth_lora o = { .seed = 7 + i,
		    .rank = lora[i].rank, .type = lora[i].type,
		    .alpha = (double)(2 * lora[i].rank) };

		snprintf(adapter_path[i], sizeof adapter_path[i], "%s.%zu",
		    path, i);
		fd = open(adapter_path[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || qwen_synth_write_lora(g, &o, fd, &err) < 0 ||
		    close(fd) != 0)
			abort();
		adapter[i].path = adapter_path[i];
		adapter[i].scale = lora[i].scale;
		ref_add_lora(ref, adapter_path[i], lora[i].scale);
	}
	qwen_gguf_close(g);
	return ref;
}

/* Do the adapters matter?  Without them it must be other logits by far. */
static void
check_alone(const char *path, const char *what, const int32_t *tokens,
    const struct split *sp, size_t n_vocab, const double *want)
{
	float *got = need(sp->n * n_vocab, sizeof *got);
	size_t n = n_lora;
	struct distance d;

	n_lora = 0;
	if (ok(evaluate(path, &two_threads, tokens, sp, n_vocab, got) == 0,
	    "%s: evaluates without", what)) {
		measure(want, got, sp->n, n_vocab, &d);
		ok(d.max_abs > 1 && d.mean_kl > 0.02, "%s: not the model "
		    "alone, which is %.2g away, KL %.2g", what, d.max_abs,
		    d.mean_kl);
	}
	n_lora = n;
	free(got);
}

/* Write, run both, compare; frees t. */
static void
check_split(struct tiny *t, const char *what, const struct split *sp,
    double max_abs, double mean_kl)
{
	const char *tmp = getenv("TMPDIR");
	size_t n_vocab = t->shape.n_vocab, i;
	double *want = need(sp->n * n_vocab, sizeof *want);
	float *got = need(sp->n * n_vocab, sizeof *got);
	int32_t *tokens = need(sp->n, sizeof *tokens);
	struct ref_model *ref;
	struct distance d;
	char path[1024];

	for (i = 0; i < sp->n; i++)
		tokens[i] = (int32_t)(random_u32() % n_vocab);
	snprintf(path, sizeof path, "%s/odd.gguf", tmp != NULL ? tmp : "/tmp");
	tiny_write(t, path);
	ref = open_ref(path);
	ref_logits(ref, tokens, sp->n, want);
	if (ok(evaluate(path, &two_threads, tokens, sp, n_vocab, got) == 0,
	    "%s: evaluates", what)) {
		measure(want, got, sp->n, n_vocab, &d);
		ok(d.max_abs <= max_abs && d.mean_kl <= mean_kl && d.size > 1,
		    "%s: within %.2g (limit %g), KL %.2g (%g); logits deviate "
		    "by %.2g", what, d.max_abs, max_abs, d.mean_kl, mean_kl,
		    d.size);
		if (n_lora > 0)
			check_alone(path, what, tokens, sp, n_vocab, want);
		if (sp->step == 1)
			same_bits(path, what, tokens, sp->n, n_vocab, got);
	}
	ref_close(ref);
	unlink(path);
	for (i = 0; i < n_lora; i++)
		unlink(adapter_path[i]);
	tiny_free(t);
	free(want);
	free(got);
	free(tokens);
}

static void
check(struct tiny *t, const char *what, double max_abs, double mean_kl)
{
	check_split(t, what, &usual, max_abs, mean_kl);
}

/* Measured: at most 1.5e-3 and 1.3e-8. */
#define FLOAT_ABS 0.005
#define FLOAT_KL 5e-8

static void
check_shape(const struct tiny_shape *s, const char *what)
{
	check(tiny_new(s), what, FLOAT_ABS, FLOAT_KL);
}

/* ---- dimensions */

static void
dimensions(void)
{
	struct tiny_shape s;

	check_shape(&dense, "qwen3");
	check_shape(&hybrid, "qwen35");
	check_shape(&sparse, "qwen3moe");
	check_shape(&hybrid_moe, "qwen35moe");
	s = dense;
	s.n_embd = 53, s.n_vocab = 65, s.n_ff = 67, s.tied = 1;
	check_shape(&s, "odd widths, tied");
	s = dense;
	s.n_head = 9, s.n_head_kv = 1, s.n_embd_head = 48, s.n_rot = 34;
	check_shape(&s, "nine queries a key, part of the head rotates");
	s = dense;
	s.n_head = s.n_head_kv = 3, s.n_embd_head = 16;
	check_shape(&s, "every head its own key");
	s = hybrid;
	s.n_head_k = s.n_head_v = 3, s.dk = 16, s.dv = 48;
	s.conv_kernel = 1;
	check_shape(&s, "values longer than keys, no convolution");
	s = hybrid;
	s.n_head_k = 1, s.n_head_v = 5, s.dk = 50, s.dv = 16;
	s.conv_kernel = 7, s.interval = 3;
	check_shape(&s, "keys of 50, 5 heads on one, 7 taps, interval 3");
	s = hybrid;
	s.interval = 1, s.n_layer = 2;
	check_shape(&s, "no DeltaNet at all");
	s = hybrid;
	s.n_layer = 3;
	check_shape(&s, "no attention at all");
	s = sparse;
	s.n_expert = 1, s.n_expert_used = 1;
	check_shape(&s, "one expert");
	s = sparse;
	s.n_expert_used = 7;
	check_shape(&s, "all experts used");
	s = hybrid_moe;
	s.fused = 1, s.n_ff_exp = 19, s.n_ff_shexp = 130, s.n_nextn = 2;
	check_shape(&s, "fused experts of width 19, two MTP blocks");
	s = dense;
	s.n_layer = 1, s.n_embd = 1, s.n_ff = 1, s.n_head = 1;
	s.n_head_kv = 1, s.n_embd_head = 16;
	check_shape(&s, "width 1");
}

/* ---- many tokens */

/* Keys and values in several chunks, for batches and for single tokens. */
static void
lengths(void)
{
	static const struct split decode = { 600, 480, 1 };
	static const struct split pieces = { 600, 1, 599 };
	static const struct split blocks = { 577, 257, 16 };
	struct tiny_shape s = dense;
	struct tiny *t;

	t = tiny_new(&s);
	tiny_u32(t, "context_length", 600);
	check_split(t, "480 tokens, then 120 one by one", &decode, FLOAT_ABS,
	    FLOAT_KL);
	s.n_head = 6;		/* 3 queries on a key: groups of 8 straddle */
	t = tiny_new(&s);
	tiny_u32(t, "context_length", 600);
	check_split(t, "one token, then 599", &pieces, FLOAT_ABS, FLOAT_KL);
	t = tiny_new(&hybrid);
	tiny_u32(t, "context_length", 577);
	check_split(t, "257 tokens, then 20 times 16", &blocks, FLOAT_ABS,
	    FLOAT_KL);
	t = tiny_new(&hybrid_moe);
	tiny_u32(t, "context_length", 600);
	check_split(t, "480 tokens, then 120 one by one, experts", &decode,
	    FLOAT_ABS, FLOAT_KL);
}

/* ---- keys */

/* For formats of 256; all experts are used, so that none can be exchanged. */
static const struct tiny_shape wide = {
	.arch = "qwen35moe", .n_layer = 2, .n_embd = 256, .n_vocab = 67,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 64, .n_rot = 16,
	.conv_kernel = 4, .dk = 64, .dv = 64, .n_head_k = 2, .n_head_v = 4,
	.n_expert = 3, .n_expert_used = 3, .n_ff_exp = 256,
	.n_ff_shexp = 256, .interval = 2,
};

static void
rope_keys(void)
{
	static const char *const scaling[] = { "linear", "yarn", "none" };
	struct tiny_shape s = hybrid;
	struct tiny *t;
	size_t i;

	for (i = 0; i < 3; i++) {
		t = tiny_new(&dense);
		tiny_str(t, "rope.scaling.type", scaling[i]);
		tiny_f32(t, "rope.scaling.factor", 4);
		tiny_u32(t, "rope.scaling.original_context_length", 16);
		check(t, scaling[i], FLOAT_ABS, FLOAT_KL);
	}
	t = tiny_new(&dense);
	tiny_drop_key(t, "rope.freq_base");
	check(t, "rope.freq_base by default", FLOAT_ABS, FLOAT_KL);
	s.n_rot = 0;
	check_shape(&s, "rope.dimension_count by default");
}

static void
plan_keys(void)
{
	static const unsigned char layers[] = { 0, 1, 1, 0, 1 };
	struct tiny_shape s = hybrid_moe;
	struct tiny *t;

	s.n_layer = 5;
	s.recurrent = layers;
	check_shape(&s, "attention.recurrent_layers, unlike any interval");
	t = tiny_new(&s);
	tiny_u32s(t, "attention.recurrent_layers",
	    (const uint32_t[]){ 0, 1, 1, 0, 1, 7, 7 }, 7);
	check(t, "the same in integers, and longer", FLOAT_ABS, FLOAT_KL);
	t = tiny_new(&hybrid_moe);
	tiny_drop_key(t, "attention.head_count");
	tiny_u32s(t, "attention.head_count",
	    (const uint32_t[]){ 0, 0, 0, 4 }, 4);
	tiny_u32s(t, "attention.head_count_kv",
	    (const uint32_t[]){ 0, 0, 0, 2 }, 4);
	check(t, "head counts for each block, 0 where there are none",
	    FLOAT_ABS, FLOAT_KL);
}

/* Keys and names of the files that Ollama makes of Qwen3.5 and Qwen3-Next. */
static void
ollama_keys(void)
{
	struct tiny_shape s = hybrid_moe;
	struct tiny *t;
	char name[64];
	size_t i;

	s.n_layer = 5;
	t = tiny_new(&s);
	for (i = 0; i < s.n_layer; i++) {
		if (i == 3)
			continue;
		snprintf(name, sizeof name, "blk.%zu.ssm_dt.bias", i);
		*strrchr(tiny_tensor(t, name)->name, '.') = '\0';
	}
	tiny_u32s(t, "attention.head_count_kv",
	    (const uint32_t[]){ 0, 0, 0, 2, 0 }, 5);
	tiny_u32s(t, "rope.dimension_sections",
	    (const uint32_t[]){ 2, 1, 1 }, 3);
	tiny_bool(t, "ssm.v_head_reordered", 1);
	tiny_bool(t, "norm_top_k_prob", 1);
	tiny_add(t, "v.blk.0.attn_qkv.weight", 1, 16, 48, 0, 0, 1);
	tiny_add(t, "v.blk.0.ssm_dt", 0, 16, 0, 0, 0, 1);
	tiny_add(t, "mtp.layers.0.self_attn.q_proj.weight", 1, 32, 64, 0, 0, 1);
	check(t, "ssm_dt, three sections, layers by head_count_kv, and parts "
	    "for images and MTP", FLOAT_ABS, FLOAT_KL);
	s.interval = 2;
	t = tiny_new(&s);
	tiny_drop_key(t, "full_attention_interval");
	tiny_u32s(t, "attention.head_count_kv",
	    (const uint32_t[]){ 0, 2, 0, 2, 0 }, 5);
	check(t, "every second layer by head_count_kv alone", FLOAT_ABS,
	    FLOAT_KL);
	t = tiny_new(&hybrid);
	tiny_bool(t, "ssm.v_head_reordered", 0);
	check(t, "value heads of qwen35 in groups", FLOAT_ABS, FLOAT_KL);
	s = hybrid_moe;
	s.arch = "qwen3next";
	t = tiny_new(&s);
	tiny_bool(t, "ssm.v_head_reordered", 1);
	check(t, "value heads of qwen3next tiled", FLOAT_ABS, FLOAT_KL);
}

/* A part for images in F16 changes nothing for weights in F32. */
static void
images_beside(void)
{
	const struct qwen_model_opts opts = { .n_threads = 2,
	    .k = QWEN_KV_OWN, .v = QWEN_KV_OWN };
	const char *tmp = getenv("TMPDIR");
	struct tiny *t = tiny_new(&hybrid_moe);
	struct qwen_model *m;
	struct qwen_err err;
	char path[1024];

	tiny_add(t, "v.blk.0.attn_qkv.weight", 1, 16, 48, 0, 0, 1);
	snprintf(path, sizeof path, "%s/odd.gguf", tmp != NULL ? tmp : "/tmp");
	tiny_write(t, path);
	tiny_free(t);
	if (ok(qwen_model_open(&m, path, &opts, &err) == 0, "opens"))
		ok(qwen_model_k(m) == QWEN_KV_F32 && qwen_model_v(m) ==
		    QWEN_KV_F32, "F32 weights beside a part for images in F16 "
		    "have keys and values in f32");
	qwen_model_close(m);
	unlink(path);
}

static void
other_keys(void)
{
	struct tiny_shape s = dense;
	struct tiny *t;

	s.n_head = s.n_head_kv = 3;
	s.n_embd_head = 16;
	t = tiny_new(&s);
	tiny_drop_key(t, "attention.head_count_kv");
	tiny_drop_key(t, "attention.key_length");
	tiny_drop_key(t, "attention.value_length");
	check(t, "head counts and sizes by default", FLOAT_ABS, FLOAT_KL);
	t = tiny_new(&dense);
	tiny_f32(t, "attention.scale", 0.4f);
	tiny_u64(t, "embedding_length", dense.n_embd);
	check(t, "attention.scale", FLOAT_ABS, FLOAT_KL);
	t = tiny_new(&sparse);
	tiny_f32(t, "expert_weights_scale", 2.5f);
	tiny_drop_key(t, "expert_feed_forward_length");
	tiny_u32(t, "feed_forward_length", 3 * 24 + 2);
	check(t, "expert_weights_scale; width of an expert by default",
	    FLOAT_ABS, FLOAT_KL);
	t = tiny_new(&hybrid_moe);
	tiny_drop_key(t, "expert_shared_feed_forward_length");
	tiny_u32(t, "feed_forward_length", 40);
	check(t, "width of the shared expert by default", FLOAT_ABS,
	    FLOAT_KL);
	t = tiny_new(&dense);
	tiny_add(t, "output_extra.weight", 0, 48, 71, 0, 0, 1);
	tiny_add(t, "blk.7.attn_q.weight", 0, 3, 3, 0, 0, 1);
	check(t, "tensors that nobody knows", FLOAT_ABS, FLOAT_KL);
}

/* ---- formats */

/*
 * Activations in 8 bits move logits by some per cent of their size.  Measured:
 * at most 0.8 and 5.3e-3.
 */
#define INT8_ABS 2
#define INT8_KL 0.012

static void
formats(void)
{
	static const uint32_t all[] = { 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13,
	    14, 20, 23, 30 };
	struct tiny_shape s = wide;
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		int whole = all[i] < 2 || all[i] == 30;

		s.types = &all[i];
		s.n_types = 1;
		s.seed = i;
		check(tiny_new(&s), qwen_ggml_name(all[i]),
		    whole ? FLOAT_ABS : INT8_ABS, whole ? FLOAT_KL : INT8_KL);
	}
	s.types = all;
	s.n_types = sizeof all / sizeof all[0];
	check(tiny_new(&s), "all formats in one model", INT8_ABS, INT8_KL);
}

/* ---- adapters */

/* A model whose queries, keys and outputs of the attention have biases. */
static struct tiny *
biased(void)
{
	struct tiny *t = tiny_new(&dense);
	char name[64];
	size_t i;

	for (i = 0; i < dense.n_layer; i++) {
		snprintf(name, sizeof name, "blk.%zu.attn_q.bias", i);
		tiny_add(t, name, 0, 128, 1, 0, 0, 1);
		snprintf(name, sizeof name, "blk.%zu.attn_k.bias", i);
		tiny_add(t, name, 0, 64, 1, 0, 0, 1);
		snprintf(name, sizeof name, "blk.%zu.attn_output.bias", i);
		tiny_add(t, name, 0, dense.n_embd, 1, 0, 0, 1);
	}
	return t;
}

static void
adapters(void)
{
	static const struct split decode = { 70, 37, 1 };
	static const uint32_t types[] = { 12, 14, 8, 0 };
	struct tiny_shape s;

	n_lora = 1;
	lora[0] = (struct lora){ 0, 4, 1 };
	check_split(tiny_new(&dense), "an adapter of qwen3", &decode,
	    FLOAT_ABS, FLOAT_KL);
	check_split(tiny_new(&hybrid), "of qwen35", &decode, FLOAT_ABS,
	    FLOAT_KL);
	check_split(tiny_new(&sparse), "of qwen3moe", &decode, FLOAT_ABS,
	    FLOAT_KL);
	n_lora = 2;
	lora[0] = (struct lora){ 1, 16, 0.5 };
	lora[1] = (struct lora){ 30, 1, -0.75 };
	check_split(tiny_new(&hybrid_moe), "two of qwen35moe", &decode,
	    FLOAT_ABS, FLOAT_KL);
	s = hybrid_moe;
	s.fused = 1, s.n_ff_exp = 19, s.n_nextn = 2;
	check_split(tiny_new(&s), "two, with gate and up in one", &decode,
	    FLOAT_ABS, FLOAT_KL);
	s = dense;
	s.n_embd = 53, s.n_ff = 67, s.tied = 1;
	check_split(tiny_new(&s), "two, a tied head, odd widths", &decode,
	    FLOAT_ABS, FLOAT_KL);
	check_split(biased(), "two, biases", &decode, FLOAT_ABS, FLOAT_KL);
	lora[0] = (struct lora){ 8, 32, 1 };	/* whole blocks */
	lora[1] = (struct lora){ 0, 40, 0.3 };
	s = wide;
	s.types = types;
	s.n_types = 4;
	check_split(tiny_new(&s), "two of a quantised model", &decode,
	    INT8_ABS, INT8_KL);
	n_lora = 0;
}

int
main(void)
{
	adapters();
	dimensions();
	lengths();
	rope_keys();
	plan_keys();
	ollama_keys();
	images_beside();
	other_keys();
	formats();
	return done_testing();
}
