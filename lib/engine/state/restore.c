/* SPDX-License-Identifier: ISC */
/*
 * restore.c - a session from files of state: of a chain of them the blocks that
 * are needed and no others, each read, checked and decoded by whichever thread
 * comes first, straight to where it belongs.
 */
#include <sys/mman.h>

#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "engine/model/model.h"
#include "engine/state/load.h"

/* At once, each with buffers of its own. */
enum { WORKERS_MAX = 16 };

struct job {
	const struct qwen_state_file *f;
	size_t			 i;		/* record */
	const unsigned char	*map;		/* of the file, or NULL */
	uint64_t		 end;		/* kv: blocks from this one on
						   are not wanted */
};

struct restore {
	struct qwen_pool	*pool;
	const struct qwen_session *s;		/* NULL: nothing is kept */
	uint16_t		***block;	/* of each layer, or NULL */
	void			*recurrent;	/* laid out as in s */
	float			*logits;
	struct job		*job;
	size_t			 n, cap;
	size_t			 n_worker;
	_Atomic size_t		 next;
	_Atomic size_t		 bad;		/* least job that failed */
	struct worker		*worker;
};

struct worker {
	struct qwen_coder	*coder;
	unsigned char		*buf;
	size_t			 bad;
	struct qwen_err		 err;
};

static int
add_job(struct restore *r, const struct qwen_state_file *f, size_t i,
    const unsigned char *map, uint64_t end, struct qwen_err *err)
{
	struct job *more;
	size_t cap;

	if (r->n == r->cap) {
		cap = 2 * r->cap + 64;
		if ((more = realloc(r->job, cap * sizeof *more)) == NULL)
			return qwen_fail(err, QWEN_ENOMEM, "out of memory");
		r->job = more;
		r->cap = cap;
	}
	r->job[r->n++] = (struct job){ f, i, map, end };
	return 0;
}

/* ----------------------------------------------------------- what a job does */

/* Piece of a KV cache: copied to its blocks, or they are the mapped file's. */
static void
put_kv(struct restore *r, const struct job *j, const unsigned char *raw)
{
	const struct qwen_state_entry *e = &j->f->list.entry[j->i];
	uint64_t size = r->s->layer[e->layer].kv_block_bytes, b, at;
	uint16_t **list = r->block[e->layer];
	size_t i, part;
	int whole = e->off % size == 0 && e->len % size == 0;
	int in_place = j->map != NULL && whole &&
	    (uintptr_t)raw % QWEN_ALIGN == 0;

	b = qwen_state_kv_first(&j->f->in.lay) + e->off / size;
	at = e->off % size;
	for (i = 0; i < e->len && b < j->end; i += part, b++, at = 0) {
		part = (size_t)(size - at < e->len - i ? size - at :
		    e->len - i);
		if (in_place) {
			/* a private mapping, which may be written to */
			list[b] = (uint16_t *)(uintptr_t)(raw + i);
			continue;
		}
		memcpy((char *)list[b] + at, raw + i, part);
	}
}

static void
put(struct restore *r, const struct job *j, const unsigned char *raw)
{
	const struct qwen_state_entry *e = &j->f->list.entry[j->i];
	const struct qwen_layer_state *l;
	const float *old;

	if (strcmp(e->kind, "kv") == 0) {
		put_kv(r, j, raw);
		return;
	}
	if (strcmp(e->kind, "logits") == 0) {
		memcpy((char *)r->logits + e->off, raw, (size_t)e->len);
		return;
	}
	l = &r->s->layer[e->layer];
	old = e->kind[0] == 'd' ? l->s : l->conv;
	memcpy((char *)r->recurrent + ((const char *)old -
	    (const char *)r->s->recurrent) + e->off, raw, (size_t)e->len);
}

