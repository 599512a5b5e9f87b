/* SPDX-License-Identifier: ISC */
/*
 * restore.c - restores a session from a chain of state files.  Only the blocks
 * that are needed are read, each by the thread that decodes it.
 */
#include <sys/mman.h>

#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/read.h"

/* A record whose data is wanted. */
struct task {
	const struct qwen_state_file *f;
	size_t			 i;		/* number of the record */
	const unsigned char	*map;		/* mapping of the file, or
						   NULL */
	uint64_t		 end;		/* KV blocks from this block on
						   are not wanted */
};

struct restore {
	struct qwen_pool	*pool;
	struct qwen_session	*s;		/* NULL: only check */
	struct qwen_kept	 to;		/* where the data of the
						   position goes; NULL: not
						   wanted */
	int			 any_hidden;	/* there is a hidden state */
	struct task		*task;
	size_t			 n, cap, next;
};

static int
add_task(struct restore *r, const struct qwen_state_file *f, size_t i,
    const unsigned char *map, uint64_t end, struct qwen_err *err)
{
	if (qwen_grow(&r->task, &r->cap, r->n + 1, sizeof *r->task) < 0)
		return qwen_oom(err);
	r->task[r->n++] = (struct task){ f, i, map, end };
	return 0;
}

/* Takes the next task and finds the place of its data. */
static int
next_task(void *arg, struct qwen_state_job *j)
{
	struct restore *r = arg;
	const struct task *t = &r->task[r->next];
	const struct qwen_state_layout *lay;
	const struct qwen_state_entry *e;

	if (r->next == r->n)
		return 0;
	lay = &t->f->in.lay;
	e = &t->f->list.entry[t->i];
	j->n = r->next++;
	j->lay = lay;
	j->arg = t;
	j->place = (struct qwen_state_place){ .stop = t->end,
	    .mapped = t->map != NULL };
	if (r->s == NULL)
		return 1;
	if (qwen_kind_is_kv(e->kind)) {
		j->place.layer = e->layer < 0 ? lay->info.n_layers :
		    (size_t)e->layer;
		qwen_state_blocks(lay, e->kind, &j->place.first);
	} else
		j->place.object = qwen_state_object(r->s, e, &r->to);
	return 1;
}

static int
read_record(struct qwen_state_job *j)
{
	const struct task *t = j->arg;

	return t->map == NULL ?
	    qwen_state_file_rec(t->f, t->i, &j->rec, j->buf, &j->err) :
	    qwen_state_file_parse(t->f, t->i, &j->rec,
	    t->map + t->f->list.entry[t->i].offset, &j->err);
}

/* Runs the tasks if rc, from adding them, is 0; frees them. */
static int
finish_tasks(struct restore *r, int rc, struct qwen_err *err)
{
	const struct qwen_state_supply from = { .arg = r, .s = r->s,
	    .n = r->n, .next = next_task, .fetch = read_record };

	if (rc == 0 && r->n > 0)
		rc = qwen_state_place_all(&from, r->pool, err);
	free(r->task);
	return rc;
}

/*
 * Adds tasks for the recurrent state and, if wanted, the logits and the hidden
 * state after `at' tokens.
 */
