/* SPDX-License-Identifier: ISC */
/*
 * store.h - the parts of the prefix store: qwen-store(5).  The face of this
 * folder is qwen/store.h: others include nothing else of it.
 *
 * name.c	names of files, and hashes of prefixes
 * warn.c	opening, and the one warning
 * scan.c	what is in the folder of a model
 * tree.c	which of it hangs on what, in each folder in turn
 * walk.c	what of a prompt is there
 * node.c	what is in a file
 * lookup.c	the longest prefix of a prompt, as a session
 * insert.c	a session into the store
 * sweep.c	files away, so that no child loses its parent
 * gc.c		which files those are
 * admin.c	listing, verifying, removing
 */
#ifndef QWEN_STORE_STORE_H
#define QWEN_STORE_STORE_H

#include <sys/stat.h>

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "qwen.h"

struct qwen_store {
	char		*dir;
	uint64_t	 max;		/* 0: no limit */
	int		 by_disk;	/* max is a share of the disk */
	uint64_t	 written;	/* bytes since the last check of it */
	uint64_t	 next;		/* bytes after which it is checked */
	void		(*warn)(void *arg, const char *msg);
	void		*arg;
	int		 warned;
};

/* ------------------------------------------------------------------ warn.c */

/* Once an open store: "WHAT: message". */
void qwen_store_warn(struct qwen_store *st, const char *what,
    const struct qwen_err *err);

/* The most that a store may take of its disk, and the free space; or -1. */
int qwen_store_disk(const struct qwen_store *st, uint64_t *most,
    uint64_t *room);

/* ------------------------------------------------------------------ name.c */

enum {
	QWEN_STORE_SKETCH = 20,		/* levels: runs of 2^20 tokens */
	QWEN_STORE_NAME = 160,		/* bytes of a name, with NUL */
	QWEN_STORE_DIR_NAME = 144,	/* of a model's folder */
	QWEN_STORE_UNIQUE = 17,		/* of 16 hexadecimal digits */
};

/* A file: everything that finding a prefix needs is in its name. */
struct qwen_store_name {
	enum qwen_store_kind kind;
	struct qwen_fp	 hash;		/* of the first end tokens */
	uint64_t	 end;
	struct qwen_fp	 parent;	/* KV: of the first from tokens */
	uint64_t	 from;
	/*
	 * KV of models that can be cut anywhere: half a byte of the hash of
	 * the first from + 2^k tokens, for those k that the run has.
	 */
	unsigned	 n_sketch;
	unsigned char	 sketch[QWEN_STORE_SKETCH];
};

void qwen_store_name_format(const struct qwen_store_name *n,
    char buf[QWEN_STORE_NAME]);
int qwen_store_name_parse(struct qwen_store_name *n, const char *s);

#define QWEN_STORE_TEMP ".tmp-"		/* then 16 digits */
#define QWEN_STORE_GONE ".gone-"	/* then 16 digits, -, and its name */

/* Writes 16 digits that no other process has. */
void qwen_store_unique(char buf[QWEN_STORE_UNIQUE]);

/* For qsort() and bsearch() of what begins with a position. */
int qwen_store_by_position(const void *a, const void *b);
/* Ascending, each once; returns how many are left. */
size_t qwen_store_positions(uint64_t *at, size_t n);

/* Folder of a model, below v1; and back. */
void qwen_store_dir_format(const struct qwen_header *h,
    char buf[QWEN_STORE_DIR_NAME]);
int qwen_store_dir_parse(struct qwen_header *h, const char *s);

/*
 * Hashes of the first at[i] tokens, at ascending: XXH3-128 of the tokens as
 * 32-bit little-endian numbers.  -1: out of memory.
 */
int qwen_store_hash(const int32_t *tokens, const uint64_t *at, size_t n,
    struct qwen_fp *out);
unsigned char qwen_store_sketch(const struct qwen_fp *hash);
/* Levels of the sketch of a run. */
unsigned qwen_store_levels(uint64_t n);

