/* SPDX-License-Identifier: ISC */
/*
 * guesses.c - drafts computed ahead: whatever was drafted, right or wrong at any
 * position, a session has the bits of one that read only its own tokens: in
 * logits, saved states, forks and cuts.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../levels.h"
#include "../seed.h"
#include "../unit/state_util.h"
#include "../tap.h"

enum { LONGEST = 160, EVERY = 16, STEP = 8 };

static struct qwen_err err;
static uint64_t rng;

static size_t
below(size_t n)
{
	return next_random(&rng) % n;
}

static void
need(int rc)
{
	if (rc >= 0)
		return;
	printf("Bail out! %s\n", err.msg);
	exit(1);
}

/* A text, and what follows it in a model. */
struct text {
	struct qwen_model	*m;
	size_t			 n_vocab;
	int32_t			 ids[LONGEST];
	float			*row[LONGEST];	/* logits after each token */
	struct qwen_session	*at[LONGEST / STEP];	/* after STEP * i */
};

static int
note_row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct text *t = arg;

	(void)e;
	memcpy(t->row[pos], logits, t->n_vocab * sizeof *logits);
	return 0;
}

/* The same text read without guesses, as far as n. */
static struct qwen_session *
plain(const struct text *t, size_t n, enum qwen_logits logits)
{
	struct qwen_eval how = { .logits = logits };
	size_t i = n > 0 ? (n - 1) / STEP : 0;
	struct qwen_session *s;

	need(qwen_session_fork(&s, t->at[i], &err));
	need(qwen_session_eval(s, t->ids + STEP * i, n - STEP * i, &how,
	    &err));
	return s;
}

static void
make_text(struct text *t, struct qwen_model *m)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = note_row,
	    .arg = t };
	struct qwen_session *s;
	size_t i;

	t->m = m;
	t->n_vocab = qwen_model_n_vocab(m);
	for (i = 0; i < LONGEST; i++) {
		t->ids[i] = (int32_t)below(t->n_vocab);
		t->row[i] = calloc(t->n_vocab, sizeof **t->row);
	}
	need(qwen_session_new(&s, m, &err));
	for (i = 0; i < LONGEST; i += STEP) {
		need(qwen_session_fork(&t->at[i / STEP], s, &err));
		need(qwen_session_eval(s, t->ids + i, STEP, &how, &err));
	}
	qwen_session_free(s);
}

static void
free_text(struct text *t)
{
	size_t i;

	for (i = 0; i < LONGEST; i++)
		free(t->row[i]);
	for (i = 0; i < LONGEST / STEP; i++)
		qwen_session_free(t->at[i]);
}

/* Is what is to be seen of s that of the text? */
static int
logits_are(const struct text *t, const struct qwen_session *s)
{
	size_t n = qwen_session_n_tokens(s);
	const float *x = qwen_session_logits(s);

	return n > 0 && memcmp(qwen_session_tokens(s), t->ids,
	    n * sizeof *t->ids) == 0 && x != NULL &&
	    memcmp(x, t->row[n - 1], t->n_vocab * sizeof *x) == 0;
}

/* Do both make the same file? */
static int
same_saved(const struct qwen_session *a, const struct qwen_session *b)
{
	struct bytes x = { 0 }, y = { 0 };
	int good;

	save_bytes(&x, a, NULL, 1, NULL);
	save_bytes(&y, b, NULL, 1, NULL);
	good = x.n == y.n && memcmp(x.p, y.p, x.n) == 0;
	bytes_free(&x);
	bytes_free(&y);
	return good;
}

/* Is s as if it had been read without guesses? */
static int
as_plain(const struct text *t, const struct qwen_session *s)
{
	struct qwen_session *p = plain(t, qwen_session_n_tokens(s),
	    qwen_session_logits(s) != NULL ? QWEN_LOGITS_LAST :
	    QWEN_LOGITS_NONE);
	int good = same_saved(s, p);

	good = good && (s->mem.recurrent_bytes == 0 ||
	    memcmp(qwen_session_view(s).recurrent,
	    qwen_session_view(p).recurrent, s->mem.recurrent_bytes) == 0);
	qwen_session_free(p);
	return good;
}

/* k guesses of what is in the text from n on, of which right are right. */
static void
make_guesses(const struct text *t, size_t n, size_t k, size_t right,
    int32_t *guess)
{
	size_t i;

	for (i = 0; i < k; i++) {
		guess[i] = t->ids[(n + i) % LONGEST];
		if (i >= right)
			guess[i] = (int32_t)((size_t)guess[i] + 1 +
			    below(t->n_vocab - 1)) % (int32_t)t->n_vocab;
	}
}

/* ------------------------------------------------- every place, every length */

