/* SPDX-License-Identifier: ISC */
/*
 * item.c - decodes one CBOR item at a time from memory, with libcbor, and maps
 * with known keys.
 */
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#include "base/err.h"
#include "wire/item.h"
#include "wire/record.h"

/* Callbacks of libcbor; each stores the item found. */

#define ON(name, value, item, member) \
static void \
on_##name(void *arg, value v) \
{ \
	*(struct qwen_cbor_item *)arg = (struct qwen_cbor_item){ \
	    .type = QWEN_ITEM_##item, .member = v }; \
}

ON(uint8, uint8_t, UINT, n)
ON(uint16, uint16_t, UINT, n)
ON(uint32, uint32_t, UINT, n)
ON(uint64, uint64_t, UINT, n)
ON(negint8, uint8_t, NEGINT, n)
ON(negint16, uint16_t, NEGINT, n)
ON(negint32, uint32_t, NEGINT, n)
ON(negint64, uint64_t, NEGINT, n)
ON(array, size_t, ARRAY, n)
ON(map, size_t, MAP, n)
ON(tag, uint64_t, TAG, n)
ON(float, float, FLOAT, f)
ON(double, double, FLOAT, f)
ON(bool, bool, BOOL, n)

#define ON_STRING(name, item) \
static void \
on_##name(void *arg, cbor_data s, size_t n) \
{ \
	*(struct qwen_cbor_item *)arg = (struct qwen_cbor_item){ \
	    .type = QWEN_ITEM_##item, .n = n, .s = s }; \
}

ON_STRING(bytes, BYTES)
ON_STRING(text, TEXT)

#define ON_MARK(name, item) \
static void \
on_##name(void *arg) \
{ \
	*(struct qwen_cbor_item *)arg = (struct qwen_cbor_item){ \
	    .type = QWEN_ITEM_##item }; \
}

ON_MARK(null, NULL)
ON_MARK(open, OPEN)

static const struct cbor_callbacks callbacks = {
	.uint8 = on_uint8, .uint16 = on_uint16,
	.uint32 = on_uint32, .uint64 = on_uint64,
	.negint8 = on_negint8, .negint16 = on_negint16,
	.negint32 = on_negint32, .negint64 = on_negint64,
	.byte_string_start = on_open, .byte_string = on_bytes,
	.string_start = on_open, .string = on_text,
	.indef_array_start = on_open, .array_start = on_array,
	.indef_map_start = on_open, .map_start = on_map,
	.tag = on_tag, .float2 = on_float, .float4 = on_float,
	.float8 = on_double, .undefined = on_null, .null = on_null,
	.boolean = on_bool, .indef_break = on_open,
};

int
qwen_cbor_item_decode(const unsigned char *p, size_t len,
    struct qwen_cbor_item *it,
    size_t *want)
{
	struct cbor_decoder_result r;

	r = cbor_stream_decode(p, len, &callbacks, it);
	switch (r.status) {
	case CBOR_DECODER_FINISHED:
		it->bytes = r.read;
		return 1;
	case CBOR_DECODER_NEDATA:
		/* libcbor's sum of head and announced length may wrap */
		*want = r.required > len ? r.required : SIZE_MAX;
		return 0;
	default:
		return -1;
	}
}

/*
 * Counts an item as complete, and all containers that it completes.  Returns 1
 * if the outermost item is complete.
 */
static int
complete(struct qwen_cbor_scan *sp)
{
	while (sp->depth > 0) {
		if (--sp->left[sp->depth - 1] > 0)
			return 0;
		sp->depth--;
	}
	return 1;
}

int
qwen_cbor_scan_step(struct qwen_cbor_scan *sp, const unsigned char *p,
    size_t len,
    size_t limit, size_t *want, const char **why)
{
	struct qwen_cbor_item it;
	uint64_t n;
	int r;

	for (;;) {
		r = qwen_cbor_item_decode(p + sp->off, len - sp->off, &it,
		    want);
		if (r == 0) {
			*want = *want > SIZE_MAX - sp->off ? SIZE_MAX :
			    *want + sp->off;
			return 0;
		}
		*why = r < 0 ? "not CBOR" : "an item of indefinite length";
		if (r < 0 || it.type == QWEN_ITEM_OPEN)
			return -1;
		sp->off += it.bytes;
		n = it.type == QWEN_ITEM_TAG ? 1 :
		    it.type == QWEN_ITEM_ARRAY || it.type == QWEN_ITEM_MAP ?
		    it.n : 0;
		if (n == 0) {
			if (complete(sp))
				return 1;
			continue;
		}
		*why = "more items announced than a record can hold";
		if (n > limit)
			return -1;
		*why = "items nested too deep";
		if (sp->depth == QWEN_CBOR_DEPTH)
			return -1;
		sp->left[sp->depth++] = it.type == QWEN_ITEM_MAP ? 2 * n : n;
	}
}

/* --------------------------------------------------------------------- maps */

static const struct {
	const char		*what;
	enum qwen_cbor_item_type	 type;
	uint64_t		 tag;
} shapes[] = {
	[QWEN_SHAPE_UINT] = { "a whole number", QWEN_ITEM_UINT, 0 },
	[QWEN_SHAPE_INT] = { "an integer", QWEN_ITEM_UINT, 0 },
	[QWEN_SHAPE_TEXT] = { "text", QWEN_ITEM_TEXT, 0 },
	[QWEN_SHAPE_BYTES] = { "bytes", QWEN_ITEM_BYTES, 0 },
	[QWEN_SHAPE_PATH] = { "text or bytes", QWEN_ITEM_BYTES, 0 },
	[QWEN_SHAPE_FP] = { "16 bytes", QWEN_ITEM_BYTES, 0 },
	[QWEN_SHAPE_BOOL] = { "true or false", QWEN_ITEM_BOOL, 0 },
	[QWEN_SHAPE_ARRAY] = { "an array", QWEN_ITEM_ARRAY, 0 },
	[QWEN_SHAPE_IDS] = { "an array of sint32 (tag 78)", QWEN_ITEM_BYTES,
	    QWEN_TAG_SINT32LE },
	[QWEN_SHAPE_ROW] = { "an array of float32 (tag 85)", QWEN_ITEM_BYTES,
	    QWEN_TAG_F32LE },
	[QWEN_SHAPE_REALS] = { "an array of float64 (tag 86)", QWEN_ITEM_BYTES,
	    QWEN_TAG_F64LE },
	[QWEN_SHAPE_FLOAT] = { "a floating-point number", QWEN_ITEM_FLOAT, 0 },
};

/* Does the value, after a tag that may be 0, have this shape? */
static int
fits(enum qwen_shape shape, uint64_t tag, const struct qwen_cbor_item *it)
{
	if ((shape == QWEN_SHAPE_PATH && it->type == QWEN_ITEM_TEXT) ||
	    (shape == QWEN_SHAPE_INT && it->type == QWEN_ITEM_NEGINT))
		return tag == 0;
	return it->type == shapes[shape].type && tag == shapes[shape].tag &&
	    (tag == 0 || it->n % (tag == QWEN_TAG_F64LE ? 8 : 4) == 0) &&
	    (shape != QWEN_SHAPE_FP || it->n == sizeof(struct qwen_fp));
}

/* Decodes the value of a key from the n bytes at p and checks its type. */
static int
take_value(struct qwen_cbor_item *it, const struct qwen_key *key,
    const unsigned char *p, size_t n, struct qwen_err *err)
{
	uint64_t tag = 0;
	size_t want;
	int r = qwen_cbor_item_decode(p, n, it, &want);

	if (r == 1 && it->type == QWEN_ITEM_TAG && (tag = it->n) != 0) {
		p += it->bytes;
		r = qwen_cbor_item_decode(p, n - it->bytes, it, &want);
	}
	if (r != 1 || !fits(key->shape, tag, it))
		return qwen_fail(err, QWEN_EFORMAT, "key \"%s\" is not %s",
		    key->name, shapes[key->shape].what);
	if (it->type == QWEN_ITEM_ARRAY)
		it->s = p + it->bytes;
	return 0;
}

/* Decodes a key and its value at *p. */
static int
take_pair(struct qwen_fields *f, const struct qwen_key *keys, size_t n_keys,
    const unsigned char **p, size_t *n, struct qwen_err *err)
{
	struct qwen_cbor_scan sp = { 0 };
	struct qwen_cbor_item key;
	const char *why;
	size_t k, want;

	if (qwen_cbor_item_decode(*p, *n, &key, &want) != 1 ||
	    key.type != QWEN_ITEM_TEXT)
		return qwen_fail(err, QWEN_EFORMAT, "a key that is not text");
	*p += key.bytes;
	*n -= key.bytes;
	if (qwen_cbor_scan_step(&sp, *p, *n, *n, &want, &why) != 1)
		return qwen_fail(err, QWEN_EFORMAT, "a key without a value");
	for (k = 0; k < n_keys; k++) {
		if (key.n == strlen(keys[k].name) &&
		    memcmp(key.s, keys[k].name, key.n) == 0)
			break;
	}
	if (k == n_keys)
		snprintf(f->unknown, sizeof f->unknown, "%.*s", key.n == 0 ?
		    1 : key.n < QWEN_KEY_SHOWN ? (int)key.n : QWEN_KEY_SHOWN,
		    key.n == 0 || key.s[0] == '\0' ? "?" :
		    (const char *)key.s);
	else if (f->there >> k & 1)
		return qwen_fail(err, QWEN_EFORMAT, "key \"%s\" occurs twice",
		    keys[k].name);
	else if (take_value(&f->v[k], &keys[k], *p, sp.off, err) < 0)
		return -1;
	else
		f->there |= UINT64_C(1) << k;
	*p += sp.off;
	*n -= sp.off;
	return 0;
}

int
qwen_fields_decode(struct qwen_fields *f, const struct qwen_key *keys,
    size_t n_keys, const unsigned char **p, size_t *n, struct qwen_err *err)
{
	struct qwen_cbor_item map;
	size_t want;
	uint64_t i;

	memset(f, 0, sizeof *f);
	if (qwen_cbor_item_decode(*p, *n, &map, &want) != 1 ||
	    map.type != QWEN_ITEM_MAP)
		return qwen_fail(err, QWEN_EFORMAT, "not a map of fields");
	*p += map.bytes;
	*n -= map.bytes;
	for (i = 0; i < map.n; i++) {
		if (take_pair(f, keys, n_keys, p, n, err) < 0)
			return -1;
	}
	return 0;
}