/* ------------------------------------------------------------------ scan.c */

struct qwen_store_file {
	struct qwen_store_name n;
	int		 bad;		/* not to be used */
	/* for those that remove it: */
	int		 victim;	/* it is to go, unless it was used */
	int64_t		 used;		/* since then; at first the end of time */
	uint64_t	 bytes;		/* where somebody asked */
};

struct qwen_store_names {
	char		**name;
	size_t		 n, cap;
};

/* What lies in the folder of a model, by end, then by name. */
struct qwen_store_scan {
	char		*path;		/* of the folder */
	int		 fd;		/* of it */
	struct qwen_store_file *file;
	size_t		 n_file, cap_file;
	struct qwen_store_names gone;	/* what is being removed, */
	struct qwen_store_names temp;	/* and what is being written */
};

/*
 * Opens the folder of this name below v1.  Returns 1; 0 if there is none (then
 * it is created if create is set, and the scan is empty); -1 with *err.  Call
 * fini after any of them.
 */
int qwen_store_scan(struct qwen_store_scan *sc, const struct qwen_store *st,
    const char *name, int create, struct qwen_err *err);
void qwen_store_scan_fini(struct qwen_store_scan *sc);

/* The same folder again. */
int qwen_store_rescan(struct qwen_store_scan *sc, struct qwen_err *err);

/* Names of the folders of models, ascending; fini also after an error. */
int qwen_store_models(const struct qwen_store *st,
    struct qwen_store_names *names, struct qwen_err *err);
void qwen_store_names_fini(struct qwen_store_names *names);

/* Path of a file: free(). NULL: out of memory. */
char *qwen_store_path(const struct qwen_store_scan *sc, size_t file);

/* fstatat(2), which does not follow links, and unlinkat(2) of a file. */
int qwen_store_stat(const struct qwen_store_scan *sc, size_t file,
    struct stat *st);
int qwen_store_unlink(const struct qwen_store_scan *sc, size_t file);

/* A draft in the folder, under a unique name: commit or drop it. */
#define QWEN_STORE_TEMP_NAME (sizeof QWEN_STORE_TEMP + QWEN_STORE_UNIQUE)
struct qwen_draft;
int qwen_store_draft(struct qwen_draft *d, const struct qwen_store_scan *sc,
    char temp[QWEN_STORE_TEMP_NAME], mode_t mode, struct qwen_err *err);

/* ------------------------------------------------------------------ tree.c */

#define QWEN_STORE_NONE SIZE_MAX

struct qwen_store_slot {
	size_t		 file;
	size_t		 depth;
};

/* Of each file of a scan, by index. */
struct qwen_store_tree {
	size_t		*parent;	/* KV: the run before it; checkpoint:
					   the run that ends at it; or NONE */
	size_t		*children;	/* KV: runs that begin at its end */
	size_t		*checkpoint;	/* KV: the one at its end, or NONE */
	unsigned char	*there;		/* with all that is before it */
	struct qwen_store_slot *place;	/* not by index: all files, trees first,
					   then orphans */
};

/* A model's folder. */
struct qwen_store_folder {
	const struct qwen_store *st;
	struct qwen_header model;
	struct qwen_store_scan sc;
	struct qwen_store_tree tree;
};

/* Each in turn until fn fails; fn may take it, and leave zeros with fd -1. */
int qwen_store_each(const struct qwen_store *st,
    int (*fn)(void *arg, struct qwen_store_folder *f, struct qwen_err *err),
    void *arg, struct qwen_err *err);
void qwen_store_folder_fini(struct qwen_store_folder *f);

/*
 * Files of this prefix: index of the first, runs before the checkpoint; *n is
 * set to how many.
 */
size_t qwen_store_files_at(const struct qwen_store_scan *sc, uint64_t end,
    const struct qwen_fp *hash, size_t *n);

int qwen_store_same(const struct qwen_fp *a, const struct qwen_fp *b);

/* ------------------------------------------------------------------ walk.c */

