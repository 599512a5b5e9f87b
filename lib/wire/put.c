/* SPDX-License-Identifier: ISC */
/* put.c - appends a record, key by key, in CBOR or JSON. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include <cbor.h>

#include "base/cursor.h"
#include "base/half.h"
#include "wire/put.h"
#include "wire/record.h"

enum { PART = 256 };	/* numbers to append at a time */

void
qwen_put_begin(struct qwen_put *p)
{
	p->n = 0;
	p->head = p->t->n;
	/* qwen_put_end writes the number of keys into the head */
	qwen_text_add(p->t, p->json ? "{" : "\xa0", 1);
}

void
qwen_put_end(struct qwen_put *p)
{
	assert(p->n < 24);
	if (p->json)
		qwen_text_str(p->t, "}\n");
	else if (!p->t->failed)
		p->t->s[p->head] = (char)(0xa0 | p->n);
}

/* Appends the head of an item, its major type and number. */
static void
head(struct qwen_put *p, size_t (*encode)(size_t, unsigned char *, size_t),
    size_t n)
{
	unsigned char b[9];

	qwen_text_add(p->t, b, encode(n, b, sizeof b));
}

static void
string(struct qwen_put *p, const char *s, size_t n)
{
	if (p->json) {
		qwen_text_json(p->t, s, n);
		return;
	}
	head(p, cbor_encode_string_start, n);
	qwen_text_add(p->t, s, n);
}

static void
key(struct qwen_put *p, const char *name)
{
	if (p->json && p->n > 0)
		qwen_text_str(p->t, ",");
	string(p, name, strlen(name));
	if (p->json)
		qwen_text_str(p->t, ":");
	p->n++;
}

void
qwen_put_uint(struct qwen_put *p, const char *name, uint64_t v)
{
	unsigned char b[9];

	key(p, name);
	if (p->json)
		qwen_text_fmt(p->t, "%" PRIu64, v);
	else
		qwen_text_add(p->t, b, cbor_encode_uint(v, b, sizeof b));
}

void
qwen_put_real(struct qwen_put *p, const char *name, double v)
{
	unsigned char b[9];

	key(p, name);
	if (p->json)
		qwen_text_fmt(p->t, "%.17g", v);
	else
		qwen_text_add(p->t, b, cbor_encode_double(v, b, sizeof b));
}

void
qwen_put_text(struct qwen_put *p, const char *name, const char *s, size_t n)
{
	key(p, name);
	string(p, s, n);
}

void
qwen_put_fp(struct qwen_put *p, const char *name, const struct qwen_fp *fp)
{
	char hex[33];

	key(p, name);
	if (p->json) {
		qwen_text_fmt(p->t, "\"%s\"", qwen_fp_hex(fp, hex));
		return;
	}
	head(p, cbor_encode_bytestring_start, sizeof fp->b);
	qwen_text_add(p->t, fp->b, sizeof fp->b);
}

/* Begins an array of n numbers of `bytes' bytes each. */
static void
array(struct qwen_put *p, const char *name, unsigned tag, size_t n,
    size_t bytes)
{
	unsigned char b[9];

	key(p, name);
	if (p->json) {
		qwen_text_str(p->t, "[");
		return;
	}
	qwen_text_add(p->t, b, cbor_encode_tag(tag, b, sizeof b));
	head(p, cbor_encode_bytestring_start, n * bytes);
}

static void
close_array(struct qwen_put *p)
{
	if (p->json)
		qwen_text_str(p->t, "]");
}

static void
le32(struct qwen_put *p, uint32_t v)
{
	unsigned char b[4];

	qwen_put_le32(b, v);
	qwen_text_add(p->t, b, sizeof b);
}

void
qwen_put_ids(struct qwen_put *p, const char *name, const int32_t *ids,
    size_t n)
{
	size_t i;

	array(p, name, QWEN_TAG_SINT32LE, n, 4);
	for (i = 0; i < n; i++) {
		if (p->json)
			qwen_text_fmt(p->t, "%s%" PRId32, i > 0 ? "," : "",
			    ids[i]);
		else
			le32(p, (uint32_t)ids[i]);
	}
	close_array(p);
}

void
qwen_put_row_begin(struct qwen_put *p, const char *name, size_t n)
{
	array(p, name, QWEN_TAG_F32LE, n, 4);
}

void
qwen_put_row_part(struct qwen_put *p, const float *v, size_t n)
{
	unsigned char b[4 * PART];
	size_t i, k;

	for (i = 0; p->json && i < n; i++)
		qwen_text_fmt(p->t, "%s%.9g", p->t->n > 0 &&
		    p->t->s[p->t->n - 1] == '[' ? "" : ",", (double)v[i]);
	for (i = 0; !p->json && i < n; i += k) {
		for (k = 0; k < PART && i + k < n; k++)
			qwen_put_le32(b + 4 * k, qwen_f32_bits(v[i + k]));
		qwen_text_add(p->t, b, 4 * k);
	}
}

void
qwen_put_row_end(struct qwen_put *p)
{
	close_array(p);
}

void
qwen_put_row(struct qwen_put *p, const char *name, const float *v, size_t n)
{
	qwen_put_row_begin(p, name, n);
	qwen_put_row_part(p, v, n);
	qwen_put_row_end(p);
}

void
qwen_put_reals(struct qwen_put *p, const char *name, const double *v,
    size_t n)
{
	unsigned char b[8];
	uint64_t bits;
	size_t i;

	array(p, name, QWEN_TAG_F64LE, n, 8);
	for (i = 0; i < n; i++) {
		if (p->json) {
			qwen_text_fmt(p->t, "%s%.17g", i > 0 ? "," : "", v[i]);
			continue;
		}
		memcpy(&bits, &v[i], sizeof bits);
		qwen_put_le64(b, bits);
		qwen_text_add(p->t, b, sizeof b);
	}
	close_array(p);
}
