/* SPDX-License-Identifier: ISC */
/* method.c - methods of strings and objects. */
#include <string.h>

#include "text/chat/chat.h"

enum { BEGIN = 1, END = 2 };		/* which end of a string */
enum { KEYS, VALUES };

/* Argument i as a string; NULL if it is missing or none. */
static const struct chat_text *
text_arg(const struct chat_builtin_call *c, size_t i, const char *key)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (chat_missing(v))
		return NULL;
	if (v->type != CHAT_TEXT) {
		qwen_chat_fail(c->r, "expected a string, got %s",
		    qwen_chat_type_name(v));
		return NULL;
	}
	return &v->u.s;
}

/* Returns argument i as a count; -1 if it is missing or negative. */
static int64_t
count_arg(const struct chat_builtin_call *c, size_t i, const char *key)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (v != NULL && v->type != CHAT_INT)
		qwen_chat_fail(c->r, "%s where an integer is wanted",
		    qwen_chat_type_name(v));
	return v != NULL && v->type == CHAT_INT && v->u.i >= 0 ? v->u.i : -1;
}

static struct chat_value
m_strip(const struct chat_builtin_call *c)
{
	const struct chat_text *set = text_arg(c, 0, "chars");

	return chat_text(c->r->failed ? *c->t :
	    qwen_chat_strip(c->r, c->t, set, c->variant));
}

static int
has_end(const struct chat_builtin_call *c, const struct chat_text *x)
{
	return x->n <= c->t->n && memcmp(c->variant == END ?
	    c->t->s + c->t->n - x->n : c->t->s, x->s, x->n) == 0;
}

/* Accepts a string, or a tuple of strings. */
static struct chat_value
m_has_end(const struct chat_builtin_call *c)
{
	const struct chat_value *v = qwen_chat_arg(c->a, 0, "prefix");
	struct chat_list l = { (struct chat_value *)(uintptr_t)v, 1 };
	size_t i;
	int yes = 0;

	if (c->a->n != 1 || v == NULL)
		return chat_refuse(c, "startswith() and endswith() need one "
		    "string");
	if (v->type == CHAT_TUPLE)
		l = v->u.l;
	for (i = 0; i < l.n && !c->r->failed; i++) {
		if (l.v[i].type != CHAT_TEXT)
			qwen_chat_fail(c->r, "startswith() and endswith() do "
			    "not take %s", qwen_chat_type_name(&l.v[i]));
		else if (qwen_chat_step(c->r, 1 + l.v[i].u.s.n / 64) == 0)
			yes |= has_end(c, &l.v[i].u.s);
	}
	return chat_bool(yes);
}

static struct chat_value
m_remove_end(const struct chat_builtin_call *c)
{
	const struct chat_text *x =
	    text_arg(c, 0, c->variant == END ? "suffix" : "prefix");

	qwen_chat_step(c->r, 1 + c->t->n / 64);
	return chat_text(x == NULL || !has_end(c, x) ? *c->t :
	    c->variant == END ? chat_slice(c->t, 0, c->t->n - x->n) :
	    chat_slice(c->t, x->n, c->t->n));
}

/* ------------------------------------------------------------------- split */

struct slices {
	struct chat_list	l;
	size_t			cap;
};

/* Adds the text from begin to end as a slice. */
static void
add_slice(struct chat_exec *r, struct slices *p, const struct chat_text *t,
    size_t begin, size_t end)
{
	if (qwen_chat_step(r, 1) == 0 && qwen_chat_more(r, &p->l.v, p->l.n,
	    &p->cap, sizeof *p->l.v) == 0)
		p->l.v[p->l.n++] = chat_text(chat_slice(t, begin, end));
}

/*
 * Returns the next position of white space (there 1) or of another character
 * (0).
 */
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

static void
split_space(const struct chat_builtin_call *c, int64_t max, struct slices *p)
{
	size_t begin = next_space(c->t, 0, 0), end;

	for (; begin < c->t->n && !c->r->failed;
	    begin = next_space(c->t, end, 0)) {
		end = max-- == 0 ? c->t->n : next_space(c->t, begin, 1);
		add_slice(c->r, p, c->t, begin, end);
	}
	qwen_chat_step(c->r, 1 + c->t->n / 4);
}

