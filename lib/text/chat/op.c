/* SPDX-License-Identifier: ISC */
/* op.c - arithmetic and comparison of values. */
#include <math.h>
#include <string.h>

#include "text/chat/chat.h"

const char *const qwen_chat_sign[CHAT_N_OP] = {
	"+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=",
	"in", "not in",
};

static void
cannot(struct chat_exec *r, enum chat_op op, const struct chat_value *a,
    const struct chat_value *b)
{
	const struct chat_value *u = a->type == CHAT_UNDEFINED ? a :
	    b->type == CHAT_UNDEFINED ? b : NULL;

	if (u != NULL)
		qwen_chat_fail(r, "'%.*s' is undefined and has no '%s'",
		    (int)(u->u.s.n < 60 ? u->u.s.n : 60), u->u.s.s,
		    qwen_chat_sign[op]);
	else
		qwen_chat_fail(r, "unsupported operation: %s %s %s",
		    qwen_chat_type_name(a), qwen_chat_sign[op],
		    qwen_chat_type_name(b));
}

static struct chat_value
integers(struct chat_exec *r, enum chat_op op, int64_t a, int64_t b)
{
	int64_t n = 0;
	int over = 0;

	switch (op) {
	case CHAT_ADD: over = __builtin_add_overflow(a, b, &n); break;
	case CHAT_SUB: over = __builtin_sub_overflow(a, b, &n); break;
	case CHAT_MUL: over = __builtin_mul_overflow(a, b, &n); break;
	default:	/* quotient or remainder, rounded down */
		if (b == 0)
			qwen_chat_fail(r, "division by zero");
		else if (b == -1)
			over = op != CHAT_MOD &&
			    __builtin_sub_overflow((int64_t)0, a, &n);
		else {
			n = op == CHAT_MOD ? a % b : a / b;
			if (a % b != 0 && (a % b < 0) != (b < 0))
				n += op == CHAT_MOD ? b : -1;
		}
	}
	if (over)
		qwen_chat_fail(r, "an integer exceeds 64 bits");
	return chat_int(n);
}

/* Computes by squaring; the result is an integer unless b is negative. */
static struct chat_value
power(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b, double x, double y)
{
	struct chat_value out = { .type = CHAT_FLOAT };
	int64_t n = 1, base = a->u.i, e = b->u.i;
	int over = 0;

	if (a->type == CHAT_FLOAT || b->type == CHAT_FLOAT || e < 0) {
		if (x == 0 && y < 0)
			qwen_chat_fail(r, "division by zero");
		out.u.f = pow(x, y);
		if (isnan(out.u.f) && !isnan(x) && !isnan(y))
			qwen_chat_fail(r, "the power is not a real number");
		return out;
	}
	for (; e > 0 && !over; e >>= 1) {
		if ((e & 1) != 0)
			over = __builtin_mul_overflow(n, base, &n);
		if (e > 1)
			over |= __builtin_mul_overflow(base, base, &base);
	}
	if (over)
		qwen_chat_fail(r, "an integer exceeds 64 bits");
	return chat_int(n);
}

static double
floats(struct chat_exec *r, enum chat_op op, double a, double b)
{
	switch (op) {
	case CHAT_ADD: return a + b;
	case CHAT_SUB: return a - b;
	case CHAT_MUL: return a * b;
	default: break;
	}
	if (b == 0)
		qwen_chat_fail(r, "division by zero");
	return op == CHAT_DIV ? a / b : op == CHAT_FLOORDIV ? floor(a / b) :
	    a - b * floor(a / b);
}

static struct chat_value
join_lists(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b)
{
	struct chat_value v = { .type = a->type,
	    .u.l = qwen_chat_new_list(r, a->u.l.n + b->u.l.n) };
	size_t i;

	for (i = 0; i < v.u.l.n; i++)
		v.u.l.v[i] = i < a->u.l.n ? a->u.l.v[i] :
		    b->u.l.v[i - a->u.l.n];
	return v;
}

/* Repeats a list. */
static struct chat_value
repeat_list(struct chat_exec *r, const struct chat_value *l, int64_t times)
{
	struct chat_value v = *l;
	size_t i;

	if (times < 0 || l->u.l.n == 0)
		times = 0;
	if (times > CHAT_RANGE_MAX)
		qwen_chat_limit(r, "a list");
	else
		v.u.l = qwen_chat_new_list(r, l->u.l.n * (size_t)times);
	for (i = 0; i < v.u.l.n && !r->failed; i++)
		v.u.l.v[i] = l->u.l.v[i % l->u.l.n];
	return v;
}

/* Joins markup and text: escapes the operand that is not markup. */
static struct chat_value
add_markup(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b)
{
	struct chat_value x = a->markup ? *a : qwen_chat_escape(r, &a->u.s);
	struct chat_value y = b->markup ? *b : qwen_chat_escape(r, &b->u.s);
	struct chat_value v = qwen_chat_join(r, &x.u.s, &y.u.s);

	v.markup = 1;
	return v;
}

/* Repeats a text. */
static struct chat_value
repeat(struct chat_exec *r, const struct chat_text *t, int64_t times)
{
	struct chat_buf b = { 0 };

	if (t->n > 0)
		qwen_chat_put_times(r, &b, t, times);
	return qwen_chat_buf_value(r, &b);
}

