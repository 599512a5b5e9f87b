/* SPDX-License-Identifier: ISC */
/*
 * qwen/base.h - what both libraries share: errors, texts, fingerprints.
 *
 * Conventions.  Functions that can fail return 0 (or a count) on success and
 * -1 on failure, and then fill *err, which may be NULL; an out pointer is set
 * to NULL on failure.  X_open pairs with X_close, X_new with X_free; both take
 * NULL.  The libraries never exit, never write to stdout or stderr, and never
 * read the environment.  Objects are not locked: one thread at a time uses
 * one object, but objects that only read (struct qwen_gguf, struct qwen_tok)
 * can be shared, and so can a struct qwen_model by sessions of which one at a
 * time computes.
 *
 * Sizes of structs.  A struct that a program fills and passes in (options, a
 * job, struct qwen_eval) gets new members at its end in later versions.  So
 * the library exports the functions that take one as X_sized, whose first
 * argument is the size of the caller's struct, and X is a macro that passes
 * sizeof.  Other languages call X_sized.  The members that a shorter struct
 * lacks count as zero.  In a longer struct the bytes that this library does not
 * know must be zero, else the call fails with QWEN_EUNSUP.  Size 0 fails with
 * QWEN_ERANGE; if the struct is NULL, the size has no meaning.
 *
 * The members of all other structs stay as they are while the shared libraries
 * keep their names (.so.0): structs that a function fills in for its caller, that
 * another struct or an array holds or points to, and tables of callbacks.  Only
 * those that the library makes and shows one at a time by a const pointer
 * may get members at their end.
 */
#ifndef QWEN_QWEN_BASE_H
#define QWEN_QWEN_BASE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QWEN_VERSION "0.1.0"

enum {
	QWEN_EIO = 1,		/* the system refused: read, write, open */
	QWEN_EFORMAT,		/* the bytes are not what they should be */
	QWEN_EUNSUP,		/* well formed, but not something we do */
	QWEN_ENOMEM,		/* out of memory */
	QWEN_ERANGE,		/* a value outside its limits */
	QWEN_EMISMATCH,		/* two things that do not belong together */
	QWEN_EPIPE,		/* the reader went away */
	QWEN_ENUMERIC,		/* a number that is not finite */
	QWEN_EFULL,		/* a limit on memory that was asked for */
};

struct qwen_err {
	int	code;		/* one of the above */
	char	msg[240];	/* what and where; no newline, printable */
};

/* Bytes that are not NUL-terminated, borrowed from whoever handed them out. */
struct qwen_str {
	const char	*s;
	size_t		 len;
};

/* 128-bit fingerprints (XXH3-128, canonical byte order). */
struct qwen_fp {
	unsigned char	b[16];
};

/*
 * The code point that begins at p, where n > 0 bytes are: returns its length, 1
 * to 4, or 0 if p is no UTF-8 (overlong, surrogate, above U+10FFFF, a stray
 * byte), or minus the number of bytes present if they are the beginning of one
 * and n ends it.
 */
int qwen_utf8_read(const unsigned char *p, size_t n, uint32_t *c);

/* Bytes of text before the first that is not UTF-8; n if all is. */
size_t qwen_utf8_check(const char *text, size_t n);

/*
 * The version of the arithmetic that a model is opened with unless another is
 * asked for.  With equal versions bits are equal.
 */
#define QWEN_NUMERICS 1
/* All versions that this library computes, a digit each. */
#define QWEN_NUMERICS_ALL "134"

/*
 * How keys, or values, are kept for attention: as f16; in blocks of 32 whole
 * numbers of 8 or 4 bits that share an f16 scale, 34 or 18 bytes a block, after
 * a rotation of the head; or as they are, f32 (qwen-numerics(7)).  A model's
 * own: f32 if its file has the weights that make them in F32, else f16.
 */
enum qwen_kv {
	QWEN_KV_F16, QWEN_KV_Q8_0, QWEN_KV_Q4_0, QWEN_KV_F32, QWEN_KV_N,
	QWEN_KV_OWN = QWEN_KV_N	/* to qwen_model_open() alone */
};

/* "f16", "q8_0", "q4_0", "f32"; NULL: no such kind. */
const char *qwen_kv_name(enum qwen_kv kv);

/*
 * How positions become the angles of RoPE: as the model's file says, or as they
 * are, or scaled, so that a text may be longer than those of the training: by
 * n_orig tokens, of which there can then be factor times as many.
 */
enum qwen_rope_kind {
	QWEN_ROPE_FILE, QWEN_ROPE_NONE, QWEN_ROPE_LINEAR, QWEN_ROPE_YARN
};

enum {
	QWEN_ROPE_FACTOR_MAX = 4096,
	QWEN_ROPE_N_MAX = 1 << 20,	/* positions, scaled or not */
	QWEN_ROPE_TEXT = 48,
};

struct qwen_rope {
	enum qwen_rope_kind	kind;
	uint32_t		factor;	/* in thousandths, from 1000 on */
	uint32_t		n_orig;	/* 0: as the file says */
};

/*
 * From "none", "linear=2.5", "yarn=4" or "yarn=4,orig=32768", -1 if it is
 * another text; and such a text of it, "" of the file's.
 */
int qwen_rope_parse(struct qwen_rope *out, const char *text);
const char *qwen_rope_text(const struct qwen_rope *r,
    char buf[QWEN_ROPE_TEXT]);
int qwen_rope_same(const struct qwen_rope *a, const struct qwen_rope *b);

#ifdef __cplusplus
}
#endif

#endif
