/* SPDX-License-Identifier: ISC */
/* pre_qwen2.c - a word is letters; marks are punctuation. */
#include "text/token/split.h"

static size_t
split(const unsigned char *p, size_t n, int final, struct qwen_pre_resume *r,
    size_t *ends, size_t max)
{
	const struct split_text t = {
		.p = p, .n = n, .final = final, .r = r,
		.word = SPLIT_BIT(QWEN_CLASS_LETTER),
		.punct = SPLIT_BIT(QWEN_CLASS_OTHER) |
		    SPLIT_BIT(QWEN_CLASS_MARK),
	};

	return split_pieces(&t, ends, max);
}

const struct qwen_pre qwen_pre_qwen2 = { .name = "qwen2", .split = split };
