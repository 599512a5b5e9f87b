/* SPDX-License-Identifier: ISC */
/*
 * shift.c - continue when the context is full.  The remaining keys are not
 * moved in the cache: they and the recurrent state were computed from the
 * dropped tokens too, so no text alone would produce them.  Instead, the
 * remaining tokens are read as a new text.
 */
#include <stdlib.h>

#include "qdecode.h"

/*
 * Keep the tokens from .. to - 1, and record which of them were generated.  A
 * session does not have the rows of its spans, so these cannot be read again.
 */
static void
keep_tokens(struct tool_intake *in, const int32_t *tokens,
    const struct qwen_state_extra *old, uint64_t from, uint64_t to)
{
	uint64_t a, b, k, place = in->n;
	size_t i;

	for (k = from; k < to; k++) {
		if (tokens[k] >= 0)
			in->tokens[in->n++] = tokens[k];
	}
	for (i = 0; i < old->n_generated; i++) {
		a = old->generated[i].pos;
		b = a + old->generated[i].n;
		a = a > from ? a : from;
		b = b < to ? b : to;
		if (a >= b)
			continue;
		for (; from < a; from++)
			place += tokens[from] >= 0;
		cli_must(NULL, qwen_state_extra_generated(&in->extra, place,
		    b - a, &cli_err));
	}
}

void
qdecode_shift(struct tool_intake *in, struct qwen_model *m, size_t keep)
{
	size_t n = qwen_session_n_tokens(in->session), newer = (n - keep) / 2;
	struct qwen_state_extra old = in->extra;
	const int32_t *tokens = qwen_session_tokens(in->session);

	cli_note("the context is full: %zu tokens after the first %zu are "
	    "dropped, %zu are read again", n - keep - newer, keep,
	    keep + newer);
	free(in->tokens);
	in->cap = keep + newer;
	in->tokens = cli_check_alloc(calloc(in->cap, sizeof *in->tokens));
	in->n = in->n_marks = 0;
	in->extra.generated = NULL;
	in->extra.n_generated = in->extra.cap_generated = 0;
	keep_tokens(in, tokens, &old, 0, keep);
	keep_tokens(in, tokens, &old, n - newer, n);
	if (in->n < in->cap)
		cli_note("%zu of these are rows of images and are dropped too: "
		    "a state does not hold images", in->cap - in->n);
	free(old.generated);
	qwen_session_free(in->session);
	cli_must(NULL, qwen_session_new(&in->session, m, &cli_err));
	tool_prefill(in, NULL);
}
