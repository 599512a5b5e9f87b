/* SPDX-License-Identifier: ISC */
/*
 * qwen/gguf.h - model files: metadata, tensors, vocabulary.
 *
 * Only for what looks into a file: qwen_model_open opens it by itself, and
 * qwen_model_gguf shows what it opened.
 */
#ifndef QWEN_QWEN_GGUF_H
#define QWEN_QWEN_GGUF_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

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
	uint32_t	 type;		/* ggml type, see qwen_ggml_name */
	uint32_t	 n_dims;
	uint64_t	 ne[4];
	uint64_t	 offset;	/* of the data in its file, absolute */
	uint64_t	 bytes;
	const void	*data;		/* in the mapping */
	unsigned	 shard;		/* which file, 0 .. n_shards - 1 */
	/*
	 * Where ne[2] matrices lie apart, in a Hugging Face folder, each of them;
	 * data is that of the first.  Else NULL.
	 */
	const void *const *part;
};

/* Name ("UINT32") and bytes (0 for STRING and ARRAY) of a metadata type. */
const char *qwen_gguf_type_name(enum qwen_gguf_type type);
size_t qwen_gguf_type_bytes(enum qwen_gguf_type type);

/*
 * Open a file and map it; of a split one path is the first part, and the others
 * are found by their names.  Header, metadata and directory are checked against
 * the files' lengths, the data of tensors is not looked at.
 */
int qwen_gguf_open(struct qwen_gguf **out, const char *path,
    struct qwen_err *err);
void qwen_gguf_close(struct qwen_gguf *g);

/*
 * Of the files: the version of the format, how many there are, and of each its
 * name, its length, and where the data of its tensors begins, at a multiple of
 * the alignment.
 */
unsigned qwen_gguf_version(const struct qwen_gguf *g);
unsigned qwen_gguf_n_shards(const struct qwen_gguf *g);
const char *qwen_gguf_path(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_file_bytes(const struct qwen_gguf *g, unsigned shard);
uint64_t qwen_gguf_data_offset(const struct qwen_gguf *g, unsigned shard);

/* Metadata of the first shard, in file order; NULL where there is none. */
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

/* Tensors, in file order, shard after shard; NULL where there is none. */
size_t qwen_gguf_n_tensors(const struct qwen_gguf *g);
const struct qwen_gguf_tensor *qwen_gguf_tensor(const struct qwen_gguf *g,
    size_t i);
const struct qwen_gguf_tensor *qwen_gguf_find_tensor(
    const struct qwen_gguf *g, const char *name);

/* Its data from byte at on, which is below t->bytes; *n follow there. */
const unsigned char *qwen_gguf_data(const struct qwen_gguf_tensor *t,
    uint64_t at, uint64_t *n);

/*
 * Of a number format of tensors by ggml's number: name ("Q4_K"), elements and
 * bytes of a block; 0 or NULL for unknown ones.
 */
const char *qwen_ggml_name(uint32_t type);
size_t qwen_ggml_block_len(uint32_t type);
size_t qwen_ggml_block_bytes(uint32_t type);

/* ------------------------------------------------------------ adapters */

/*
 * A file of small changes to the matrices of a model (LoRA), and how strongly
 * they are meant: 1 as they were trained, 0 not at all.
 */
struct qwen_adapter {
	const char	*path;
	double		 scale;
};

/* ---------------------------------------------------------- vocabulary */

enum { QWEN_VOCAB_MAX = 1 << 22 };	/* ids, and so numbers in a row */

/* Ids go from 0 to *n, exclusive; padding counts. */
int qwen_vocab_size(const struct qwen_gguf *g, size_t *n,
    struct qwen_err *err);

/*
 * Fingerprint of the vocabulary: pre-tokenizer, tokens, types and merges.
 * Equal fingerprints give equal ids.  Reads the file's metadata, builds
 * nothing.
 */
int qwen_vocab_fingerprint(const struct qwen_gguf *g, struct qwen_fp *out,
    struct qwen_err *err);

/*
 * The id under a key such as tokenizer.ggml.eos_token_id, in a vocabulary of n:
 * 1 and *id; 0 where there is no such key, or -1 in its place (as any integer
 * type has it), which means that there is no such token; -1 where it is no id.
 */
int qwen_vocab_id(const struct qwen_gguf *g, const char *key, size_t n,
    int32_t *id, struct qwen_err *err);

/*
 * The ids that end a generation: those of the keys eos_token_id and
 * eot_token_id, and of the texts <|im_end|> and <|endoftext|>; ascending, each
 * once.  Up to max go to ids; *n says how many there are.
 */
int qwen_vocab_eog(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

/*
 * The ids that stand for no token (of type UNUSED): their logits are untrained.
 * Ascending; up to max go to ids, *n says how many there are.
 */
int qwen_vocab_unused(const struct qwen_gguf *g, int32_t *ids, size_t max,
    size_t *n, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
