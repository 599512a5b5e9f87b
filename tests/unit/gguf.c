/* SPDX-License-Identifier: ISC */
/* gguf.c - cursor, reader, typed reads, damage in memory, writer. */
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "gguf/gguf.h"
#include "qwen/quant.h"
#include "../tap.h"
#include "engine/quant/quant.h"
#include "gguf/write.h"
#include "synth/synth.h"

static struct qwen_err err;

/* A file of tests/files/gguf, in a buffer of exactly its size. */
static unsigned char *
slurp(const char *name, size_t *n)
{
	const char *top = getenv("TOP");
	char path[512];
	unsigned char *p;
	long size;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/files/gguf/%s",
	    top != NULL ? top : ".", name);
	if ((f = fopen(path, "rb")) == NULL || fseek(f, 0, SEEK_END) != 0 ||
	    (size = ftell(f)) < 0) {
		printf("Bail out! cannot read %s\n", path);
		exit(1);
	}
	rewind(f);
	p = malloc(size > 0 ? (size_t)size : 1);
	if (p == NULL || fread(p, 1, (size_t)size, f) != (size_t)size)
		exit(1);
	fclose(f);
	*n = (size_t)size;
	return p;
}

static struct qwen_gguf *
open_good(const char *name)
{
	const char *top = getenv("TOP");
	struct qwen_gguf *g;
	char path[512];

	snprintf(path, sizeof path, "%s/tests/files/gguf/%s",
	    top != NULL ? top : ".", name);
	err.msg[0] = '\0';
	qwen_gguf_open(&g, path, &err);
	ok(g != NULL, "open %s %s", name, err.msg);
	if (g == NULL)
		exit(done_testing());
	return g;
}

/* ---- cursor */

static void
test_cursor(void)
{
	static const unsigned char b[11] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
	struct qwen_cursor c;

	qwen_cursor_init(&c, b, sizeof b);
	ok(qwen_cursor_bytes(&c, 3) == b &&
	    qwen_cursor_u32(&c) == 0x07060504 && !c.failed,
	    "little-endian reads at odd places");
	ok(qwen_cursor_u64(&c) == 0 && c.failed && c.pos == 7 &&
	    c.fail_pos == 7 && c.fail_want == 8, "a read past the end fails");
	ok(qwen_cursor_u32(&c) == 0 && qwen_cursor_bytes(&c, 0) == NULL &&
	    c.pos == 7, "and stays failed");
	qwen_cursor_init(&c, b, sizeof b);
	ok(qwen_cursor_bytes(&c, UINT64_MAX) == NULL && c.failed,
	    "a length of all ones");
	qwen_cursor_init(&c, NULL, 0);
	ok(qwen_cursor_bytes(&c, 1) == NULL && c.failed, "nothing at all");
}

/* ---- typed reads */

static void
test_integers(const struct qwen_gguf *g)
{
	uint64_t u = 7;

	ok(qwen_gguf_get_u64(g, "s.u8", 0, &u, &err) == 1 && u == 255, "u8");
	ok(qwen_gguf_get_u64(g, "s.u16", 0, &u, &err) == 1 && u == 65535,
	    "u16");
	ok(qwen_gguf_get_u64(g, "s.u32", 0, &u, &err) == 1 && u == UINT32_MAX,
	    "u32");
	ok(qwen_gguf_get_u64(g, "s.u64", 0, &u, &err) == 1 && u == UINT64_MAX,
	    "u64");
	u = 7;
	ok(qwen_gguf_get_u64(g, "none", 0, &u, &err) == 0 && u == 7,
	    "an absent key leaves the value alone");
	ok(qwen_gguf_get_u64(g, "s.i32", 0, &u, &err) == -1 && u == 7 &&
	    err.code == QWEN_ERANGE, "negative: %s", err.msg);
	ok(qwen_gguf_get_u64(g, "s.str", 0, &u, &err) == -1 &&
	    err.code == QWEN_EFORMAT, "a string: %s", err.msg);
	ok(qwen_gguf_get_u64(g, "s.f32", 0, &u, &err) == -1, "a float: %s",
	    err.msg);
	ok(qwen_gguf_get_u64(g, "s.bool", 0, &u, &err) == -1, "a bool: %s",
	    err.msg);
	ok(qwen_gguf_get_u64(g, "a.u8", 9, &u, &err) == 1 && u == 9,
	    "the last of an array");
	ok(qwen_gguf_get_u64(g, "a.u8", 10, &u, &err) == -1 &&
	    err.code == QWEN_ERANGE, "one past it: %s", err.msg);
	ok(qwen_gguf_get_u64(g, "s.u8", 1, &u, &err) == -1,
	    "a second of a scalar: %s", err.msg);
	ok(qwen_gguf_get_u64(g, "a.none", 0, &u, &err) == -1,
	    "the first of none: %s", err.msg);
	ok(qwen_gguf_get_u64(g, "a.i16", 1, &u, NULL) == 1 && u == 2 &&
	    qwen_gguf_get_u64(g, "a.i16", 0, &u, NULL) == -1,
	    "without a place for the error");
}

