/* SPDX-License-Identifier: ISC */
/*
 * store.h - the parts of the prefix store: qwen-store(5).  Other folders
 * include only qwen/store.h of this folder.
 *
 * name.c	file names, and hashes of prefixes
 * warn.c	opening a store, and its single warning
 * scan.c	the files in a model's folder
 * tree.c	parents and children of the files, folder by folder
 * match.c	the stored prefixes of a prompt
 * node.c	the content of a file
 * lookup.c	restores the longest stored prefix of a prompt
 * insert.c	stores a session
 * sweep.c	removes files so that no child loses its parent
 * gc.c	chooses the files to remove
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
	uint64_t	 max;		/* limit in bytes; 0: no limit */
	int		 by_disk;	/* max is computed from the size of the
					   disk */
	uint64_t	 written;	/* bytes written since the limit was
					   last checked */
	uint64_t	 next;		/* bytes after which the limit is
					   checked */
	void		(*warn)(void *arg, const char *msg);
	void		*arg;
	int		 warned;
};

/* ------------------------------------------------------------------ warn.c */

/* Reports "WHAT: message" through st->warn, once per open store. */
void qwen_store_warn(struct qwen_store *st, const char *what,
    const struct qwen_err *err);

/* ------------------------------------------------------------------ name.c */

enum {
	QWEN_STORE_SKETCH = 20,		/* maximum levels: runs of 2^20
					   tokens */
	QWEN_STORE_NAME = 160,		/* maximum bytes of a file name, with
					   NUL */
	QWEN_STORE_DIR_NAME = 144,	/* maximum bytes of a model's folder
					   name */
	QWEN_STORE_UNIQUE = 17,		/* bytes of 16 hexadecimal digits, with
					   NUL */
};

/* A file's name, which contains everything that is needed to find a prefix. */
struct qwen_store_name {
	enum qwen_store_kind kind;
	struct qwen_fp	 hash;		/* hash of the first `end' tokens */
	uint64_t	 end;
	struct qwen_fp	 parent;	/* KV: hash of the first `from'
					   tokens */
	uint64_t	 from;
	/*
	 * KV of models without recurrent state: half a byte of the hash of the
	 * first from + 2^k tokens, for each k with 2^k tokens in the run.
	 */
	unsigned	 n_sketch;
	unsigned char	 sketch[QWEN_STORE_SKETCH];
};

void qwen_store_name_format(const struct qwen_store_name *n,
    char buf[QWEN_STORE_NAME]);
int qwen_store_name_parse(struct qwen_store_name *n, const char *s);

#define QWEN_STORE_TEMP ".tmp-"		/* followed by 16 digits */
#define QWEN_STORE_GONE ".gone-"	/* followed by 16 digits, -, and the
					   file's name */

/* Writes 16 digits that no other process writes. */
void qwen_store_unique(char buf[QWEN_STORE_UNIQUE]);

/*
 * Compares structs that begin with a position (uint64_t), for qsort() and
 * bsearch().
 */
int qwen_store_by_position(const void *a, const void *b);
/*
 * Sorts n positions ascending, removes duplicates, and returns how many are
 * left.
 */
size_t qwen_store_positions(uint64_t *at, size_t n);

/* Writes and parses the name of a model's folder below v1. */
void qwen_store_dir_format(const struct qwen_header *h,
    char buf[QWEN_STORE_DIR_NAME]);
int qwen_store_dir_parse(struct qwen_header *h, const char *s);

/*
 * Computes the hashes of the first at[i] tokens; `at' ascends.  A hash is the
 * XXH3-128 of the tokens as 32-bit little-endian numbers.  Returns -1 without
 * memory.
 */
int qwen_store_hash(const int32_t *tokens, const uint64_t *at, size_t n,
    struct qwen_fp *out);
unsigned char qwen_store_sketch(const struct qwen_fp *hash);
/* Returns the number of sketch levels of a run of n tokens. */
unsigned qwen_store_levels(uint64_t n);

/* ------------------------------------------------------------------ scan.c */

struct qwen_store_file {
	struct qwen_store_name n;
	int		 bad;		/* unusable: damaged, missing or of no
					   help */
	/* for removing files: */
	int		 to_remove;	/* remove it unless it was used since
					   `used' */
	int64_t		 used;		/* last use, in ns; INT64_MAX: unknown,
					   remove it anyway */
	uint64_t	 bytes;		/* set by gc.c only */
};

