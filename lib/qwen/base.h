/* SPDX-License-Identifier: ISC */
/*
 * qwen/base.h - shared by both libraries: errors, strings, fingerprints.
 *
 * Conventions.  Functions that can fail return 0 (or a count) on success and -1
 * on failure.  On failure they fill *err, which may be NULL, and set an out
 * pointer to NULL.  X_open pairs with X_close, X_new with X_free; close and
 * free accept NULL.  The libraries never exit, never write to stdout or stderr,
 * and never read the environment.  Objects have no locks: only one thread at a
 * time may use an object.  Read-only objects (struct qwen_gguf, struct
 * qwen_tok) may be shared by threads.  Sessions may share a struct qwen_model
 * if only one of them computes at a time.
 *
 * Sizes of structs.  A struct that a program fills and passes in (options, a
 * job, struct qwen_eval) gets new members at its end in later versions.  So the
 * library exports each function that takes such a struct as X_sized, whose
 * first argument is the size of the caller's struct; X is a macro that passes
 * sizeof.  Other languages call X_sized.  Members that a shorter struct lacks
 * count as zero.  If the struct is longer than this library knows, the extra
 * bytes must be zero, or the call fails with QWEN_EUNSUP.  Size 0 fails with
 * QWEN_ERANGE.  If the struct pointer is NULL, the size is ignored.
 *
 * The members of all other structs stay as they are while the shared libraries
 * keep their names (.so.0): structs that a function fills in for its caller,
 * structs that another struct or an array contains or points to, and tables of
 * callbacks.  Only structs that the library allocates and shows one at a time
 * through a const pointer may get members at their end.
 */
#ifndef QWEN_QWEN_BASE_H
#define QWEN_QWEN_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QWEN_VERSION "0.2.0"

enum {
	QWEN_EIO = 1,		/* a system call failed: open, read, write */
	QWEN_EFORMAT,		/* malformed or damaged input */
	QWEN_EUNSUP,		/* well-formed input that is not supported */
	QWEN_ENOMEM,		/* out of memory */
	QWEN_ERANGE,		/* a value out of range */
	QWEN_EMISMATCH,		/* two inputs do not belong together */
	QWEN_EPIPE,		/* the reader closed the pipe */
	QWEN_ENUMERIC,		/* a value is NaN or infinite */
	QWEN_EFULL,		/* a memory limit set by the caller */
};

struct qwen_err {
	int	code;		/* one of the above */
	char	msg[240];	/* what is wrong and where; printable, no
				   newline */
};

/*
 * Bytes without a terminating NUL, borrowed from the function that gave them.
 */
struct qwen_str {
	const char	*s;
	size_t		 len;
};

/* 128-bit fingerprints (XXH3-128, canonical byte order). */
struct qwen_fp {
	unsigned char	b[16];
};

/*
 * A span: rows of numbers instead of tokens, such as those of an image.
 * hash stands for what the rows were computed from.  Each row has an id below
 * 0, which follows from the hash and the row's number.  So the ids of a text
 * identify it, whether or not it has spans, and lists of ids are compared,
 * hashed and stored without looking at the spans.
 */
struct qwen_span {
	uint64_t	 start;		/* position of its first row */
	uint64_t	 n;		/* rows, at least QWEN_SPAN_MIN */
	uint32_t	 height, width;	/* of the grid of rows, whose product is
					   n; or 0, 0: the rows follow one
					   another as tokens do */
	struct qwen_fp	 hash;
};

/* An id has 31 bits of the hash, so four ids have 124 of its 128. */
enum { QWEN_SPAN_MIN = 4 };

/* A span and its rows. */
struct qwen_span_rows {
	struct qwen_span span;
	const float	*rows;		/* [n][qwen_model_n_row()]; or NULL */
};

/* Returns the id of row i of a span. */
int32_t qwen_span_id(const struct qwen_span *s, uint64_t i);

/*
 * Returns how many ids the beginnings of two texts share.  Fewer than
 * QWEN_SPAN_MIN rows of a span do not count if the texts differ in the next.
 */
size_t qwen_ids_common(const int32_t *a, size_t n_a, const int32_t *b,
    size_t n_b);

/*
 * Decodes the UTF-8 code point at p, where n > 0 bytes are available, into *c.
 * Returns its length, 1 to 4.  Returns 0 if the bytes are not UTF-8 (overlong,
 * surrogate, above U+10FFFF, stray byte).  Returns minus the number of bytes
 * present if n cuts a code point short.
 */
int qwen_utf8_read(const unsigned char *p, size_t n, uint32_t *c);

/* Returns the length of the longest prefix that is UTF-8; n if all is. */
size_t qwen_utf8_check(const char *text, size_t n);

/*
 * Default version of the arithmetic (numerics) of a model.  Equal versions give
 * equal bits.
 */
#define QWEN_NUMERICS 1
/* All numerics versions that this library computes, one digit each. */
#define QWEN_NUMERICS_ALL "134"

/*
 * KV cache type: how keys, or values, are stored for attention.  F16; Q8_0 and
 * Q4_0: after a rotation of the head, blocks of 32 integers of 8 or 4 bits that
 * share an f16 scale, 34 or 18 bytes per block; F32: unchanged.  See
 * qwen-numerics(7).  OWN chooses by the model: F32 if its file stores the key
 * and value projections in F32, else F16.
 */
enum qwen_kv {
	QWEN_KV_F16, QWEN_KV_Q8_0, QWEN_KV_Q4_0, QWEN_KV_F32, QWEN_KV_N,
	QWEN_KV_OWN = QWEN_KV_N	/* only for qwen_model_open() */
};

/* Returns "f16", "q8_0", "q4_0" or "f32"; NULL for an unknown type. */
const char *qwen_kv_name(enum qwen_kv kv);

/*
 * How positions become RoPE angles: FILE: as the model file says; NONE: without
 * scaling; LINEAR or YARN: scaled, so that texts may be factor times longer
 * than the n_orig tokens of the training context.
 */
enum qwen_rope_kind {
	QWEN_ROPE_FILE, QWEN_ROPE_NONE, QWEN_ROPE_LINEAR, QWEN_ROPE_YARN
};

enum {
	QWEN_ROPE_FACTOR_MAX = 4096,
	QWEN_ROPE_N_MAX = 1 << 20,	/* positions after scaling too */
	QWEN_ROPE_TEXT = 48,
};

struct qwen_rope {
	enum qwen_rope_kind	kind;
	uint32_t		factor;	/* in thousandths, at least 1000 */
	uint32_t		n_orig;	/* 0: from the file */
};

/*
 * qwen_rope_parse reads "none", "linear=2.5", "yarn=4" or "yarn=4,orig=32768";
 * it returns 0, or -1 for any other text.  qwen_rope_text writes this form to
 * buf and returns buf; FILE gives "".  qwen_rope_same returns 1 if both are
 * equal, else 0.
 */
int qwen_rope_parse(struct qwen_rope *out, const char *text);
const char *qwen_rope_text(const struct qwen_rope *r,
    char buf[QWEN_ROPE_TEXT]);
int qwen_rope_same(const struct qwen_rope *a, const struct qwen_rope *b);

#ifdef __cplusplus
}
#endif

#endif