static void
test_others(const struct qwen_gguf *g)
{
	struct qwen_str s;
	double d = 0;
	int b = 7;

	ok(qwen_gguf_get_f64(g, "s.f32", 0, &d, &err) == 1 &&
	    d == (double)0.1f, "f32");
	ok(qwen_gguf_get_f64(g, "s.f64", 0, &d, &err) == 1 && d == 0.1, "f64");
	ok(qwen_gguf_get_f64(g, "s.i64", 0, &d, &err) == 1 && d == -0x1p63,
	    "a float from an integer");
	ok(qwen_gguf_get_f64(g, "a.f32", 1, &d, &err) == 1 && isinf(d),
	    "infinity is a number here");
	ok(qwen_gguf_get_f64(g, "s.bool", 0, &d, &err) == -1, "no float: %s",
	    err.msg);
	ok(qwen_gguf_get_bool(g, "s.bool", 0, &b, &err) == 1 && b == 1, "bool");
	ok(qwen_gguf_get_bool(g, "a.bool", 1, &b, &err) == 1 && b == 0,
	    "bool in an array");
	ok(qwen_gguf_get_bool(g, "a.u8", 1, &b, &err) == 1 && b == 1,
	    "an integer of 1 as a bool");
	ok(qwen_gguf_get_bool(g, "a.u8", 2, &b, &err) == -1, "2: %s", err.msg);
	ok(qwen_gguf_get_str(g, "s.bytes", &s, &err) == 1 && s.len == 4 &&
	    memcmp(s.s, "a\xff\xc3z", 4) == 0, "string");
	ok(qwen_gguf_get_str(g, "a.str", &s, &err) == -1,
	    "no string: %s", err.msg);
	ok(qwen_gguf_get_str(g, "none", &s, &err) == 0, "absent string");
}

static void
test_strings(const struct qwen_gguf *g)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, "a.str");
	static const char *const want[] = { "one", "", "two words" };
	struct qwen_str s;
	size_t pos = 0, i;

	for (i = 0; qwen_gguf_next_str(kv, &pos, &s); i++) {
		if (i >= 3 || s.len != strlen(want[i]) ||
		    memcmp(s.s, want[i], s.len) != 0)
			break;
	}
	ok(i == 3 && pos == kv->bytes, "strings of an array, then the end");
	pos = 0;
	ok(!qwen_gguf_next_str(qwen_gguf_find(g, "a.none"), &pos, &s),
	    "strings of an empty array");
	ok(!qwen_gguf_next_str(qwen_gguf_find(g, "a.u8"), &pos, &s),
	    "strings where there are numbers");
}

static void
test_directory(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t = qwen_gguf_tensor(g, 0);
	const struct qwen_gguf_kv *kv;
	size_t i;

	ok(qwen_gguf_n_tensors(g) == 1 && qwen_gguf_tensor(g, 1) == NULL,
	    "one tensor");
	ok(strcmp(t->name, "a.weight") == 0 && t->ne[0] == 8 &&
	    t->ne[1] == 1 && t->ne[3] == 1 && t->bytes == 32 &&
	    qwen_le32((const unsigned char *)t->data + 4) == 0x3f800000,
	    "its shape and data");
	ok(qwen_gguf_find_tensor(g, "a.weight") == t &&
	    qwen_gguf_find_tensor(g, "a.weigh") == NULL &&
	    qwen_gguf_find_tensor(g, "") == NULL, "look-up by name");
	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		char key[64];

		memcpy(key, kv->key.s, kv->key.len);
		key[kv->key.len] = '\0';
		if (qwen_gguf_find(g, key) != kv)
			break;
	}
	ok(i == qwen_gguf_n_kv(g), "look-up of every key");
	ok(qwen_gguf_find(g, "s.u6") == NULL && qwen_gguf_find(g, "") == NULL &&
	    qwen_gguf_find(g, "s.u644") == NULL, "keys that are not there");
	ok(qwen_gguf_version(g) == 3 && qwen_gguf_data_offset(g, 0) % 32 == 0 &&
	    qwen_gguf_data_offset(g, 0) == t->offset &&
	    qwen_gguf_file_bytes(g, 0) == t->offset + 32 &&
	    qwen_gguf_file_bytes(g, 1) == 0 && qwen_gguf_path(g, 1) == NULL,
	    "facts of the file");
}

