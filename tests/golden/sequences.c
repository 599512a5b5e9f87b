/* SPDX-License-Identifier: ISC */
/*
 * sequences.c - sessions that share passes and memory: each has the bits that
 * it has alone, whatever others read, draft, fork, cut and free, in as little
 * memory as possible.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../levels.h"
#include "../seed.h"
#include "../unit/state_util.h"
#include "../tap.h"

enum { N = 6, LONGEST = 150, STEPS = 60 };

static struct qwen_err err;
static uint64_t rng;

static size_t
below(size_t n)
{
	return next_random(&rng) % n;
}

/* A timeline and the sums of its rows of logits so far; 0: not seen. */
struct line {
	struct qwen_session	*s;
	int32_t			 ids[LONGEST];
	uint64_t		 row[LONGEST];
	size_t			 n_vocab;
	size_t			 n_bad;
	int			 check;
};

static uint64_t
sum_of(const float *x, size_t n)
{
	uint64_t h = 0xcbf29ce484222325u;
	uint32_t v;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&v, x + i, sizeof v);
		h = (h ^ v) * 0x100000001b3u;
	}
	return h | 1;
}

/* Note the sum of a row, or compare it with what was noted. */
static int
on_row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct line *l = arg;
	uint64_t sum = sum_of(logits, l->n_vocab);

	(void)e;
	if (!l->check)
		l->row[pos] = sum;
	else
		l->n_bad += l->row[pos] != 0 && l->row[pos] != sum;
	return 0;
}

/* Is it as if it had been alone, and read in one go? */
static int
as_alone(struct qwen_model *m, struct line *l)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_ALL, .row = on_row,
	    .arg = l };
	size_t i, n = l->s->n_tokens;
	struct qwen_session *s;
	int good;

	l->check = 1;
	l->n_bad = 0;
	if (qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, l->ids, n, &how, &err) < 0)
		exit(1);
	s->have_logits = l->s->have_logits;
	/* what was guessed and not read goes, or is not to be seen */
	if (below(2))
		qwen_ahead_cut(l->s, 0);
	else
		qwen_ahead_hide(l->s);
	qwen_ahead_catch_up(l->s);
	qwen_session_trim(l->s, s->mem.n_slot);
	good = same_session(s, l->s) && l->n_bad == 0;
	for (i = 0; i < s->mem.n_layer; i++)
		good &= s->mem.layer[i].n_block == l->s->mem.layer[i].n_block;
	qwen_session_free(s);
	l->check = 0;
	return good;
}

/* Ids of which no two are the same, as far as the vocabulary allows. */
static void
draw_distinct(int32_t *ids, size_t n, size_t n_vocab)
{
	unsigned char *taken = calloc(n_vocab, 1);
	size_t i, left = 0;

	if (taken == NULL)
		exit(1);
	for (i = 0; i < n; i++) {
		if (left == 0) {
			memset(taken, 0, n_vocab);
			left = n_vocab;
		}
		do
			ids[i] = (int32_t)below(n_vocab);
		while (taken[ids[i]]);
		taken[ids[i]] = 1;
		left--;
	}
	free(taken);
}

static void
draw_ids(struct line *l, size_t from)
{
	for (; from < LONGEST; from++) {
		l->ids[from] = (int32_t)below(l->n_vocab);
		l->row[from] = 0;
	}
}

static int
in_limit(const struct qwen_cache *c)
{
	struct qwen_cache_usage u;

	qwen_cache_usage(c, &u);
	return u.limit == 0 || u.used <= u.limit;
}

/* --------------------------------------------------------- random schedules */

struct counts {
	size_t	 passes, parts, full, forks, cuts, known, bad;
};

/* What is to come, as far as that is right. */
static const int32_t *
guess(const struct line *l, size_t at, size_t *n)
{
	static int32_t ids[N][QWEN_GUESS_MAX];
	static size_t turn;
	int32_t *to = ids[turn++ % N];
	size_t i;

	*n = below(2) ? below(QWEN_GUESS_MAX + 1) : 0;
	*n = *n < LONGEST - at ? *n : LONGEST - at;
	for (i = 0; i < *n; i++)
		to[i] = below(5) ? l->ids[at + i] : (int32_t)below(l->n_vocab);
	return to;
}

