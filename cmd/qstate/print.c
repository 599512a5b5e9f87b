/* SPDX-License-Identifier: ISC */
/* print.c - print lines of text, or JSON. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "qstate.h"

struct qstate_opts qstate_opt;

static int has_before;	/* JSON: in this object or list */
static int is_silent;	/* print no text */
static int in_line;	/* between qstate_begin and qstate_end */

/*
 * Print what precedes a value.  JSON: a comma and the key, if any.  Text: in a
 * line a blank, else the key, since the value is a line of its own.
 */
static int
begin_value(const char *key)
{
	if (is_silent)
		return 0;
	if (qstate_opt.json && has_before)
		putchar(',');
	if (qstate_opt.json && key != NULL)
		printf("\"%s\":", key);
	else if (!qstate_opt.json)
		printf(in_line ? " " : "%s ", key);
	has_before = 1;
	return 1;
}

static void
end_value(void)
{
	if (!qstate_opt.json && !in_line)
		putchar('\n');
}

void
qstate_open_json(const char *key, char bracket)
{
	if (!qstate_opt.json)
		return;
	if (key != NULL || has_before)
		begin_value(key);
	putchar(bracket);
	has_before = 0;
}

void
qstate_close_json(char bracket)
{
	if (qstate_opt.json)
		printf(bracket != 0 ? "%c" : "}\n", bracket);
	has_before = bracket != 0;
}

void
qstate_begin(const char *key, const char *word)
{
	qstate_open_json(NULL, '{');
	if (qstate_opt.json && key != NULL)
		qstate_word(key, word);
	else if (!qstate_opt.json && !is_silent)
		printf("%s", word);
	in_line = 1;
}

void
qstate_end(void)
{
	qstate_close_json('}');
	if (!qstate_opt.json && !is_silent)
		putchar('\n');
	in_line = 0;
}

void
qstate_word(const char *key, const char *s)
{
	if (!begin_value(key))
		return;
	if (s == NULL)
		printf("%s", qstate_opt.json ? "null" : "-");
	else if (qstate_opt.json)
		cli_json_string(s);
	else
		cli_show(s, strlen(s));
	end_value();
}

void
qstate_put(const char *key, const char *fmt, ...)
{
	va_list ap;

	if (!begin_value(key))
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	end_value();
}

void
qstate_real(const char *key, double v)
{
	/* JSON has no infinity and NaN */
	qstate_put(key, qstate_opt.json && !isfinite(v) ? "null" : "%.6g", v);
}

void
qstate_flag(const char *key, int v)
{
	if ((qstate_opt.json || v) && begin_value(key))
		printf("%s", !qstate_opt.json ? key : v ? "true" : "false");
}

void
qstate_fp(const char *key, const struct qwen_fp *fp)
{
	char hex[33];

	qstate_word(key, qwen_fp_hex(fp, hex));
}

/* Print a field; in a line of text with its key. */
static void
print_pair(const char *key, const char *s)
{
	if (in_line && !qstate_opt.json)
		qstate_word(NULL, key);
	qstate_word(key, s);
}

void
qstate_formats(uint32_t numerics, enum qwen_kv k, enum qwen_kv v,
    const struct qwen_rope *rope)
{
	char buf[QWEN_ROPE_TEXT];
	const char *scaling = qwen_rope_text(rope, buf);

	if (in_line && !qstate_opt.json)
		qstate_word(NULL, "numerics");
	qstate_uint("numerics", numerics);
	if (k != QWEN_KV_F16 || v != QWEN_KV_F16) {
		print_pair("keys", qwen_kv_name(k));
		print_pair("values", qwen_kv_name(v));
	}
	if (*scaling != '\0')
		print_pair("rope", scaling);
}

void
qstate_header(const struct qwen_header *h)
{
	static const struct qwen_fp none;

	qstate_fp("model", &h->model);
	if (memcmp(&h->base, &none, sizeof none) != 0)
		qstate_fp("base", &h->base);
	qstate_fp("vocabulary", &h->vocab);
	qstate_formats(h->numerics, h->k, h->v, &h->rope);
}

void
qstate_diff_begin(const char *a, const char *b)
{
	is_silent = cli_quiet && !qstate_opt.json;
	qstate_open_json(NULL, '{');
	if (qstate_opt.json) {
		qstate_word("a", a);
		qstate_word("b", b);
	}
	qstate_open_json("differences", '[');
}

void
qstate_diff_end(int differ)
{
	if (qstate_opt.json)
		qstate_flag("equal", !differ);
	qstate_close_json(0);
}

/* ------------------------------------------------------- values of a state */

size_t
qstate_rows(const struct qwen_state_value *v)
{
	return v->type == QWEN_VALUE_LIST ? v->bytes / v->columns / v->width : 1;
}

/* Print a row of a list: "5 3"; in JSON [5,3], or 5 if it has one column. */
static void
print_row(const struct qwen_state_value *v, size_t row, int json)
{
	size_t i, n = v->columns, at = row * n;

	printf("%s", json && n > 1 ? "[" : "");
	for (i = 0; i < n; i++)
		printf("%s%" PRIu64, i == 0 ? "" : json ? "," : " ",
		    v->width == 4 ? ((const uint32_t *)v->data)[at + i] :
		    ((const uint64_t *)v->data)[at + i]);
	printf("%s", json && n > 1 ? "]" : "");
}

void
qstate_value(const struct qwen_state_value *v, size_t row, int json)
{
	const char *quote = json ? "\"" : "";
	size_t i;

	if (v->type == QWEN_VALUE_NUMBER)
		printf("%" PRIu64, *(const uint64_t *)v->data);
	else if (v->type == QWEN_VALUE_FLAG && json)
		printf("%s", *(const int *)v->data ? "true" : "false");
	else if (v->type == QWEN_VALUE_FLAG)
		printf("%s%s", *(const int *)v->data ? "" : "un", v->name);
	else if (v->type == QWEN_VALUE_LIST)
		print_row(v, row, json);
	else if (v->data == NULL)
		printf("null");
	else if (v->type == QWEN_VALUE_TEXT && json)
		cli_json_string(v->data);
	else if (v->type == QWEN_VALUE_TEXT)
		cli_show(v->data, v->bytes);
	else {
		printf("%s", quote);
		for (i = 0; i < v->bytes; i++)
			printf("%02x", ((const unsigned char *)v->data)[i]);
		printf("%s", quote);
	}
}

void
qstate_json_value(const char *key, const struct qwen_state_value *v)
{
	int list = v->type == QWEN_VALUE_LIST;
	size_t i;

	if (!begin_value(key))
		return;
	printf("%s", list ? "[" : "");
	for (i = 0; i < qstate_rows(v); i++) {
		printf("%s", i > 0 ? "," : "");
		qstate_value(v, i, 1);
	}
	printf("%s", list ? "]" : "");
}