struct qwen_store_names {
	char		**name;
	size_t		 n, cap;
};

/*
 * The files in a model's folder, sorted by end, then by the rest of the name.
 */
struct qwen_store_scan {
	char		*path;		/* path of the folder */
	int		 fd;		/* descriptor of the folder */
	struct qwen_store_file *file;
	size_t		 n_file, cap_file;
	struct qwen_store_names gone;	/* files being removed (.gone-) */
	struct qwen_store_names temp;	/* files being written (.tmp-) */
};

/*
 * Opens and reads the folder of this name below v1.  Returns 1; 0 if the folder
 * does not exist; -1 with *err.  With create set, creates a missing folder.
 * Call fini in every case.
 */
int qwen_store_scan(struct qwen_store_scan *sc, const struct qwen_store *st,
    const char *name, int create, struct qwen_err *err);
void qwen_store_scan_fini(struct qwen_store_scan *sc);

/* Reads the same folder again. */
int qwen_store_rescan(struct qwen_store_scan *sc, struct qwen_err *err);

/*
 * Lists the names of the models' folders, ascending.  Call fini in every case.
 */
int qwen_store_models(const struct qwen_store *st,
    struct qwen_store_names *names, struct qwen_err *err);
void qwen_store_names_fini(struct qwen_store_names *names);

/* Returns the path of a file, to be freed; NULL without memory. */
char *qwen_store_path(const struct qwen_store_scan *sc, size_t file);

/* fstatat(2), without following links, and unlinkat(2) of a file. */
int qwen_store_stat(const struct qwen_store_scan *sc, size_t file,
    struct stat *st);
int qwen_store_unlink(const struct qwen_store_scan *sc, size_t file);

/*
 * Opens a draft in the folder under a unique name; the caller commits or drops
 * it.
 */
#define QWEN_STORE_TEMP_NAME (sizeof QWEN_STORE_TEMP + QWEN_STORE_UNIQUE)
struct qwen_tmpfile;
int qwen_store_draft(struct qwen_tmpfile *d, const struct qwen_store_scan *sc,
    char temp[QWEN_STORE_TEMP_NAME], mode_t mode, struct qwen_err *err);

/* ------------------------------------------------------------------ tree.c */

#define QWEN_STORE_NONE SIZE_MAX

struct qwen_store_tree_entry {
	size_t		 file;
	size_t		 depth;
};

/*
 * The tree of the files of a scan.  Arrays are indexed by file, except order.
 */
struct qwen_store_tree {
	size_t		*parent;	/* of a run, the run before it; of a
					   checkpoint, the run that ends at it;
					   or NONE */
	size_t		*children;	/* of a run, the number of runs that
					   continue it */
	size_t		*checkpoint;	/* of a run, the checkpoint at its end,
					   or NONE */
	unsigned char	*reachable;	/* the file and all runs before it
					   exist */
	struct qwen_store_tree_entry *order;	/* all files: trees first, then
						   orphans */
};

/* A model's folder. */
struct qwen_store_folder {
	const struct qwen_store *st;
	struct qwen_header model;
	struct qwen_store_scan sc;
	struct qwen_store_tree tree;
};

/*
 * Calls fn for each model's folder until fn fails. fn may take over *f: it then
 * leaves zeros, with fd -1.
 */
int qwen_store_each(const struct qwen_store *st,
    int (*fn)(void *arg, struct qwen_store_folder *f, struct qwen_err *err),
    void *arg, struct qwen_err *err);
void qwen_store_folder_fini(struct qwen_store_folder *f);

/*
 * Returns the index of the first file of this prefix; runs come before the
 * checkpoint.  Sets *n to the number of these files.
 */
size_t qwen_store_files_at(const struct qwen_store_scan *sc, uint64_t end,
    const struct qwen_fp *hash, size_t *n);

int qwen_store_same(const struct qwen_fp *a, const struct qwen_fp *b);

/* ----------------------------------------------------------------- match.c */