/* A position in a prompt at which a file ends. */
struct qwen_store_step {
	uint64_t	 at;
	struct qwen_fp	 hash;
	int		 there;		/* KV of all tokens before it */
	size_t		 kv;		/* the last run of them; NONE at 0 */
	size_t		 prev;		/* step where that begins */
	size_t		 depth;		/* runs up to here */
	size_t		 checkpoint;	/* or NONE */
};

/* Ascending; the first is at 0.  Numbers are indices of files of the scan. */
struct qwen_store_walk {
	struct qwen_store_step *step;
	size_t		 n_step;
};

/* Where a session may be cut into files. */
struct qwen_store_cut {
	uint64_t	 at;
	int		 checkpoint;	/* there is something to keep there */
};

/* Also with steps at the cuts, whether or not they are. */
int qwen_store_walk(struct qwen_store_walk *w,
    const struct qwen_store_scan *sc, const int32_t *tokens, size_t n,
    const struct qwen_store_cut *cut, size_t n_cut, struct qwen_err *err);
void qwen_store_walk_fini(struct qwen_store_walk *w);

/* Once more, after steps were marked as being there. */
void qwen_store_follow(struct qwen_store_walk *w,
    const struct qwen_store_scan *sc);

/* Index of the step at this position, which has one. */
size_t qwen_store_step_at(const struct qwen_store_walk *w, uint64_t at);

/* ------------------------------------------------------------------ node.c */

/*
 * A file of the scan, opened and compared with its name: QWEN_EFORMAT,
 * QWEN_ERANGE or QWEN_EMISMATCH if it is not what that says.  The tokens of a
 * run are still to be compared with a prompt.
 */
int qwen_store_node_open(struct qwen_state_file **out,
    const struct qwen_store_scan *sc, size_t file,
    const struct qwen_header *model, struct qwen_err *err);

/* Open it: a descriptor, or -1 and *err, also if it is not a regular file. */
int qwen_store_node_fd(const struct qwen_store_scan *sc, size_t file,
    struct qwen_err *err);

/* Verify every block of it, as qwen_state_verify does. */
int qwen_store_node_verify(const struct qwen_store_scan *sc, size_t file,
    int n_threads, struct qwen_err *err);

/* How many of its tokens are those of the prompt, of which n follow from. */
size_t qwen_store_node_common(const struct qwen_state_file *f,
    const int32_t *tokens, size_t n);

/* The part of the session that the name says. */
int qwen_store_node_save(int fd, const struct qwen_session *s,
    const struct qwen_store_name *name, struct qwen_err *err);

/* ---------------------------------------------------------------- lookup.c */

/* The file is not used any more, and removed if it is damaged. */
void qwen_store_discard(struct qwen_store *st, struct qwen_store_scan *sc,
    size_t file, const struct qwen_err *err);

/* It was of use now. */
void qwen_store_touch(const struct qwen_store_scan *sc, size_t file);

/* ----------------------------------------------------------------- sweep.c */

/* What a sweep did, beside removing what the scan has as victims. */
struct qwen_store_sweep {
	time_t		 gone_before;	/* also decide on what others had on
					   its way out before this time, */
	int		 all_gone;	/* or whenever */
	/* increased by what has gone: files and bytes of them */
	uint64_t	 victims, victim_bytes;
	uint64_t	 others, other_bytes;
};

int qwen_store_sweep(const struct qwen_store_scan *sc,
    struct qwen_store_sweep *w, struct qwen_err *err);

/* -------------------------------------------------------------------- gc.c */

/* Time of last use, in nanoseconds. */
static inline int64_t
qwen_store_used(const struct stat *s)
{
	return (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
}

/* Within the limit again, and without litter. */
int qwen_store_clean(struct qwen_store *st, struct qwen_err *err);

/* Returns 1 if the model of this run can continue from any position. */
static inline int
qwen_store_any_cut(const struct qwen_store_name *n)
{
	return n->n_sketch > 0;
}

#endif
