/* SPDX-License-Identifier: ISC */
/*
 * qwen/state.h - sessions in streams and files.
 *
 * qwen_state_save and qwen_state_load_file are what a program needs to keep a
 * timeline; the rest is for text that is chosen in several runs, for files that
 * are parts, and for looking into them.
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
 * A session in a stream or a file: one format for both, qwen-state(5).  Every
 * byte is under a checksum; what is read is accepted whole or not at all.
 */

/* Tokens pos .. pos + n - 1 were generated; all others are from prompts. */
struct qwen_generated {
	uint64_t	 pos, n;
};

/*
 * A run: tokens that one command generates, however often it is interrupted.
 * A state that ends with its tokens can tell of it, so that it can be gone
 * on with; tokens after it end that, and the run is forgotten when saved.
 */
struct qwen_run {
	char		*options;	/* all that decides about its tokens and
					   their number, "n=100 temp=0.7"; NULL:
					   there is no run; owned */
	uint64_t	 from;		/* position of its first token */
	uint64_t	 count;		/* so many so far: from + count is the
					   end of the state */
	uint64_t	 input;		/* the last tokens before it that came
					   with the command, not with a state */
	int		 finished;	/* there will be no more */
	int		 again;		/* asked for as a new one, though one
					   like it may have been there */
	int		 has_base;	/* fingerprint of the state that it and */
	struct qwen_fp	 base;		/* its input were appended to */
};

/*
 * What a state holds beside the session: how its text was made.  Both sides fill
 * it and own parts of it in turn, so no size goes with it.  It changes only
 * with the libraries' names.
 */
struct qwen_state_extra {
	char		*sampler;	/* options as qwen_sampler_describe
					   writes them, or NULL; owned */
	struct qwen_generated *generated;	/* ascending, apart; owned */
	size_t		 n_generated, cap_generated;
	char		 memory[QWEN_SAMPLER_MEMORY];	/* of the sampler, as
					   qwen_sampler_save writes it */
	unsigned char	 pending[4];	/* the last token's bytes of a UTF-8
					   character that is not complete */
	size_t		 n_pending;
	struct qwen_run	 run;
};

/* Free what x owns and make it empty; an empty one is all zero. */
void qwen_state_extra_fini(struct qwen_state_extra *x);

/* Note the options of the sampler, but not its memory. */
int qwen_state_extra_sampler(struct qwen_state_extra *x,
    const struct qwen_sampler *s, struct qwen_err *err);

/* Note that the n tokens from pos on, after all noted so far, are generated. */
int qwen_state_extra_generated(struct qwen_state_extra *x, uint64_t pos,
    uint64_t n, struct qwen_err *err);

/* Note a copy of the run, or with NULL that there is none. */
int qwen_state_extra_run(struct qwen_state_extra *x,
    const struct qwen_run *run, struct qwen_err *err);

/*
 * qwen_sampler_accept of the n tokens of a session, each as a token from the
 * prompt or a generated one, and qwen_sampler_restore of the memory.
 */
int qwen_state_extra_replay(const struct qwen_state_extra *x,
    struct qwen_sampler *s, const int32_t *tokens, size_t n,
    struct qwen_err *err);

/* A fact of these, for who shows or compares them all. */
struct qwen_state_value {
	const char	*group;		/* what it is a part of, or NULL */
	const char	*name;
	int		 there;		/* it, or one of its group */
	int		 last;		/* of its group */
	enum qwen_value_type {
		QWEN_VALUE_NUMBER,	/* data: a uint64_t */
		QWEN_VALUE_FLAG,	/* an int; its name is a participle */
		QWEN_VALUE_TEXT,	/* a text, or NULL */
		QWEN_VALUE_BYTES,
		QWEN_VALUE_LIST,	/* rows of columns unsigned numbers of
					   width bytes, 4 or 8 */
	}		 type;
	const void	*data;		/* as long as x is not changed */
	size_t		 bytes, columns, width;
};

/* The next one, those of a group in a row; *i is 0 at first.  1; 0: no more. */
int qwen_state_extra_next(const struct qwen_state_extra *x, size_t *i,
    struct qwen_state_value *out);

/*
 * A part holds what a chain of states needs from one position to another; see
 * qwen_state_restore.  One is written where from or no_recurrent is set.
 */