/*
 * Read a token with k guesses, of which the first right ones are; stop to look
 * when some of these were read.
 */
static int
one_place(const struct text *t, size_t k, size_t right)
{
	size_t n = 1 + below(LONGEST - QWEN_GUESS_MAX - 4), i;
	size_t look = below(3 * right + 1);
	struct qwen_session *s = plain(t, n, QWEN_LOGITS_LAST);
	int32_t guess[QWEN_GUESS_MAX];
	struct qwen_eval how = { .guess = guess, .n_guess = k };
	int good;

	make_guesses(t, n + 1, k, right, guess);
	need(qwen_session_eval(s, t->ids + n, 1, &how, &err));
	good = logits_are(t, s) && qwen_session_n_guessed(s) == k &&
	    memcmp(qwen_session_guessed(s), guess, k * sizeof *guess) == 0;
	for (i = 1; i <= right; i++) {
		need(qwen_session_eval(s, t->ids + n + i, 1, NULL, &err));
		good &= logits_are(t, s) &&
		    qwen_session_n_guessed(s) == k - i;
		if (i == look)
			good &= as_plain(t, s);
	}
	need(qwen_session_eval(s, t->ids + n + i, 1, NULL, &err));
	good &= logits_are(t, s) && qwen_session_n_guessed(s) == 0 &&
	    as_plain(t, s);
	qwen_session_free(s);
	return good;
}

static void
every_place(const struct text *t, const char *what)
{
	size_t k, right, n = 0, bad = 0;

	for (k = 1; k <= QWEN_GUESS_MAX; k = k < 8 ? k + 1 : 2 * k) {
		for (right = 0; right <= k; right++, n++)
			bad += !one_place(t, k, right);
	}
	ok(n > 60 && bad == 0, "%s: %zu places where guesses go wrong, %zu "
	    "differ", what, n, bad);
}

/* -------------------------------------------------------------- any schedule */

struct seen {
	uint64_t	 sum;
	size_t		 n;
	size_t		 n_vocab;
};

static int
see_row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct seen *s = arg;
	uint32_t v;
	size_t i;

	(void)e;
	s->n++;
	s->sum = s->sum * 31 + pos;
	for (i = 0; i < s->n_vocab; i++) {
		memcpy(&v, logits + i, sizeof v);
		s->sum = (s->sum ^ v) * 0x100000001b3u;
	}
	return 0;
}

/* Two timelines to which the same is done; the first one has guesses. */
struct two {
	const struct text	*t;
	struct qwen_session	*s[2];
	size_t			 known;		/* tokens that were guessed */
};

static int
read_both(struct two *w)
{
	static const uint64_t at[] = { 21, 22, 37, 64 };
	static const enum qwen_logits modes[] = { QWEN_LOGITS_LAST,
	    QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };
	struct qwen_checkpoints keep = { .every = EVERY, .at = at, .n_at = 4 };
	size_t n = qwen_session_n_tokens(w->s[0]), left = LONGEST - n, i;
	size_t more = below(3) > 0 ? 1 : 1 + below(left < 9 ? left : 9);
	struct seen seen[2] = { { .n_vocab = w->t->n_vocab },
	    { .n_vocab = w->t->n_vocab } };
	int32_t guess[QWEN_GUESS_MAX + 2];
	struct qwen_eval how = { .logits = modes[below(4)], .row = see_row,
	    .batch = below(4) == 0 ? 1 + below(4) : 0,
	    .keep = below(2) ? &keep : NULL };
	size_t k = below(QWEN_GUESS_MAX + 3);

	if (left == 0)
		return 1;
	k = below(2) ? k : k % 5;
	make_guesses(w->t, n + more, k, below(2) ? k : below(k + 1), guess);
	if (k > 0 && below(8) == 0)
		guess[below(k)] = below(2) ? -1 : (int32_t)w->t->n_vocab;
	w->known += qwen_session_n_guessed(w->s[0]) > 0 &&
	    qwen_session_guessed(w->s[0])[0] == w->t->ids[n];
	for (i = 0; i < 2; i++) {
		how.arg = &seen[i];
		how.guess = i == 0 ? guess : NULL;
		how.n_guess = i == 0 ? k : 0;
		need(qwen_session_eval(w->s[i], w->t->ids + n, more, &how,
		    &err));
	}
	return seen[0].n == seen[1].n && seen[0].sum == seen[1].sum &&
	    (how.logits == QWEN_LOGITS_NONE ?
	    qwen_session_logits(w->s[0]) == NULL : logits_are(w->t, w->s[0]));
}

static int
cut_both(struct two *w)
{
	size_t n = below(qwen_session_n_tokens(w->s[0]) + 1), at[2], i;
	int logits = (int)below(2);

	for (i = 0; i < 2; i++)
		need(qwen_session_rewind(w->s[i], n, logits, &at[i], &err));
	return at[0] == at[1];
}

