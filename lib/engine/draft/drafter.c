/* SPDX-License-Identifier: ISC */
/*
 * drafter.c - follows a timeline: which drafts were right, and where the text
 * occurred before.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/draft/draft.h"

/* Decay of the odds per result: of one text, of all texts. */
#define KEEP_ONE 0.97
#define KEEP_ALL 0.995

enum { TAIL = 16 };

/* Credit before any gain. */
#define FIRST_CREDIT 0.3

int
qwen_drafter_new(struct qwen_drafter **out, struct qwen_drafts *all,
    struct qwen_err *err)
{
	struct qwen_drafter *d;

	*out = NULL;
	if ((d = qwen_alloc(1, sizeof *d)) == NULL)
		return qwen_oom(err);
	d->all = all;
	d->credit = FIRST_CREDIT;
	*out = d;
	return 0;
}

void
qwen_drafter_free(struct qwen_drafter *d)
{
	if (d == NULL)
		return;
	qwen_lookup_fini(&d->seen);
	free(d);
}

static void
note_odds(struct qwen_drafter *d, size_t which, int right)
{
	if (which >= QWEN_ODDS_N)
		return;
	qwen_odds_note(&d->odds, which, right, KEEP_ONE);
	qwen_odds_note(&d->all->odds, which, right, KEEP_ALL);
}

/* Compares a prediction with the token at position at. */
static void
compare_draft(struct qwen_drafter *d, struct qwen_prediction *p, size_t at,
    int32_t token)
{
	int right;

	if (p->right == p->n || at != p->at + p->right)
		return;
	right = p->id[p->right] == token;
	note_odds(d, p->which[p->right], right);
	note_odds(d, p->sure[p->right], right);
	if (right)
		p->right++;
	else
		p->n = p->right;
}

static int
add_token(struct qwen_drafter *d, int32_t token, struct qwen_err *err)
{
	size_t at = d->seen.n;

	compare_draft(d, &d->looked_up, at, token);
	compare_draft(d, &d->chain, at, token);
	if (d->right < d->n && at == d->at + d->right &&
	    d->id[d->right] == token) {
		d->right++;
		*(d->mtp ? &d->all->stats.mtp_right :
		    &d->all->stats.looked_up_right) += 1;
	}
	if (d->length > 0 && d->from < d->source->n &&
	    d->source->token[d->from] == token) {
		d->from++;
		d->length++;
	} else {
		d->length = 0;
	}
	return qwen_lookup_add(&d->seen, token, err);
}

/* Forgets everything after the first n tokens. */
static void
cut_text(struct qwen_drafter *d, size_t n)
{
	qwen_lookup_cut(&d->seen, n);
	d->length = 0;
	d->n = d->right = 0;
	d->at = 0;
	d->looked_up.n = d->looked_up.right = 0;
	d->chain.n = d->chain.right = 0;
	if (d->probed > n)
		d->probed = n;
}

int
qwen_drafter_follow(struct qwen_drafter *d, const int32_t *tokens, size_t n,
    int32_t next, struct qwen_err *err)
{
	const struct qwen_lookup *l = &d->seen;
	size_t i = l->n > TAIL ? l->n - TAIL : 0;

	/* if the text was cut and grew again, its end differs */
	while (i < l->n && i <= n && l->token[i] == (i < n ? tokens[i] : next))
		i++;
	if (i < l->n) {
		for (i = 0; i < l->n && i < n && l->token[i] == tokens[i]; i++)
			;
		cut_text(d, i);
	}
	for (i = l->n; i <= n; i++) {
		if (add_token(d, i < n ? tokens[i] : next, err) < 0)
			return -1;
	}
	return 0;
}