/* A position in a prompt where a file ends. */
struct qwen_store_match_step {
	uint64_t	 at;
	struct qwen_fp	 hash;
	int		 is_stored;	/* the KV of all tokens before it is
					   stored */
	size_t		 kv;		/* the last run of that KV, or NONE */
	size_t		 prev;		/* step where that run begins */
	size_t		 depth;		/* number of runs up to here */
	size_t		 checkpoint;	/* file, or NONE */
};

/*
 * The steps of a prompt, ascending, from position 0. kv and checkpoint are
 * indices of files of the scan.
 */
struct qwen_store_match {
	struct qwen_store_match_step *step;
	size_t		 n_step;
};

/* A position where a session may be cut into files. */
struct qwen_store_cut {
	uint64_t	 at;
	int		 checkpoint;	/* store a checkpoint there */
};

/*
 * Finds the stored prefixes of a prompt.  Each cut gets a step, too, whether or
 * not a file ends there.
 */
int qwen_store_match(struct qwen_store_match *w,
    const struct qwen_store_scan *sc, const int32_t *tokens, size_t n,
    const struct qwen_store_cut *cut, size_t n_cut, struct qwen_err *err);
void qwen_store_match_fini(struct qwen_store_match *w);

/* Computes the steps again after some were marked as stored. */
void qwen_store_match_again(struct qwen_store_match *w,
    const struct qwen_store_scan *sc);

/* Returns the index of the step at this position, or NONE. */
size_t qwen_store_match_at(const struct qwen_store_match *w, uint64_t at);

/* ------------------------------------------------------------------ node.c */

/*
 * Opens a file of the scan and compares it with its name.  QWEN_EFORMAT,
 * QWEN_ERANGE or QWEN_EMISMATCH if they do not match.  The caller still has to
 * compare the tokens of a run with the prompt.
 */
int qwen_store_node_open(struct qwen_state_file **out,
    const struct qwen_store_scan *sc, size_t file,
    const struct qwen_header *model, struct qwen_err *err);

/*
 * Returns a descriptor of the file; -1 with *err if it cannot be opened or is
 * no regular file.
 */
int qwen_store_node_fd(const struct qwen_store_scan *sc, size_t file,
    struct qwen_err *err);

/* Verifies every block of the file, as qwen_state_verify does. */
int qwen_store_node_verify(const struct qwen_store_scan *sc, size_t file,
    int n_threads, struct qwen_err *err);

/*
 * Returns how many of the run's tokens match the n tokens of a prompt from the
 * run's start on.
 */
size_t qwen_store_node_common(const struct qwen_state_file *f,
    const int32_t *tokens, size_t n);

/* Writes the part of the session that the name describes. */
int qwen_store_node_save(int fd, const struct qwen_session *s,
    const struct qwen_store_name *name, struct qwen_err *err);

/* ---------------------------------------------------------------- lookup.c */

/* Marks the file as bad for this scan, and deletes it if it is damaged. */
void qwen_store_discard(struct qwen_store *st, struct qwen_store_scan *sc,
    size_t file, const struct qwen_err *err);

/* Sets the file's time of last use to now. */
void qwen_store_touch(const struct qwen_store_scan *sc, size_t file);

/* ----------------------------------------------------------------- sweep.c */

/*
 * A sweep: which abandoned files it takes, and what it removed.  It also
 * removes the files of the scan whose to_remove is set.
 */
struct qwen_store_sweep {
	time_t		 gone_before;	/* take files that others were removing
					   if they were renamed before this
					   time, */
	int		 all_gone;	/* or all of them */
	/* both pairs count removed files and their bytes */
	uint64_t	 chosen, chosen_bytes;
	uint64_t	 others, other_bytes;
};

int qwen_store_sweep(const struct qwen_store_scan *sc,
    struct qwen_store_sweep *w, struct qwen_err *err);

/* -------------------------------------------------------------------- gc.c */

/* Returns the time of last use, in nanoseconds since 1970. */
static inline int64_t
qwen_store_used(const struct stat *s)
{
	return (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
}

/* Removes temporary files and enforces the limit. */
int qwen_store_clean(struct qwen_store *st, struct qwen_err *err);

/* Returns 1 if the model of this run can continue from any position. */
static inline int
qwen_store_any_cut(const struct qwen_store_name *n)
{
	return n->n_sketch > 0;
}

#endif
