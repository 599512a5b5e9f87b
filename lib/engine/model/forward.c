/* SPDX-License-Identifier: ISC */
/*
 * forward.c - a batch of tokens through the layers.
 *
 *	x = embedding; for each layer: x += mixer(norm(x)); x += ffn(norm(x));
 *	logits = output norm(x)
 */
#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/forward.h"
#include "engine/model/inputs.h"
#include "engine/model/lora.h"
#include "engine/model/trace.h"

static void
lower(_Atomic size_t *least, size_t n)
{
	size_t old = atomic_load(least);

	while (n < old && !atomic_compare_exchange_weak(least, &old, n))
		;
}

void
qwen_note_bad(const struct qwen_batch *b, size_t t, size_t place)
{
	struct qwen_share *p = qwen_share_of(b, t);

	if (t - p->first < p->n_sure)
		lower(&p->bad, place);
	else
		lower(&p->good, t - p->first - p->n_sure);
}

/* The first row whose logits are wanted; the rest of them follows. */
static size_t
first_wanted(const struct qwen_share *p)
{
	if (p->logits == QWEN_LOGITS_ALL)
		return 0;
	return p->logits == QWEN_LOGITS_LAST && p->stop ? p->n_sure - 1 : p->n;
}

struct norm {
	const float	*add;	/* added to x first, or NULL */
	const float	*w;
	size_t		 place;	/* 2 * layer for a mixer's input, + 1 ffn's */
	size_t		 last;	/* from this place on, rows that nobody wants
				   do not matter */
};

/* x += add; xn = norm(x), also as operand. */
static void
add_norm(struct qwen_batch *b, void *arg, size_t t)
{
	const struct norm *p = arg;
	struct qwen_share *share = qwen_share_of(b, t);
	size_t i, n = b->hp->n_embd;
	float *x = b->b->x + t * n, sum;

	if (p->add != NULL) {
		const float *y = p->add + t * b->b->out_width;

		for (i = 0; i < n; i++)
			x[i] += y[i];
	}
	sum = b->vec->rmsnorm(b->b->xn + t * n, x, p->w, n, b->hp->eps);
	if (!isfinite(sum) && (p->place < p->last ||
	    t - share->first >= first_wanted(share)))
		qwen_note_bad(b, t, p->place);
	qwen_make_operands(b, b->b->xq, n, t, b->b->xn + t * n, n);
}

static void
embed(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_weight *w = &b->m->net.token_embd;
	const struct qwen_share *p = qwen_share_of(b, t);
	size_t i = t - p->first;
	size_t id = (size_t)(i < p->n_sure ? p->tokens[i] :
	    p->guess[i - p->n_sure]);

	(void)arg;
	qwen_quant_dequantize(w->quant->type, w->data + id * w->row_bytes,
	    b->b->x + t * b->hp->n_embd, b->hp->n_embd, NULL);
	if (w->lora != NULL)
		qwen_lora_embed(b, w, id, b->b->x + t * b->hp->n_embd,
		    b->b->low + t * b->b->low_width);
}

static int
fail_bad(size_t place, size_t n_layer, struct qwen_err *err)
{
	if (place == 0)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the embedding has a value that is NaN or infinite");
	if (place > 2 * n_layer + 1)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "the hidden state after output_norm has a value that is "
		    "NaN or infinite");
	if (place > 2 * n_layer)
		return qwen_fail(err, QWEN_ENUMERIC,
		    "a logit is NaN or infinite (output.weight)");
	return qwen_fail(err, QWEN_ENUMERIC,
	    "layer %zu: the hidden state after its %s has a value that is NaN "
	    "or infinite",
	    (place - 1) / 2, place % 2 == 1 ? "mixer" : "feed-forward block");
}

void
qwen_batch_norm(struct qwen_batch *b, const float *add, const float *w,
    size_t place)
{
	struct norm p = { .add = add, .w = w, .place = place,
	    .last = 2 * b->hp->n_layer - 1 };

	/* the sum and what is added to it, its weights, the normed row */
	qwen_each_token(b, QWEN_STAGE_NORM, add_norm, &p,
	    (add != NULL ? 5 : 3) * b->hp->n_embd);
}