/* Go on with copies; the ones they were made of are as they were. */
static int
fork_both(struct two *w)
{
	struct qwen_session *old[2];
	int good;
	size_t i;

	for (i = 0; i < 2; i++) {
		old[i] = w->s[i];
		need(qwen_session_fork(&w->s[i], old[i], &err));
		if (below(2))
			continue;
		/* their blocks are shared, and written to by both */
		qwen_session_free(old[i]);
		old[i] = NULL;
	}
	good = same_session(w->s[0], w->s[1]);
	for (i = 0; i < 2; i++) {
		size_t n = qwen_session_n_tokens(w->s[i]);

		if (old[i] != NULL && n < LONGEST) {
			need(qwen_session_eval(old[i], w->t->ids + n, 1, NULL,
			    &err));
			good &= logits_are(w->t, old[i]);
		}
		qwen_session_free(old[i]);
	}
	return good;
}

/* Through a file. */
static int
restore_both(struct two *w)
{
	struct bytes b = { 0 };
	struct qwen_session *s;
	size_t i;

	for (i = 0; i < 2; i++) {
		save_bytes(&b, w->s[i], NULL, 1, NULL);
		need(load_bytes(&s, NULL, w->t->m, b.p, b.n, NULL, &err));
		bytes_free(&b);
		b = (struct bytes){ 0 };
		qwen_session_free(w->s[i]);
		w->s[i] = s;
	}
	return 1;
}

static void
any_schedule(const struct text *t, const char *what, size_t steps)
{
	struct two w = { .t = t };
	size_t i, bad = 0, looks = 0;

	for (i = 0; i < 2; i++)
		need(qwen_session_new(&w.s[i], t->m, &err));
	for (i = 0; i < steps; i++) {
		bad += !read_both(&w);
		if (below(6) == 0) {
			qwen_session_keep(w.s[0], i % 2 == 0, &err);
			qwen_session_keep(w.s[1], i % 2 == 0, &err);
		}
		if (below(12) == 0 ||
		    qwen_session_n_tokens(w.s[0]) == LONGEST)
			bad += !cut_both(&w);
		if (below(12) == 0 && qwen_session_n_tokens(w.s[0]) > 0)
			bad += !fork_both(&w);
		if (below(20) == 0)
			bad += !restore_both(&w);
		if (below(4) == 0) {
			bad += !same_saved(w.s[0], w.s[1]);
			looks++;
		}
	}
	bad += !same_saved(w.s[0], w.s[1]);
	ok(bad == 0 && (w.known > 0 || steps < 60), "%s: %zu steps, %zu "
	    "without a pass, %zu looks: %zu differ", what, steps, w.known,
	    looks, bad);
	qwen_session_free(w.s[0]);
	qwen_session_free(w.s[1]);
}

/* ---------------------------------------------------------------- the limits */

/* They end where the context does, and none are computed in vain. */
static void
limits(const struct text *t, const char *name)
{
	int32_t guess[QWEN_GUESS_MAX];
	struct qwen_eval how = { .guess = guess, .n_guess = 3 };
	struct qwen_session *s = plain(t, 10, QWEN_LOGITS_LAST);

	make_guesses(t, 11, 3, 3, guess);
	how.logits = QWEN_LOGITS_NONE;
	need(qwen_session_eval(s, t->ids + 10, 1, &how, &err));
	ok(qwen_session_n_guessed(s) == 0 && qwen_session_logits(s) == NULL,
	    "%s: without logits, no guesses", name);
	how.logits = QWEN_LOGITS_LAST;
	make_guesses(t, 12, 3, 3, guess);
	guess[1] = (int32_t)t->n_vocab;
	need(qwen_session_eval(s, t->ids + 11, 1, &how, &err));
	ok(qwen_session_n_guessed(s) == 1, "they end at one that is no token");
	need(qwen_session_eval(s, t->ids + 12, 1, &how, &err));
	ok(qwen_session_n_guessed(s) == 0 && logits_are(t, s),
	    "there was no pass, and no guesses from it");
	how.guess = NULL;
	need(qwen_session_eval(s, t->ids + 13, 1, &how, &err));
	ok(qwen_session_n_guessed(s) == 0 && as_plain(t, s), "nor from NULL");
	qwen_session_free(s);
}

/* ---------------------------------------------------------- a long context */

/* Where attention takes keys in chunks of 256: after the second of them. */
enum { FAR = 512, AROUND = 12 };

struct far_text {
	int32_t	 ids[FAR + AROUND];
	float	*row;		/* logits from FAR - AROUND on */
	size_t	 n_vocab;
};

