/* SPDX-License-Identifier: ISC */
/*
 * cuts.c - prompts divided anywhere: saved and restored, sliced, found in a
 * store or resumed, they have the bits of a prompt read at once, even if the
 * parts used other instruction sets and numbers of threads.
 */
#include <stdlib.h>
#include <string.h>

#include "golden.h"
#include "../levels.h"
#include "../unit/store_util.h"
#include "../tap.h"

enum { MOST = 80, TAIL = 20, STEPS = 6, EVERY = 16 };

static struct qwen_err err;
static uint64_t x;

/* What is compared, of one prompt. */
struct trial {
	struct qwen_model	*reader;
	int32_t			 ids[MOST + TAIL];	/* the last: other ends */
	size_t			 n, cut;
	int			 no_compress;
	struct qwen_session	*cold;		/* after n */
	struct qwen_session	*end;		/* and STEPS more */
};

struct models {
	struct qwen_model	*v[N_LEVELS + 1];
	size_t			 n;
};

/* One of each instruction set that there is, and of all kinds of threads. */
static int
open_all(struct models *m, const char *path, unsigned numerics,
    enum qwen_kv k, enum qwen_kv v)
{
	struct qwen_model_opts o = { .n_threads = 1, .numerics = numerics,
	    .k = k, .v = v };
	size_t i;

	m->n = 0;
	if (qwen_model_open(&m->v[m->n++], path, &o, &err) < 0)
		return -1;
	for (i = 0; i < N_LEVELS; i++) {
		if (qwen_cpu_check(levels[i]) != 1 ||
		    !level_differs(i, numerics))
			continue;
		o.cpu = levels[i];
		o.n_threads = 1 + (int)(m->n % 3);
		if (qwen_model_open(&m->v[m->n++], path, &o, &err) < 0)
			return -1;
	}
	return 0;
}

static struct qwen_model *
some(const struct models *m)
{
	return m->v[next_random(&x) % m->n];
}

/* n tokens more, in batches of any size, with checkpoints. */
static int
read_on(struct qwen_session *s, const int32_t *ids, size_t n)
{
	struct qwen_checkpoints keep = { .every = EVERY };
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST, .keep = &keep,
	    .batch = next_random(&x) % 4 == 0 ? 1 + next_random(&x) % 30 : 0 };

	return n == 0 ? 0 : qwen_session_eval(s, ids, n, &how, &err);
}

static struct qwen_session *
read_ids(struct qwen_model *m, const int32_t *ids, size_t n)
{
	struct qwen_session *s;

	if (qwen_session_new(&s, m, &err) < 0)
		return NULL;
	if (read_on(s, ids, n) < 0) {
		qwen_session_free(s);
		return NULL;
	}
	return s;
}

/* The next n tokens, the most likely one each time. */
static int
decode(struct qwen_session *s, size_t n)
{
	size_t i, n_vocab = qwen_model_n_vocab(s->model);
	const float *l;
	int32_t id;

	for (; n > 0; n--) {
		l = qwen_session_logits(s);
		if (l == NULL)
			return -1;
		for (id = 0, i = 1; i < n_vocab; i++)
			id = l[i] > l[id] ? (int32_t)i : id;
		if (qwen_session_eval(s, &id, 1, NULL, &err) < 0)
			return -1;
	}
	return 0;
}

/* s through a state, for the model m. */
static struct qwen_session *
through(struct qwen_session *s, struct qwen_model *m, int no_compress)
{
	struct qwen_session *t = NULL;
	struct bytes b = { 0 };

	if (s == NULL)
		return NULL;
	save_bytes(&b, s, NULL, no_compress, NULL);
	qwen_session_free(s);
	if (load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) < 0)
		t = NULL;
	bytes_free(&b);
	return t;
}

/* Does what is in s, read on to n, come to the same? s is freed. */
static int
arrives(const struct trial *t, struct qwen_session *s)
{
	size_t at = s != NULL ? qwen_session_n_tokens(s) : 0;
	int good;

	if (s == NULL)
		return 0;
	good = at <= t->n && read_on(s, t->ids + at, t->n - at) == 0 &&
	    same_session(t->cold, s) && decode(s, STEPS) == 0 &&
	    same_session(t->end, s);
	qwen_session_free(s);
	return good;
}

/* ---------------------------------------------------------------- the ways */

static int
saved(const struct trial *t, struct qwen_model *writer)
{
	return arrives(t, through(read_ids(writer, t->ids, t->cut), t->reader,
	    t->no_compress));
}

/* Of a state that goes on, only what serves for the first cut tokens. */
static int
sliced(const struct trial *t, struct qwen_model *writer)
{
	struct qwen_session *s = read_ids(writer, t->ids, t->n), *r = NULL;
	struct qwen_state_file *f;
	struct bytes b = { 0 };
	char path[64];
	int fd, good;

	if (s == NULL)
		return 0;
	save_bytes(&b, s, NULL, t->no_compress, NULL);
	qwen_session_free(s);
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	good = qwen_state_open(&f, path, &err) == 0 &&
	    qwen_state_restore(&r, NULL, t->reader, &f, 1, t->cut, 1,
	    &err) == 0 && qwen_session_n_tokens(r) <= t->cut &&
	    qwen_session_n_tokens(r) + EVERY >= t->cut && arrives(t, r);
	qwen_state_close(f);
	close(fd);
	bytes_free(&b);
	return good;
}

