/* SPDX-License-Identifier: ISC */
/*
 * index.c - packs index entries, and compares the index with the records.
 *
 * An entry: kind (24 bytes of text, padded with zeros), codec (8, likewise),
 * layer, at (-1: none), off, len, offset, bytes (8 each, little-endian), check.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/state/state.h"
#include "wire/record.h"

enum { CODEC_AT = QWEN_KIND_MAX, NUMBERS_AT = CODEC_AT + 8,
    CHECK_AT = NUMBERS_AT + 48 };

void
qwen_state_entry_pack(const struct qwen_state_entry *e,
    unsigned char out[QWEN_ENTRY_BYTES])
{
	const uint64_t v[] = { (uint64_t)e->layer, (uint64_t)e->at, e->off,
	    e->len, e->offset, e->bytes };
	size_t i;

	memset(out, 0, QWEN_ENTRY_BYTES);
	memcpy(out, e->name, strlen(e->name));
	if (e->has_data)
		memcpy(out + CODEC_AT, qwen_codec_name(e->codec),
		    strlen(qwen_codec_name(e->codec)));
	for (i = 0; i < 6; i++)
		qwen_put_le64(out + NUMBERS_AT + 8 * i, v[i]);
	memcpy(out + CHECK_AT, e->check, QWEN_CHECK_BYTES);
}

/*
 * Returns the length of a text of at most n - 1 bytes padded with zeros, or -1.
 */
static int
text(const unsigned char *p, int n)
{
	const unsigned char *zero = memchr(p, 0, (size_t)n);
	int i, len;

	if (zero == NULL)
		return -1;
	len = (int)(zero - p);
	for (i = len; i < n; i++) {
		if (p[i] != 0)
			return -1;
	}
	return len;
}

int
qwen_state_entry_unpack(struct qwen_state_entry *e,
    const unsigned char in[QWEN_ENTRY_BYTES], struct qwen_err *err)
{
	int kind = text(in, QWEN_KIND_MAX), codec = text(in + CODEC_AT, 8);
	uint64_t v[6];
	size_t i;

	memset(e, 0, sizeof *e);
	for (i = 0; i < 6; i++)
		v[i] = qwen_le64(in + NUMBERS_AT + 8 * i);
	if (kind <= 0 || codec < 0 || v[3] > QWEN_PIECE_MAX ||
	    v[5] > QWEN_STATE_MAX || (codec == 0 && v[3] != 0))
		return qwen_fail(err, QWEN_EFORMAT, "not a block of state");
	memcpy(e->name, in, (size_t)kind);
	e->kind = qwen_kind_find(e->name);
	e->has_data = codec > 0;
	if (codec > 0 && qwen_codec_find(in + CODEC_AT, (size_t)codec,
	    &e->codec) < 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown codec \"%.*s\"",
		    codec, (const char *)in + CODEC_AT);
	e->layer = (int64_t)v[0];
	e->at = (int64_t)v[1];
	e->off = v[2];
	e->len = v[3];
	e->offset = v[4];
	e->bytes = v[5];
	memcpy(e->check, in + CHECK_AT, QWEN_CHECK_BYTES);
	return 0;
}

int
qwen_state_list_add(struct qwen_state_list *l,
    const struct qwen_state_entry *e, struct qwen_err *err)
{
	if (qwen_grow(&l->entry, &l->cap, l->n + 1, sizeof *l->entry) < 0)
		return qwen_oom(err);
	l->entry[l->n++] = *e;
	return 0;
}

/* -------------------------------------------------------------- in a stream */

int
qwen_index_check_init(struct qwen_index_check *f, struct qwen_err *err)
{
	memset(f, 0, sizeof *f);
	f->of_records = qwen_fp_start();
	f->of_entries = qwen_fp_start();
	if (f->of_records == NULL || f->of_entries == NULL) {
		qwen_index_check_fini(f);
		return qwen_oom(err);
	}
	return 0;
}

void
qwen_index_check_fini(struct qwen_index_check *f)
{
	XXH3_freeState(f->of_records);
	XXH3_freeState(f->of_entries);
	memset(f, 0, sizeof *f);
}

void
qwen_index_check_record(struct qwen_index_check *f,
    const struct qwen_state_entry *e)
{
	unsigned char b[QWEN_ENTRY_BYTES];

	qwen_state_entry_pack(e, b);
	XXH3_128bits_update(f->of_records, b, sizeof b);
	f->n_records++;
}

void
qwen_index_check_entries(struct qwen_index_check *f, const void *raw, size_t n)
{
	XXH3_128bits_update(f->of_entries, raw, n);
	f->n_bytes += n;
}

int
qwen_index_check_end(const struct qwen_index_check *f, struct qwen_err *err)
{
	if (f->offset == 0)
		return 0;
	if (f->n_bytes == f->n_records * QWEN_ENTRY_BYTES &&
	    XXH128_isEqual(XXH3_128bits_digest(f->of_records),
	    XXH3_128bits_digest(f->of_entries)))
		return 0;
	return qwen_fail(err, QWEN_EFORMAT,
	    "the index does not match the blocks before it");
}
