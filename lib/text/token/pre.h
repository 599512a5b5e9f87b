/* SPDX-License-Identifier: ISC */
/* pre.h - pre-tokenizers: where text is cut before merging. */
#ifndef QWEN_TOKEN_PRE_H
#define QWEN_TOKEN_PRE_H

#include <stddef.h>

#include "qwentext.h"

/* Readable bytes that must follow the text given to split; any value. */
#define QWEN_PRE_SLACK 16

/*
 * How far the first piece has been looked at when the text ended before it
 * did, so that a piece that comes in many parts is read once.  All zero for a
 * piece not seen yet; offsets from its beginning.
 */
struct qwen_pre_resume {
	size_t	pos;	/* the run that ends the piece reaches to here */
	size_t	nl;	/* white space: after the last CR or LF; 0 if none */
	size_t	last;	/* white space: its last character */
};

struct qwen_pre {
	const char	*name;		/* the usual tokenizer.ggml.pre */

	/*
	 * Cut the text p, n bytes, into pieces: store the offsets of their
	 * ends, at most max, and return how many.  What lies beyond the last
	 * end cannot be cut yet, or max was reached; with final set, all of
	 * the text can.
	 */
	size_t		(*split)(const unsigned char *p, size_t n, int final,
			    struct qwen_pre_resume *r, size_t *ends,
			    size_t max);
};

extern const struct qwen_pre qwen_pre_qwen2;
extern const struct qwen_pre qwen_pre_qwen35;

/*
 * That of a file which does not name it, as those from before there was the key,
 * by general.architecture; NULL where that does not tell.
 */
const struct qwen_pre *qwen_pre_guess(const struct qwen_str *arch);

/* The one for that value of tokenizer.ggml.pre; -1 and an error that lists those known. */
int qwen_pre_find(const struct qwen_pre **out, const struct qwen_str *name,
    struct qwen_err *err);

#endif
