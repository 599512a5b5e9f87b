/* SPDX-License-Identifier: ISC */
/* text.c - growing arrays and texts, UTF-8 output, JSON strings. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/utf8.h"

static void
test_grow(void)
{
	int32_t *v = NULL;
	size_t cap = 0, i, moves = 0;

	for (i = 0; i < 100000; i++) {
		size_t old = cap;

		if (qwen_grow(&v, &cap, i + 1, sizeof *v) < 0)
			break;
		moves += cap != old;
		v[i] = (int32_t)i;
	}
	ok(i == 100000 && v[0] == 0 && v[99999] == 99999 && moves < 40,
	    "an array grows to 100,000 in %zu steps", moves);
	i = cap;
	ok(qwen_grow(&v, &cap, SIZE_MAX, sizeof *v) < 0 && cap == i &&
	    v[99999] == 99999 && qwen_grow(&v, &cap, SIZE_MAX / 4, 8) < 0,
	    "no more than there can be; nothing changes");
	free(v);
}

/* Every code point: written, read, and in JSON. */
static void
test_utf8(void)
{
	size_t bad = 0, bad_json = 0, used, n;
	char s[4], out[QWEN_JSON_CHAR];
	uint32_t c, back;

	for (c = 0; c < 0x110000; c++) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		n = qwen_utf8_write(c, s);
		bad += qwen_utf8_read((unsigned char *)s, n, &back) != (int)n ||
		    back != c;
		n = qwen_json_char(s, n, &used, out);
		if (c < 0x20 || c == '"' || c == '\\' || (c >= 0x7f && c < 0xa0))
			bad_json += out[0] != '\\';
		else
			bad_json += n != used || memcmp(out, s, n) != 0;
	}
	ok(bad == 0, "UTF-8 of every code point is read again");
	ok(bad_json == 0, "in JSON controls alone have another form");
}

/* Every code point: what steers a terminal does not come through. */
static void
test_shown(void)
{
	static const char raw[] = "\xc2\x9b" "31m\x1b[0m\xe2\x80\xae\n\t\r\\"
	    "\xff caf\xc3\xa9 \xe2\x82";
	char s[QWEN_SHOWN_CHAR + 1], out[QWEN_SHOWN_CHAR];
	struct qwen_text t = { 0 };
	struct qwen_err err;
	size_t i, n, used, bad = 0, steer = 0;
	uint32_t c;

	for (c = 0; c < 0x110000; c++) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		n = qwen_utf8_write(c, s);
		i = qwen_shown_char(s, n, &used, out);
		steer += (size_t)qwen_utf8_steers(c);
		if (qwen_utf8_steers(c) || c == '\\')
			bad += used != n || i < 2 || out[0] != '\\' ||
			    out[i - 1] < ' ' || out[i - 1] > '~';
		else
			bad += used != n || i != n || memcmp(out, s, n) != 0;
		s[n] = '\0';
		qwen_utf8_mask(s);
		bad += c != 0 && (s[0] == '?') != (qwen_utf8_steers(c) ||
		    c == '?');
	}
	ok(bad == 0 && steer > 100 && steer < 5000, "what steers a terminal is "
	    "escaped or masked, all else is as it was");
	for (i = 0; i < sizeof raw - 1; i += used)
		qwen_text_add(&t, out, qwen_shown_char(raw + i,
		    sizeof raw - 1 - i, &used, out));
	ok(strcmp(t.s, "\\xc2\\x9b" "31m\\x1b[0m\\xe2\\x80\\xae\\n\\t\\r\\\\"
	    "\\xff caf\xc3\xa9 \\xe2\\x82") == 0, "text for a terminal: %s", t.s);
	qwen_text_fini(&t);
	qwen_fail(&err, QWEN_EFORMAT, "no \"%s\"", raw);
	ok(strcmp(err.msg, "no \"??31m?[0m??""????\\? caf\xc3\xa9 ??\"") == 0,
	    "a message: %s", err.msg);
}

static void
test_text(void)
{
	static const char raw[] = "a\"\\\b\t\n\v\f\r\x1f\x7f\xc2\x85\xff\xe2\x82"
	    "\xf0\x9f\x99\x82";
	struct qwen_text t = { 0 };
	struct qwen_err err;

	qwen_text_json(&t, raw, sizeof raw - 1);
	ok(strcmp(t.s, "\"a\\\"\\\\\\b\\t\\n\\u000b\\f\\r\\u001f\\u007f\\u0085"
	    "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xf0\x9f\x99\x82\"") == 0,
	    "a text as JSON: %s", t.s);
	qwen_text_fini(&t);
	qwen_text_fmt(&t, "%d%%", 50);
	qwen_text_str(&t, " of ");
	qwen_text_str(&t, "\xe2\x82\xac");
	qwen_text_add(&t, NULL, 0);
	ok(strcmp(t.s, "50% of \xe2\x82\xac") == 0 && t.n == 10 && !t.failed,
	    "a text in parts");
	qwen_text_add(&t, "", SIZE_MAX - 4);
	qwen_text_str(&t, "more");
	ok(t.failed && t.n == 10, "no memory: nothing more is added");
	qwen_text_fini(&t);
	ok(t.s == NULL && t.n == 0 && !t.failed, "empty again");
	ok(qwen_oom(&err) == -1 && err.code == QWEN_ENOMEM &&
	    strcmp(err.msg, "out of memory") == 0, "out of memory has one text");
}

int
main(void)
{
	test_grow();
	test_utf8();
	test_shown();
	test_text();
	return done_testing();
}
