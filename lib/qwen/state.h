/* SPDX-License-Identifier: ISC */
/*
 * qwen/state.h - sessions saved in streams and files.
 *
 * To keep a session, a program needs only qwen_state_save and
 * qwen_state_load_file.  The rest is for text that is generated in several
 * runs, for files that hold parts of a state, and for inspecting files.
 */
#ifndef QWEN_QWEN_STATE_H
#define QWEN_QWEN_STATE_H

#include "qwen/sample.h"
#include "qwen/session.h"
#include "qwen/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * States: a session in a stream or a file, one format for both: qwen-state(5).
 * Every byte is checksummed.  A state is accepted completely or not at all.
 */

/* Tokens pos .. pos + n - 1 were generated; all others come from prompts. */
struct qwen_generated {
	uint64_t	 pos, n;
};

/*
 * A run: the tokens that one command generates, however often it is
 * interrupted.  A state that ends with tokens of a run can record it, so that
 * it can be resumed.  Once tokens are appended after it, saving drops the run.
 */
struct qwen_run {
	char		*options;	/* all options that decide its tokens
					   and their number, "n=100 temp=0.7";
					   NULL: no run; owned */
	uint64_t	 from;		/* position of its first token */
	uint64_t	 count;		/* tokens so far: from + count is the
					   end of the state */
	uint64_t	 input;		/* number of tokens before it that came
					   from the command, not a state */
	int		 finished;	/* the run is complete */
	int		 again;		/* a new run was requested even if an
					   equal one may exist */
	int		 has_base;	/* base is set */
	struct qwen_fp	 base;		/* fingerprint of the state that the
					   input was appended to */
};

/*
 * What a state holds beside the session: how its text was made.  Program and
 * library both fill it and own parts of it in turn, so no size goes with it.
 * It changes only with the libraries' names.
 */
struct qwen_state_extra {
	char		*sampler;	/* options by qwen_sampler_describe, or
					   NULL; owned */
	struct qwen_generated *generated;	/* ascending, disjoint; owned */
	size_t		 n_generated, cap_generated;
	char		 memory[QWEN_SAMPLER_MEMORY];	/* of the sampler, by
							   qwen_sampler_save */
	unsigned char	 pending[4];	/* first bytes of an incomplete UTF-8
					   character in the last token */
	size_t		 n_pending;
	struct qwen_run	 run;
};

/* Frees what x owns and empties it; an empty one is all zero. */
void qwen_state_extra_fini(struct qwen_state_extra *x);

/* Records the options of the sampler, but not its memory. */
int qwen_state_extra_sampler(struct qwen_state_extra *x,
    const struct qwen_sampler *s, struct qwen_err *err);

/*
 * Records that the n tokens from pos on were generated; ascending calls only.
 */
int qwen_state_extra_generated(struct qwen_state_extra *x, uint64_t pos,
    uint64_t n, struct qwen_err *err);

/* Records a copy of the run; NULL: there is no run. */
int qwen_state_extra_run(struct qwen_state_extra *x,
    const struct qwen_run *run, struct qwen_err *err);

/*
 * Calls qwen_sampler_accept for the n tokens of a session, as prompt or
 * generated tokens, then qwen_sampler_restore with the memory.
 */
