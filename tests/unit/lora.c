/* SPDX-License-Identifier: ISC */
/*
 * lora.c - invalid adapters, and adapters of other models, are refused when the
 * model is opened, with a message that says what is wrong; and the identity of
 * a model with adapters.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const struct tiny_shape shape = {
	.arch = "qwen35moe", .n_layer = 4, .n_nextn = 1, .n_embd = 32,
	.n_vocab = 19, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .n_expert = 5, .n_expert_used = 2, .n_ff_exp = 24,
	.n_ff_shexp = 40, .interval = 4,
};

#define Q "blk.3.attn_q.weight"		/* 32 to 256 */

static char model_path[1024], path[1024];

/* An adapter of one pair, of attn_q, to be changed. */
static struct tiny *
fresh(void)
{
	struct tiny *t = calloc(1, sizeof *t);

	if (t == NULL)
		abort();
	t->shape.arch = "adapter";	/* before keys without a dot */
	tiny_str(t, "general.type", "adapter");
	tiny_str(t, "general.architecture", "qwen35moe");
	tiny_str(t, "type", "lora");
	tiny_f32(t, "lora.alpha", 8);
	tiny_add(t, Q ".lora_a", 0, 32, 4, 0, 0, 0.2);
	tiny_add(t, Q ".lora_b", 0, 4, 256, 0, 0, 0.2);
	return t;
}

/* Open the model with the adapter at path. */
static int
open_with(double scale, struct qwen_model **m, struct qwen_err *err)
{
	const struct qwen_adapter a = { path, scale };
	const struct qwen_model_opts opts = { .n_threads = 2, .adapters = &a,
	    .n_adapters = 1 };

	err->msg[0] = '\0';
	return qwen_model_open(m, model_path, &opts, err);
}

/* Is it refused, saying this?  Frees t. */
static void
refused_scaled(struct tiny *t, const char *what, double scale,
    const char *says)
{
	struct qwen_model *m;
	struct qwen_err err;
	int rc;

	tiny_write(t, path);
	tiny_free(t);
	rc = open_with(scale, &m, &err);
	ok(rc == -1 && m == NULL && strstr(err.msg, says) != NULL &&
	    strstr(err.msg, path) != NULL, "%s: %s", what, rc == 0 ?
	    "taken" : err.msg);
	qwen_model_close(m);
}

static void
refused(struct tiny *t, const char *what, const char *says)
{
	refused_scaled(t, what, 1, says);
}

static void
bad_keys(void)
{
	struct tiny *t = fresh();

	tiny_drop_key(t, "general.type");
	refused(t, "no type", "not an adapter: general.type is \"\"");
	tiny_str(t = fresh(), "general.type", "model");
	refused(t, "a model", "give a model with -m");
	tiny_u32(t = fresh(), "general.type", 3);
	refused(t, "a type that is no text", "general.type");
	tiny_str(t = fresh(), "general.architecture", "qwen3");
	refused(t, "another architecture", "\"qwen3\", not \"qwen35moe\"");
	tiny_str(t = fresh(), "general.architecture", "controlvector");
	refused(t, "a control vector", "a control vector");
	tiny_str(t = fresh(), "type", "ia3");
	refused(t, "another kind", "type \"ia3\"");
	tiny_u32s(t = fresh(), "alora.invocation_tokens",
	    (const uint32_t[]){ 1, 2 }, 2);
	refused(t, "an aLoRA", "activated LoRA");
	tiny_f32(t = fresh(), "lora.alpha", NAN);
	refused(t, "alpha NaN", "adapter.lora.alpha is not finite");
	tiny_f32(t = fresh(), "lora.alpha", INFINITY);
	refused(t, "alpha infinite", "adapter.lora.alpha is not finite");
	tiny_str(t = fresh(), "lora.alpha", "8");
	refused(t, "alpha a text", "adapter.lora.alpha");
	refused_scaled(fresh(), "scale NaN", NAN, "scale is not finite");
	refused_scaled(fresh(), "scale infinite", -INFINITY,
	    "scale is not finite");
	tiny_f32(t = fresh(), "lora.alpha", 3e38f);
	refused_scaled(t, "both large", 1e5, "infinite factor");
}