static int
do_job(struct restore *r, struct worker *w, const struct job *j)
{
	const struct qwen_state_entry *e = &j->f->list.entry[j->i];
	struct qwen_state_rec rec;
	const unsigned char *raw;
	int rc;

	rc = j->map != NULL ? qwen_state_file_parse(j->f, j->i, &rec,
	    j->map + e->offset, &w->err) :
	    qwen_state_file_rec(j->f, j->i, &rec, w->buf, &w->err);
	if (rc < 0)
		return -1;
	if (qwen_state_want(&rec, &w->err) < 0 ||
	    qwen_coder_decode(w->coder, rec.codec, rec.data, rec.n_data,
	    rec.len, &raw, &w->err) < 0 ||
	    qwen_state_layout_check(&j->f->in.lay, e, raw, &w->err) < 0)
		return qwen_state_rec_fail(&rec, &w->err);
	if (r->s != NULL)
		put(r, j, raw);
	return 0;
}

/* One worker: jobs until there are none, or one failed that comes before. */
static void
work(void *arg, size_t item, int thread)
{
	struct restore *r = arg;
	struct worker *w = &r->worker[item];
	size_t i, old;

	(void)thread;
	while ((i = atomic_fetch_add(&r->next, 1)) < r->n &&
	    i < atomic_load(&r->bad)) {
		if (do_job(r, w, &r->job[i]) == 0)
			continue;
		w->bad = i;
		old = atomic_load(&r->bad);
		while (i < old &&
		    !atomic_compare_exchange_weak(&r->bad, &old, i))
			;
		return;
	}
}

static void
free_workers(struct restore *r)
{
	size_t i;

	for (i = 0; r->worker != NULL && i < r->n_worker; i++) {
		qwen_coder_free(r->worker[i].coder);
		free(r->worker[i].buf);
	}
	free(r->worker);
	free(r->job);
}

/* All jobs; frees what they took. */
static int
run_jobs(struct restore *r, struct qwen_err *err)
{
	size_t i, n = (size_t)qwen_pool_threads(r->pool);
	int rc = 0;

	n = n < r->n ? n : r->n;
	r->n_worker = n < WORKERS_MAX ? n : WORKERS_MAX;
	r->worker = qwen_alloc(r->n_worker, sizeof *r->worker);
	for (i = 0; r->worker != NULL && i < r->n_worker; i++) {
		r->worker[i].bad = SIZE_MAX;
		r->worker[i].buf = malloc(QWEN_STATE_MAX);
		if (r->worker[i].buf == NULL ||
		    qwen_coder_new(&r->worker[i].coder, err) < 0)
			break;
	}
	if (r->worker == NULL || i < r->n_worker) {
		free_workers(r);
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	}
	atomic_store(&r->next, 0);
	atomic_store(&r->bad, SIZE_MAX);
	qwen_pool_run(r->pool, work, r, r->n_worker);
	for (i = 0; i < r->n_worker; i++) {
		if (r->worker[i].bad == SIZE_MAX ||
		    r->worker[i].bad != atomic_load(&r->bad))
			continue;
		if (err != NULL)
			*err = r->worker[i].err;
		rc = -1;
	}
	free_workers(r);
	return rc;
}