/* Give up a timeline other than those at work; it starts again. */
static void
give_up(struct line *l, size_t n)
{
	size_t i = below(n);

	while (l[i % n].s == NULL)
		i++;
	qwen_session_free(l[i % n].s);
	l[i % n].s = NULL;
	draw_ids(&l[i % n], 0);
}

/* Those that are not there yet, as far as there is room. */
static void
start_some(struct qwen_cache *c, struct line *l, struct counts *n)
{
	size_t i, j;

	for (i = 0; i < N; i++) {
		if (l[i].s != NULL)
			continue;
		j = below(N);
		if (below(2) && l[j].s != NULL) {
			if (qwen_session_fork(&l[i].s, l[j].s, &err) < 0)
				return;
			memcpy(l[i].ids, l[j].ids, sizeof l[i].ids);
			memcpy(l[i].row, l[j].row, sizeof l[i].row);
			draw_ids(&l[i], l[i].s->n_tokens);
			n->forks++;
		} else if (qwen_session_new_in(&l[i].s, c, &err) < 0) {
			return;
		}
	}
}

static size_t
add_parts(struct line *l, struct qwen_part *part, size_t *known)
{
	static const enum qwen_logits modes[] = { QWEN_LOGITS_LAST,
	    QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };
	size_t i, left, n = 0;

	for (i = 0; i < N; i++) {
		if (l[i].s == NULL || below(4) == 0)
			continue;
		left = LONGEST - l[i].s->n_tokens;
		if (left == 0)
			continue;
		part[n] = (struct qwen_part){ .s = l[i].s,
		    .tokens = l[i].ids + l[i].s->n_tokens,
		    .n = below(3) > 0 ? 1 : 1 + below(left < 40 ? left : 40),
		    .logits = modes[below(4)], .row = on_row, .arg = &l[i] };
		part[n].guess = guess(&l[i], l[i].s->n_tokens + part[n].n,
		    &part[n].n_guess);
		*known += qwen_ahead_match(l[i].s, part[n].tokens, part[n].n);
		n++;
	}
	return n;
}

static void
step(struct qwen_cache *c, struct line *l, struct counts *n)
{
	struct qwen_part part[N];
	struct qwen_cache_usage u, v;
	size_t i, at, n_part;

	start_some(c, l, n);
	while ((n_part = add_parts(l, part, &n->known)) > 0) {
		qwen_cache_usage(c, &u);
		if (qwen_eval_parts(part, n_part, &err) == 0)
			break;
		qwen_cache_usage(c, &v);
		n->bad += err.code != QWEN_EFULL || v.used > u.used;
		n->full++;
		give_up(l, N);
	}
	for (i = 0; i < n_part; i++)
		n->bad += part[i].failed != 0;
	n->passes++;
	n->parts += n_part;
	i = below(N);
	if (l[i].s != NULL)
		qwen_session_keep(l[i].s, 0, &err);
	i = below(N);
	if (l[i].s != NULL && below(4) == 0) {
		at = l[i].s->n_tokens;
		if (qwen_session_rewind(l[i].s, below(at + 1), 0, &at,
		    &err) == 0)
			draw_ids(&l[i], at);
		else
			n->bad += err.code != QWEN_EFULL;
		n->cuts++;
	}
	i = below(N);
	if (l[i].s != NULL && l[i].s->n_tokens > LONGEST - 10)
		give_up(l + i, 1);
	n->bad += !in_limit(c);
}