void
qwen_batch_number(struct qwen_batch *b)
{
	size_t i, t;

	b->n = 0;
	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		p->first = b->n;
		assert(p->n <= b->b->cap - b->n);
		for (t = 0; t < p->n; t++)
			b->b->owner[b->n++] = (uint32_t)i;
	}
	b->wanted = NULL;
	b->n_wanted = b->n;
}

/* Of each timeline, the last rows are wanted, and guesses: note which. */
static void
choose_wanted(struct qwen_batch *b)
{
	size_t i, t, n = 0;

	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		p->from = first_wanted(p);
		for (t = p->from; t < p->n; t++)
			b->b->wanted[n++] = (uint32_t)(p->first + t);
	}
	if (n < b->n)
		b->wanted = b->b->wanted;
	b->n_wanted = n;
}

/* Of rows of so many bytes each, the wanted ones go to the front. */
static void
gather(const struct qwen_batch *b, void *rows, size_t bytes)
{
	size_t i;

	for (i = 0; b->wanted != NULL && i < b->n_wanted; i++) {
		if (b->wanted[i] != i)
			memcpy((char *)rows + i * bytes, (char *)rows +
			    b->wanted[i] * bytes, bytes);
	}
}

/* Go on with the wanted rows as the whole batch, wherever they were gathered. */
static void
drop_rest(struct qwen_batch *b)
{
	size_t i;

	for (i = 0; i < b->n_share; i++) {
		b->share[i].n -= b->share[i].from;
		b->share[i].n_sure -= b->share[i].from;
		b->share[i].pos += b->share[i].from;
		b->share[i].from = 0;
	}
	qwen_batch_number(b);
}

void
qwen_batch_layer(struct qwen_batch *b, const struct qwen_layer *l,
    const float *add)
{
	struct qwen_scratch *s = b->b;

	qwen_batch_norm(b, add, l->mixer_norm, 2 * l->index);
	if (b->trace && add != NULL)
		qwen_trace_rows(b, QWEN_TRACE_RESIDUAL, l->index - 1, s->x,
		    b->hp->n_embd);
	if (l->mixer == QWEN_DELTANET)
		qwen_deltanet_forward(b, l);
	else
		qwen_attention_forward(b, l);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_MIXER, l->index, s->out,
		    s->out_width);
	if (b->n_wanted < b->n) {
		gather(b, s->x, b->hp->n_embd * sizeof *s->x);
		gather(b, s->out, s->out_width * sizeof *s->out);
		drop_rest(b);
	}
	if (b->n == 0 || l->ffn == QWEN_NO_FFN)
		return;
	qwen_batch_norm(b, s->out, l->ffn_norm, 2 * l->index + 1);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_MIXER_RESIDUAL, l->index, s->x,
		    b->hp->n_embd);
	if (l->ffn == QWEN_MOE)
		qwen_moe_forward(b, l);
	else
		qwen_mlp_forward(b, l);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_FFN, l->index, s->out,
		    s->out_width);
}

/* Is there a timeline whose numbers are all finite? */
static int
any_good(struct qwen_batch *b)
{
	size_t i;

	for (i = 0; i < b->n_share; i++) {
		if (atomic_load(&b->share[i].bad) == SIZE_MAX)
			return 1;
	}
	return 0;
}

/*
 * All layers; what is left of the batch then is the wanted rows, with the
 * normed hidden states in xn and xq.  After the mixer of the last layer nothing
 * of the others is read any more, unless a block is to predict from them, or
 * somebody looks on.  Rows in which a number is not finite are carried on: they
 * touch no others.
 */
