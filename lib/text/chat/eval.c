/* SPDX-License-Identifier: ISC */
/* eval.c - what an expression is worth. */
#include <string.h>

#include "text/chat/chat.h"

static int
constant(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	(void)r;
	*out = n->value;
	return 0;
}

static int
variable(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	const struct chat_value *v = qwen_chat_get(r, n->name);

	if (v != NULL)
		*out = *v;
	else if (qwen_chat_has_function(n->name)) {
		out->type = CHAT_FUNCTION;
		out->u.m.name = n->name;
		out->u.m.self = NULL;
	} else
		*out = chat_undefined(n->name, strlen(n->name));
	return 0;
}

/* [a, b] and (a, b) */
static int
list(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	const struct chat_node *m;
	struct chat_list l = { NULL, 0 };

	for (m = n->list; m != NULL; m = m->next)
		l.n++;
	l.v = qwen_chat_new(r, l.n, sizeof *l.v);
	if (l.v == NULL)
		return -1;
	l.n = 0;
	for (m = n->list; m != NULL; m = m->next) {
		if (qwen_chat_eval(r, m, &l.v[l.n++]) < 0)
			return -1;
	}
	out->type = n->kind == CHAT_K_LIST ? CHAT_LIST : CHAT_TUPLE;
	out->u.l = l;
	return 0;
}

static int
dict(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_dict *d = qwen_chat_new(r, 1, sizeof *d);
	const struct chat_node *m;
	struct chat_value key, v;

	if (d == NULL)
		return -1;
	memset(d, 0, sizeof *d);
	for (m = n->list; m != NULL; m = m->next) {
		if (qwen_chat_eval(r, m->a, &key) < 0 ||
		    qwen_chat_eval(r, m->b, &v) < 0 ||
		    qwen_chat_dict_put(r, d, &key, &v) < 0)
			return -1;
	}
	out->type = CHAT_DICT;
	out->u.d = d;
	return 0;
}

static int
attribute(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	struct chat_value obj;

	if (qwen_chat_eval(r, n->a, &obj) < 0)
		return -1;
	return qwen_chat_attr(r, &obj, n->name, out);
}

static int
item(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_value obj, key;

	if (qwen_chat_eval(r, n->a, &obj) < 0 ||
	    qwen_chat_eval(r, n->b, &key) < 0)
		return -1;
	return qwen_chat_item(r, &obj, &key, out);
}

static int
slice(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	const struct chat_node *node[3] = { n->b, n->c, n->other };
	const struct chat_value *part[3] = { NULL, NULL, NULL };
	struct chat_value obj, v[3];
	int i;

	if (qwen_chat_eval(r, n->a, &obj) < 0)
		return -1;
	for (i = 0; i < 3; i++) {
		if (node[i] == NULL)
			continue;
		if (qwen_chat_eval(r, node[i], &v[i]) < 0)
			return -1;
		part[i] = &v[i];
	}
	return qwen_chat_subset(r, &obj, part, out);
}

/* ------------------------------------------------------------------- calls */

/* Arguments: those without a name, then those with one. */
static int
arguments(struct chat_run *r, const struct chat_node *list_of,
    struct chat_args *a)
{
	const struct chat_node *m;
	size_t n = 0;

	memset(a, 0, sizeof *a);
	for (m = list_of; m != NULL; m = m->next)
		n++;
	if (n == 0)
		return 0;
	a->v = qwen_chat_new(r, n, sizeof *a->v);
	a->key = qwen_chat_new(r, n, sizeof *a->key);
	if (a->v == NULL || a->key == NULL)
		return -1;
	for (m = list_of; m != NULL; m = m->next) {
		if (m->name != NULL)
			a->key[a->n_key++] = m->name;
		else if (a->n_key > 0)
			return qwen_chat_fail(r, "an argument without a name "
			    "after one with");
		if (qwen_chat_eval(r, m->a, &a->v[a->n++]) < 0)
			return -1;
	}
	return 0;
}

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

static int
call(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_args args;
	struct chat_value f;

	if (qwen_chat_eval(r, n->a, &f) < 0)
		return -1;
	if (f.type == CHAT_MACRO)
		return qwen_chat_call_macro(r, f.u.macro, n->list, out);
	if (f.type == CHAT_UNDEFINED)
		return qwen_chat_fail(r, "'%.*s' is undefined, and called",
		    (int)(f.u.s.n < 60 ? f.u.s.n : 60), f.u.s.s);
	if (f.type != CHAT_FUNCTION && f.type != CHAT_METHOD)
		return qwen_chat_fail(r, "%s is called",
		    qwen_chat_type_name(&f));
	if (arguments(r, n->list, &args) < 0)
		return -1;
	r->line = n->line;
	if (f.type == CHAT_FUNCTION)
		return qwen_chat_function(r, f.u.m.name, &args, out);
	return qwen_chat_method(r, f.u.m.name, f.u.m.self, &args, out);
}