static void
check_random(struct qwen_model *m, const char *what, size_t steps)
{
	struct line *l = calloc(N, sizeof *l);
	struct counts n = { 0 };
	struct qwen_cache_usage u;
	struct qwen_cache *c;
	size_t i, k, bad = 0;

	rng = seed_of(what);
	/* room for a few of those that there may be */
	if (l == NULL || qwen_cache_new(&c, m, qwen_cache_need(m, LONGEST) +
	    qwen_cache_need(m, 40) * 4, &err) < 0)
		exit(1);
	for (i = 0; i < N; i++) {
		l[i].n_vocab = qwen_model_n_vocab(m);
		draw_ids(&l[i], 0);
	}
	for (k = 0; k < steps; k++) {
		step(c, l, &n);
		i = below(N);
		if (l[i].s != NULL && k % 8 == 0)
			bad += !as_alone(m, &l[i]);
	}
	for (i = 0; i < N; i++) {
		if (l[i].s != NULL)
			bad += !as_alone(m, &l[i]);
		qwen_session_free(l[i].s);
	}
	qwen_cache_usage(c, &u);
	ok(bad == 0 && n.bad == 0 && u.used == 0 && u.n_blocks == 0 &&
	    u.n_states == 0, "%s: %zu passes, %zu parts, %zu tokens guessed, "
	    "%zu forks, %zu cuts, %zu times full", what, n.passes, n.parts,
	    n.known, n.forks, n.cuts, n.full);
	qwen_cache_free(c);
	free(l);
}

/* ---------------------------------------------------------- what is counted */

static struct qwen_session *
read_in(struct qwen_cache *c, const int32_t *ids, size_t n)
{
	struct qwen_session *s;

	if (qwen_session_new_in(&s, c, &err) < 0 ||
	    (n > 0 && qwen_session_eval(s, ids, n, NULL, &err) < 0)) {
		printf("# %s\n", err.msg);
		exit(1);
	}
	return s;
}

static int
usage_is(const struct qwen_cache *c, size_t blocks, size_t states)
{
	struct qwen_cache_usage u;

	qwen_cache_usage(c, &u);
	if (u.block_bytes == 0)
		blocks = 0;
	return u.n_blocks == blocks && u.n_states == states &&
	    u.used == u.n_blocks * u.block_bytes + states * u.state_bytes;
}

/* One token each to all of them, in one pass. */
static int
one_each(struct qwen_session **s, const int32_t *ids, size_t n)
{
	struct qwen_part part[8];
	size_t i;

	for (i = 0; i < n; i++)
		part[i] = (struct qwen_part){ .s = s[i], .tokens = ids + i,
		    .n = 1 };
	return qwen_eval_parts(part, n, &err);
}

static void
check_sharing(struct qwen_model *m, const char *name, const int32_t *ids)
{
	struct qwen_session *s[4], *t;
	struct qwen_cache *c, *d;
	size_t i, at;

	if (qwen_cache_new(&c, m, 0, &err) < 0)
		exit(1);
	s[0] = read_in(c, ids, 20);
	ok(usage_is(c, 2, 1), "%s: 20 tokens take two blocks", name);
	for (i = 1; i < 4; i++) {
		if (qwen_session_fork(&s[i], s[0], &err) < 0)
			exit(1);
	}
	ok(usage_is(c, 2, 4) && same_session(s[0], s[3]),
	    "four timelines as well");
	ok(one_each(s, ids, 4) == 0 && usage_is(c, 5, 4),
	    "until each goes on: the last block is copied, the first is not");
	t = read_in(c, ids, 20);
	ok(qwen_session_eval(t, ids + 3, 1, NULL, &err) == 0 &&
	    same_session(t, s[3]) && !same_session(t, s[2]),
	    "to where it would be alone");
	qwen_session_free(s[3]);
	ok(qwen_session_fork(&s[3], t, &err) == 0 &&
	    qwen_session_rewind(t, 18, 0, &at, &err) == 0 && at <= 18 &&
	    qwen_session_eval(t, ids + at, 20 - at, NULL, &err) == 0 &&
	    qwen_session_eval(t, ids + 3, 1, NULL, &err) == 0 &&
	    same_session(t, s[3]), "one is cut, the other stays");
	qwen_session_free(t);
	if (qwen_cache_new(&d, m, 0, &err) < 0 ||
	    qwen_session_fork_in(&t, d, s[3], &err) < 0)
		exit(1);
	ok(same_session(t, s[3]) && usage_is(d, 2, 1), "in another cache");
	qwen_cache_free(d);
	qwen_cache_free(c);
	for (i = 0; i < 4; i++)
		qwen_session_free(s[i]);
	ok(qwen_session_eval(t, ids, 1, NULL, &err) == 0,
	    "a session outlives the handle of its cache");
	qwen_session_free(t);
}

