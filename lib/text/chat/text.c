/* SPDX-License-Identifier: ISC */
/* text.c - text that records the origin of its bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/chat/chat.h"
#include "qwentext.h"

const unsigned char qwen_chat_all_own[1] = { 1 };

size_t
qwen_chat_char(const char *s, size_t i, size_t n, uint32_t *c)
{
	int k = qwen_utf8_read((const unsigned char *)s + i, n - i, c);

	if (k > 0)
		return (size_t)k;
	*c = (unsigned char)s[i];
	return 1;
}

int
qwen_chat_space(uint32_t c)
{
	return (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x20) || c == 0x85 ||
	    c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
	    c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
	    c == 0x3000;
}

/* Counts characters: the bytes that are not continuation bytes. */
size_t
qwen_chat_chars(struct chat_exec *r, const char *s, size_t n)
{
	size_t i, k = 0;

	if (qwen_chat_step(r, n / 16) < 0)
		return 0;
	for (i = 0; i < n; i++)
		k += ((unsigned char)s[i] & 0xc0) != 0x80;
	return k;
}

size_t
qwen_chat_offset(struct chat_exec *r, const struct chat_text *t, size_t i)
{
	size_t at = 0;
	uint32_t c;

	if (qwen_chat_step(r, (i < t->n ? i : t->n) / 4) < 0)
		return 0;
	while (i-- > 0 && at < t->n)
		at += qwen_chat_char(t->s, at, t->n, &c);
	return at;
}

int
qwen_chat_digits(const char *s, size_t n, int64_t *i)
{
	size_t k, minus = n > 0 && s[0] == '-';

	*i = 0;
	for (k = minus; k < n; k++) {
		if (s[k] < '0' || s[k] > '9' ||
		    __builtin_mul_overflow(*i, 10, i) ||
		    __builtin_sub_overflow(*i, s[k] - '0', i))
			return 0;
	}
	/* the sum is negative, since INT64_MIN has no positive counterpart */
	return n > minus && (minus ||
	    !__builtin_sub_overflow((int64_t)0, *i, i));
}

/* Is a character one of set?  NULL: white space. */
static int
among(struct chat_exec *r, uint32_t c, const struct chat_text *set)
{
	uint32_t d = c + 1;
	size_t i = 0;

	if (set == NULL)
		return qwen_chat_space(c);
	while (i < set->n && d != c)
		i += qwen_chat_char(set->s, i, set->n, &d);
	return qwen_chat_step(r, 1 + i / 2) == 0 && d == c;
}

struct chat_text
qwen_chat_strip(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *set, int ends)
{
	size_t begin = 0, end = t->n, at, k;
	uint32_t c;

	while ((ends & 1) != 0 && begin < end) {
		k = qwen_chat_char(t->s, begin, end, &c);
		if (!among(r, c, set))
			break;
		begin += k;
	}
	while ((ends & 2) != 0 && end > begin) {
		for (at = end - 1; at > begin && end - at < 4 &&
		    ((unsigned char)t->s[at] & 0xc0) == 0x80; at--)
			;
		qwen_chat_char(t->s, at, end, &c);
		if (!among(r, c, set))
			break;
		end = at;
	}
	if (r != NULL)
		qwen_chat_step(r, 1 + (t->n - (end - begin)) / 4);
	return chat_slice(t, begin, end);
}

size_t
qwen_chat_search(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *x, size_t i)
{
	const size_t nowhere = t->n + 1;
	const char *p;
	uint64_t work = 0;
	size_t begin = i, at = nowhere;

	if (x->n == 0)
		return i <= t->n ? i : nowhere;
	while (i + x->n <= t->n) {
		p = memchr(t->s + i, x->s[0], t->n - x->n - i + 1);
		if (p == NULL) {
			i = t->n;
			break;
		}
		i = (size_t)(p - t->s);
		/* each candidate costs as much as a full comparison */
		work += 1 + x->n / 16;
		if (memcmp(p, x->s, x->n) == 0) {
			at = i;
			break;
		}
		i++;
		if (work > 4096 && qwen_chat_step(r, work) < 0)
			return nowhere;
		work = work > 4096 ? 0 : work;
	}
	return qwen_chat_step(r, work + (i - begin) / 64) < 0 ? nowhere : at;
}

size_t
qwen_chat_search_back(struct chat_exec *r, const struct chat_text *t,
    const struct chat_text *x, size_t end)
{
	size_t i = end < x->n ? 0 : end - x->n + 1, from = i;

	if (x->n == 0)
		return end;
	while (i-- > 0) {
		if (t->s[i] == x->s[0] &&
		    qwen_chat_step(r, 1 + x->n / 64) == 0 &&
		    memcmp(t->s + i, x->s, x->n) == 0)
			break;
	}
	qwen_chat_step(r, (from - i - 1) / 8);
	return i == SIZE_MAX ? t->n + 1 : i;
}

