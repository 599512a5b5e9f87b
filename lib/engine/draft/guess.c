/* SPDX-License-Identifier: ISC */
/*
 * guess.c - chooses the drafts of a pass, and their number.
 *
 * Of all sources of drafts, and of no drafts, it takes the one with the most
 * expected tokens per second, by the cost of passes and the odds of drafts.
 * Both are estimates, so the credit bounds the loss: to a share of the time
 * that has passed, and to earlier gains.
 */
#include "base/err.h"
#include "engine/draft/draft.h"

/* Credit added per token, as a share of its time, and maximum credit. */
#define SHARE 0.008
#define MOST_CREDIT 8.0

enum {
	PROBE_EVERY = 16,	/* tokens between probes: drafts of the MTP
				   block made only to learn, */
	PROBE = 2,		/* and the number of drafts in one */
	LONG = 8,		/* a match of this length is better than the MTP
				   block */
};

/*
 * Converts a relative time into the tokens that the pass would give in it
 * without drafts.
 */
static double
cost_in_tokens(const struct qwen_drafter *d, const struct qwen_draft_pass *pass,
    double time)
{
	return time * pass->tokens / qwen_cost_of(&d->all->cost, pass->rows);
}

/* Ends the last pass, whose time is now known: updates the credit. */
static void
end_pass(struct qwen_drafter *d)
{
	const struct qwen_cost *c = &d->all->cost;
	double time = d->drafting_time;

	if (d->n > 0)
		time += qwen_cost_of(c, d->pass.rows + d->n) * c->last_ratio -
		    qwen_cost_of(c, d->pass.rows);
	if (d->pass.rows > 0)
		d->credit += (double)d->right + SHARE * (1 + (double)d->right) -
		    cost_in_tokens(d, &d->pass, time);
	if (d->credit > MOST_CREDIT)
		d->credit = MOST_CREDIT;
	d->n = d->right = 0;
	d->drafting_time = 0;
}

/* ----------------------------------------------------------------- lookup */

/*
 * Finds an earlier occurrence of the end of the text, unless one is being
 * followed.
 */
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
 * Copies at most max tokens that followed that occurrence; at the end of the
 * text it continues with the copied ones.
 */
static void
draft_by_lookup(struct qwen_drafter *d, size_t max, struct qwen_prediction *p)
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

/* ------------------------------------------------------------ the MTP block */