struct qwen_state_opts {
	int		no_compress;	/* the form whose data is aligned */
	/* Tokens and KV cache, and checkpoints, from this position on. */
	uint64_t	from;
	/*
	 * As the session was at this checkpoint (without recurrent state: at
	 * any position); 0: at its end.
	 */
	uint64_t	to;
	int		no_checkpoints;	/* only the end */
	int		no_recurrent;	/* no recurrent state and no logits at
					   the end: tokens and KV alone */
	/* qwen_state_save: only what the file does not have; or NULL. */
	struct qwen_state_steps	*steps;
	/* qwen_state_copy and _convert; 0: one for each processor. */
	int		n_threads;
};

/*
 * A file to which one session, while tokens are appended to it, is saved again
 * and again.  The first save begins the file, each later one goes behind all that
 * is there and has what is new, so that until it is complete the file is the
 * state of the one before.  A save that fails leaves the steps as they were: cut
 * the file to its bytes.  from, to and the like must be those of the first save.
 * Such a file is read by its index alone, not as a stream.
 */
struct qwen_state_steps;

int qwen_state_steps_new(struct qwen_state_steps **out, struct qwen_err *err);
void qwen_state_steps_free(struct qwen_state_steps *p);

/* Bytes of the file; 0: none yet.  And: the next save begins another file. */
uint64_t qwen_state_steps_bytes(const struct qwen_state_steps *p);
void qwen_state_steps_forget(struct qwen_state_steps *p);

/* Is more of the file left from earlier saves than in use? */
int qwen_state_steps_worn(const struct qwen_state_steps *p);

/*
 * Write header and records of the session's state.  x and opts may be NULL.  *fp
 * (which may be NULL) becomes its fingerprint, as in the end record: another
 * state has another one.  Encodes on the model's threads.  Checkpoints that
 * were left in a file of state are copied from there.
 */
int qwen_state_save_sized(size_t size, const struct qwen_session *s,
    const struct qwen_state_extra *x, struct qwen_writer *w,
    const struct qwen_state_opts *opts, struct qwen_fp *fp,
    struct qwen_err *err);
#define qwen_state_save(...) \
	qwen_state_save_sized(sizeof(struct qwen_state_opts), __VA_ARGS__)

/*
 * A new session, and *x and *fp (each may be NULL), from a stream of state of
 * which the header was just read.  Reads to the end record, not beyond; the
 * caller goes on with qwen_reader_next.  QWEN_EMISMATCH, with both sides named,
 * if the state is of another model, vocabulary or numerics version.
 */
int qwen_state_load(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_reader *r,
    const struct qwen_record *header, struct qwen_fp *fp,
    struct qwen_err *err);

/*
 * The same from a file, which must hold nothing else.  want (may be NULL) is
 * the fingerprint that it must have.  Messages do not name the file.
 */
int qwen_state_load_file(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, const char *path, const struct qwen_fp *want,
    struct qwen_err *err);

/*
 * The tokens of a state in a file, without a model; what is not needed for them
 * is not read.  *tokens is malloc'd; x and fp may be NULL.
 */
int qwen_state_load_tokens(int32_t **tokens, size_t *n,
    struct qwen_state_extra *x, struct qwen_header *header, const char *path,
    struct qwen_fp *fp, struct qwen_err *err);

/* Fingerprint of the n first tokens of a timeline, which parts are bound to. */
void qwen_state_prefix(const int32_t *tokens, size_t n, struct qwen_fp *out);

/*
 * A state, or a part of one, in a seekable file, opened by its index: tokens,
 * extras and the list of blocks are read and checked; the data of blocks only
 * when they are used, each with its own check.  The descriptor is held, so a
 * file that is renamed over it changes nothing.
 */
struct qwen_state_file;

int qwen_state_open(struct qwen_state_file **out, const char *path,
    struct qwen_err *err);

/* Sessions that need it go on holding it. */
void qwen_state_close(struct qwen_state_file *f);

/* Shape of a layer, as the file says. */
struct qwen_state_layer {
	int		 kv;	/* attention; else DeltaNet */
	uint64_t	 n[5];	/* n_head_kv, n_embd_head, the enum qwen_kv
				   of keys, of values;
				   or n_head_v, dk, dv, rows, channels */
};