int qwen_state_extra_replay(const struct qwen_state_extra *x,
    struct qwen_sampler *s, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/*
 * One value of struct qwen_state_extra, for callers that show or compare all.
 */
struct qwen_state_value {
	const char	*group;		/* group that it belongs to, or NULL */
	const char	*name;
	int		 there;		/* the value, or one of its group, is
					   set */
	int		 last;		/* last value of its group */
	enum qwen_value_type {
		QWEN_VALUE_NUMBER,	/* data: a uint64_t */
		QWEN_VALUE_FLAG,	/* an int; its name is a participle */
		QWEN_VALUE_TEXT,	/* a string, or NULL */
		QWEN_VALUE_BYTES,
		QWEN_VALUE_LIST,	/* rows of `columns' unsigned integers
					   of `width' bytes, 4 or 8 */
	}		 type;
	const void	*data;		/* valid until x changes */
	size_t		 bytes, columns, width;
};

/*
 * Gets the next value; values of a group are adjacent.  *i is 0 at first.
 * Returns 1, or 0 at the end.
 */
int qwen_state_extra_next(const struct qwen_state_extra *x, size_t *i,
    struct qwen_state_value *out);

/*
 * A part holds what a chain of states needs between two positions; see
 * qwen_state_restore.  qwen_state_save writes a part if from or no_recurrent is
 * set.
 */
struct qwen_state_opts {
	int		no_compress;	/* use the form with aligned data */
	/*
	 * Start of the part: save tokens, KV cache and checkpoints from here
	 * on.
	 */
	uint64_t	from;
	/*
	 * Save the session as it was at this checkpoint (without recurrent
	 * state: at any position); 0: at its end.
	 */
	uint64_t	to;
	int		no_checkpoints;	/* save only the end */
	int		no_recurrent;	/* save no recurrent state and no logits
					   at the end: only tokens and KV */
	/* For qwen_state_save: write only what the file lacks; or NULL. */
	struct qwen_state_steps	*steps;
	/* For qwen_state_copy and _convert; 0: one per processor. */
	int		n_threads;
};

/*
 * Steps: one file to which a session is saved repeatedly while tokens are
 * appended.  The first save begins the file.  Each later save appends what is
 * new, so until it is complete the file is still the state before.  A failed
 * save leaves the steps unchanged: truncate the file to qwen_state_steps_bytes.
 * from, to and similar options must be those of the first save.  Such a file
 * can be read only by its index, not as a stream.
 */
struct qwen_state_steps;

int qwen_state_steps_new(struct qwen_state_steps **out, struct qwen_err *err);
void qwen_state_steps_free(struct qwen_state_steps *p);

/*
 * qwen_state_steps_bytes returns the length of the file; 0 before the first
 * save.  qwen_state_steps_forget makes the next save begin a new file.
 */
uint64_t qwen_state_steps_bytes(const struct qwen_state_steps *p);
void qwen_state_steps_forget(struct qwen_state_steps *p);

/* Returns 1 if more than half of the file is no longer in use, else 0. */
int qwen_state_steps_worn(const struct qwen_state_steps *p);

/*
 * Writes header and records of the session's state. x and opts may be NULL.
 * Sets *fp (may be NULL) to the state's fingerprint, as in the end record;
 * different states have different ones.  Encodes on the model's threads.
 * Copies checkpoints that are still in a state file from there.
 */
int qwen_state_save_sized(size_t size, const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);
#define qwen_state_save(...) \
	qwen_state_save_sized(sizeof(struct qwen_state_opts), __VA_ARGS__)

/*
 * Creates a session, and fills *x and *fp (both may be NULL), from a stream of
 * state whose header was just read.  Reads up to the end record; the caller
 * continues with qwen_reader_next.  QWEN_EMISMATCH if the state is of another
 * model, vocabulary or numerics version; the message names both sides.
 */
int qwen_state_load(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_reader *r,
    const struct qwen_record *header, struct qwen_fp *fp,
    struct qwen_err *err);

/*
 * The same from a file, which must hold nothing else. want (may be NULL) is the
 * fingerprint that the state must have.  Messages do not name the file.
 */
int qwen_state_load_file(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, const char *path, const struct qwen_fp *want,
    struct qwen_err *err);

/*
 * Reads the tokens of a state file without a model, and no data that they do
 * not need.  The caller frees *tokens; x and fp may be NULL.
 */
int qwen_state_load_tokens(int32_t **tokens, size_t *n,
    struct qwen_state_extra *x, struct qwen_header *header, const char *path,
    struct qwen_fp *fp, struct qwen_err *err);

/*
 * Computes the fingerprint of the first n tokens, which identifies what a part
 * continues.
 */
void qwen_state_prefix(const int32_t *tokens, size_t n, struct qwen_fp *out);

/*
 * A state, or a part of one, in a seekable file, opened by its index.  Opening
 * reads and checks the tokens, the extras and the list of blocks.  Data of
 * blocks is read when it is used, and each block has its own checksum.  The
 * file descriptor stays open, so renaming another file over it changes nothing.
 */
struct qwen_state_file;

int qwen_state_open(struct qwen_state_file **out, const char *path,
    struct qwen_err *err);

/* Sessions that still need the file keep it open. */
void qwen_state_close(struct qwen_state_file *f);

/* Shape of a layer, from the file. */
struct qwen_state_layer {
	int		 kv;	/* 1: attention, 0: DeltaNet */
	uint64_t	 n[5];	/* attention: n_head_kv, n_embd_head, types of
				   keys and values (enum qwen_kv); DeltaNet:
				   n_head_v, dk, dv, rows, channels */
};

/*
 * Returns the position that byte at of an attention layer's keys and values
 * belongs to, counted from the first position of the first block; *is_value is
 * 1 if the byte is part of a value, 0 of a key.
 */
uint64_t qwen_state_kv_position(const struct qwen_state_layer *l, uint64_t at,
    int *is_value);

struct qwen_state_info {
	struct qwen_header header;
	struct qwen_fp	 fp;		/* of the state */
	int		 converted;	/* by qwen_state_convert, ever */
	int		 part;
	uint64_t	 from;		/* start of the part, or 0 */
	struct qwen_fp	 prefix;	/* of a part: qwen_state_prefix of the
					   tokens before it */
	uint64_t	 n_tokens;	/* end, as absolute position */
	const int32_t	*tokens;	/* n_tokens - from of them */
	const struct qwen_checkpoint *checkpoints;	/* ascending, all before
							   the end */
	size_t		 n_checkpoints;			/* number of
							   checkpoints */
	int		 recurrent;	/* a session can continue from its
					   end */
	int		 named;		/* the end is a named checkpoint */
	int		 logits;	/* it has logits at its end */
	int		 mapped;	/* uncompressed, aligned form */
	uint64_t	 stored, raw;	/* bytes in the file, and decoded */
	size_t		 n_blocks;
	const struct qwen_state_layer *layers;
	size_t		 n_layers;
	const struct qwen_state_extra *extra;
	const struct qwen_span	*spans;		/* that the tokens are part of,
						   ascending */
	size_t		 n_spans;
};

/* Returns the contents of the file; all pointers live as long as f. */
const struct qwen_state_info *qwen_state_info(const struct qwen_state_file *f);

struct qwen_state_block {
	const char	*kind;		/* "kv", "delta", ... */
	int64_t		 layer, at;	/* -1: does not apply */
	uint64_t	 off, len;	/* range of bytes in its object */
	uint64_t	 offset, bytes;	/* place in the file, framing
					   included */
	const char	*codec;		/* "": no data */
};

/* Describes block i; kind is "" if there is no such block. */
void qwen_state_block(const struct qwen_state_file *f, size_t i,
    struct qwen_state_block *out);

/*
 * Reads, checks and decodes block i: n = len bytes, valid until the next call.
 */
int qwen_state_block_read(struct qwen_state_file *f, size_t i,
    const unsigned char **raw, size_t *n, struct qwen_err *err);

/*
 * Reads, checks and decodes every block of a file (also of a part), without a
 * model, on n_threads threads (0: one per processor).  The message names the
 * first bad block.
 */
int qwen_state_verify(const char *path, int n_threads, struct qwen_err *err);

/*
 * Writes the state in a file again, without the model: cut to its first
 * opts->to tokens (a checkpoint; 0: its end), with or without checkpoints and
 * compression, on n_threads threads. opts may be NULL; its other members are
 * ignored.  Copies blocks that need no change as they are.  The bytes of an
 * incomplete character at a checkpoint are not known.  *fp may be NULL.
 * QWEN_EUNSUP if the file holds a part.
 */
int qwen_state_copy_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, const struct qwen_state_opts *opts,
    struct qwen_fp *fp, struct qwen_err *err);
