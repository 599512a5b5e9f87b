/* SPDX-License-Identifier: ISC */
/* special.c - finds special tokens in text, before the text is split. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/token/tok.h"

static int
wanted(enum qwen_token_type type, int all)
{
	return type == QWEN_TOKEN_USER_DEFINED || (all &&
	    (type == QWEN_TOKEN_CONTROL || type == QWEN_TOKEN_UNKNOWN));
}

/* A token with its text, since compare() of qsort(3) gets no other argument. */
struct entry {
	struct qwen_str	s;
	int32_t		id;
};

static int
compare(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;
	size_t n = a->s.len < b->s.len ? a->s.len : b->s.len;
	int c = memcmp(a->s.s, b->s.s, n);

	if (c != 0)
		return c;
	if (a->s.len != b->s.len)
		return a->s.len < b->s.len ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Collects the wanted tokens, sorted by text. */
static int
collect(struct entry **out, size_t *n_out, const struct qwen_vocab *v, int all,
    struct qwen_err *err)
{
	size_t i, n = 0, cap = 0;
	struct qwen_str s;

	for (i = 0; i < v->n; i++) {
		s = qwen_vocab_text(v, i);
		if (!wanted(qwen_vocab_type(v, i), all) || s.len == 0)
			continue;
		if (s.len > QWEN_SPECIAL_MAX)
			return qwen_fail(err, QWEN_EFORMAT, "special token "
			    "%zu is %zu bytes long; at most %d are supported",
			    i, s.len, QWEN_SPECIAL_MAX);
		if (qwen_grow(out, &cap, n + 1, sizeof **out) < 0)
			return qwen_oom(err);
		(*out)[n++] = (struct entry){ s, (int32_t)i };
	}
	if (n > 0)
		qsort(*out, n, sizeof **out, compare);
	*n_out = n;
	return 0;
}

int
qwen_specials_init(struct qwen_specials *s, const struct qwen_vocab *v,
    int all, struct qwen_err *err)
{
	struct entry *e = NULL;
	unsigned char b;
	size_t i, n = 0;
	int rc = -1;

	memset(s, 0, sizeof *s);
	s->v = v;
	if (collect(&e, &n, v, all, err) < 0)
		goto out;
	if ((s->id = malloc((n + 1) * sizeof *s->id)) == NULL) {
		qwen_oom(err);
		goto out;
	}
	s->n = n;
	s->only = n > 0 ? (unsigned char)e[0].s.s[0] : -1;
	for (i = 0; i < n; i++) {
		b = (unsigned char)e[i].s.s[0];
		s->first[b] = 1;
		if (b != s->only)
			s->only = -1;
		s->id[i] = e[i].id;
	}
	rc = 0;
out:
	free(e);
	return rc;
}

void
qwen_specials_fini(struct qwen_specials *s)
{
	free(s->id);
	s->id = NULL;
	s->n = 0;
}

/*
 * Returns the first of lo .. hi - 1, all equal before byte d, whose byte d is
 * >= c.
 */
static size_t
narrow(const struct qwen_specials *s, size_t lo, size_t hi, size_t d,
    unsigned c)
{
	struct qwen_str text;
	size_t mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		text = qwen_vocab_text(s->v, (size_t)s->id[mid]);
		if (text.len <= d || (unsigned char)text.s[d] < c)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

/*
 * Returns the length of the longest token at p, with its *id; 0 if there is
 * none. *open is set if more text must decide whether a longer one begins here.
 */
static size_t
match(const struct qwen_specials *s, const unsigned char *p, size_t n,
    int32_t *id, int *open)
{
	size_t lo = 0, hi = s->n, d, len = 0;
	struct qwen_str text;

	*open = 0;
	for (d = 0; lo < hi; d++) {
		text = qwen_vocab_text(s->v, (size_t)s->id[lo]);
		if (d > 0 && text.len == d) {
			len = d;
			*id = s->id[lo];
			while (++lo < hi && qwen_vocab_text(s->v,
			    (size_t)s->id[lo]).len == d)
				;
		}
		if (lo == hi)
			break;
		if (d == n) {
			*open = 1;
			break;
		}
		lo = narrow(s, lo, hi, d, p[d]);
		hi = narrow(s, lo, hi, d, p[d] + 1u);
	}
	return len;
}

/* Returns the next offset from i on where a token may begin, or n. */
static size_t
candidate(const struct qwen_specials *s, const unsigned char *p, size_t i,
    size_t n)
{
	const unsigned char *at;

	if (s->n == 0)
		return n;
	if (s->only >= 0) {
		at = i < n ? memchr(p + i, s->only, n - i) : NULL;
		return at == NULL ? n : (size_t)(at - p);
	}
	while (i < n && !s->first[p[i]])
		i++;
	return i;
}

size_t
qwen_specials_find(const struct qwen_specials *s, const unsigned char *p,
    size_t i, size_t n, int final, int32_t *id, size_t *len)
{
	int open;

	for (;; i++) {
		i = candidate(s, p, i, n);
		*len = 0;
		if (i == n)
			return n;
		*len = match(s, p + i, n - i, id, &open);
		if (open && !final) {
			*len = 0;
			return i;
		}
		if (*len > 0)
			return i;
	}
}
