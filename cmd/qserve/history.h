/* SPDX-License-Identifier: ISC */
/*
 * history.h - remember the token ids of generated texts.
 *
 * A model may generate a text with other tokens than the tokenizer would use.
 * When the text comes back as part of a conversation, states are stored under
 * the generated ids.  So these ids are remembered where they differ.
 */
#ifndef QSERVE_HISTORY_H
#define QSERVE_HISTORY_H

#include "text/request/request.h"

enum { QSERVE_KEEP_MAX = 3 };

struct qserve_history;

/*
 * Create the history of this vocabulary.  It is read from and saved to the file
 * qserve.ids in the folder store, unless store is NULL.  If that file cannot be
 * used, prints a note and continues without it.
 */
void qserve_history_open(struct qserve_history **out, const char *store,
    const struct qwen_tok *tok, struct qwen_tok_decoder *spell,
    const struct qwen_fp *vocab);

/* A chat's prompt, as qserve_history_encode() found it. */
struct qserve_prompt {
	size_t		 keep[QSERVE_KEEP_MAX];	/* numbers of tokens after which
						   later prompts may differ */
	size_t		 n_keep;
	unsigned char	 key[16];	/* hash of its ids */
	size_t		 turn_bytes;	/* bytes of its last turn, and */
	char		*turn;		/* their text; free() it */
};

/* Encode a prompt.  h NULL: with the tokenizer alone. */
int qserve_history_encode(struct qserve_history *h,
    const struct qwen_tok *tok, const struct qwen_prompt *p,
    struct qserve_prompt *about, struct qwen_ids *out, struct qwen_err *err);

/*
 * Add the n ids that were generated after the prompt, without an ending token.
 */
void qserve_history_add(struct qserve_history *h,
    const struct qserve_prompt *about, const int32_t *ids, size_t n);

#endif
