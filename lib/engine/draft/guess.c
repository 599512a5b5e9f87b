/* SPDX-License-Identifier: ISC */
/*
 * guess.c - which guesses a pass is given, and how many.
 *
 * Of what can be guessed, and of nothing at all, that is taken which brings most
 * tokens a second, by the cost of passes and the odds of guesses.  Both are
 * estimates: so what may be lost by following them is bounded by the credit, to
 * a part of the time that passed and what was gained before.
 */
#include "base/err.h"
#include "engine/draft/draft.h"

/* What may be lost, of each token's time, and how much can be saved up. */
#define SHARE 0.008
#define MOST_CREDIT 8.0

enum {
	PROBE_EVERY = 16,	/* tokens from chain to chain, made to learn, */
	PROBE = 2,		/* of so many guesses */
	LONG = 8,		/* a match of this length is better than the
				   block */
};

/* So much time, in tokens that the pass brings in it without guesses. */
static double
price(const struct qwen_drafter *d, const struct qwen_draft_pass *pass,
    double time)
{
	return time * pass->tokens / qwen_cost_of(&d->all->cost, pass->rows);
}

/* The end of the last pass, whose cost is known now: what was lost or gained. */
static void
settle(struct qwen_drafter *d)
{
	const struct qwen_cost *c = &d->all->cost;
	double time = d->before;

	if (d->n > 0)
		time += qwen_cost_of(c, d->pass.rows + d->n) * c->last -
		    qwen_cost_of(c, d->pass.rows);
	if (d->pass.rows > 0)
		d->credit += (double)d->right + SHARE * (1 + (double)d->right) -
		    price(d, &d->pass, time);
	if (d->credit > MOST_CREDIT)
		d->credit = MOST_CREDIT;
	d->n = d->right = 0;
	d->before = 0;
}

/* ------------------------------------------------------------- looking up */

/* Where the end was before; if it was found and went on so, it is known. */
static void
find_earlier(struct qwen_drafter *d)
{
	const struct qwen_lookup *own = &d->seen, *text = &d->all->text;
	size_t at, n;

	if (d->length > 0)
		return;
	d->source = own;
	d->from = qwen_lookup_find(own, own->token, own->n, &d->length);
	at = qwen_lookup_find(text, own->token, own->n, &n);
	if (n > d->length && at < text->n) {
		d->source = text;
		d->from = at;
		d->length = n;
	}
}

/*
 * Copies what followed that occurrence, at most max tokens, and what was
 * drafted after it.
 */
static void
look_up(struct qwen_drafter *d, size_t max, struct qwen_prediction *p)
{
	size_t i, k;

	*p = (struct qwen_prediction){ .at = d->seen.n };
	find_earlier(d);
	if (d->length == 0)
		return;
	for (i = 0; i < max; i++) {
		k = d->from + i;
		if (k >= d->source->n && d->source != &d->seen)
			break;
		p->id[i] = k < d->source->n ? d->source->token[k] :
		    p->id[k - d->source->n];
		p->which[i] = qwen_odds_looked_up(d->length, i);
		p->sure[i] = QWEN_ODDS_N;
	}
	p->n = i;
}

/* ---------------------------------------------------------- the model's block */

/* Let it make n guesses, which become a prediction. */
static int
chain(struct qwen_drafter *d, struct qwen_session *s, size_t n,
    struct qwen_err *err)
{
	struct qwen_prediction *p = &d->chain;
	float probability[QWEN_DRAFT_MAX];
	double start = d->all->now();
	size_t i, made;

	p->n = p->right = 0;
	p->at = d->seen.n;
	if (d->all->chain(s, d->seen.token[d->seen.n - 1], n, p->id,
	    probability, &made, err) < 0)
		return -1;
	qwen_cost_draft(&d->all->cost, made, d->all->now() - start);
	for (i = 0; i < made; i++) {
		p->which[i] = qwen_odds_depth(i);
		p->sure[i] = qwen_odds_sure(probability[i]);
	}
	p->n = made;
	d->probed = p->at;
	return 0;
}

/* ---------------------------------------------------------------- choosing */

/* The chances that the first i + 1 are right, for all i below n. */
static void
chances(const struct qwen_drafter *d, const size_t *which, size_t n, double *p)
{
	double all = 1;
	size_t i;

	for (i = 0; i < n; i++) {
		all *= qwen_odds_of(&d->odds, &d->all->odds, which[i]);
		p[i] = all;
	}
}

static void
give(struct qwen_drafter *d, const struct qwen_prediction *p, size_t n,
    int mtp)
{
	size_t i;

	for (i = 0; i < n; i++)
		d->id[i] = p->id[i];
	d->n = n;
	d->mtp = mtp;
}

