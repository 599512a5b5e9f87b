/* SPDX-License-Identifier: ISC */
/*
 * odd_models.c - the library against the reference pass on models of shapes,
 * keys and formats that no fixture has.
 *
 * With weights in floating point they differ by rounding alone; a wrong index,
 * head or angle moves logits by whole units.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "qwen.h"
#include "../kernel/random.h"
#include "../ref/ref.h"
#include "../ref/tiny.h"
#include "../tap.h"

#define N_TOKENS 37

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

/* The library's logits of all tokens, in two parts; -1 if it fails. */
static int
evaluate(const char *path, const int32_t *tokens, size_t n_vocab, float *got)
{
	struct golden_case out = { .n_rows = n_vocab, .logits = got };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = keep_row,
	    .arg = &out };
	struct qwen_model_opts opts = { .n_threads = 2 };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct qwen_err err;
	int r = -1;

	if (qwen_model_open(&m, path, &opts, &err) < 0 ||
	    qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, tokens, 20, &how, &err) < 0 ||
	    qwen_session_eval(s, tokens + 20, N_TOKENS - 20, &how, &err) < 0)
		fprintf(stderr, "%s\n", err.msg);
	else
		r = 0;
	qwen_session_free(s);
	qwen_model_close(m);
	return r;
}

struct distance {
	double	max_abs, mean_kl;
	double	size;		/* deviation of the logits themselves */
};

static void
measure(const double *want, const float *got, size_t n_vocab,
    struct distance *d)
{
	struct golden_model m = { .n_vocab = n_vocab };
	struct golden_case c = { .n_rows = N_TOKENS };
	double out[6], sum = 0, sum2 = 0, n = (double)(N_TOKENS * n_vocab);
	size_t i;

	c.logits = need(N_TOKENS * n_vocab, sizeof *c.logits);
	for (i = 0; i < N_TOKENS * n_vocab; i++) {
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

/* Write, run both, compare; frees t. */
static void
check(struct tiny *t, const char *what, double max_abs, double mean_kl)
{
	const char *tmp = getenv("TMPDIR");
	size_t n_vocab = t->shape.n_vocab, i;
	double *want = need(N_TOKENS * n_vocab, sizeof *want);
	float *got = need(N_TOKENS * n_vocab, sizeof *got);
	int32_t tokens[N_TOKENS];
	struct ref_model *ref;
	struct distance d;
	char path[1024];

	for (i = 0; i < N_TOKENS; i++)
		tokens[i] = (int32_t)(random_u32() % n_vocab);
	snprintf(path, sizeof path, "%s/odd.gguf", tmp != NULL ? tmp : "/tmp");
	tiny_write(t, path);
	ref = ref_open(path);
	ref_round_kv(ref);
	ref_logits(ref, tokens, N_TOKENS, want);
	if (ok(evaluate(path, tokens, n_vocab, got) == 0, "%s: evaluates",
	    what)) {
		measure(want, got, n_vocab, &d);
		ok(d.max_abs <= max_abs && d.mean_kl <= mean_kl && d.size > 1,
		    "%s: within %.2g (limit %g), KL %.2g (%g); logits deviate "
		    "by %.2g", what, d.max_abs, max_abs, d.mean_kl, mean_kl,
		    d.size);
	}
	ref_close(ref);
	unlink(path);
	tiny_free(t);
	free(want);
	free(got);
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
		check(tiny_new(&s), qwen_quant_name(all[i]),
		    whole ? FLOAT_ABS : INT8_ABS, whole ? FLOAT_KL : INT8_KL);
	}
	s.types = all;
	s.n_types = sizeof all / sizeof all[0];
	check(tiny_new(&s), "all formats in one model", INT8_ABS, INT8_KL);
}

int
main(void)
{
	dimensions();
	rope_keys();
	plan_keys();
	other_keys();
	formats();
	return done_testing();
}
