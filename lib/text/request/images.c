/* SPDX-License-Identifier: ISC */
/*
 * images.c - finds the images of a request: parts of messages in the forms of
 * all APIs.
 */
#define _GNU_SOURCE	/* memmem */

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/request/parser.h"

void
qwen_image_sources_fini(struct qwen_image_sources *all)
{
	while (all->n > 0)
		free(all->v[--all->n].s);
	free(all->v);
	*all = (struct qwen_image_sources){ 0 };
}

size_t
qwen_image_places(const struct qwen_prompt *p)
{
	static const char pad[] = "<|image_pad|>";
	struct qwen_str s = qwen_prompt_text(p);
	const char *at = s.s, *end = s.s + s.len;
	const unsigned char *own;
	size_t n = 0;

	for (; (at = memmem(at, (size_t)(end - at), pad, sizeof pad - 1)) !=
	    NULL; at++) {
		own = qwen_prompt_own(p) + (at - s.s);
		n += memchr(own, 0, sizeof pad - 1) == NULL;
	}
	return n;
}

int
qwen_parse_names_image(const char *type)
{
	return type != NULL && (strcmp(type, "image_url") == 0 ||
	    strcmp(type, "image") == 0 || strcmp(type, "input_image") == 0);
}

int
qwen_parse_is_image(yyjson_val *part)
{
	return qwen_parse_names_image(yyjson_get_str(qwen_parse_get(part,
	    "type")));
}

/* ------------------------------------------------------------------- bytes */

/* Returns the value of a digit of base64 in both alphabets; -1 for others. */
static int
digit(char c)
{
	return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ?
	    c - 'a' + 26 : c >= '0' && c <= '9' ? c - '0' + 52 :
	    c == '+' || c == '-' ? 62 : c == '/' || c == '_' ? 63 : -1;
}

/* Decodes base64; line breaks are allowed, and the padding may be missing. */
static int
decode(struct qwen_image_source *out, struct qwen_str s, struct qwen_err *err)
{
	uint32_t bits = 0;
	size_t i, n = 0;
	int d;

	if ((out->s = malloc(s.len / 4 * 3 + 4)) == NULL)
		return qwen_oom(err);
	out->kind = QWEN_SOURCE_BYTES;
	while (s.len > 0 && strchr("= \t\r\n", s.s[s.len - 1]) != NULL)
		s.len--;
	for (i = 0; i < s.len; i++) {
		if (strchr(" \t\r\n", s.s[i]) != NULL && s.s[i] != '\0')
			continue;
		if ((d = digit(s.s[i])) < 0)
			return qwen_fail(err, QWEN_EFORMAT, "byte %zu of its "
			    "data is not base64", i + 1);
		bits = bits << 6 | (uint32_t)d;
		if (++n % 4 != 1)
			out->s[out->n++] = (char)(bits >> (6 - 2 * ((n - 1) %
			    4)));
	}
	out->s[out->n] = '\0';
	return out->n > 0 ? 0 : qwen_fail(err, QWEN_EFORMAT,
	    "it has no data");
}

/* -------------------------------------------------------------------- URLs */

static int
begins(struct qwen_str s, const char *with)
{
	return s.len >= strlen(with) &&
	    strncasecmp(s.s, with, strlen(with)) == 0;
}

static int
copy(struct qwen_image_source *out, enum qwen_source_kind kind,
    struct qwen_str s, struct qwen_err *err)
{
	if (memchr(s.s, '\0', s.len) != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "its name has a NUL");
	if ((out->s = malloc(s.len + 1)) == NULL)
		return qwen_oom(err);
	memcpy(out->s, s.s, s.len);
	out->s[s.len] = '\0';
	out->n = s.len;
	out->kind = kind;
	return 0;
}

static int
hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ?
	    c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Replaces the escapes of a file: URL, such as %20. */
static int
unescape(struct qwen_image_source *out, struct qwen_err *err)
{
	size_t i, n = 0;

	for (i = 0; i < out->n; i++) {
		if (out->s[i] == '%' && hex(out->s[i + 1]) >= 0 &&
		    hex(out->s[i + 2]) >= 0) {
			out->s[n++] = (char)(hex(out->s[i + 1]) * 16 +
			    hex(out->s[i + 2]));
			i += 2;
		} else
			out->s[n++] = out->s[i];
		if (out->s[n - 1] == '\0')
			return qwen_fail(err, QWEN_EFORMAT,
			    "its name has a NUL");
	}
	out->s[out->n = n] = '\0';
	return 0;
}

