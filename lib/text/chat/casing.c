/* SPDX-License-Identifier: ISC */
/* casing.c - upper, lower and title case of a character. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/chat/casing.h"

/* Returns the range that contains the character, or NULL. */
static const struct qwen_case_range *
find_range(uint32_t c)
{
	size_t low = 0, high = qwen_case_n_ranges, mid, i;
	const struct qwen_case_range *r;

	/* low becomes the number of ranges that begin at or before c */
	while (low < high) {
		mid = (low + high) / 2;
		if (qwen_case_ranges[mid].first <= c)
			low = mid + 1;
		else
			high = mid;
	}
	for (i = 0; i < qwen_case_overlap && i < low; i++) {
		r = &qwen_case_ranges[low - 1 - i];
		if (c <= r->last && (c - r->first) % r->step == 0)
			return r;
	}
	return NULL;
}

static int
compare(const void *c, const void *odd)
{
	const uint32_t *x = c, y = ((const struct qwen_case_odd *)odd)->c;

	return (*x > y) - (*x < y);
}

static const struct qwen_case_odd *
find_odd(uint32_t c)
{
	return bsearch(&c, qwen_case_odds, qwen_case_n_odds,
	    sizeof *qwen_case_odds, compare);
}

enum qwen_case_kind
qwen_case_kind(uint32_t c)
{
	const struct qwen_case_range *r;
	const struct qwen_case_odd *odd;

	if (c < 0x80)
		return c >= 'a' && c <= 'z' ? QWEN_KIND_LOWER :
		    c >= 'A' && c <= 'Z' ? QWEN_KIND_UPPER : QWEN_KIND_NONE;
	if ((r = find_range(c)) != NULL)
		return (enum qwen_case_kind)r->kind;
	odd = find_odd(c);
	return odd != NULL ? (enum qwen_case_kind)odd->kind : QWEN_KIND_NONE;
}

size_t
qwen_case_write(uint32_t c, enum qwen_case how, char out[QWEN_CASE_MAX])
{
	const struct qwen_case_range *r;
	const struct qwen_case_odd *odd;

	if (c < 0x80) {
		if (how == QWEN_CASE_LOWER && c >= 'A' && c <= 'Z')
			c += 32;
		if (how != QWEN_CASE_LOWER && c >= 'a' && c <= 'z')
			c -= 32;
	} else if ((r = find_range(c)) != NULL) {
		c = (uint32_t)((int32_t)c + r->to[how]);
	} else if ((odd = find_odd(c)) != NULL) {
		memcpy(out, odd->to[how], strlen(odd->to[how]));
		return strlen(odd->to[how]);
	}
	return qwen_utf8_write(c, out);
}
