/* SPDX-License-Identifier: ISC */
/* gguf.h - inside of the GGUF reader: one parsed file, the merged directory. */
#ifndef QWEN_GGUF_GGUF_H
#define QWEN_GGUF_GGUF_H

#include "qwen/gguf.h"

#define GGUF_MAGIC "GGUF"
#define GGUF_HEADER_BYTES 24
#define GGUF_NAME_MAX 63		/* bytes in the name of a tensor */
#define GGUF_KEY_MAX 65535
#define GGUF_ALIGN_DEFAULT 32
#define GGUF_ALIGN_MAX (1u << 20)
#define GGUF_RECORDS_MAX (1u << 20)	/* keys, or tensors; real: < 2000 */

/* Metadata of one file. */
struct qwen_gguf_keys {
	struct qwen_gguf_kv	 *v;		/* in file order */
	size_t			  n, cap;
	struct qwen_gguf_kv	**by_key;	/* sorted */
};

/* A tensor with room for the terminated name that the file lacks. */
struct qwen_gguf_entry {
	struct qwen_gguf_tensor	t;
	uint64_t		record;		/* offset of its record */
	char			name[GGUF_NAME_MAX + 1];
};

/* Tensors of all files. */
struct qwen_gguf_dir {
	struct qwen_gguf_entry	 *v;		/* in file order */
	size_t			  n, cap;
	struct qwen_gguf_entry	**by_name;	/* sorted */
};

/* One file. */
struct qwen_gguf_shard {
	char			*path;
	const unsigned char	*map;
	size_t			 bytes;
	int			 mapped;	/* ours to unmap */
	unsigned		 version;
	uint64_t		 alignment;
	uint64_t		 data_offset;
	size_t			 n_tensors;
};

struct qwen_gguf {
	struct qwen_gguf_shard	*shard;
	unsigned		 n_shards;
	size_t			 cap_shards;
	struct qwen_gguf_keys	 keys;		/* of the first */
	struct qwen_gguf_dir	 dir;
	const struct qwen_gguf	*of;		/* whose shards and keys these
						   are, or NULL */
	void			(*release)(void *arg);	/* by close, last; or
							   NULL */
	void			*arg;
};

/*
 * What would be the file called path of this head (padded to where its data
 * begin) and so many bytes in all: addresses with no memory behind them.  For
 * each tensor set t.data, and t.part, to where its data are, or ask for room.
 */
int qwen_gguf_open_head(struct qwen_gguf **out, const char *path,
    const void *head, size_t n_head, uint64_t bytes, struct qwen_err *err);

/*
 * The same once more, which g must outlive: there other data can take a
 * tensor's place (t.type, t.bytes, t.data, t.part of entries in the order of g).
 */
int qwen_gguf_again(struct qwen_gguf **out, const struct qwen_gguf *g,
    struct qwen_err *err);

/* Not so: all data are of files. */
int qwen_gguf_is_file(const struct qwen_gguf *g);

/*
 * n bytes of memory for entry i, to write to, at its address: as many as it has
 * at most.
 */
void *qwen_gguf_room(struct qwen_gguf *g, size_t i, size_t n,
    struct qwen_err *err);

/*
 * Read header, metadata and directory of shard number no, whose map and bytes
 * are set: fill the rest of *s, *keys (empty before), and append to *dir.
 * Whatever the outcome, keys and dir are the caller's to free.
 */
int qwen_gguf_parse(struct qwen_gguf_shard *s, unsigned no,
    struct qwen_gguf_keys *keys, struct qwen_gguf_dir *dir,
    struct qwen_err *err);

/*
 * Sort dir by name, and refuse a name used twice, and tensors that overlap.
 * After the last shard.
 */
int qwen_gguf_index(struct qwen_gguf_dir *dir, struct qwen_err *err);

/*
 * The name of a format whose size is not known here, so that no file with it is
 * opened: one that ggml has retired (below 64), or one of ik_llama.cpp; or NULL.
 */
const char *qwen_gguf_other_type(uint32_t type);

void qwen_gguf_keys_fini(struct qwen_gguf_keys *keys);

/* qwen_gguf_find and qwen_gguf_get_u64 on the keys of any shard. */
const struct qwen_gguf_kv *qwen_gguf_keys_find(
    const struct qwen_gguf_keys *keys, const char *key);
int qwen_gguf_keys_u64(const struct qwen_gguf_keys *keys, const char *key,
    size_t i, uint64_t *out, struct qwen_err *err);

/*
 * Most of the files will be read, and not in order: what is not in memory yet
 * is to come in huge pages, 2 MiB at a time and mapped by one page fault, where
 * the file system has them.  What is in memory already stays as it is.
 */
void qwen_gguf_want_huge(const struct qwen_gguf *g);

/* A file that is in memory already, for tests; buf must outlive *out. */
int qwen_gguf_open_memory(struct qwen_gguf **out, const void *buf,
    size_t len, struct qwen_err *err);

#endif
