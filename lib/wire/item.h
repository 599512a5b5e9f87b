/* SPDX-License-Identifier: ISC */
/* item.h - one CBOR data item at a time from bytes in memory, over libcbor. */
#ifndef QWEN_WIRE_ITEM_H
#define QWEN_WIRE_ITEM_H

#include <stddef.h>
#include <stdint.h>

#include "qwen/base.h"

enum qwen_item_type {
	QWEN_ITEM_UINT,		/* n */
	QWEN_ITEM_NEGINT,	/* -1 - n */
	QWEN_ITEM_BYTES,	/* n bytes at s */
	QWEN_ITEM_TEXT,		/* likewise, not checked to be UTF-8 */
	QWEN_ITEM_ARRAY,	/* n items follow */
	QWEN_ITEM_MAP,		/* 2n items follow */
	QWEN_ITEM_TAG,		/* n, and one item follows */
	QWEN_ITEM_FLOAT,	/* f */
	QWEN_ITEM_BOOL,		/* n */
	QWEN_ITEM_NULL,		/* null or undefined */
	QWEN_ITEM_OPEN,		/* of indefinite length, or its end */
};

struct qwen_item {
	enum qwen_item_type	 type;
	uint64_t		 n;
	double			 f;
	const unsigned char	*s;	/* in the bytes given */
	size_t			 bytes;	/* the head and, of strings, all */
};

/*
 * The item that begins at p: 1; 0 if it does not end within len bytes, then
 * *want is how many it takes (SIZE_MAX if that does not fit); -1 if it
 * is not CBOR.  Containers and tags give their head only.
 */
int qwen_item_decode(const unsigned char *p, size_t len, struct qwen_item *it,
    size_t *want);

/*
 * Finds where an item with all that it contains ends, while the bytes arrive.
 * Start with all zero.  Definite lengths only, nested QWEN_SPAN_DEPTH deep.
 */
enum { QWEN_SPAN_DEPTH = 8 };

struct qwen_span {
	size_t		 off;			/* bytes known to belong */
	unsigned	 depth;
	uint64_t	 left[QWEN_SPAN_DEPTH];	/* items still to come */
};

/*
 * Go on with the len bytes at p (always from the item's start): 1 complete,
 * and off is its length; 0 more is needed, *want bytes at least; -1 not CBOR, of
 * indefinite length, nested too deep, or more items announced than limit
 * bytes can hold: *why says which.
 */
int qwen_span_step(struct qwen_span *sp, const unsigned char *p, size_t len,
    size_t limit, size_t *want, const char **why);

/* What the value of a key is. */
enum qwen_shape {
	QWEN_SHAPE_UINT,
	QWEN_SHAPE_TEXT,
	QWEN_SHAPE_BYTES,
	QWEN_SHAPE_PATH,	/* text, or bytes */
	QWEN_SHAPE_FP,		/* 16 bytes */
	QWEN_SHAPE_BOOL,
	QWEN_SHAPE_ARRAY,	/* s: where its first item begins */
	QWEN_SHAPE_IDS,		/* bytes with tag 78, n a multiple of 4 */
	QWEN_SHAPE_ROW,		/* likewise with tag 85 */
	QWEN_SHAPE_REALS,	/* with tag 86, n a multiple of 8 */
	QWEN_SHAPE_FLOAT,
};

struct qwen_key {
	const char	*name;
	enum qwen_shape	 shape;
};

enum { QWEN_KEYS_MAX = 40, QWEN_KEY_SHOWN = 32 };

_Static_assert(QWEN_KEYS_MAX <= 64, "there has a bit for each key");

/* The values of a map's keys, those that are known. */
struct qwen_fields {
	uint64_t		 there;		/* bits 1 << key */
	struct qwen_item	 v[QWEN_KEYS_MAX];
	char			 unknown[QWEN_KEY_SHOWN];  /* one more key */
};

/*
 * Take the map that begins at *p, in the *n bytes there, and step over it.  Its
 * keys are text, those of the table there once at most; values of others are
 * passed over.
 */
int qwen_fields_decode(struct qwen_fields *f, const struct qwen_key *keys,
    size_t n_keys, const unsigned char **p, size_t *n, struct qwen_err *err);

#endif