static void
check_full(struct qwen_model *m, const char *name, const int32_t *ids)
{
	struct qwen_session *s[3], *t;
	struct qwen_cache_usage u;
	struct qwen_cache *c;
	uint64_t limit;
	size_t at;

	limit = qwen_cache_need(m, 30) + 2 * qwen_cache_need(m, 0);
	if (qwen_cache_new(&c, m, limit, &err) < 0)
		exit(1);
	s[0] = read_in(c, ids, 30);
	if (qwen_session_fork(&s[1], s[0], &err) < 0 ||
	    qwen_session_fork(&s[2], s[0], &err) < 0)
		exit(1);
	qwen_cache_usage(c, &u);
	ok(u.used == limit, "%s: a cache is full", name);
	ok(u.state_bytes == 0 || (qwen_session_fork(&t, s[0], &err) == -1 &&
	    err.code == QWEN_EFULL && t == NULL), "no more timelines");
	if (u.block_bytes == 0)
		goto out;
	ok(one_each(s, ids, 1) == -1 && err.code == QWEN_EFULL &&
	    usage_is(c, 2, 3) && same_session(s[0], s[1]),
	    "no copy of a block: %s", err.msg);
	if (u.state_bytes == 0)
		ok(qwen_session_rewind(s[0], 20, 0, &at, &err) == -1 &&
		    err.code == QWEN_EFULL && same_session(s[0], s[1]),
		    "nor for a cut");
	qwen_session_free(s[1]);
	qwen_session_free(s[2]);
	s[1] = s[2] = NULL;
	ok(one_each(s, ids, 1) == 0 && one_each(s, ids, 1) == 0 &&
	    usage_is(c, 2, 1), "alone it goes on, to the end of the block");
	ok((one_each(s, ids, 1) == 0) == (2 * u.state_bytes >= u.block_bytes),
	    "and further where that leaves room");
out:
	qwen_session_free(s[0]);
	qwen_session_free(s[1]);
	qwen_session_free(s[2]);
	qwen_cache_free(c);
}

/* ----------------------------------------------------------- what goes wrong */

/* A number that is not finite in what the timeline remembers. */
static void
damage(struct qwen_session *s)
{
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++) {
		if (s->mem.layer[i].n_s > 0) {
			s->mem.layer[i].s[0] = NAN;
			return;
		}
	}
	s->mem.layer[0].block[0][0] = 0x7e00;
}

static void
check_damage(struct qwen_model *m, const char *name, const int32_t *ids)
{
	struct line l[3] = { { .s = NULL } };
	struct qwen_part part[3];
	struct qwen_cache *c;
	size_t i;

	if (qwen_cache_new(&c, m, 0, &err) < 0)
		exit(1);
	for (i = 0; i < 3; i++) {
		l[i].n_vocab = qwen_model_n_vocab(m);
		memcpy(l[i].ids, ids, sizeof l[i].ids);
		l[i].s = read_in(c, ids, 10 + i);
		part[i] = (struct qwen_part){ .s = l[i].s,
		    .tokens = ids + 10 + i, .n = 3 * i + 1, .row = on_row,
		    .logits = i > 0 ? QWEN_LOGITS_ALL : QWEN_LOGITS_LAST,
		    .arg = &l[i] };
	}
	damage(l[1].s);
	ok(qwen_eval_parts(part, 3, &err) == 0 && !part[0].failed &&
	    part[1].failed && !part[2].failed &&
	    part[1].err.code == QWEN_ENUMERIC &&
	    strstr(part[1].err.msg, "layer ") != NULL,
	    "%s: one of three fails: %s", name, part[1].err.msg);
	ok(as_alone(m, &l[0]) && as_alone(m, &l[2]), "two do not notice");
	part[1] = part[2];
	ok(qwen_eval_parts(part, 3, &err) == -1 && err.code == QWEN_EMISMATCH,
	    "a session twice: %s", err.msg);
	part[1].s = l[1].s;
	part[2].tokens = (const int32_t[]){ 1, 2, -1, 0, 0, 0, 0 };
	ok(qwen_eval_parts(part, 3, &err) == -1 && err.code == QWEN_ERANGE &&
	    l[0].s->n_tokens == 11, "no such token: %s", err.msg);
	for (i = 0; i < 3; i++)
		qwen_session_free(l[i].s);
	qwen_cache_free(c);
}