static void
bad_tensors(void)
{
	static const char *const no_matrix[] = { "blk.3.attn_norm.weight",
	    "blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "output_norm.weight",
	    "blk.4.nextn.enorm.weight" };
	struct tiny *t = fresh();
	char name[80];
	size_t i;

	tiny_drop(t, Q ".lora_b");
	refused(t, "no B", ".lora_a has no matching .lora_b");
	tiny_drop(t = fresh(), Q ".lora_a");
	refused(t, "no A", ".lora_b has no matching .lora_a");
	t = fresh();
	tiny_drop(t, Q ".lora_a");
	tiny_drop(t, Q ".lora_b");
	refused(t, "nothing", "the adapter has no tensors");
	tiny_add(t = fresh(), "blk.9.attn_q.weight.lora_a", 0, 32, 4, 0, 0, 1);
	tiny_add(t, "blk.9.attn_q.weight.lora_b", 0, 4, 256, 0, 0, 1);
	refused(t, "of no tensor", "no tensor blk.9.attn_q.weight");
	tiny_add(t = fresh(), "blk.3.attn_q.weight", 0, 32, 256, 0, 0, 1);
	refused(t, "a weight", "neither the .lora_a nor the .lora_b");
	for (i = 0; i < sizeof no_matrix / sizeof no_matrix[0]; i++) {
		t = fresh();
		snprintf(name, sizeof name, "%s.lora_a", no_matrix[i]);
		tiny_add(t, name, 0, 32, 1, 0, 0, 1);
		snprintf(name, sizeof name, "%s.lora_b", no_matrix[i]);
		tiny_add(t, name, 0, 1, 1, 0, 0, 1);
		refused(t, no_matrix[i], "not a matrix that LoRA can change");
	}
	tiny_tensor(t = fresh(), Q ".lora_a")->type = 26;
	refused(t, "I32", "I32");
	t = fresh();
	((float *)(void *)tiny_tensor(t, Q ".lora_a")->data)[37] = NAN;
	refused(t, "A with NaN", ".lora_a has a value that is NaN or infinite");
	t = fresh();
	((float *)(void *)tiny_tensor(t, Q ".lora_b")->data)[1023] = INFINITY;
	refused(t, "B with inf", ".lora_b has a value that is NaN or infinite");
}

/* Shapes of the pair for a tensor. */
static void
bad_shapes(void)
{
	static const struct { const char *name; uint64_t a[3], b[3]; } bad[] = {
		{ Q, { 31, 4, 1 }, { 4, 256, 1 } },
		{ Q, { 32, 4, 1 }, { 4, 255, 1 } },
		{ Q, { 32, 4, 1 }, { 5, 256, 1 } },
		{ Q, { 32, 4, 2 }, { 4, 256, 2 } },
		{ Q, { 4, 32, 1 }, { 4, 256, 1 } },
		{ Q, { 32, 4, 1 }, { 256, 4, 1 } },
		{ "blk.0.ffn_down_exps.weight", { 24, 4, 4 }, { 4, 32, 4 } },
		{ "blk.0.ffn_down_exps.weight", { 24, 4, 5 }, { 4, 32, 1 } },
		{ "token_embd.weight", { 32, 4, 1 }, { 4, 19, 1 } },
		{ "token_embd.weight", { 4, 18, 1 }, { 4, 32, 1 } },
		/* of the block that predicts, which is not loaded */
		{ "blk.4.attn_k.weight", { 32, 4, 1 }, { 4, 65, 1 } },
	};
	char name[80];
	struct tiny *t;
	size_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		t = fresh();
		tiny_drop(t, Q ".lora_a");
		tiny_drop(t, Q ".lora_b");
		snprintf(name, sizeof name, "%s.lora_a", bad[i].name);
		tiny_add(t, name, 0, (size_t)bad[i].a[0], (size_t)bad[i].a[1],
		    (size_t)bad[i].a[2], 0, 1);
		snprintf(name, sizeof name, "%s.lora_b", bad[i].name);
		tiny_add(t, name, 0, (size_t)bad[i].b[0], (size_t)bad[i].b[1],
		    (size_t)bad[i].b[2], 0, 1);
		refused(t, bad[i].name, "they do not fit the model's");
	}
	/* no tensor can be so */
	t = fresh();
	tiny_tensor(t, Q ".lora_a")->ne[1] = 0;
	tiny_tensor(t, Q ".lora_b")->ne[0] = 0;
	refused(t, "rank 0", ".lora_");
}

