/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - the block that predicts one token more (MTP, "nextn"), and chains of
 * drafts by it.  Its row of position p is made of the token t at p and of a
 * hidden state h:
 *
 *	x = proj [norm(embedding of t); norm(h)]
 *	x += attention(norm(x)); x += ffn(norm(x)); f = norm(x)
 *
 * and f gives logits for p + 1.  In a true row h is the trunk's hidden state
 * after the output norm at p - 1; in a row of a chain it is f of the row before,
 * and t what that row said.
 *
 * The keys and values of true rows are kept, slot p - 1 for position p, and
 * nothing else of them is needed.  A pass of few tokens leaves its hidden states
 * in the session, and the rows are made up for when a draft is asked for: then
 * several share one pass.  A pass of many tokens makes them at its end; and one
 * that somebody looks at, or whose inputs are measured, all of them, whole.
 *
 * RoPE turns by the slot: only differences of positions matter to attention.
 */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "engine/quant/logprob.h"
#include "engine/quant/math.h"
#include "engine/model/forward.h"
#include "engine/model/inputs.h"
#include "engine/model/lora.h"
#include "engine/model/trace.h"

/* Rows made up for at once. */
#define ROWS 32

/* Rows of the head at its end, which are of control tokens. */
#define LAST_ROWS 512

/* ----------------------------------------------------------- hidden states */

static float *
hidden_row(const struct qwen_session *s, size_t pos)
{
	return s->mtp.hidden + pos % QWEN_HIDDEN_ROWS *
	    s->model->net.hp.n_embd;
}

size_t
qwen_hidden_bytes(const struct qwen_model *m)
{
	return m->net.mtp.on ? QWEN_HIDDEN_ROWS * m->net.hp.n_embd * sizeof(float) :
	    0;
}

const float *
qwen_hidden_at(const struct qwen_session *s, size_t pos)
{
	const struct qwen_mtp_state *p = &s->mtp;

	return p->hidden != NULL && pos >= p->first && pos < p->end ?
	    hidden_row(s, pos) : NULL;
}

/* Those of n positions from pos on are there now. */
static void
note_hidden(struct qwen_mtp_state *p, size_t pos, size_t n)
{
	if (pos < p->first || pos > p->end)
		p->first = pos;
	p->end = pos + n;
	if (p->end - p->first > QWEN_HIDDEN_ROWS)
		p->first = p->end - QWEN_HIDDEN_ROWS;
}

/* The last of the n rows at x, of positions from pos on. */
static void
keep_hidden(struct qwen_session *s, size_t pos, const float *x, size_t n)
{
	size_t i, row = s->model->net.hp.n_embd;

	for (i = n > QWEN_HIDDEN_ROWS ? n - QWEN_HIDDEN_ROWS : 0; i < n; i++)
		memcpy(hidden_row(s, pos + i), x + i * row, row * sizeof *x);
	note_hidden(&s->mtp, pos, n);
}

void
qwen_hidden_set(struct qwen_session *s, const float *hidden)
{
	if (s->mtp.hidden != NULL && s->n_tokens > 0)
		keep_hidden(s, s->n_tokens - 1, hidden, 1);
}

/* ------------------------------------------------------- which rows there are */

