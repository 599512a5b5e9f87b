/* SPDX-License-Identifier: ISC */
/* exec.c - running the statements of a template. */
#include <string.h>

#include "text/chat/chat.h"

/* How a statement ended, besides 0 and -1. */
enum { BREAK = 1, CONTINUE = 2 };

static int exec(struct chat_exec *r, const struct chat_node *list);

/* --------------------------------------------------------------- variables */

static struct chat_scope *
new_scope(struct chat_exec *r, struct chat_scope *up)
{
	struct chat_scope *s = qwen_chat_new(r, 1, sizeof *s);

	if (s != NULL) {
		memset(s, 0, sizeof *s);
		s->up = up;
	}
	return s;
}

static void
unpack(struct chat_exec *r, const struct chat_node *names,
    const struct chat_value *v)
{
	const struct chat_node *m;
	struct chat_list l = qwen_chat_iterate(r, v);
	size_t i = 0;

	for (m = names; m != NULL; m = m->next, i++) {
		if (i < l.n)
			qwen_chat_set(r, m->name, l.v[i]);
	}
	if (i != l.n)
		qwen_chat_fail(r, "%zu names for %zu values", i, l.n);
}

/* Assigns to the target of a for or set. */
static void
assign(struct chat_exec *r, const struct chat_node *to,
    const struct chat_value *v)
{
	struct chat_value ns;

	r->line = to->line;
	if (to->kind == CHAT_K_NAME) {
		qwen_chat_set(r, to->name, *v);
		return;
	}
	if (to->kind == CHAT_K_TUPLE) {
		unpack(r, to->list, v);
		return;
	}
	ns = qwen_chat_eval(r, to->a);
	if (ns.type == CHAT_NAMESPACE)
		qwen_chat_put_key(r, ns.u.d, to->name, *v);
	else
		qwen_chat_fail(r, "'%.60s' is set in %s; only a namespace "
		    "allows that", to->name, qwen_chat_type_name(&ns));
}

/* ------------------------------------------------------------------- loops */

/* Keeps the items for which the loop's condition holds. */
static void
choose(struct chat_exec *r, const struct chat_node *n, struct chat_list *l)
{
	struct chat_list chosen = { NULL, 0 };
	size_t i;

	chosen.v = qwen_chat_new(r, l->n, sizeof *chosen.v);
	for (i = 0; i < l->n && !r->failed; i++) {
		r->scope->n = 0;
		assign(r, n->a, &l->v[i]);
		if (qwen_chat_true(qwen_chat_eval(r, n->c)))
			chosen.v[chosen.n++] = l->v[i];
	}
	*l = chosen;
}

/* Runs the body for each item; r->scope is the loop's, emptied each time. */
static void
go_over(struct chat_exec *r, const struct chat_node *n,
    const struct chat_list *l, unsigned depth)
{
	struct chat_loop *loop = qwen_chat_new(r, 1, sizeof *loop);
	struct chat_value v = { .type = CHAT_LOOP, .u.loop = loop };

	if (loop == NULL)
		return;
	memset(loop, 0, sizeof *loop);
	loop->items = *l;
	loop->depth = depth;
	loop->node = n->name != NULL ? n : NULL;
	for (loop->i = 0; loop->i < l->n; loop->i++) {
		r->scope->n = 0;
		if (qwen_chat_step(r, 1) < 0)
			break;
		qwen_chat_set(r, "loop", v);
		assign(r, n->a, &l->v[loop->i]);
		if (exec(r, n->list) == BREAK)
			break;
	}
}

static int
loop_over(struct chat_exec *r, const struct chat_node *n,
    const struct chat_value *v, unsigned depth)
{
	struct chat_scope *outer = r->scope;
	struct chat_list l = qwen_chat_iterate(r, v);
	struct chat_scope *inner = new_scope(r, outer);
	int rc = 0;

	if (r->failed)
		return -1;
	r->scope = inner;
	if (n->c != NULL)
		choose(r, n, &l);
	if (l.n > 0)
		go_over(r, n, &l, depth);
	else {
		r->scope->n = 0;
		rc = exec(r, n->other);
	}
	r->scope = outer;
	return rc;
}

/* ------------------------------------------------------------------ macros */

