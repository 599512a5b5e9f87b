/* SPDX-License-Identifier: ISC */
/* rope.c - RoPE scaling as a string: "yarn=4,orig=32768". */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "qwen/base.h"

static const char *const names[] = {
	[QWEN_ROPE_NONE] = "none", [QWEN_ROPE_LINEAR] = "linear",
	[QWEN_ROPE_YARN] = "yarn",
};

/* Parses decimal digits, up to max; returns the rest of s, or NULL. */
static const char *
digits(const char *s, uint32_t max, uint32_t *out)
{
	uint64_t v = 0;
	const char *p;

	for (p = s; *p >= '0' && *p <= '9' && v <= max; p++)
		v = 10 * v + (uint64_t)(*p - '0');
	*out = (uint32_t)v;
	return p > s && v <= max ? p : NULL;
}

/*
 * Parses 1 to QWEN_ROPE_FACTOR_MAX into thousandths, independent of the locale.
 */
static const char *
factor(const char *s, uint32_t *out)
{
	uint32_t whole, part = 100;

	if ((s = digits(s, QWEN_ROPE_FACTOR_MAX, &whole)) == NULL)
		return NULL;
	*out = 1000 * whole;
	if (*s == '.' && !(s[1] >= '0' && s[1] <= '9'))
		return NULL;
	if (*s == '.') {
		for (s++; *s >= '0' && *s <= '9' && part > 0; part /= 10)
			*out += part * (uint32_t)(*s++ - '0');
	}
	return *out >= 1000 && *out <= 1000 * QWEN_ROPE_FACTOR_MAX ? s : NULL;
}

int
qwen_rope_parse(struct qwen_rope *out, const char *s)
{
	struct qwen_rope r = { .kind = QWEN_ROPE_LINEAR };
	size_t n = strcspn(s, "=");

	*out = (struct qwen_rope){ .kind = QWEN_ROPE_NONE };
	if (strcmp(s, names[QWEN_ROPE_NONE]) == 0)
		return 0;
	if (n == strlen(names[QWEN_ROPE_YARN]))
		r.kind = QWEN_ROPE_YARN;
	if (n != strlen(names[r.kind]) || memcmp(s, names[r.kind], n) != 0 ||
	    s[n] != '=' || (s = factor(s + n + 1, &r.factor)) == NULL)
		return -1;
	if (strncmp(s, ",orig=", 6) == 0 && ((s = digits(s + 6,
	    QWEN_ROPE_N_MAX, &r.n_orig)) == NULL || r.n_orig == 0))
		return -1;
	if (*s != '\0')
		return -1;
	*out = r;
	return 0;
}

const char *
qwen_rope_text(const struct qwen_rope *r, char buf[QWEN_ROPE_TEXT])
{
	size_t n;

	buf[0] = '\0';
	if (r->kind == QWEN_ROPE_FILE || r->kind > QWEN_ROPE_YARN)
		return buf;
	n = (size_t)snprintf(buf, QWEN_ROPE_TEXT, "%s", names[r->kind]);
	if (r->kind == QWEN_ROPE_NONE)
		return buf;
	n += (size_t)snprintf(buf + n, QWEN_ROPE_TEXT - n, "=%" PRIu32 ".%03"
	    PRIu32, r->factor / 1000, r->factor % 1000);
	while (buf[n - 1] == '0')
		n--;
	n -= buf[n - 1] == '.';
	buf[n] = '\0';
	if (r->n_orig > 0)
		snprintf(buf + n, QWEN_ROPE_TEXT - n, ",orig=%" PRIu32,
		    r->n_orig);
	return buf;
}

int
qwen_rope_same(const struct qwen_rope *a, const struct qwen_rope *b)
{
	return a->kind == b->kind && a->factor == b->factor &&
	    a->n_orig == b->n_orig;
}
