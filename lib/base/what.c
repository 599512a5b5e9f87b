/* SPDX-License-Identifier: ISC */
/* what.c - the type of a file, by its first bytes. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "base/what.h"

enum { LOOK = 512 };		/* bytes examined to recognise text */

#define MAGIC(what, text) { what, sizeof text - 1, text }

/* The first match counts. */
static const struct {
	enum qwen_what	 what;
	size_t		 n;
	const char	*text;
} magics[] = {
	MAGIC(QWEN_IS_LFS, "version https://git-lfs"),
	MAGIC(QWEN_IS_ZIP, "PK\3\4"),
	MAGIC(QWEN_IS_PACKED, "\x1f\x8b"),
	MAGIC(QWEN_IS_PACKED, "\xfd" "7zXZ"),
	MAGIC(QWEN_IS_PACKED, "\x28\xb5\x2f\xfd"),
	MAGIC(QWEN_IS_IMAGE, "\xff\xd8\xff"),		/* JPEG */
	MAGIC(QWEN_IS_IMAGE, "\x89PNG\r\n\x1a\n"),
	MAGIC(QWEN_IS_IMAGE, "GIF87a"),
	MAGIC(QWEN_IS_IMAGE, "GIF89a"),
	MAGIC(QWEN_IS_IMAGE, "II*\0"),			/* TIFF */
	MAGIC(QWEN_IS_IMAGE, "MM\0*"),
};

static const char *const names[] = {
	"something else", "nothing", "a GGUF model file",
	"a stream or state of qpipe", "a Git LFS pointer", "a web page", "JSON",
	"text", "only zeros", "a ZIP archive", "a compressed file",
	"a safetensors file", "an image",
};

/* "GGUF", and a version that is small in either byte order. */
static int
is_gguf(const unsigned char *p, size_t n)
{
	return n >= 4 && memcmp(p, "GGUF", 4) == 0 &&
	    (n < 8 || memchr(p + 4, 0, 4) != NULL);
}

/* A CBOR map with few keys, the first of which is "qwen". */
static int
is_stream(const unsigned char *p, size_t n)
{
	return n >= 6 && p[0] >= 0xa1 && p[0] <= 0xb7 &&
	    memcmp(p + 1, "\x64qwen", 5) == 0;
}

/* WebP; HEIC and AVIF. */
static int
is_image(const unsigned char *p, size_t n)
{
	return n >= 12 && ((memcmp(p, "RIFF", 4) == 0 &&
	    memcmp(p + 8, "WEBP", 4) == 0) || memcmp(p + 4, "ftyphei", 7) == 0 ||
	    memcmp(p + 4, "ftypmif1", 8) == 0 ||
	    memcmp(p + 4, "ftypavif", 8) == 0);
}

/* A length of eight bytes, then JSON. */
static int
is_tensors(const unsigned char *p, size_t n)
{
	return n >= 10 && p[4] + p[5] + p[6] + p[7] == 0 && p[8] == '{' &&
	    p[9] == '"';
}

/* Text may end within a character. */
static int
is_text(const unsigned char *p, size_t n)
{
	size_t i = qwen_utf8_check((const char *)p, n), k;
	uint32_t c;

	if (i == 0 || (i < n && qwen_utf8_read(p + i, n - i, &c) == 0))
		return 0;
	for (k = 0; k < i; k++) {
		if (p[k] < 0x20 && (p[k] < '\t' || p[k] > '\r'))
			return 0;
	}
	return 1;
}

static int
begins(const char *s, size_t n, const char *with)
{
	return n >= strlen(with) && strncasecmp(s, with, strlen(with)) == 0;
}

static enum qwen_what
what_text(const char *s, size_t n)
{
	while (n > 0 && isspace((unsigned char)*s)) {
		s++;
		n--;
	}
	if (begins(s, n, "<!doctype") || begins(s, n, "<html") ||
	    begins(s, n, "<head") || begins(s, n, "<?xml"))
		return QWEN_IS_HTML;
	if (n > 1 && ((s[0] == '{' && strchr("\"} \n", s[1]) != NULL) ||
	    (s[0] == '[' && strchr("{[\"] -0123456789\n", s[1]) != NULL)))
		return QWEN_IS_JSON;
	return QWEN_IS_TEXT;
}

enum qwen_what
qwen_what(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	size_t i;

	if (n == 0)
		return QWEN_IS_EMPTY;
	n = n < LOOK ? n : LOOK;
	for (i = 0; i < sizeof magics / sizeof magics[0]; i++) {
		if (n >= magics[i].n &&
		    memcmp(p, magics[i].text, magics[i].n) == 0)
			return magics[i].what;
	}
	if (is_gguf(p, n))
		return QWEN_IS_GGUF;
	if (is_stream(p, n))
		return QWEN_IS_STREAM;
	if (is_tensors(p, n))
		return QWEN_IS_TENSORS;
	if (is_image(p, n))
		return QWEN_IS_IMAGE;
	if (is_text(p, n))
		return what_text((const char *)p, n);
	for (i = 0; i < n && p[i] == 0; i++)
		;
	return i == n ? QWEN_IS_ZEROS : QWEN_IS_OTHER;
}

const char *
qwen_what_name(enum qwen_what what)
{
	return names[what];
}