/* Captures the output of statements as a value; returns how they ended. */
static int
capture(struct chat_exec *r, const struct chat_node *list,
    struct chat_value *out)
{
	struct chat_buf buf = { 0 }, *outer = r->out;
	int rc;

	r->out = &buf;
	rc = exec(r, list);
	r->out = outer;
	*out = qwen_chat_buf_value(r, &buf);
	return rc;
}

struct chat_value
qwen_chat_recurse(struct chat_exec *r, const struct chat_loop *loop,
    const struct chat_value *items)
{
	struct chat_buf buf = { 0 }, *outer = r->out;

	if (++r->depth > CHAT_RUN_DEPTH)
		qwen_chat_limit(r, "depth");
	r->out = &buf;
	if (!r->failed)
		loop_over(r, loop->node, items, loop->depth + 1);
	r->out = outer;
	r->depth--;
	return qwen_chat_buf_value(r, &buf);
}

/* Returns the argument for parameter i, by position or name; NULL if none. */
static const struct chat_node *
argument(const struct chat_node *args, size_t i, const char *name)
{
	for (; args != NULL; args = args->next, i--) {
		if (args->name != NULL ? strcmp(args->name, name) == 0 :
		    i == 0)
			return args;
	}
	return NULL;
}

static void
check_arguments(struct chat_exec *r, const struct chat_macro *m,
    const struct chat_node *args)
{
	const struct chat_node *arg, *p;
	size_t n = chat_count(m->node->a), n_plain = 0;

	if (m->node->a == NULL && args != NULL)
		qwen_chat_fail(r, "macro '%.60s' takes no more arguments",
		    m->node->name);
	/* each name is searched among all parameters, here and in bind() */
	if (qwen_chat_step(r, n * chat_count(args) / 4) < 0)
		return;
	for (arg = args; arg != NULL; arg = arg->next) {
		for (p = m->node->a; arg->name != NULL && p != NULL &&
		    strcmp(p->name, arg->name) != 0; p = p->next)
			;
		n_plain += arg->name == NULL;
		if (p == NULL || n_plain > n)
			qwen_chat_fail(r, "macro '%.60s' has no such argument",
			    m->node->name);
	}
}

/* Sets the parameters as variables of scope. */
static void
bind(struct chat_exec *r, const struct chat_macro *m,
    const struct chat_node *args, struct chat_scope *scope)
{
	struct chat_scope *outer = r->scope;
	const struct chat_node *p, *arg;
	struct chat_value v;
	size_t i = 0;

	for (p = m->node->a; p != NULL && !r->failed; p = p->next, i++) {
		arg = argument(args, i, p->name);
		if (arg != NULL)
			v = qwen_chat_eval(r, arg->a);
		r->scope = scope;
		if (arg == NULL)
			v = p->a != NULL ? qwen_chat_eval(r, p->a) :
			    chat_undefined(p->name, strlen(p->name));
		qwen_chat_set(r, p->name, v);
		r->scope = outer;
	}
}

struct chat_value
qwen_chat_call_macro(struct chat_exec *r, const struct chat_macro *m,
    const struct chat_node *args, const struct chat_value *caller)
{
	struct chat_scope *outer = r->scope, *scope = new_scope(r, m->scope);
	struct chat_value out = { 0 };

	check_arguments(r, m, args);
	if (caller != NULL && !m->node->takes_caller)
		qwen_chat_fail(r, "macro '%.60s' does not use caller()",
		    m->node->name);
	if (r->failed)
		return out;
	bind(r, m, args, scope);
	r->scope = scope;
	if (caller != NULL)
		qwen_chat_set(r, "caller", *caller);
	capture(r, m->node->list, &out);
	r->scope = outer;
	return out;
}

/* Creates a macro in the current scope; undefined after a failure. */
static struct chat_value
new_macro(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_macro *m = qwen_chat_new(r, 1, sizeof *m);
	struct chat_value v = { .type = CHAT_MACRO, .u.macro = m };

	if (m == NULL)
		return chat_undefined("", 0);
	m->node = n;
	m->scope = r->scope;
	return v;
}

