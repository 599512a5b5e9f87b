/* SPDX-License-Identifier: ISC */
/*
 * qstate.h - shared by the commands of qstate, each of which has its own file.
 */
#ifndef QSTATE_H
#define QSTATE_H

#include <inttypes.h>
#include <stddef.h>

#include "qwen.h"
#include "qwentext.h"
#include "base/text.h"
#include "tool/tool.h"

/* The options of the command line. */
struct qstate_opts {
	const char		*model;
	const char		*output;	/* NULL: stdout */
	uint64_t		 count;
	int			 all, json, remove, tokens;
	double			 within;
	const char		*store;
	uint64_t		 store_max;	/* 0: not given */
	struct qwen_state_opts	 state;
};

extern struct qstate_opts qstate_opt;

/* --------------------------------------------------------------- commands */

/* Run a command; operands end with NULL.  All die on errors. */
void qstate_show(char *paths[]);
void qstate_verify(char *paths[]);	/* no operand: verifies the store */
void qstate_diff(char *paths[]);	/* exits with 1 if they differ */
void qstate_slice(char *paths[]);
void qstate_pack(char *paths[]);
void qstate_cat(char *paths[]);
void qstate_ls(char *none[]);
void qstate_du(char *none[]);
void qstate_gc(char *none[]);
void qstate_rm(char *digits[]);

/* ----------------------------------------------------------------- states */

/* An open state; stdin ("-") is copied to a temporary file. */
struct qstate_state {
	const char			*name;		/* for messages */
	struct qwen_state_file		*f;
	const struct qwen_state_info	*info;
};

/*
 * Open a state; the caller closes s->f.  qstate_open_whole dies if the file
 * holds only a part of a state.
 */
void qstate_open(struct qstate_state *s, const char *operand);
void qstate_open_whole(struct qstate_state *s, const char *operand);

/*
 * Return the path of an operand and set its name for messages.  Copies stdin to
 * a temporary file, which qstate_file_done removes.
 */
const char *qstate_file(const char *operand, const char **name);
void qstate_file_done(void);

/* Copy all bytes between two descriptors; the names are for messages. */
void qstate_copy_bytes(int from, const char *name, int to,
    const char *to_name);

/* ----------------------------------------------------------------- traces */

/* A trace of qprefill --trace being read. */
struct qstate_trace {
	const char		*name;		/* for messages */
	int			 fd;
	struct qwen_reader	*r;
	struct qwen_header	 header;
	struct qwen_record	 rec;		/* the last record, if more is
						   set */
	int			 more;
};

/*
 * Open a trace: 1, or 0 if the operand is not a trace (t is not open then).
 * Dies if the operand is a pipe without a trace.
 */
int qstate_trace_open(struct qstate_trace *t, const char *operand);
void qstate_trace_close(struct qstate_trace *t);

void qstate_trace_show(struct qstate_trace *t);

/* Print the differences of two traces; return 1 if there are any. */
int qstate_trace_diff(struct qstate_trace t[2]);

/* --------------------------------------------------------------- printing */

/*
 * Fields, as text and as JSON.  Between qstate_begin and qstate_end they are
 * words of a line of text, which begins with `word', or fields of an object,
 * the first of which is `key', unless it is NULL.  Elsewhere a field of text is
 * a line, "key value".  qstate_flag prints the key as text, if v is set.  A
 * word NULL is "-", or null.  A key NULL is for elements of lists.  fmt is as
 * for printf(3).
 */
void qstate_begin(const char *key, const char *word);
void qstate_end(void);
void qstate_word(const char *key, const char *s);
void qstate_put(const char *key, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define qstate_int(key, v) qstate_put(key, "%" PRId64, (int64_t)(v))
#define qstate_uint(key, v) qstate_put(key, "%" PRIu64, (uint64_t)(v))
void qstate_real(const char *key, double v);
void qstate_flag(const char *key, int v);
void qstate_fp(const char *key, const struct qwen_fp *fp);

/*
 * JSON only: begin and end a list or an object.  0 in place of the closing
 * bracket ends an object that has a line of its own.
 */
void qstate_open_json(const char *key, char bracket);
void qstate_close_json(char bracket);

/*
 * Print numerics, KV cache types other than f16, and RoPE scaling other than
 * the model's.  qstate_header also prints the fingerprints.
 */
void qstate_formats(uint32_t numerics, enum qwen_kv k, enum qwen_kv v,
    const struct qwen_rope *rope);
void qstate_header(const struct qwen_header *h);

/*
 * Begin the comparison of two files, and end it.  As text, the lines between
 * are printed unless -q is given.
 */
void qstate_diff_begin(const char *a, const char *b);
void qstate_diff_end(int differ);

/*
 * qstate_rows returns the number of rows of a value, 1 unless it is a list.
 * qstate_value prints a value, or one row of a list.  qstate_json_value prints
 * a field with all of it as JSON, in text too.
 */
size_t qstate_rows(const struct qwen_state_value *v);
void qstate_value(const struct qwen_state_value *v, size_t row, int json);
void qstate_json_value(const char *key, const struct qwen_state_value *v);

/* -------------------------------------------------------------- the store */

/*
 * Open the store of the options or the environment.  Dies if its folder does
 * not exist.
 */
struct qwen_store *qstate_open_store(void);

#endif
