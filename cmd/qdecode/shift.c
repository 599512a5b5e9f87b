/* SPDX-License-Identifier: ISC */
/*
 * shift.c - continue when the context is full.  The remaining keys are not
 * moved in the cache: they and the recurrent state were computed from the
 * dropped tokens too, so no text alone would produce them.  Instead, the
 * remaining tokens are read as a new text.
 */
#include <stdlib.h>
#include <string.h>

#include "qdecode.h"

/*
 * Record which of the tokens from .. to - 1 were generated; position from
 * becomes place.
 */
static void
keep_generated(struct qwen_state_extra *x, const struct qwen_state_extra *old,
    uint64_t from, uint64_t to, uint64_t place)
{
	uint64_t a, b;
	size_t i;

	for (i = 0; i < old->n_generated; i++) {
		a = old->generated[i].pos;
		b = a + old->generated[i].n;
		a = a > from ? a : from;
		b = b < to ? b : to;
		if (a < b)
			cli_must(NULL, qwen_state_extra_generated(x,
			    a - from + place, b - a, &cli_err));
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
	in->n = in->cap = keep + newer;
	in->tokens = cli_check_alloc(calloc(in->n, sizeof *in->tokens));
	memcpy(in->tokens, tokens, keep * sizeof *tokens);
	memcpy(in->tokens + keep, tokens + n - newer, newer * sizeof *tokens);
	in->n_marks = 0;
	in->extra.generated = NULL;
	in->extra.n_generated = in->extra.cap_generated = 0;
	keep_generated(&in->extra, &old, 0, keep, 0);
	keep_generated(&in->extra, &old, n - newer, n, keep);
	free(old.generated);
	qwen_session_free(in->session);
	cli_must(NULL, qwen_session_new(&in->session, m, &cli_err));
	tool_prefill(in, NULL);
}
