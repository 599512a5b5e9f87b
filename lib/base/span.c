/* SPDX-License-Identifier: ISC */
/* span.c - the ids of rows that stand instead of tokens. */
#include "base/cursor.h"
#include "qwen/base.h"

/* The bits of x, mixed (splitmix64, Steele et al. 2014). */
static uint64_t
mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

int32_t
qwen_span_id(const struct qwen_span *s, uint64_t i)
{
	uint64_t x = mix(qwen_le64(s->hash.b) + (i + 1) * 0x9e3779b97f4a7c15u);

	return -1 - (int32_t)(mix(x ^ qwen_le64(s->hash.b + 8)) >> 33);
}

size_t
qwen_ids_common(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
	size_t i, from, n = n_a < n_b ? n_a : n_b;

	for (i = 0; i < n && a[i] == b[i]; i++)
		;
	if (i == n_a || i == n_b || a[i] >= 0 || b[i] >= 0)
		return i;
	for (from = i; from > 0 && a[from - 1] < 0;)
		from--;
	return i - from < QWEN_SPAN_MIN ? from : i;
}
