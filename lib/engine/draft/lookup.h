/* SPDX-License-Identifier: ISC */
/* lookup.h - finds earlier occurrences of the last tokens of a text. */
#ifndef QWEN_DRAFT_LOOKUP_H
#define QWEN_DRAFT_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

/* Minimum length of a match; maximum length that is compared. */
enum { QWEN_LOOKUP_MIN = 3, QWEN_LOOKUP_MAX = 64 };

enum { QWEN_LOOKUP_ORDERS = 2 };

/*
 * A text with an index of its runs of a few tokens (see `order' in lookup.c):
 * lists by hash of all places of a run, latest first.  Adding a token takes the
 * same time however long the text is.  Initially all zero.
 */
struct qwen_lookup {
	int32_t		*token;
	size_t		 n, cap;
	/* places are counted from 1; 0: none */
	uint32_t	*latest[QWEN_LOOKUP_ORDERS];	/* by hash: latest
							   place */
	unsigned	 bits;				/* bits of a hash */
	uint32_t	*previous[QWEN_LOOKUP_ORDERS];	/* by place: previous
							   place with the same
							   hash */
	size_t		 cap_previous[QWEN_LOOKUP_ORDERS];
};

/* Appends a token; on QWEN_ENOMEM the text is unchanged. */
int qwen_lookup_add(struct qwen_lookup *l, int32_t token,
    struct qwen_err *err);

/* Cuts the text to its first n tokens. */
void qwen_lookup_cut(struct qwen_lookup *l, size_t n);

/*
 * Finds the longest match of the last of the n tokens at end, the latest among
 * equals.  Returns the place after the match and sets *len to its length, 0 if
 * there is none.  Looks only at the latest places of a long list. end may be
 * l->token itself.
 */
size_t qwen_lookup_find(const struct qwen_lookup *l, const int32_t *end,
    size_t n, size_t *len);

void qwen_lookup_fini(struct qwen_lookup *l);

#endif
