/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - MTP blocks, which the forward pass does not need: files with one,
 * with part of one, and with nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const struct tiny_shape dense = {
	.arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 32,
	.n_vocab = 19, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .n_ff = 48, .conv_kernel = 4, .dk = 32, .dv = 32,
	.n_head_k = 2, .n_head_v = 4,
};

static const struct tiny_shape moe = {
	.arch = "qwen35moe", .n_layer = 4, .n_nextn = 1, .n_embd = 32,
	.n_vocab = 19, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .n_expert = 5, .n_expert_used = 2, .n_ff_exp = 24,
	.n_ff_shexp = 40,
};

enum { N_VOCAB = 19 };

static char path[1024];
static struct qwen_err err;

/* Drop what begins so; how many. */
static int
drop_all(struct tiny *t, const char *begin)
{
	size_t i = 0;
	int n = 0;

	while (i < t->n_tensor) {
		if (strncmp(t->tensor[i].name, begin, strlen(begin)) != 0) {
			i++;
			continue;
		}
		tiny_drop(t, t->tensor[i].name);
		n++;
	}
	return n;
}

static int
logits(const struct tiny *t, float *v)
{
	static const int32_t ids[3] = { 3, 5, 18 };
	struct qwen_model_opts opts = { .n_threads = 1 };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	int rc;

	tiny_write(t, path);
	err.msg[0] = '\0';
	rc = qwen_model_open(&m, path, &opts, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids, 3, NULL, &err);
	if (rc == 0)
		memcpy(v, qwen_session_logits(s), N_VOCAB * sizeof *v);
	qwen_session_free(s);
	qwen_model_close(m);
	unlink(path);
	return rc;
}

/* Some publishers leave out the FFN of the block, others the block. */
static void
less_of_it(const struct tiny_shape *s)
{
	struct tiny *t = tiny_new(s);
	float want[N_VOCAB], got[N_VOCAB];

	ok(logits(t, want) == 0, "%s with the block %s", s->arch, err.msg);
	ok(drop_all(t, "blk.4.ffn_") >= 3 && logits(t, got) == 0 &&
	    memcmp(want, got, sizeof got) == 0, "without its FFN %s", err.msg);
	ok(drop_all(t, "blk.4.") > 10 && logits(t, got) == 0 &&
	    memcmp(want, got, sizeof got) == 0, "without it %s", err.msg);
	tiny_free(t);
}

static void
reason(void *arg, const char *msg)
{
	snprintf(arg, 256, "%s", msg);
}

static void
side_file(struct tiny *t, const char *want, const char *what)
{
	char said[256] = "";
	const struct qwen_gguf_checker c = { .problem = reason, .arg = said };
	struct qwen_gguf *g;
	float v[N_VOCAB];
	int n = 0;

	ok(logits(t, v) == -1 && err.code == QWEN_EUNSUP &&
	    strstr(err.msg, want) != NULL, "%s: %s", what, err.msg);
	tiny_write(t, path);
	if (qwen_gguf_open(&g, path, &err) == 0) {
		n = qwen_model_check(g, &c, &err);
		qwen_gguf_close(g);
	}
	ok(n == 1 && strstr(said, want) != NULL, "which is the one reason");
	unlink(path);
}

static void
side_files(const struct tiny_shape *s)
{
	struct tiny *t = tiny_new(s);
	char begin[16];
	float v[N_VOCAB];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(begin, sizeof begin, "blk.%d.", i);
		drop_all(t, begin);
	}
	side_file(t, s->arch, "a side file without a name");
	tiny_str(t, "general.name", "Some Model");
	side_file(t, "a draft file for Some Model, not a model", "with a name");
	tiny_str(t, "general.basename", "Qwen3.8-27B");
	side_file(t, "a draft file for Qwen3.8-27B,", "with a basename");
	tiny_drop(t, "output.weight");
	side_file(t, "a draft file for", "without a head");
	tiny_drop_key(t, "nextn_predict_layers");
	side_file(t, "the last of 5 blocks", "without the key");
	drop_all(t, "blk.4.nextn");
	ok(logits(t, v) == -1 && strstr(err.msg, "MTP block") == NULL,
	    "any file with few blocks is no draft: %s", err.msg);
	tiny_free(t);
}

/* ---- drafts by a side file */

static char model[1100], side[1100];

/* Of a model with a side file (NULL: with its own block), or -1. */
static int
drafts(const char *file, int32_t id[4])
{
	static const int32_t ids[3] = { 3, 5, 18 };
	struct qwen_model_opts opts = { .n_threads = 1, .draft = file == NULL,
	    .draft_file = file };
	struct qwen_session *s = NULL;
	struct qwen_model *m;
	float prob[4];
	size_t n = 0;
	int rc;

	err.msg[0] = '\0';
	rc = qwen_model_open(&m, model, &opts, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, ids, 3, NULL, &err);
	if (rc == 0)
		rc = qwen_session_draft(s, 7, 4, id, prob, &n, &err);
	qwen_session_free(s);
	qwen_model_close(m);
	return rc < 0 ? -1 : (int)n;
}

