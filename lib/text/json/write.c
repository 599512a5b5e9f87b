/* SPDX-License-Identifier: ISC */
/* write.c - writes JSON by formats that show its shape. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"

void
qwen_json_value(struct qwen_text *t, yyjson_val *v)
{
	char *json;
	size_t n;

	if (v == NULL)
		qwen_text_str(t, "null");
	else if (yyjson_is_str(v))
		/* always the same escapes, whatever the value was read from */
		qwen_text_json(t, yyjson_get_str(v), yyjson_get_len(v));
	else if ((json = yyjson_val_write(v, 0, &n)) == NULL)
		t->failed = 1;
	else {
		qwen_text_add(t, json, n);
		free(json);
	}
}

void
qwen_json_spaced(struct qwen_text *t, struct qwen_str json)
{
	size_t i, from = 0;
	int inside = 0;

	for (i = 0; i < json.len; i++) {
		if (inside && json.s[i] == '\\')
			i++;
		else if (json.s[i] == '"')
			inside = !inside;
		else if (!inside && (json.s[i] == ',' || json.s[i] == ':')) {
			qwen_text_add(t, json.s + from, i + 1 - from);
			qwen_text_str(t, " ");
			from = i + 1;
		}
	}
	qwen_text_add(t, json.s + from, json.len - from);
}

/* Appends what p points to: a string, a text or, for any letter, a value. */
static void
put_pointer(struct qwen_text *t, char letter, void *p)
{
	const struct qwen_str *s = p;
	const struct qwen_text *text = p;

	if (p == NULL)
		qwen_text_str(t, "null");
	else if (letter == 'S')
		qwen_text_json(t, s->s, s->len);
	else if (letter == 'T') {
		qwen_text_json(t, text->s, text->n);
		t->failed |= text->failed;
	} else
		qwen_json_value(t, p);
}

/* Appends a number by a conversion of printf(3) without width. */
static void
put_number(struct qwen_text *t, const char *spec, va_list *ap)
{
	int is_signed = strchr(spec, 'd') != NULL;
	char buf[400];		/* room for DBL_MAX as %f */
	long long v;

	if (strpbrk(spec, "du") == NULL) {
		qwen_text_add(t, buf, (size_t)snprintf(buf, sizeof buf, spec,
		    va_arg(*ap, double)));
		return;
	}
	if (strstr(spec, "ll") != NULL)
		v = va_arg(*ap, long long);
	else if (strchr(spec, 'z') != NULL)
		v = (long long)va_arg(*ap, size_t);
	else if (strchr(spec, 'l') != NULL)
		v = va_arg(*ap, long);
	else
		v = is_signed ? va_arg(*ap, int) : (long long)va_arg(*ap,
		    unsigned);
	qwen_text_add(t, buf, (size_t)snprintf(buf, sizeof buf, is_signed ?
	    "%lld" : "%llu", v));
}

/* Appends the argument of the conversion at f.  Returns what follows it. */
static const char *
put_argument(struct qwen_text *t, const char *f, va_list *ap)
{
	size_t n = strcspn(f, "sdupgf") + 1;
	char spec[8] = "";

	assert(n < sizeof spec && f[n - 1] != '\0');
	if (f[n - 1] == 's')
		qwen_text_str(t, va_arg(*ap, const char *));
	else if (f[n - 1] == 'p') {
		put_pointer(t, f[n], va_arg(*ap, void *));
		n += f[n] == 'S' || f[n] == 'T';
	} else {
		memcpy(spec, f, n);
		put_number(t, spec, ap);
	}
	return f + n;
}

static void
put_string(struct qwen_text *t, const char *s)
{
	if (s != NULL)
		qwen_text_json(t, s, strlen(s));
	else
		qwen_text_str(t, "null");
}

void
qwen_json_put(struct qwen_text *t, const char *fmt, ...)
{
	va_list ap;
	size_t n;

	if (fmt[0] == ',' && (t->n == 0 || memchr("[{:", t->s[t->n - 1], 3) !=
	    NULL))
		fmt++;
	va_start(ap, fmt);
	while (*fmt != '\0') {
		n = strcspn(fmt, "'%");
		qwen_text_add(t, fmt, n);
		fmt += n;
		if (strncmp(fmt, "'%s'", 4) == 0) {
			put_string(t, va_arg(ap, const char *));
			fmt += 4;
		} else if (*fmt == '\'') {
			qwen_text_str(t, "\"");
			fmt++;
		} else if (*fmt == '%')
			fmt = put_argument(t, fmt, &ap);
	}
	va_end(ap);
}

void
qwen_json_base64(struct qwen_text *t, const void *bytes, size_t n)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklm"
	    "nopqrstuvwxyz0123456789+/";
	const unsigned char *p = bytes;
	unsigned long three;
	char out[4];
	size_t i, k, m;

	for (i = 0; i < n; i += 3) {
		m = n - i < 3 ? n - i : 3;
		three = (unsigned long)p[i] << 16;
		three |= m > 1 ? (unsigned long)p[i + 1] << 8 : 0;
		three |= m > 2 ? p[i + 2] : 0;
		for (k = 0; k < 4; k++)
			out[k] = k > m ? '=' : letters[three >> (18 - 6 * k) &
			    63];
		qwen_text_add(t, out, 4);
	}
}
