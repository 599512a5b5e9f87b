/* SPDX-License-Identifier: ISC */
/*
 * model_random.c - the seeds of the model fuzzer, truncated and with bytes
 * changed, mostly in keys and directory; then models of random shapes, most of
 * them valid.
 *
 * Argument: a folder to write the seeds to.
 */
#include <stdio.h>

#include "../fuzz/fuzz_model.c"
#include "../kernel/random.h"
#include "../ref/tiny.h"
#include "../tap.h"

static const uint32_t mixed[] = { QT_Q8_0, QT_F16, QT_Q4_0, QT_F32, QT_BF16,
    QT_Q5_1, QT_IQ4_NL };

static const struct tiny_shape seeds[] = {
	{ .arch = "qwen3", .n_layer = 1, .n_embd = 16, .n_vocab = 5,
	    .n_head = 2, .n_head_kv = 1, .n_embd_head = 16, .n_ff = 16 },
	{ .arch = "qwen3moe", .n_layer = 1, .n_embd = 16, .n_vocab = 5,
	    .tied = 1, .n_head = 2, .n_head_kv = 2, .n_embd_head = 16,
	    .n_expert = 3, .n_expert_used = 2, .n_ff_exp = 16 },
	{ .arch = "qwen35", .n_layer = 2, .n_embd = 32, .n_vocab = 5,
	    .n_head = 2, .n_head_kv = 1, .n_embd_head = 16, .n_rot = 8,
	    .n_ff = 32, .conv_kernel = 3, .dk = 16, .dv = 16, .n_head_k = 1,
	    .n_head_v = 2, .interval = 2, .types = mixed, .n_types = 7 },
	{ .arch = "qwen35moe", .n_layer = 2, .n_nextn = 1, .n_embd = 32,
	    .n_vocab = 5, .n_head = 2, .n_head_kv = 1, .n_embd_head = 16,
	    .n_rot = 8, .conv_kernel = 4, .dk = 16, .dv = 16, .n_head_k = 1,
	    .n_head_v = 2, .n_expert = 2, .n_expert_used = 1, .n_ff_exp = 32,
	    .n_ff_shexp = 32, .fused = 1, .interval = 2, .types = mixed,
	    .n_types = 7, .seed = 1 },
};

#define N_SEEDS (sizeof seeds / sizeof seeds[0])

