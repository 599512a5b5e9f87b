/* SPDX-License-Identifier: ISC */
/*
 * qwen/store.h - a folder of states by the tokens that led to them.
 *
 * open, restore, evaluate what is missing, insert; or give it to qwen/work.h.
 * The second half looks after the folder.
 */
#ifndef QWEN_QWEN_STORE_H
#define QWEN_QWEN_STORE_H

#include "qwen/session.h"
#include "qwen/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A folder of states by the tokens that led to them, qwen-store(5): any number
 * of processes find the longest prefix of a prompt in it and add their own.
 * Damage, races, a full disk or a folder that cannot be read or written never
 * fail: they mean a shorter prefix, or none, and one warning.
 */
struct qwen_store;

/*
 * The limit by the disk: a tenth of the file system, or the free space there if that
 * is less.
 */
#define QWEN_STORE_MAX_DEFAULT UINT64_MAX

struct qwen_store_opts {
	const char	*dir;
	uint64_t	 max;	/* bytes of all files, 0: no limit; or
				   QWEN_STORE_MAX_DEFAULT */
	/* At most once; msg does not name the folder.  May be NULL. */
	void		(*warn)(void *arg, const char *msg);
	void		*arg;
};

/* Makes the folder if it is not there; its parent must be. */
int qwen_store_open_sized(size_t size, struct qwen_store **out,
    const struct qwen_store_opts *o, struct qwen_err *err);
#define qwen_store_open(...) \
	qwen_store_open_sized(sizeof(struct qwen_store_opts), __VA_ARGS__)
void qwen_store_close(struct qwen_store *st);

/*
 * A session of the longest prefix of the n tokens that is stored, with its
 * logits if it is all n; *out is NULL if there is none.  -1 only for want of
 * memory and the like.
 */
int qwen_store_restore(struct qwen_store *st, struct qwen_session **out,
    struct qwen_model *m, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/* How long it would be, for the model of this header of a state. */
int qwen_store_find(struct qwen_store *st, const struct qwen_header *model,
    const int32_t *tokens, size_t n, size_t *len, struct qwen_err *err);

/*
 * Store the session at its end and its checkpoints, as far as that is not done
 * yet, and remove what has not been used for the longest time until the
 * limit is kept.
 */
int qwen_store_insert(struct qwen_store *st, const struct qwen_session *s,
    struct qwen_err *err);

/*
 * All files.  A run of tokens is followed by the checkpoint at its end, then
 * by the runs that go on from there; models ascend by fingerprint, and what one
 * has read in another way is by itself.
 */
enum qwen_store_kind {
	QWEN_STORE_KV,		/* the KV cache of a run of tokens */
	QWEN_STORE_CHECKPOINT,	/* recurrent state and logits at its end */
};

struct qwen_store_entry {
	enum qwen_store_kind kind;
	struct qwen_fp	 model, vocab;
	uint32_t	 numerics;
	enum qwen_kv	 k, v;		/* how keys and values are kept, */
	struct qwen_rope rope;		/* and positions scaled */
	struct qwen_fp	 prefix;	/* hash of the first end tokens */
	uint64_t	 from, end;	/* the run; checkpoint: from = end */
	size_t		 depth;		/* runs before it */
	int		 orphan;	/* what it goes on from is not there */
	uint64_t	 bytes;
	int64_t		 used;		/* last, seconds since 1970 */
	const char	*path;		/* of the file, below dir */
};

struct qwen_store_list;

int qwen_store_list(struct qwen_store_list **out, struct qwen_store *st,
    struct qwen_err *err);
size_t qwen_store_list_n(const struct qwen_store_list *l);
const struct qwen_store_entry *qwen_store_list_at(
    const struct qwen_store_list *l, size_t i);
void qwen_store_list_free(struct qwen_store_list *l);

struct qwen_store_gc_result {
	uint64_t	 files, bytes;			/* that were removed */
	uint64_t	 left_files, left_bytes;	/* that are still there */
};

/*
 * Remove temporaries that no process has locked, orphans older than an hour, and
 * what has not been used for the longest time until all files take at most max
 * bytes (as in struct qwen_store_opts).  out may be NULL.
 */
int qwen_store_gc(struct qwen_store *st, uint64_t max,
    struct qwen_store_gc_result *out, struct qwen_err *err);

/*
 * Read all files and compare them with their checks and names.  bad is told
 * the path (below dir) and the matter of each that is not as it should be; it
 * is removed if remove is set.  *files, and *n_bad of them.
 */
struct qwen_store_verifier {
	void	(*bad)(void *arg, const char *path, const char *msg);
	void	(*progress)(void *arg, uint64_t bytes);	/* may be NULL */
	void	*arg;
	int	 remove;
	int	 n_threads;	/* as in qwen_state_verify */
};

int qwen_store_verify_sized(size_t size, struct qwen_store *st,
    const struct qwen_store_verifier *v, uint64_t *files, uint64_t *n_bad,
    struct qwen_err *err);
#define qwen_store_verify(...) \
	qwen_store_verify_sized(sizeof(struct qwen_store_verifier), __VA_ARGS__)

/*
 * Remove the runs and checkpoints of which the prefix, or the model, begins
 * with these hexadecimal digits, and all that goes on from them; NULL: all
 * there is.  QWEN_ERANGE if nothing does, or if the digits fit several prefixes
 * or models.  Of *out, only what was removed is filled in.
 */
int qwen_store_remove(struct qwen_store *st, const char *digits,
    struct qwen_store_gc_result *out, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