/* As many as were asked for, wherever they are from. */
static int
guess_forced(struct qwen_drafter *d, struct qwen_session *s, size_t room,
    struct qwen_err *err)
{
	size_t n = d->all->o.n < room ? d->all->o.n : room;
	int mtp = d->all->chain != NULL && d->all->o.mode != QWEN_DRAFT_LOOKUP;
	struct qwen_prediction p = { 0 };

	if (n == 0)
		return 0;
	if (d->all->o.mode != QWEN_DRAFT_MTP)
		look_up(d, n, &p);
	if (p.n == 0 || (mtp && d->length < LONG)) {
		if (!mtp)
			return 0;
		if (chain(d, s, n, err) < 0)
			return -1;
		give(d, &d->chain, d->chain.n, 1);
		return 0;
	}
	give(d, &p, p.n, 0);
	return 0;
}

/* One source of drafts, and its expected gain. */
struct way {
	struct qwen_cost_choice	 c;
	double			 p[QWEN_DRAFT_MAX];
	size_t			 n;
	double			 rate;
};

static void
weigh(const struct qwen_drafter *d, const struct qwen_draft_pass *pass,
    const size_t *which, size_t n, double draft, double lost, struct way *w)
{
	double unit = qwen_cost_of(&d->all->cost, pass->rows) / pass->tokens;

	chances(d, which, n, w->p);
	w->c = (struct qwen_cost_choice){ .rows = pass->rows,
	    .tokens = pass->tokens, .p = w->p, .n = n, .draft = draft,
	    .risk = d->credit * unit - lost };
	w->n = qwen_cost_best(&d->all->cost, &w->c, &w->rate);
}

/* Let the block guess, as far as that pays, or a little to learn. */
static int
use_chain(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, size_t n, int probe,
    struct qwen_err *err)
{
	struct way w;

	if (chain(d, s, n, err) < 0)
		return -1;
	d->before = (double)d->chain.n * qwen_cost_of_draft(&d->all->cost);
	if (!probe) {
		weigh(d, pass, d->chain.sure, d->chain.n, 0, d->before, &w);
		give(d, &d->chain, w.n, 1);
	}
	return 0;
}

static int
probe_is_due(const struct qwen_drafter *d, const struct qwen_draft_pass *pass)
{
	return d->seen.n >= d->probed + PROBE_EVERY && pass->room >= PROBE &&
	    d->credit > price(d, pass, 2 * PROBE *
	    qwen_cost_of_draft(&d->all->cost));
}

static int
guess_best(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, size_t room, struct qwen_err *err)
{
	const struct qwen_drafts *all = d->all;
	int mtp = all->chain != NULL && all->o.mode != QWEN_DRAFT_LOOKUP;
	size_t depth[QWEN_DRAFT_MAX], i;
	struct qwen_prediction p = { 0 };
	struct way looked_up, made;

	if (all->o.mode != QWEN_DRAFT_MTP)
		look_up(d, room, &p);
	/* to be compared, though no pass may be made for it */
	if (d->looked_up.right == d->looked_up.n)
		d->looked_up = p;
	if (pass->rows == 1 && qwen_cost_is_due(&all->cost))
		return 0;
	weigh(d, pass, p.which, p.n, 0, 0, &looked_up);
	for (i = 0; i < room; i++)
		depth[i] = qwen_odds_depth(i);
	weigh(d, pass, depth, mtp ? room : 0,
	    qwen_cost_of_draft(&all->cost), 0, &made);
	if (made.n > 0 && made.rate > looked_up.rate)
		return use_chain(d, s, pass, made.n, 0, err);
	if (looked_up.n > 0) {
		give(d, &p, looked_up.n, 0);
		return 0;
	}
	return mtp && probe_is_due(d, pass) ?
	    use_chain(d, s, pass, PROBE, 1, err) : 0;
}

int
qwen_drafter_guess(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, struct qwen_err *err)
{
	size_t room = pass->room < QWEN_DRAFT_MAX ? pass->room :
	    QWEN_DRAFT_MAX;
	int rc;

	/* asked again, for a pass that there was no room for */
	if (d->at == d->seen.n) {
		d->n = d->n < room ? d->n : room;
		return 0;
	}
	settle(d);
	d->at = d->seen.n;
	d->pass = *pass;
	d->all->stats.n_passes++;
	rc = d->all->o.mode == QWEN_DRAFT_NONE ? 0 : d->all->o.n > 0 ?
	    guess_forced(d, s, room, err) : guess_best(d, s, pass, room, err);
	*(d->mtp ? &d->all->stats.mtp : &d->all->stats.looked_up) += d->n;
	return rc;
}
