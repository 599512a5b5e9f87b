/* SPDX-License-Identifier: ISC */
/* nfc.c - normalises text that comes in parts to NFC, with libunistring. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "text/token/nfc.h"

#ifdef HAVE_UNISTRING
#include <uninorm.h>

struct qwen_nfc {
	struct uninorm_filter	*filter;
	struct qwen_text	*out;
	int			 waits;		/* the filter has some text */
	unsigned char		 part[4];	/* first n_part < 4 bytes of a
						   character */
	size_t			 n_part;
};

/* Takes a character that the filter returns. */
static int
take_char(void *arg, ucs4_t c)
{
	struct qwen_nfc *f = arg;
	char s[4];

	if (f->out != NULL)
		qwen_text_add(f->out, s, qwen_utf8_write(c, s));
	return f->out != NULL && f->out->failed ? -1 : 0;
}

int
qwen_nfc_new(struct qwen_nfc **out, struct qwen_err *err)
{
	struct qwen_nfc *f = calloc(1, sizeof *f);

	*out = NULL;
	if (f == NULL)
		return qwen_oom(err);
	f->filter = uninorm_filter_create(UNINORM_NFC, take_char, f);
	if (f->filter == NULL) {
		free(f);
		return qwen_oom(err);
	}
	*out = f;
	return 0;
}

void
qwen_nfc_free(struct qwen_nfc *f)
{
	if (f == NULL)
		return;
	f->out = NULL;
	uninorm_filter_free(f->filter);
	free(f);
}

void
qwen_nfc_reset(struct qwen_nfc *f)
{
	f->out = NULL;
	uninorm_filter_flush(f->filter);
	f->waits = 0;
	f->n_part = 0;
}

static int
flush(struct qwen_nfc *f)
{
	if (!f->waits)
		return 0;
	f->waits = 0;
	return uninorm_filter_flush(f->filter);
}

/* Adds ASCII text: no ASCII character combines with a character before it. */
static int
put_ascii(struct qwen_nfc *f, const unsigned char *s, size_t n)
{
	if (flush(f) < 0)
		return -1;
	qwen_text_add(f->out, s, n - 1);
	f->waits = 1;
	return uninorm_filter_write(f->filter, s[n - 1]);
}

/*
 * Adds one character or invalid byte: returns its length; 0 if it is
 * incomplete; -1 if out of memory.
 */
static int
put_one(struct qwen_nfc *f, const unsigned char *s, size_t n)
{
	uint32_t c;
	int len = qwen_utf8_read(s, n, &c);

	if (len < 0)
		return 0;
	if (len == 0 && flush(f) < 0)
		return -1;
	if (len == 0) {
		qwen_text_add(f->out, s, 1);
		return 1;
	}
	if (len == 1)
		return put_ascii(f, s, 1) < 0 ? -1 : 1;
	f->waits = 1;
	return uninorm_filter_write(f->filter, c) < 0 ? -1 : len;
}

/* Completes the character that is kept in part with bytes of the text. */
static int
complete(struct qwen_nfc *f, const unsigned char **s, size_t *n, int final)
{
	int used;

	while (f->n_part > 0) {
		used = put_one(f, f->part, f->n_part);
		if (used < 0)
			return -1;
		if (used == 0 && *n > 0) {
			f->part[f->n_part++] = *(*s)++;
			--*n;
			continue;
		}
		if (used == 0 && !final)
			return 0;
		if (used == 0) {	/* the text ends within a character */
			if (flush(f) < 0)
				return -1;
			qwen_text_add(f->out, f->part, 1);
			used = 1;
		}
		f->n_part -= (size_t)used;
		memmove(f->part, f->part + used, f->n_part);
	}
	return 0;
}

static int
put_bytes(struct qwen_nfc *f, const unsigned char *s, size_t n, int final)
{
	size_t i;
	int used;

	if (complete(f, &s, &n, final) < 0)
		return -1;
	while (n > 0) {
		for (i = 0; i < n && s[i] < 0x80; i++)
			;
		used = 0;
		if (i > 0 ? put_ascii(f, s, i) < 0 :
		    (used = put_one(f, s, n)) < 0)
			return -1;
		if (i == 0 && used == 0)
			break;
		i += (size_t)used;
		s += i;
		n -= i;
	}
	/* keep an incomplete character, at most 3 bytes */
	if (n > 0) {
		memcpy(f->part, s, n);
		f->n_part = n;
		n = 0;
	}
	return final && (complete(f, &s, &n, 1) < 0 || flush(f) < 0) ? -1 : 0;
}

int
qwen_nfc_put(struct qwen_nfc *f, const unsigned char *s, size_t n, int final,
    struct qwen_text *out, struct qwen_err *err)
{
	int rc;

	f->out = out;
	rc = put_bytes(f, s, n, final);
	f->out = NULL;
	if (rc == 0 && !out->failed)
		return 0;
	qwen_nfc_reset(f);
	return qwen_oom(err);
}

#else

int
qwen_nfc_new(struct qwen_nfc **out, struct qwen_err *err)
{
	*out = NULL;
	return qwen_fail(err, QWEN_EUNSUP, "built without libunistring, which "
	    "NFC normalisation needs");
}

void
qwen_nfc_free(struct qwen_nfc *f)
{
	(void)f;
}

void
qwen_nfc_reset(struct qwen_nfc *f)
{
	(void)f;
}

int
qwen_nfc_put(struct qwen_nfc *f, const unsigned char *s, size_t n, int final,
    struct qwen_text *out, struct qwen_err *err)
{
	(void)f, (void)s, (void)n, (void)final, (void)out;
	return qwen_oom(err);
}

#endif