static int
note_far(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct far_text *f = arg;

	(void)e;
	if (pos >= FAR - AROUND)
		memcpy(f->row + (pos - (FAR - AROUND)) * f->n_vocab, logits,
		    f->n_vocab * sizeof *logits);
	return 0;
}

/* A token at n with guesses that are right: all have their logits? */
static int
right_at(const struct far_text *f, struct qwen_model *m, size_t n)
{
	size_t i, k = FAR + AROUND - n - 1;
	struct qwen_eval how = { .guess = f->ids + n + 1, .n_guess = k };
	struct qwen_session *s;
	int good = 1;

	need(qwen_session_new(&s, m, &err));
	need(qwen_session_eval(s, f->ids, n, NULL, &err));
	for (i = 0; i <= k; i++) {
		need(qwen_session_eval(s, f->ids + n + i, 1, i == 0 ? &how :
		    NULL, &err));
		good &= qwen_session_n_guessed(s) == k - i &&
		    memcmp(qwen_session_logits(s), f->row + (n + i -
		    (FAR - AROUND)) * f->n_vocab, f->n_vocab *
		    sizeof *f->row) == 0;
	}
	qwen_session_free(s);
	return good;
}

/* By many threads, of which each has chunks, as by one token after another. */
static void
far_away(const struct golden_model *g)
{
	struct qwen_model_opts o = { .n_threads = 1 };
	struct far_text f = { .n_vocab = g->n_vocab };
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = note_far,
	    .arg = &f, .batch = 1 };
	struct qwen_session *s;
	struct qwen_model *m;
	size_t i;

	rng = seed_of(g->name);
	for (i = 0; i < FAR + AROUND; i++)
		f.ids[i] = (int32_t)below(f.n_vocab);
	f.row = calloc(2 * AROUND * f.n_vocab, sizeof *f.row);
	need(qwen_model_open(&m, g->path, &o, &err));
	need(qwen_session_new(&s, m, &err));
	need(qwen_session_eval(s, f.ids, FAR + AROUND, &how, &err));
	qwen_session_free(s);
	qwen_model_close(m);
	o.n_threads = 8;
	need(qwen_model_open(&m, g->path, &o, &err));
	ok(right_at(&f, m, FAR - 4) && right_at(&f, m, FAR + AROUND - 5),
	    "%s: guesses after %d tokens, 8 threads", g->name, FAR);
	qwen_model_close(m);
	free(f.row);
}

static void
check_level(const struct golden_model *g, const char *level, unsigned numerics,
    enum qwen_kv kv, size_t steps, int all)
{
	struct qwen_model_opts o = { .numerics = numerics, .cpu = level,
	    .k = kv, .v = kv };
	struct qwen_model *m;
	struct text t;
	char what[160];

	snprintf(what, sizeof what, "%s, numerics %u, %s, %s", g->name,
	    numerics, qwen_kv_name(kv), level != NULL ? level :
	    "as it comes");
	rng = seed_of(what);
	o.n_threads = 1 + (int)below(3);
	if (qwen_model_open(&m, g->path, &o, &err) < 0 && kv != QWEN_KV_F16 &&
	    strstr(err.msg, "head size 16") != NULL)
		return;
	need(m == NULL ? -1 : 0);
	make_text(&t, m);
	if (all)
		every_place(&t, what);
	any_schedule(&t, what, steps);
	if (level == NULL && numerics == 1 && kv == QWEN_KV_F16)
		limits(&t, g->name);
	free_text(&t);
	qwen_model_close(m);
}

int
main(void)
{
	static struct golden_model *g;	/* until the end */
	size_t i, l, n = golden_load(&g);
	int is_long = getenv("QPIPE_LONG") != NULL;
	unsigned v;

	ok(n > 0, "%zu models", n);
	for (i = 0; i < n; i++) {
		far_away(&g[i]);
		check_level(&g[i], NULL, 1, QWEN_KV_Q8_0, is_long ? 400 : 20,
		    1);
		check_level(&g[i], NULL, 1, QWEN_KV_Q4_0, is_long ? 400 : 20,
		    1);
		check_level(&g[i], NULL, 1, QWEN_KV_F32, is_long ? 400 : 20,
		    1);
		for (v = 1; v <= 4; v += 3) {
			check_level(&g[i], NULL, v, QWEN_KV_F16,
			    is_long ? 2000 : 80, 1);
			for (l = 0; l < N_LEVELS; l++) {
				if (qwen_cpu_check(levels[l]) == 1 &&
				    level_differs(l, v))
					check_level(&g[i], levels[l], v,
					    QWEN_KV_F16,
					    is_long ? 400 : l > 0 ? 12 : 3,
					    is_long);
			}
		}
	}
	golden_free(g, n);
	return done_testing();
}