/* Reads a data: URL, another URL, or the path of a file. */
static int
read_url(struct qwen_image_source *out, struct qwen_str s,
    struct qwen_err *err)
{
	static const char base64[] = ";base64";
	const char *comma;
	size_t n = strlen("file://"), head;

	if (begins(s, "data:")) {
		comma = memchr(s.s, ',', s.len);
		head = comma != NULL ? (size_t)(comma - s.s) : 0;
		if (head < sizeof base64 - 1 || strncasecmp(comma -
		    (sizeof base64 - 1), base64, sizeof base64 - 1) != 0)
			return qwen_fail(err, QWEN_EFORMAT, "a data: URL must "
			    "be data:TYPE;base64,DATA");
		return decode(out, (struct qwen_str){ comma + 1,
		    s.len - head - 1 }, err);
	}
	if (begins(s, "http://") || begins(s, "https://"))
		return copy(out, QWEN_SOURCE_URL, s, err);
	if (begins(s, "file://"))
		return copy(out, QWEN_SOURCE_PATH, (struct qwen_str){ s.s + n,
		    s.len - n }, err) < 0 ? -1 : unescape(out, err);
	if (memmem(s.s, s.len, "://", 3) != NULL)
		return qwen_fail(err, QWEN_EUNSUP, "a URL of this kind is not "
		    "supported: send a data: URL");
	return s.len == 0 ? qwen_fail(err, QWEN_EFORMAT, "its URL is empty") :
	    copy(out, QWEN_SOURCE_PATH, s, err);
}

/* ------------------------------------------------------------------- parts */

/* Anthropic's source, an object. */
static int
read_object(struct qwen_image_source *out, yyjson_val *source,
    struct qwen_err *err)
{
	yyjson_val *data = qwen_parse_get_text(source, "data");
	yyjson_val *url = qwen_parse_get_text(source, "url");

	if (qwen_parse_has_type(source, "base64") && data != NULL)
		return decode(out, qwen_parse_str(data), err);
	if (qwen_parse_has_type(source, "url") && url != NULL)
		return read_url(out, qwen_parse_str(url), err);
	return qwen_fail(err, QWEN_EUNSUP, "its source is neither base64 with "
	    "data nor url with a url");
}

static int
read_part(struct qwen_image_source *out, yyjson_val *part,
    struct qwen_err *err)
{
	yyjson_val *source = qwen_parse_get(part, "source");
	yyjson_val *url = qwen_parse_get(part, "image_url");

	if (source != NULL)
		return read_object(out, source, err);
	if (url == NULL)
		url = qwen_parse_get(part, "image");
	if (yyjson_is_obj(url))
		url = qwen_parse_get(url, "url");
	if (yyjson_is_str(url))
		return read_url(out, qwen_parse_str(url), err);
	if (url != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "its URL is not a string");
	return qwen_parse_get(part, "file_id") == NULL ? 0 : qwen_fail(err,
	    QWEN_EUNSUP, "files are not kept here: send the image itself");
}

int
qwen_parse_images(struct qwen_image_sources *all, yyjson_val *messages,
    struct qwen_err *err)
{
	yyjson_val *m, *part;
	size_t i, n, k, max;
	char name[32];

	yyjson_arr_foreach(messages, i, n, m)
	yyjson_arr_foreach(yyjson_obj_get(m, "content"), k, max, part) {
		if (!qwen_parse_is_image(part))
			continue;
		if (all->n == QWEN_REQUEST_IMAGES_MAX)
			return qwen_fail(err, QWEN_ERANGE, "more than %d "
			    "images", QWEN_REQUEST_IMAGES_MAX);
		if (qwen_grow(&all->v, &all->cap, all->n + 1,
		    sizeof *all->v) < 0)
			return qwen_oom(err);
		all->v[all->n++] = (struct qwen_image_source){ .message = i };
		snprintf(name, sizeof name, "image %zu", all->n);
		if (read_part(&all->v[all->n - 1], part, err) < 0)
			return qwen_fail_in(err, name);
	}
	return 0;
}
