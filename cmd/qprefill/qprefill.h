/* SPDX-License-Identifier: ISC */
/* qprefill.h - traces. */
#ifndef QPREFILL_H
#define QPREFILL_H

#include "tool/tool.h"

/* ----------------------------------------------------------- NumPy's files */

/* Forms beside those of streams, enum qwen_format. */
enum { QPREFILL_NPY = QWEN_FORMAT_RAW + 1, QPREFILL_NPZ };

/* An array of numbers of 32 bits. */
struct qprefill_array {
	int	 integers;	/* int32; else float32 */
	uint64_t n_rows;
	size_t	 width;
};

/* Add the header of a .npy file to t. */
void qprefill_npy_header(struct qwen_text *t, const struct qprefill_array *a);

/* Add a row of n numbers of the array's type, and zeros up to its width. */
void qprefill_npy_row(struct qwen_text *t, const struct qprefill_array *a,
    const void *row, size_t n);

/*
 * Write an archive of arrays whose rows come in any order of the arrays.  fd is an
 * empty regular file, name its name in messages.  Announce all arrays with add, give
 * the rows of each in order, then end, which frees.  They die on errors.
 */
struct qprefill_npz;

struct qprefill_npz *qprefill_npz_new(int fd, const char *name);
void qprefill_npz_add(struct qprefill_npz *z, const char *array,
    const struct qprefill_array *a);
void qprefill_npz_row(struct qprefill_npz *z, const char *array,
    const void *row, size_t n);
void qprefill_npz_end(struct qprefill_npz *z);		/* and free */

/* ------------------------------------------------------------------- traces */

/* --trace; zero at first. */
struct qprefill_trace {
	const char	*stages;	/* NULL: none */
	const char	*out;		/* NULL: stdout */
	struct qwen_trace_range *range;	/* of the tokens that are read; none:
					   all of them */
	size_t		 n_range, cap_range;
	/* under way */
	char		*text;
	char		**pattern;	/* in text */
	size_t		 n_pattern, cap_pattern;
	struct cli_output *to;
	struct qwen_writer *w;		/* a stream; or one of these: */
	struct qprefill_npz *npz;
	struct qprefill_array array;	/* .npy: of the last of n_stage */
	size_t		 n_stage;
	uint64_t	 begin, end;	/* positions of the tokens to read */
	struct qwen_text row;
};

/* The argument of --trace-at, of an option with a trace for a target. */
void qprefill_trace_at(const struct cli_opt *o, const char *s);

/*
 * Begin to trace to the output, in a format of enum qwen_format, QPREFILL_NPY or
 * QPREFILL_NPZ; and end.  They die on errors.
 */
void qprefill_trace_begin(struct qprefill_trace *t,
    const struct tool_intake *in, int format);
void qprefill_trace_end(struct qprefill_trace *t, struct qwen_session *s);

#endif
