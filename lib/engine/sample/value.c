/* SPDX-License-Identifier: ISC */
/* value.c - values of options: defaults, parsing, printing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/sample/sampler.h"

int
qwen_sample_is_text(const struct qwen_sample_opt *o)
{
	return o->type == QWEN_SAMPLE_TEXT || o->type == QWEN_SAMPLE_LIST;
}

/* The default is stored as a double. */
union qwen_sample_value
qwen_sample_initial(const struct qwen_sample_opt *o)
{
	union qwen_sample_value v;

	memset(&v, 0, sizeof v);
	if (o->type == QWEN_SAMPLE_REAL)
		v.d = o->def;
	else if (o->type == QWEN_SAMPLE_UINT)
		v.u = (uint64_t)o->def;
	else if (!qwen_sample_is_text(o))
		v.i = (int64_t)o->def;
	return v;
}

int
qwen_sample_differs(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v)
{
	union qwen_sample_value def = qwen_sample_initial(o);

	if (qwen_sample_is_text(o))
		return v->list.n > 0;
	if (o->type == QWEN_SAMPLE_REAL)
		return v->d != def.d;
	return o->type == QWEN_SAMPLE_UINT ? v->u != def.u : v->i != def.i;
}

double
qwen_sample_number(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v)
{
	if (o->type == QWEN_SAMPLE_REAL)
		return v->d;
	return o->type == QWEN_SAMPLE_UINT ? (double)v->u : (double)v->i;
}

/* ---------------------------------------------------------------- numbers */

/*
 * Error: "5000 is not a number from 0 to 1000"; the caller adds the option's
 * name.
 */
static int
bad_value(const struct qwen_sample_opt *o, const char *text,
    struct qwen_err *err)
{
	if (o->type == QWEN_SAMPLE_FLAG)
		return qwen_fail(err, QWEN_ERANGE, "\"%.40s\" is not 0 or 1",
		    text);
	if (o->type == QWEN_SAMPLE_UINT)
		return qwen_fail(err, QWEN_ERANGE,
		    "\"%.40s\" is not a whole number from 0 to 2^64 - 1", text);
	return qwen_fail(err, QWEN_ERANGE,
	    "\"%.40s\" is not a %snumber from %.10g to %.10g", text,
	    o->type == QWEN_SAMPLE_INT ? "whole " : "", o->min, o->max);
}

/* Integers are decimal; reals are decimal with point and exponent. */
int
qwen_sample_parse(const struct qwen_sample_opt *o, const char *text,
    union qwen_sample_value *v, struct qwen_err *err)
{
	const char *set = o->type == QWEN_SAMPLE_REAL ? "+-.0123456789eE" :
	    o->type == QWEN_SAMPLE_UINT ? "0123456789" : "+-0123456789";
	double d, min = o->min, max = o->max;
	char *tail;

	if (text[0] == '\0' || text[strspn(text, set)] != '\0')
		return bad_value(o, text, err);
	errno = 0;
	if (o->type == QWEN_SAMPLE_REAL)
		v->d = strtod(text, &tail);
	else if (o->type == QWEN_SAMPLE_UINT)
		v->u = strtoull(text, &tail, 10);
	else
		v->i = strtoll(text, &tail, 10);
	if (o->type == QWEN_SAMPLE_UINT)
		max = 0x1p64;
	else if (o->type == QWEN_SAMPLE_FLAG)
		max = 1;
	/* a real below the smallest double counts as 0 */
	d = qwen_sample_number(o, v);
	if (*tail != '\0' || tail == text || !(d >= min && d <= max) ||
	    (errno != 0 && o->type != QWEN_SAMPLE_REAL))
		return bad_value(o, text, err);
	return 0;
}

/* Prints the shortest decimal that reads back as d. */
static void
print_real(double d, char *buf, size_t size)
{
	int digits;

	for (digits = 1; digits <= 17; digits++) {
		snprintf(buf, size, "%.*g", digits, d);
		if (strtod(buf, NULL) == d)
			break;
	}
}

void
qwen_sample_print(const struct qwen_sample_opt *o,
    const union qwen_sample_value *v, char *buf, size_t size)
{
	if (o->type == QWEN_SAMPLE_REAL)
		print_real(v->d, buf, size);
	else if (o->type == QWEN_SAMPLE_UINT)
		snprintf(buf, size, "%llu", (unsigned long long)v->u);
	else
		snprintf(buf, size, "%lld", (long long)v->i);
}
