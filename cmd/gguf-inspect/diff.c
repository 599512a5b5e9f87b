/* SPDX-License-Identifier: ISC */
/* diff.c - show the differences of two files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-inspect.h"

static int
same_kv(const struct qwen_gguf_kv *a, const struct qwen_gguf_kv *b)
{
	return a->type == b->type && a->elem == b->elem && a->n == b->n &&
	    a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/*
 * Return the pair of a key that does not end in a NUL; NULL if no pair has it.
 */
static const struct qwen_gguf_kv *
find_kv(const struct qwen_gguf *g, const struct qwen_str *key)
{
	const struct qwen_gguf_kv *kv = NULL;
	char *s;

	if (memchr(key->s, '\0', key->len) != NULL)
		return NULL;
	s = cli_check_alloc(strndup(key->s, key->len));
	kv = qwen_gguf_find(g, s);
	free(s);
	return kv;
}

/*
 * Print the first element in which two arrays of one type differ; the parts of
 * the arrays that are shown may be equal.
 */
static void
put_first_change(const struct qwen_gguf_kv *a, const struct qwen_gguf_kv *b)
{
	size_t size = qwen_gguf_type_bytes(a->elem), pa = 0, pb = 0;
	struct qwen_str x, y;
	uint64_t i, n = a->n < b->n ? a->n : b->n;

	if (a->type != QWEN_GGUF_ARRAY || a->type != b->type ||
	    a->elem != b->elem)
		return;
	for (i = 0; i < n; i++) {
		if (size != 0) {
			if (memcmp(a->data + i * size, b->data + i * size,
			    size) != 0)
				break;
		} else if (!qwen_gguf_next_str(a, &pa, &x) ||
		    !qwen_gguf_next_str(b, &pb, &y) || x.len != y.len ||
		    memcmp(x.s, y.s, x.len) != 0) {
			break;
		}
	}
	fputs("! meta ", stdout);
	inspect_put_word(a->key.s, a->key.len);
	printf(" first differs at element %" PRIu64 "\n", i);
}

static int
diff_meta(const struct qwen_gguf *a, const struct qwen_gguf *b)
{
	const struct qwen_gguf_kv *x, *y;
	int differ = 0;
	size_t i;

	for (i = 0; (x = qwen_gguf_kv(a, i)) != NULL; i++) {
		y = find_kv(b, &x->key);
		if (y != NULL && same_kv(x, y))
			continue;
		differ = 1;
		fputs("- meta ", stdout);
		inspect_put_meta(x);
		if (y != NULL) {
			fputs("+ meta ", stdout);
			inspect_put_meta(y);
			put_first_change(x, y);
		}
	}
	for (i = 0; (y = qwen_gguf_kv(b, i)) != NULL; i++) {
		if (find_kv(a, &y->key) == NULL) {
			differ = 1;
			fputs("+ meta ", stdout);
			inspect_put_meta(y);
		}
	}
	return differ;
}

static void
put_tensor(const char *mark, const struct qwen_gguf_tensor *t)
{
	printf("%s tensor ", mark);
	inspect_put_name(t->name);
	printf(" %s", qwen_ggml_name(t->type));
	inspect_put_shape(t, 0);
	printf(" %" PRIu64 "\n", t->bytes);
}

/* Return the index of the first of n bytes that differs; n if none does. */
static uint64_t
first_change(const unsigned char *p, const unsigned char *q, uint64_t n)
{
	uint64_t i = 0, step = 1 << 16;

	while (n - i > step && memcmp(p + i, q + i, step) == 0)
		i += step;
	while (i < n && p[i] == q[i])
		i++;
	return i;
}

/*
 * Print "! data NAME FIRST COUNT" if the data of two tensors differ: the first
 * byte that differs and the number of such bytes.  Return 1 if so, else 0.
 */
static int
diff_data(const struct qwen_gguf_tensor *x, const struct qwen_gguf_tensor *y)
{
	const unsigned char *p, *q;
	uint64_t first = 0, count = 0, at, n, m, i;

	for (at = 0; at < x->bytes; at += n) {
		p = qwen_gguf_data(x, at, &n);
		q = qwen_gguf_data(y, at, &m);
		n = m < n ? m : n;
		i = first_change(p, q, n);
		if (i < n && count == 0)
			first = at + i;
		for (; i < n; i++)
			count += p[i] != q[i];
	}
	if (count == 0)
		return 0;
	fputs("! data ", stdout);
	inspect_put_name(x->name);
	printf(" %" PRIu64 " %" PRIu64 "\n", first, count);
	return 1;
}

static int
diff_tensor(const struct qwen_gguf_tensor *x, const struct qwen_gguf_tensor *y)
{
	if (y != NULL && x->type == y->type && x->n_dims == y->n_dims &&
	    memcmp(x->ne, y->ne, sizeof x->ne) == 0)
		return diff_data(x, y);
	put_tensor("-", x);
	if (y != NULL)
		put_tensor("+", y);
	return 1;
}

static int
diff_tensors(const struct qwen_gguf *a, const struct qwen_gguf *b)
{
	const struct qwen_gguf_tensor *x, *y;
	uint64_t bytes = 0;
	int differ = 0;
	size_t i;

	inspect_progress(a);
	for (i = 0; (x = qwen_gguf_tensor(a, i)) != NULL; i++) {
		y = qwen_gguf_find_tensor(b, x->name);
		differ |= diff_tensor(x, y);
		bytes += x->bytes;
		cli_progress(bytes >> 20);
	}
	for (i = 0; (y = qwen_gguf_tensor(b, i)) != NULL; i++) {
		if (qwen_gguf_find_tensor(a, y->name) == NULL) {
			differ = 1;
			put_tensor("+", y);
		}
	}
	cli_progress_end();
	return differ;
}

int
inspect_diff(const struct qwen_gguf *a, const struct qwen_gguf *b)
{
	return diff_meta(a, b) | diff_tensors(a, b);
}
