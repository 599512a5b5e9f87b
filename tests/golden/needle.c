/* SPDX-License-Identifier: ISC */
/*
 * needle.c - a constructed model finds what occurs once in a long text, with
 * each KV cache type.
 *
 * One half of a token's embedding is a key, the other half a value, both with
 * random signs.  A question has the key of a token, and no value.  The only
 * layer attends to the token with this key and answers with the token of its
 * value.  A trained model, which finds less, would not test the cache.
 *
 * The context is 262,144 tokens, and with YaRN four times as many.
 *
 *	needle			4,096 and 262,144 tokens; 1,048,576 in check-long
 *	needle LENGTH [TYPE]	this length; only this type: f16, q8_0, q4_0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum {
	N_CTX = 262144,
	HEAD = 64,		/* numbers of a key, and of a value */
	N_TURNED = HEAD / 4,	/* pairs that positions turn too far: not used */
	N_NEEDLE = 16,
	N_HAY = 2016,		/* tokens: needles, hay, questions */
	N_VOCAB = N_NEEDLE + N_HAY + N_NEEDLE,
};

#define SHARP 2.5f

static char path[] = "/tmp/needle.XXXXXX";
static uint64_t rng = 1;

static uint64_t
random_bits(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return rng >> 33;
}

static float
sign(void)
{
	return random_bits() & 1 ? 1.0f : -1.0f;
}

/* The numbers of a tensor, all 0; *ne0 in a row. */
static float *
cleared(struct tiny *t, const char *name, size_t *ne0)
{
	struct tiny_tensor *x = tiny_tensor(t, name);

	*ne0 = x->ne[0];
	memset(x->data, 0, x->bytes);
	return (float *)(void *)x->data;
}

/* out[to + i] = in[from + i] */
static void
copies(struct tiny *t, const char *name, size_t to, size_t from)
{
	size_t i, n;
	float *w = cleared(t, name, &n);

	for (i = 0; i < HEAD; i++)
		w[(to + i) * n + from + i] = 1;
}

static void
all_are(struct tiny *t, const char *name, float v)
{
	size_t i, n;
	float *w = cleared(t, name, &n);

	for (i = 0; i < n; i++)
		w[i] = v;
}

static void
words(struct tiny *t)
{
	size_t i, j, n;
	float *in = cleared(t, "token_embd.weight", &n);
	float *out = cleared(t, "output.weight", &n);

	for (i = 0; i < N_NEEDLE + N_HAY; i++) {
		for (j = 0; j < HEAD; j++) {
			if (j % (HEAD / 2) >= N_TURNED)
				in[i * n + j] = sign();
			in[i * n + HEAD + j] = sign();
			out[i * n + HEAD + j] = in[i * n + HEAD + j];
		}
	}
	for (i = 0; i < N_NEEDLE; i++)
		memcpy(in + (N_NEEDLE + N_HAY + i) * n, in + i * n,
		    HEAD * sizeof *in);
}

static void
make_model(void)
{
	struct tiny *t = tiny_new(&(struct tiny_shape){ .arch = "qwen3",
	    .n_layer = 1, .n_embd = 2 * HEAD, .n_vocab = N_VOCAB, .n_head = 1,
	    .n_head_kv = 1, .n_embd_head = HEAD, .n_ff = 32 });
	size_t n;

	tiny_u32(t, "context_length", N_CTX);
	/* pair N_TURNED, and those after it, by less than 1e-7 a position */
	tiny_f32(t, "rope.freq_base", 1e15f);
	words(t);
	copies(t, "blk.0.attn_q.weight", 0, 0);
	copies(t, "blk.0.attn_k.weight", 0, 0);
	copies(t, "blk.0.attn_v.weight", 0, HEAD);
	copies(t, "blk.0.attn_output.weight", HEAD, 0);
	/*
	 * A key's score is SHARP * sqrt(HEAD), that of others two thirds of it
	 * at most.  With 2, values and keys of q4_0 already lose some needles.
	 */
	all_are(t, "blk.0.attn_q_norm.weight", SHARP);
	all_are(t, "blk.0.attn_k_norm.weight", 1);
	all_are(t, "blk.0.attn_norm.weight", 1);
	all_are(t, "blk.0.ffn_norm.weight", 1);
	all_are(t, "output_norm.weight", 1);
	cleared(t, "blk.0.ffn_down.weight", &n);
	tiny_write(t, path);
	tiny_free(t);
}