static size_t
round_up(size_t n)
{
	return (n + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK * QWEN_KV_BLOCK;
}

/* The position of the first row that is missing, at or after the end maybe. */
static size_t
next_row(const struct qwen_mtp_state *p)
{
	return p->filled > p->from + 1 ? p->filled : p->from + 1;
}

size_t
qwen_session_first_written(const struct qwen_session *s)
{
	size_t at = s->n_tokens;

	if (s->mtp.hidden != NULL && next_row(&s->mtp) - 1 < at)
		at = next_row(&s->mtp) - 1;
	return at / QWEN_KV_BLOCK;
}

/* Are all hidden states there that rows before n, which are missing, need? */
static int
can_catch_up(const struct qwen_mtp_state *p, size_t n)
{
	size_t at = next_row(p);

	return at >= n || (at - 1 >= p->first && n - 1 <= p->end);
}

unsigned
qwen_mtp_whole(const struct qwen_session *s)
{
	const struct qwen_mtp_state *p = &s->mtp;
	size_t n = s->n_tokens;

	if (p->hidden == NULL || p->from > 0 || (n > 0 &&
	    (!can_catch_up(p, n) || qwen_hidden_at(s, n - 1) == NULL)))
		return 0;
	return s->model->net.mtp.parts;
}

void
qwen_mtp_cut(struct qwen_session *s, size_t n)
{
	struct qwen_mtp_state *p = &s->mtp;

	if (p->filled > n)
		p->filled = n;
	if (p->end > n)
		p->end = n > p->first ? n : p->first;
	if (p->from > n || !can_catch_up(p, n))
		p->from = round_up(n);
}

void
qwen_mtp_copy(struct qwen_session *to, const struct qwen_session *from)
{
	float *own = to->mtp.hidden;

	if (own == NULL)
		return;
	to->mtp = from->mtp;
	to->mtp.hidden = own;
	memcpy(own, from->mtp.hidden, QWEN_HIDDEN_ROWS *
	    from->model->net.hp.n_embd * sizeof *own);
}

/* ------------------------------------------------------------------ the rows */

/* Where the hidden states of rows come from, and where the rows go. */
struct source {
	int	 pass;		/* xn has those of a pass of the trunk */
	int	 chain;		/* it has f of the row before */
	size_t	 at;		/* the first row of o, and of the pass */
};

/* That of the position before p. */
static const float *
hidden_before(const struct qwen_batch *b, const struct source *src, size_t p)
{
	const struct qwen_session *s = b->share->s;

	if (src->chain)
		return b->b->xn;
	if (src->pass && p > s->n_tokens)
		return b->b->xn + (src->at + p - 1 - s->n_tokens) *
		    b->hp->n_embd;
	return qwen_hidden_at(s, p - 1);
}

/* What goes into proj; the position of the share is the first row's slot. */
static void
join(struct qwen_batch *b, void *arg, size_t t)
{
	const struct source *src = arg;
	const struct qwen_mtp *w = &b->m->net.mtp;
	const struct qwen_share *share = b->share;
	size_t n = b->hp->n_embd, row = src->at + t;
	size_t id = (size_t)share->tokens[t];
	const float *h = hidden_before(b, src, share->pos + t + 1);
	float *x = b->b->o + row * b->b->o_width;

	qwen_quant_dequantize(w->embd.quant->type, w->embd.data +
	    id * w->embd.row_bytes, x, n, NULL);
	if (w->embd.lora != NULL)
		qwen_lora_embed(b, &w->embd, id, x, b->b->low +
		    row * b->b->low_width);
	b->vec->rmsnorm(x, x, w->embd_norm, n, b->hp->eps);
	if (h != NULL)
		b->vec->rmsnorm(x + n, h, w->hidden_norm, n, b->hp->eps);
	else
		memset(x + n, 0, n * sizeof *x);
	if (qwen_wants_operand(&w->proj))
		qwen_make_operands(b, b->b->oq, b->b->o_width, row, x, 2 * n);
}

static struct qwen_batch
batch_of(struct qwen_session *s, struct qwen_share *share)
{
	*share = (struct qwen_share){ .s = s, .logits = QWEN_LOGITS_LAST,
	    .stop = 1 };
	atomic_store(&share->bad, SIZE_MAX);
	return (struct qwen_batch){ .m = s->model, .hp = &s->model->net.hp,
	    .vec = s->model->kernels.vec->run.vec, .b = s->cache->scratch,
	    .share = share, .n_share = 1 };
}

/* n rows from position p on, of these tokens. */
static void
set_rows(struct qwen_batch *b, size_t p, const int32_t *tokens, size_t n)
{
	b->share->n = b->share->n_sure = n;
	b->share->from = 0;
	b->share->pos = p - 1;
	b->share->tokens = tokens;
	qwen_batch_number(b);
}

static void
join_rows(struct qwen_batch *b, const struct source *src)
{
	qwen_each_token(b, QWEN_STAGE_EMBED, join, (void *)(uintptr_t)src,
	    3 * b->hp->n_embd);
}

/* What goes into proj, at x, and what comes of it. */
static void
trace_joined(const struct qwen_batch *b, const float *x)
{
	size_t layer = b->m->net.mtp.layer.index, n = b->hp->n_embd;

	qwen_trace_rows(b, QWEN_TRACE_ENORM, layer, x, b->b->o_width);
	qwen_trace_rows(b, QWEN_TRACE_HNORM, layer, x + n, b->b->o_width);
	qwen_trace_rows(b, QWEN_TRACE_EH_PROJ, layer, b->b->x, n);
}

/*
 * Rows that were joined at row at of o, through the block; so many of them, the
 * last ones, are wanted, and f of these is in xn then.
 */
static void
run_rows(struct qwen_batch *b, size_t at, size_t want)
{
	const struct qwen_mtp *w = &b->m->net.mtp;
	struct qwen_share *p = b->share;
	struct qwen_scratch *s = b->b;
	struct qwen_linear lin = { &w->proj, s->x, b->hp->n_embd, NULL };
	size_t i;

	qwen_linears(b, &lin, 1, s->o + at * s->o_width, s->o_width,
	    qwen_operands(b, s->oq, s->o_width, at), NULL, b->n);
	if (b->trace)
		trace_joined(b, s->o + at * s->o_width);
	qwen_rope_angles(b);
	p->pos -= p->s->mtp.from;
	p->skip = p->s->mtp.from / QWEN_KV_BLOCK;
	p->from = p->n - want;
	for (i = 0; i < want; i++)
		s->wanted[i] = (uint32_t)(p->from + i);
	b->wanted = want < b->n ? s->wanted : NULL;
	b->n_wanted = want;
	qwen_batch_layer(b, &w->layer, NULL);
	if (want > 0)
		qwen_batch_norm(b, s->out, w->norm, 2 * w->layer.index + 2);
}

/* What is told of the end of the block, and measured, of the rows in x and xn. */
static void
look_at_end(struct qwen_batch *b)
{
	const struct qwen_mtp *w = &b->m->net.mtp;
	const struct qwen_linear head = { &w->head, NULL, 0, NULL };
	size_t n = b->hp->n_embd, layer = w->layer.index;

	if (b->trace) {
		qwen_trace_rows(b, w->layer.ffn != QWEN_NO_FFN ? QWEN_TRACE_RESIDUAL :
		    QWEN_TRACE_MIXER_RESIDUAL, layer, b->b->x, n);
		qwen_trace_rows(b, QWEN_TRACE_HEAD_NORM, layer, b->b->xn, n);
		qwen_trace_logits(b, &w->head, QWEN_TRACE_HEAD, layer);
	}
	/* one that the trunk shares is measured by what that makes of it */
	if (b->m->inputs != NULL && w->head.data != b->m->net.output.data)
		qwen_inputs_linear(b, &head, 1, b->b->xn, n, NULL, b->n);
}

/* True rows of positions before n that are missing, from what was kept. */
static void
catch_up(struct qwen_session *s, size_t n)
{
	static const struct source kept = { 0 };
	struct qwen_mtp_state *p = &s->mtp;
	size_t at, m, most = s->cache->scratch->cap;
	struct qwen_share share;
	struct qwen_batch b = batch_of(s, &share);

	for (at = next_row(p); at < n; at += m) {
		m = n - at < most ? n - at : most;
		set_rows(&b, at, s->tokens + at, m);
		join_rows(&b, &kept);
		run_rows(&b, 0, 0);
	}
	if (p->filled < n)
		p->filled = n;
}

int
qwen_session_mtp_ready(struct qwen_session *s)
{
	struct qwen_err e;

	if (next_row(&s->mtp) >= s->n_tokens)
		return 0;
	if (qwen_session_reserve(s, s->n_tokens, &e) < 0 ||
	    qwen_scratch_fit(s->cache->scratch, s->model, ROWS,
	    qwen_attention_partials(s->model, 1, 1), 0, &e) < 0)
		return -1;
	catch_up(s, s->n_tokens);
	return 0;
}

size_t
qwen_session_mtp_from(const struct qwen_session *s)
{
	return s->mtp.from;
}

void
qwen_session_mtp_set(struct qwen_session *s, size_t from, size_t n,
    const float *hidden)
{
	s->mtp.from = from;
	s->mtp.filled = n;
	if (hidden != NULL && n > 0)
		keep_hidden(s, n - 1, hidden, 1);
}

/* -------------------------------------------------------- in a trunk's pass */

/*
 * Are the rows of a share made in the pass, since somebody wants to know, or
 * since not all hidden states would stay that those need which are missing then?
 */
static int
is_made(const struct qwen_share *p)
{
	size_t next = next_row(&p->s->mtp), end = p->pos + p->n;

	return p->whole || (end > next && end - next + 1 > QWEN_HIDDEN_ROWS);
}

void
qwen_mtp_begin(struct qwen_batch *b)
{
	size_t i;
	int any = 0;

	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		p->whole = b->m->inputs != NULL || qwen_trace_block(p->s);
		if (is_made(p) && next_row(&p->s->mtp) < p->pos) {
			catch_up(p->s, p->pos);
			any = 1;
		}
	}
	if (any)	/* the rows of the pass again */
		qwen_batch_number(b);
}