static void
test_split(void)
{
	struct qwen_gguf *g = open_good("good-split-00001-of-00003.gguf");
	const struct qwen_gguf_tensor *b = qwen_gguf_find_tensor(g, "b.weight");

	ok(qwen_gguf_n_shards(g) == 3 && qwen_gguf_n_tensors(g) == 2,
	    "three parts, two tensors");
	ok(b != NULL && b->shard == 2 &&
	    qwen_le32(b->data) == 0x3f800000, "data of the third part");
	ok(strstr(qwen_gguf_path(g, 2), "-00003-of-00003.gguf") != NULL,
	    "name of the third part");
	qwen_gguf_close(g);
}

/* ---- damage */

/* Every length from 0 to all but one byte, in a buffer of just that size. */
static void
test_cuts(const char *name)
{
	size_t n, len, accepted = 0, silent = 0;
	unsigned char *p = slurp(name, &n), *q;
	struct qwen_gguf *g;

	for (len = 0; len < n; len++) {
		q = malloc(len > 0 ? len : 1);
		if (q == NULL)
			exit(1);
		memcpy(q, p, len);
		err.msg[0] = '\0';
		if (qwen_gguf_open_memory(&g, q, len, &err) == 0)
			accepted++;
		else if (err.msg[0] == '\0' || g != NULL)
			silent++;
		qwen_gguf_close(g);
		free(q);
	}
	ok(accepted == 0 && silent == 0, "%s cut at each of %zu bytes", name, n);
	free(p);
}

static void
ignore(void *arg, const char *msg)
{
	(void)arg;
	(void)msg;
}

/* Use all that was accepted: a sanitizer sees what reaches too far. */
static uint64_t
touch(const struct qwen_gguf *g)
{
	const struct qwen_gguf_checker c = { ignore, NULL, NULL };
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *kv;
	struct qwen_str s;
	uint64_t sum = 0;
	size_t i, k, pos;

	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		for (k = 0; k < kv->bytes; k++)
			sum += kv->data[k];
		for (pos = 0; qwen_gguf_next_str(kv, &pos, &s);)
			sum += s.len > 0 ? (unsigned char)s.s[s.len - 1] : 0;
	}
	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		for (k = 0; k < t->bytes; k++)
			sum += ((const unsigned char *)t->data)[k];
	}
	return sum + qwen_gguf_check(g, &c, NULL);
}

/* Each byte replaced by some others; the outcome is free, the memory not. */
static void
test_flips(const char *name)
{
	static const unsigned char with[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };
	size_t n, i, k, accepted = 0;
	unsigned char *p = slurp(name, &n), old;
	struct qwen_gguf *g;
	uint64_t sum = 0;

	for (i = 0; i < n; i++) {
		old = p[i];
		for (k = 0; k < sizeof with; k++) {
			p[i] = with[k];
			if (qwen_gguf_open_memory(&g, p, n, &err) == 0) {
				accepted++;
				sum += touch(g);
			}
			qwen_gguf_close(g);
		}
		p[i] = old;
	}
	ok(accepted > 0 && sum > 0, "%s with each of %zu bytes changed", name, n);
	free(p);
}

