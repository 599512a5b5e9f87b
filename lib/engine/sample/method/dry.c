/* SPDX-License-Identifier: ISC */
/*
 * dry.c - Don't Repeat Yourself (DRY).  A token that would extend a sequence
 * which occurs earlier in the text loses X * B^(n - L), where n >= L is the
 * number of tokens that match before it.
 *
 * Weidmann, "DRY: A modern repetition penalty that reliably prevents looping",
 * text-generation-webui, pull request 5637 (2024).  Match lengths are computed
 * with the Z algorithm (Gusfield, "Algorithms on Strings, Trees and Sequences",
 * section 1.4) on the reversed text, so a choice takes time linear in the text.
 */
#include <float.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/pieces.h"
#include "engine/quant/math.h"
#include "engine/sample/sample.h"
#include "engine/sample/seen.h"

enum { MULTIPLIER, BASE, ALLOWED, LAST_N, PROMPT, BREAKER };

static const struct qwen_sample_opt opts[] = {
	[MULTIPLIER] = { .name = "dry-multiplier", .type = QWEN_SAMPLE_REAL,
	  .arg = "X", .min = 0, .max = 100, .def = 0,
	  .fields = { "dry_multiplier" }, .below_off = 1,
	  .help = "DRY penalty for repeating an earlier sequence" },
	[BASE] = { .name = "dry-base", .type = QWEN_SAMPLE_REAL,
	  .arg = "B", .min = 1, .max = 100, .def = 1.75,
	  .fields = { "dry_base" },
	  .help = "factor by which the DRY penalty grows per repeated token" },
	[ALLOWED] = { .name = "dry-allowed-length", .type = QWEN_SAMPLE_INT,
	  .arg = "L", .min = 1, .max = INT32_MAX, .def = 2,
	  .fields = { "dry_allowed_length" },
	  .help = "DRY penalty only for repeats of at least L tokens" },
	[LAST_N] = { .name = "dry-last-n", .type = QWEN_SAMPLE_INT,
	  .arg = "N", .min = -1, .max = INT32_MAX, .def = -1,
	  .fields = { "dry_penalty_last_n" },
	  .help = "DRY looks at the last N tokens; -1: at all of them" },
	[PROMPT] = { .name = "dry-prompt", .type = QWEN_SAMPLE_FLAG,
	  .fields = { "dry_prompt" },
	  .help = "DRY looks at the prompt, too" },
	[BREAKER] = { .name = "dry-breaker", .type = QWEN_SAMPLE_LIST,
	  .arg = "TEXT", .fields = { "dry_sequence_breakers" },
	  .help = "a token that contains TEXT ends DRY sequences; repeatable" },
};

struct memory {
	struct qwen_seen seen;		/* all tokens looked at */
	uint32_t	*z;		/* Z values of the reversed text */
	size_t		 cap;		/* length of z */
	uint32_t	*length;	/* by token: longest match before it */
	int32_t		*hit;		/* tokens with a match */
	unsigned char	*breaker;	/* by token: it ends sequences */
};

static int
active(const struct qwen_chain_method *s)
{
	return s->v[MULTIPLIER].d > 0 && s->v[LAST_N].i != 0;
}

static int
check(const char *text, struct qwen_err *err)
{
	return text[0] != '\0' ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "a sequence breaker must not be empty");
}

static void
end(struct qwen_chain_method *s)
{
	struct memory *m = s->memory;

	free(m->seen.token);
	free(m->z);
	free(m->length);
	free(m->hit);
	free(m->breaker);
}

/* Marks tokens that contain a breaker: those of the list, or the usual four. */
static void
find_breakers(struct memory *m, const struct qwen_strings *list,
    const struct qwen_pieces *p)
{
	static char *const usual[] = { "\n", ":", "\"", "*" };
	char *const *text = list->n > 0 ? list->v : usual;
	size_t i, k, n = list->n > 0 ? list->n : 4;
	struct qwen_str s;

	for (i = 0; i < p->n; i++) {
		s = qwen_piece(p, (int32_t)i);
		for (k = 0; k < n && !m->breaker[i]; k++)
			m->breaker[i] = (unsigned char)qwen_text_has(s,
			    text[k]);
	}
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	struct memory *m = s->memory;

	m->length = qwen_alloc(s->w->n_vocab, sizeof *m->length);
	m->hit = qwen_alloc(s->w->n_vocab, sizeof *m->hit);
	m->breaker = qwen_alloc(s->w->n_vocab, 1);
	if (m->length == NULL || m->hit == NULL || m->breaker == NULL)
		return qwen_oom(err);
	find_breakers(m, &s->v[BREAKER].list, s->w->pieces);
	return 0;
}

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	struct memory *m = s->memory;

	if (!generated && !s->v[PROMPT].i)
		return 0;
	if (m->seen.n == UINT32_MAX || qwen_seen_add(&m->seen, token) < 0)
		return -1;
	return qwen_grow(&m->z, &m->cap, m->seen.n, sizeof *m->z);
}

/*
 * Sets z[i] to the number of tokens that match if the text ending i tokens
 * before its end is compared, backwards, with the whole text; t has n tokens.
 * A breaker matches nothing.
 */
static void
match_lengths(struct memory *m, const int32_t *t, size_t n)
{
	size_t i, left = 0, right = 0, k;

	for (i = 1; i < n; i++) {
		k = 0;
		if (i < right) {
			k = m->z[i - left];
			if (k > right - i)
				k = right - i;
		}
		while (i + k < n && t[n - 1 - k] == t[n - 1 - i - k] &&
		    !m->breaker[t[n - 1 - k]])
			k++;
		m->z[i] = (uint32_t)k;
		if (i + k > right) {
			left = i;
			right = i + k;
		}
	}
}

/* Returns X * B^more, limited to the range of float. */
static double
penalty(const struct qwen_chain_method *s, uint32_t more)
{
	double y = (double)more * qwen_log(s->v[BASE].d);

	return y > 80 ? FLT_MAX : s->v[MULTIPLIER].d * qwen_exp(y);
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	struct memory *m = s->memory;
	size_t from = qwen_seen_from(&m->seen, s->v[LAST_N].i);
	size_t n = m->seen.n - from, i, at, hits = 0;
	uint32_t allowed = (uint32_t)s->v[ALLOWED].i;
	const int32_t *t;

	if (n == 0)
		return;
	t = m->seen.token + from;
	match_lengths(m, t, n);
	for (i = 1; i < n; i++) {
		int32_t next = t[n - i];	/* the token after the match */

		if (m->z[i] < allowed || m->breaker[next])
			continue;
		if (m->length[next] == 0)
			m->hit[hits++] = next;
		if (m->length[next] < m->z[i])
			m->length[next] = m->z[i];
	}
	for (i = 0; i < hits; i++) {
		if ((at = qwen_cands_find(l, m->hit[i])) < l->n)
			qwen_cands_set(l, at, (double)l->logit[at] -
			    penalty(s, m->length[m->hit[i]] - allowed));
		m->length[m->hit[i]] = 0;
	}
}

const struct qwen_sampler_method qwen_sampler_dry = {
	.name = "dry", .rank = QWEN_RANK_DRY, .needs_pieces = 1,
	.memory = sizeof(struct memory),
	.n_opts = sizeof opts / sizeof opts[0], .opts = opts,
	.active = active, .check = check, .apply = apply,
	.begin = begin, .accept = accept, .end = end,
};