/* {% call %}: passes its content to the macro as the macro caller. */
static void
call_block(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value f = qwen_chat_eval(r, n->b->a), caller;

	if (f.type != CHAT_MACRO)
		qwen_chat_fail(r, "%s cannot be called with a block",
		    qwen_chat_type_name(&f));
	caller = new_macro(r, n);
	if (r->failed)
		return;
	qwen_chat_print(r, r->out, qwen_chat_call_macro(r, f.u.macro,
	    n->b->list, &caller));
}

/* -------------------------------------------------------------- statements */

static void
output(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v = n->a->value;

	if (n->a->kind != CHAT_K_CONST || v.type != CHAT_TEXT)
		v = qwen_chat_eval(r, n->a);
	qwen_chat_print(r, r->out, v);
}

static int
if_else(struct chat_exec *r, const struct chat_node *n)
{
	int yes = n->a == NULL || qwen_chat_true(qwen_chat_eval(r, n->a));

	return exec(r, yes ? n->list : n->other);
}

/* Captures the output of statements and applies the filters of the block. */
static int
filtered(struct chat_exec *r, const struct chat_node *n, struct chat_value *out)
{
	struct chat_scope *outer = r->scope;
	int rc = capture(r, n->list, out);

	if (n->b == NULL || r->failed)
		return rc;
	r->scope = new_scope(r, outer);
	if (r->scope != NULL) {
		qwen_chat_set(r, CHAT_BLOCK_NAME, *out);
		*out = qwen_chat_eval(r, n->b);
	}
	r->scope = outer;
	return rc;
}

static int
filter_block(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v;
	int rc = filtered(r, n, &v);

	if (!r->failed)
		qwen_chat_print(r, r->out, v);
	return rc;
}

/* All values are evaluated in the outer scope. */
static int
with(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_scope *outer = r->scope, *scope = new_scope(r, outer);
	const struct chat_node *arg;
	struct chat_value v;
	int rc = 0;

	for (arg = n->a; arg != NULL && !r->failed; arg = arg->next) {
		v = qwen_chat_eval(r, arg->b);
		r->scope = scope;
		if (!r->failed)
			assign(r, arg->a, &v);
		r->scope = outer;
	}
	r->scope = scope;
	if (!r->failed)
		rc = exec(r, n->list);
	r->scope = outer;
	return rc;
}

static int
set(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v;
	int rc = 0;

	if (n->kind == CHAT_K_SET)
		v = qwen_chat_eval(r, n->b);
	else
		rc = filtered(r, n, &v);
	if (!r->failed)
		assign(r, n->a, &v);
	return rc;
}

static int
statement(struct chat_exec *r, const struct chat_node *n)
{
	struct chat_value v;

	switch (n->kind) {
	case CHAT_K_OUTPUT: output(r, n); return 0;
	case CHAT_K_FOR:
		v = qwen_chat_eval(r, n->b);
		return loop_over(r, n, &v, 0);
	case CHAT_K_IF: return if_else(r, n);
	case CHAT_K_SET: case CHAT_K_SET_BLOCK: return set(r, n);
	case CHAT_K_MACRO:
		qwen_chat_set(r, n->name, new_macro(r, n));
		return 0;
	case CHAT_K_CALL_BLOCK: call_block(r, n); return 0;
	case CHAT_K_FILTER_BLOCK: return filter_block(r, n);
	case CHAT_K_WITH: return with(r, n);
	case CHAT_K_DO: qwen_chat_eval(r, n->a); return 0;
	case CHAT_K_BREAK: return BREAK;
	case CHAT_K_CONTINUE: return CONTINUE;
	default: return qwen_chat_fail(r, "unknown statement");
	}
}

static int
exec(struct chat_exec *r, const struct chat_node *list)
{
	int rc = 0;

	if (++r->depth > CHAT_RUN_DEPTH)
		qwen_chat_limit(r, "depth");
	for (; rc == 0 && list != NULL; list = list->next) {
		r->line = list->line;
		rc = qwen_chat_step(r, 1) < 0 ? -1 : statement(r, list);
	}
	r->depth--;
	return rc;
}

int
qwen_chat_exec(struct chat_exec *r)
{
	r->scope = new_scope(r, r->scope);
	if (r->scope != NULL)
		exec(r, r->t->body);
	return r->failed ? -1 : 0;
}