static int
stop_at(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	(void)logits;
	if (pos != *(size_t *)arg)
		return 0;
	e->code = QWEN_EPIPE;
	return 1;
}

/* More tokens than one pass takes, and one that is stopped on the way. */
static void
check_long(struct qwen_model *m, const char *name)
{
	size_t i, n = 1100, at = 600, n_vocab = qwen_model_n_vocab(m);
	int32_t *ids = calloc(n + 1, sizeof *ids);
	struct qwen_session *s[3], *alone;
	struct qwen_part part[3];
	struct qwen_cache *c;

	if (ids == NULL || qwen_cache_new(&c, m, 0, &err) < 0)
		exit(1);
	for (i = 0; i < n; i++)
		ids[i] = (int32_t)below(n_vocab);
	for (i = 0; i < 3; i++) {
		s[i] = read_in(c, ids, i);
		part[i] = (struct qwen_part){ .s = s[i], .tokens = ids + i,
		    .n = n - i };
	}
	part[1].logits = QWEN_LOGITS_ALL;
	part[1].row = stop_at;
	part[1].arg = &at;
	alone = read_in(c, ids, n);
	ok(qwen_eval_parts(part, 3, &err) == 0 && same_session(alone, s[0]) &&
	    same_session(alone, s[2]) && part[1].failed &&
	    part[1].err.code == QWEN_EPIPE && s[1]->n_tokens < n,
	    "%s: three of %zu tokens, one stopped at %zu", name, n, at);
	for (i = 0; i < 3; i++)
		qwen_session_free(s[i]);
	qwen_session_free(alone);
	qwen_cache_free(c);
	free(ids);
}

static void
check_levels(const struct golden_model *g, size_t steps)
{
	struct qwen_model_opts o = { .n_threads = 1 };
	struct qwen_model *m;
	char what[128];
	size_t i;

	for (i = 0; i < N_LEVELS; i++) {
		o.cpu = levels[i];
		snprintf(what, sizeof what, "%s: %s", g->name, levels[i]);
		rng = seed_of(what);
		o.n_threads = 1 + (int)below(3);
		snprintf(what, sizeof what, "%s: %s, %d threads", g->name,
		    levels[i], o.n_threads);
		if (qwen_cpu_check(levels[i]) != 1)
			skip(levels[i], "this CPU lacks it");
		else if (!ok(qwen_model_open(&m, g->path, &o, &err) == 0,
		    "%s", what))
			exit(1);
		else {
			/* plain C is slow */
			check_random(m, what, i > 0 ? steps : steps / 4);
			qwen_model_close(m);
		}
	}
}

static void
check_model(const struct golden_model *g, int all)
{
	struct qwen_model_opts o = { .n_threads = 2 };
	int32_t ids[LONGEST];
	struct qwen_model *m;

	if (!ok(qwen_model_open(&m, g->path, &o, &err) == 0, "%s", g->name))
		return;
	rng = seed_of(g->name);
	/* timelines that read different tokens of these must differ */
	draw_distinct(ids, LONGEST, g->n_vocab);
	check_sharing(m, g->name, ids);
	check_full(m, g->name, ids);
	check_damage(m, g->name, ids);
	check_random(m, g->name, all ? 10 * STEPS : STEPS);
	if (all || strstr(g->name, "moe-ud") != NULL)
		check_long(m, g->name);
	qwen_model_close(m);
	check_levels(g, all ? STEPS : STEPS / 4);
}

int
main(void)
{
	static struct golden_model *g;	/* until the end */
	size_t i, n = golden_load(&g);

	ok(n > 0, "%zu models", n);
	for (i = 0; i < n; i++)
		check_model(&g[i], getenv("QPIPE_LONG") != NULL);
	golden_free(g, n);
	return done_testing();
}
