/* SPDX-License-Identifier: ISC */
/*
 * qwen.h - libqwen, the public interface.
 *
 * Qwen language models on a CPU: GGUF files, the tokenizer, the forward pass,
 * sampling, and streams and files of tokens, logits and model state.
 *
 * Conventions.  Functions that can fail return 0 (or a count) on success and
 * -1 on failure, and then fill *err, which may be NULL; an out pointer is set
 * to NULL on failure.  X_open pairs with X_close, X_new with X_free; both take
 * NULL.  The library never exits, never writes to stdout or stderr, and never
 * reads the environment.  Objects are not locked: one thread at a time uses
 * one object, but objects that only read (struct qwen_gguf, struct qwen_tok,
 * struct qwen_model) can be shared.
 */
#ifndef QWEN_H
#define QWEN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QWEN_VERSION "0.1.0"

/* ---------------------------------------------------------------- errors */

enum {
	QWEN_EIO = 1,		/* the system refused: read, write, open */
	QWEN_EFORMAT,		/* the bytes are not what they should be */
	QWEN_EUNSUP,		/* well formed, but not something we do */
	QWEN_ENOMEM,		/* out of memory */
	QWEN_ERANGE,		/* a value outside its limits */
	QWEN_EMISMATCH,		/* two things that do not belong together */
	QWEN_EPIPE,		/* the reader went away */
	QWEN_ENUMERIC,		/* a number that is not finite */
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

/* ------------------------------------------------------------------ GGUF */

/*
 * A GGUF file, versions 2 and 3, or all parts of a split one, mapped
 * read-only.  Everything returned points into the mapping (or the object) and
 * lives until close.  Format: the GGUF specification of the ggml project.
 */
struct qwen_gguf;

enum qwen_gguf_type {
	QWEN_GGUF_UINT8, QWEN_GGUF_INT8, QWEN_GGUF_UINT16, QWEN_GGUF_INT16,
	QWEN_GGUF_UINT32, QWEN_GGUF_INT32, QWEN_GGUF_FLOAT32, QWEN_GGUF_BOOL,
	QWEN_GGUF_STRING, QWEN_GGUF_ARRAY, QWEN_GGUF_UINT64, QWEN_GGUF_INT64,
	QWEN_GGUF_FLOAT64, QWEN_GGUF_N_TYPES
};

/* One metadata record. */
struct qwen_gguf_kv {
	struct qwen_str		 key;
	enum qwen_gguf_type	 type;
	enum qwen_gguf_type	 elem;	/* type of the elements if an ARRAY,
					   else equal to type */
	uint64_t		 n;	/* elements; 1 unless an ARRAY */
	const unsigned char	*data;	/* little-endian, unaligned; a string
					   begins with its u64 length */
	size_t			 bytes;	/* of data */
	uint64_t		 offset;/* of the record in its file */
};

/* One tensor; ne[0] is the contiguous dimension, unused ones are 1. */
struct qwen_gguf_tensor {
	const char	*name;		/* NUL-terminated */
	uint32_t	 type;		/* ggml type, see qwen_quant_name */
	uint32_t	 n_dims;
	uint64_t	 ne[4];
	uint64_t	 offset;	/* of the data in its file, absolute */
	uint64_t	 bytes;
	const void	*data;		/* in the mapping */
	unsigned	 shard;		/* which file, 0 .. n_shards - 1 */
};

/* Name ("UINT32") and bytes (0 for STRING and ARRAY) of a metadata type. */
const char *qwen_gguf_type_name(enum qwen_gguf_type type);
size_t qwen_gguf_type_bytes(enum qwen_gguf_type type);

int qwen_gguf_open(struct qwen_gguf **out, const char *path,
    struct qwen_err *err);
void qwen_gguf_close(struct qwen_gguf *g);

unsigned qwen_gguf_version(const struct qwen_gguf *g);
unsigned qwen_gguf_n_shards(const struct qwen_gguf *g);
const char *qwen_gguf_path(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_file_bytes(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_data_offset(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_alignment(const struct qwen_gguf *g);

/* Metadata of the first shard, in file order. */
size_t qwen_gguf_n_kv(const struct qwen_gguf *g);
const struct qwen_gguf_kv *qwen_gguf_kv(const struct qwen_gguf *g, size_t i);
const struct qwen_gguf_kv *qwen_gguf_find(const struct qwen_gguf *g,
    const char *key);

/*
 * Typed reads.  Return 1 if the key is there and fits, 0 if it is absent (the
 * out value is left alone), -1 with *err if it has another type or range.
 * Integers convert between widths; element i of an array is taken where the
 * record is an array (i = 0 reads a scalar too).
 */
int qwen_gguf_get_u64(const struct qwen_gguf *g, const char *key, size_t i,
    uint64_t *out, struct qwen_err *err);
int qwen_gguf_get_f64(const struct qwen_gguf *g, const char *key, size_t i,
    double *out, struct qwen_err *err);
int qwen_gguf_get_bool(const struct qwen_gguf *g, const char *key, size_t i,
    int *out, struct qwen_err *err);
int qwen_gguf_get_str(const struct qwen_gguf *g, const char *key,
    struct qwen_str *out, struct qwen_err *err);

/*
 * Walk the strings of an ARRAY of STRING (or one STRING): start with *pos = 0;
 * returns 1 and the next string, 0 at the end.  Never fails: open checked it.
 */
int qwen_gguf_next_str(const struct qwen_gguf_kv *kv, size_t *pos,
    struct qwen_str *out);

/* Tensors, in file order, shard after shard. */
size_t qwen_gguf_n_tensors(const struct qwen_gguf *g);
const struct qwen_gguf_tensor *qwen_gguf_tensor(const struct qwen_gguf *g,
    size_t i);
const struct qwen_gguf_tensor *qwen_gguf_find_tensor(
    const struct qwen_gguf *g, const char *name);

/* ---------------------------------------------------- tensor number formats */

/* Name ("Q4_K"), elements and bytes of a block; 0 or NULL for unknown types. */
const char *qwen_quant_name(uint32_t type);
size_t qwen_quant_block_len(uint32_t type);
size_t qwen_quant_block_bytes(uint32_t type);

/* 1 if the library can compute with the type (and dequantise it). */
int qwen_quant_supported(uint32_t type);

/*
 * The numbers that n elements (a multiple of the block length) at src stand
 * for.  -1 if the type is not supported.
 */
int qwen_quant_dequantize(uint32_t type, const void *src, float *dst,
    size_t n, struct qwen_err *err);

/*
 * Look for scales that are NaN or infinite (or, in float types, such values)
 * in n elements.  Returns the index of the first block that has one, or -1.
 */
int64_t qwen_quant_find_nonfinite(uint32_t type, const void *src, size_t n);

/* @@token@@ */
/* --------------------------------------------------------------- the model */

/*
 * An instruction-set level, "scalar", "avx2" or "avx512": 1 if this CPU has
 * it, 0 if not (then the best below it is used), -1 if there is no such level.
 */
int qwen_cpu_check(const char *level);

/* The version of the arithmetic; equal versions give equal bits. */
unsigned qwen_numerics_version(void);

/* A model ready to compute: the mapped weights, kernels and threads. */
struct qwen_model;

struct qwen_model_opts {
	int		 n_threads;	/* 0: one for each processor */
	const char	*cpu;		/* level not to exceed; NULL: no limit */
};

/* opts may be NULL.  Builds no vocabulary; weights stay in the mapping. */
int qwen_model_open(struct qwen_model **out, const char *path,
    const struct qwen_model_opts *opts, struct qwen_err *err);
void qwen_model_close(struct qwen_model *m);

const struct qwen_gguf *qwen_model_gguf(const struct qwen_model *m);
const char *qwen_model_arch(const struct qwen_model *m);
size_t qwen_model_n_vocab(const struct qwen_model *m);
size_t qwen_model_n_layer(const struct qwen_model *m);	/* without MTP */
size_t qwen_model_n_ctx(const struct qwen_model *m);	/* context_length */
int qwen_model_n_threads(const struct qwen_model *m);

/*
 * Which kernel variant serves each operation and format, one a line, for -v.
 * Returns the text's length, like snprintf.
 */
size_t qwen_model_describe(const struct qwen_model *m, char *buf, size_t size);

/*
 * Hash over hyperparameters, tensor directory and the first 64 bytes of each
 * tensor: milliseconds on a 20 GiB file.
 */
int qwen_model_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * One timeline: the tokens evaluated so far with their KV cache and recurrent
 * state.  The model must outlive it.
 */
struct qwen_session;

int qwen_session_new(struct qwen_session **out, struct qwen_model *m,
    struct qwen_err *err);
void qwen_session_free(struct qwen_session *s);

struct qwen_model *qwen_session_model(const struct qwen_session *s);
size_t qwen_session_n_tokens(const struct qwen_session *s);
const int32_t *qwen_session_tokens(const struct qwen_session *s);

/*
 * The logits that follow the last token, n_vocab of them, or NULL when they
 * were not computed (nothing evaluated, or QWEN_LOGITS_NONE).  Valid until the
 * next call that changes the session.
 */
const float *qwen_session_logits(const struct qwen_session *s);

enum qwen_logits { QWEN_LOGITS_LAST, QWEN_LOGITS_ALL, QWEN_LOGITS_NONE };

struct qwen_eval {
	enum qwen_logits logits;
	size_t	batch;		/* tokens computed together; 0: a default.
				   Never changes a result. */
	/*
	 * Called in order for each row of logits (position of its token,
	 * n_vocab numbers); non-zero stops the evaluation: qwen_session_eval
	 * fails with *err as the callback left it.  May be NULL.
	 */
	int	(*row)(void *arg, size_t pos, const float *logits,
		    struct qwen_err *err);
	/* Called now and then with the tokens done in this call; may be NULL. */
	void	(*progress)(void *arg, size_t done, size_t total);
	void	*arg;
};

/*
 * Append n tokens to the timeline; how may be NULL (logits of the last one).
 * Ids outside the vocabulary and more tokens than n_ctx fail with QWEN_ERANGE
 * before anything changes.  A hidden state or logit that is not finite fails
 * with QWEN_ENUMERIC and names the layer; the session is then of no use.
 */
int qwen_session_eval(struct qwen_session *s, const int32_t *tokens, size_t n,
    const struct qwen_eval *how, struct qwen_err *err);
/* @@sample@@ */
/* @@wire@@ */
/* @@state@@ */

#ifdef __cplusplus
}
#endif

#endif
