/* SPDX-License-Identifier: ISC */
/* method.c - the methods of strings and objects. */
#include <string.h>

#include "text/chat/chat.h"

/* What a method is called with; those that are nearly the same differ by how. */
struct call {
	struct chat_run			*r;
	const struct chat_text		*t;	/* the string, or */
	const struct chat_dict		*d;	/* the object */
	const struct chat_args		*a;
	int				 how;
	struct chat_value		*out;
};

enum { BEGIN = 1, END = 2 };		/* which end of a string */
enum { UPPER, LOWER, CAPITALIZE };
enum { KEYS, VALUES };

/* Argument i as a string; *t is NULL if it is missing or none. */
static int
text_arg(const struct call *c, size_t i, const char *key,
    const struct chat_text **t)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	*t = NULL;
	if (v == NULL || v->type == CHAT_NONE)
		return 0;
	if (v->type != CHAT_TEXT)
		return qwen_chat_fail(c->r, "%s where a string is wanted",
		    qwen_chat_type_name(v));
	*t = &v->u.s;
	return 0;
}

static int
int_arg(const struct call *c, size_t i, const char *key, int64_t *n)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (v == NULL)
		return 0;
	if (v->type != CHAT_INT)
		return qwen_chat_fail(c->r, "%s where an integer is wanted",
		    qwen_chat_type_name(v));
	*n = v->u.i;
	return 0;
}

static int
m_strip(const struct call *c)
{
	const struct chat_text *set;

	if (text_arg(c, 0, "chars", &set) < 0 ||
	    qwen_chat_step(c->r, 1 + c->t->n / 64) < 0)
		return -1;
	/* Each character may be compared with all of the set. */
	if (set != NULL && qwen_chat_step(c->r, set->n / 8 *
	    (c->t->n / 8 + 1)) < 0)
		return -1;
	*c->out = chat_text(qwen_chat_strip(c->t, set, c->how));
	return 0;
}

static int
has_end(const struct call *c, const struct chat_text *x)
{
	return x->n <= c->t->n && memcmp(c->how == END ?
	    c->t->s + c->t->n - x->n : c->t->s, x->s, x->n) == 0;
}

/* With one string, or one of several. */
static int
m_has_end(const struct call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "prefix");
	struct chat_list l;
	size_t i;
	int yes = 0;

	if (c->a->n != 1 || v == NULL)
		return qwen_chat_fail(c->r, "a comparison with other than one "
		    "string");
	l.v = (struct chat_value *)(uintptr_t)v;
	l.n = 1;
	if (v->type == CHAT_TUPLE)
		l = v->u.l;
	for (i = 0; i < l.n; i++) {
		if (l.v[i].type != CHAT_TEXT)
			return qwen_chat_fail(c->r, "a string that begins or "
			    "ends with %s", qwen_chat_type_name(&l.v[i]));
		if (qwen_chat_step(c->r, 1 + l.v[i].u.s.n / 64) < 0)
			return -1;
		yes |= has_end(c, &l.v[i].u.s);
	}
	*c->out = chat_bool(yes);
	return 0;
}

static int
m_remove_end(const struct call *c)
{
	const struct chat_text *x;

	if (text_arg(c, 0, c->how == END ? "suffix" : "prefix", &x) < 0)
		return -1;
	*c->out = chat_text(x == NULL || !has_end(c, x) ? *c->t :
	    c->how == END ? chat_slice(c->t, 0, c->t->n - x->n) :
	    chat_slice(c->t, x->n, c->t->n));
	return qwen_chat_step(c->r, 1 + c->t->n / 64);
}

/* ------------------------------------------------------------------- split */

struct parts {
	struct chat_list	l;
	size_t			cap;
};

static int
add(struct chat_run *r, struct parts *p, struct chat_text t)
{
	if (qwen_chat_more(r, &p->l.v, p->l.n, &p->cap, sizeof *p->l.v) < 0)
		return -1;
	p->l.v[p->l.n++] = chat_text(t);
	return qwen_chat_step(r, 1);
}

/* Where the next white space (there 1) or other character (0) is. */
static size_t
next_space(const struct chat_text *t, size_t i, int there)
{
	uint32_t c;
	size_t k;

	while (i < t->n) {
		k = qwen_chat_char(t->s, i, t->n, &c);
		if (qwen_chat_space(c) == there)
			break;
		i += k;
	}
	return i;
}