/* -------------------------------------------------------- text that grows */

static int
reserve(struct chat_exec *r, struct chat_buf *b, size_t n)
{
	size_t want, had = b->cap, cap = had;

	if (had - b->n >= n)
		return 0;
	/* both buffers grow by half of their size */
	if (qwen_add(b->n, n, &want) < 0 || want > SIZE_MAX / 4 ||
	    3 * want - 2 * had > r->mem.max - r->mem.total)
		return qwen_chat_limit(r, "memory");
	if (qwen_grow(&b->s, &cap, want, 1) < 0 ||
	    qwen_grow(&b->origin, &b->cap, want, 1) < 0)
		return qwen_chat_oom(r);
	/* counts as memory of the run until qwen_chat_buf_value() */
	r->mem.total += 2 * (b->cap - had);
	return 0;
}

void
qwen_chat_put(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t)
{
	if (t->n == 0 || qwen_chat_step(r, 1 + t->n / 16) < 0 ||
	    reserve(r, b, t->n) < 0)
		return;
	memcpy(b->s + b->n, t->s, t->n);
	if (t->origin == NULL || t->origin == qwen_chat_all_own)
		memset(b->origin + b->n, t->origin != NULL, t->n);
	else
		memcpy(b->origin + b->n, t->origin, t->n);
	b->n += t->n;
}

void
qwen_chat_put_data(struct chat_exec *r, struct chat_buf *b, const char *s,
    size_t n)
{
	struct chat_text t = { s, n, NULL };

	qwen_chat_put(r, b, &t);
}

void
qwen_chat_put_str(struct chat_exec *r, struct chat_buf *b, const char *s)
{
	qwen_chat_put_data(r, b, s, strlen(s));
}

void
qwen_chat_put_slice(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, size_t begin, size_t end)
{
	struct chat_text part = chat_slice(t, begin, end);

	qwen_chat_put(r, b, &part);
}

void
qwen_chat_put_like(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, size_t i, const char *s, size_t n)
{
	struct chat_text like = { s, n, chat_is_own(t, i) ?
	    qwen_chat_all_own : NULL };

	qwen_chat_put(r, b, &like);
}

void
qwen_chat_put_times(struct chat_exec *r, struct chat_buf *b,
    const struct chat_text *t, int64_t times)
{
	for (; times > 0 && qwen_chat_step(r, 1) == 0; times--)
		qwen_chat_put(r, b, t);
}

void
qwen_chat_put_spaces(struct chat_exec *r, struct chat_buf *b, int64_t n)
{
	static const char spaces[] = "                ";
	int64_t k;

	for (; n > 0 && !r->failed; n -= k) {
		k = n < 16 ? n : 16;
		qwen_chat_put_data(r, b, spaces, (size_t)k);
	}
}

void
qwen_chat_buf_fini(struct chat_buf *b)
{
	free(b->s);
	free(b->origin);
	memset(b, 0, sizeof *b);
}

/* Returns NULL, qwen_chat_all_own, or a copy of origin. */
static const unsigned char *
copy_origin(struct chat_exec *r, const unsigned char *origin, size_t n)
{
	unsigned char *p;

	if (n == 0 || memchr(origin, !origin[0], n) == NULL)
		return n > 0 && origin[0] ? qwen_chat_all_own : NULL;
	if ((p = qwen_chat_new(r, n, 1)) != NULL)
		memcpy(p, origin, n);
	return p;
}

struct chat_value
qwen_chat_buf_value(struct chat_exec *r, struct chat_buf *b)
{
	struct chat_text t = { "", 0, NULL };
	char *s = r->failed ? NULL : qwen_chat_new(r, b->n, 1);

	if (s != NULL && b->n > 0) {
		t.origin = copy_origin(r, b->origin, b->n);
		t.s = memcpy(s, b->s, b->n);
		t.n = b->n;
	}
	/* the buffer is freed; the copy in the arena is counted */
	r->mem.total -= 2 * b->cap;
	qwen_chat_buf_fini(b);
	return chat_text(t);
}

struct chat_value
qwen_chat_join(struct chat_exec *r, const struct chat_text *a,
    const struct chat_text *b)
{
	struct chat_buf both = { 0 };

	if (a->n == 0 || b->n == 0)
		return chat_text(a->n == 0 ? *b : *a);
	qwen_chat_put(r, &both, a);
	qwen_chat_put(r, &both, b);
	return qwen_chat_buf_value(r, &both);
}
