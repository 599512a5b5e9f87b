/* SPDX-License-Identifier: ISC */
/* pre_qwen35.c - a word is letters and marks. */
#include "text/token/split.h"

static size_t
split(const unsigned char *p, size_t n, int final, struct qwen_pre_resume *r,
    size_t *ends, size_t max)
{
	const struct split_text t = {
		.p = p, .n = n, .final = final, .r = r,
		.word = SPLIT_BIT(QWEN_CLASS_LETTER) |
		    SPLIT_BIT(QWEN_CLASS_MARK),
		.punct = SPLIT_BIT(QWEN_CLASS_OTHER),
	};

	return split_pieces(&t, ends, max);
}

const struct qwen_pre qwen_pre_qwen35 = { .name = "qwen35", .split = split };
