/* SPDX-License-Identifier: ISC */
/* pieces.h - the texts of the tokens of a vocabulary, side by side. */
#ifndef QWEN_BASE_PIECES_H
#define QWEN_BASE_PIECES_H

#include <string.h>

#include "qwen/base.h"

struct qwen_pieces {
	size_t		 n;
	uint32_t	*at;		/* offset of each text in bytes; n +
					   1 */
	char		*bytes;
	int32_t		*eog;		/* ascending */
	size_t		 n_eog;
	int32_t		 think, unthink;	/* <think>, </think>; or -1 */
};

static inline struct qwen_str
qwen_piece(const struct qwen_pieces *p, int32_t id)
{
	struct qwen_str s = {
		.s = p->bytes + p->at[id],
		.len = p->at[id + 1] - p->at[id],
	};

	return s;
}

/* Returns 1 if the text contains part. */
static inline int
qwen_text_has(struct qwen_str text, const char *part)
{
	size_t len = strlen(part), i;

	for (i = 0; i + len <= text.len; i++) {
		if (memcmp(text.s + i, part, len) == 0)
			return 1;
	}
	return 0;
}

#endif