static int
split_space(const struct call *c, int64_t max, struct parts *p)
{
	size_t begin = next_space(c->t, 0, 0), end;

	for (; begin < c->t->n; begin = next_space(c->t, end, 0)) {
		end = max-- == 0 ? c->t->n : next_space(c->t, begin, 1);
		if (add(c->r, p, chat_slice(c->t, begin, end)) < 0)
			return -1;
	}
	return qwen_chat_step(c->r, c->t->n / 16);
}

static int
m_split(const struct call *c)
{
	const struct chat_text *sep;
	struct parts p = { { NULL, 0 }, 0 };
	size_t begin = 0, at;
	int64_t max = -1;

	if (text_arg(c, 0, "sep", &sep) < 0 ||
	    int_arg(c, 1, "maxsplit", &max) < 0)
		return -1;
	if (sep != NULL && sep->n == 0)
		return qwen_chat_fail(c->r, "a split at nothing");
	if (sep == NULL) {
		if (split_space(c, max, &p) < 0)
			return -1;
	} else {
		for (; max != 0; max--) {
			if (qwen_chat_search(c->r, c->t, sep, begin, &at) < 0)
				return -1;
			if (at > c->t->n)
				break;
			if (add(c->r, &p, chat_slice(c->t, begin, at)) < 0)
				return -1;
			begin = at + sep->n;
		}
		if (add(c->r, &p, chat_slice(c->t, begin, c->t->n)) < 0)
			return -1;
	}
	*c->out = chat_list(p.l);
	return 0;
}

/* Where the last x before end is, or t->n + 1. */
static int
search_back(const struct call *c, const struct chat_text *x, size_t end,
    size_t *at)
{
	struct chat_text t = chat_slice(c->t, 0, end);
	size_t i;

	*at = c->t->n + 1;
	if (qwen_chat_step(c->r, (end / 64 + 1) * (1 + x->n / 64)) < 0)
		return -1;
	for (i = t.n + 1; i-- > 0; ) {
		if (i + x->n <= t.n && memcmp(t.s + i, x->s, x->n) == 0) {
			*at = i;
			break;
		}
	}
	return 0;
}

static int
m_rsplit(const struct call *c)
{
	const struct chat_text *sep;
	struct parts p = { { NULL, 0 }, 0 };
	struct chat_value back = chat_int(-1), l;
	const struct chat_value *part[3] = { NULL, NULL, &back };
	size_t end = c->t->n, at;
	int64_t max = -1;

	if (text_arg(c, 0, "sep", &sep) < 0 ||
	    int_arg(c, 1, "maxsplit", &max) < 0)
		return -1;
	if (sep == NULL || sep->n == 0)
		return qwen_chat_fail(c->r, "a split at nothing");
	for (; max != 0; max--) {
		if (search_back(c, sep, end, &at) < 0)
			return -1;
		if (at > c->t->n)
			break;
		if (add(c->r, &p, chat_slice(c->t, at + sep->n, end)) < 0)
			return -1;
		end = at;
	}
	if (add(c->r, &p, chat_slice(c->t, 0, end)) < 0)
		return -1;
	l = chat_list(p.l);
	return qwen_chat_subset(c->r, &l, part, c->out);
}

static int
m_splitlines(const struct call *c)
{
	struct parts p = { { NULL, 0 }, 0 };
	size_t i, begin = 0;

	for (i = 0; i < c->t->n; i++) {
		if (c->t->s[i] != '\n')
			continue;
		if (add(c->r, &p, chat_slice(c->t, begin, i -
		    (i > begin && c->t->s[i - 1] == '\r'))) < 0)
			return -1;
		begin = i + 1;
	}
	if (begin < c->t->n &&
	    add(c->r, &p, chat_slice(c->t, begin, c->t->n)) < 0)
		return -1;
	*c->out = chat_list(p.l);
	return qwen_chat_step(c->r, c->t->n / 16);
}

/* ----------------------------------------------------------- other strings */