/* Rows of the share that are made of the pass, in o from its first row on. */
static void
take_rows(struct qwen_share *p)
{
	struct qwen_session *s = p->s;
	const struct source src = { .pass = 1, .at = p->first };
	size_t end = p->pos + p->n_tokens, at = next_row(&s->mtp);
	struct qwen_share share;
	struct qwen_batch rows = batch_of(s, &share);

	at = at > p->pos ? at : p->pos;
	if (at >= end)
		return;
	p->n_mtp = end - at;
	p->at = p->first;
	set_rows(&rows, at, p->tokens + (at - p->pos), p->n_mtp);
	join_rows(&rows, &src);
}

void
qwen_mtp_take(struct qwen_batch *b)
{
	size_t i;

	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		p->n_mtp = 0;
		if (is_made(p))
			take_rows(p);
		keep_hidden(p->s, p->pos, b->b->xn + p->first * b->hp->n_embd,
		    p->n);
	}
}

void
qwen_mtp_fill(struct qwen_batch *b)
{
	struct qwen_share share;
	struct qwen_batch rows;
	size_t i;

	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		if (p->n_mtp == 0 || p->failed)
			continue;
		rows = batch_of(p->s, &share);
		share.told = p->n_tokens - p->n_mtp;
		set_rows(&rows, p->s->n_tokens + share.told, p->tokens +
		    share.told, p->n_mtp);
		if (!p->whole) {
			run_rows(&rows, p->at, 0);
			continue;
		}
		share.logits = QWEN_LOGITS_ALL;
		rows.trace = qwen_trace_block(p->s);
		run_rows(&rows, p->at, rows.n);
		look_at_end(&rows);
		if (atomic_load(&share.bad) == SIZE_MAX)
			continue;
		qwen_fail(&p->err, QWEN_ENUMERIC, "a hidden state of the MTP "
		    "block is NaN or infinite");
		p->failed = 1;
	}
}

