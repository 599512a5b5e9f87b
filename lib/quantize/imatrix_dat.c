/* SPDX-License-Identifier: ISC */
/*
 * imatrix_dat.c - reads imatrix.dat, the format of llama-imatrix before mid
 * 2025, which it can still write.  Numbers are little-endian, 32 bits:
 *
 *	number of entries
 *	for each: length of the name, name, number of calls, number of values,
 *	    values in f32: for each column the mean of its squared inputs,
 *	    times the number of calls
 *	number of the last chunk; length of the data set's name, name (may be missing)
 *
 * All values of an expert that no token used are equal.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "quantize/imatrix_dat.h"

#define NAME_MAX_BYTES 4096

static int
cut(const struct qwen_cursor *c, struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT, "not an importance matrix, or "
	    "truncated: needs %llu bytes at %zu, but the file has %zu",
	    (unsigned long long)c->fail_want, c->fail_pos, c->len);
}

/* Reads a length and that many bytes. */
static int
read_name(struct qwen_cursor *c, struct qwen_str *out, struct qwen_err *err)
{
	size_t at = c->pos;
	uint32_t n = qwen_cursor_u32(c);

	if (!c->failed && n > NAME_MAX_BYTES)
		return qwen_fail(err, QWEN_EFORMAT, "not an importance matrix: "
		    "a name of %u bytes at %zu", (unsigned)n, at);
	out->s = (const char *)qwen_cursor_bytes(c, n);
	out->len = n;
	return c->failed ? cut(c, err) : 0;
}

static int
read_entry(struct imatrix_dat *d, struct qwen_cursor *c, struct qwen_err *err)
{
	struct imatrix_dat_entry e;
	uint32_t n_call;

	if (read_name(c, &e.name, err) < 0)
		return -1;
	n_call = qwen_cursor_u32(c);
	e.n = qwen_cursor_u32(c);
	e.v = qwen_cursor_bytes(c, (uint64_t)e.n * 4);
	if (c->failed)
		return cut(c, err);
	if (e.name.len == 0 || n_call > INT32_MAX || e.n == 0)
		return qwen_fail(err, QWEN_EFORMAT, "not an importance matrix: "
		    "entry %zu has a name of %zu bytes, %u calls and %u values",
		    d->n, e.name.len, (unsigned)n_call, (unsigned)e.n);
	if (qwen_grow(&d->v, &d->cap, d->n + 1, sizeof *d->v) < 0)
		return qwen_oom(err);
	d->v[d->n++] = e;
	return 0;
}

static int
compare(struct qwen_str a, struct qwen_str b)
{
	size_t n = a.len < b.len ? a.len : b.len;
	int r = memcmp(a.s, b.s, n);

	return r != 0 ? r : (a.len > b.len) - (a.len < b.len);
}

static int
by_name(const void *a, const void *b)
{
	const struct imatrix_dat_entry *x = a, *y = b;

	return compare(x->name, y->name);
}

static int
parse(struct imatrix_dat *d, const void *buf, size_t bytes,
    struct qwen_err *err)
{
	struct qwen_cursor c;
	uint32_t i, n;

	qwen_cursor_init(&c, buf, bytes);
	n = qwen_cursor_u32(&c);
	if (c.failed)
		return cut(&c, err);
	if (n == 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "not an importance matrix: it has no entries");
	for (i = 0; i < n; i++) {
		if (read_entry(d, &c, err) < 0)
			return -1;
	}
	if (qwen_cursor_left(&c) > 0) {
		d->n_chunk = qwen_cursor_u32(&c);
		if (read_name(&c, &d->dataset, err) < 0)
			return -1;
	}
	if (qwen_cursor_left(&c) > 0)
		return qwen_fail(err, QWEN_EFORMAT, "not an importance matrix: "
		    "%zu bytes after its end", qwen_cursor_left(&c));
	qsort(d->v, d->n, sizeof *d->v, by_name);
	for (i = 1; i < d->n; i++) {
		if (by_name(&d->v[i - 1], &d->v[i]) == 0)
			return qwen_fail(err, QWEN_EFORMAT, "two entries for "
			    "%.*s", (int)(d->v[i].name.len < 64 ?
			    d->v[i].name.len : 64), d->v[i].name.s);
	}
	return 0;
}

int
qwen_imatrix_dat_read(struct imatrix_dat *d, const void *buf, size_t n,
    struct qwen_err *err)
{
	memset(d, 0, sizeof *d);
	if (parse(d, buf, n, err) == 0)
		return 0;
	qwen_imatrix_dat_fini(d);
	return -1;
}

void
qwen_imatrix_dat_fini(struct imatrix_dat *d)
{
	free(d->v);
	memset(d, 0, sizeof *d);
}

const struct imatrix_dat_entry *
qwen_imatrix_dat_find(const struct imatrix_dat *d, const char *name)
{
	struct imatrix_dat_entry key = { .name = { name, strlen(name) } };

	return d->n == 0 ? NULL :
	    bsearch(&key, d->v, d->n, sizeof *d->v, by_name);
}
