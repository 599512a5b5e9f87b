/* SPDX-License-Identifier: ISC */
/*
 * qwen/store.h - a folder of states, found by their tokens.
 *
 * Order of calls: open, restore, evaluate the missing tokens, insert; or pass
 * the store to qwen/work.h.  The second half of this header serves to inspect
 * and clean the folder.
 */
#ifndef QWEN_QWEN_STORE_H
#define QWEN_QWEN_STORE_H

#include "qwen/session.h"
#include "qwen/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A prefix store, qwen-store(5): a folder of states.  Any number of processes
 * find the longest stored prefix of a prompt in it and add their own states.
 * Damaged files, races, a full disk or a folder without permissions never cause
 * an error: the store then finds a shorter prefix or none, and warns once.
 */
struct qwen_store;

/*
 * The default limit: a tenth of the file system, or its free space if that is
 * less.
 */
#define QWEN_STORE_MAX_DEFAULT UINT64_MAX

struct qwen_store_opts {
	const char	*dir;
	uint64_t	 max;	/* bytes of all files; 0: no limit; or
				   QWEN_STORE_MAX_DEFAULT */
	/* Called at most once; msg does not name the folder.  May be NULL. */
	void		(*warn)(void *arg, const char *msg);
	void		*arg;
};

/*
 * Opens a store.  Creates the folder if it does not exist; its parent must
 * exist.
 */
int qwen_store_open_sized(size_t size, struct qwen_store **out,
    const struct qwen_store_opts *o, struct qwen_err *err);
#define qwen_store_open(...) \
	qwen_store_open_sized(sizeof(struct qwen_store_opts), __VA_ARGS__)
void qwen_store_close(struct qwen_store *st);

/*
 * Creates a session from the longest stored prefix of the n tokens, with its
 * logits if that is all n.  *out is NULL if no prefix is stored.  Fails only
 * without memory or other resources.
 */
int qwen_store_restore(struct qwen_store *st, struct qwen_session **out,
    struct qwen_model *m, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/*
 * Sets *len to the length of that prefix, for the model of this state header.
 */
int qwen_store_find(struct qwen_store *st, const struct qwen_header *model,
    const int32_t *tokens, size_t n, size_t *len, struct qwen_err *err);

/*
 * Stores the session at its end and at its checkpoints, unless already stored.
 * Then removes the least recently used files until the limit holds.
 */
int qwen_store_insert(struct qwen_store *st, const struct qwen_session *s,
    struct qwen_err *err);

/*
 * A list of all files.  Each run of tokens is followed by the checkpoint at its
 * end, then by the runs that continue it.  Models are ordered by fingerprint;
 * states of one model with other settings (numerics, KV types, RoPE) are listed
 * separately.
 */
enum qwen_store_kind {
	QWEN_STORE_KV,		/* the KV cache of a run of tokens */
	QWEN_STORE_CHECKPOINT,	/* recurrent state and logits at its end */
};

struct qwen_store_entry {
	enum qwen_store_kind kind;
	struct qwen_fp	 model, vocab;
	uint32_t	 numerics;
	enum qwen_kv	 k, v;		/* KV cache types */
	struct qwen_rope rope;		/* RoPE scaling */
	struct qwen_fp	 prefix;	/* hash of the first `end' tokens */
	uint64_t	 from, end;	/* the run; of a checkpoint from =
					   end */
	size_t		 depth;		/* number of runs before it */
	int		 orphan;	/* the run that it continues is
					   missing */
	uint64_t	 bytes;
	int64_t		 used;		/* last use, seconds since 1970 */
	const char	*path;		/* of the file, relative to dir */
};

struct qwen_store_list;

int qwen_store_list(struct qwen_store_list **out, struct qwen_store *st,
    struct qwen_err *err);
size_t qwen_store_list_n(const struct qwen_store_list *l);
const struct qwen_store_entry *qwen_store_list_at(
    const struct qwen_store_list *l, size_t i);
void qwen_store_list_free(struct qwen_store_list *l);

struct qwen_store_gc_result {
	uint64_t	 files, bytes;			/* removed */
	uint64_t	 left_files, left_bytes;	/* remaining */
};

/*
 * Removes temporary files that no process has locked, orphans older than an
 * hour, and the least recently used files until all files take at most max
 * bytes (as in struct qwen_store_opts). out may be NULL.
 */
int qwen_store_gc(struct qwen_store *st, uint64_t max,
    struct qwen_store_gc_result *out, struct qwen_err *err);

/*
 * Reads all files and compares them with their checksums and names.  Calls bad
 * with the path (relative to dir) and the problem of each bad file, and deletes
 * the file if remove is set.  Sets *files to the number of files, *n_bad to
 * that of bad ones.
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
 * Removes the runs and checkpoints whose prefix hash or model fingerprint
 * begins with these hexadecimal digits, and everything that continues them;
 * NULL: all files.  QWEN_ERANGE if the digits match nothing, or several
 * prefixes or models.  Sets only the `removed' members of *out.
 */
int qwen_store_remove(struct qwen_store *st, const char *digits,
    struct qwen_store_gc_result *out, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
