/* SPDX-License-Identifier: ISC */
/* decimal.c - decimal numbers of a schema, compared without rounding. */
#include "text/schema/schema.h"

/* Reads a number such as 12.5e-3; point is the decimal point's position. */
int
qwen_decimal_read_text(struct decimal *d, const char *t)
{
	char all[40];
	int n = 0, point = -1, e = 0, minus = 0, i;

	*d = (struct decimal){ .minus = *t == '-' };
	t += d->minus;
	for (; (*t >= '0' && *t <= '9') || *t == '.'; t++) {
		if (*t == '.') {
			point = n;
			continue;
		}
		if (n == 40)
			return -1;
		all[n++] = *t;
	}
	if (n == 0)
		return -1;
	if (*t == 'e' || *t == 'E') {
		minus = t[1] == '-';
		for (t += 1 + (t[1] == '-' || t[1] == '+'); *t >= '0' &&
		    *t <= '9'; t++)
			e = e > 1000 ? e : e * 10 + (*t - '0');
	}
	point = (point < 0 ? n : point) + (minus ? -e : e);
	/* drop zeros at both ends */
	for (i = 0; i < n && all[i] == '0'; i++)
		;
	while (n > i && all[n - 1] == '0')
		n--;
	if (i == n) {
		d->minus = 0;
		return 0;
	}
	if (point - i > 40 || n - point > 40)
		return -1;
	for (; i < point || (i < n && point > i); i++)
		d->digit[d->n_int++] = i < n ? all[i] : '0';
	for (e = point; e < i; e++)
		d->digit[d->n_int + d->n_frac++] = '0';
	for (; i < n; i++)
		d->digit[d->n_int + d->n_frac++] = all[i];
	return 0;
}

int
qwen_decimal_read(struct decimal *d, yyjson_val *v)
{
	return qwen_decimal_read_text(d, yyjson_is_raw(v) ?
	    yyjson_get_raw(v) : "");
}

int
qwen_decimal_compare(const struct decimal *a, const struct decimal *b)
{
	int sign = a->minus ? -1 : 1, i, n, c = 0;

	if (a->minus != b->minus)
		return sign;
	if (a->n_int != b->n_int)
		return a->n_int > b->n_int ? sign : -sign;
	n = a->n_int + (a->n_frac < b->n_frac ? a->n_frac : b->n_frac);
	for (i = 0; i < n && c == 0; i++)
		c = a->digit[i] - b->digit[i];
	if (c == 0)
		c = a->n_frac - b->n_frac;
	return c == 0 ? 0 : c > 0 ? sign : -sign;
}

int64_t
qwen_schema_count(struct schema *s, yyjson_val *where, yyjson_val *v)
{
	struct decimal d;
	int64_t n = 0;
	int i;

	if (qwen_decimal_read(&d, v) < 0 || d.minus || d.n_frac > 0 ||
	    d.n_int > 18) {
		qwen_schema_fail(s, where, "%.40s is not a whole number >= 0, "
		    "or too large", yyjson_is_raw(v) ?
		    yyjson_get_raw(v) : "this");
		return -1;
	}
	for (i = 0; i < d.n_int; i++)
		n = n * 10 + (d.digit[i] - '0');
	return n;
}