static void
run_layers(struct qwen_batch *b)
{
	struct qwen_scratch *s = b->b;
	size_t i, n_layer = b->hp->n_layer, n_embd = b->hp->n_embd;
	const struct qwen_linear head = { &b->m->net.output, NULL, 0, NULL };
	int late = b->m->net.mtp.on || b->m->inputs != NULL || b->trace;

	qwen_each_token(b, QWEN_STAGE_EMBED, embed, NULL, n_embd);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_EMBED, 0, s->x, n_embd);
	qwen_rope_angles(b);
	for (i = 0; i < n_layer && any_good(b); i++) {
		if (i + 1 == n_layer && !late)
			choose_wanted(b);
		qwen_batch_layer(b, &b->m->net.layer[i], i > 0 ? s->out : NULL);
		if (b->layer != NULL && i + 1 < n_layer)
			b->layer(b->arg, i, n_layer);
	}
	if (i < n_layer)
		return;
	qwen_batch_norm(b, s->out, b->m->net.output_norm, 2 * n_layer);
	if (!late)
		return;
	if (b->trace) {
		qwen_trace_rows(b, QWEN_TRACE_RESIDUAL, n_layer - 1, s->x,
		    n_embd);
		qwen_trace_rows(b, QWEN_TRACE_NORM, 0, s->xn, n_embd);
		qwen_trace_logits(b, &b->m->net.output, QWEN_TRACE_LOGITS, 0);
	}
	if (b->m->net.mtp.on)
		qwen_mtp_take(b);
	if (b->m->inputs != NULL)
		qwen_inputs_linear(b, &head, 1, s->xn, n_embd, NULL, b->n);
	choose_wanted(b);
	gather(b, s->xn, n_embd * sizeof *s->xn);
	gather(b, s->xq, QWEN_Q8_GROUPS(n_embd) * b->m->x_bytes);
	drop_rest(b);
}

/* ------------------------------------------------------------------- logits */

struct check {
	struct qwen_batch	*b;
	size_t			 t;	/* the first row */
	size_t			 per_row;	/* items */
};

/* Numbers that one thread looks at. */
#define CHECK_PART 16384

/* Is one of them an infinity or NaN?  Without branches, for vectors. */
static int
any_bad(const float *x, size_t n)
{
	unsigned bad = 0;
	uint32_t bits;
	size_t i;

	for (i = 0; i < n; i++) {
		memcpy(&bits, x + i, sizeof bits);
		bad |= (bits & 0x7f800000u) == 0x7f800000u;
	}
	return bad != 0;
}

static void
do_check(void *arg, size_t item, int thread)
{
	const struct check *c = arg;
	size_t i = item / c->per_row, at = item % c->per_row * CHECK_PART;
	size_t n = c->b->hp->n_vocab - at;

	(void)thread;
	if (any_bad(c->b->b->yrow[i] + at, n < CHECK_PART ? n : CHECK_PART))
		qwen_note_bad(c->b, c->t + i, 2 * c->b->hp->n_layer + 1);
}

/* Logits of n rows from t, to the rows of yrow. */
static void
run_head(struct qwen_batch *b, size_t t, size_t n)
{
	size_t n_embd = b->hp->n_embd;
	struct qwen_linear lin = { &b->m->net.output, NULL, 0, b->b->yrow };
	struct check c = { b, t, (b->hp->n_vocab + CHECK_PART - 1) /
	    CHECK_PART };

	qwen_linears(b, &lin, 1, b->b->xn + t * n_embd, n_embd,
	    qwen_operands(b, b->b->xq, n_embd, t), NULL, n);
	qwen_pool_run(b->m->pool, do_check, &c, n * c.per_row);
}

/* Row t of the batch has its logits at y: tell who is to know. */
static void
tell(struct qwen_batch *b, size_t t, const float *y)
{
	struct qwen_share *p = qwen_share_of(b, t);
	size_t pos = p->pos + t - p->first;

	if (p->failed || atomic_load(&p->bad) != SIZE_MAX ||
	    t - p->first >= p->n_sure)
		return;
	if (p->row != NULL && p->row(p->arg, pos, y, &p->err)) {
		p->failed = 1;
		return;
	}
	if (t - p->first + 1 < p->n_sure)
		return;
	if (y != p->s->logits)
		memcpy(p->s->logits, y, b->hp->n_vocab * sizeof *y);
	p->s->have_logits = 1;
}

