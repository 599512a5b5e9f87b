/* SPDX-License-Identifier: ISC */
/* gguf.h - internals of the GGUF reader: parsed files, the merged directory. */
#ifndef QWEN_GGUF_GGUF_H
#define QWEN_GGUF_GGUF_H

#include "qwen/gguf.h"

#define GGUF_MAGIC "GGUF"
#define GGUF_HEADER_BYTES 24
#define GGUF_NAME_MAX 63		/* bytes in a tensor name */
#define GGUF_KEY_MAX 65535
#define GGUF_ALIGN_DEFAULT 32
#define GGUF_ALIGN_MAX (1u << 20)
#define GGUF_RECORDS_MAX (1u << 20)	/* keys, or tensors; real files have <
					   2000 */

/* Metadata of one file. */
struct qwen_gguf_keys {
	struct qwen_gguf_kv	 *v;		/* in file order */
	size_t			  n, cap;
	struct qwen_gguf_kv	**by_key;	/* sorted */
};

/* A tensor, with room for a NUL-terminated name, which the file lacks. */
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
	int			 mapped;	/* we must unmap it */
	unsigned		 version;
	uint64_t		 alignment;
	uint64_t		 data_offset;
};

struct qwen_gguf {
	struct qwen_gguf_shard	*shard;
	unsigned		 n_shards;
	size_t			 cap_shards;
	struct qwen_gguf_keys	 keys;		/* of the first shard */
	struct qwen_gguf_dir	 dir;
	const struct qwen_gguf	*of;		/* the file whose shards and
						   keys these are, or NULL */
	void			(*release)(void *arg);	/* called last by close;
							   or NULL */
	void			*arg;
};

/*
 * Opens the file that w would write, without writing it: the head is in memory,
 * the data has addresses but no memory.  Then set t.data
 * and t.part of each tensor, or request memory with qwen_gguf_room.
 */
struct qwen_gguf_writer;
int qwen_gguf_open_head(struct qwen_gguf **out, const char *path,
    struct qwen_gguf_writer *w, struct qwen_err *err);

/*
 * Opens the same file again, with its own directory: other data can replace a
 * tensor there (t.type, t.bytes, t.data, t.part of the entries, in the order of
 * g). g must outlive it.
 */
int qwen_gguf_again(struct qwen_gguf **out, const struct qwen_gguf *g,
    struct qwen_err *err);

/* Returns 1 if all data is in files (neither of the two functions above). */
int qwen_gguf_is_file(const struct qwen_gguf *g);

/*
 * Returns n bytes of writable memory at the address of entry i; n is at most
 * the tensor's size.
 */
void *qwen_gguf_room(struct qwen_gguf *g, size_t i, size_t n,
    struct qwen_err *err);

/*
 * Reads header, metadata and directory of shard number no, whose map and bytes
 * are set: fills the rest of *s and *keys (empty before), and appends to *dir.
 * The caller frees keys and dir even after a failure.
 */
int qwen_gguf_parse(struct qwen_gguf_shard *s, unsigned no,
    struct qwen_gguf_keys *keys, struct qwen_gguf_dir *dir,
    struct qwen_err *err);

/*
 * Sorts dir by name; refuses duplicate names and overlapping tensors.  Call it
 * after the last shard.
 */
int qwen_gguf_index(struct qwen_gguf_dir *dir, struct qwen_err *err);

/*
 * Computes the bytes of a tensor of a known type whose rows are whole blocks;
 * -1 if these, or its elements, exceed INT64_MAX.
 */
int qwen_gguf_tensor_bytes(uint32_t type, const uint64_t ne[4],
    uint64_t *bytes);

/*
 * Returns the name of a tensor format that cannot be opened because its size is
 * unknown here: one that ggml removed (below 64), or one of ik_llama.cpp; NULL
 * for any other.
 */
const char *qwen_gguf_other_type(uint32_t type);

void qwen_gguf_keys_fini(struct qwen_gguf_keys *keys);

/* qwen_gguf_find and qwen_gguf_get_u64 for the keys of any shard. */
const struct qwen_gguf_kv *qwen_gguf_keys_find(
    const struct qwen_gguf_keys *keys, const char *key);
int qwen_gguf_keys_u64(const struct qwen_gguf_keys *keys, const char *key,
    size_t i, uint64_t *out, struct qwen_err *err);

/* Returns a key that begins with the file's architecture: ARCH.name. */
struct qwen_gguf_key { char s[128]; };
struct qwen_gguf_key qwen_gguf_arch_key(const struct qwen_gguf *g,
    const char *name);

/*
 * Says that most of the files will be read, not in order: asks the system to
 * load missing parts in huge pages, 2 MiB per page fault, if the file system
 * supports that.  Pages already in memory stay as they are.
 */
void qwen_gguf_want_huge(const struct qwen_gguf *g);

/* Opens a file that is in memory, for tests; buf must outlive *out. */
int qwen_gguf_open_memory(struct qwen_gguf **out, const void *buf,
    size_t len, struct qwen_err *err);

#endif