static struct chat_value
m_split(const struct chat_builtin_call *c)
{
	const struct chat_text *sep = text_arg(c, 0, "sep");
	int64_t max = count_arg(c, 1, "maxsplit");
	struct slices p = { { NULL, 0 }, 0 };
	size_t begin = 0, at;

	if (sep != NULL && sep->n == 0)
		qwen_chat_fail(c->r, "split() with an empty separator");
	if (sep == NULL)
		split_space(c, max, &p);
	else {
		for (; max != 0 && !c->r->failed; max--) {
			at = qwen_chat_search(c->r, c->t, sep, begin);
			if (at > c->t->n)
				break;
			add_slice(c->r, &p, c->t, begin, at);
			begin = at + sep->n;
		}
		add_slice(c->r, &p, c->t, begin, c->t->n);
	}
	return chat_list(p.l);
}

static struct chat_value
m_rsplit(const struct chat_builtin_call *c)
{
	const struct chat_text *sep = text_arg(c, 0, "sep");
	int64_t max = count_arg(c, 1, "maxsplit");
	struct slices p = { { NULL, 0 }, 0 };
	size_t end = c->t->n, at;
	struct chat_value l;

	if (sep == NULL || sep->n == 0)
		qwen_chat_fail(c->r, "split() with an empty separator");
	for (; max != 0 && !c->r->failed; max--) {
		at = qwen_chat_search_back(c->r, c->t, sep, end);
		if (at > c->t->n)
			break;
		add_slice(c->r, &p, c->t, at + sep->n, end);
		end = at;
	}
	add_slice(c->r, &p, c->t, 0, end);
	l = chat_list(p.l);
	return qwen_chat_reverse(c->r, &l);
}

/* Returns the length of a line end at i, as in Python; 0 if there is none. */
static size_t
line_end(const struct chat_text *t, size_t i)
{
	uint32_t u;
	size_t k = qwen_chat_char(t->s, i, t->n, &u);

	if (u == '\r' && i + 1 < t->n && t->s[i + 1] == '\n')
		return 2;
	return (u >= 10 && u <= 13) || (u >= 0x1c && u <= 0x1e) ||
	    (k > 1 && (u == 0x85 || u == 0x2028 || u == 0x2029)) ? k : 0;
}

/*
 * Splits a text into lines; ends 1: keeps the line ends; -1: the last line may
 * be empty.
 */
static struct chat_list
lines(const struct chat_builtin_call *c, const struct chat_text *t, int ends)
{
	struct slices p = { { NULL, 0 }, 0 };
	size_t i, begin = 0, k;

	for (i = 0; i < t->n && !c->r->failed; i += k) {
		if ((k = line_end(t, i)) == 0) {
			k = 1;
			continue;
		}
		add_slice(c->r, &p, t, begin, ends > 0 ? i + k : i);
		begin = i + k;
	}
	if (begin < t->n || ends < 0)
		add_slice(c->r, &p, t, begin, t->n);
	qwen_chat_step(c->r, t->n / 4);
	return p.l;
}

static struct chat_value
m_splitlines(const struct chat_builtin_call *c)
{
	return chat_list(lines(c, c->t, qwen_chat_flag(c, 0, "keepends")));
}

/* Indents lines after the first by spaces, or by the string width. */
static struct chat_value
f_indent(const struct chat_builtin_call *c)
{
	const struct chat_value *by = qwen_chat_arg(c->a, 0, "width");
	int first = qwen_chat_flag(c, 1, "first");
	int blank = qwen_chat_flag(c, 2, "blank");
	struct chat_text t = qwen_chat_as_text(c), part;
	struct chat_buf b = { 0 };
	struct chat_list l = lines(c, &t, -1);
	size_t i;

	/* the filter adds a line feed, so there is always a last line */
	for (i = 0; i < l.n && !c->r->failed; i++) {
		part = l.v[i].u.s;
		qwen_chat_put_data(c->r, &b, "\n", i > 0);
		if (i == 0 ? first : blank || part.n > 0) {
			if (by != NULL && by->type == CHAT_TEXT)
				qwen_chat_put(c->r, &b, &by->u.s);
			else
				qwen_chat_put_spaces(c->r, &b,
				    qwen_chat_whole(c, 0, "width", 4));
		}
		qwen_chat_put(c->r, &b, &part);
	}
	return qwen_chat_buf_value(c->r, &b);
}

/* ----------------------------------------------------------- other strings */