/* a ~ b: joins both as printed. */
static struct chat_value
write_both(struct chat_exec *r, const struct chat_value *a,
    const struct chat_value *b)
{
	struct chat_buf buf = { 0 };

	if (a->type == CHAT_TEXT && b->type == CHAT_TEXT)
		return qwen_chat_join(r, &a->u.s, &b->u.s);
	qwen_chat_print(r, &buf, *a);
	qwen_chat_print(r, &buf, *b);
	return qwen_chat_buf_value(r, &buf);
}

struct chat_value
qwen_chat_binary(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b)
{
	int whole_a = chat_is_whole(a), whole_b = chat_is_whole(b);
	struct chat_value out = { .type = CHAT_FLOAT };
	double x, y;

	if (op == CHAT_ADD && a->type == CHAT_TEXT && b->type == CHAT_TEXT &&
	    (a->markup || b->markup))
		return add_markup(r, a, b);
	if (op == CHAT_MOD && a->type == CHAT_TEXT)
		return qwen_chat_percent(r, &a->u.s, b);
	if (op == CHAT_CONCAT || (op == CHAT_ADD && a->type == CHAT_TEXT &&
	    b->type == CHAT_TEXT))
		return write_both(r, a, b);
	if (op == CHAT_ADD && a->type == b->type && chat_is_list(a))
		return join_lists(r, a, b);
	if (op == CHAT_MUL && a->type == CHAT_TEXT && whole_b)
		return repeat(r, &a->u.s, b->u.i);
	if (op == CHAT_MUL && b->type == CHAT_TEXT && whole_a)
		return repeat(r, &b->u.s, a->u.i);
	if (op == CHAT_MUL && whole_b && chat_is_list(a))
		return repeat_list(r, a, b->u.i);
	if (op == CHAT_MUL && whole_a && chat_is_list(b))
		return repeat_list(r, b, a->u.i);
	if (whole_a && whole_b && op != CHAT_DIV && op != CHAT_POW)
		return integers(r, op, a->u.i, b->u.i);
	if (!qwen_chat_number(a, &x) || !qwen_chat_number(b, &y)) {
		cannot(r, op, a, b);
		return *a;
	}
	if (op == CHAT_POW)
		return power(r, a, b, x, y);
	out.u.f = floats(r, op, x, y);
	return out;
}

/* Compares by the first items that differ: negative, 0 or positive. */
static int
order_lists(struct chat_exec *r, const struct chat_list *a,
    const struct chat_list *b)
{
	size_t i;

	for (i = 0; i < a->n && i < b->n && !r->failed; i++) {
		if (qwen_chat_equal(r, &a->v[i], &b->v[i]))
			continue;
		return qwen_chat_compare(r, CHAT_LT, &a->v[i], &b->v[i]) ?
		    -1 : 1;
	}
	return (a->n > b->n) - (a->n < b->n);
}

static int
contains(struct chat_exec *r, const struct chat_value *in,
    const struct chat_value *v)
{
	int yes = 0;
	size_t i;

	switch (in->type) {
	case CHAT_UNDEFINED: break;
	case CHAT_TEXT:
		if (v->type == CHAT_TEXT)
			return qwen_chat_search(r, &in->u.s, &v->u.s, 0) <=
			    in->u.s.n;
		qwen_chat_fail(r, "%s cannot be searched for in a string",
		    qwen_chat_type_name(v));
		break;
	case CHAT_LIST: case CHAT_TUPLE:
		for (i = 0; !yes && i < in->u.l.n && !r->failed; i++)
			yes = qwen_chat_equal(r, &in->u.l.v[i], v);
		break;
	case CHAT_DICT:
		return qwen_chat_find(r, in->u.d, v) != NULL;
	default:
		qwen_chat_fail(r, "%s cannot be searched",
		    qwen_chat_type_name(in));
	}
	return yes;
}

int
qwen_chat_compare(struct chat_exec *r, enum chat_op op,
    const struct chat_value *a, const struct chat_value *b)
{
	double x, y;
	int c = 0;

	if (op == CHAT_IN || op == CHAT_NOT_IN)
		return contains(r, b, a) == (op == CHAT_IN);
	if (op == CHAT_EQ || op == CHAT_NE)
		return qwen_chat_equal(r, a, b) == (op == CHAT_EQ);
	if (a->type == CHAT_TEXT && b->type == CHAT_TEXT) {
		qwen_chat_step(r, a->u.s.n / 64);
		c = qwen_chat_compare_text(&a->u.s, &b->u.s);
	} else if (qwen_chat_number(a, &x) && qwen_chat_number(b, &y))
		c = (x > y) - (x < y);
	else if (a->type == b->type && chat_is_list(a)) {
		if (++r->depth > CHAT_RUN_DEPTH)
			qwen_chat_limit(r, "depth");
		else
			c = order_lists(r, &a->u.l, &b->u.l);
		r->depth--;
	} else
		cannot(r, op, a, b);
	return op == CHAT_LT ? c < 0 : op == CHAT_LE ? c <= 0 :
	    op == CHAT_GT ? c > 0 : c >= 0;
}
