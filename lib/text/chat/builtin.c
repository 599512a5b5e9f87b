/* SPDX-License-Identifier: ISC */
/*
 * builtin.c - all filters, tests, functions and methods by name, and those that
 * find others by name.
 */
#include "text/chat/chat.h"

const struct chat_builtin *
qwen_chat_row_in(const struct chat_builtin *const *tables,
    const struct chat_text *name)
{
	const struct chat_builtin *row;

	for (; *tables != NULL; tables++) {
		for (row = *tables; row->name != NULL; row++) {
			if (qwen_chat_same_text(name, row->name))
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
			row = qwen_chat_row_in(qwen_chat_filters,
			    &a->v[0].u.s);
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
			test = qwen_chat_row_in(qwen_chat_tests, &v.u.s);
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
		if (qwen_chat_true(&v) == (c->variant & SELECT))
			chosen.v[chosen.n++] = l.v[i];
	}
	return chat_list(chosen);
}

/* Returns whether a filter (variant 1) or a test has that name. */
static struct chat_value
t_known(const struct chat_builtin_call *c)
{
	return chat_bool(c->x->type == CHAT_TEXT && qwen_chat_row_in(
	    c->variant ? qwen_chat_filters : qwen_chat_tests, c->t) != NULL);
}

/* ------------------------------------------------------------------- tables */

static const struct chat_builtin by_name_filters[] = {
	{ "map", f_map, 0 }, { "reject", f_select, REJECT },
	{ "rejectattr", f_select, REJECT | ATTR },
	{ "select", f_select, SELECT },
	{ "selectattr", f_select, SELECT | ATTR }, { NULL, NULL, 0 }
};

static const struct chat_builtin by_name_tests[] = {
	{ "filter", t_known, 1 }, { "test", t_known, 0 }, { NULL, NULL, 0 }
};

const struct chat_builtin *const qwen_chat_filters[] = {
	qwen_chat_plain_filters, qwen_chat_word_filters,
	qwen_chat_list_filters, qwen_chat_format_filters,
	qwen_chat_text_filters, by_name_filters, NULL
};

const struct chat_builtin *const qwen_chat_tests[] = {
	qwen_chat_plain_tests, qwen_chat_word_tests, by_name_tests, NULL
};

const struct chat_builtin *const qwen_chat_functions[] = {
	qwen_chat_plain_functions, qwen_chat_date_functions,
	qwen_chat_object_functions, NULL
};

const struct chat_builtin *const
qwen_chat_methods[CHAT_N_TYPE][CHAT_TABLES_MAX] = {
	[CHAT_TEXT] = { qwen_chat_text_methods, qwen_chat_word_methods,
	    qwen_chat_format_methods, NULL },
	[CHAT_DICT] = { qwen_chat_dict_methods },
	[CHAT_LIST] = { qwen_chat_list_methods },
	[CHAT_TUPLE] = { qwen_chat_tuple_methods },
	[CHAT_LOOP] = { qwen_chat_loop_methods },
	[CHAT_CYCLER] = { qwen_chat_cycler_methods },
};