static struct chat_value
m_replace(const struct chat_builtin_call *c)
{
	const struct chat_text *old = text_arg(c, 0, "old");
	const struct chat_text *new = text_arg(c, 1, "new");
	int64_t max = count_arg(c, 2, "count");
	struct chat_text t = qwen_chat_as_text(c);
	struct chat_buf b = { 0 };
	size_t begin = 0, at;

	if (old == NULL || new == NULL || old->n == 0)
		qwen_chat_fail(c->r, "replace() of an empty string");
	for (; max != 0 && !c->r->failed; max--) {
		at = qwen_chat_search(c->r, &t, old, begin);
		if (at > t.n)
			break;
		qwen_chat_put_slice(c->r, &b, &t, begin, at);
		qwen_chat_put(c->r, &b, new);
		begin = at + old->n;
	}
	qwen_chat_put_slice(c->r, &b, &t, begin, t.n);
	return qwen_chat_buf_value(c->r, &b);
}

static struct chat_value
m_count(const struct chat_builtin_call *c)
{
	const struct chat_text *x = text_arg(c, 0, "sub");
	size_t at = 0;
	int64_t n;

	if (x == NULL || x->n == 0)
		qwen_chat_fail(c->r, "count() of an empty string");
	for (n = 0; !c->r->failed; n++, at += x->n) {
		at = qwen_chat_search(c->r, c->t, x, at);
		if (at > c->t->n)
			break;
	}
	return chat_int(n);
}

static struct chat_value
m_isdigit(const struct chat_builtin_call *c)
{
	size_t i;

	for (i = 0; i < c->t->n; i++) {
		if (c->t->s[i] < '0' || c->t->s[i] > '9')
			break;
	}
	qwen_chat_step(c->r, i / 16);
	return chat_bool(c->t->n > 0 && i == c->t->n);
}

static struct chat_value
m_join(const struct chat_builtin_call *c)
{
	if (c->a->n == 1 && c->a->n_key == 0)
		return qwen_chat_join_items(c->r, &c->a->v[0], c->t, NULL);
	return chat_refuse(c, "join() needs a list");
}

/* ----------------------------------------------------------------- objects */

static struct chat_value
m_items(const struct chat_builtin_call *c)
{
	return qwen_chat_pairs(c->r, c->x->u.d);
}

static struct chat_value
m_members(const struct chat_builtin_call *c)
{
	return chat_list(qwen_chat_members(c->r, c->x->u.d,
	    c->variant == VALUES));
}

static struct chat_value
m_get(const struct chat_builtin_call *c)
{
	const struct chat_value *v = NULL, *key = qwen_chat_arg(c->a, 0, "key"),
	    *other = qwen_chat_arg(c->a, 1, "default");

	if (key == NULL)
		qwen_chat_fail(c->r, "get() needs a key");
	else
		v = qwen_chat_find(c->r, c->x->u.d, key);
	if (v == NULL)
		v = other;
	return v != NULL ? *v : chat_none();
}

static struct chat_value
m_copy(const struct chat_builtin_call *c)
{
	return *c->x;
}

/* ---------------------------------------------------- lists, loops, cyclers */

static struct chat_value
m_list_index(const struct chat_builtin_call *c)
{
	size_t i;

	for (i = 0; c->a->n == 1 && i < c->x->u.l.n && !c->r->failed; i++) {
		if (qwen_chat_equal(c->r, &c->x->u.l.v[i], &c->a->v[0]))
			return chat_int((int64_t)i);
	}
	return chat_refuse(c, "index(): the value is not in the list");
}

static struct chat_value
m_list_count(const struct chat_builtin_call *c)
{
	int64_t n = 0;
	size_t i;

	if (c->a->n != 1)
		qwen_chat_fail(c->r, "count() needs one value");
	for (i = 0; i < c->x->u.l.n && !c->r->failed; i++)
		n += qwen_chat_equal(c->r, &c->x->u.l.v[i], &c->a->v[0]);
	return chat_int(n);
}

/* loop.cycle(a, b): selects by the index of the item. */
static struct chat_value
m_cycle(const struct chat_builtin_call *c)
{
	if (c->a->n == 0 || c->a->n_key > 0)
		return chat_refuse(c, "cycle() needs a value");
	return c->a->v[c->x->u.loop->i % c->a->n];
}

