/* SPDX-License-Identifier: ISC */
/* decode.c - decodes ids one by one to whole UTF-8 characters, or to bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/token/tok.h"

struct qwen_tok_decoder {
	const struct qwen_tok	*t;
	unsigned	 flags;
	unsigned char	*raw;		/* bytes not returned yet */
	size_t		 n;
	unsigned char	*text;		/* text to return */
	size_t		 cap;		/* of raw; text has 3 * cap */
};

int
qwen_tok_decoder_new(struct qwen_tok_decoder **out, const struct qwen_tok *t,
    unsigned flags, struct qwen_err *err)
{
	struct qwen_tok_decoder *d;

	*out = NULL;
	if ((t->what & QWEN_TOK_DECODE) == 0)
		return qwen_fail(err, QWEN_EUNSUP,
		    "the tokenizer was not opened to decode");
	d = calloc(1, sizeof *d);
	if (d == NULL)
		return qwen_oom(err);
	d->t = t;
	d->flags = flags;
	d->cap = QWEN_TOK_PENDING_MAX + QWEN_TEXT_MAX;
	d->raw = malloc(d->cap);
	d->text = malloc(3 * d->cap);
	if (d->raw == NULL || d->text == NULL) {
		qwen_tok_decoder_free(d);
		return qwen_oom(err);
	}
	*out = d;
	return 0;
}

void
qwen_tok_decoder_free(struct qwen_tok_decoder *d)
{
	if (d == NULL)
		return;
	free(d->raw);
	free(d->text);
	free(d);
}

/*
 * Appends the bytes of a text in byte characters; other characters stay
 * unchanged.
 */
static void
add_mapped(struct qwen_tok_decoder *d, const struct qwen_str *s)
{
	const unsigned char *p = (const unsigned char *)s->s;
	size_t i, len;
	int byte;

	for (i = 0; i < s->len; i += len) {
		byte = qwen_bytemap_read(p + i, s->len - i, &len);
		if (byte >= 0)
			d->raw[d->n++] = (unsigned char)byte;
		else {
			memcpy(d->raw + d->n, p + i, len);
			d->n += len;
		}
	}
}

static void
add_token(struct qwen_tok_decoder *d, size_t id)
{
	struct qwen_str s = qwen_vocab_text(&d->t->v, id);

	switch (qwen_vocab_type(&d->t->v, id)) {
	case QWEN_TOKEN_NORMAL:
	case QWEN_TOKEN_BYTE:
		add_mapped(d, &s);
		return;
	case QWEN_TOKEN_UNUSED:
		return;
	case QWEN_TOKEN_CONTROL:
	case QWEN_TOKEN_UNKNOWN:
		if ((d->flags & QWEN_TOK_SHOW_SPECIAL) == 0)
			return;
		break;
	case QWEN_TOKEN_USER_DEFINED:
		break;
	}
	memcpy(d->raw + d->n, s.s, s.len);
	d->n += s.len;
}

/* Returns the length of the incomplete or invalid character at p. */
static size_t
bad_bytes(const unsigned char *p, size_t n)
{
	uint32_t c;
	size_t i;

	for (i = 1; i < n && qwen_utf8_read(p, i + 1, &c) < 0; i++)
		;
	return i;
}

/*
 * Moves complete characters from raw to text, with U+FFFD for invalid bytes.
 * An incomplete character stays in raw, unless final is set.  Returns the bytes
 * of text.
 */
static size_t
drain(struct qwen_tok_decoder *d, int final)
{
	static const unsigned char replacement[3] = { 0xef, 0xbf, 0xbd };
	size_t i = 0, out = 0;
	uint32_t c;
	int k;

	while (i < d->n) {
		k = qwen_utf8_read(d->raw + i, d->n - i, &c);
		if (k < 0 && !final)
			break;
		if (k > 0) {
			memcpy(d->text + out, d->raw + i, (size_t)k);
			out += (size_t)k;
			i += (size_t)k;
			continue;
		}
		memcpy(d->text + out, replacement, sizeof replacement);
		out += sizeof replacement;
		i += bad_bytes(d->raw + i, d->n - i);
	}
	d->n -= i;
	memmove(d->raw, d->raw + i, d->n);
	return out;
}

static void
emit(struct qwen_tok_decoder *d, int final, struct qwen_str *out)
{
	if ((d->flags & QWEN_TOK_BYTES) != 0) {
		out->s = (const char *)d->raw;
		out->len = d->n;
		d->n = 0;
		return;
	}
	out->s = (const char *)d->text;
	out->len = drain(d, final);
}

int
qwen_tok_decoder_put(struct qwen_tok_decoder *d, int32_t id,
    struct qwen_str *out, struct qwen_err *err)
{
	out->s = NULL;
	out->len = 0;
	if (id < 0 || (size_t)id >= d->t->v.n)
		return qwen_fail(err, QWEN_ERANGE,
		    "token %ld is not in the vocabulary of %zu", (long)id,
		    d->t->v.n);
	add_token(d, (size_t)id);
	emit(d, 0, out);
	return 0;
}

void
qwen_tok_decoder_finish(struct qwen_tok_decoder *d, struct qwen_str *out)
{
	emit(d, 1, out);
}

size_t
qwen_tok_decoder_pending(const struct qwen_tok_decoder *d,
    unsigned char bytes[QWEN_TOK_PENDING_MAX])
{
	memcpy(bytes, d->raw, d->n);
	return d->n;
}
