/* SPDX-License-Identifier: ISC */
/*
 * watch.c - passes that are watched run on the CPU, in the middle of a run on a
 * card: what sessions have moves there and back, with the bits of a run on the
 * CPU.  So does what drafts have left in the journal.
 */
#include "engine/watch/inputs.h"
#include "whole.h"

enum { N = 48 };

static int32_t ids[N];

/* A sum of all that a trace tells. */
struct seen {
	uint64_t	hash;
	size_t		n;
};

static void
hash(struct seen *s, const void *p, size_t n)
{
	const unsigned char *b = p;

	while (n-- > 0)
		s->hash = (s->hash ^ *b++) * 0x100000001b3;
}

static int
see(void *arg, const struct qwen_trace_value *v, struct qwen_err *e)
{
	struct seen *s = arg;

	(void)e;
	s->n++;
	hash(s, v->stage, strlen(v->stage));
	hash(s, &v->position, sizeof v->position);
	if (v->row != NULL)
		hash(s, v->row, v->n * sizeof *v->row);
	if (v->choices != NULL)
		hash(s, v->choices, v->n * sizeof *v->choices);
	return 0;
}

/* Reads n tokens that are traced on both; are values and logits the same? */
static int
trace(struct whole *w, size_t at, size_t n)
{
	static const char *const all[] = { "*" };
	struct seen seen[2] = { { 0, 0 }, { 0, 0 } };
	int i, same;

	for (i = CPU; i <= CARD; i++) {
		struct qwen_trace t = { .patterns = all, .n_patterns = 1,
		    .value = see, .arg = &seen[i] };

		need(qwen_session_trace(w->s[i], &t, &err));
	}
	same = whole_eval(w, ids + at, n, NULL, 0);
	for (i = CPU; i <= CARD; i++)
		need(qwen_session_trace(w->s[i], NULL, &err));
	return same && seen[CPU].n > n && seen[CPU].n == seen[CARD].n &&
	    seen[CPU].hash == seen[CARD].hash;
}

/* Reads a token with drafts of which `right' are what comes next. */
static void
draft(struct whole *w, size_t at, size_t right)
{
	int32_t guess[4];
	struct qwen_eval how = { .guess = guess, .n_guess = 4 };
	size_t i;

	for (i = 0; i < 4; i++)
		guess[i] = i < right ? ids[at + 1 + i] : 1;
	for (i = CPU; i <= CARD; i++)
		need(qwen_session_eval(w->s[i], ids + at, 1, &how, &err));
}

static void
test_trace(const char *path, const char *what, const char *device)
{
	struct whole w;

	whole_open(&w, path, (struct qwen_model_opts){ .draft = 1 });
	need(qwen_place(w.m[CARD], device, &err));
	ok(whole_eval(&w, ids, 19, NULL, 0) && trace(&w, 19, 3) &&
	    whole_eval(&w, ids + 22, 1, NULL, 0), "%s, %s: tokens, some of "
	    "them traced, and more tokens", what, device);
	draft(&w, 23, 3);
	ok(whole_eval(&w, ids + 24, 1, NULL, 0) && trace(&w, 25, 1) &&
	    whole_eval(&w, ids + 26, 4, NULL, 0),
	    "%s, %s: a token traced that was a draft", what, device);
	draft(&w, 30, 2);
	ok(trace(&w, 31, 3) && whole_eval(&w, ids + 34, 1, NULL, 0) &&
	    whole_same(&w), "%s, %s: three traced after right drafts, "
	    "and the state", what, device);
	whole_close(&w);
}

/* A session that is traced, and another one in the same pass. */
static void
test_beside(const char *path, const char *what)
{
	static const char *const all[] = { "*" };
	struct seen seen = { 0, 0 };
	struct qwen_trace t = { .patterns = all, .n_patterns = 1, .value = see,
	    .arg = &seen };
	struct qwen_session *other[2];
	struct qwen_part part[2];
	struct whole w;
	int i, step;

	whole_open(&w, path, (struct qwen_model_opts){ .draft = 1 });
	for (i = CPU; i <= CARD; i++)
		need(qwen_session_new_in(&other[i], w.s[i]->cache, &err));
	for (step = 0; step < 3; step++) {
		for (i = CPU; i <= CARD; i++) {
			need(qwen_session_trace(w.s[i], step == 1 ? &t : NULL,
			    &err));
			part[0] = (struct qwen_part){ .s = w.s[i],
			    .tokens = ids + 5 * step, .n = 5 };
			part[1] = (struct qwen_part){ .s = other[i],
			    .tokens = ids + 20 + 5 * step, .n = 5 };
			need(qwen_eval_parts(part, 2, &err));
		}
	}
	qwen_memory_return(other[CARD]);
	ok(seen.n > 20 && whole_same(&w) && same_session(other[CPU],
	    other[CARD]), "%s: a session beside one that is traced", what);
	qwen_session_free(other[CPU]);
	qwen_session_free(other[CARD]);
	whole_close(&w);
}

static int
same_inputs(const struct whole *w)
{
	const struct qwen_inputs *a, *b;
	size_t i;

	for (i = 0; (a = qwen_model_inputs(w->m[CPU], i)) != NULL; i++) {
		b = qwen_model_inputs(w->m[CARD], i);
		if (b == NULL || strcmp(a->name, b->name) != 0 ||
		    (a->sum == NULL) != (b->sum == NULL) ||
		    (a->sum != NULL && (a->count[0] != b->count[0] ||
		    memcmp(a->sum, b->sum, a->n_in * sizeof *a->sum) != 0)))
			return 0;
	}
	return i > 10;
}

static void
test_inputs(const char *path, const char *what)
{
	struct whole w;
	int i;

	whole_open(&w, path, (struct qwen_model_opts){ 0 });
	ok(whole_eval(&w, ids, 7, NULL, 0), "%s: tokens", what);
	for (i = CPU; i <= CARD; i++)
		need(qwen_model_measure_inputs(w.m[i], &err));
	ok(whole_eval(&w, ids + 7, 9, NULL, 0) && same_inputs(&w) &&
	    whole_same(&w), "%s: inputs of matrices are measured", what);
	whole_close(&w);
}

int
main(void)
{
	static const struct tiny_shape *const shape[] = { &dense, &hybrid,
	    &hybrid_moe };
	const char *path, *arch;
	size_t i;

	for (i = 0; i < N; i++)
		ids[i] = (int32_t)(3 + i * i % 61);
	for (i = 0; i < 3; i++) {
		path = write_tiny(tiny_new(shape[i]));
		arch = shape[i]->arch;
		test_trace(path, arch, "cuda:0");
		test_trace(path, arch, "cuda:0@1-2,plain:0");
		test_beside(path, arch);
		test_inputs(path, arch);
	}
	unlink(whole_path);
	return done_testing();
}