static int
add_position(struct restore *r, const struct qwen_state_file *f, uint64_t at,
    struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < f->list.n; i++) {
		const struct qwen_state_entry *e = &f->list.entry[i];

		if ((uint64_t)e->at != at || !qwen_state_waits(e) ||
		    (e->kind == QWEN_K_LOGITS && r->to.logits == NULL) ||
		    (e->kind == QWEN_K_HIDDEN && r->to.hidden == NULL))
			continue;
		r->any_hidden |= e->kind == QWEN_K_HIDDEN;
		if (add_task(r, f, i, NULL, 0, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_state_source_read(struct qwen_source *src, struct qwen_session *s,
    uint64_t at, void *recurrent, float *logits, float *hidden, int *any,
    struct qwen_err *err)
{
	struct restore r = { .pool = qwen_model_pool(qwen_session_model(s)),
	    .s = s, .to = { .recurrent = recurrent, .logits = logits } };
	struct qwen_state_file *f = qwen_state_file_of(src);
	struct qwen_state_mtp own;
	int rc = 0;

	if (hidden != NULL && (rc = qwen_state_mtp_of(&own, s, err)) == 0 &&
	    qwen_state_mtp_fits(&f->in.lay.mtp, &own))
		r.to.hidden = hidden;
	if (rc == 0)
		rc = add_position(&r, f, at, err);
	*any = r.any_hidden;
	return finish_tasks(&r, rc, err);
}

int
qwen_state_check_blocks(const struct qwen_state_file *f,
    struct qwen_pool *pool, struct qwen_err *err)
{
	struct restore r = { .pool = pool };
	size_t i;
	int rc = 0;

	for (i = 0; rc == 0 && i < f->list.n; i++) {
		if (qwen_state_waits(&f->list.entry[i]))
			rc = add_task(&r, f, i, NULL, 0, err);
	}
	return finish_tasks(&r, rc, err);
}

/* --------------------------------------------------------- a chain of files */

struct chain {
	struct qwen_state_file *const *f;
	size_t			 n;
	uint64_t		 end;		/* position to restore */
	struct qwen_state_file	*at_end;	/* file with the state at end,
						   or NULL */
	int			 logits;	/* it has the logits there */
	int			 named;
	struct qwen_state_mtp	 mtp;		/* of the session */
	uint64_t		 first;		/* first MTP slot of the chain;
						   UINT64_MAX: none */
};

/*
 * Checks that each part begins where the part before it ends and continues its
 * tokens.
 */
static int
check_chain(const struct chain *c, const struct qwen_session *s,
    const int32_t *tokens, struct qwen_err *err)
{
	uint64_t at = 0;
	struct qwen_fp fp;
	size_t i;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->in.lay.info;

		if (qwen_state_layout_match(&c->f[i]->in.lay, s, err) < 0)
			return -1;
		if (p->from != at)
			return qwen_fail(err, QWEN_EMISMATCH, "part %zu begins "
			    "at token %" PRIu64 ", but the part before it "
			    "ends at %" PRIu64, i, p->from, at);
		at = p->n_tokens;
		if (!p->part)
			continue;
		qwen_state_prefix(tokens, (size_t)p->from, &fp);
		if (memcmp(&fp, &p->prefix, sizeof fp) != 0)
			return qwen_fail(err, QWEN_EMISMATCH,
			    "part %zu continues other tokens", i);
	}
	return 0;
}

/*
 * Makes `at' the position to restore if it is better than the best one so far.
 */
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

/* Finds the last position from which a session can continue. */
static void
find_end(struct chain *c, int recurrent, size_t n_max, int want_logits)
{
	uint64_t total = c->f[c->n - 1]->in.lay.info.n_tokens, any;
	size_t i, j;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->in.lay.info;

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
	/*
	 * without recurrent state any position will do if no logits are wanted
	 * there
	 */
	any = total;
	if (any >= n_max)
		any = want_logits && n_max > 0 ? n_max - 1 : n_max;
	if (any > c->end) {
		c->end = any;
		c->at_end = NULL;
		c->logits = c->named = 0;
	}
}

/* Returns the tokens of all files, joined; the caller frees them. */
static int32_t *
join_tokens(const struct chain *c, struct qwen_err *err)
{
	uint64_t n = c->f[c->n - 1]->in.lay.info.n_tokens;
	int32_t *all = qwen_alloc((size_t)n, sizeof *all);
	size_t i;

	if (all == NULL)
		qwen_oom(err);
	for (i = 0; all != NULL && i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->in.lay.info;

		/* check_chain checks their order later */
		if (p->from <= p->n_tokens && p->n_tokens <= n &&
		    p->n_tokens > p->from)
			memcpy(all + p->from, p->tokens, (size_t)(p->n_tokens -
			    p->from) * sizeof *all);
	}
	return all;
}

/*
 * Sets the spans of the tokens before the chain's end: those of all files, each
 * once.  The caller frees them.
 */
static int
join_spans(const struct chain *c, struct qwen_settled *end,
    struct qwen_span **out, struct qwen_err *err)
{
	size_t i, j, n = 0;
	struct qwen_span *all;

	for (i = 0; i < c->n; i++)
		n += c->f[i]->in.n_span;
	if ((*out = all = qwen_alloc(n + 1, sizeof *all)) == NULL)
		return qwen_oom(err);
	for (n = i = 0; i < c->n; i++) {
		for (j = 0; j < c->f[i]->in.n_span; j++) {
			const struct qwen_span *p = &c->f[i]->in.span[j];

			if (p->start < c->end && (n == 0 ||
			    p->start > all[n - 1].start))
				all[n++] = *p;
		}
	}
	end->span = all;
	end->n_span = n;
	return 0;
}

/*
 * Maps the file and gives the mapping to the session.  Returns NULL if the file
 * must be read instead.
 */
static const unsigned char *
map_file(struct qwen_session *s, const struct qwen_state_file *f)
{
	size_t n = (size_t)f->in.lay.info.stored;
	void *p;

	if (!f->in.lay.info.mapped)
		return NULL;
	p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE, f->fd, 0);
	if (p == MAP_FAILED || qwen_session_add_mapping(s, p, n) == 0)
		return p == MAP_FAILED ? NULL : p;
	munmap(p, n);
	return NULL;
}

/*
 * Finds where the contiguous MTP slots of the last files begin, up to the end.
 */
static void
find_mtp_slots(struct chain *c)
{
	uint64_t begin, slot, block = QWEN_KV_BLOCK;
	size_t i;

	c->first = UINT64_MAX;
	for (i = c->n; i-- > 0; ) {
		const struct qwen_state_layout *l = &c->f[i]->in.lay;

		if (l->info.from >= c->end)
			continue;
		if (!qwen_state_mtp_fits(&l->mtp, &c->mtp))
			break;
		slot = l->info.from > 0 ? l->info.from - 1 : 0;
		begin = l->mtp.first > slot ? l->mtp.first : slot;
		c->first = (begin + block - 1) / block * block;
		if (l->mtp.first > slot)
			break;
	}
	if (c->first >= c->end)
		c->first = UINT64_MAX;
}

/*
 * Adds tasks for the pieces of file i with KV blocks of this kind before the
 * end.  If the next part begins within a block, the block is taken from the
 * next part.
 */
static int
add_blocks(struct restore *r, const struct chain *c, size_t i,
    enum qwen_kind kind, struct qwen_err *err)
{
	const struct qwen_state_file *f = c->f[i];
	int mtp = kind == QWEN_K_MTP_KV;
	uint64_t stop = (c->end - (uint64_t)mtp + QWEN_KV_BLOCK - 1) /
	    QWEN_KV_BLOCK;
	uint64_t lowest = mtp ? c->first / QWEN_KV_BLOCK : 0;
	uint64_t size, first, next;
	const unsigned char *map = NULL;
	size_t j;

	/*
	 * a part that begins at the end may repeat the last block; use the
	 * earlier part's
	 */
	if (f->in.lay.info.from >= c->end || (mtp && (c->first == UINT64_MAX ||
	    !qwen_state_mtp_fits(&f->in.lay.mtp, &c->mtp))))
		return 0;
	for (j = i + 1; j < c->n; j++) {
		if (qwen_state_blocks(&c->f[j]->in.lay, kind, &next) > 0 &&
		    c->f[j]->in.lay.info.from < c->end && next < stop)
			stop = next;
	}
	qwen_state_blocks(&f->in.lay, kind, &first);
	for (j = 0; j < f->list.n; j++) {
		const struct qwen_state_entry *e = &f->list.entry[j];

		if (e->kind != kind)
			continue;
		size = qwen_state_kv_block(qwen_state_layer_of(&f->in.lay,
		    e->layer));
		if (first + e->off / size >= stop ||
		    first + (e->off + e->len) / size < lowest)
			continue;
		if (!mtp && map == NULL)
			map = map_file(r->s, f);
		if (add_task(r, f, j, map, stop, err) < 0)
			return -1;
	}
	return 0;
}

/* Adds a checkpoint to the session whose data stays in the file. */
static int
add_file_checkpoint(struct qwen_session *s, struct qwen_state_file *f,
    uint64_t at, int logits, int named, struct qwen_err *err)
{
	struct qwen_kept k = { .c = { .at = at, .logits = logits,
	    .named = named }, .src = qwen_source_ref(&f->src) };

	return qwen_session_add_kept(s, &k, err);
}

static int
add_file_checkpoints(struct qwen_session *s, const struct chain *c,
    struct qwen_err *err)
{
	size_t i, j;

	for (i = 0; i < c->n; i++) {
		const struct qwen_state_info *p = &c->f[i]->in.lay.info;

		for (j = 0; j < p->n_checkpoints; j++) {
			const struct qwen_checkpoint *q = &p->checkpoints[j];

			if (q->at < c->end && add_file_checkpoint(s, c->f[i],
			    q->at, q->logits, q->named, err) < 0)
				return -1;
		}
		if (p->recurrent && p->n_tokens > 0 && p->n_tokens < c->end &&
		    (qwen_session_view(s).recurrent_bytes > 0 || p->logits ||
		    p->named) &&
		    add_file_checkpoint(s, c->f[i], p->n_tokens, p->logits,
		    p->named, err) < 0)
			return -1;
	}
	return 0;
}

static int
add_all(struct restore *r, const struct chain *c, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < c->n; i++) {
		if (add_blocks(r, c, i, QWEN_K_KV, err) < 0 ||
		    add_blocks(r, c, i, QWEN_K_MTP_KV, err) < 0)
			return -1;
	}
	return c->at_end == NULL ? 0 : add_position(r, c->at_end, c->end, err);
}

