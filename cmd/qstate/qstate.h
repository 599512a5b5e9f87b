/* SPDX-License-Identifier: ISC */
/* qstate.h - what the commands of qstate share; each is a file of its own. */
#ifndef QSTATE_H
#define QSTATE_H

#include <stddef.h>
#include <stdint.h>

#include "qwen.h"
#include "qwentext.h"
#include "tool/tool.h"

/* What the command line says. */
struct qstate_opts {
	const char		*model;
	const char		*output;	/* NULL: stdout */
	int			 n_threads;
	uint64_t		 count;
	int			 all, json, remove, tokens;
	const char		*store;
	uint64_t		 store_max;	/* 0: no limit */
	struct qwen_state_opts	 state;
};

extern struct qstate_opts qstate_opt;

/* --------------------------------------------------------------- commands */

/* They die of what they cannot do; operands end in NULL. */
void qstate_show(char *paths[]);
void qstate_verify(char *paths[]);	/* without a path: the store */
void qstate_slice(char *paths[]);
void qstate_pack(char *paths[]);
void qstate_cat(char *paths[]);
void qstate_ls(char *none[]);
void qstate_du(char *none[]);
void qstate_gc(char *none[]);
void qstate_rm(char *digits[]);

/* The exit status: 0 if they are equal, 1 if not. */
int qstate_diff(char *paths[]);

/* ----------------------------------------------------------------- states */

/* A state in a file; "-" is stdin, by way of a temporary. */
struct state {
	const char			*name;		/* for messages */
	struct qwen_state_file		*f;
	const struct qwen_state_info	*info;
};

void qstate_open(struct state *s, const char *operand);
void qstate_close(struct state *s);

/*
 * The file behind an operand, and its name for messages; of stdin a temporary,
 * which qstate_file_done removes.
 */
const char *qstate_file(const char *operand, const char **name);
void qstate_file_done(void);

/* All bytes from one descriptor to the other; the names are for messages. */
void qstate_copy_bytes(int from, const char *name, int to,
    const char *to_name);

/* The state to -o or stdout, in the form that the options say. */
void qstate_write_copy(struct state *s);

/* --------------------------------------------------------------- printing */

/* One word or more of a file, whatever it holds. */
void qstate_print_masked(const char *s);

/* ,"key":"hex digits" */
void qstate_json_fp(const char *key, const struct qwen_fp *fp);

/* "true" or "false" */
const char *qstate_json_bool(int v);

/* ------------------------------------------------------------------- show */

/* Blocks of a kind, or all. */
struct sum {
	const char	*kind;
	uint64_t	 blocks, raw, stored;
};

enum { MAX_KINDS = 32 };

/* By kind, in the order of their first blocks; what is too much is "other". */
size_t qstate_sum_kinds(const struct state *s, struct sum sum[MAX_KINDS]);

void qstate_show_json(const struct state *s);

/* ------------------------------------------------------------------- diff */

/* A number of a state: bytes that belong to one object, from the first on. */
struct object {
	const char	*kind;
	int64_t		 layer, at;
	uint64_t	 bytes;
};

/* Where two objects part. */
struct part {
	uint64_t	 count;		/* numbers that differ */
	uint64_t	 index;		/* of the first, in position if kv */
	uint64_t	 position;
	int		 v;		/* it is of V, not K */
	uint32_t	 a, b;		/* its bits */
};

/* The state's *n objects, to free; those of other kinds are not compared. */
struct object *qstate_objects(const struct state *s, size_t *n);

/* limit: positions that both have, of the KV cache. */
void qstate_compare(struct part *d, struct state *sa, struct state *sb,
    const struct object *oa, const struct object *ob, uint64_t limit);

/* Lines of diff so far, which are the elements of JSON. */
extern int qstate_n_differ;

/* A fact that differs; the words are plain. */
void qstate_differ_text(const char *what, const char *a, const char *b);
void qstate_differ_number(const char *what, uint64_t a, uint64_t b);

/* What one side has and the other has not. */
void qstate_differ_only(const char *side, const char *kind, int64_t layer,
    uint64_t at);

/* The token at position i; "-" where a side ends. */
void qstate_differ_token(uint64_t i, const char *a, const char *b);
void qstate_differ_part(const struct object *o, const struct part *d);

/* -------------------------------------------------------------- the store */

/* That of the options or the environment; it is looked at, not made. */
struct qwen_store *qstate_open_store(void);
struct qwen_store_list *qstate_list_store(struct qwen_store *st);

/* Is this the first entry of another model? */
int qstate_begins_model(const struct qwen_store_list *l, size_t i);
void qstate_print_removed(const struct qwen_store_gc_result *r);

#endif
