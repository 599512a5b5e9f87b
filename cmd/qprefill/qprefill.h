/* SPDX-License-Identifier: ISC */
/* qprefill.h - write traces. */
#ifndef QPREFILL_H
#define QPREFILL_H

#include "tool/tool.h"

/* ----------------------------------------------------------- NumPy formats */

/* Output formats in addition to enum qwen_format. */
enum { QPREFILL_NPY = QWEN_FORMAT_RAW + 1, QPREFILL_NPZ };

/* An array of 32-bit numbers. */
struct qprefill_array {
	int	 integers;	/* 1: int32, 0: float32 */
	uint64_t n_rows;
	size_t	 width;
};

/* Add the header of a .npy file to t. */
void qprefill_npy_header(struct qwen_text *t, const struct qprefill_array *a);

/* Add a row of n numbers of the array's type, and zeros up to its width. */
void qprefill_npy_row(struct qwen_text *t, const struct qprefill_array *a,
    const void *row, size_t n);

/*
 * An archive of arrays; their rows may alternate.  fd is an empty regular file,
 * name its name in messages.  Announce all arrays with add, pass the rows of
 * each in order, then call end.  All functions die on errors.
 */
struct qprefill_npz;

struct qprefill_npz *qprefill_npz_new(int fd, const char *name);
void qprefill_npz_add(struct qprefill_npz *z, const char *array,
    const struct qprefill_array *a);
void qprefill_npz_row(struct qprefill_npz *z, const char *array,
    const void *row, size_t n);
void qprefill_npz_end(struct qprefill_npz *z);		/* and frees z */

/* ------------------------------------------------------------------- traces */

/* The options of --trace, and a trace being written; zero it first. */
struct qprefill_trace {
	const char	*stages;	/* NULL: none */
	const char	*out;		/* NULL: stdout */
	struct qwen_trace_range *range;	/* positions to trace; none: all tokens
					   read */
	size_t		 n_range, cap_range;
	/* while tracing: */
	char		*text;
	char		**pattern;	/* pointers into text */
	size_t		 n_pattern, cap_pattern;
	struct cli_output *to;
	struct qwen_writer *w;		/* for a stream, or one of: */
	struct qprefill_npz *npz;
	struct qprefill_array array;	/* .npy: the only stage; .npz: the
					   last */
	size_t		 n_stage;
	uint64_t	 begin, end;	/* positions of the tokens to read */
	struct qwen_text row;
};

/* Parse the argument of --trace-at; o->to is a struct qprefill_trace. */
void qprefill_trace_at(const struct cli_opt *o, const char *s);

/*
 * Start and end tracing to the output.  format is from enum qwen_format, or
 * QPREFILL_NPY or QPREFILL_NPZ.  Both die on errors.
 */
void qprefill_trace_begin(struct qprefill_trace *t,
    const struct tool_intake *in, int format);
void qprefill_trace_end(struct qprefill_trace *t, struct qwen_session *s);

#endif