/* Returns whether the values differ from those of the last call. */
static struct chat_value
m_changed(const struct chat_builtin_call *c)
{
	struct chat_loop *l = c->x->u.loop;
	struct chat_value old = { .type = CHAT_TUPLE, .u.l = l->seen };
	struct chat_value new = { .type = CHAT_TUPLE,
	    .u.l = { c->a->v, c->a->n } };
	int same = l->has_seen && qwen_chat_equal(c->r, &old, &new);

	l->seen = new.u.l;
	l->has_seen = 1;
	return chat_bool(!same);
}

/* cycler(a, b) and joiner(", "). */
static struct chat_value
new_cycler(const struct chat_builtin_call *c)
{
	const struct chat_value *sep = qwen_chat_arg(c->a, 0, "sep");
	struct chat_loop *l = qwen_chat_new(c->r, 1, sizeof *l);
	struct chat_value v = { .type = (enum chat_type)c->variant,
	    .u.loop = l };

	if (l == NULL)
		return chat_undefined("", 0);
	memset(l, 0, sizeof *l);
	if (c->variant == CHAT_CYCLER) {
		l->items = (struct chat_list){ c->a->v, c->a->n };
		if (c->a->n == 0 || c->a->n_key > 0)
			qwen_chat_fail(c->r, "cycler() needs a value");
		return v;
	}
	l->items = qwen_chat_new_list(c->r, 1);
	if (l->items.n > 0)
		l->items.v[0] = sep != NULL ? *sep :
		    chat_text(chat_literal(", "));
	return v;
}

static struct chat_value
m_next(const struct chat_builtin_call *c)
{
	struct chat_loop *l = c->x->u.loop;
	struct chat_value v = l->items.v[l->i];

	l->i = (l->i + 1) % l->items.n;
	return v;
}

static struct chat_value
m_reset(const struct chat_builtin_call *c)
{
	c->x->u.loop->i = 0;
	return chat_none();
}

/* Refuses methods that modify their object, or that no known template uses. */
static struct chat_value
m_refused(const struct chat_builtin_call *c)
{
	return chat_refuse(c, "this method is not available in templates");
}

/* ------------------------------------------------------------------- tables */

const struct chat_builtin qwen_chat_in_methods[] = {
	METHOD(TEXT, "strip", m_strip, BEGIN | END),
	METHOD(TEXT, "lstrip", m_strip, BEGIN),
	METHOD(TEXT, "rstrip", m_strip, END), METHOD(TEXT, "split", m_split, 0),
	METHOD(TEXT, "rsplit", m_rsplit, 0),
	METHOD(TEXT, "splitlines", m_splitlines, 0),
	METHOD(TEXT, "startswith", m_has_end, BEGIN),
	METHOD(TEXT, "endswith", m_has_end, END),
	METHOD(TEXT, "removeprefix", m_remove_end, BEGIN),
	METHOD(TEXT, "removesuffix", m_remove_end, END),
	METHOD(TEXT, "count", m_count, 0), METHOD(TEXT, "join", m_join, 0),
	METHOD(TEXT, "isdigit isdecimal", m_isdigit, 0),
	METHOD(TEXT, "encode format_map casefold translate expandtabs",
	    m_refused, 0),
	METHOD(DICT, "items", m_items, 0), METHOD(DICT, "get", m_get, 0),
	METHOD(DICT, "keys", m_members, KEYS),
	METHOD(DICT, "values", m_members, VALUES),
	METHOD(DICT, "copy", m_copy, 0), METHOD(LIST, "copy", m_copy, 0),
	METHOD(DICT, "pop update clear popitem fromkeys setdefault", m_refused,
	    0),
	METHOD(LIST, "append pop extend insert remove reverse sort clear",
	    m_refused, 0),
	METHOD(LIST, "index", m_list_index, 0),
	METHOD(TUPLE, "index", m_list_index, 0),
	METHOD(LIST, "count", m_list_count, 0),
	METHOD(TUPLE, "count", m_list_count, 0),
	METHOD(LOOP, "cycle", m_cycle, 0), METHOD(CYCLER, "next", m_next, 0),
	METHOD(LOOP, "changed", m_changed, 0),
	METHOD(CYCLER, "reset", m_reset, 0),
	METHOD(TEXT, "replace", m_replace, 0), FILTER("replace", m_replace, 0),
	FILTER("indent", f_indent, 0),
	FUNCTION("cycler", new_cycler, CHAT_CYCLER),
	FUNCTION("joiner", new_cycler, CHAT_JOINER),
	{ NULL, NULL, 0, 0 }
};