/* Restores everything that the chain has for positions before its end. */
static int
fill(struct qwen_session *s, const struct chain *c, struct qwen_err *err)
{
	struct restore r = { .pool = qwen_model_pool(qwen_session_model(s)),
	    .s = s, .to.recurrent = qwen_session_view(s).recurrent };
	float *hidden = NULL;
	int rc;

	if (c->logits)
		r.to.logits = qwen_session_view(s).row;
	if (c->at_end != NULL &&
	    qwen_state_mtp_fits(&c->at_end->in.lay.mtp,
	    &c->mtp)) {
		hidden = qwen_alloc((size_t)c->mtp.n_embd, sizeof *hidden);
		if (hidden == NULL)
			return qwen_oom(err);
		r.to.hidden = hidden;
	}
	/* the tasks, not this call, touch the memory of the blocks */
	rc = qwen_session_grow(s, (size_t)((c->end + QWEN_KV_BLOCK - 1) /
	    QWEN_KV_BLOCK), err);
	if (rc == 0)
		rc = add_all(&r, c, err);
	rc = finish_tasks(&r, rc, err);
	if (rc == 0 && c->first != UINT64_MAX)
		qwen_session_mtp_set(s, (size_t)c->first, (size_t)c->end,
		    r.any_hidden ? hidden : NULL);
	free(hidden);
	return rc;
}

