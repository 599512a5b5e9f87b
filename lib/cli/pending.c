/* SPDX-License-Identifier: ISC */
/*
 * pending.c - the bytes of an incomplete character at the end of a timeline,
 * which its state notes for whoever prints what comes next.
 */
#include "cli/cli.h"
#include "cli/internal.h"

/* A character has at most four bytes, so no more tokens matter. */
enum { LOOK_BACK = 4 };

void
cli_note_pending(struct cli_intake *in)
{
	const struct qwen_model *m = qwen_session_model(in->session);
	const int32_t *tokens = qwen_session_tokens(in->session);
	size_t n = qwen_session_n_tokens(in->session), i;
	struct qwen_tok_decoder *d = NULL;
	struct qwen_tok *t;
	struct qwen_str text;

	in->extra.n_pending = 0;
	/* a model without a vocabulary has no bytes either */
	if (qwen_tok_open(&t, qwen_model_gguf(m), QWEN_TOK_DECODE, NULL) < 0)
		return;
	if (qwen_tok_decoder_new(&d, t, 0, NULL) == 0) {
		for (i = n > LOOK_BACK ? n - LOOK_BACK : 0; i < n; i++) {
			if (qwen_tok_decoder_put(d, tokens[i], &text,
			    NULL) < 0)
				break;
		}
		in->extra.n_pending = qwen_tok_decoder_pending(d,
		    in->extra.pending);
	}
	qwen_tok_decoder_free(d);
	qwen_tok_close(t);
}