static int
m_replace(const struct call *c)
{
	const struct chat_text *old, *new;
	struct chat_text part;
	struct chat_buf b = { 0 };
	size_t begin = 0, at;
	int64_t max = -1;

	if (text_arg(c, 0, "old", &old) < 0 || text_arg(c, 1, "new", &new) < 0 ||
	    int_arg(c, 2, "count", &max) < 0)
		return -1;
	if (old == NULL || new == NULL || old->n == 0)
		return qwen_chat_fail(c->r, "nothing to be replaced");
	for (; max != 0 && !b.failed; max--) {
		b.failed = qwen_chat_search(c->r, c->t, old, begin, &at) < 0;
		if (b.failed || at > c->t->n)
			break;
		part = chat_slice(c->t, begin, at);
		qwen_chat_put(c->r, &b, &part);
		qwen_chat_put(c->r, &b, new);
		begin = at + old->n;
	}
	part = chat_slice(c->t, begin, c->t->n);
	qwen_chat_put(c->r, &b, &part);
	return qwen_chat_take(c->r, &b, c->out);
}

/* ASCII letters in the other case. */
static int
m_letters(const struct call *c)
{
	struct chat_text t = *c->t;
	char *s = qwen_chat_new(c->r, t.n, 1);
	size_t i;
	int to_upper;

	if (s == NULL || qwen_chat_step(c->r, t.n / 16) < 0)
		return -1;
	for (i = 0; i < t.n; i++) {
		s[i] = t.s[i];
		to_upper = c->how == CAPITALIZE ? i == 0 : c->how == UPPER;
		if (to_upper && s[i] >= 'a' && s[i] <= 'z')
			s[i] = (char)(s[i] - 32);
		else if (!to_upper && s[i] >= 'A' && s[i] <= 'Z')
			s[i] = (char)(s[i] + 32);
	}
	t.s = s;
	*c->out = chat_text(t);
	return 0;
}

static int
m_find(const struct call *c)
{
	const struct chat_text *x;
	size_t at;

	if (text_arg(c, 0, "sub", &x) < 0)
		return -1;
	if (x == NULL || c->a->n != 1)
		return qwen_chat_fail(c->r, "find() of other than a string");
	if (qwen_chat_search(c->r, c->t, x, 0, &at) < 0 ||
	    qwen_chat_step(c->r, c->t->n / 16) < 0)
		return -1;
	*c->out = chat_int(at > c->t->n ? -1 :
	    (int64_t)qwen_chat_chars(c->t->s, at));
	return 0;
}

static int
m_count(const struct call *c)
{
	const struct chat_text *x;
	size_t at = 0;
	int64_t n = 0;

	if (text_arg(c, 0, "sub", &x) < 0)
		return -1;
	if (x == NULL || x->n == 0)
		return qwen_chat_fail(c->r, "count() of nothing");
	for (;; n++, at += x->n) {
		if (qwen_chat_search(c->r, c->t, x, at, &at) < 0)
			return -1;
		if (at > c->t->n)
			break;
	}
	*c->out = chat_int(n);
	return 0;
}

static int
m_isdigit(const struct call *c)
{
	size_t i;

	for (i = 0; i < c->t->n; i++) {
		if (c->t->s[i] < '0' || c->t->s[i] > '9')
			break;
	}
	*c->out = chat_bool(c->t->n > 0 && i == c->t->n);
	return qwen_chat_step(c->r, i / 16);
}

static int
m_join(const struct call *c)
{
	struct chat_args a = { 0 };
	struct chat_value by = chat_text(*c->t);

	if (c->a->n != 1 || c->a->n_key > 0)
		return qwen_chat_fail(c->r, "join() of other than a list");
	a.v = &by;
	a.n = 1;
	return qwen_chat_filter(c->r, "join", &c->a->v[0], &a, c->out);
}

/* ----------------------------------------------------------------- objects */

static int
m_items(const struct call *c)
{
	struct chat_args none = { 0 };
	struct chat_value v = { .type = CHAT_DICT };

	v.u.d = (struct chat_dict *)(uintptr_t)c->d;
	return qwen_chat_filter(c->r, "items", &v, &none, c->out);
}

static int
m_members(const struct call *c)
{
	struct chat_value *v = qwen_chat_new(c->r, c->d->n, sizeof *v);
	size_t i;

	if (v == NULL || qwen_chat_step(c->r, c->d->n) < 0)
		return -1;
	for (i = 0; i < c->d->n; i++)
		v[i] = c->how == VALUES ? c->d->p[i].v : c->d->p[i].key;
	*c->out = chat_list((struct chat_list){ v, c->d->n });
	return 0;
}