/*
 * Copies the extras of the file in which the session ends, cut at that
 * position.
 */
static int
cut_extra(struct qwen_state_extra *out, const struct chain *c,
    struct qwen_err *err)
{
	const struct qwen_state_info *p = NULL;
	size_t i;

	for (i = 0; i < c->n; i++) {
		p = &c->f[i]->in.lay.info;
		if (p->n_tokens >= c->end)
			break;
	}
	/* if two files end there, use the one with the state */
	if (c->at_end != NULL)
		p = &c->at_end->in.lay.info;
	return qwen_state_extra_copy(out, p->extra, c->end,
	    p->n_tokens == c->end, err);
}

static int
restore(struct qwen_session *s, struct chain *c, int32_t *tokens, size_t n_max,
    int want_logits, struct qwen_err *err)
{
	struct qwen_settled end = { .tokens = tokens };
	struct qwen_span *span;
	int rc;

	if (check_chain(c, s, tokens, err) < 0)
		return -1;
	find_end(c, qwen_session_view(s).recurrent_bytes > 0, n_max,
	    want_logits);
	if (qwen_state_mtp_of(&c->mtp, s, err) < 0)
		return -1;
	find_mtp_slots(c);
	if (fill(s, c, err) < 0 || add_file_checkpoints(s, c, err) < 0)
		return -1;
	end.n_tokens = (size_t)c->end;
	end.logits = c->logits;
	end.named = c->named;
	end.src = c->at_end != NULL ? &c->at_end->src : NULL;
	rc = join_spans(c, &end, &span, err);
	if (rc == 0)
		rc = qwen_session_settle(s, &end, err);
	free(span);
	return rc;
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
		if (qwen_state_match(&chain[i]->in.lay.info.header, m, err) < 0)
			return -1;
	}
	if (qwen_session_new(&s, m, err) < 0)
		return -1;
	for (i = 0; i < n_chain; i++) {
		if (chain[i]->in.lay.info.converted)
			qwen_session_set_converted(s);
	}
	if (n_chain == 0)
		rc = 0;
	else if ((tokens = join_tokens(&c, err)) != NULL && restore(s, &c,
	    tokens, n_max, want_logits, err) == 0) {
		tokens = NULL;	/* the session owns them now */
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
