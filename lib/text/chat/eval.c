/* SPDX-License-Identifier: ISC */
/* eval.c - evaluation of expressions. */
#include <string.h>

#include "text/chat/chat.h"

static struct chat_value
constant(struct chat_exec *r, const struct chat_node *n)
{
	(void)r;
	return n->value;
}

static struct chat_value
variable(struct chat_exec *r, const struct chat_node *n)
{
	const struct chat_value *v = qwen_chat_get(r, n->name);
	struct chat_text name = chat_literal(n->name);
	struct chat_value f = { .type = CHAT_FUNCTION };

	if (v != NULL)
		return *v;
	f.u.m.row = qwen_chat_row_in(CHAT_AS_FUNCTION, &name);
	if (f.u.m.row != NULL)
		return f;
	return chat_undefined(n->name, strlen(n->name));
}

/* [a, b] and (a, b) */
static struct chat_value
list(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value out = {
	    .type = n->kind == CHAT_K_LIST ? CHAT_LIST : CHAT_TUPLE };
	const struct chat_node *m;

	out.u.l.v = qwen_chat_new(r, chat_count(n->list), sizeof *out.u.l.v);
	for (m = n->list; m != NULL && out.u.l.v != NULL; m = m->next)
		out.u.l.v[out.u.l.n++] = qwen_chat_eval(r, m);
	return out;
}

static struct chat_value
dict(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value out = qwen_chat_new_dict(r, CHAT_DICT), key, v;
	const struct chat_node *m;

	for (m = n->list; m != NULL && !r->failed; m = m->next) {
		key = qwen_chat_eval(r, m->a);
		v = qwen_chat_eval(r, m->b);
		qwen_chat_dict_put(r, out.u.d, &key, &v);
	}
	return out;
}

static struct chat_value
loop_attr(const struct chat_loop *l, const char *name)
{
	const int64_t n = (int64_t)l->items.n, i = (int64_t)l->i;
	const struct {
		const char		*name;
		struct chat_value	 v;
	} attrs[] = {
		{ "index0", chat_int(i) }, { "index", chat_int(i + 1) },
		{ "revindex0", chat_int(n - i - 1) },
		{ "revindex", chat_int(n - i) }, { "length", chat_int(n) },
		{ "first", chat_bool(i == 0) },
		{ "last", chat_bool(i + 1 == n) },
		{ "depth", chat_int((int64_t)l->depth + 1) },
		{ "depth0", chat_int(l->depth) },
	};
	size_t k;

	for (k = 0; k < sizeof attrs / sizeof *attrs; k++) {
		if (strcmp(name, attrs[k].name) == 0)
			return attrs[k].v;
	}
	if (strcmp(name, "previtem") == 0 && i > 0)
		return l->items.v[i - 1];
	if (strcmp(name, "nextitem") == 0 && i + 1 < n)
		return l->items.v[i + 1];
	return chat_undefined(name, strlen(name));
}

/* obj.name */
static struct chat_value
attribute_of(struct chat_exec *r, const struct chat_value *obj,
    const char *name)
{
	struct chat_value key = chat_cstr(name), *self;
	const struct chat_builtin *method;

	if (obj->type == CHAT_UNDEFINED)
		qwen_chat_fail(r, "'%.*s' is undefined and has no '%s'",
		    (int)(obj->u.s.n < 60 ? obj->u.s.n : 60), obj->u.s.s, name);
	method = qwen_chat_row_in(CHAT_OF(obj->type), &key.u.s);
	if (method != NULL) {
		self = qwen_chat_new(r, 1, sizeof *self);
		if (self != NULL)
			*self = *obj;
		return (struct chat_value){ .type = CHAT_METHOD,
		    .u.m = { method, self } };
	}
	if (obj->type == CHAT_DICT || obj->type == CHAT_NAMESPACE)
		return qwen_chat_item(r, obj, &key);
	if (obj->type == CHAT_LOOP)
		return loop_attr(obj->u.loop, name);
	if (obj->type == CHAT_CYCLER && strcmp(name, "current") == 0)
		return obj->u.loop->items.v[obj->u.loop->i];
	/* the tuples of groupby have these attributes */
	if (obj->type == CHAT_TUPLE && obj->u.l.n == 2 &&
	    (strcmp(name, "grouper") == 0 || strcmp(name, "list") == 0))
		return obj->u.l.v[name[0] == 'l'];
	return chat_undefined(name, strlen(name));
}

static struct chat_value
attribute(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value obj = qwen_chat_eval(r, n->a);

	return attribute_of(r, &obj, n->name);
}

static struct chat_value
item(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value obj = qwen_chat_eval(r, n->a);
	struct chat_value key = qwen_chat_eval(r, n->b);

	return qwen_chat_item(r, &obj, &key);
}

static struct chat_value
slice(struct chat_exec *r, const struct chat_node *n)
{
	const struct chat_node *node[3] = { n->b, n->c, n->other };
	const struct chat_value *part[3] = { NULL, NULL, NULL };
	struct chat_value obj = qwen_chat_eval(r, n->a), v[3];
	int i;

	for (i = 0; i < 3; i++) {
		if (node[i] == NULL)
			continue;
		v[i] = qwen_chat_eval(r, node[i]);
		part[i] = &v[i];
	}
	return qwen_chat_subset(r, &obj, part);
}

/* ------------------------------------------------------------------- calls */

