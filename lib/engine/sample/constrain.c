/* SPDX-License-Identifier: ISC */
/*
 * constrain.c - a reply under a constraint: which tokens may come next.
 *
 * The reply is everything generated after the last token of the prompt.  It may
 * begin with a thinking block, unless the prompt has closed one.  Inside the
 * block every token is allowed except those that end the reply.  After the
 * block new lines are skipped; then the constrained text begins.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pieces.h"
#include "engine/sample/sample.h"

enum { GAP = 4 };	/* maximum tokens of new lines after a thinking block;
			   models write one */

struct qwen_constrained {
	const struct qwen_constraint_ops *by;
	struct qwen_match *match;
	const struct qwen_pieces *p;
	uint64_t *allowed;	/* one bit per token */
	int	in_thinking;	/* inside a thinking block */
	int	fresh;		/* the reply has no tokens yet */
	int	closed;		/* a block was closed: no other may begin */
	int	gap;		/* number of skipped new-line tokens that may
				   still come */
	int	over;		/* the reply has ended */
	int	violated;	/* a token came that the constraint forbids */
};

int
qwen_constrained_new(struct qwen_constrained **out,
    const struct qwen_constraint *by, const struct qwen_pieces *p,
    struct qwen_err *err)
{
	struct qwen_constrained *c = qwen_alloc(1, sizeof *c);

	*out = NULL;
	if (c == NULL)
		return qwen_oom(err);
	c->by = by->ops;
	c->p = p;
	c->fresh = 1;
	if ((c->allowed = qwen_alloc(p->n / 64 + 1, sizeof *c->allowed)) ==
	    NULL) {
		qwen_constrained_free(c);
		return qwen_oom(err);
	}
	if (c->by->open(&c->match, by, err) < 0) {
		qwen_constrained_free(c);
		return -1;
	}
	*out = c;
	return 0;
}

void
qwen_constrained_free(struct qwen_constrained *c)
{
	if (c == NULL)
		return;
	if (c->match != NULL)
		c->by->close(c->match);
	free(c->allowed);
	free(c);
}

static int
is_eog(const struct qwen_pieces *p, int32_t id)
{
	size_t i;

	for (i = 0; i < p->n_eog; i++) {
		if (p->eog[i] == id)
			return 1;
	}
	return 0;
}

static int
is_newlines(struct qwen_str s)
{
	size_t i;

	for (i = 0; i < s.len && s.s[i] == '\n'; i++)
		;
	return s.len > 0 && i == s.len;
}

/* Handles a token of the prompt, after which a new reply begins. */
static int
accept_prompt(struct qwen_constrained *c, int32_t id, struct qwen_err *err)
{
	if (id == c->p->think)
		c->in_thinking = 1;
	if (id == c->p->unthink) {
		c->in_thinking = 0;
		c->closed = 1;
	} else if (is_eog(c->p, id) || id == c->p->think)
		c->closed = 0;
	c->gap = c->over = c->violated = 0;
	if (c->fresh)
		return 0;
	c->fresh = 1;
	return c->by->begin(c->match, err);
}

int
qwen_constrained_accept(struct qwen_constrained *c, int32_t id, int generated,
    struct qwen_err *err)
{
	struct qwen_str s = qwen_piece(c->p, id);
	int fits;

	if (!generated)
		return accept_prompt(c, id, err);
	if (c->in_thinking) {
		c->in_thinking = id != c->p->unthink;
		c->closed = !c->in_thinking;
		c->gap = c->in_thinking ? 0 : GAP;
		return 0;
	}
	if (c->fresh && !c->closed && id == c->p->think) {
		c->in_thinking = 1;
		return 0;
	}
	if (c->gap > 0 && is_newlines(s)) {
		c->gap--;
		return 0;
	}
	c->fresh = c->gap = 0;
	if (is_eog(c->p, id)) {
		c->violated |= !c->by->may_end(c->match);
		c->over = 1;
		return 0;
	}
	fits = s.len > 0 && !c->over ?
	    c->by->feed(c->match, s.s, s.len, err) : 0;
	c->violated |= fits == 0;
	return fits < 0 ? -1 : 0;
}

