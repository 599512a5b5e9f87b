/* SPDX-License-Identifier: ISC */
/*
 * nonfinite.c - one NaN or infinity anywhere in the weights in use ends the
 * evaluation with an error that names the layer; elsewhere it has no effect.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "engine/quant/quant.h"
#include "../kernel/random.h"
#include "../ref/tiny.h"
#include "../levels.h"
#include "../tap.h"

/* Every kind of block, and all experts used, so that all weights are met. */
static const struct tiny_shape all_kinds = {
	.arch = "qwen35moe", .n_layer = 2, .n_nextn = 1, .n_embd = 256,
	.n_vocab = 19, .n_head = 4, .n_head_kv = 2, .n_embd_head = 64,
	.n_rot = 16, .conv_kernel = 4, .dk = 64, .dv = 64, .n_head_k = 2,
	.n_head_v = 4, .n_expert = 2, .n_expert_used = 2, .n_ff_exp = 256,
	.n_ff_shexp = 256, .interval = 2,
};

static const struct tiny_shape tied_dense = {
	.arch = "qwen3", .n_layer = 2, .n_embd = 256, .n_vocab = 19,
	.tied = 1, .n_head = 4, .n_head_kv = 2, .n_embd_head = 64,
	.n_ff = 256,
};

static const int32_t tokens[] = { 3, 7 };
#define N_TOKENS (sizeof tokens / sizeof tokens[0])

struct fixture {
	struct tiny	*t;
	char		 path[1024];
	uint64_t	*offset;	/* of tensor i's data in the file */
	int		 fd;
	float		*logits;	/* unharmed */
};

/* ---- putting it in */

/* The bits of NaN, +infinity and -infinity as f16, bf16 or the upper f32. */
static unsigned
bad_bits(uint32_t type, int kind)
{
	static const unsigned half[] = { 0x7e00, 0x7c00, 0xfc00 };
	static const unsigned wide[] = { 0x7fc0, 0x7f80, 0xff80 };

	return type == QT_F32 || type == QT_BF16 ? wide[kind] : half[kind];
}

/* Where in a block a scale is that becomes bad. */
static size_t
scale_at(uint32_t type)
{
	switch (type) {
	case QT_F32:
		return 2;
	case QT_Q6_K:
		return 208;
	case QT_Q3_K:
		return 108;
	case QT_Q2_K:
		return random_u32() % 2 ? 80 : 82;
	case QT_Q4_K:
	case QT_Q5_K:
	case QT_Q4_1:
	case QT_Q5_1:
		return random_u32() % 2 ? 0 : 2;
	default:
		return 0;
	}
}

static void
write_at(const struct fixture *f, uint64_t at, const unsigned char *p,
    size_t n)
{
	if (pwrite(f->fd, p, n, (off_t)at) != (ssize_t)n)
		abort();
}

/* ---- evaluating */

/* How keys and values are kept. */
static enum qwen_kv kept;

/* 0 and the last logits, or the error's code. */
static int
evaluate(const char *path, const char *level, float *logits,
    struct qwen_err *err)
{
	struct qwen_model_opts opts = { .n_threads = 1, .cpu = level,
	    .k = kept, .v = kept };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;

	memset(err, 0, sizeof *err);
	if (qwen_model_open(&m, path, &opts, err) == 0 &&
	    qwen_session_new(&s, m, err) == 0 &&
	    qwen_session_eval(s, tokens, N_TOKENS, NULL, err) == 0)
		memcpy(logits, qwen_session_logits(s),
		    qwen_model_n_vocab(m) * sizeof *logits);
	qwen_session_free(s);
	qwen_model_close(m);
	return err->code;
}

/* Does the message say where a bad number of this tensor is met first? */
static int
names_place(const char *name, const char *msg)
{
	long block;
	char want[32];

	if (sscanf(name, "blk.%ld.", &block) == 1) {
		snprintf(want, sizeof want, "layer %ld:", block);
		return strstr(msg, want) != NULL;
	}
	if (strcmp(name, "token_embd.weight") == 0)
		return strstr(msg, "embedding") != NULL;
	return strstr(msg, "logit") != NULL;
}

/* ---- one tensor */

struct count {
	int	n, bad;
	char	first[320];	/* what went wrong first */
};

