/* SPDX-License-Identifier: ISC */
/*
 * qwen/gguf.h - model files: metadata, tensors, vocabulary.
 *
 * Needed only to inspect a file: qwen_model_open opens the file itself, and
 * qwen_model_gguf returns it.
 */
#ifndef QWEN_QWEN_GGUF_H
#define QWEN_QWEN_GGUF_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * An open GGUF file, version 2 or 3, or all parts of a split one, mapped
 * read-only.  All returned pointers point into the mapping or the object and
 * live until close.  Format: the GGUF specification of the ggml project.
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
	enum qwen_gguf_type	 elem;	/* type of the elements of an ARRAY,
					   else equal to type */
	uint64_t		 n;	/* elements; 1 except for an ARRAY */
	const unsigned char	*data;	/* little-endian, unaligned; a string
					   begins with its u64 length */
	size_t			 bytes;	/* length of data */
	uint64_t		 offset;/* of the record in its file */
};

/* One tensor; ne[0] is the contiguous dimension, unused dimensions are 1. */
struct qwen_gguf_tensor {
	const char	*name;		/* NUL-terminated */
	uint32_t	 type;		/* ggml type, see qwen_ggml_name */
	uint32_t	 n_dims;
	uint64_t	 ne[4];
	uint64_t	 offset;	/* of the data in its file, absolute */
	uint64_t	 bytes;
	const void	*data;		/* in the mapping */
	unsigned	 shard;		/* index of its file, 0 ..  n_shards -
					   1 */
	/*
	 * In a Hugging Face folder, ne[2] matrices may be separate tensors:
	 * then the address of each matrix, and data is that of the first.  Else
	 * NULL.
	 */
	const void *const *part;
};

/*
 * Return the name ("UINT32") and the size in bytes (0 for STRING and ARRAY) of
 * a metadata type.
 */
const char *qwen_gguf_type_name(enum qwen_gguf_type type);
size_t qwen_gguf_type_bytes(enum qwen_gguf_type type);

/*
 * Opens and maps a file.  If it is split, path is the first part, and the other
 * parts are found by their names.  Checks header, metadata and tensor directory
 * against the lengths of the files; does not read the data of tensors.
 */
int qwen_gguf_open(struct qwen_gguf **out, const char *path,
    struct qwen_err *err);
void qwen_gguf_close(struct qwen_gguf *g);

/*
 * The format version, and the number of files; for each file its name, its
 * length, and the offset of its tensor data, a multiple of the alignment.
 */
unsigned qwen_gguf_version(const struct qwen_gguf *g);
unsigned qwen_gguf_n_shards(const struct qwen_gguf *g);
const char *qwen_gguf_path(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_file_bytes(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_data_offset(const struct qwen_gguf *g, unsigned shard);

/*
 * Metadata of the first shard, in file order; NULL if there is no such record.
 */
size_t qwen_gguf_n_kv(const struct qwen_gguf *g);
const struct qwen_gguf_kv *qwen_gguf_kv(const struct qwen_gguf *g, size_t i);
const struct qwen_gguf_kv *qwen_gguf_find(const struct qwen_gguf *g,
    const char *key);

/*
 * Typed reads.  Return 1 if the key exists and its value fits, 0 if there is no
 * such key (*out is unchanged), -1 with *err for another type or a value out of
 * range.  Integers convert between widths. i is the index of an array element;
 * i = 0 reads a scalar too.
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
 * Iterates over the strings of an ARRAY of STRING (or one STRING): start with
 * *pos = 0.  Returns 1 and the next string, 0 at the end.  Never fails, since
 * qwen_gguf_open checked the array.
 */
int qwen_gguf_next_str(const struct qwen_gguf_kv *kv, size_t *pos,
    struct qwen_str *out);

/* Tensors in file order, shard after shard; NULL if there is no such tensor. */
size_t qwen_gguf_n_tensors(const struct qwen_gguf *g);
const struct qwen_gguf_tensor *qwen_gguf_tensor(const struct qwen_gguf *g,
    size_t i);
const struct qwen_gguf_tensor *qwen_gguf_find_tensor(
    const struct qwen_gguf *g, const char *name);

/*
 * Returns the tensor's data at byte at, which must be below t->bytes; *n is the
 * number of contiguous bytes there.
 */
const unsigned char *qwen_gguf_data(const struct qwen_gguf_tensor *t,
    uint64_t at, uint64_t *n);

/*
 * Name ("Q4_K"), and elements and bytes per block, of a ggml tensor type; NULL
 * or 0 for an unknown type.
 */
const char *qwen_ggml_name(uint32_t type);
size_t qwen_ggml_block_len(uint32_t type);
size_t qwen_ggml_block_bytes(uint32_t type);

/* ------------------------------------------------------------ adapters */

/* A LoRA adapter file, and the scale of its changes: 1 as trained, 0 none. */
struct qwen_adapter {
	const char	*path;
	double		 scale;
};

/* ---------------------------------------------------------- vocabulary */

enum { QWEN_VOCAB_MAX = 1 << 22 };	/* limit of n_vocab */

/* Sets *n to the vocabulary size: ids are 0 ..  *n - 1, padding included. */
int qwen_vocab_size(const struct qwen_gguf *g, size_t *n,
    struct qwen_err *err);

/*
 * Computes the fingerprint of the vocabulary: pre-tokenizer, tokens, types and
 * merges.  Equal fingerprints give equal ids.  Reads only metadata and builds
 * no tokenizer.
 */
int qwen_vocab_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * Reads the id under a key such as tokenizer.ggml.eos_token_id, in a vocabulary
 * of n.  Returns 1 and *id; 0 if there is no such key or its value is -1 of any
 * integer type ("no such token"); -1 if the value is not an id.
 */
int qwen_vocab_id(const struct qwen_gguf *g, const char *key, size_t n,
    int32_t *id, struct qwen_err *err);

/*
 * Lists the ids that end a generation: those under eos_token_id and
 * eot_token_id, and those of <|im_end|> and <|endoftext|>; ascending, without
 * duplicates.  Writes at most max of them to ids; *n is their number.
 */
int qwen_vocab_eog(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

/*
 * Lists the ids of type UNUSED, whose logits are untrained; ascending.  Writes
 * at most max of them to ids; *n is their number.
 */
int qwen_vocab_unused(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