/* Somebody has read a text that begins with the same cut tokens. */
static int
stored(const struct trial *t, struct qwen_model *writer, struct qwen_store *st,
    size_t *hit)
{
	struct qwen_session *s, *r;
	int32_t ids[MOST + TAIL];

	memcpy(ids, t->ids, t->cut * sizeof *ids);
	memcpy(ids + t->cut, t->ids + MOST, TAIL * sizeof *ids);
	s = read_ids(writer, ids, t->cut + TAIL);
	if (s == NULL || qwen_store_insert(st, s, &err) < 0)
		return 0;
	qwen_session_free(s);
	if (qwen_store_restore(st, &r, t->reader, t->ids, t->n, &err) < 0 ||
	    (r == NULL && qwen_session_new(&r, t->reader, &err) < 0))
		return 0;
	*hit += qwen_session_n_tokens(r);
	return arrives(t, r);
}

/* While it is generating. */
static int
resumed(const struct trial *t, struct qwen_model *writer)
{
	struct qwen_session *s = read_ids(writer, t->ids, t->n);
	size_t k = next_random(&x) % (STEPS + 1);
	int good;

	if (s == NULL || decode(s, k) < 0)
		return 0;
	s = through(s, t->reader, t->no_compress);
	good = s != NULL && decode(s, STEPS - k) == 0 &&
	    same_session(t->end, s);
	qwen_session_free(s);
	return good;
}

/* ------------------------------------------------------------------------- */

static int
begin(struct trial *t, const struct models *m, size_t n_vocab)
{
	size_t i;

	t->n = 1 + next_random(&x) % MOST;
	t->cut = 1 + next_random(&x) % t->n;
	t->no_compress = next_random(&x) % 2;
	t->reader = some(m);
	for (i = 0; i < MOST + TAIL; i++)
		t->ids[i] = (int32_t)(next_random(&x) % n_vocab);
	t->cold = read_ids(m->v[0], t->ids, t->n);
	t->end = read_ids(m->v[0], t->ids, t->n);
	return t->cold == NULL || t->end == NULL ? -1 : decode(t->end, STEPS);
}

static void
check_model(const struct golden_model *g, size_t n, unsigned numerics,
    enum qwen_kv kind_k, enum qwen_kv kind_v)
{
	const char *seed = getenv("SEED");
	static const char *const way[] = { "saved and restored", "sliced",
	    "from a store", "resumed" };
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, &w);
	size_t i, k, hit = 0, bad[4] = { 0 };
	struct models m;
	struct trial t;

	int r = open_all(&m, g->path, numerics, kind_k, kind_v);

	if (r < 0 && kind_k != QWEN_KV_F16 &&
	    strstr(err.msg, "head size 16") != NULL) {
		qwen_store_close(st);
		remove_tree(dir);
		return;
	}
	if (!ok(r == 0, "%s, numerics %u, keys %s, values %s", g->name,
	    numerics, qwen_kv_name(kind_k), qwen_kv_name(kind_v)))
		return;
	/* whichever other models there are */
	x = seed != NULL ? strtoull(seed, NULL, 10) : 1;
	for (i = 0; i < n; i++) {
		if (begin(&t, &m, g->n_vocab) < 0)
			break;
		bad[0] += !saved(&t, some(&m));
		bad[1] += !sliced(&t, some(&m));
		bad[2] += !stored(&t, some(&m), st, &hit);
		bad[3] += !resumed(&t, some(&m));
		qwen_session_free(t.cold);
		qwen_session_free(t.end);
	}
	for (k = 0; k < 4; k++)
		ok(i == n && bad[k] == 0, "%s: %zu cuts, %s: %zu differ",
		    g->name, i, way[k], bad[k]);
	ok(w.n == 0 && count_bad(st, 0) == 0 && (hit > 0 || n < 50),
	    "%s: the store gave %zu tokens, without a warning", g->name, hit);
	qwen_store_close(st);
	remove_tree(dir);
	for (i = 0; i < m.n; i++)
		qwen_model_close(m.v[i]);
}

int
main(void)
{
	static struct golden_model *g;	/* until the end */
	size_t i, n = golden_load(&g);
	int is_long = getenv("QPIPE_LONG") != NULL;

	ok(n > 0, "%zu models", n);
	for (i = 0; i < n; i++) {
		check_model(&g[i], is_long ? 200 : 6, 1, QWEN_KV_F16,
		    QWEN_KV_F16);
		check_model(&g[i], is_long ? 20 : 1, 4, QWEN_KV_F16,
		    QWEN_KV_F16);
		check_model(&g[i], is_long ? 50 : 3, 1, QWEN_KV_Q8_0,
		    QWEN_KV_Q4_0);
		check_model(&g[i], is_long ? 20 : 1, 1, QWEN_KV_Q4_0,
		    QWEN_KV_F16);
		check_model(&g[i], is_long ? 50 : 3, 1, QWEN_KV_F32,
		    QWEN_KV_F32);
	}
	golden_free(g, n);
	return done_testing();
}