/* Hidden states are there already. */
static void
tell_hidden(struct qwen_batch *b, struct qwen_share *p)
{
	size_t t, n = b->hp->n_embd;
	const float *x = b->b->xn + p->first * n;

	for (t = 0; t < p->n && !p->failed; t++, x += n) {
		if (any_bad(x, n))
			qwen_note_bad(b, p->first + t,
			    2 * b->hp->n_layer + 2);
		if (atomic_load(&p->bad) != SIZE_MAX)
			return;
		p->failed = p->row != NULL && p->row(p->arg, p->pos + t, x,
		    &p->err);
	}
}

/* Where the logits of row t go; NULL: there is no room in this round. */
static float *
place_of(struct qwen_batch *b, size_t t, size_t *room)
{
	const struct qwen_share *p = qwen_share_of(b, t);
	size_t i = t - p->first;

	assert(p->logits != QWEN_LOGITS_NONE);
	if (i >= p->n_sure)
		return p->s->ahead->row[i - p->n_sure];
	if (p->logits == QWEN_LOGITS_LAST)
		return p->s->logits;
	return *room < QWEN_HEAD_ROWS ? b->b->logits +
	    (*room)++ * b->hp->n_vocab : NULL;
}

/*
 * Logits of all that is left of the batch, many rows at a time: those of a
 * last token and of guesses to their session, others to where there is room
 * for a few.
 */
static void
run_heads(struct qwen_batch *b)
{
	struct qwen_scratch *s = b->b;
	struct qwen_share *p;
	size_t t, i, n, room;

	for (t = 0; t < b->n; t += n) {
		p = qwen_share_of(b, t);
		if (p->hidden) {
			tell_hidden(b, p);
			n = p->n;
			continue;
		}
		room = 0;
		for (n = 0; t + n < b->n && n < s->slots; n++) {
			if (qwen_share_of(b, t + n)->hidden || (s->yrow[n] =
			    place_of(b, t + n, &room)) == NULL)
				break;
		}
		run_head(b, t, n);
		for (i = 0; i < n; i++)
			tell(b, t + i, s->yrow[i]);
	}
}

/* ------------------------------------------------------------------- passes */

void
qwen_batch_run(struct qwen_batch *b)
{
	size_t i, bad;

	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		p->n_sure = p->n_tokens;
		p->n = p->n_tokens + p->n_guess;
		p->pos = p->s->n_tokens;
		/* there is room for them, and nobody else writes there */
		assert(p->n_tokens > 0 &&
		    p->pos + p->n_tokens <= p->s->cap_tokens);
		assert(p->s->cache->scratch == b->b);
		p->from = 0;
		p->failed = 0;
		atomic_store(&p->bad, SIZE_MAX);
		atomic_store(&p->good, p->n_guess);
		p->s->have_logits = 0;
		qwen_journal_plan(p);
	}
	qwen_batch_number(b);
	b->trace = qwen_trace_begin(b);
	if (b->m->net.mtp.on)
		qwen_mtp_begin(b);
	run_layers(b);
	if (any_good(b))
		run_heads(b);
	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		bad = atomic_load(&p->bad);
		if (bad != SIZE_MAX) {
			fail_bad(bad, b->hp->n_layer, &p->err);
			p->failed = 1;
		}
	}
	if (b->m->net.mtp.on)
		qwen_mtp_fill(b);
	for (i = 0; i < b->n_share; i++) {
		struct qwen_share *p = &b->share[i];

		qwen_trace_end(p);
		if (p->failed) {
			p->s->have_logits = 0;
			continue;
		}
		memcpy(p->s->tokens + p->s->n_tokens, p->tokens,
		    p->n_tokens * sizeof *p->tokens);
		p->s->n_tokens += p->n_tokens;
		if (p->n_mtp > 0)
			p->s->mtp.filled = p->s->n_tokens;
		qwen_ahead_begin(p->s, p->guess, atomic_load(&p->good),
		    p->n_guess);
	}
}
