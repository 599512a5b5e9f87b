/* SPDX-License-Identifier: ISC */
/* item.h - decodes one CBOR item at a time from memory, with libcbor. */
#ifndef QWEN_WIRE_ITEM_H
#define QWEN_WIRE_ITEM_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

enum qwen_cbor_item_type {
	QWEN_ITEM_UINT,		/* n */
	QWEN_ITEM_NEGINT,	/* -1 - n */
	QWEN_ITEM_BYTES,	/* n bytes at s */
	QWEN_ITEM_TEXT,		/* n bytes at s, not checked to be UTF-8 */
	QWEN_ITEM_ARRAY,	/* n items follow */
	QWEN_ITEM_MAP,		/* 2n items follow */
	QWEN_ITEM_TAG,		/* tag n; one item follows */
	QWEN_ITEM_FLOAT,	/* f */
	QWEN_ITEM_BOOL,		/* n */
	QWEN_ITEM_NULL,		/* null or undefined */
	QWEN_ITEM_OPEN,		/* indefinite length, or its end */
};

struct qwen_cbor_item {
	enum qwen_cbor_item_type	 type;
	uint64_t		 n;
	double			 f;
	const unsigned char	*s;	/* in the given bytes */
	size_t			 bytes;	/* length of the head, or of a whole
					   string */
};

/*
 * Decodes the item at p.  Returns 1; 0 if it is longer than len bytes, with
 * *want the length that it needs (SIZE_MAX on overflow); -1 if it is not CBOR.
 * For containers and tags, decodes only the head.
 */
int qwen_cbor_item_decode(const unsigned char *p, size_t len,
    struct qwen_cbor_item *it,
    size_t *want);

/*
 * Finds the end of an item and all that it contains while the bytes arrive.
 * Initially zero.  Only definite lengths, nested at most QWEN_CBOR_DEPTH deep.
 */
enum { QWEN_CBOR_DEPTH = 8 };

struct qwen_cbor_scan {
	size_t		 off;			/* bytes known to belong to the
						   item */
	unsigned	 depth;
	uint64_t	 left[QWEN_CBOR_DEPTH];	/* items still missing */
};

/*
 * Continues with the len bytes at p (always from the item's start).  Returns 1
 * if the item is complete (off is its length); 0 if more is needed, at least
 * *want bytes; -1 if it is not CBOR, has indefinite length, is nested too deep,
 * or announces more items than fit into limit bytes; *why says which.
 */
int qwen_cbor_scan_step(struct qwen_cbor_scan *sp, const unsigned char *p,
    size_t len,
    size_t limit, size_t *want, const char **why);

/* Type of a key's value. */
enum qwen_shape {
	QWEN_SHAPE_UINT,
	QWEN_SHAPE_INT,		/* UINT or NEGINT */
	QWEN_SHAPE_TEXT,
	QWEN_SHAPE_BYTES,
	QWEN_SHAPE_PATH,	/* text, or bytes */
	QWEN_SHAPE_FP,		/* 16 bytes */
	QWEN_SHAPE_BOOL,
	QWEN_SHAPE_ARRAY,	/* s: the first item */
	QWEN_SHAPE_IDS,		/* bytes with tag 78, n a multiple of 4 */
	QWEN_SHAPE_ROW,		/* the same with tag 85 */
	QWEN_SHAPE_REALS,	/* the same with tag 86, n a multiple of 8 */
	QWEN_SHAPE_FLOAT,
};

struct qwen_key {
	const char	*name;
	enum qwen_shape	 shape;
};

enum { QWEN_KEYS_MAX = 40, QWEN_KEY_SHOWN = 32 };

_Static_assert(QWEN_KEYS_MAX <= 64, "there has a bit for each key");

/* The values of a map's known keys. */
struct qwen_fields {
	uint64_t		 there;		/* the last unknown key, or
						   "" */
	struct qwen_cbor_item	 v[QWEN_KEYS_MAX];
	char			 unknown[QWEN_KEY_SHOWN];  /* one of the unknown
							      keys */
};

/*
 * Decodes the map at *p, in *n bytes, and advances past it.  Its keys must be
 * text; those of the table may occur once, others are ignored.
 */
int qwen_fields_decode(struct qwen_fields *f, const struct qwen_key *keys,
    size_t n_keys, const unsigned char **p, size_t *n, struct qwen_err *err);

#endif