/* A file that does not fit: one line, which names it and says why. */
static void
unfit(const char *what, int code, const char *why)
{
	int32_t id[4];

	ok(drafts(side, id) == -1 && err.code == code &&
	    strstr(err.msg, "draft ") == err.msg &&
	    strstr(err.msg, why) != NULL && strchr(err.msg, '\n') == NULL,
	    "%s: %s", what, err.msg);
}

static void
unfit_shape(const struct tiny_shape *shape, const char *what, const char *why)
{
	struct tiny *t = tiny_new(shape);

	tiny_write(t, side);
	unfit(what, QWEN_EMISMATCH, why);
	tiny_free(t);
}

static void
drop_trunk(struct tiny *t)
{
	char begin[16];
	int i;

	for (i = 0; i < 4; i++) {
		snprintf(begin, sizeof begin, "blk.%d.", i);
		drop_all(t, begin);
	}
}

static void
by_side_file(const struct tiny_shape *shape)
{
	struct tiny *t = tiny_new(shape);
	struct tiny_shape other = *shape;
	int32_t own[4], id[4];
	FILE *f;

	snprintf(model, sizeof model, "%s.model", path);
	snprintf(side, sizeof side, "%s.side", path);
	tiny_write(t, model);
	tiny_write(t, side);
	ok(drafts(NULL, own) == 4 && drafts(side, id) == 4 &&
	    memcmp(own, id, sizeof id) == 0, "%s: drafts by the block of "
	    "another file %s", shape->arch, err.msg);
	drop_trunk(t);
	tiny_write(t, side);
	ok(drafts(side, id) == 4 && memcmp(own, id, sizeof id) == 0,
	    "by a side file %s", err.msg);
	tiny_drop(t, "output.weight");
	tiny_drop(t, "output_norm.weight");
	tiny_write(t, side);
	ok(drafts(side, id) == 4 && memcmp(own, id, sizeof id) == 0,
	    "that has less %s", err.msg);
	tiny_drop(t, "blk.4.nextn.hnorm.weight");
	tiny_write(t, side);
	unfit("a norm is missing", QWEN_EFORMAT, "blk.4.nextn.hnorm.weight");
	drop_all(t, "blk.4.nextn");
	tiny_write(t, side);
	unfit("no such block", QWEN_EFORMAT, "the file has no MTP block");
	other.n_embd *= 2;
	unfit_shape(&other, "wider", "embedding_length is 64, not 32");
	other = *shape;
	other.n_vocab++;
	unfit_shape(&other, "other tokens", "rows of token_embd is 20, not 19");
	unfit_shape(shape == &dense ? &moe : &dense, "another architecture",
	    "architecture");
	if ((f = fopen(side, "w")) == NULL || fputs("hello", f) < 0 ||
	    fclose(f) != 0)
		abort();
	unfit("no model file", QWEN_EFORMAT, "GGUF");
	unlink(side);
	unfit("no file", QWEN_EIO, "");
	unlink(model);
	tiny_free(t);
}

/* What the block takes is in the plan, and nothing without it. */
static void
plans(const struct tiny_shape *shape)
{
	enum { N = 100, BLOCKS = 7 };
	struct qwen_model_opts opts = { .n_threads = 1 };
	struct tiny *t = tiny_new(shape);
	struct qwen_plan p[2];
	struct qwen_cache_usage used[2];
	struct qwen_session *s;
	struct qwen_model *m;
	struct qwen_cache *c;
	int32_t ids[N] = { 0 };
	uint64_t layer = 2 * shape->n_head_kv * shape->n_embd_head * 16 * 2;
	int i, rc = 0;

	err.msg[0] = '\0';
	tiny_write(t, path);
	for (i = 0; i < 2; i++) {
		opts.draft = i;
		rc |= qwen_model_open(&m, path, &opts, &err);
		qwen_plan_make(&p[i], m, N, 1, 0, 0, NULL);
		rc |= qwen_cache_new(&c, m, 0, &err);
		rc |= qwen_session_new_in(&s, c, &err);
		rc |= qwen_session_eval(s, ids, N, NULL, &err);
		qwen_cache_usage(c, &used[i]);
		qwen_session_free(s);
		qwen_cache_free(c);
		qwen_model_close(m);
	}
	ok(rc == 0 && p[1].kv - p[0].kv == BLOCKS * layer &&
	    used[1].used - used[0].used == BLOCKS * layer &&
	    p[1].kv + p[1].state == used[1].used, "%s: the KV cache of the "
	    "block, %d blocks of %u bytes %s", shape->arch, BLOCKS,
	    (unsigned)layer, err.msg);
	ok(p[1].weights > p[0].weights + 2 * 32 * 32 * 4 &&
	    p[1].other - p[0].other == 80 * 32 * 4 && p[1].sum.read ==
	    p[0].sum.read, "its weights and hidden states; a token reads none "
	    "of them");
	unlink(path);
	tiny_free(t);
}

int
main(void)
{
	const char *dir = getenv("TMPDIR");

	snprintf(path, sizeof path, "%s/mtp-%ld.gguf",
	    dir != NULL ? dir : "/tmp", (long)getpid());
	less_of_it(&dense);
	less_of_it(&moe);
	side_files(&dense);
	side_files(&moe);
	by_side_file(&dense);
	by_side_file(&moe);
	plans(&dense);
	plans(&moe);
	return done_testing();
}
