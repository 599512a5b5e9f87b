/* SPDX-License-Identifier: ISC */
/*
 * tok.h - declarations shared by the files of the tokenizer.  Other folders of
 * the library include only qwen/tok.h.
 */
#ifndef QWEN_TOKEN_TOK_H
#define QWEN_TOKEN_TOK_H

#include "qwentext.h"
#include "gguf/vocab.h"
#include "text/token/pre.h"

enum {
	QWEN_SPECIAL_MAX = 1024,	/* bytes of a token that is recognised
					   in text */
	QWEN_MERGES_MAX = 1 << 23,
};

/* ------------------------------------------------------------ hash tables */

enum {
	/*
	 * Longest search in a table.  In tables at most half full, chance never
	 * makes a longer one: then the vocabulary was crafted to collide.
	 */
	QWEN_PROBE_MAX = 512,
};

/* Returns log2 of the number of slots for n entries. */
unsigned qwen_table_bits(size_t n);

/*
 * Returns zeroed memory for a table, to be freed with free().  Uses huge pages
 * if there are any, since touching thousands of small pages would take longer
 * than filling the table.
 */
void *qwen_table_alloc(size_t n, size_t size);

/* ---------------------------------------------------- token texts -> ids */

/*
 * Maps token texts to ids; needed only while the merges are read.  The texts
 * stay in the GGUF file, where 8 bytes, the length, come before each.
 */
struct qwen_textmap {
	const struct qwen_vocab	*v;
	struct qwen_textslot	*slot;
	size_t			 mask;
	unsigned		 bits;		/* log2 of the slots */
	unsigned		 reach;		/* slots that a search may
						   examine */
	size_t			 duplicates;	/* texts that occurred before */
};

/* Of ids with the same text, the first counts; UNUSED ids are ignored. */
int qwen_textmap_init(struct qwen_textmap *m, const struct qwen_vocab *v,
    struct qwen_err *err);
void qwen_textmap_fini(struct qwen_textmap *m);

/*
 * A text to find; 8 bytes before s must be readable.  A search has two steps,
 * so that the memory for many searches is fetched at the same time.
 */
struct qwen_textkey {
	const char	*s;
	size_t		 len;
	uint64_t	 key;
	size_t		 slot;
};

void qwen_textmap_begin(const struct qwen_textmap *m, struct qwen_textkey *k,
    const char *s, size_t len);
int32_t qwen_textmap_find(const struct qwen_textmap *m,
    const struct qwen_textkey *k);	/* -1: no such token */

/* ------------------------------------------------------------------ merges */

struct qwen_merge {
	uint32_t	left, right;
	uint32_t	id;		/* id of the merged token */
};

/* The merge of two neighbours; rank 0: there is none. */
struct qwen_pair {
	uint32_t	rank;		/* from 1; the lowest rank is merged
					   first */
	uint32_t	id;
};

/*
 * The merges: an open-addressing table of 4-byte slots, each with a rank and,
 * above it, some bits of the hash.  Most neighbours have no merge.  The filter,
 * with one bit per hash, is small enough for the cache and finds nearly all of
 * these.
 */
struct qwen_merges {
	uint64_t		*filter;	/* 4 bits per slot */
	uint32_t		*slot;		/* 0: empty */
	size_t			 mask;
	unsigned		 bits;		/* log2 of the slots */
	uint32_t		 rank_mask;
	unsigned		 reach;		/* slots that a search may
						   examine */
	struct qwen_merge	*by_rank;	/* from rank 1 */
	struct qwen_pair	*bytes;		/* [first * 256 + second] */
	int32_t			 byte_id[256];
};

int qwen_merges_init(struct qwen_merges *m, const struct qwen_gguf *g,
    const struct qwen_vocab *v, struct qwen_err *err);
void qwen_merges_fini(struct qwen_merges *m);

/* Checks what qwen_merges_init checks, except the merges themselves. */
int qwen_merges_check(const struct qwen_gguf *g, const struct qwen_vocab *v,
    struct qwen_err *err);

static inline uint64_t
qwen_merge_hash(uint32_t left, uint32_t right)
{
	return left * 0x9e3779b97f4a7c15 + right * 0xc2b2ae3d27d4eb4f;
}

/*
 * Parts of a hash: the bit in the filter, the first slot to examine, and the
 * bits stored in the slot.
 */