static int
m_get(const struct call *c)
{
	const struct chat_value *v, *key = qwen_chat_arg(c->a, 0, "key"),
	    *other = qwen_chat_arg(c->a, 1, "default");

	if (key == NULL)
		return qwen_chat_fail(c->r, "get() of nothing");
	if (qwen_chat_find(c->r, c->d, key, &v) < 0)
		return -1;
	if (v == NULL)
		v = other;
	memset(c->out, 0, sizeof *c->out);
	c->out->type = CHAT_NONE;
	if (v != NULL)
		*c->out = *v;
	return 0;
}

/* What changes its object, or what nobody has needed: there, but refused. */
static int
m_refused(const struct call *c)
{
	return qwen_chat_fail(c->r, "a method that is not for templates");
}

/* -------------------------------------------------------------------- table */

#define REFUSED(type, name) { type, name, m_refused, 0 }

static const struct method {
	enum chat_type	 type;
	const char	*name;
	int		 (*run)(const struct call *);
	int		 how;
} methods[] = {
	{ CHAT_TEXT, "strip", m_strip, BEGIN | END },
	{ CHAT_TEXT, "lstrip", m_strip, BEGIN },
	{ CHAT_TEXT, "rstrip", m_strip, END },
	{ CHAT_TEXT, "split", m_split, 0 },
	{ CHAT_TEXT, "rsplit", m_rsplit, 0 },
	{ CHAT_TEXT, "splitlines", m_splitlines, 0 },
	{ CHAT_TEXT, "startswith", m_has_end, BEGIN },
	{ CHAT_TEXT, "endswith", m_has_end, END },
	{ CHAT_TEXT, "removeprefix", m_remove_end, BEGIN },
	{ CHAT_TEXT, "removesuffix", m_remove_end, END },
	{ CHAT_TEXT, "replace", m_replace, 0 },
	{ CHAT_TEXT, "upper", m_letters, UPPER },
	{ CHAT_TEXT, "lower", m_letters, LOWER },
	{ CHAT_TEXT, "capitalize", m_letters, CAPITALIZE },
	{ CHAT_TEXT, "find", m_find, 0 }, { CHAT_TEXT, "count", m_count, 0 },
	{ CHAT_TEXT, "isdigit", m_isdigit, 0 },
	{ CHAT_TEXT, "join", m_join, 0 },
	{ CHAT_DICT, "items", m_items, 0 },
	{ CHAT_DICT, "keys", m_members, KEYS },
	{ CHAT_DICT, "values", m_members, VALUES },
	{ CHAT_DICT, "get", m_get, 0 },
	REFUSED(CHAT_TEXT, "format"), REFUSED(CHAT_TEXT, "title"),
	REFUSED(CHAT_DICT, "pop"), REFUSED(CHAT_DICT, "update"),
	REFUSED(CHAT_DICT, "copy"), REFUSED(CHAT_DICT, "clear"),
	REFUSED(CHAT_DICT, "popitem"), REFUSED(CHAT_DICT, "fromkeys"),
	REFUSED(CHAT_DICT, "setdefault"), REFUSED(CHAT_LIST, "append"),
	REFUSED(CHAT_LIST, "pop"), REFUSED(CHAT_LIST, "extend"),
	REFUSED(CHAT_LIST, "insert"),
};

static const struct method *
find(enum chat_type type, const char *name)
{
	size_t i;

	for (i = 0; i < sizeof methods / sizeof *methods; i++) {
		if (methods[i].type == type &&
		    strcmp(methods[i].name, name) == 0)
			return &methods[i];
	}
	return NULL;
}

int
qwen_chat_has_method(enum chat_type type, const char *name)
{
	return find(type, name) != NULL;
}

int
qwen_chat_method(struct chat_run *r, const char *name,
    const struct chat_value *self, const struct chat_args *a,
    struct chat_value *out)
{
	const struct method *m = find(self->type, name);
	struct call c = { .r = r, .a = a, .out = out };

	if (m == NULL)
		return qwen_chat_fail(r, "%s has no method '%.40s'",
		    qwen_chat_type_name(self), name);
	if (self->type == CHAT_TEXT)
		c.t = &self->u.s;
	if (self->type == CHAT_DICT)
		c.d = self->u.d;
	c.how = m->how;
	return m->run(&c);
}