static void
bad_files(void)
{
	struct qwen_model *m;
	struct qwen_err err;
	struct tiny *t = fresh();
	unsigned char *file;
	size_t n, at;
	FILE *f;
	int rc;

	file = tiny_encode(t, &n);
	for (at = 0; at < n; at += at < 400 ? 7 : 531) {
		f = fopen(path, "wb");
		if (f == NULL || fwrite(file, 1, at, f) != at ||
		    fclose(f) != 0)
			abort();
		rc = open_with(1, &m, &err);
		if (rc == 0 || strstr(err.msg, path) == NULL)
			break;
	}
	ok(at >= n, "%zu bytes, cut anywhere: %s", n, err.msg);
	free(file);
	tiny_write(t, path);
	tiny_free(t);
	ok(qwen_model_open(&m, path, NULL, &err) == -1 && strstr(err.msg,
	    "give it with --lora") != NULL, "an adapter is no model: %s", err.msg);
	unlink(path);
	rc = open_with(1, &m, &err);
	ok(rc == -1 && strstr(err.msg, path) != NULL, "no file: %s", err.msg);
}

/* ---- the order of value heads, as ssm.v_head_reordered tells it */

/* Open the model with the key, or without (-1), an adapter likewise, for a matrix. */
static int
open_orders(int model, int adapter, const char *matrix, size_t n_in,
    size_t n_out, struct qwen_err *err)
{
	struct tiny *t = tiny_new(&shape);
	struct qwen_model *m;
	char name[80];
	int rc;

	if (model >= 0)
		tiny_bool(t, "ssm.v_head_reordered", model);
	tiny_write(t, model_path);
	tiny_free(t);
	t = fresh();
	t->shape.arch = "qwen35moe";
	if (adapter >= 0)
		tiny_bool(t, "ssm.v_head_reordered", adapter);
	snprintf(name, sizeof name, "%s.lora_a", matrix);
	tiny_add(t, name, 0, n_in, 4, 0, 0, 0.2);
	snprintf(name, sizeof name, "%s.lora_b", matrix);
	tiny_add(t, name, 0, 4, n_out, 0, 0, 0.2);
	tiny_write(t, path);
	tiny_free(t);
	if ((rc = open_with(1, &m, err)) == 0)
		qwen_model_close(m);
	return rc;
}

static void
orders(void)
{
	static const struct { const char *name; size_t n_in, n_out; } of[] = {
		{ "blk.0.attn_qkv.weight", 32, 256 },
		{ "blk.0.attn_gate.weight", 32, 128 },
		{ "blk.0.ssm_alpha.weight", 32, 4 },
		{ "blk.0.ssm_beta.weight", 32, 4 },
		{ "blk.0.ssm_out.weight", 128, 32 },
	};
	struct qwen_err err;
	size_t i;

	for (i = 0; i < sizeof of / sizeof of[0]; i++) {
		ok(open_orders(0, -1, of[i].name, of[i].n_in, of[i].n_out,
		    &err) == -1 && strstr(err.msg, of[i].name) != NULL &&
		    strstr(err.msg, "orders the value heads differently") !=
		    NULL, "tiled, for a model in groups: %s", err.msg);
		ok(open_orders(-1, 0, of[i].name, of[i].n_in, of[i].n_out,
		    &err) == -1, "in groups, for a tiled one: %s", err.msg);
		ok(open_orders(0, 0, of[i].name, of[i].n_in, of[i].n_out,
		    &err) == 0, "both in groups: %s", err.msg);
		ok(open_orders(1, -1, of[i].name, of[i].n_in, of[i].n_out,
		    &err) == 0, "both tiled, one says so: %s", err.msg);
	}
	ok(open_orders(0, -1, "blk.3.attn_v.weight", 32, 64, &err) == 0,
	    "a matrix without value heads: %s", err.msg);
}

/* ---- which model it is */

static struct qwen_header
header_with(double scale)
{
	struct qwen_header h = { .n_vocab = 0 };
	struct qwen_model *m;
	struct qwen_err err;

	if (ok(open_with(scale, &m, &err) == 0, "opens, scale %g: %s", scale,
	    err.msg) && qwen_model_header(&h, m, QWEN_STREAM_STATE, &err) < 0)
		ok(0, "%s", err.msg);
	qwen_model_close(m);
	return h;
}

static int
same_model(const struct qwen_header *a, const struct qwen_header *b)
{
	return memcmp(&a->model, &b->model, sizeof a->model) == 0;
}