static void
test_long_key(void)
{
	size_t n = 24 + 8 + 65536 + 4 + 1;
	unsigned char *p = calloc(1, n);
	struct qwen_gguf *g;

	if (p == NULL)
		exit(1);
	memcpy(p, "GGUF\3", 5);
	p[16] = 1;
	qwen_put_le64(p + 24, 65536);
	memset(p + 32, 'k', 65536);
	ok(qwen_gguf_open_memory(&g, p, n, &err) == -1, "a key of 64 KiB: %s",
	    err.msg);
	qwen_put_le64(p + 24, 65535);		/* and a type of 'k' */
	ok(qwen_gguf_open_memory(&g, p, n, &err) == -1 &&
	    strlen(err.msg) < 200, "a long key is not all told");
	free(p);
}

/* A million keys or tensors that are all alike take no quadratic time. */
static void
test_many(void)
{
	size_t count = 1u << 20, rec = 14, n = 24 + count * rec, i;
	unsigned char *p = calloc(1, n), *q;
	struct qwen_gguf *g;

	if (p == NULL)
		exit(1);
	memcpy(p, "GGUF\3", 5);
	qwen_put_le64(p + 16, count);
	for (i = 0, q = p + 24; i < count; i++, q += rec) {
		q[0] = 1;
		q[8] = 'k';
	}
	ok(qwen_gguf_open_memory(&g, p, n, &err) == -1 &&
	    strstr(err.msg, "duplicate") != NULL, "a million equal keys: %s",
	    err.msg);
	qwen_put_le64(p + 16, count + 1);
	ok(qwen_gguf_open_memory(&g, p, n, &err) == -1, "too many: %s",
	    err.msg);
	free(p);
}

/* ---- writer */

static void
put_all(struct qwen_gguf_writer *w, const struct qwen_gguf *from)
{
	const int32_t ints[3] = { -1, 0, 2147483647 };
	const struct qwen_str strs[2] = { { "a\0b", 3 }, { "", 0 } };
	const uint64_t ne[2] = { 64, 3 }, one[1] = { 5 };
	const struct qwen_gguf_kv *kv;
	size_t i;

	qwen_gguf_put_str(w, "general.architecture", "qwen3");
	qwen_gguf_put_u32(w, "general.alignment", 64);
	qwen_gguf_put_f32(w, "w.f32", 1.5f);
	qwen_gguf_put_bool(w, "w.bool", 1);
	qwen_gguf_put_i32s(w, "w.i32s", ints, 3);
	qwen_gguf_put_strs(w, "w.strs", strs, 2);
	for (i = 1; (kv = qwen_gguf_kv(from, i)) != NULL; i++)
		qwen_gguf_put_kv(w, kv);
	qwen_gguf_put_tensor(w, "q", 8, 2, ne);		/* Q8_0 */
	qwen_gguf_put_tensor(w, "f", 0, 1, one);
}

static void
check_written(const struct qwen_gguf *g, const struct qwen_gguf *from,
    const unsigned char *data)
{
	const struct qwen_gguf_kv *a, *b, *s = qwen_gguf_find(g, "w.strs");
	const struct qwen_gguf_tensor *q = qwen_gguf_find_tensor(g, "q");
	const struct qwen_gguf_tensor *f = qwen_gguf_find_tensor(g, "f");
	struct qwen_str x;
	size_t i, pos = 0;
	double d;

	ok(qwen_gguf_data_offset(g, 0) % 64 == 0 && q->offset % 64 == 0 &&
	    f->offset == q->offset + 256, "tensors are aligned");
	ok(memcmp(q->data, data, 204) == 0 &&
	    memcmp(f->data, data + 204, 20) == 0, "data come back");
	ok(qwen_gguf_get_f64(g, "w.f32", 0, &d, &err) == 1 && d == 1.5 &&
	    s->n == 2 && qwen_gguf_next_str(s, &pos, &x) && x.len == 3 &&
	    qwen_gguf_find(g, "w.i32s")->bytes == 12, "keys come back");
	for (i = 1; (a = qwen_gguf_kv(from, i)) != NULL; i++) {
		b = qwen_gguf_kv(g, i + 5);
		if (b == NULL || a->type != b->type || a->n != b->n ||
		    a->bytes != b->bytes ||
		    memcmp(a->data, b->data, a->bytes) != 0)
			break;
	}
	ok(a == NULL, "copied records are the same");
}

