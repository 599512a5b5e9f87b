/* SPDX-License-Identifier: ISC */
/* op.c - operators: what + does to values, and which one is less. */
#include <math.h>
#include <string.h>

#include "text/chat/chat.h"

static int
cannot(struct chat_run *r, enum chat_op op, const struct chat_value *a,
    const struct chat_value *b)
{
	static const char *const sign[] = {
		"+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=",
		">", ">=", "in", "not in",
	};
	const struct chat_value *u = a->type == CHAT_UNDEFINED ? a :
	    b->type == CHAT_UNDEFINED ? b : NULL;

	if (u != NULL)
		return qwen_chat_fail(r, "'%.*s' is undefined, with '%s'",
		    (int)(u->u.s.n < 60 ? u->u.s.n : 60), u->u.s.s, sign[op]);
	return qwen_chat_fail(r, "%s %s %s", qwen_chat_type_name(a), sign[op],
	    qwen_chat_type_name(b));
}

static int
integers(struct chat_run *r, enum chat_op op, int64_t a, int64_t b,
    int64_t *out)
{
	int over = 0;

	switch (op) {
	case CHAT_ADD: over = __builtin_add_overflow(a, b, out); break;
	case CHAT_SUB: over = __builtin_sub_overflow(a, b, out); break;
	case CHAT_MUL: over = __builtin_mul_overflow(a, b, out); break;
	default:	/* quotient or remainder, rounded down */
		if (b == 0)
			return qwen_chat_fail(r, "division by zero");
		if (b == -1) {
			over = __builtin_sub_overflow((int64_t)0, a, out);
			*out = op == CHAT_MOD ? 0 : *out;
			over = over && op != CHAT_MOD;
			break;
		}
		*out = op == CHAT_MOD ? a % b : a / b;
		if (a % b != 0 && (a % b < 0) != (b < 0))
			*out += op == CHAT_MOD ? b : -1;
	}
	return over ? qwen_chat_fail(r, "an integer over 64 bits") : 0;
}

static int
floats(struct chat_run *r, enum chat_op op, double a, double b, double *out)
{
	switch (op) {
	case CHAT_ADD: *out = a + b; return 0;
	case CHAT_SUB: *out = a - b; return 0;
	case CHAT_MUL: *out = a * b; return 0;
	default: break;
	}
	if (b == 0)
		return qwen_chat_fail(r, "division by zero");
	if (op == CHAT_DIV)
		*out = a / b;
	else if (op == CHAT_FLOORDIV)
		*out = floor(a / b);
	else
		*out = a - b * floor(a / b);
	return 0;
}

static int
join_lists(struct chat_run *r, const struct chat_value *a,
    const struct chat_value *b, struct chat_value *out)
{
	struct chat_value v = *a;
	const struct chat_list *x = &a->u.l, *y = &b->u.l;

	v.u.l.n = x->n + y->n;
	if (qwen_chat_step(r, v.u.l.n) < 0)
		return -1;
	v.u.l.v = qwen_chat_new(r, v.u.l.n, sizeof *v.u.l.v);
	if (v.u.l.v == NULL)
		return -1;
	if (x->n > 0)
		memcpy(v.u.l.v, x->v, x->n * sizeof *x->v);
	if (y->n > 0)
		memcpy(v.u.l.v + x->n, y->v, y->n * sizeof *y->v);
	*out = v;
	return 0;
}

/* A text as often as asked for. */
static int
repeat(struct chat_run *r, const struct chat_text *t, int64_t times,
    struct chat_value *out)
{
	struct chat_buf b = { 0 };

	if (t->n == 0)
		times = 0;
	for (; times > 0 && !b.failed; times--) {
		b.failed = qwen_chat_step(r, 1) < 0;
		qwen_chat_put(r, &b, t);
	}
	return qwen_chat_take(r, &b, out);
}

/* a ~ b: as they are written. */
static int
write_both(struct chat_run *r, const struct chat_value *a,
    const struct chat_value *b, struct chat_value *out)
{
	struct chat_buf buf = { 0 };

	if (a->type == CHAT_TEXT && b->type == CHAT_TEXT)
		return qwen_chat_join(r, &a->u.s, &b->u.s, out);
	qwen_chat_print(r, &buf, a);
	qwen_chat_print(r, &buf, b);
	return qwen_chat_take(r, &buf, out);
}

int
qwen_chat_binary(struct chat_run *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b,
    struct chat_value *out)
{
	int whole_a = a->type == CHAT_INT || a->type == CHAT_BOOL;
	int whole_b = b->type == CHAT_INT || b->type == CHAT_BOOL;
	double x, y;

	if (op == CHAT_CONCAT)
		return write_both(r, a, b, out);
	if (op == CHAT_ADD && a->type == CHAT_TEXT && b->type == CHAT_TEXT)
		return qwen_chat_join(r, &a->u.s, &b->u.s, out);
	if (op == CHAT_ADD && a->type == b->type &&
	    (a->type == CHAT_LIST || a->type == CHAT_TUPLE))
		return join_lists(r, a, b, out);
	if (op == CHAT_MUL && a->type == CHAT_TEXT && whole_b)
		return repeat(r, &a->u.s, b->u.i, out);
	if (op == CHAT_MUL && b->type == CHAT_TEXT && whole_a)
		return repeat(r, &b->u.s, a->u.i, out);
	if (whole_a && whole_b && op != CHAT_DIV) {
		*out = chat_int(0);
		return integers(r, op, a->u.i, b->u.i, &out->u.i);
	}
	if (!qwen_chat_number(a, &x) || !qwen_chat_number(b, &y))
		return cannot(r, op, a, b);
	out->type = CHAT_FLOAT;
	return floats(r, op, x, y, &out->u.f);
}

int
qwen_chat_compare(struct chat_run *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b, int *yes)
{
	double x, y;
	int c;

	if (op == CHAT_IN || op == CHAT_NOT_IN) {
		if (qwen_chat_contains(r, b, a, yes) < 0)
			return -1;
		*yes = *yes == (op == CHAT_IN);
		return 0;
	}
	if (op == CHAT_EQ || op == CHAT_NE) {
		c = qwen_chat_equal(r, a, b);
		*yes = c == (op == CHAT_EQ);
		return c < 0 ? -1 : 0;
	}
	if (a->type == CHAT_TEXT && b->type == CHAT_TEXT)
		c = qwen_chat_order(&a->u.s, &b->u.s);
	else if (qwen_chat_number(a, &x) && qwen_chat_number(b, &y))
		c = (x > y) - (x < y);
	else
		return cannot(r, op, a, b);
	*yes = op == CHAT_LT ? c < 0 : op == CHAT_LE ? c <= 0 :
	    op == CHAT_GT ? c > 0 : c >= 0;
	return 0;
}