static void
try_place(const struct fixture *f, size_t i, size_t block, int kind,
    const char *level, struct count *c)
{
	const struct tiny_tensor *x = &f->t->tensor[i];
	size_t bytes = qwen_ggml_block_bytes(x->type), at = scale_at(x->type);
	int used = strncmp(x->name, "blk.2.", 6) != 0, code, good;
	unsigned char b[2];
	struct qwen_err err;
	float logits[64];

	qwen_put_le16(b, (uint16_t)bad_bits(x->type, kind));
	write_at(f, f->offset[i] + block * bytes + at, b, 2);
	code = evaluate(f->path, level, logits, &err);
	write_at(f, f->offset[i] + block * bytes + at,
	    x->data + block * bytes + at, 2);
	good = used ? code == QWEN_ENUMERIC && names_place(x->name, err.msg) :
	    code == 0 && memcmp(logits, f->logits,
	    f->t->shape.n_vocab * sizeof *logits) == 0;
	c->n++;
	if (!good && c->bad++ == 0)
		snprintf(c->first, sizeof c->first, ": %s in block %zu of %zu:"
		    " code %d \"%.180s\"", kind == 0 ? "NaN" : kind == 1 ?
		    "+inf" : "-inf", block, x->bytes / bytes, code, err.msg);
}

/* First, last and any block; in the embedding, of a token that is there. */
static void
try_tensor(const struct fixture *f, size_t i, const char *level)
{
	const struct tiny_tensor *x = &f->t->tensor[i];
	size_t n = x->bytes / qwen_ggml_block_bytes(x->type), block;
	size_t row = n / x->ne[1];
	struct count c = { 0 };
	unsigned place, turn = random_u32();

	for (place = 0; place < 3; place++) {
		block = place == 0 ? 0 : place == 1 ? n - 1 : random_u32() % n;
		if (strcmp(x->name, "token_embd.weight") == 0)
			block = (size_t)tokens[place % N_TOKENS] * row +
			    random_u32() % row;
		try_place(f, i, block, (int)((place + turn) % 3), level, &c);
	}
	ok(c.bad == 0, "%s %s %s: %d of %d%s", level, qwen_ggml_name(x->type),
	    x->name, c.n - c.bad, c.n, c.first);
}

static void
set_up(struct fixture *f, const struct tiny_shape *s)
{
	const char *tmp = getenv("TMPDIR");
	struct qwen_gguf *g;
	struct qwen_err err;
	size_t i;

	f->t = tiny_new(s);
	snprintf(f->path, sizeof f->path, "%s/nonfinite.gguf",
	    tmp != NULL ? tmp : "/tmp");
	tiny_write(f->t, f->path);
	f->fd = open(f->path, O_RDWR);
	f->offset = calloc(f->t->n_tensor, sizeof *f->offset);
	f->logits = calloc(s->n_vocab, sizeof *f->logits);
	if (f->fd < 0 || f->offset == NULL || f->logits == NULL ||
	    qwen_gguf_open(&g, f->path, &err) < 0)
		abort();
	for (i = 0; i < f->t->n_tensor; i++)
		f->offset[i] = qwen_gguf_tensor(g, i)->offset;
	qwen_gguf_close(g);
}

static void
tear_down(struct fixture *f)
{
	close(f->fd);
	unlink(f->path);
	tiny_free(f->t);
	free(f->offset);
	free(f->logits);
}

static void
check(const struct tiny_shape *s, const char *level)
{
	struct fixture f;
	struct qwen_err err;
	size_t i;

	set_up(&f, s);
	if (ok(evaluate(f.path, level, f.logits, &err) == 0,
	    "%s %s: fine as it is %s", s->arch, level, err.msg)) {
		for (i = 0; i < f.t->n_tensor; i++)
			try_tensor(&f, i, level);
	}
	tear_down(&f);
}

/* ---- weights that no token meets */

/* NaN at the start of an expert's matrix. */
static void
spoil_expert(struct fixture *f, size_t expert)
{
	struct tiny_tensor *x = tiny_tensor(f->t, "blk.0.ffn_up_exps.weight");

	qwen_put_le32(x->data + expert * x->bytes / x->ne[2], 0x7fc00000);
}

