/* SPDX-License-Identifier: ISC */
/* show.c - values as text: as in Python's print(), repr() and json.dumps(). */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat/chat.h"

/*
 * Gets the digits of the shortest decimal that reads back as f, and its
 * exponent.
 */
static int
shortest(double f, char digits[32], int *exponent)
{
	char s[40];
	const char *p;
	int prec, n = 0;

	/* any 15 digits survive a double; trailing zeros are dropped below */
	for (prec = fabs(f) < DBL_MIN ? 0 : 14; prec < 17; prec++) {
		snprintf(s, sizeof s, "%.*e", prec, f);
		if (strtod(s, NULL) == f)
			break;
	}
	for (p = s; *p != '\0' && *p != 'e'; p++) {
		if (*p >= '0' && *p <= '9')
			digits[n++] = *p;
	}
	while (n > 1 && digits[n - 1] == '0')
		n--;
	digits[n] = '\0';
	*exponent = *p == 'e' ? atoi(p + 1) : 0;
	return n;
}

/* Writes a number like Python; returns the length. */
static size_t
put_double(char s[64], double f)
{
	char digits[32];
	const char *sign = signbit(f) ? "-" : "";
	int n, e;

	if (isnan(f))
		return (size_t)snprintf(s, 64, "nan");
	if (isinf(f))
		return (size_t)snprintf(s, 64, "%sinf", sign);
	n = shortest(fabs(f), digits, &e);
	if (e < -4 || e >= 16)
		return (size_t)snprintf(s, 64, "%s%c%s%se%c%02d", sign,
		    digits[0], n > 1 ? "." : "", digits + 1,
		    e < 0 ? '-' : '+', abs(e));
	if (e < 0)
		return (size_t)snprintf(s, 64, "%s0.%.*s%s", sign, -e - 1,
		    "0000", digits);
	if (n <= e + 1)
		return (size_t)snprintf(s, 64, "%s%s%.*s.0", sign, digits,
		    e + 1 - n, "0000000000000000");
	return (size_t)snprintf(s, 64, "%s%.*s.%s", sign, e + 1, digits,
	    digits + e + 1);
}

static void
put_number(struct chat_exec *r, struct chat_buf *b, const struct chat_value *v)
{
	char s[64];

	if (v->type == CHAT_BIG) {
		qwen_chat_put(r, b, &v->u.s);
		return;
	}
	qwen_chat_step(r, v->type == CHAT_FLOAT ? 64 : 4);
	if (v->type == CHAT_FLOAT)
		put_double(s, v->u.f);
	else
		snprintf(s, sizeof s, "%" PRId64, v->u.i);
	qwen_chat_put_str(r, b, s);
}

/* How to write values: as print(), repr() or JSON. */
struct form {
	enum { PLAIN, REPR, JSON } how;
	struct chat_dumps	   json;
};

/* -------------------------------------------------------------------- texts */

/* Returns 1 if repr() writes a character beyond ASCII unchanged. */
static int
prints(uint32_t c)
{
	return !(c < 0xa0 || c == 0xad || qwen_chat_space(c) ||
	    (c >= 0x600 && c <= 0x605) || c == 0x61c || c == 0x6dd ||
	    c == 0x70f || c == 0x180e || (c >= 0x200b && c <= 0x200f) ||
	    (c >= 0x202a && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) ||
	    (c >= 0xe000 && c <= 0xf8ff) || c == 0xfeff ||
	    (c >= 0xfff0 && c <= 0xfffb) || (c & 0xfffe) == 0xfffe ||
	    c >= 0xe0000);
}

/* Returns repr()'s escape for a character; NULL if it is unchanged. */
static const char *
repr_escape(uint32_t c, char quote, char s[16])
{
	if (c == '\n' || c == '\r' || c == '\t')
		return c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
	if (c == '\\' || c == (unsigned char)quote)
		snprintf(s, 16, "\\%c", (char)c);
	else if (c >= 0x20 && (c < 0x7f || prints(c)))
		return NULL;
	else if (c < 0x100)
		snprintf(s, 16, "\\x%02" PRIx32, c);
	else if (c < 0x10000)
		snprintf(s, 16, "\\u%04" PRIx32, c);
	else
		snprintf(s, 16, "\\U%08" PRIx32, c);
	return s;
}