/*
 * Byte at of the keys and values of such a layer: which position it is part of,
 * counted from the first one of the first block; and is it of a value?
 */
uint64_t qwen_state_kv_position(const struct qwen_state_layer *l, uint64_t at,
    int *is_value);

struct qwen_state_info {
	struct qwen_header header;
	struct qwen_fp	 fp;		/* of the state */
	int		 converted;	/* by qwen_state_convert, once */
	int		 part;
	uint64_t	 from;		/* where the part begins, or 0 */
	struct qwen_fp	 prefix;	/* of a part: qwen_state_prefix of the
					   tokens before it */
	uint64_t	 n_tokens;	/* the end, as absolute position */
	const int32_t	*tokens;	/* n_tokens - from of them */
	const struct qwen_checkpoint *checkpoints;	/* ascending, */
	size_t		 n_checkpoints;			/* before the end */
	int		 recurrent;	/* it can be gone on from at the end */
	int		 named;		/* the end is named */
	int		 logits;	/* those at the end are there */
	int		 mapped;	/* without compression, aligned */
	uint64_t	 stored, raw;	/* bytes */
	size_t		 n_blocks;
	const struct qwen_state_layer *layers;
	size_t		 n_layers;
	const struct qwen_state_extra *extra;
};

/* All pointers live as long as f. */
const struct qwen_state_info *qwen_state_info(const struct qwen_state_file *f);

struct qwen_state_block {
	const char	*kind;		/* "kv", "delta", ... */
	int64_t		 layer, at;	/* -1: none */
	uint64_t	 off, len;	/* bytes of its object */
	uint64_t	 offset, bytes;	/* in the file, framing included */
	const char	*codec;		/* "" : no data */
};

/* Of no block, if there is none with this number: kind is "". */
void qwen_state_block(const struct qwen_state_file *f, size_t i,
    struct qwen_state_block *out);

/*
 * The n = len bytes that block i stands for, checked and decoded; valid until
 * the next call.
 */
int qwen_state_block_read(struct qwen_state_file *f, size_t i,
    const unsigned char **raw, size_t *n, struct qwen_err *err);

/*
 * Read, check and decode every block of the file (a part is welcome), without a
 * model, on so many threads (0: one for each processor).  Messages name the
 * first bad block.
 */
int qwen_state_verify(const char *path, int n_threads, struct qwen_err *err);

/*
 * Write the state in a file again, without the model: cut to its first opts->to
 * tokens, which must be a checkpoint or (0) its end, with or without
 * checkpoints and compression, on n_threads, as opts (which may be NULL) says;
 * the rest of opts is not looked at.  What need not change is copied as it is stored.
 * Bytes of an incomplete character at a checkpoint are not known.  *fp may be
 * NULL.  QWEN_EUNSUP if the file holds a part.
 */
int qwen_state_copy_sized(size_t size, struct qwen_state_file *f,
    struct qwen_writer *w, const struct qwen_state_opts *opts,
    struct qwen_fp *fp, struct qwen_err *err);
#define qwen_state_copy(...) \
	qwen_state_copy_sized(sizeof(struct qwen_state_opts), __VA_ARGS__)

/*
 * The same with keys and values of these kinds, which must be no finer than the
 * file's (QWEN_EUNSUP).  What comes of it is not the state that reading the
 * tokens with these kinds gives, which is marked in it, and in what goes on from
 * it; a prefix store does not take such.  *loss: the root of the mean square of
 * what is lost, over that of all numbers.
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
 * A session of the longest state with at most n_max tokens (SIZE_MAX: all) that
 * a chain of files holds: one state, or parts in order, the first from 0, each
 * from where the one before ends and with its tokens for prefix.  It ends at
 * the end of a file or at a checkpoint (without recurrent state: anywhere);
 * there may be none, then at 0.  Blocks that are not needed are not read.
 * want_logits as in qwen_session_rewind.  Checkpoints before the end are left
 * in the files until they are needed.  The KV cache of the mapped form is used
 * in place, by a private mapping.  *x (may be NULL) is of the file in which it
 * ends; cut with the rest where it ends before that file does.  QWEN_EMISMATCH
 * as in qwen_state_load.
 */
int qwen_state_restore(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_state_file *const *chain, size_t n_chain,
    size_t n_max, int want_logits, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