static inline size_t
qwen_merge_bit(const struct qwen_merges *m, uint64_t hash)
{
	return (size_t)(hash >> (62 - m->bits));
}

static inline size_t
qwen_merge_home(const struct qwen_merges *m, uint64_t hash)
{
	return (size_t)(hash >> (64 - m->bits));
}

static inline uint32_t
qwen_merge_tag(const struct qwen_merges *m, uint64_t hash)
{
	return (uint32_t)(hash << m->bits >> 32) & ~m->rank_mask;
}

static inline struct qwen_pair
qwen_merge_find(const struct qwen_merges *m, uint32_t left, uint32_t right)
{
	uint64_t hash = qwen_merge_hash(left, right);
	uint32_t tag = qwen_merge_tag(m, hash), slot, rank;
	size_t i = qwen_merge_home(m, hash), bit = qwen_merge_bit(m, hash);
	unsigned n;

	if ((m->filter[bit / 64] >> bit % 64 & 1) == 0)
		return (struct qwen_pair){ 0, 0 };
	for (n = 0; n < m->reach; n++, i = (i + 1) & m->mask) {
		slot = m->slot[i];
		if (slot == 0)
			break;
		rank = slot & m->rank_mask;
		if ((slot ^ rank) == tag && m->by_rank[rank].left == left &&
		    m->by_rank[rank].right == right)
			return (struct qwen_pair){ rank, m->by_rank[rank].id };
	}
	return (struct qwen_pair){ 0, 0 };
}

/* ----------------------------------------------------------- piece -> ids */

/* Memory for long pieces; all zero at first. */
struct qwen_bpe_scratch {
	void	*mem;
	size_t	 bytes;
};

/*
 * Encodes a piece of n > 0 bytes: writes the ids to out, which has room for n.
 * Returns their number; -1 if out of memory, or if the piece has 2 GiB or more.
 */
int64_t qwen_bpe(const struct qwen_merges *m, const unsigned char *p, size_t n,
    int32_t *out, struct qwen_bpe_scratch *scratch, struct qwen_err *err);

/* --------------------------------------------------------- special tokens */

/* Tokens that are recognised in text by their own text. */
struct qwen_specials {
	const struct qwen_vocab	*v;
	int32_t			*id;		/* sorted by text */
	size_t			 n;
	int			 only;		/* first byte of all of them; -1
						   if they differ */
	unsigned char		 first[256];	/* 1 for each byte that one
						   begins with */
};

/* Collects USER_DEFINED tokens; with all set, also CONTROL and UNKNOWN ones. */
int qwen_specials_init(struct qwen_specials *s, const struct qwen_vocab *v,
    int all, struct qwen_err *err);
void qwen_specials_fini(struct qwen_specials *s);

/*
 * Finds the first special token in p from i on, the longest of those that begin
 * there.  Returns its offset, *id and *len. *len is 0 if no complete token is
 * found: then returns the offset where one may begin, depending on text to
 * come, or n if there is none (always, if final is set).
 */
size_t qwen_specials_find(const struct qwen_specials *s,
    const unsigned char *p, size_t i, size_t n, int final, int32_t *id,
    size_t *len);

/* --------------------------------------------------------- byte characters */

/*
 * Vocabularies write each byte as a printable character.  Returns the byte that
 * the character at s (n > 0 bytes) stands for, with *len bytes; -1 if it stands
 * for none.
 */
int qwen_bytemap_read(const unsigned char *s, size_t n, size_t *len);

/* Writes the character of a byte; returns its length, 1 or 2. */
size_t qwen_bytemap_write(unsigned byte, char s[4]);

struct qwen_tok {
	int			 nfc;		/* normalise text to NFC */
	struct qwen_vocab	 v;
	const struct qwen_pre	*pre;
	int			 guessed;	/* pre is assumed: the file
						   names none */
	int32_t			 bos;		/* id to put in front of texts;
						   -1: none */
	unsigned		 what;
	struct qwen_merges	 merges;
	struct qwen_specials	 special[2];	/* index: QWEN_TOK_SPECIAL is
						   set */
	int32_t			 fim[QWEN_FIM_N];	/* only if what has
							   QWEN_TOK_ENCODE */
};

/* Finds the tokens for fill in the middle. */
int qwen_fim_find(struct qwen_tok *t, const struct qwen_gguf *g,
    struct qwen_err *err);

#endif