static int
filter(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_args args;
	struct chat_value x;

	if (qwen_chat_eval(r, n->a, &x) < 0 ||
	    arguments(r, n->list, &args) < 0)
		return -1;
	return qwen_chat_filter(r, n->name, &x, &args, out);
}

static int
test(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_args args;
	struct chat_value x;
	int yes;

	if (qwen_chat_eval(r, n->a, &x) < 0 ||
	    arguments(r, n->list, &args) < 0 ||
	    qwen_chat_test(r, n->name, &x, &args, &yes) < 0)
		return -1;
	*out = chat_bool(yes);
	return 0;
}

/* --------------------------------------------------------------- operators */

static int
negate(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_value v, zero = chat_int(0);

	if (qwen_chat_eval(r, n->a, &v) < 0)
		return -1;
	if (n->kind == CHAT_K_NOT) {
		*out = chat_bool(!qwen_chat_true(&v));
		return 0;
	}
	if (v.type == CHAT_FLOAT) {
		out->type = CHAT_FLOAT;
		out->u.f = -v.u.f;
		return 0;
	}
	return qwen_chat_binary(r, CHAT_SUB, &zero, &v, out);
}

/* The value that decides, as it is. */
static int
logic(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_value v;

	if (qwen_chat_eval(r, n->a, &v) < 0)
		return -1;
	if (qwen_chat_true(&v) != (n->kind == CHAT_K_OR))
		return qwen_chat_eval(r, n->b, out);
	*out = v;
	return 0;
}

static int
binary(struct chat_run *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_value a, b;

	if (qwen_chat_eval(r, n->a, &a) < 0 || qwen_chat_eval(r, n->b, &b) < 0)
		return -1;
	r->line = n->line;
	return qwen_chat_binary(r, n->op, &a, &b, out);
}

static int
compare(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	const struct chat_node *m;
	struct chat_value a, b;
	int yes = 1;

	if (qwen_chat_eval(r, n->a, &a) < 0)
		return -1;
	for (m = n->list; yes && m != NULL; m = m->next) {
		if (qwen_chat_eval(r, m->a, &b) < 0 ||
		    qwen_chat_compare(r, m->op, &a, &b, &yes) < 0)
			return -1;
		a = b;
	}
	*out = chat_bool(yes);
	return 0;
}

static int
if_else(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	struct chat_value v;

	if (qwen_chat_eval(r, n->b, &v) < 0)
		return -1;
	if (qwen_chat_true(&v))
		return qwen_chat_eval(r, n->a, out);
	if (n->c != NULL)
		return qwen_chat_eval(r, n->c, out);
	*out = chat_undefined("what has no else", 16);
	return 0;
}

int
qwen_chat_eval(struct chat_run *r, const struct chat_node *n,
    struct chat_value *out)
{
	static int (*const eval[])(struct chat_run *,
	    const struct chat_node *, struct chat_value *) = {
		[CHAT_K_CONST] = constant, [CHAT_K_NAME] = variable,
		[CHAT_K_LIST] = list, [CHAT_K_TUPLE] = list,
		[CHAT_K_DICT] = dict, [CHAT_K_ATTR] = attribute,
		[CHAT_K_ITEM] = item, [CHAT_K_SLICE] = slice,
		[CHAT_K_CALL] = call, [CHAT_K_FILTER] = filter,
		[CHAT_K_TEST] = test, [CHAT_K_NOT] = negate,
		[CHAT_K_NEG] = negate, [CHAT_K_AND] = logic,
		[CHAT_K_OR] = logic, [CHAT_K_BINARY] = binary,
		[CHAT_K_COMPARE] = compare, [CHAT_K_IF_ELSE] = if_else,
	};
	int rc;

	memset(out, 0, sizeof *out);
	r->line = n->line;
	if (qwen_chat_step(r, 1) < 0)
		return -1;
	if (++r->depth > CHAT_RUN_DEPTH)
		return qwen_chat_limit(r, "depth");
	rc = eval[n->kind](r, n, out);
	r->depth--;
	return rc;
}
