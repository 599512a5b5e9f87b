/* SPDX-License-Identifier: ISC */
/* encode.c - the CBOR of headers and ready records, and text for people. */
#include <stdio.h>
#include <string.h>

#include <cbor.h>

#include "base/cursor.h"
#include "base/err.h"
#include "wire/record.h"

/* A place in a buffer that is known to be large enough. */
struct place {
	unsigned char	*p;
	size_t		 left;
};

static void
advance(struct place *o, size_t n)
{
	o->p += n;
	o->left -= n;
}

static void
put_bytes(struct place *o, const void *p, size_t n)
{
	memcpy(o->p, p, n);
	advance(o, n);
}

static void
put_text(struct place *o, const char *s)
{
	size_t n = strlen(s);

	advance(o, cbor_encode_string_start(n, o->p, o->left));
	put_bytes(o, s, n);
}

static void
put_uint(struct place *o, const char *key, uint64_t v)
{
	put_text(o, key);
	advance(o, cbor_encode_uint(v, o->p, o->left));
}

static void
put_fp(struct place *o, const char *key, const struct qwen_fp *fp)
{
	put_text(o, key);
	advance(o, cbor_encode_bytestring_start(sizeof fp->b, o->p, o->left));
	put_bytes(o, fp->b, sizeof fp->b);
}

static void
put_ids(struct place *o, const char *key, const int32_t *ids, size_t n)
{
	size_t i;

	put_text(o, key);
	advance(o, cbor_encode_tag(QWEN_TAG_SINT32LE, o->p, o->left));
	advance(o, cbor_encode_bytestring_start(4 * n, o->p, o->left));
	for (i = 0; i < n; i++) {
		qwen_put_le32(o->p, (uint32_t)ids[i]);
		advance(o, 4);
	}
}

size_t
qwen_header_encode(const struct qwen_header *h,
    unsigned char buf[QWEN_HEADER_MAX])
{
	struct place o = { buf, QWEN_HEADER_MAX };
	int has_model = h->kind != QWEN_STREAM_TOKENS;
	int has_eog = h->kind == QWEN_STREAM_LOGITS;

	advance(&o, cbor_encode_map_start(4u + 2u * (unsigned)has_model +
	    (unsigned)has_eog, o.p, o.left));
	put_uint(&o, "qwen", QWEN_STREAM_VERSION);
	put_text(&o, "kind");
	put_text(&o, qwen_stream_name(h->kind));
	put_uint(&o, "n_vocab", h->n_vocab);
	put_fp(&o, "vocabulary", &h->vocab);
	if (has_model) {
		put_fp(&o, "model", &h->model);
		put_uint(&o, "numerics", h->numerics);
	}
	if (has_eog)
		put_ids(&o, "eog", h->eog, h->n_eog);
	return (size_t)(o.p - buf);
}

size_t
qwen_ready_encode(const char *path, uint64_t n_tokens,
    const struct qwen_fp *fp, unsigned char buf[QWEN_HEADER_MAX])
{
	struct place o = { buf, QWEN_HEADER_MAX };
	size_t n = strlen(path);

	advance(&o, cbor_encode_map_start(3, o.p, o.left));
	put_text(&o, "ready");
	/* a path is bytes; text must be UTF-8 */
	if (qwen_utf8_check(path, n) == n)
		put_text(&o, path);
	else {
		advance(&o, cbor_encode_bytestring_start(n, o.p, o.left));
		put_bytes(&o, path, n);
	}
	put_uint(&o, "n_tokens", n_tokens);
	put_fp(&o, "fingerprint", fp);
	return (size_t)(o.p - buf);
}

char *
qwen_fp_hex(const struct qwen_fp *fp, char out[33])
{
	size_t i;

	for (i = 0; i < sizeof fp->b; i++)
		snprintf(out + 2 * i, 3, "%02x", fp->b[i]);
	return out;
}

int
qwen_mark_check(const char *s, size_t n, struct qwen_err *err)
{
	if (n >= 1 && n <= QWEN_MARK_MAX && memchr(s, '\0', n) == NULL &&
	    qwen_utf8_check(s, n) == n)
		return 0;
	return qwen_fail(err, QWEN_ERANGE, "the name of a mark is not 1 to %d "
	    "bytes of UTF-8", QWEN_MARK_MAX);
}
