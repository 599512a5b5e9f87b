/* SPDX-License-Identifier: ISC */
/*
 * take.c - the records of a state into what is being loaded, kind by kind.
 *
 * Whether they are the right ones, layout.c knows.  Memory is taken when the
 * bytes for it are there.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/load.h"

#define BIT(f) (1u << QWEN_F_##f)
#define PIECE (BIT(OFF) | BIT(LEN) | BIT(CODEC))

/* -------------------------------------------------------------- the pieces */

/*
 * The piece, which must be the next one of its object; *raw is what it holds,
 * or NULL if nobody wants to know.
 */
static int
take_piece(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, int wanted, const unsigned char **raw,
    struct qwen_err *err)
{
	*raw = NULL;
	if (qwen_state_layout_add(&v->lay, e, err) < 0)
		return -1;
	if (!wanted && !v->decode_all)
		return 0;
	if (qwen_coder_decode(v->coder, rec->codec, rec->data, rec->n_data,
	    rec->len, raw, err) < 0)
		return -1;
	return qwen_state_layout_check(&v->lay, e, *raw, err);
}

/* Room in *p for the piece, behind rec->off bytes. */
static int
grow(void *p, const struct qwen_state_rec *rec, struct qwen_err *err)
{
	size_t bytes;
	void *q;

	if (rec->off > SIZE_MAX ||
	    qwen_add((size_t)rec->off, rec->len, &bytes) < 0 ||
	    (q = realloc(*(void **)p, bytes)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	*(void **)p = q;
	return 0;
}

/* ---------------------------------------------------------------- the kinds */

static int
take_info(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	(void)e;
	if (qwen_state_layout_info(&v->lay, rec, err) < 0)
		return -1;
	if (v->s == NULL)
		return 0;
	if (v->lay.part)
		return qwen_fail(err, QWEN_EMISMATCH, "a part of a state, of "
		    "the tokens from %llu on, is not a state",
		    (unsigned long long)v->lay.from);
	return qwen_state_layout_match(&v->lay, v->s, err);
}

static int
take_tokens(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const unsigned char *raw;
	uint64_t i;

	if (take_piece(v, rec, e, 1, &raw, err) < 0 ||
	    grow(&v->tokens, rec, err) < 0)
		return -1;
	memcpy((char *)v->tokens + rec->off, raw, rec->len);
	if (v->lay.tokens % sizeof *v->tokens != 0)
		return qwen_fail(err, QWEN_EFORMAT, "a token is cut in two");
	for (i = rec->off / 4; i < v->lay.tokens / 4; i++) {
		if (v->tokens[i] < 0 ||
		    (uint64_t)v->tokens[i] >= v->lay.n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "token %ld is "
			    "outside the vocabulary of %llu",
			    (long)v->tokens[i],
			    (unsigned long long)v->lay.n_vocab);
	}
	return 0;
}

static int
take_kv(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct qwen_layer_state *l;
	const unsigned char *raw;
	uint64_t done = rec->off;
	size_t i, at, part;

	if (take_piece(v, rec, e, v->s != NULL, &raw, err) < 0)
		return -1;
	if (v->s == NULL)
		return 0;
	l = &v->s->layer[rec->layer];
	if (qwen_session_grow(v->s, (size_t)((done + rec->len +
	    l->kv_block_bytes - 1) / l->kv_block_bytes), err) < 0)
		return -1;
	for (i = 0; i < rec->len; i += part, done += part) {
		at = (size_t)(done % l->kv_block_bytes);
		part = l->kv_block_bytes - at < rec->len - i ?
		    l->kv_block_bytes - at : rec->len - i;
		memcpy((char *)l->block[done / l->kv_block_bytes] + at,
		    raw + i, part);
	}
	return 0;
}

/* The checkpoint under way is complete: the layout has gone on. */
static int
keep(struct qwen_state_in *v, struct qwen_err *err)
{
	return v->kept.c.at == 0 ? 0 :
	    qwen_session_add_kept(v->s, &v->kept, err);
}

/*
 * What belongs to a position goes to the session at the end, and before it to
 * a checkpoint.
 */
static int
enter(struct qwen_state_in *v, uint64_t at, struct qwen_err *err)
{
	if (v->s == NULL || v->kept.c.at == at)
		return 0;
	if (keep(v, err) < 0)
		return -1;
	if (at == v->lay.n_tokens)
		return 0;
	v->kept.c.at = at;
	if (v->s->recurrent_bytes == 0)
		return 0;
	v->kept.recurrent = qwen_map_zero(v->s->recurrent_bytes);
	return v->kept.recurrent != NULL ? 0 :
	    qwen_fail(err, QWEN_ENOMEM, "out of memory");
}

static int
take_recurrent(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const unsigned char *raw;
	const struct qwen_layer_state *l;
	char *dst;

	if (take_piece(v, rec, e, v->s != NULL, &raw, err) < 0 ||
	    enter(v, rec->pos, err) < 0)
		return -1;
	if (v->s == NULL)
		return 0;
	l = &v->s->layer[rec->layer];
	dst = (char *)(rec->kind[0] == 'd' ? l->s : l->conv);
	if (v->kept.c.at != 0)
		dst = (char *)v->kept.recurrent +
		    (dst - (char *)v->s->recurrent);
	memcpy(dst + rec->off, raw, rec->len);
	return 0;
}

static int
take_logits(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const unsigned char *raw;
	float *dst;

	if (take_piece(v, rec, e, v->s != NULL, &raw, err) < 0 ||
	    enter(v, rec->pos, err) < 0)
		return -1;
	if (v->s == NULL)
		return 0;
	dst = v->s->logits;
	if (v->kept.c.at != 0) {
		if (grow(&v->kept.logits, rec, err) < 0)
			return -1;
		dst = v->kept.logits;
		v->kept.c.logits = 1;
	}
	memcpy((char *)dst + rec->off, raw, rec->len);
	return 0;
}

static int
take_mark(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	int named = rec->f[QWEN_F_NAMED].n != 0;

	(void)e;
	if (!v->lay.have_info)
		return qwen_fail(err, QWEN_EFORMAT, "before the info block");
	if (qwen_state_layout_mark(&v->lay, rec->pos, named, err) < 0 ||
	    enter(v, rec->pos, err) < 0)
		return -1;
	if (v->kept.c.at != 0)
		v->kept.c.named = named;
	return 0;
}

/* Pairs of position and number, ascending and apart. */
static int
take_generated(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const unsigned char *raw;
	uint64_t pos, n, past = 0;
	size_t i;

	if (rec->len % 16 != 0)
		return qwen_fail(err, QWEN_EFORMAT, "a pair is cut in two");
	if (take_piece(v, rec, e, 1, &raw, err) < 0)
		return -1;
	if (v->x.n_generated > 0)
		past = v->x.generated[v->x.n_generated - 1].pos +
		    v->x.generated[v->x.n_generated - 1].n + 1;
	for (i = 0; i < rec->len; i += 16) {
		pos = qwen_le64(raw + i);
		n = qwen_le64(raw + i + 8);
		if (pos < past || pos >= v->lay.n_tokens || n == 0 ||
		    n > v->lay.n_tokens - pos)
			return qwen_fail(err, QWEN_EFORMAT,
			    "%llu tokens generated at %llu",
			    (unsigned long long)n, (unsigned long long)pos);
		if (qwen_state_extra_generated(&v->x, pos, n, err) < 0)
			return -1;
		past = pos + n + 1;
	}
	return 0;
}

static int
take_sampler(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct qwen_item *text = &rec->f[QWEN_F_OPTIONS];
	const struct qwen_item *tail = &rec->f[QWEN_F_PENDING], *memory;

	(void)e;
	if (v->have_sampler)
		return qwen_fail(err, QWEN_EFORMAT, "there already was one");
	memory = rec->there & BIT(MEMORY) ? &rec->f[QWEN_F_MEMORY] : NULL;
	if (memory != NULL && (memory->n >= QWEN_SAMPLER_MEMORY ||
	    memchr(memory->s, 0, (size_t)memory->n) != NULL))
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of memory",
		    (unsigned long long)memory->n);
	if (text->n >= QWEN_SAMPLER_MAX || tail->n > sizeof v->x.pending ||
	    memchr(text->s, 0, (size_t)text->n) != NULL)
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of options, "
		    "%llu of text", (unsigned long long)text->n,
		    (unsigned long long)tail->n);
	v->have_sampler = 1;
	if ((v->x.sampler = qwen_alloc(1, (size_t)text->n + 1)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(v->x.sampler, text->s, (size_t)text->n);
	if (memory != NULL)
		memcpy(v->x.memory, memory->s, (size_t)memory->n);
	memcpy(v->x.pending, tail->s, (size_t)tail->n);
	v->x.n_pending = (size_t)tail->n;
	return 0;
}

/* The run whose tokens are the last of the state. */
static int
take_run(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct qwen_item *f = rec->f, *text = &f[QWEN_F_OPTIONS];
	struct qwen_run *run = &v->x.run;

	(void)e;
	if (!v->lay.have_info || run->options != NULL)
		return qwen_fail(err, QWEN_EFORMAT, run->options != NULL ?
		    "there already was one" : "before the info block");
	if (f[QWEN_F_START].n > v->lay.n_tokens ||
	    f[QWEN_F_COUNT].n != v->lay.n_tokens - f[QWEN_F_START].n ||
	    f[QWEN_F_INPUT].n > f[QWEN_F_START].n)
		return qwen_fail(err, QWEN_ERANGE,
		    "%llu tokens from %llu of %llu, %llu before it",
		    (unsigned long long)f[QWEN_F_COUNT].n,
		    (unsigned long long)f[QWEN_F_START].n,
		    (unsigned long long)v->lay.n_tokens,
		    (unsigned long long)f[QWEN_F_INPUT].n);
	run->has_base = f[QWEN_F_BASE].n != 0;
	if (text->n >= QWEN_OPTIONS_MAX ||
	    memchr(text->s, 0, (size_t)text->n) != NULL ||
	    (run->has_base && f[QWEN_F_BASE].n != sizeof run->base.b))
		return qwen_fail(err, QWEN_ERANGE, "%llu bytes of options, "
		    "%llu of a fingerprint", (unsigned long long)text->n,
		    (unsigned long long)f[QWEN_F_BASE].n);
	run->from = f[QWEN_F_START].n;
	run->count = f[QWEN_F_COUNT].n;
	run->input = f[QWEN_F_INPUT].n;
	run->finished = f[QWEN_F_FINISHED].n != 0;
	run->again = f[QWEN_F_AGAIN].n != 0;
	memcpy(run->base.b, f[QWEN_F_BASE].s, (size_t)f[QWEN_F_BASE].n);
	if ((run->options = qwen_alloc(1, (size_t)text->n + 1)) == NULL)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory");
	memcpy(run->options, text->s, (size_t)text->n);
	return 0;
}

static int
take_index(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	struct qwen_state_follow *f = &v->follow;
	const unsigned char *raw;

	(void)e;
	if (!v->lay.have_info)
		return qwen_fail(err, QWEN_EFORMAT, "before the info block");
	if (f->offset == 0)
		f->offset = rec->offset;
	if (rec->len == 0 || rec->off != f->n_said ||
	    rec->len > f->n_seen * QWEN_ENTRY_BYTES - f->n_said)
		return qwen_fail(err, QWEN_EFORMAT, "%zu bytes of index at "
		    "%llu, for %llu blocks", rec->len,
		    (unsigned long long)rec->off,
		    (unsigned long long)f->n_seen);
	if (qwen_coder_decode(v->coder, rec->codec, rec->data, rec->n_data,
	    rec->len, &raw, err) < 0)
		return -1;
	qwen_state_follow_said(f, raw, rec->len);
	return 0;
}

/* ------------------------------------------------------------------ the end */

static int
take_end(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct qwen_item *f = rec->f;

	(void)e;
	/* v->sum has counted this record too; v->total has not */
	if (f[QWEN_F_RECORDS].n != rec->index ||
	    f[QWEN_F_BYTES].n != rec->offset ||
	    f[QWEN_F_RAW].n != v->sum.raw)
		return qwen_fail(err, QWEN_EFORMAT, "the counts are wrong");
	if (f[QWEN_F_TOTAL].n != sizeof v->total.b ||
	    memcmp(f[QWEN_F_TOTAL].s, v->total.b, sizeof v->total.b) != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the blocks are not those that were written");
	/* not there: 0, as in a stream without an index */
	if (f[QWEN_F_INDEX].n != v->follow.offset)
		return qwen_fail(err, QWEN_EFORMAT, "the index is at byte %llu",
		    (unsigned long long)v->follow.offset);
	if (qwen_state_follow_end(&v->follow, err) < 0 ||
	    qwen_state_layout_end(&v->lay, err) < 0)
		return -1;
	if (v->s != NULL && keep(v, err) < 0)
		return -1;
	v->ended = 1;
	return 0;
}

static const struct kind {
	const char	*name;
	unsigned	 fields, optional;
	int	(*take)(struct qwen_state_in *v, const struct qwen_state_rec *rec,
		    const struct qwen_state_entry *e, struct qwen_err *err);
} kinds[] = {
	{ "info", BIT(FORMAT) | BIT(WRITER) | BIT(N_TOKENS) | BIT(KV_BLOCK) |
	    BIT(LAYERS), BIT(FROM) | BIT(PREFIX), take_info },
	{ "tokens", PIECE, 0, take_tokens },
	{ "kv", PIECE | BIT(LAYER), 0, take_kv },
	{ "delta", PIECE | BIT(LAYER) | BIT(AT), 0, take_recurrent },
	{ "conv", PIECE | BIT(LAYER) | BIT(AT), 0, take_recurrent },
	{ "logits", PIECE | BIT(AT), 0, take_logits },
	{ "checkpoint", BIT(AT) | BIT(NAMED), 0, take_mark },
	{ "generated", PIECE, 0, take_generated },
	{ "sampler", BIT(OPTIONS) | BIT(PENDING), BIT(MEMORY), take_sampler },
	{ "run", BIT(START) | BIT(COUNT) | BIT(INPUT) | BIT(OPTIONS) |
	    BIT(FINISHED) | BIT(AGAIN) | BIT(BASE), 0, take_run },
	{ "index", PIECE, 0, take_index },
	{ "end", BIT(RECORDS) | BIT(BYTES) | BIT(RAW) | BIT(TOTAL), BIT(INDEX),
	    take_end },
};

static const struct kind *
find_kind(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return &kinds[i];
	}
	return NULL;
}

/* The place of the kind in the whole. */
static int
check_place(const struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct kind *k, struct qwen_err *err)
{
	/* info comes first and once */
	if ((rec->index == 0) != (k == &kinds[0]))
		return qwen_fail(err, QWEN_EFORMAT, rec->index == 0 ?
		    "the first block is not info" : "info once more");
	if (v->follow.offset != 0 && (k == NULL || (k->take != take_index &&
	    k->take != take_end)))
		return qwen_fail(err, QWEN_EFORMAT, "behind the index");
	return 0;
}

int
qwen_state_want(const struct qwen_state_rec *rec, struct qwen_err *err)
{
	const struct kind *k = find_kind(rec->kind);

	if (k == NULL)
		return qwen_fail(err, QWEN_EUNSUP, "this kind of block is not "
		    "known to this version");
	if (qwen_state_rec_want(rec, k->fields, k->optional, err) < 0)
		return -1;
	if ((k->fields & BIT(LEN)) == 0 && rec->n_data != 0)
		return qwen_fail(err, QWEN_EFORMAT, "data has no place here");
	return 0;
}

int
qwen_state_take(struct qwen_state_in *v, const struct qwen_state_rec *rec,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	const struct kind *k = find_kind(rec->kind);

	if (check_place(v, rec, k, err) < 0)
		return -1;
	if (k == NULL || (k->take != take_index && k->take != take_end))
		qwen_state_follow_seen(&v->follow, e);
	if (k == NULL && (rec->there & BIT(SKIP)) &&
	    rec->f[QWEN_F_SKIP].n == 1)
		return 0;
	return qwen_state_want(rec, err) < 0 ? -1 : k->take(v, rec, e, err);
}