/* ------------------------------------------------------------------- drafts */

size_t
qwen_draft_rows(const struct qwen_model *m)
{
	size_t first = m->net.mtp.n_first, rest = m->net.hp.n_vocab - first;

	return first + (rest < LAST_ROWS ? rest : LAST_ROWS);
}

/* Logits of the row in xn, of those ids. */
static void
run_head(struct qwen_batch *b)
{
	const struct qwen_weight *head = &b->m->net.mtp.head;
	size_t first = b->m->net.mtp.n_first, n_embd = b->hp->n_embd;
	size_t last = qwen_draft_rows(b->m) - first;
	struct qwen_weight part[2] = { qwen_weight_rows(head, 0, first),
	    qwen_weight_rows(head, b->hp->n_vocab - last, last) };
	struct qwen_linear lin[2] = { { &part[0], b->b->draft, 0, NULL },
	    { &part[1], b->b->draft + first, 0, NULL } };

	qwen_linears(b, lin, last > 0 ? 2 : 1, b->b->xn, n_embd, b->b->xq,
	    NULL, 1);
}

/* The best of them and its probability; -1: they are not finite. */
static int
choose(const struct qwen_batch *b, int32_t *id, float *prob)
{
	const float *y = b->b->draft;
	size_t i, best = 0, n = qwen_draft_rows(b->m), above;
	double sum = qwen_logprob_sum(y, n, -1, &above);

	for (i = 1; i < n; i++) {
		if (y[i] > y[best])
			best = i;
	}
	if (atomic_load(&b->share->bad) != SIZE_MAX ||
	    !isfinite((double)y[best] - sum))
		return -1;
	*prob = (float)qwen_exp((double)y[best] - sum);
	if (best >= b->m->net.mtp.n_first)
		best += b->hp->n_vocab - n;
	*id = (int32_t)best;
	return 0;
}