int
qwen_constrained_is_over(const struct qwen_constrained *c)
{
	return c->over;
}

static int
check_violated(const struct qwen_constrained *c, struct qwen_err *err)
{
	return !c->violated ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "the text so far does not match the grammar");
}

/* Returns 1 for an allowed token that the constraint's mask does not cover. */
static int
is_special(const struct qwen_constrained *c, int32_t id)
{
	if (is_eog(c->p, id))
		return c->by->may_end(c->match);
	if (id == c->p->think)
		return c->fresh && !c->closed;
	return c->gap && is_newlines(qwen_piece(c->p, id));
}

int
qwen_constrained_fits(struct qwen_constrained *c, int32_t id,
    struct qwen_err *err)
{
	struct qwen_str s = qwen_piece(c->p, id);

	if (check_violated(c, err) < 0)
		return -1;
	if (c->over || (c->in_thinking && !is_eog(c->p, id)))
		return 1;
	if (c->in_thinking)
		return 0;
	if (is_special(c, id))
		return 1;
	return s.len > 0 && !is_eog(c->p, id) ?
	    c->by->fits(c->match, s.s, s.len, err) : 0;
}

static void
set_bit(uint64_t *bits, int32_t id, int on)
{
	uint64_t bit = (uint64_t)1 << (id % 64);

	if (on)
		bits[id / 64] |= bit;
	else
		bits[id / 64] &= ~bit;
}

/* Sets allowed to the constraint's mask and the allowed special tokens. */
static int
find_allowed(struct qwen_constrained *c, struct qwen_err *err)
{
	const uint64_t *mask = c->by->mask(c->match, err);
	int ends = c->by->may_end(c->match);
	size_t i;

	if (mask == NULL)
		return -1;
	memcpy(c->allowed, mask, (c->p->n + 63) / 64 * sizeof *mask);
	for (i = 0; i < c->p->n && c->gap; i++) {
		if (is_newlines(qwen_piece(c->p, (int32_t)i)))
			set_bit(c->allowed, (int32_t)i, 1);
	}
	if (c->p->think >= 0 && is_special(c, c->p->think))
		set_bit(c->allowed, c->p->think, 1);
	/* tokens that end the reply do so whatever their texts are */
	for (i = 0; i < c->p->n_eog; i++)
		set_bit(c->allowed, c->p->eog[i], ends);
	return 0;
}

/* Applies allowed if candidate i is token i. */
static void
apply_whole(const struct qwen_constrained *c, struct qwen_cands *l)
{
	memcpy(l->bits, c->allowed, (l->n + 63) / 64 * sizeof *l->bits);
	if (l->n % 64 != 0)
		l->bits[l->n / 64] &= ((uint64_t)1 << l->n % 64) - 1;
	qwen_cands_keep_bits(l);
}

int
qwen_constrained_apply(struct qwen_constrained *c, struct qwen_cands *l,
    struct qwen_err *err)
{
	size_t i, m = 0;

	if (check_violated(c, err) < 0)
		return -1;
	if (c->in_thinking && !c->over)
		qwen_cands_drop(l, c->p->eog, c->p->n_eog);
	if (c->in_thinking || c->over)
		return 0;
	if (find_allowed(c, err) < 0)
		return -1;
	if (l->touched == 0) {
		apply_whole(c, l);
		return 0;
	}
	for (i = 0; i < l->n; i++) {
		int32_t id = l->id[i];

		if (!(c->allowed[id / 64] >> (id % 64) & 1))
			continue;
		l->logit[m] = l->logit[i];
		l->id[m++] = id;
	}
	qwen_cands_shrink(l, m);
	return 0;
}
