/* SPDX-License-Identifier: ISC */
/* format.c - "%s" % x and "{}".format(x), as in Python. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "text/chat/chat.h"

enum { NUMBER_MAX = 512, WIDTH_MAX = 100000, PRECISION_MAX = 100 };

/* Format of one value, for both syntaxes. */
struct spec {
	char			type;		/* 's', 'd', ...; 0: default */
	char			align;		/* < > = ^, or 0: by the type */
	char			sign;		/* +, - or space; or 0 */
	int			alt, comma;	/* "#"; thousands separators */
	struct chat_text	fill;		/* one character */
	int64_t			width, precision;	/* -1: not given */
};

static const struct spec plain = {
	.fill = { " ", 1, NULL }, .width = -1, .precision = -1,
};

static int
fail(struct chat_exec *r, const char *what)
{
	return qwen_chat_fail(r, "format: %s", what);
}

static int
is_among(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* Passes the sign c at *p, if it is there. */
static int
pass(const char **p, const char *end, char c)
{
	int is = *p < end && **p == c;

	*p += is;
	return is;
}

/* ------------------------------------------------------------------- values */

/* Writes a text padded to the width; "=" puts the padding after the sign. */
static void
put_padded(struct chat_exec *r, struct chat_buf *b, const struct spec *s,
    const struct chat_text *t, size_t n_sign, char usual)
{
	int64_t n = (int64_t)qwen_chat_chars(r, t->s, t->n);
	int64_t more = s->width > n ? s->width - n : 0, left;
	char align = s->align != 0 ? s->align : usual;
	struct chat_text head = chat_slice(t, 0, align == '=' ? n_sign : 0);
	struct chat_text tail = chat_slice(t, head.n, t->n);

	left = align == '<' ? 0 : align == '^' ? more / 2 : more;
	qwen_chat_put(r, b, &head);
	qwen_chat_put_times(r, b, &s->fill, left);
	qwen_chat_put(r, b, &tail);
	qwen_chat_put_times(r, b, &s->fill, more - left);
}

/*
 * Inserts commas between thousands into the leading digits of s, if size
 * allows.
 */
static void
add_commas(char *s, size_t size)
{
	size_t digits = strspn(s, "0123456789"), n = strlen(s), i;

	for (i = digits; i > 3; i -= 3) {
		if (n + 2 > size)
			return;
		memmove(s + i - 2, s + i - 3, n - (i - 3) + 1);
		s[i - 3] = ',';
		n++;
	}
}

/* Writes an integer without its sign; -1 if the type is not for integers. */
static int
write_integer(struct chat_exec *r, const struct spec *s, int64_t i,
    char out[NUMBER_MAX])
{
	uint64_t u = i < 0 ? 0 - (uint64_t)i : (uint64_t)i, v;
	const char *prefix = !s->alt ? "" : s->type == 'x' ? "0x" :
	    s->type == 'X' ? "0X" : s->type == 'o' ? "0o" :
	    s->type == 'b' ? "0b" : "";
	int n = 0, k;

	switch (s->type) {
	case 'd': case 'i': case 'u': case 'n': case 0:
		snprintf(out, NUMBER_MAX, "%" PRIu64, u);
		break;
	case 'x': case 'X': case 'o':
		snprintf(out, NUMBER_MAX, s->type == 'x' ? "%s%" PRIx64 :
		    s->type == 'X' ? "%s%" PRIX64 : "%s%" PRIo64, prefix, u);
		break;
	case 'b':
		for (v = u; v > 1; v >>= 1)
			n++;
		k = snprintf(out, NUMBER_MAX, "%s", prefix);
		for (; n >= 0; n--)
			out[k++] = (char)('0' + (u >> n & 1));
		out[k] = '\0';
		break;
	default:
		return fail(r, "this type is not for integers");
	}
	return 0;
}

static int
write_float(struct chat_exec *r, const struct spec *s, double f,
    char out[NUMBER_MAX])
{
	char form[16];
	int precision = s->precision < 0 ? 6 : (int)s->precision;

	if (!is_among(s->type == '%' ? 'f' : s->type, "eEfFgG") ||
	    precision > PRECISION_MAX)
		return fail(r, "this type is not for numbers, or has too many "
		    "digits");
	snprintf(form, sizeof form, "%%%s.*%c", s->alt ? "#" : "",
	    s->type == '%' ? 'f' : s->type);
	if (s->type == '%')
		f *= 100;
	snprintf(out, NUMBER_MAX, form, precision, f < 0 ? -f : f);
	if (s->type == '%')
		strcat(out, "%");
	return 0;
}

static void
put_number(struct chat_exec *r, struct chat_buf *b, const struct spec *s,
    const struct chat_value *v)
{
	char out[NUMBER_MAX] = "", all[NUMBER_MAX + 2];
	struct chat_text t = { all, 0, NULL };
	double f = 0;
	int rc, minus;

	if (!qwen_chat_number(v, &f)) {
		fail(r, "expected a number");
		return;
	}
	minus = v->type == CHAT_FLOAT ? f < 0 : v->u.i < 0;
	if (s->precision >= 0 && !is_among(s->type, "eEfFgG%"))
		rc = fail(r, "an integer cannot have a precision");
	else if (is_among(s->type, "eEfFgG%"))
		rc = write_float(r, s, f, out);
	else if (v->type != CHAT_FLOAT)
		rc = write_integer(r, s, v->u.i, out);
	else
		rc = fail(r, "expected an integer");
	if (rc < 0)
		return;
	if (s->comma)
		add_commas(out, sizeof out);
	t.n = (size_t)snprintf(all, sizeof all, "%s%s", minus ? "-" :
	    s->sign == '+' ? "+" : s->sign == ' ' ? " " : "", out);
	put_padded(r, b, s, &t, strlen(all) - strlen(out), '>');
}

/* Writes a text of at most precision characters. */
static void
put_text(struct chat_exec *r, struct chat_buf *b, const struct spec *s,
    const struct chat_text *t, char usual)
{
	struct chat_text part = *t;

	if (s->precision >= 0)
		part.n = qwen_chat_offset(r, t, (size_t)s->precision);
	put_padded(r, b, s, &part, 0, usual);
}

/* Converts a value like str() or, with repr set, repr(). */
static struct chat_text
written(struct chat_exec *r, const struct chat_value *v, int repr)
{
	struct chat_buf b = { 0 };

	if (v->type == CHAT_TEXT && !repr)
		return v->u.s;
	if (repr)
		qwen_chat_repr(r, &b, v);
	else
		qwen_chat_print(r, &b, *v);
	return qwen_chat_buf_value(r, &b).u.s;
}

/* ------------------------------------------------------------ "%s" % values */

/* The source of the values. */
struct source {
	struct chat_exec		*r;
	const struct chat_value	*v;	/* positional */
	size_t			 n, used;
	const struct chat_dict	*by_name;	/* or NULL */
};

static const struct chat_value *
next_value(struct source *s)
{
	static const struct chat_value none = { .type = CHAT_NONE };

	if (s->used < s->n)
		return &s->v[s->used++];
	fail(s->r, "not enough values");
	return &none;
}

/* Parses a number or "*" at *p; returns -1 if there is none. */
static int64_t
number_at(struct source *s, const char **p, const char *end)
{
	const struct chat_value *v;
	int64_t n = -1;

	if (pass(p, end, '*')) {
		v = next_value(s);
		return v->type == CHAT_INT && v->u.i >= 0 &&
		    v->u.i <= WIDTH_MAX ? v->u.i :
		    fail(s->r, "invalid width");
	}
	for (; *p < end && **p >= '0' && **p <= '9'; ++*p) {
		n = 10 * (n < 0 ? 0 : n) + (**p - '0');
		if (n > WIDTH_MAX)
			return fail(s->r, "width too large");
	}
	return n;
}

/* Parses (name), flags, width and precision; p is after the %. */
static const char *
percent_spec(struct source *s, struct spec *f, const struct chat_value **v,
    const char *p, const char *end)
{
	struct chat_value key;
	const char *close;
	int zero = 0;

	if (p < end && *p == '(') {
		close = memchr(p, ')', (size_t)(end - p));
		if (close == NULL || s->by_name == NULL) {
			fail(s->r, "a named value needs an object");
			return end;
		}
		key = chat_text((struct chat_text){ p + 1,
		    (size_t)(close - p - 1), NULL });
		*v = qwen_chat_find(s->r, s->by_name, &key);
		if (*v == NULL)
			fail(s->r, "the object has no value of that name");
		p = close + 1;
	}
	for (; p < end && is_among(*p, "-+ #0"); p++) {
		if (*p == '-')
			f->align = '<';
		else if (*p == '#')
			f->alt = 1;
		else if (*p == '0')
			zero = 1;
		else if (f->sign != '+')
			f->sign = *p;
	}
	f->width = number_at(s, &p, end);
	if (pass(&p, end, '.')) {
		f->precision = number_at(s, &p, end);
		if (f->precision < 0)
			f->precision = 0;
	}
	while (p < end && is_among(*p, "hlL"))
		p++;
	if (zero && f->align == 0 && p < end && !is_among(*p, "srac")) {
		f->align = '=';
		f->fill = chat_literal("0");
	}
	return p;
}

static void
percent_value(struct source *s, struct chat_buf *b, struct spec *f,
    const struct chat_value *v)
{
	struct chat_value whole = *v;
	struct chat_text t;

	if (f->type == 's' || f->type == 'r') {
		t = written(s->r, v, f->type == 'r');
		put_text(s->r, b, f, &t, '>');
	} else if (f->type == 'c' && v->type == CHAT_TEXT) {
		if (qwen_chat_chars(s->r, v->u.s.s, v->u.s.n) != 1)
			fail(s->r, "%c needs a single character");
		put_text(s->r, b, f, &v->u.s, '>');
	} else if (is_among(f->type, "diuxXoeEfFgG")) {
		if (is_among(f->type, "diu") && v->type == CHAT_FLOAT &&
		    v->u.f > -9e18 && v->u.f < 9e18)
			whole = chat_int((int64_t)v->u.f);
		put_number(s->r, b, f, &whole);
	} else
		fail(s->r, "unknown type after %");
}

struct chat_value
qwen_chat_percent(struct chat_exec *r, const struct chat_text *t,
    const struct chat_value *values)
{
	struct source s = { .r = r, .v = values, .n = 1 };
	const char *p = t->s, *end = t->s + t->n, *from = p;
	const struct chat_value *v;
	struct chat_buf b = { 0 };
	struct spec f;

	if (values->type == CHAT_TUPLE) {
		s.v = values->u.l.v;
		s.n = values->u.l.n;
	} else if (values->type == CHAT_DICT)
		s.by_name = values->u.d;
	while (!r->failed) {
		from = p;
		p = memchr(p, '%', (size_t)(end - p));
		qwen_chat_put_slice(r, &b, t, (size_t)(from - t->s),
		    (size_t)((p != NULL ? p : end) - t->s));
		if (p == NULL || qwen_chat_step(r, 4) < 0)
			break;
		f = plain;
		v = NULL;
		p = percent_spec(&s, &f, &v, p + 1, end);
		if (p >= end) {
			fail(r, "nothing after the last %");
			break;
		}
		f.type = *p++;
		if (f.type == '%')
			qwen_chat_put_data(r, &b, "%", 1);
		else
			percent_value(&s, &b, &f, v != NULL ? v :
			    next_value(&s));
	}
	if (s.used < s.n && s.by_name == NULL)
		fail(r, "too many values");
	return qwen_chat_buf_value(r, &b);
}

/* ------------------------------------------------------ "{}".format(values) */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
static void
read_spec(struct chat_exec *r, struct spec *f, const struct chat_text *t)
{
	struct source none = { .r = r };
	const char *p = t->s, *end = t->s + t->n;
	uint32_t u;
	size_t k = t->n > 0 ? qwen_chat_char(t->s, 0, t->n, &u) : 0;

	if (k > 0 && k < t->n && is_among(p[k], "<>=^")) {
		f->fill = chat_slice(t, 0, k);
		f->align = p[k];
		p += k + 1;
	} else if (p < end && is_among(*p, "<>=^"))
		f->align = *p++;
	if (p < end && is_among(*p, "+- "))
		f->sign = *p++;
	f->alt = pass(&p, end, '#');
	if (pass(&p, end, '0') && f->align == 0) {
		f->align = '=';
		f->fill = chat_literal("0");
	}
	if (p < end && *p != '*')
		f->width = number_at(&none, &p, end);
	f->comma = pass(&p, end, ',');
	if (pass(&p, end, '.')) {
		f->precision = p < end && *p != '*' ?
		    number_at(&none, &p, end) : -1;
		if (f->precision < 0)
			fail(r, "no precision after the point");
	}
	if (p < end)
		f->type = *p++;
	if (p < end)
		fail(r, "invalid format specification");
}

static void
put_field(struct chat_exec *r, struct chat_buf *b, const struct chat_value *v,
    char how, const struct chat_text *spec)
{
	struct spec f = plain;
	struct chat_text t;

	read_spec(r, &f, spec);
	if (how != 0 || (v->type != CHAT_INT && v->type != CHAT_FLOAT &&
	    !(v->type == CHAT_BOOL && f.type != 0))) {
		if (how == 0 && v->type != CHAT_TEXT && spec->n > 0)
			fail(r, "this value cannot be formatted so");
		if ((f.type != 0 && f.type != 's') || f.align == '=' ||
		    f.sign != 0 || f.comma)
			fail(r, "this type is not for strings");
		t = written(r, v, how == 'r');
		put_text(r, b, &f, &t, '<');
	} else if (v->type == CHAT_FLOAT && f.type == 0 && f.precision < 0 &&
	    !f.comma) {
		t = written(r, v, 0);
		put_padded(r, b, &f, &t, t.n > 0 && t.s[0] == '-', '>');
	} else {
		if (f.type == 0 && v->type == CHAT_FLOAT)
			fail(r, "a precision without a type");
		put_number(r, b, &f, v);
	}
}

/* Applies .name and [key] after the argument's name. */
static struct chat_value
follow(struct chat_exec *r, struct chat_value v, const char *p,
    const char *end)
{
	struct chat_value key;
	const char *from;
	char sign;
	int64_t i;

	while (p < end && !r->failed) {
		sign = *p++;
		from = p;
		while (p < end && (sign == '[' ? *p != ']' :
		    *p != '.' && *p != '['))
			p++;
		key = chat_text((struct chat_text){ from, (size_t)(p - from),
		    NULL });
		if (sign == '[' && p < end)
			p++;
		if (sign == '[' && qwen_chat_digits(key.u.s.s, key.u.s.n, &i))
			key = chat_int(i);
		/* only [key] works on objects: attributes are Python's own */
		v = sign == '[' ? qwen_chat_item(r, &v, &key) :
		    chat_undefined(from, key.u.s.n);
		if (v.type == CHAT_UNDEFINED)
			fail(r, "the value has no such attribute");
	}
	return v;
}

/*
 * Returns the argument of a field "0", "name" or "", with its .name and [key].
 */
static struct chat_value
field_value(struct chat_exec *r, const struct chat_args *a, const char *p,
    const char *end, size_t *next)
{
	struct chat_value none = { .type = CHAT_NONE };
	const struct chat_value *v = NULL;
	size_t plain_args = a->n - a->n_key, k, n;
	const char *stop = p;
	int64_t i = 0;

	while (stop < end && *stop != '.' && *stop != '[')
		stop++;
	n = (size_t)(stop - p);
	if (n == 0)
		i = (int64_t)(*next)++;
	if (n == 0 || qwen_chat_digits(p, n, &i)) {
		if (i >= 0 && (uint64_t)i < plain_args)
			v = &a->v[i];
	} else {
		for (k = 0; k < a->n_key; k++) {
			if (strlen(a->key[k]) == n &&
			    memcmp(a->key[k], p, n) == 0)
				v = &a->v[plain_args + k];
		}
	}
	if (v == NULL)
		fail(r, "a value is missing");
	return v != NULL ? follow(r, *v, stop, end) : none;
}

/* Formats {name!r:spec}, the text from p to end. */
static void
put_braces(struct chat_exec *r, struct chat_buf *b, const struct chat_args *a,
    const char *p, const char *end, size_t *next)
{
	const char *colon = memchr(p, ':', (size_t)(end - p));
	const char *name_end = colon != NULL ? colon : end, *mark;
	struct chat_text spec = { "", 0, NULL };
	struct chat_value v;
	char how = 0;

	if (colon != NULL)
		spec = (struct chat_text){ colon + 1,
		    (size_t)(end - colon - 1), qwen_chat_all_own };
	mark = memchr(p, '!', (size_t)(name_end - p));
	if (mark != NULL) {
		how = mark + 2 == name_end ? mark[1] : '?';
		name_end = mark;
		if (how != 'r' && how != 's')
			fail(r, "only the conversions !r and !s are supported");
	}
	v = field_value(r, a, p, name_end, next);
	if (!r->failed)
		put_field(r, b, &v, how, &spec);
}

static struct chat_value
m_format(const struct chat_builtin_call *c)
{
	const struct chat_text *t = c->t;
	const char *p = t->s, *end = t->s + t->n, *from;
	struct chat_buf b = { 0 };
	size_t next = 0;

	while (!c->r->failed && p < end) {
		for (from = p; p < end && *p != '{' && *p != '}'; p++)
			;
		qwen_chat_put_slice(c->r, &b, t, (size_t)(from - t->s),
		    (size_t)(p - t->s));
		qwen_chat_step(c->r, 4 + (uint64_t)(p - from) / 8);
		if (p >= end)
			break;
		if (p + 1 < end && p[1] == *p) {
			qwen_chat_put_data(c->r, &b, p, 1);
			p += 2;
			continue;
		}
		from = ++p;
		while (p < end && *p != '}' && *p != '{')
			p++;
		if (from[-1] == '}' || p >= end || *p == '{')
			fail(c->r, "unmatched brace");
		else
			put_braces(c->r, &b, c->a, from, p++, &next);
		qwen_chat_step(c->r, (uint64_t)(p - from) / 4);
	}
	return qwen_chat_buf_value(c->r, &b);
}

/* x|format(a, b) is x % (a, b), or with names. */
static struct chat_value
f_format(const struct chat_builtin_call *c)
{
	struct chat_value values = { .type = CHAT_TUPLE,
	    .u.l = { c->a->v, c->a->n } };
	struct chat_text t = written(c->r, c->x, 0);
	size_t i;

	if (c->a->n_key > 0 && c->a->n_key < c->a->n)
		return chat_refuse(c, "format: named and unnamed values cannot "
		    "be mixed");
	if (c->a->n_key > 0)
		values = qwen_chat_new_dict(c->r, CHAT_DICT);
	for (i = 0; i < c->a->n_key && !c->r->failed; i++)
		qwen_chat_put_key(c->r, values.u.d, c->a->key[i], c->a->v[i]);
	return c->r->failed ? *c->x : qwen_chat_percent(c->r, &t, &values);
}

const struct chat_builtin qwen_chat_in_formats[] = {
	METHOD(TEXT, "format", m_format, 0), FILTER("format", f_format, 0),
	{ NULL, NULL, 0, 0 }
};