#define qwen_state_copy(...) \
	qwen_state_copy_sized(sizeof(struct qwen_state_opts), __VA_ARGS__)

/*
 * The same with keys and values converted to types k and v, which must not be
 * more precise than the file's (QWEN_EUNSUP).  The result differs from the
 * state that a session with these types computes; so the state, and every state
 * that continues it, is marked as converted, and prefix stores refuse it.
 * *loss is the root mean square of the error, relative to that of the values.
 */
struct qwen_state_loss {
	double	keys, values;
};

int qwen_state_convert_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, enum qwen_kv k, enum qwen_kv v,
    const struct qwen_state_opts *opts, struct qwen_state_loss *loss,
    struct qwen_fp *fp, struct qwen_err *err);
#define qwen_state_convert(...) \
	qwen_state_convert_sized(sizeof(struct qwen_state_opts), __VA_ARGS__)

/*
 * Creates a session from the longest state of at most n_max tokens (SIZE_MAX:
 * all) in a chain of files: one state, or parts in order.  The first part
 * begins at 0; each next part begins where the previous one ends and has its
 * tokens as prefix.  The session ends at the end of a file or at a checkpoint
 * (without recurrent state: anywhere), or at 0 without a checkpoint.  Blocks that
 * are not needed are not read.  want_logits as in qwen_session_rewind.
 * Checkpoints before the end stay in the files until they are needed.  The KV
 * cache of the aligned form is used in place through a private mapping.  *x
 * (may be NULL) is that of the file in which the session ends, cut if the
 * session ends before the file does.  QWEN_EMISMATCH as in qwen_state_load.
 */
int qwen_state_restore(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_state_file *const *chain, size_t n_chain,
    size_t n_max, int want_logits, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
