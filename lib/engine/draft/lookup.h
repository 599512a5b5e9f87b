/* SPDX-License-Identifier: ISC */
/* lookup.h - where in a text its last tokens were before. */
#ifndef QWEN_DRAFT_LOOKUP_H
#define QWEN_DRAFT_LOOKUP_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

/* Fewer tokens alike say nothing; more than that are as good as these. */
enum { QWEN_LOOKUP_MIN = 3, QWEN_LOOKUP_MAX = 64 };

enum { QWEN_LOOKUP_ORDERS = 2 };

/*
 * A text, and for each run of a few tokens (as many as the order says) the place
 * where it was last: lists by hash, so that a token costs the same however long
 * the text is.  Zero at first.
 */
struct qwen_lookup {
	int32_t		*token;
	size_t		 n, cap;
	/* places are counted from 1; 0: none */
	uint32_t	*last[QWEN_LOOKUP_ORDERS];	/* by hash */
	unsigned	 bits;				/* of a hash */
	uint32_t	*before[QWEN_LOOKUP_ORDERS];	/* by place */
	size_t		 cap_before[QWEN_LOOKUP_ORDERS];
};

/* Append a token; QWEN_ENOMEM leaves the text as it was. */
int qwen_lookup_add(struct qwen_lookup *l, int32_t token,
    struct qwen_err *err);

/* Only the first n tokens stay. */
void qwen_lookup_cut(struct qwen_lookup *l, size_t n);

/*
 * The longest place in the text where the last of the n tokens at end were
 * before, the latest of these: where it goes on, and in *len how many tokens are
 * alike, or 0.  Of long lists of places only the latest are looked at.  end may
 * be the text itself.
 */
size_t qwen_lookup_find(const struct qwen_lookup *l, const int32_t *end,
    size_t n, size_t *len);

void qwen_lookup_fini(struct qwen_lookup *l);

#endif
