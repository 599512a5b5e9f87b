/* SPDX-License-Identifier: ISC */
/* item.c - one CBOR data item at a time from bytes in memory, over libcbor. */
#include <cbor.h>

#include "wire/item.h"

/* libcbor calls one of these for the item that it found. */

#define ON(name, value, item, member) \
static void \
on_##name(void *arg, value v) \
{ \
	*(struct qwen_item *)arg = (struct qwen_item){ \
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

static void
on_bytes(void *arg, cbor_data s, size_t n)
{
	*(struct qwen_item *)arg = (struct qwen_item){
	    .type = QWEN_ITEM_BYTES, .n = n, .s = s };
}

static void
on_text(void *arg, cbor_data s, size_t n)
{
	*(struct qwen_item *)arg = (struct qwen_item){
	    .type = QWEN_ITEM_TEXT, .n = n, .s = s };
}

static void
on_null(void *arg)
{
	*(struct qwen_item *)arg = (struct qwen_item){
	    .type = QWEN_ITEM_NULL };
}

static void
on_open(void *arg)
{
	*(struct qwen_item *)arg = (struct qwen_item){
	    .type = QWEN_ITEM_OPEN };
}

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
qwen_item_decode(const unsigned char *p, size_t len, struct qwen_item *it,
    size_t *want)
{
	struct cbor_decoder_result r;

	r = cbor_stream_decode(p, len, &callbacks, it);
	switch (r.status) {
	case CBOR_DECODER_FINISHED:
		it->bytes = r.read;
		return 1;
	case CBOR_DECODER_NEDATA:
		/* libcbor's sum of head and claimed length may wrap */
		*want = r.required > len ? r.required : SIZE_MAX;
		return 0;
	default:
		return -1;
	}
}

/* One item is complete; with it perhaps what it was the last part of. */
static int
complete(struct qwen_span *sp)
{
	while (sp->depth > 0) {
		if (--sp->left[sp->depth - 1] > 0)
			return 0;
		sp->depth--;
	}
	return 1;
}

int
qwen_span_step(struct qwen_span *sp, const unsigned char *p, size_t len,
    size_t limit, size_t *want, const char **why)
{
	struct qwen_item it;
	uint64_t n;
	int r;

	for (;;) {
		r = qwen_item_decode(p + sp->off, len - sp->off, &it, want);
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
		if (sp->depth == QWEN_SPAN_DEPTH)
			return -1;
		sp->left[sp->depth++] = it.type == QWEN_ITEM_MAP ? 2 * n : n;
	}
}
