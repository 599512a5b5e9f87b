/* SPDX-License-Identifier: ISC */
/*
 * decode_alloc.c - after the first token decoding allocates no memory: the
 * linker routes every allocation of the library through this program.
 *
 * A growing session allocates now and then, in steps that grow with it; between
 * two steps there are no allocations.
 */
#include <sys/mman.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "qwen.h"
#include "../ref/tiny.h"
#include "../tap.h"

enum {
	N_VOCAB = 71,
	N_LINES = 5,
	STEPS = 40,		/* the first one has made room for them */
	LONG = 1500,
};

/* ---- what is counted: the linker's --wrap, see the Makefile */

static _Atomic size_t n_taken;

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off);

void *
__wrap_malloc(size_t n)
{
	n_taken++;
	return __real_malloc(n);
}

void *
__wrap_calloc(size_t n, size_t size)
{
	n_taken++;
	return __real_calloc(n, size);
}

void *
__wrap_realloc(void *p, size_t n)
{
	n_taken++;
	return __real_realloc(p, n);
}

int
__wrap_posix_memalign(void **p, size_t align, size_t n)
{
	n_taken++;
	return __real_posix_memalign(p, align, n);
}

void *
__wrap_aligned_alloc(size_t align, size_t n)
{
	n_taken++;
	return __real_aligned_alloc(align, n);
}

void *
__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t off)
{
	n_taken++;
	return __real_mmap(p, n, prot, flags, fd, off);
}

/* ---- the models, and how tokens are chosen */