/* Jobs for the recurrent state and, if wanted, the logits after at tokens. */
static int
add_position(struct restore *r, const struct qwen_state_file *f, uint64_t at,
    struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < f->list.n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];

		if ((uint64_t)e->at != at || !e->has_data)
			continue;
		if (strcmp(e->kind, "delta") != 0 &&
		    strcmp(e->kind, "conv") != 0 &&
		    (strcmp(e->kind, "logits") != 0 || r->logits == NULL))
			continue;
		if (add_job(r, f, i, NULL, 0, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_state_source_read(struct qwen_source *src, const struct qwen_session *s,
    uint64_t at, void *recurrent, float *logits, struct qwen_err *err)
{
	struct restore r = { .pool = s->model->pool, .s = s,
	    .recurrent = recurrent, .logits = logits };

	if (add_position(&r, qwen_state_file_of(src), at, err) < 0) {
		free(r.job);
		return -1;
	}
	return run_jobs(&r, err);
}

int
qwen_state_check_blocks(const struct qwen_state_file *f,
    struct qwen_pool *pool, struct qwen_err *err)
{
	struct restore r = { .pool = pool };
	size_t i;

	for (i = 0; i < f->list.n; i++) {
		if (qwen_state_is_known(&f->list.entry[i]) &&
		    add_job(&r, f, i, NULL, 0, err) < 0) {
			free(r.job);
			return -1;
		}
	}
	return run_jobs(&r, err);
}

/* --------------------------------------------------------- of a whole chain */

struct chain {
	struct qwen_state_file *const *f;
	size_t			 n;
	uint64_t		 end;		/* where to stop */
	struct qwen_state_file	*at_end;	/* has the state there */
	int			 logits;	/* and the logits */
	int			 named;
};

/* Each part begins where the one before ends. */
static int
check_chain(const struct chain *c, const struct qwen_session *s,
    const int32_t *tokens, struct qwen_err *err)
{
	uint64_t at = 0;
	struct qwen_fp fp;
	size_t i;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->info;

		if (qwen_state_layout_match(&c->f[i]->in.lay, s, err) < 0)
			return -1;
		if (p->from != at)
			return qwen_fail(err, QWEN_EMISMATCH, "part %zu begins "
			    "at token %llu, the one before it ends at %llu", i,
			    (unsigned long long)p->from,
			    (unsigned long long)at);
		at = p->n_tokens;
		if (!p->part)
			continue;
		qwen_state_prefix(tokens, (size_t)p->from, &fp);
		if (memcmp(&fp, &p->prefix, sizeof fp) != 0)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "part %zu is of other tokens before it", i);
	}
	return 0;
}

/* Take the position if it is the best so far. */
static void
offer(struct chain *c, struct qwen_state_file *f, uint64_t at, int logits,
    int named, size_t n_max, int want_logits)
{
	int better = at > c->end || (at == c->end && (c->at_end == NULL ||
	    (logits && !c->logits)));

	if (!better || at > n_max ||
	    (at == n_max && want_logits && !logits))
		return;
	c->end = at;
	c->at_end = f;
	c->logits = logits;
	c->named = named;
}

/* The last position from which it can go on. */
static void
find_end(struct chain *c, int recurrent, size_t n_max, int want_logits)
{
	uint64_t total = c->f[c->n - 1]->info.n_tokens, any;
	size_t i, j;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->info;

		for (j = 0; j < p->n_checkpoints; j++)
			offer(c, c->f[i], p->checkpoints[j].at,
			    p->checkpoints[j].logits, p->checkpoints[j].named,
			    n_max, want_logits);
		if (p->recurrent && (recurrent || p->logits))
			offer(c, c->f[i], p->n_tokens, p->logits, p->named,
			    n_max, want_logits);
	}
	if (recurrent)
		return;
	/* any position does, but for the logits */
	any = total;
	if (any >= n_max)
		any = want_logits && n_max > 0 ? n_max - 1 : n_max;
	if (any > c->end) {
		c->end = any;
		c->at_end = NULL;
		c->logits = c->named = 0;
	}
}

/* Tokens of all files, one after the other. */
static int32_t *
join_tokens(const struct chain *c, struct qwen_err *err)
{
	uint64_t n = c->f[c->n - 1]->info.n_tokens;
	int32_t *all = qwen_alloc((size_t)n, sizeof *all);
	size_t i;

	if (all == NULL)
		qwen_fail(err, QWEN_ENOMEM, "out of memory");
	for (i = 0; all != NULL && i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->info;

		/* their order is checked later */
		if (p->from <= p->n_tokens && p->n_tokens <= n &&
		    p->n_tokens > p->from)
			memcpy(all + p->from, p->tokens, (size_t)(p->n_tokens -
			    p->from) * sizeof *all);
	}
	return all;
}