/* Evaluates arguments: positional, then named. */
static struct chat_args
arguments(struct chat_exec *r, const struct chat_node *list_of)
{
	struct chat_args a = { 0 };
	const struct chat_node *m;
	size_t n = chat_count(list_of);

	if (n == 0)
		return a;
	a.v = qwen_chat_new(r, n, sizeof *a.v);
	a.key = qwen_chat_new(r, n, sizeof *a.key);
	for (m = list_of; m != NULL && !r->failed; m = m->next) {
		if (m->name != NULL)
			a.key[a.n_key++] = m->name;
		else if (a.n_key > 0)
			qwen_chat_fail(r, "a positional argument after a named "
			    "one");
		a.v[a.n++] = qwen_chat_eval(r, m->a);
	}
	return a;
}

static struct chat_value
call(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value f = qwen_chat_eval(r, n->a);
	struct chat_args args;

	if (f.type == CHAT_MACRO)
		return qwen_chat_call_macro(r, f.u.macro, n->list, NULL);
	/* a joiner returns "" when first called, then its separator */
	if (f.type == CHAT_JOINER && n->list == NULL)
		return f.u.loop->i++ == 0 ? chat_cstr("") :
		    f.u.loop->items.v[0];
	if (f.type == CHAT_LOOP && f.u.loop->node != NULL &&
	    n->list != NULL && n->list->next == NULL) {
		struct chat_value items = qwen_chat_eval(r, n->list->a);

		return qwen_chat_recurse(r, f.u.loop, &items);
	}
	if (f.type == CHAT_UNDEFINED)
		qwen_chat_fail(r, "'%.*s' is undefined and cannot be called",
		    (int)(f.u.s.n < 60 ? f.u.s.n : 60), f.u.s.s);
	else if (f.type != CHAT_FUNCTION && f.type != CHAT_METHOD)
		qwen_chat_fail(r, "%s cannot be called",
		    qwen_chat_type_name(&f));
	args = arguments(r, n->list);
	r->line = n->line;
	if (r->failed)
		return f;
	return qwen_chat_call_builtin(r, f.u.m.row, f.type == CHAT_METHOD ?
	    f.u.m.self : &f, &args);
}

/* A filter or a test. */
static struct chat_value
row(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value x = qwen_chat_eval(r, n->a);
	struct chat_args args = arguments(r, n->list);

	return r->failed ? x : qwen_chat_call_builtin(r, n->row, &x, &args);
}

/* --------------------------------------------------------------- operators */

static struct chat_value
negate(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v = qwen_chat_eval(r, n->a), zero = chat_int(0);

	if (n->kind == CHAT_K_NOT)
		return chat_bool(!qwen_chat_true(v));
	if (v.type != CHAT_FLOAT)
		return qwen_chat_binary(r, CHAT_SUB, &zero, &v);
	v.u.f = -v.u.f;
	return v;
}

/* Returns the operand that decides, unconverted. */
static struct chat_value
logic(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v = qwen_chat_eval(r, n->a);

	return qwen_chat_true(v) != (n->kind == CHAT_K_OR) ?
	    qwen_chat_eval(r, n->b) : v;
}

static struct chat_value
binary(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value a = qwen_chat_eval(r, n->a);
	struct chat_value b = qwen_chat_eval(r, n->b);

	r->line = n->line;
	return qwen_chat_binary(r, n->op, &a, &b);
}

static struct chat_value
compare(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value a = qwen_chat_eval(r, n->a), b;
	const struct chat_node *m;
	int yes = 1;

	for (m = n->list; yes && m != NULL && !r->failed; m = m->next, a = b) {
		b = qwen_chat_eval(r, m->a);
		yes = qwen_chat_compare(r, m->op, &a, &b);
	}
	return chat_bool(yes);
}

static struct chat_value
if_else(struct chat_exec *r, const struct chat_node *n)
{
	if (qwen_chat_true(qwen_chat_eval(r, n->b)))
		return qwen_chat_eval(r, n->a);
	return n->c != NULL ? qwen_chat_eval(r, n->c) :
	    chat_undefined("what has no else", 16);
}

struct chat_value
qwen_chat_eval(struct chat_exec *r, const struct chat_node *n)
{
	static struct chat_value (*const eval[])(struct chat_exec *,
	    const struct chat_node *) = {
		[CHAT_K_CONST] = constant, [CHAT_K_NAME] = variable,
		[CHAT_K_LIST] = list, [CHAT_K_TUPLE] = list,
		[CHAT_K_DICT] = dict, [CHAT_K_ATTR] = attribute,
		[CHAT_K_ITEM] = item, [CHAT_K_SLICE] = slice,
		[CHAT_K_CALL] = call, [CHAT_K_FILTER] = row,
		[CHAT_K_TEST] = row, [CHAT_K_NOT] = negate,
		[CHAT_K_NEG] = negate, [CHAT_K_AND] = logic,
		[CHAT_K_OR] = logic, [CHAT_K_BINARY] = binary,
		[CHAT_K_COMPARE] = compare, [CHAT_K_IF_ELSE] = if_else,
	};
	struct chat_value out = { 0 };

	if (r->failed)
		return out;
	r->line = n->line;
	if (qwen_chat_step(r, 1) == 0 && ++r->depth > CHAT_RUN_DEPTH)
		qwen_chat_limit(r, "depth");
	if (!r->failed)
		out = eval[n->kind](r, n);
	r->depth--;
	return out;
}