/* How many of n drafts come, for which there is room. */
static size_t
draw(struct qwen_session *s, int32_t next, size_t n, int32_t *id, float *prob)
{
	static const struct source kept = { 0 }, chain = { .chain = 1 };
	struct qwen_mtp_state *p = &s->mtp;
	size_t end = s->n_tokens, i, at;
	int32_t tokens[ROWS];
	struct qwen_share share;
	struct qwen_batch b = batch_of(s, &share);

	if (end > ROWS - 1)
		catch_up(s, end - (ROWS - 1));
	at = next_row(p);
	memcpy(tokens, s->tokens + at, (end - at) * sizeof *tokens);
	tokens[end - at] = next;
	set_rows(&b, at, tokens, end - at + 1);
	join_rows(&b, &kept);
	run_rows(&b, 0, 1);
	p->filled = end;
	for (i = 0;;) {
		run_head(&b);
		if (choose(&b, &id[i], &prob[i]) < 0 || ++i == n)
			return i;
		set_rows(&b, end + i, &id[i - 1], 1);
		join_rows(&b, &chain);
		run_rows(&b, 0, 1);
	}
}

int
qwen_session_draft(struct qwen_session *s, int32_t next, size_t n,
    int32_t *id, float *prob, size_t *n_out, struct qwen_err *err)
{
	const struct qwen_hparams *h = &s->model->net.hp;
	size_t end = s->n_tokens, room = h->n_ctx - end;
	struct qwen_scratch *sc = s->cache->scratch;
	struct qwen_err e;

	*n_out = 0;
	if (next < 0 || (size_t)next >= h->n_vocab)
		return qwen_fail(err, QWEN_ERANGE, "token %d is out of range: "
		    "ids go from 0 to %zu", (int)next, h->n_vocab - 1);
	/* next has a place, and the drafts after it */
	n = n < room ? n : room > 0 ? room - 1 : 0;
	n = n < QWEN_GUESS_MAX ? n : QWEN_GUESS_MAX;
	if (s->mtp.hidden == NULL || n == 0 || end == 0 ||
	    next_row(&s->mtp) > end)
		return 0;
	if (qwen_session_reserve(s, end + n, &e) < 0) {
		if (e.code == QWEN_EFULL)	/* not worth a failure */
			return 0;
		if (err != NULL)
			*err = e;
		return -1;
	}
	if (qwen_scratch_fit(sc, s->model, ROWS,
	    qwen_attention_partials(s->model, 1, end + n), 0, err) < 0)
		return -1;
	*n_out = draw(s, next, n, id, prob);
	return 0;
}