/* In a buffer of just the size, so that a sanitizer sees one byte too far. */
static void
run(const unsigned char *p, size_t n)
{
	unsigned char *copy = malloc(n > 0 ? n : 1);

	if (copy == NULL)
		abort();
	memcpy(copy, p, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

/* Does it work at all? */
static int
sound(const unsigned char *p, size_t n, size_t n_vocab)
{
	const int32_t ids[] = { 0, (int32_t)(n_vocab - 1) };
	struct qwen_model *m = open_bytes(p, n, NULL);
	struct qwen_session *s = m == NULL ? NULL : evaluate(m, ids, 2, 2);
	int good = s != NULL;

	qwen_session_free(s);
	qwen_model_close(m);
	return good;
}

/* A few bytes, in the first half of the time before the weights. */
static void
change(unsigned char *p, size_t n, size_t head)
{
	static const unsigned char likely[] = { 0, 1, 2, 4, 16, 0x7f, 0x80,
	    0xff };
	unsigned i, times = 1 + random_u32() % 3;

	for (i = 0; i < times; i++) {
		size_t within = random_u32() % 4 ? head : n;
		size_t at = random_u32() % within;

		p[at] = random_u32() % 2 ? likely[random_u32() % 8] :
		    (unsigned char)random_u32();
	}
}

static void
mutate(const unsigned char *p, size_t n, int rounds)
{
	unsigned char *copy = malloc(n);
	struct qwen_gguf *g;
	size_t head;
	int i;

	if (copy == NULL || qwen_gguf_open_memory(&g, p, n, NULL) < 0)
		abort();
	head = (size_t)qwen_gguf_data_offset(g, 0);
	qwen_gguf_close(g);
	for (i = 0; i < rounds; i++) {
		memcpy(copy, p, n);
		change(copy, n, head);
		run(copy, i % 16 == 0 ? random_u32() % n : n);
	}
	free(copy);
}

/* ---- random shapes */

/* Mostly small, sometimes a multiple of 32 or 256, now and then nothing. */
static size_t
some(size_t limit)
{
	static const size_t likely[] = { 1, 2, 16, 32, 48, 256, 0 };
	size_t v = random_u32() % 3 ? likely[random_u32() % 7] :
	    1 + random_u32() % limit;

	return v < limit ? v : limit;
}

static void
random_shape(struct tiny_shape *s)
{
	static const char *const archs[] = { "qwen3", "qwen3moe", "qwen35",
	    "qwen35moe" };
	static const uint32_t types[] = { 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13,
	    14, 20, 23, 30, 8, 0, 12, 16, 17, 18, 19, 21, 22, 29, 34, 35, 39,
	    40, 41, 42 };
	enum { N_TYPES = sizeof types / sizeof types[0] };
	unsigned arch = random_u32() % 4;
	size_t at = random_u32() % N_TYPES;

	memset(s, 0, sizeof *s);
	s->arch = archs[arch];
	s->n_layer = 1 + random_u32() % 3;
	s->n_nextn = random_u32() % 8 == 0;
	s->n_embd = some(256);
	s->n_vocab = some(20) + 1;
	s->tied = random_u32() % 2;
	s->n_head_kv = 1 + random_u32() % 3;
	s->n_head = s->n_head_kv * (1 + random_u32() % 9);
	s->n_embd_head = 16 * (1 + random_u32() % 5);
	s->n_rot = random_u32() % 2 ? 2 * (1 + random_u32() % 8) : 0;
	s->n_ff = some(256);
	if (arch % 2 == 1) {
		s->n_expert = 1 + random_u32() % 9;
		s->n_expert_used = 1 + random_u32() % s->n_expert;
		s->n_ff_exp = some(256);
		s->n_ff_shexp = arch == 3 ? some(256) : 0;
		s->fused = random_u32() % 2;
	}
	s->conv_kernel = some(16);
	s->dk = random_u32() % 4 ? 16 * (1 + random_u32() % 6) : some(256);
	s->dv = random_u32() % 8 ? 16 * (1 + random_u32() % 6) : some(256);
	s->n_head_k = 1 + random_u32() % 3;
	s->n_head_v = s->n_head_k * (1 + random_u32() % 3);
	s->interval = random_u32() % 4;
	s->types = types + at;
	s->n_types = 1 + random_u32() % (N_TYPES - at);
	s->seed = random_u32();
}

/* How many of the models can be used. */
static int
try_shapes(int rounds)
{
	struct tiny_shape s;
	unsigned char *p;
	int i, n_sound = 0;
	size_t n;

	for (i = 0; i < rounds; i++) {
		struct tiny *t;

		random_shape(&s);
		t = tiny_new(&s);
		p = tiny_encode(t, &n);
		tiny_free(t);
		run(p, n);
		n_sound += sound(p, n, s.n_vocab);
		free(p);
	}
	return n_sound;
}


/* F32 weights two bytes off are not read as such. */
static void
misaligned(const unsigned char *p, size_t n)
{
	struct qwen_err err = { 0 };
	struct qwen_model *m = NULL;
	struct qwen_gguf *g;
	unsigned char *odd = malloc(n + 2);

	if (odd == NULL)
		abort();
	memcpy(odd + 2, p, n);
	ok(qwen_gguf_open_memory(&g, odd + 2, n, &err) == 0 &&
	    qwen_model_open_gguf(&m, g, NULL, &err) == -1 && m == NULL &&
	    err.code == QWEN_EUNSUP && strstr(err.msg, "not aligned") != NULL,
	    "%s", err.msg);
	free(odd);
}

int
main(int argc, char *argv[])
{
	unsigned char *p;
	char path[1024];
	int rounds = getenv("QPIPE_LONG") != NULL ? 100000 : 2000, good;
	size_t i, n;

	for (i = 0; i < N_SEEDS; i++) {
		struct tiny *t = tiny_new(&seeds[i]);

		if (argc > 1) {
			snprintf(path, sizeof path, "%s/%s.gguf", argv[1],
			    seeds[i].arch);
			tiny_write(t, path);
		}
		p = tiny_encode(t, &n);
		tiny_free(t);
		ok(sound(p, n, 5), "%s, %zu bytes", seeds[i].arch, n);
		run(p, n);
		mutate(p, n, rounds);
		ok(1, "and changed in %d ways", rounds);
		if (i == 0)
			misaligned(p, n);
		free(p);
	}
	rounds /= 10;
	good = try_shapes(rounds);
	ok(good > rounds / 3, "%d random shapes, of which %d are sound",
	    rounds, good);
	return done_testing();
}
