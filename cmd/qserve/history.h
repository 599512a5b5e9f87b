/* SPDX-License-Identifier: ISC */
/*
 * history.h - the ids of what was generated, by its text.
 *
 * A model may spell a text with other tokens than the tokenizer would.  When
 * the text comes back, as part of a conversation, its state is kept by the ids
 * that were read: so these are remembered where they differ.
 */
#ifndef QSERVE_HISTORY_H
#define QSERVE_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "qwentext.h"
#include "text/request/request.h"

enum { QSERVE_PLACES = 3 };

struct qserve_history;

/*
 * Of this vocabulary; store is a folder, in which qserve.ids is what it begins
 * with, and grows with it; or NULL.  A file that cannot be read or written is
 * told, and done without.
 */
void qserve_history_open(struct qserve_history **out, const char *store,
    const struct qwen_tok *tok, struct qwen_tok_decoder *spell,
    const struct qwen_fp *vocab);
void qserve_history_close(struct qserve_history *h);

/* What is known of a chat's prompt, when its ids are. */
struct qserve_prompt {
	size_t		 keep[QSERVE_PLACES];	/* after so many ids others may
						   go on differently */
	size_t		 n_keep;
	unsigned char	 key[16];	/* of its ids */
	size_t		 back;		/* bytes of its last turn, and */
	char		*turn;		/* these; free() */
};

/* The ids of a prompt; h NULL: as the tokenizer has them. */
int qserve_history_encode(struct qserve_history *h,
    const struct qwen_tok *tok, const struct qwen_prompt *p,
    struct qserve_prompt *about, struct qwen_ids *out, struct qwen_err *err);

/* These ids were generated after it; without those that end texts. */
void qserve_history_add(struct qserve_history *h,
    const struct qserve_prompt *about, const int32_t *ids, size_t n);

#endif
