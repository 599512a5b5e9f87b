/* SPDX-License-Identifier: ISC */
/* qstate.h - what the commands of qstate share; each is a file of its own. */
#ifndef QSTATE_H
#define QSTATE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "qwentext.h"
#include "base/text.h"
#include "tool/tool.h"

/* What the command line says. */
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

/* They die of what they cannot do; operands end in NULL. */
void qstate_show(char *paths[]);
void qstate_verify(char *paths[]);	/* without a path: the store */
void qstate_diff(char *paths[]);	/* exits 1 if they are not equal */
void qstate_slice(char *paths[]);
void qstate_pack(char *paths[]);
void qstate_cat(char *paths[]);
void qstate_ls(char *none[]);
void qstate_du(char *none[]);
void qstate_gc(char *none[]);
void qstate_rm(char *digits[]);

/* ----------------------------------------------------------------- states */

/* A state in a file; "-" is stdin, by way of a temporary. */
struct state {
	const char			*name;		/* for messages */
	struct qwen_state_file		*f;
	const struct qwen_state_info	*info;
};

/* To close s->f; or only what is not a part of a state. */
void qstate_open(struct state *s, const char *operand);
void qstate_open_whole(struct state *s, const char *operand);

/*
 * The file of an operand, and its name for messages; of stdin a temporary,
 * which qstate_file_done removes.
 */
const char *qstate_file(const char *operand, const char **name);
void qstate_file_done(void);

/* All bytes from one descriptor to the other; the names are for messages. */
void qstate_copy_bytes(int from, const char *name, int to,
    const char *to_name);

/* ----------------------------------------------------------------- traces */

/* One of qprefill --trace, as it is read. */
struct trace {
	const char		*name;		/* for messages */
	int			 fd;
	struct qwen_reader	*r;
	struct qwen_header	 header;
	struct qwen_record	 rec;		/* the last one, if more */
	int			 more;
};

/*
 * Is the operand a trace?  Then 1, to be closed; 0: something else, and not
 * open.  Dies if that is in a pipe.
 */
int qstate_trace_open(struct trace *t, const char *operand);
void qstate_trace_close(struct trace *t);

void qstate_trace_show(struct trace *t);

/* Whether anything differs. */
int qstate_trace_diff(struct trace t[2]);

/* --------------------------------------------------------------- printing */

/* ,"key":"hex digits" */
void qstate_json_fp(const char *key, const struct qwen_fp *fp);

/*
 * How keys and values are kept, and positions scaled, where that is not f16, and
 * as the model says: members, or facts, each a line, or in one, after others.
 */
void qstate_how(enum qwen_kv k, enum qwen_kv v, const struct qwen_rope *rope,
    int in_line);

/* "true" or "false"; before, and a string of JSON */
const char *qstate_bool(int v);
void qstate_json_text(const char *before, const char *text);

/* A fact beside the session: one, or one row of a list, of so many; or all. */
size_t qstate_rows(const struct qwen_state_value *v);
void qstate_value(const struct qwen_state_value *v, size_t row, int json);
void qstate_json_value(const struct qwen_state_value *v);

/* -------------------------------------------------------------- the store */

/* That of the options or the environment; it is looked at, not made. */
struct qwen_store *qstate_open_store(void);

/*
 * qstate_words() returns 1 and adds the first words of a run to the text, or
 * returns 0 if the run has another vocabulary than the model of
 * qstate_words_open(), or if no model is open.
 */
void qstate_words_open(const char *model);
int qstate_words(struct qwen_text *out, const char *store,
    const struct qwen_store_entry *e);
void qstate_words_close(void);

#endif