static const struct tiny_shape shapes[] = {
	{ .arch = "qwen3", .n_layer = 2, .n_embd = 48, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 80 },
	{ .arch = "qwen3moe", .n_layer = 2, .n_embd = 48, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_expert = 7,
	    .n_expert_used = 3, .n_ff_exp = 24 },
	{ .arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 48, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	    .n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	    .n_head_v = 4 },
	{ .arch = "qwen35moe", .n_layer = 4, .n_nextn = 1, .n_embd = 48, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_rot = 8,
	    .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2, .n_head_v = 4,
	    .n_expert = 7, .n_expert_used = 3, .n_ff_exp = 24,
	    .n_ff_shexp = 40 },
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static const struct {
	const char	*name, *options;
} ways[] = {
	{ "greedy", "" },
	{ "sampling", "seed=3 repeat-penalty=1.1 frequency-penalty=0.1 "
	    "presence-penalty=0.1 top-n-sigma=3 top-k=40 typical=0.95 "
	    "top-p=0.95 min-p=0.01 xtc-probability=0.1 temp=1.2" },
	{ "mirostat", "mirostat=4 temp=1" },
};
enum { N_WAYS = sizeof ways / sizeof ways[0] };

static struct qwen_err err;

static void
need(int rc)
{
	if (rc >= 0)
		return;
	printf("Bail out! %s\n", err.msg);
	exit(1);
}

static struct qwen_model *
open_model(const struct tiny_shape *shape)
{
	struct qwen_model_opts opts = { .n_threads = 2, .draft = 1 };
	struct tiny *t = tiny_new(shape);
	struct qwen_model *m;
	char path[64];

	snprintf(path, sizeof path, "/tmp/decode_alloc.%ld", (long)getpid());
	tiny_u32(t, "context_length", 2 * LONG);
	tiny_write(t, path);
	tiny_free(t);
	need(qwen_model_open(&m, path, &opts, &err));
	unlink(path);
	return m;
}

static struct qwen_sampler *
new_sampler(const char *options)
{
	struct qwen_sampler *s;

	need(qwen_sampler_new(&s, &err));
	need(qwen_sampler_read(s, options, &err));
	need(qwen_sampler_begin(s, N_VOCAB, &err));
	return s;
}

/* Timelines on one cache, each with a sampler and its next token. */
struct line {
	struct qwen_session	*s;
	struct qwen_sampler	*sampler;
	int32_t			 next;
};

static void
choose(struct line *l)
{
	need(qwen_sampler_sample(l->sampler, qwen_session_logits(l->s), NULL,
	    N_VOCAB, qwen_session_n_tokens(l->s), &l->next, &err));
	need(qwen_sampler_accept(l->sampler, &l->next, 1, 1, &err));
}

/* What may follow, of a model that predicts. */
static void
draft(struct line *l)
{
	int32_t id[4];
	float prob[4];
	size_t n;

	need(qwen_session_draft(l->s, l->next, 4, id, prob, &n, &err));
	if (n != (qwen_model_has_mtp(qwen_session_model(l->s)) ? 4 : 0))
		need(-1);
}

/* One token more for each of n lines: together, or the only one alone. */
static void
step(struct line *l, size_t n, int parts)
{
	struct qwen_part part[N_LINES];
	size_t i;

	for (i = 0; i < n; i++) {
		draft(&l[i]);
		part[i] = (struct qwen_part){ .s = l[i].s,
		    .tokens = &l[i].next, .n = 1 };
		if (!parts)
			need(qwen_session_eval(l[i].s, &l[i].next, 1, NULL,
			    &err));
	}
	if (parts)
		need(qwen_eval_parts(part, n, &err));
	for (i = 0; i < n; i++)
		choose(&l[i]);
}

static void
test_lines(struct qwen_model *m, const char *arch, size_t way, size_t n,
    int parts)
{
	static const int32_t prompt[] = { 5, 3, 1, 40, 7, 70, 11 };
	struct qwen_cache *c;
	struct line l[N_LINES];
	size_t i, before;

	need(qwen_cache_new(&c, m, 0, &err));
	need(qwen_cache_scatter(c, N_LINES * STEPS, &err));
	for (i = 0; i < n; i++) {
		need(qwen_session_new_in(&l[i].s, c, &err));
		l[i].sampler = new_sampler(ways[way].options);
		need(qwen_session_eval(l[i].s, prompt, 3 + i, NULL, &err));
		choose(&l[i]);
	}
	step(l, n, parts);
	before = n_taken;
	for (i = 0; i < STEPS; i++)
		step(l, n, parts);
	ok(before > 0 && n_taken == before, "%s, %s, %zu %s: %zu allocations "
	    "in %d steps", arch, ways[way].name, n, parts ? "in one pass" :
	    "alone", (size_t)n_taken - before, STEPS);
	before = n_taken;
	for (i = STEPS; way == 0 && i < LONG; i++)
		step(l, n, parts);
	if (way == 0)
		ok(n_taken - before <= 40 * n, "%zu while they grow to %d "
		    "tokens", (size_t)n_taken - before, LONG);
	for (i = 0; i < n; i++) {
		qwen_session_free(l[i].s);
		qwen_sampler_free(l[i].sampler);
	}
	qwen_cache_free(c);
}

/* A known text, with guesses of any number that are right as far as they are. */
static void
read_guessing(struct line *l, size_t n, size_t at, int parts)
{
	struct qwen_part part[N_LINES];
	struct qwen_eval how = { .n_guess = at % 9 };
	int32_t id[N_LINES], guess[N_LINES][9];
	size_t i, k;

	for (i = 0; i < n; i++) {
		id[i] = (int32_t)((at * 7 + i) % N_VOCAB);
		for (k = 0; k < how.n_guess; k++)
			guess[i][k] = k == at % 5 ? 1 :
			    (int32_t)(((at + k + 1) * 7 + i) % N_VOCAB);
		how.guess = guess[i];
		part[i] = (struct qwen_part){ .s = l[i].s, .tokens = &id[i],
		    .n = 1, .guess = guess[i], .n_guess = how.n_guess };
		if (!parts)
			need(qwen_session_eval(l[i].s, &id[i], 1, &how, &err));
	}
	if (parts)
		need(qwen_eval_parts(part, n, &err));
}

static void
test_guesses(struct qwen_model *m, const char *arch, size_t n, int parts)
{
	struct qwen_cache *c;
	struct line l[N_LINES];
	size_t i, before, known = 0;

	need(qwen_cache_new(&c, m, 0, &err));
	for (i = 0; i < n; i++)
		need(qwen_session_new_in(&l[i].s, c, &err));
	read_guessing(l, n, 1, parts);
	before = n_taken;
	for (i = 2; i < STEPS; i++) {
		known += qwen_session_n_guessed(l[0].s) > 0;
		read_guessing(l, n, i, parts);
	}
	ok(before > 0 && n_taken == before && known > 5, "%s, guesses, %zu "
	    "%s: %zu allocations, guessed before %zu steps", arch, n, parts ?
	    "in one pass" : "alone", (size_t)n_taken - before, known);
	for (i = 0; i < n; i++)
		qwen_session_free(l[i].s);
	qwen_cache_free(c);
}

/* Rows of chosen tokens in no order, as a stream may bring them. */
static void
test_chosen(void)
{
	struct qwen_sampler *s = new_sampler("top-k=5 temp=1 seed=2");
	int32_t ids[N_VOCAB], id;
	float logits[N_VOCAB];
	size_t i, before = 0;
	int round, bad = 0;

	for (round = 0; round < 10; round++) {
		for (i = 0; i < N_VOCAB; i++) {
			ids[i] = (int32_t)((i * 29 + (size_t)round) % N_VOCAB);
			logits[i] = ids[i] < 40 ? 0 : 20 + (float)ids[i] / 100;
		}
		need(qwen_sampler_sample(s, logits, ids, N_VOCAB,
		    (uint64_t)round, &id, &err));
		bad += id < N_VOCAB - 5;
		if (round == 0)
			before = n_taken;
	}
	ok(n_taken == before && bad == 0, "rows of chosen tokens in no order");
	qwen_sampler_free(s);
}

int
main(void)
{
	size_t i, way;
	struct qwen_model *m;

	for (i = 0; i < N_SHAPES; i++) {
		m = open_model(&shapes[i]);
		for (way = 0; way < N_WAYS; way++) {
			test_lines(m, shapes[i].arch, way, 1, 0);
			test_lines(m, shapes[i].arch, way, N_LINES, 1);
		}
		test_guesses(m, shapes[i].arch, 1, 0);
		test_guesses(m, shapes[i].arch, N_LINES, 1);
		qwen_model_close(m);
	}
	test_chosen();
	return done_testing();
}