/* Map the file; the session has it from then on. */
static const unsigned char *
map_file(struct qwen_session *s, const struct qwen_state_file *f)
{
	struct qwen_mapping *more;
	void *p;

	if (!f->info.mapped)
		return NULL;
	more = realloc(s->mapping, (s->n_mapping + 1) * sizeof *more);
	if (more == NULL)
		return NULL;
	s->mapping = more;
	p = mmap(NULL, (size_t)f->info.stored, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE, f->fd, 0);
	if (p == MAP_FAILED)	/* then it is read like any other */
		return NULL;
	s->mapping[s->n_mapping++] = (struct qwen_mapping){ .p = p,
	    .bytes = (size_t)f->info.stored };
	return p;
}

/*
 * Pieces of file i that have positions before the end.  A block that the next
 * part begins in is that part's.
 */
static int
add_kv(struct restore *r, struct qwen_session *s, const struct chain *c,
    size_t i, struct qwen_err *err)
{
	const struct qwen_state_file *f = c->f[i];
	uint64_t first = qwen_state_kv_first(&f->in.lay), stop, next;
	const unsigned char *map = NULL;
	size_t j;

	/* it may have the block that the end is in, as the one before has */
	if (f->info.from >= c->end)
		return 0;
	stop = (c->end + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
	for (j = i + 1; j < c->n; j++) {
		next = qwen_state_kv_first(&c->f[j]->in.lay);
		if (qwen_state_kv_count(&c->f[j]->in.lay) > 0 &&
		    c->f[j]->info.from < c->end && next < stop)
			stop = next;
	}
	for (j = 0; j < f->list.n; j++) {
		const struct qwen_state_entry *e = &f->list.entry[j];

		if (strcmp(e->kind, "kv") != 0 || first + e->off /
		    s->layer[e->layer].kv_block_bytes >= stop)
			continue;
		if (map == NULL)
			map = map_file(s, f);
		if (add_job(r, f, j, map, stop, err) < 0)
			return -1;
	}
	return 0;
}

/* Blocks, of which the memory is touched by the jobs. */
static int
make_lists(struct restore *r, struct qwen_session *s, uint64_t end,
    struct qwen_err *err)
{
	size_t i, n = (size_t)((end + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK);

	if (qwen_session_grow(s, n, err) < 0)
		return -1;
	for (i = 0; i < s->n_layer; i++)
		r->block[i] = s->layer[i].block;
	return 0;
}

/* A checkpoint of the session that stays in the file. */
static int
leave_in(struct qwen_session *s, struct qwen_state_file *f, uint64_t at,
    int logits, int named, struct qwen_err *err)
{
	struct qwen_kept k = { .c = { .at = at, .logits = logits,
	    .named = named }, .src = qwen_source_ref(&f->src) };
	struct qwen_kept *last = s->n_kept > 0 ? &s->kept[s->n_kept - 1] :
	    NULL;

	if (last == NULL || last->c.at < at)
		return qwen_session_add_kept(s, &k, err);
	/* a second one of a position: one with logits is worth more */
	if (logits && !last->c.logits) {
		k.c.named |= last->c.named;
		qwen_kept_fini(last, s->recurrent_bytes);
		s->n_kept--;
		return qwen_session_add_kept(s, &k, err);
	}
	last->c.named |= named;
	qwen_kept_fini(&k, s->recurrent_bytes);
	return 0;
}

static int
leave_all(struct qwen_session *s, const struct chain *c, struct qwen_err *err)
{
	size_t i, j;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->info;

		for (j = 0; j < p->n_checkpoints; j++) {
			const struct qwen_checkpoint *q = &p->checkpoints[j];

			if (q->at < c->end && leave_in(s, c->f[i], q->at,
			    q->logits, q->named, err) < 0)
				return -1;
		}
		if (p->recurrent && p->n_tokens > 0 && p->n_tokens < c->end &&
		    (s->recurrent_bytes > 0 || p->logits || p->named) &&
		    leave_in(s, c->f[i], p->n_tokens, p->logits, p->named,
		    err) < 0)
			return -1;
	}
	return 0;
}

/* Everything that the chain has for the positions before its end. */
static int
fill(struct qwen_session *s, const struct chain *c, struct qwen_err *err)
{
	struct restore r = { .pool = s->model->pool, .s = s,
	    .recurrent = s->recurrent };
	size_t i;
	int rc = -1;

	r.block = qwen_alloc(s->n_layer, sizeof *r.block);
	if (r.block == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	if (c->logits)
		r.logits = s->logits;
	if (make_lists(&r, s, c->end, err) < 0)
		goto out;
	for (i = 0; i < c->n; i++) {
		if (add_kv(&r, s, c, i, err) < 0)
			goto out;
	}
	if (c->at_end != NULL && add_position(&r, c->at_end, c->end, err) < 0)
		goto out;
	rc = run_jobs(&r, err);
	r.job = NULL;
out:
	free(r.job);
	free(r.block);
	return rc;
}

/* What the files say about how the text was made, as far as it is used. */
static int
cut_extra(struct qwen_state_extra *out, const struct chain *c,
    struct qwen_err *err)
{
	const struct qwen_state_info *p = NULL;
	size_t i;

	for (i = 0; i < c->n; i++) {
		p = &c->f[i]->info;
		if (p->n_tokens >= c->end)
			break;
	}
	/* of two files that end there, the one that was gone on from */
	if (c->at_end != NULL)
		p = &c->at_end->info;
	return qwen_state_extra_copy(out, p->extra, c->end,
	    p->n_tokens == c->end, err);
}

static int
restore(struct qwen_session *s, struct chain *c, int32_t *tokens, size_t n_max,
    int want_logits, struct qwen_err *err)
{
	if (check_chain(c, s, tokens, err) < 0)
		return -1;
	find_end(c, s->recurrent_bytes > 0, n_max, want_logits);
	if (fill(s, c, err) < 0 || leave_all(s, c, err) < 0)
		return -1;
	s->n_tokens = (size_t)c->end;
	s->have_logits = c->logits;
	if (qwen_session_cut_cache(s, s->n_tokens, err) < 0)
		return -1;
	qwen_session_keep(s, c->named, NULL);
	if (c->at_end != NULL) {
		s->end.src = qwen_source_ref(&c->at_end->src);
		s->end.c.at = c->end;
		s->end.c.logits = c->logits;
	}
	return 0;
}

int
qwen_state_restore(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_state_file *const *chain, size_t n_chain,
    size_t n_max, int want_logits, struct qwen_err *err)
{
	struct chain c = { .f = chain, .n = n_chain };
	struct qwen_session *s;
	int32_t *tokens = NULL;
	size_t i;
	int rc = -1;

	*out = NULL;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	for (i = 0; i < n_chain; i++) {
		if (qwen_state_match(&chain[i]->info.header, m, err) < 0)
			return -1;
	}
	if (qwen_session_new(&s, m, err) < 0)
		return -1;
	if (n_chain == 0 || ((tokens = join_tokens(&c, err)) != NULL &&
	    restore(s, &c, tokens, n_max, want_logits, err) == 0))
		rc = 0;
	if (rc == 0 && n_chain > 0) {
		s->tokens = tokens;
		s->cap_tokens = (size_t)chain[n_chain - 1]->info.n_tokens;
		tokens = NULL;
		rc = x == NULL ? 0 : cut_extra(x, &c, err);
	}
	free(tokens);
	if (rc < 0) {
		qwen_session_free(s);
		return -1;
	}
	*out = s;
	return 0;
}