/* How sure the model was of the right answer to question i. */
struct answers {
	size_t	n_hay;			/* questions follow them */
	double	p[N_NEEDLE];
};

static int
judge(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	struct answers *a = arg;
	double sum = 0;
	size_t i;

	(void)err;
	if (pos < a->n_hay)
		return 0;
	for (i = 0; i < N_VOCAB; i++)
		sum += exp(logits[i] - logits[pos - a->n_hay]);
	a->p[pos - a->n_hay] = 1 / sum;
	return 0;
}

/* Needle i of N_NEEDLE, but for the one left out, i parts into the hay. */
static int
ask(struct answers *a, size_t n, enum qwen_kv kv, size_t left_out)
{
	struct qwen_model_opts o = { .n_threads = 2, .k = kv, .v = kv };
	struct qwen_eval no_logits = { .logits = QWEN_LOGITS_NONE };
	struct qwen_eval all = { .logits = QWEN_LOGITS_ALL, .row = judge,
	    .arg = a };
	struct qwen_session *s = NULL;
	struct qwen_model *m = NULL;
	struct qwen_err err = { 0 };
	int32_t *tokens = calloc(n, sizeof *tokens);
	size_t i;
	int rc;

	if (n > N_CTX && qwen_rope_parse(&o.rope, "yarn=4") < 0)
		return -1;
	a->n_hay = n - N_NEEDLE;
	for (i = 0; i < a->n_hay; i++)
		tokens[i] = (int32_t)(N_NEEDLE + random_bits() % N_HAY);
	for (i = 0; i < N_NEEDLE; i++) {
		if (i != left_out)
			tokens[i * (a->n_hay - 1) / (N_NEEDLE - 1)] =
			    (int32_t)i;
		tokens[a->n_hay + i] = (int32_t)(N_NEEDLE + N_HAY + i);
	}
	rc = qwen_model_open(&m, path, &o, &err);
	if (rc == 0)
		rc = qwen_session_new(&s, m, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, tokens, a->n_hay, &no_logits, &err);
	if (rc == 0)
		rc = qwen_session_eval(s, tokens + a->n_hay, N_NEEDLE, &all,
		    &err);
	if (rc < 0)
		printf("# %s\n", err.msg);
	qwen_session_free(s);
	qwen_model_close(m);
	free(tokens);
	return rc;
}

static void
look_for(size_t n, enum qwen_kv kv, const char *name)
{
	struct answers a = { 0 };
	double least = 1;
	size_t i;

	if (!ok(ask(&a, n, kv, N_NEEDLE) == 0, "%zu tokens, %s", n, name))
		return;
	for (i = 0; i < N_NEEDLE; i++)
		least = a.p[i] < least ? a.p[i] : least;
	ok(least > 0.9, "%zu tokens, %s: each needle found, p at least %.4f",
	    n, name, least);
}

int
main(int argc, char *argv[])
{
	static const struct {
		const char *name;
		enum qwen_kv kv;
	} kinds[] = { { "f16", QWEN_KV_F16 }, { "q8_0", QWEN_KV_Q8_0 },
	    { "q4_0", QWEN_KV_Q4_0 } };
	size_t length[] = { 4096, N_CTX, 4 * N_CTX }, i, k;
	size_t n_length = getenv("QPIPE_LONG") != NULL ? 3 : 2;
	struct answers a = { 0 };
	int fd = mkstemp(path);

	if (fd == -1)
		return 1;
	close(fd);
	if (argc > 1) {
		length[0] = strtoul(argv[1], NULL, 10);
		n_length = 1;
	}
	make_model();
	for (i = 0; i < n_length; i++) {
		for (k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
			if (argc < 3 || strcmp(argv[2], kinds[k].name) == 0)
				look_for(length[i], kinds[k].kv, kinds[k].name);
		}
	}
	if (argc < 2)
		ok(ask(&a, 4096, QWEN_KV_F16, 7) == 0 && a.p[7] < 0.1 &&
		    a.p[6] > 0.9, "one that is not there is not");
	unlink(path);
	return done_testing();
}
