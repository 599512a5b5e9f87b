/* SPDX-License-Identifier: ISC */
/*
 * builtin.c - all filters, tests, functions and methods by name, how they read
 * their arguments, and those that find others by name.
 */
#include <string.h>

#include "text/chat/chat.h"

/* Is a name one of the words of a row, with a space between them? */
static int
is_one(const struct chat_text *name, const char *words)
{
	for (; *words != '\0'; words += *words == ' ') {
		if (strcspn(words, " ") == name->n &&
		    memcmp(words, name->s, name->n) == 0)
			return 1;
		words += strcspn(words, " ");
	}
	return 0;
}

const struct chat_builtin *
qwen_chat_row_in(unsigned use, const struct chat_text *name)
{
	const struct chat_table *t;
	const struct chat_builtin *row;

	for (t = qwen_chat_tables; t->rows != NULL; t++) {
		if ((t->use & use) == 0)
			continue;
		for (row = t->rows; row->name != NULL; row++) {
			if ((row->use & use) != 0 && is_one(name, row->name))
				return row;
		}
	}
	return NULL;
}

struct chat_value
qwen_chat_call_builtin(struct chat_exec *r, const struct chat_builtin *row,
    const struct chat_value *x, const struct chat_args *a)
{
	struct chat_builtin_call use = { r, x, &x->u.s, a, row->variant };

	return row->run(&use);
}

/* --------------------------------------------------------------- arguments */

const struct chat_value *
qwen_chat_arg(const struct chat_args *a, size_t i, const char *key)
{
	size_t plain = a->n - a->n_key, k;

	if (i < plain)
		return &a->v[i];
	for (k = 0; k < a->n_key; k++) {
		if (strcmp(a->key[k], key) == 0)
			return &a->v[plain + k];
	}
	return NULL;
}

int
qwen_chat_flag(const struct chat_builtin_call *c, size_t i, const char *key)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	return v != NULL && qwen_chat_true(*v);
}

int64_t
qwen_chat_whole(const struct chat_builtin_call *c, size_t i, const char *key,
    int64_t usual)
{
	const struct chat_value *v = qwen_chat_arg(c->a, i, key);

	if (v == NULL)
		return usual;
	if (chat_is_whole(v))
		return v->u.i;
	chat_refuse(c, "an argument that is no integer");
	return usual;
}

struct chat_text
qwen_chat_as_text(const struct chat_builtin_call *c)
{
	struct chat_buf b = { 0 };

	if (c->x->type == CHAT_TEXT)
		return c->x->u.s;
	qwen_chat_print(c->r, &b, *c->x);
	return qwen_chat_buf_value(c->r, &b).u.s;
}

/* ---------------------------------------- by the name of a filter or a test */

enum { REJECT, SELECT, ATTR };	/* ATTR is a flag */

/* map('filter', args) or map(attribute=...). */
static struct chat_value
f_map(const struct chat_builtin_call *c)
{
	const struct chat_args *a = c->a;
	const struct chat_value *attr = qwen_chat_arg(a, SIZE_MAX, "attribute");
	const struct chat_value *usual = qwen_chat_arg(a, SIZE_MAX, "default");
	struct chat_args more = { a->v, a->n, a->key, a->n_key };
	struct chat_list l = qwen_chat_iterate_if(c->r, c->x), out;
	const struct chat_builtin *row = NULL;
	size_t i;

	if (attr == NULL) {
		if (a->n > a->n_key && a->v[0].type == CHAT_TEXT)
			row = qwen_chat_row_in(CHAT_AS_FILTER, &a->v[0].u.s);
		if (row == NULL)
			return chat_refuse(c, "map by no known filter, and no "
			    "attribute");
		more.v++;
		more.n--;
	} else if (a->n > 1U + (usual != NULL))
		return chat_refuse(c, "map of an attribute with other "
		    "arguments");
	out = qwen_chat_new_list(c->r, l.n);
	for (i = 0; i < out.n && qwen_chat_step(c->r, 8) == 0; i++)
		out.v[i] = row != NULL ?
		    qwen_chat_call_builtin(c->r, row, &l.v[i], &more) :
		    qwen_chat_path(c->r, &l.v[i], attr, usual);
	return chat_list(out);
}

/*
 * Selects the items for which, or for whose attribute, a test holds or fails.
 */
static struct chat_value
f_select(const struct chat_builtin_call *c)
{
	const struct chat_args *a = c->a;
	struct chat_args more = { 0 };
	struct chat_value v;
	struct chat_list l, chosen = { NULL, 0 };
	size_t attr = (c->variant & ATTR) != 0, i;
	const struct chat_builtin *test = NULL;

	if (a->n_key > 0 || (attr && a->n < 1))
		qwen_chat_fail(c->r, "select or reject with bad arguments");
	else if (a->n > attr) {
		v = a->v[attr];
		if (v.type == CHAT_TEXT)
			test = qwen_chat_row_in(CHAT_AS_TEST, &v.u.s);
		if (test == NULL)
			qwen_chat_fail(c->r, "select or reject with an unknown "
			    "test");
		more.v = a->v + attr + 1;
		more.n = a->n - attr - 1;
	}
	l = qwen_chat_iterate_if(c->r, c->x);
	chosen.v = qwen_chat_new(c->r, l.n, sizeof v);
	for (i = 0; i < l.n && !c->r->failed; i++) {
		v = l.v[i];
		if (attr)
			v = qwen_chat_path(c->r, &l.v[i], &a->v[0], NULL);
		if (test != NULL)
			v = qwen_chat_call_builtin(c->r, test, &v, &more);
		qwen_chat_step(c->r, 1);
		if (qwen_chat_true(v) == (c->variant & SELECT))
			chosen.v[chosen.n++] = l.v[i];
	}
	return chat_list(chosen);
}

/* Returns whether a filter (variant 1) or a test has that name. */
static struct chat_value
t_known(const struct chat_builtin_call *c)
{
	return chat_bool(c->x->type == CHAT_TEXT && qwen_chat_row_in(
	    c->variant ? CHAT_AS_FILTER : CHAT_AS_TEST, c->t) != NULL);
}

static const struct chat_builtin by_name[] = {
	FILTER("map", f_map, 0), FILTER("reject", f_select, REJECT),
	FILTER("rejectattr", f_select, REJECT | ATTR),
	FILTER("select", f_select, SELECT),
	FILTER("selectattr", f_select, SELECT | ATTR),
	TEST("filter", t_known, 1), TEST("test", t_known, 0),
	{ NULL, NULL, 0, 0 }
};

const struct chat_table qwen_chat_tables[] = {
	{ qwen_chat_in_filters, CHAT_AS_FILTER },
	{ qwen_chat_in_lists, CHAT_AS_FILTER },
	{ qwen_chat_in_tests, CHAT_AS_TEST | CHAT_AS_FUNCTION },
	{ by_name, CHAT_AS_FILTER | CHAT_AS_TEST },
	{ qwen_chat_in_words, CHAT_AS_FILTER | CHAT_AS_TEST |
	    CHAT_OF(CHAT_TEXT) },
	{ qwen_chat_in_formats, CHAT_AS_FILTER | CHAT_OF(CHAT_TEXT) },
	{ qwen_chat_in_methods, ~CHAT_AS_TEST },
	{ NULL, 0 }
};