/* Of five experts one is used; 4 has the row of 3, and ties go to 3. */
static void
check_unused_expert(void)
{
	struct tiny_shape s = all_kinds;
	struct tiny_tensor *router;
	struct fixture f;
	struct qwen_err err;
	float got[64];
	size_t i;

	s.n_expert = 5;
	s.n_expert_used = 1;
	set_up(&f, &s);
	router = tiny_tensor(f.t, "blk.0.ffn_gate_inp.weight");
	memcpy(router->data + 4 * s.n_embd * 4,
	    router->data + 3 * s.n_embd * 4, s.n_embd * 4);
	tiny_write(f.t, f.path);
	ok(evaluate(f.path, "scalar", f.logits, &err) == 0, "one of five %s",
	    err.msg);
	spoil_expert(&f, 4);
	tiny_write(f.t, f.path);
	ok(evaluate(f.path, "scalar", got, &err) == 0 && memcmp(got, f.logits,
	    s.n_vocab * sizeof *got) == 0, "NaN in the expert that no token "
	    "chooses %s", err.msg);
	for (i = 0; i < 4; i++)
		spoil_expert(&f, i);
	tiny_write(f.t, f.path);
	ok(evaluate(f.path, "scalar", got, &err) == QWEN_ENUMERIC,
	    "NaN in the others: %s", err.msg);
	tear_down(&f);
}

/* ---- a token that is only guessed */

/* The same logits beside it, and guesses end before it. */
static void
check_guess(const char *level)
{
	static const int32_t guess[] = { 5, 11, 4 };
	struct qwen_model_opts opts = { .n_threads = 1, .cpu = level,
	    .k = kept, .v = kept };
	struct qwen_eval how = { .guess = guess, .n_guess = 3 };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct fixture f;
	struct qwen_err err;
	int good;

	set_up(&f, &all_kinds);
	good = evaluate(f.path, level, f.logits, &err) == 0;
	qwen_put_le16(tiny_tensor(f.t, "token_embd.weight")->data +
	    guess[1] * all_kinds.n_embd * 4 + 2, 0x7fc0);
	tiny_write(f.t, f.path);
	good = good && qwen_model_open(&m, f.path, &opts, &err) == 0 &&
	    qwen_session_new(&s, m, &err) == 0 &&
	    qwen_session_eval(s, tokens, N_TOKENS, &how, &err) == 0 &&
	    memcmp(qwen_session_logits(s), f.logits, all_kinds.n_vocab *
	    sizeof *f.logits) == 0;
	ok(good && qwen_session_n_guessed(s) == 1,
	    "%s: NaN in the embedding of a guess", level);
	ok(good && qwen_session_eval(s, guess, 1, NULL, &err) == 0 &&
	    qwen_session_n_guessed(s) == 0 &&
	    qwen_session_eval(s, guess + 1, 1, NULL, &err) == -1 &&
	    err.code == QWEN_ENUMERIC, "which fails when it is read: %s",
	    err.msg);
	qwen_session_free(s);
	qwen_model_close(m);
	tear_down(&f);
}

int
main(void)
{
	static const uint32_t mixes[][4] = { { QT_F32, QT_F16, QT_BF16 },
	    { QT_Q8_0, QT_Q4_K, QT_Q5_K, QT_Q6_K },
	    { QT_Q4_0, QT_Q5_1, QT_IQ4_XS, QT_Q2_K } };
	struct tiny_shape s;
	size_t i, l;

	for (l = 0; l < N_LEVELS; l++) {
		if (qwen_cpu_check(levels[l]) != 1) {
			skip(levels[l], "this CPU lacks it");
			continue;
		}
		for (i = 0; i < 3; i++) {
			s = all_kinds;
			s.types = mixes[i];
			s.n_types = i == 0 ? 3 : 4;
			s.seed = l;
			check(&s, levels[l]);
		}
		s = tied_dense;
		s.types = mixes[l % 3];
		s.n_types = 3;
		check(&s, levels[l]);
		check_guess(levels[l]);
		kept = l % 3 == 0 ? QWEN_KV_Q8_0 : l % 3 == 1 ? QWEN_KV_Q4_0 :
		    QWEN_KV_F32;
		check(&s, levels[l]);
		check_guess(levels[l]);
		kept = QWEN_KV_F16;
	}
	check_unused_expert();
	return done_testing();
}