static void
identity(void)
{
	struct qwen_adapter a = { path, 0.5 };
	struct qwen_header none, half, again, told;
	struct qwen_err err;
	struct qwen_gguf *g;
	struct tiny *t = fresh();

	tiny_write(t, path);
	none = header_with(0);
	half = header_with(0.5);
	again = header_with(0.5);
	ok(!same_model(&none, &half), "an adapter makes another model");
	ok(same_model(&half, &again) && qwen_header_match(&again, &half,
	    &err) == 0, "the same one each time");
	again = header_with(1);
	ok(!same_model(&half, &again) && qwen_header_match(&again, &half,
	    &err) == -1 && strstr(err.msg, "another scale; see --lora"),
	    "another scale is another: %s", err.msg);
	ok(qwen_header_match(&half, &none, &err) == -1 && strstr(err.msg,
	    "made with an adapter, this run has none; see --lora"), "%s",
	    err.msg);
	ok(qwen_header_match(&none, &half, &err) == -1 && strstr(err.msg,
	    "made without an adapter, this run has one; see --lora"), "%s",
	    err.msg);
	if (qwen_gguf_open(&g, model_path, &err) < 0)
		abort();
	ok(qwen_header_init(&told, QWEN_STREAM_STATE, g, &err) == 0 &&
	    same_model(&told, &none), "with scale 0 it is the file's");
	ok(qwen_header_adapt(&told, &a, 1, &err) == 0 && same_model(&told,
	    &half), "and can be told without the weights");
	qwen_gguf_close(g);
	/* the last byte of the last tensor */
	tiny_tensor(t, Q ".lora_b")->data[4 * 256 * 4 - 3] ^= 1;
	tiny_write(t, path);
	again = header_with(0.5);
	ok(!same_model(&half, &again), "all bytes count");
	tiny_str(t, "general.name", "of another name");
	tiny_write(t, path);
	told = header_with(0.5);
	ok(same_model(&told, &again), "a name does not");
	tiny_free(t);
}

/* ---- logits of a few tokens, of a hidden state */

static int
keep_hidden(void *arg, size_t pos, const float *x, struct qwen_err *err)
{
	(void)pos;
	(void)err;
	memcpy(arg, x, shape.n_embd * sizeof *x);
	return 0;
}

static void
single_logits(void)
{
	static const int32_t text[] = { 3, 1, 4, 1, 5 }, ids[] = { 0, 7, 18 };
	struct tiny *t = fresh();
	float hidden[32], got[3], want[3];
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST, .hidden = 1,
	    .row = keep_hidden, .arg = hidden };
	struct qwen_session *s, *h;
	struct qwen_model *m;
	struct qwen_err err;
	double worst = 0, moved = 0;
	size_t i;

	tiny_add(t, "output.weight.lora_a", 1, 32, 3, 0, 0, 0.3);
	tiny_add(t, "output.weight.lora_b", 0, 3, 19, 0, 0, 0.3);
	tiny_write(t, path);
	tiny_free(t);
	if (!ok(open_with(1, &m, &err) == 0 &&
	    qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_new(&h, m, &err) == 0 &&
	    qwen_session_eval(s, text, 5, NULL, &err) == 0 &&
	    qwen_session_eval(h, text, 5, &how, &err) == 0 &&
	    qwen_model_logits(m, hidden, ids, 3, got, &err) == 0,
	    "logits of three tokens: %s", err.msg))
		return;
	for (i = 0; i < 3; i++) {
		want[i] = qwen_session_logits(s)[ids[i]];
		worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
	}
	qwen_session_free(s);
	qwen_session_free(h);
	qwen_model_close(m);
	if (open_with(0, &m, &err) < 0 ||
	    qwen_model_logits(m, hidden, ids, 3, want, &err) < 0)
		abort();
	for (i = 0; i < 3; i++)
		moved = fmax(moved, fabs((double)got[i] - (double)want[i]));
	ok(worst < 1e-4 && moved > 0.05, "they are %.2g from those of the "
	    "head; without the adapter %.2g", worst, moved);
	qwen_model_close(m);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	struct tiny *t = tiny_new(&shape);

	snprintf(model_path, sizeof model_path, "%s/lora-model.gguf",
	    tmp != NULL ? tmp : "/tmp");
	snprintf(path, sizeof path, "%s/lora.gguf", tmp != NULL ? tmp :
	    "/tmp");
	tiny_write(t, model_path);
	tiny_free(t);
	identity();
	single_logits();
	bad_keys();
	bad_tensors();
	bad_shapes();
	bad_files();
	orders();
	unlink(model_path);
	unlink(path);
	return done_testing();
}
