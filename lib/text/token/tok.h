/* SPDX-License-Identifier: ISC */
/*
 * tok.h - inside of the tokenizer: merges, special tokens.  The face of this
 * folder is qwen/tok.h: others include nothing else of it.
 */
#ifndef QWEN_TOKEN_TOK_H
#define QWEN_TOKEN_TOK_H

#include "qwentext.h"
#include "gguf/vocab.h"
#include "text/token/pre.h"

enum {
	QWEN_SPECIAL_MAX = 1024,	/* bytes of a token found in text */
	QWEN_MERGES_MAX = 1 << 23,
};

/* ------------------------------------------------------------ hash tables */

enum {
	/*
	 * Slots looked at for a place before a vocabulary is called hostile:
	 * in tables at most half full, chance makes no row of them this long.
	 */
	QWEN_PROBE_MAX = 512,
};

/* log2 of the slots for n entries. */
unsigned qwen_table_bits(size_t n);

/*
 * Zeroed memory for a table, to free(); in huge pages if there are any, since
 * taking up thousands of small ones costs more than filling the table.
 */
void *qwen_table_alloc(size_t n, size_t size);

/* ------------------------------------------------- text of tokens -> ids */

/*
 * Built to read the merges, then thrown away.  Texts are those of the file,
 * so a text is preceded by 8 readable bytes, those of its length.
 */
struct qwen_textmap {
	const struct qwen_vocab	*v;
	struct qwen_textslot	*slot;
	size_t			 mask;
	unsigned		 bits;		/* log2 of the slots */
	unsigned		 reach;		/* slots a search may look at */
	size_t			 duplicates;	/* texts seen before */
};

/* Of ids with the same text the first counts; UNUSED ones do not. */
int qwen_textmap_init(struct qwen_textmap *m, const struct qwen_vocab *v,
    struct qwen_err *err);
void qwen_textmap_fini(struct qwen_textmap *m);

/*
 * A text to look for: 8 bytes before s are readable.  In two steps, so that
 * the memory of many can be on its way at the same time.
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
	uint32_t	id;		/* of the two together */
};

/* What two neighbours become; rank 0: nothing. */
struct qwen_pair {
	uint32_t	rank;		/* from 1, the lowest goes first */
	uint32_t	id;
};

/*
 * An open-addressing table of ranks, 4 bytes a slot, with some bits of the hash
 * above the rank.  Most neighbours have no merge; the filter, a bit for a hash
 * and small enough to stay in cache, tells that of nearly all.
 */
struct qwen_merges {
	uint64_t		*filter;	/* 4 bits for each slot */
	uint32_t		*slot;		/* 0: empty */
	size_t			 mask;
	unsigned		 bits;		/* log2 of the slots */
	uint32_t		 rank_mask;
	unsigned		 reach;		/* slots a search may look at */
	struct qwen_merge	*by_rank;	/* from 1 */
	struct qwen_pair	*bytes;		/* [first * 256 + second] */
	int32_t			 byte_id[256];
};

int qwen_merges_init(struct qwen_merges *m, const struct qwen_gguf *g,
    const struct qwen_vocab *v, struct qwen_err *err);
void qwen_merges_fini(struct qwen_merges *m);

/* What qwen_merges_init asks of the file, but for the lines themselves. */
int qwen_merges_check(const struct qwen_gguf *g, const struct qwen_vocab *v,
    struct qwen_err *err);

static inline uint64_t
qwen_merge_hash(uint32_t left, uint32_t right)
{
	return left * 0x9e3779b97f4a7c15 + right * 0xc2b2ae3d27d4eb4f;
}

/* What of a hash chooses the bit and the slot, and what is kept in that. */
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

/* ------------------------------------------------------- one piece -> ids */

/* Memory for pieces that are long; all zero at first. */
struct qwen_bpe_scratch {
	void	*mem;
	size_t	 bytes;
};

/*
 * Merge the n > 0 bytes of a piece: the ids go to out, which has room for n of
 * them.  Returns how many, or -1 for want of memory or a piece over 4 GiB.
 */
int64_t qwen_bpe(const struct qwen_merges *m, const unsigned char *p, size_t n,
    int32_t *out, struct qwen_bpe_scratch *scratch, struct qwen_err *err);

/* --------------------------------------------------------- special tokens */

/* Tokens that are found in text as they are written. */
struct qwen_specials {
	const struct qwen_vocab	*v;
	int32_t			*id;		/* by text */
	size_t			 n;
	int			 only;		/* their one first byte, or -1 */
	unsigned char		 first[256];	/* whether one begins so */
};

/* Those of USER_DEFINED type; with all set, CONTROL and UNKNOWN ones too. */
int qwen_specials_init(struct qwen_specials *s, const struct qwen_vocab *v,
    int all, struct qwen_err *err);
void qwen_specials_fini(struct qwen_specials *s);

/*
 * Look for the first special token in p from i on, the longest of those that
 * begin there: returns where, with *id and *len; or with *len = 0 where one
 * may begin that more text must decide, or n (always so if final is set).
 */
size_t qwen_specials_find(const struct qwen_specials *s,
    const unsigned char *p, size_t i, size_t n, int final, int32_t *id,
    size_t *len);

/* --------------------------------------------------- the alphabet of bytes */

/*
 * Vocabularies write a byte as a character that prints.  The character at s (n
 * > 0 bytes) as a byte, its length in *len; -1 if it stands for none.
 */
int qwen_bytemap_read(const unsigned char *s, size_t n, size_t *len);

/* Character of a byte: 1 or 2 bytes, returns how many. */
size_t qwen_bytemap_write(unsigned byte, char s[4]);

struct qwen_tok {
	int			 nfc;		/* text is normalised */
	struct qwen_vocab	 v;
	const struct qwen_pre	*pre;
	int			 guessed;	/* the file does not name it */
	int32_t			 bos;		/* to be put in front, or -1 */
	unsigned		 what;
	struct qwen_merges	 merges;
	struct qwen_specials	 special[2];	/* [QWEN_TOK_SPECIAL set] */
	int32_t			 fim[QWEN_FIM_N];	/* of QWEN_TOK_ENCODE */
};

/* Find the tokens of fill in the middle. */
int qwen_fim_find(struct qwen_tok *t, const struct qwen_gguf *g,
    struct qwen_err *err);

#endif
