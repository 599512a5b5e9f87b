/* SPDX-License-Identifier: ISC */
/* pre.h - pre-tokenizers: where to cut text into pieces before merging. */
#ifndef QWEN_TOKEN_PRE_H
#define QWEN_TOKEN_PRE_H

#include <stddef.h>

#include "qwentext.h"

/* Bytes of any value that must be readable after the text given to split. */
#define QWEN_PRE_SLACK 16

/*
 * How far split has read the first piece if the text ended within it, so that a
 * piece that comes in many parts is read only once.  All zero for a new piece.
 * Offsets from the beginning of the piece.
 */
struct qwen_pre_resume {
	size_t	pos;	/* the run at its end reaches to here */
	size_t	nl;	/* white space: end of the last CR or LF; 0: none */
	size_t	last;	/* white space: its last character */
};

struct qwen_pre {
	const char	*name;		/* in most files, tokenizer.ggml.pre */

	/*
	 * Cuts n bytes of text into pieces: writes the offsets of their ends,
	 * at most max, and returns their number.  Text after the last end waits
	 * for more text, or for the next call if max was reached.  With final
	 * set, no text waits.
	 */
	size_t		(*split)(const unsigned char *p, size_t n, int final,
			    struct qwen_pre_resume *r, size_t *ends,
			    size_t max);
};

extern const struct qwen_pre qwen_pre_qwen2;
extern const struct qwen_pre qwen_pre_qwen35;

/*
 * Returns the pre-tokenizer of an old file that names none, by
 * general.architecture; NULL if the architecture does not determine it.
 */
const struct qwen_pre *qwen_pre_guess(const struct qwen_str *arch);

/* Finds a pre-tokenizer by tokenizer.ggml.pre; an error lists the known. */
int qwen_pre_find(const struct qwen_pre **out, const struct qwen_str *name,
    struct qwen_err *err);

#endif