static void
test_writer(const struct qwen_gguf *from)
{
	unsigned char data[224], more = 1;
	struct qwen_gguf_writer *w = NULL;
	struct qwen_gguf *g = NULL;
	uint64_t rng = 1;
	const char *dir = getenv("TMPDIR");
	char path[512];
	int fd;

	snprintf(path, sizeof path, "%s/gguf-%ld", dir ? dir : "/tmp",
	    (long)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	qwen_gguf_random(8, data, 192, 1.0, &rng, NULL);
	memset(data + 204, 0, 20);
	ok(fd >= 0 && qwen_gguf_writer_new(&w, &err) == 0, "a new writer");
	if (w == NULL)
		exit(done_testing());
	put_all(w, from);
	ok(qwen_gguf_write_outline(w, fd, &err) == 0 &&
	    (uint64_t)lseek(fd, 0, SEEK_END) == qwen_gguf_writer_bytes(w),
	    "an outline, as large as all of it");
	ok(qwen_gguf_open(&g, path, &err) == 0, "which opens");
	qwen_gguf_close(g);
	g = NULL;
	if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		exit(done_testing());
	ok(qwen_gguf_write_head(w, fd, &err) == 0, "write the head");
	ok(qwen_gguf_write_data(w, fd, data, 100, &err) == 0 &&
	    qwen_gguf_write_end(w, &err) == -1, "not all: %s", err.msg);
	ok(qwen_gguf_write_data(w, fd, data + 100, 124, &err) == 0 &&
	    qwen_gguf_write_end(w, &err) == 0, "across two tensors");
	ok(qwen_gguf_write_data(w, fd, &more, 1, &err) == -1, "too much: %s",
	    err.msg);
	ok((uint64_t)lseek(fd, 0, SEEK_END) == qwen_gguf_writer_bytes(w),
	    "the size it said");
	close(fd);
	ok(qwen_gguf_open(&g, path, &err) == 0, "and it opens");
	if (g != NULL)
		check_written(g, from, data);
	qwen_gguf_close(g);
	qwen_gguf_writer_free(w);
	unlink(path);
}

static void
test_writer_errors(void)
{
	const uint64_t odd[1] = { 33 }, huge[2] = { UINT64_MAX / 4, 9 };
	struct qwen_gguf_writer *w;
	int fd;

	qwen_gguf_writer_new(&w, &err);
	qwen_gguf_put_tensor(w, "odd", 8, 1, odd);
	qwen_gguf_put_u32(w, "k", 1);
	ok(qwen_gguf_write_head(w, -1, &err) == -1, "part of a block: %s",
	    err.msg);
	qwen_gguf_writer_free(w);
	qwen_gguf_writer_new(&w, &err);
	qwen_gguf_put_tensor(w, "huge", 0, 2, huge);
	ok(qwen_gguf_write_head(w, -1, &err) == -1, "overflow: %s", err.msg);
	qwen_gguf_writer_free(w);
	qwen_gguf_writer_new(&w, &err);
	qwen_gguf_put_u32(w, "general.alignment", 3);
	ok(qwen_gguf_write_head(w, -1, &err) == -1, "alignment: %s", err.msg);
	qwen_gguf_writer_free(w);
	qwen_gguf_writer_new(&w, &err);
	ok(qwen_gguf_write_head(w, -1, &err) == -1 && err.code == QWEN_EIO,
	    "no file: %s", err.msg);
	qwen_gguf_writer_free(w);
	qwen_gguf_writer_new(&w, &err);
	fd = open("/dev/null", O_WRONLY);
	ok(qwen_gguf_write_data(w, fd, "", 1, &err) == -1 &&
	    err.code == QWEN_ERANGE, "out of order: %s", err.msg);
	ok(qwen_gguf_write_head(w, fd, &err) == 0 &&
	    qwen_gguf_write_end(w, &err) == 0, "a head alone");
	ok(qwen_gguf_write_head(w, fd, &err) == -1 &&
	    err.code == QWEN_ERANGE, "out of order: %s", err.msg);
	qwen_gguf_put_u32(w, "k", 1);
	ok(qwen_gguf_write_end(w, &err) == -1 && err.code == QWEN_ERANGE,
	    "out of order: %s", err.msg);
	close(fd);
	qwen_gguf_writer_free(w);
	if ((fd = open("/dev/full", O_WRONLY)) >= 0) {
		qwen_gguf_writer_new(&w, &err);
		ok(qwen_gguf_write_outline(w, fd, &err) == -1, "full: %s",
		    err.msg);
		ok(qwen_gguf_write_head(w, fd, &err) == -1, "full: %s", err.msg);
		qwen_gguf_writer_free(w);
		close(fd);
	}
}

/* ---- random weights */

static int
is_random(uint32_t type, double sd, unsigned char *p, float *v, size_t n)
{
	uint64_t rng = 7;
	double m = 0, q = 0;
	size_t i;

	if (qwen_gguf_random(type, p, n, sd, &rng, &err) < 0 ||
	    qwen_quant_dequantize(type, p, v, n, &err) < 0)
		return 0;
	for (i = 0; i < n; i++) {
		m += (double)v[i] / (double)n;
		q += (double)v[i] * (double)v[i] / (double)n;
	}
	ok(fabs(m) < 0.02 * sd && fabs(sqrt(q) - sd) < 0.02 * sd &&
	    qwen_quant_find_nonfinite(type, p, n) == -1,
	    "%s: mean %.5f, sd %.5f", qwen_ggml_name(type), m, sqrt(q));
	return 1;
}

/* Tables of three codes in a format of four, of 243 bytes of 256. */
static void
test_ternary(unsigned char *p, float *v, size_t n)
{
	uint64_t rng = 7;
	int seen[256] = { 0 };
	size_t i, bad = 0, bytes = 0;

	qwen_gguf_random(35, p, n, 1.0, &rng, NULL);
	qwen_quant_dequantize(35, p, v, n, NULL);
	for (i = 0; i < n; i++)
		bad += fabsf(v[i]) > 1.5f;
	ok(bad == 0, "TQ2_0: the code that no encoder writes does not occur");
	qwen_gguf_random(34, p, n, 1.0, &rng, NULL);
	for (i = 0; i < n / 256 * 54; i++) {
		if (i % 54 < 48)
			seen[p[i]] = 1;
	}
	for (i = 0; i < 256; i++)
		bytes += seen[i] != 0;
	ok(bytes == 243, "TQ1_0: %zu bytes that encoders write", bytes);
}

/* In pieces of any size, the same bytes. */
static void
test_pieces(unsigned char *p, uint32_t type)
{
	size_t len = qwen_ggml_block_len(type);
	size_t bytes = qwen_ggml_block_bytes(type), i;
	unsigned char *q = p + 64 * bytes;
	uint64_t a = 3, b = 3;

	qwen_gguf_random(type, p, 12 * len, 1.0, &a, NULL);
	for (i = 0; i < 12; i += 3)
		qwen_gguf_random(type, q + i * bytes, 3 * len, 1.0, &b, NULL);
	ok(a == b && memcmp(p, q, 12 * bytes) == 0,
	    "%s: the same in pieces", qwen_ggml_name(type));
}

static void
test_random(void)
{
	enum { N = 1 << 18, NVFP4 = 40 };
	unsigned char *p = malloc(4 * N);
	float *v = malloc(N * sizeof *v);
	uint64_t rng = 7;
	uint32_t type;

	if (p == NULL || v == NULL)
		exit(1);
	for (type = 0; type < 64; type++) {
		if (!qwen_quant_supported(type))
			continue;
		/* whose scales are no smaller: files have another */
		ok(is_random(type, type == NVFP4 ? 0.3 : 0.02, p, v, N),
		    "%s: random weights", qwen_ggml_name(type));
		test_pieces(p, type);
	}
	test_ternary(p, v, N);
	ok(qwen_gguf_random(15, p, 256, 1.0, &rng, &err) == -1, "Q8_K: %s",
	    err.msg);
	ok(qwen_gguf_random(12, p, 128, 1.0, &rng, &err) == -1,
	    "half a block: %s", err.msg);
	free(p);
	free(v);
}

int
main(void)
{
	struct qwen_gguf *g = open_good("good-v3.gguf");

	test_cursor();
	test_integers(g);
	test_others(g);
	test_strings(g);
	test_directory(g);
	test_split();
	test_cuts("good-v3.gguf");
	test_cuts("good-vocab.gguf");
	test_cuts("good-types.gguf");
	test_flips("good-v3.gguf");
	test_flips("good-vocab.gguf");
	test_flips("good-align.gguf");
	test_long_key();
	test_many();
	test_writer(g);
	test_writer_errors();
	test_random();
	qwen_gguf_close(g);
	return done_testing();
}