/* Makes n drafts with the MTP block, as a prediction. */
static int
draft_by_mtp(struct qwen_drafter *d, struct qwen_session *s, size_t n,
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

/*
 * Sets p[i] to the probability that the first i + 1 drafts are all right, for i
 * < n.
 */
static void
right_probabilities(const struct qwen_drafter *d, const size_t *which, size_t n,
    double *p)
{
	double all = 1;
	size_t i;

	for (i = 0; i < n; i++) {
		all *= qwen_odds_of(&d->odds, &d->all->odds, which[i]);
		p[i] = all;
	}
}

static void
use_drafts(struct qwen_drafter *d, const struct qwen_prediction *p, size_t n,
    int mtp)
{
	size_t i;

	for (i = 0; i < n; i++)
		d->id[i] = p->id[i];
	d->n = n;
	d->mtp = mtp;
}

/* Makes as many drafts as the options request, from any source. */
static int
guess_forced(struct qwen_drafter *d, struct qwen_session *s, size_t max_drafts,
    struct qwen_err *err)
{
	size_t n = d->all->o.n < max_drafts ? d->all->o.n : max_drafts;
	int mtp = d->all->chain != NULL && d->all->o.mode != QWEN_DRAFT_LOOKUP;
	struct qwen_prediction p = { 0 };

	if (n == 0)
		return 0;
	if (d->all->o.mode != QWEN_DRAFT_MTP)
		draft_by_lookup(d, n, &p);
	if (p.n == 0 || (mtp && d->length < LONG)) {
		if (!mtp)
			return 0;
		if (draft_by_mtp(d, s, n, err) < 0)
			return -1;
		use_drafts(d, &d->chain, d->chain.n, 1);
		return 0;
	}
	use_drafts(d, &p, p.n, 0);
	return 0;
}

/* One source of drafts, and its expected gain. */
struct source {
	struct qwen_cost_choice	 c;
	double			 p[QWEN_DRAFT_MAX];
	size_t			 n;
	double			 rate;
};

static void
rate_source(const struct qwen_drafter *d, const struct qwen_draft_pass *pass,
    const size_t *which, size_t n, double draft, double lost, struct source *w)
{
	double unit = qwen_cost_of(&d->all->cost, pass->rows) / pass->tokens;

	right_probabilities(d, which, n, w->p);
	w->c = (struct qwen_cost_choice){ .rows = pass->rows,
	    .tokens = pass->tokens, .p = w->p, .n = n, .draft = draft,
	    .risk = d->credit * unit - lost };
	w->n = qwen_cost_best(&d->all->cost, &w->c, &w->rate);
}

/*
 * Makes drafts with the MTP block and takes those that pay; probe: takes none.
 */
static int
draft_and_choose(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, size_t n, int probe,
    struct qwen_err *err)
{
	struct source w;

	if (draft_by_mtp(d, s, n, err) < 0)
		return -1;
	d->drafting_time =
	    (double)d->chain.n * qwen_cost_of_draft(&d->all->cost);
	if (!probe) {
		rate_source(d, pass, d->chain.sure, d->chain.n, 0,
		    d->drafting_time, &w);
		use_drafts(d, &d->chain, w.n, 1);
	}
	return 0;
}

static int
probe_is_due(const struct qwen_drafter *d, const struct qwen_draft_pass *pass)
{
	return d->seen.n >= d->probed + PROBE_EVERY &&
	    pass->max_drafts >= PROBE &&
	    d->credit > cost_in_tokens(d, pass, 2 * PROBE *
	    qwen_cost_of_draft(&d->all->cost));
}

static int
guess_best(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, size_t max_drafts, struct qwen_err *err)
{
	const struct qwen_drafts *all = d->all;
	int mtp = all->chain != NULL && all->o.mode != QWEN_DRAFT_LOOKUP;
	size_t depth[QWEN_DRAFT_MAX], i;
	struct qwen_prediction p = { 0 };
	struct source looked_up, made;

	if (all->o.mode != QWEN_DRAFT_MTP)
		draft_by_lookup(d, max_drafts, &p);
	/* compare lookups with the text even if no pass verifies them */
	if (d->looked_up.right == d->looked_up.n)
		d->looked_up = p;
	if (pass->rows == 1 && qwen_cost_is_due(&all->cost))
		return 0;
	rate_source(d, pass, p.which, p.n, 0, 0, &looked_up);
	for (i = 0; i < max_drafts; i++)
		depth[i] = qwen_odds_depth(i);
	rate_source(d, pass, depth, mtp ? max_drafts : 0,
	    qwen_cost_of_draft(&all->cost), 0, &made);
	if (made.n > 0 && made.rate > looked_up.rate)
		return draft_and_choose(d, s, pass, made.n, 0, err);
	if (looked_up.n > 0) {
		use_drafts(d, &p, looked_up.n, 0);
		return 0;
	}
	return mtp && probe_is_due(d, pass) ?
	    draft_and_choose(d, s, pass, PROBE, 1, err) : 0;
}

int
qwen_drafter_guess(struct qwen_drafter *d, struct qwen_session *s,
    const struct qwen_draft_pass *pass, struct qwen_err *err)
{
	size_t max_drafts = pass->max_drafts < QWEN_DRAFT_MAX ?
	    pass->max_drafts : QWEN_DRAFT_MAX;
	int rc;

	/* called again after the pass found no room */
	if (d->at == d->seen.n) {
		d->n = d->n < max_drafts ? d->n : max_drafts;
		return 0;
	}
	end_pass(d);
	d->at = d->seen.n;
	d->pass = *pass;
	d->all->stats.n_passes++;
	rc = d->all->o.mode == QWEN_DRAFT_NONE ? 0 : d->all->o.n > 0 ?
	    guess_forced(d, s, max_drafts, err) :
	    guess_best(d, s, pass, max_drafts, err);
	*(d->mtp ? &d->all->stats.mtp : &d->all->stats.looked_up) += d->n;
	return rc;
}