/* Returns JSON's escape for the character c at at; NULL if it is unchanged. */
static const char *
json_escape(const char *at, uint32_t c, int ascii, char s[16])
{
	size_t used;

	if (ascii && c >= 0x10000) {
		snprintf(s, 16, "\\u%04" PRIx32 "\\u%04" PRIx32,
		    0xd800 + ((c - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
		return s;
	}
	if (ascii && c >= 0x7f) {
		snprintf(s, 16, "\\u%04" PRIx32, c);
		return s;
	}

	/* escape only what JSON requires, as Python does */
	if ((unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
		return NULL;
	s[qwen_json_char(at, 1, &used, s)] = '\0';
	return s;
}

static void
quoted(struct chat_exec *r, struct chat_buf *b, const struct chat_text *t,
    const struct form *f)
{
	int json = f->how == JSON;

	char buf[16], quote[2] = "'";
	const char *e;
	size_t i, k, begin = 0;
	uint32_t c;

	if (json || (t->n > 0 && memchr(t->s, '\'', t->n) != NULL &&
	    memchr(t->s, '"', t->n) == NULL))
		quote[0] = '"';
	qwen_chat_put_str(r, b, quote);
	qwen_chat_step(r, t->n / 4);
	for (i = 0; i < t->n && !r->failed; i += k) {
		k = qwen_chat_char(t->s, i, t->n, &c);
		e = json ? json_escape(t->s + i, c, f->json.ascii, buf) :
		    repr_escape(c, quote[0], buf);
		if (e == NULL)
			continue;
		qwen_chat_put_slice(r, b, t, begin, i);
		qwen_chat_step(r, 8);
		qwen_chat_put_like(r, b, t, i, e, strlen(e));
		begin = i + k;
	}
	qwen_chat_put_slice(r, b, t, begin, t->n);
	qwen_chat_put_str(r, b, quote);
}

/* ------------------------------------------------------------------- values */

static void write_at(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v, struct form f, unsigned depth);

static void
new_line(struct chat_exec *r, struct chat_buf *b, int indent, unsigned depth)
{
	if (indent < 0)
		return;
	qwen_chat_put_str(r, b, "\n");
	qwen_chat_put_spaces(r, b, (int64_t)indent * depth);
}

static void
write_key(struct chat_exec *r, struct chat_buf *b, const struct chat_value *v,
    struct form f, unsigned depth)
{
	const char *quote = f.how == JSON && v->type != CHAT_TEXT ? "\"" : "";

	f.json.indent = -1;
	qwen_chat_put_str(r, b, quote);
	write_at(r, b, v, f, depth);
	qwen_chat_put_str(r, b, quote);
}

static int
by_key(const void *a, const void *b)
{
	const struct chat_pair *x = a, *y = b;

	return qwen_chat_compare_text(&x->key.u.s, &y->key.u.s);
}

/* Returns a copy with sorted keys; after a failure d itself. */
static const struct chat_dict *
sort_keys(struct chat_exec *r, const struct chat_dict *d,
    struct chat_dict *room)
{
	uint64_t work = 0;
	size_t i;

	room->n = room->cap = d->n;
	room->p = qwen_chat_new(r, d->n, sizeof *room->p);
	for (i = 0; i < d->n && room->p != NULL; i++) {
		room->p[i] = d->p[i];
		work += 1 + d->p[i].key.u.s.n / 64;
		if (d->p[i].key.type != CHAT_TEXT)
			qwen_chat_fail(r, "sort_keys needs keys that are "
			    "strings");
	}
	/* about 20 comparisons per key */
	if (room->p == NULL || qwen_chat_step(r, 20 * work) < 0)
		return d;
	qsort(room->p, room->n, sizeof *room->p, by_key);
	return room;
}

/* Writes a list, a tuple or a dictionary. */
static void
write_members(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v, struct form f, unsigned depth)
{
	const struct chat_dict *d = v->type == CHAT_DICT ? v->u.d : NULL;
	struct chat_dict sorted;
	int tuple = v->type == CHAT_TUPLE && f.how != JSON;
	size_t i, n = d != NULL ? d->n : v->u.l.n;

	if (d != NULL && f.how == JSON && f.json.sorted)
		d = sort_keys(r, d, &sorted);
	qwen_chat_put_str(r, b, d != NULL ? "{" : tuple ? "(" : "[");
	for (i = 0; i < n && !r->failed; i++) {
		if (i > 0 && f.json.comma.s != NULL)
			qwen_chat_put(r, b, &f.json.comma);
		else if (i > 0)
			qwen_chat_put_str(r, b, f.json.indent < 0 ? ", " : ",");
		new_line(r, b, f.json.indent, depth + 1);
		if (d != NULL) {
			write_key(r, b, &d->p[i].key, f, depth + 1);
			if (f.json.colon.s != NULL)
				qwen_chat_put(r, b, &f.json.colon);
			else
				qwen_chat_put_str(r, b, ": ");
		}
		write_at(r, b, d != NULL ? &d->p[i].v : &v->u.l.v[i], f,
		    depth + 1);
	}
	if (n > 0)
		new_line(r, b, f.json.indent, depth);
	qwen_chat_put_str(r, b, d != NULL ? "}" : !tuple ? "]" :
	    n == 1 ? ",)" : ")");
}

static void
write_at(struct chat_exec *r, struct chat_buf *b, const struct chat_value *v,
    struct form f, unsigned depth)
{
	int json = f.how == JSON;

	if (depth > CHAT_VALUE_DEPTH)
		qwen_chat_limit(r, "depth of a value");
	if (qwen_chat_step(r, 1) < 0)
		return;
	switch (v->type) {
	case CHAT_NONE: qwen_chat_put_str(r, b, json ? "null" : "None"); break;
	case CHAT_BOOL:
		qwen_chat_put_str(r, b, json ? v->u.i ? "true" : "false" :
		    v->u.i ? "True" : "False");
		break;
	case CHAT_INT: case CHAT_BIG: case CHAT_FLOAT:
		if (json && v->type == CHAT_FLOAT && !isfinite(v->u.f))
			qwen_chat_put_str(r, b, isnan(v->u.f) ? "NaN" :
			    v->u.f < 0 ? "-Infinity" : "Infinity");
		else
			put_number(r, b, v);
		break;
	case CHAT_TEXT:
		if (f.how == PLAIN)
			qwen_chat_put(r, b, &v->u.s);
		else
			quoted(r, b, &v->u.s, &f);
		break;
	case CHAT_LIST: case CHAT_TUPLE: case CHAT_DICT:
		if (!json)
			f.how = REPR;
		write_members(r, b, v, f, depth);
		break;
	case CHAT_UNDEFINED:
		if (!json) {
			qwen_chat_put_str(r, b, f.how == REPR ? "Undefined" :
			    "");
			break;
		}
		/* FALLTHROUGH */
	default:
		qwen_chat_fail(r, json ? "%s cannot be written as JSON" :
		    "%s cannot be printed", qwen_chat_type_name(v));
	}
}

void
qwen_chat_json(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v, const struct chat_dumps *how)
{
	write_at(r, b, v, (struct form){ JSON, *how }, 0);
}

void
qwen_chat_print(struct chat_exec *r, struct chat_buf *b, struct chat_value v)
{
	write_at(r, b, &v, (struct form){ PLAIN, { .indent = -1 } }, 0);
}

void
qwen_chat_repr(struct chat_exec *r, struct chat_buf *b,
    const struct chat_value *v)
{
	write_at(r, b, v, (struct form){ REPR, { .indent = -1 } }, 0);
}
