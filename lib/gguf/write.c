/* SPDX-License-Identifier: ISC */
/*
 * write.c - write GGUF files, version 3.
 *
 * Metadata and directory are small and are assembled in memory; the data
 * streams out after them in directory order.  Errors of the put functions are
 * kept and reported by the next function that can fail.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "gguf/vocab.h"
#include "gguf/write.h"

enum { PAD_BYTES = 32 };	/* of "[PAD4194303]" or any other number */

struct item {
	char		name[GGUF_NAME_MAX + 1];
	uint32_t	type, n_dims;
	uint64_t	ne[4];
	uint64_t	bytes, offset;
};

struct qwen_gguf_writer {
	struct qwen_text kv;
	uint64_t	 n_kv;
	char		 arch[64];	/* begins keys like ".block_count" */
	struct item	*item;
	size_t		 n_items, cap_items;
	uint32_t	 alignment;
	struct qwen_err	 bad;		/* first error of a put */
	int		 begun;		/* the head is written */
	uint64_t	 data_bytes;	/* padding included */
	uint64_t	 head_bytes;
	size_t		 now;		/* tensor whose data comes next */
	uint64_t	 done;		/* bytes of its data written */
	uint64_t	 written;	/* bytes of all data */
	struct qwen_text note;		/* each ends in a NUL */
	qwen_gguf_progress *progress;	/* or NULL */
	void		*progress_arg;
};

int
qwen_gguf_writer_new(struct qwen_gguf_writer **out, struct qwen_err *err)
{
	*out = calloc(1, sizeof **out);
	if (*out == NULL)
		return qwen_oom(err);
	(*out)->alignment = GGUF_ALIGN_DEFAULT;
	return 0;
}

void
qwen_gguf_writer_free(struct qwen_gguf_writer *w)
{
	if (w == NULL)
		return;
	qwen_text_fini(&w->kv);
	qwen_text_fini(&w->note);
	free(w->item);
	free(w);
}

/* ---- assembling the head */

/* Can keys and tensors still be put?  If not, the first error says why. */
static int
is_open(struct qwen_gguf_writer *w)
{
	if (w->begun && w->bad.code == 0)
		qwen_fail(&w->bad, QWEN_ERANGE,
		    "key or tensor added after the header was written");
	return w->bad.code == 0;
}

/* Returns 0; -1 with the first error of a put. */
static int
report(const struct qwen_gguf_writer *w, struct qwen_err *err)
{
	if (w->bad.code != 0 && err != NULL)
		*err = w->bad;
	return w->bad.code != 0 ? -1 : 0;
}

static void
add_u32(struct qwen_text *t, uint32_t v)
{
	unsigned char b[4];

	qwen_put_le32(b, v);
	qwen_text_add(t, b, sizeof b);
}

static void
add_u64(struct qwen_text *t, uint64_t v)
{
	unsigned char b[8];

	qwen_put_le64(b, v);
	qwen_text_add(t, b, sizeof b);
}

static void
add_str(struct qwen_text *t, const char *s, size_t n)
{
	add_u64(t, n);
	qwen_text_add(t, s, n);
}

/* Adds a key of len bytes, and its type; before it the text `first'. */
static void
add_key(struct qwen_gguf_writer *w, const char *first, const char *key,
    size_t len, enum qwen_gguf_type type)
{
	size_t n = strlen(first);

	if (!is_open(w))
		return;
	add_u64(&w->kv, n + len);
	qwen_text_add(&w->kv, first, n);
	qwen_text_add(&w->kv, key, len);
	add_u32(&w->kv, (uint32_t)type);
	w->n_kv++;
}

static void
begin(struct qwen_gguf_writer *w, const char *key, enum qwen_gguf_type type)
{
	add_key(w, *key == '.' ? w->arch : "", key, strlen(key), type);
}

static void
put_32(struct qwen_gguf_writer *w, const char *key, enum qwen_gguf_type type,
    uint32_t v)
{
	begin(w, key, type);
	add_u32(&w->kv, v);
}

void
qwen_gguf_put_u32(struct qwen_gguf_writer *w, const char *key, uint32_t v)
{
	put_32(w, key, QWEN_GGUF_UINT32, v);
	if (strcmp(key, "general.alignment") == 0)
		w->alignment = v;
}

void
qwen_gguf_put_i32(struct qwen_gguf_writer *w, const char *key, int32_t v)
{
	put_32(w, key, QWEN_GGUF_INT32, (uint32_t)v);
}

void
qwen_gguf_put_f32(struct qwen_gguf_writer *w, const char *key, float v)
{
	put_32(w, key, QWEN_GGUF_FLOAT32, qwen_f32_bits(v));
}

void
qwen_gguf_put_bool(struct qwen_gguf_writer *w, const char *key, int v)
{
	unsigned char b = v != 0;

	begin(w, key, QWEN_GGUF_BOOL);
	qwen_text_add(&w->kv, &b, 1);
}

void
qwen_gguf_put_str(struct qwen_gguf_writer *w, const char *key, const char *s)
{
	begin(w, key, QWEN_GGUF_STRING);
	add_str(&w->kv, s, strlen(s));
	if (strcmp(key, "general.architecture") == 0)
		snprintf(w->arch, sizeof w->arch, "%s", s);
}

static void
add_array(struct qwen_gguf_writer *w, const char *key,
    enum qwen_gguf_type elem, size_t n)
{
	begin(w, key, QWEN_GGUF_ARRAY);
	add_u32(&w->kv, (uint32_t)elem);
	add_u64(&w->kv, n);
}

void
qwen_gguf_put_i32s(struct qwen_gguf_writer *w, const char *key,
    const int32_t *v, size_t n)
{
	size_t i;

	add_array(w, key, QWEN_GGUF_INT32, n);
	for (i = 0; i < n; i++)
		add_u32(&w->kv, (uint32_t)v[i]);
}

void
qwen_gguf_put_f32s(struct qwen_gguf_writer *w, const char *key,
    const float *v, size_t n)
{
	size_t i;

	add_array(w, key, QWEN_GGUF_FLOAT32, n);
	for (i = 0; i < n; i++)
		add_u32(&w->kv, qwen_f32_bits(v[i]));
}

void
qwen_gguf_put_bools(struct qwen_gguf_writer *w, const char *key,
    const unsigned char *v, size_t n)
{
	add_array(w, key, QWEN_GGUF_BOOL, n);
	qwen_text_add(&w->kv, v, n);
}

void
qwen_gguf_put_strs(struct qwen_gguf_writer *w, const char *key,
    const struct qwen_str *v, size_t n)
{
	size_t i;

	add_array(w, key, QWEN_GGUF_STRING, n);
	for (i = 0; i < n; i++)
		add_str(&w->kv, v[i].s, v[i].len);
}

void
qwen_gguf_put_tokens(struct qwen_gguf_writer *w, struct qwen_str *token,
    int32_t *type, size_t n)
{
	char *room = calloc(n, PAD_BYTES), *at = room;
	size_t i;

	for (i = 0; room != NULL && i < n; i++) {
		if (token[i].s != NULL)
			continue;
		token[i].s = at;
		token[i].len = (size_t)snprintf(at, PAD_BYTES, "[PAD%zu]", i);
		type[i] = QWEN_TOKEN_UNUSED;
		at += PAD_BYTES;
	}
	if (room == NULL)
		qwen_oom(&w->bad);
	qwen_gguf_put_strs(w, "tokenizer.ggml.tokens", token, n);
	qwen_gguf_put_i32s(w, "tokenizer.ggml.token_type", type, n);
	free(room);
}

void
qwen_gguf_put_kv(struct qwen_gguf_writer *w, const struct qwen_gguf_kv *kv)
{
	add_key(w, "", kv->key.s, kv->key.len, kv->type);
	if (kv->type == QWEN_GGUF_ARRAY) {
		add_u32(&w->kv, (uint32_t)kv->elem);
		add_u64(&w->kv, kv->n);
	}
	qwen_text_add(&w->kv, kv->data, kv->bytes);
}

void
qwen_gguf_put_tensor(struct qwen_gguf_writer *w, const char *name,
    uint32_t type, unsigned n_dims, const uint64_t *ne)
{
	struct item t = { .type = type, .n_dims = n_dims,
	    .ne = { 1, 1, 1, 1 } };
	size_t len = qwen_ggml_block_len(type);

	if (!is_open(w))
		return;
	if (n_dims > 0 && n_dims <= 4)
		memcpy(t.ne, ne, n_dims * sizeof *ne);
	if (len == 0 || n_dims == 0 || n_dims > 4 || ne[0] % len != 0 ||
	    qwen_gguf_tensor_bytes(type, t.ne, &t.bytes) < 0 || t.bytes == 0 ||
	    strlen(name) == 0 || strlen(name) > GGUF_NAME_MAX) {
		qwen_fail(&w->bad, QWEN_ERANGE,
		    "tensor %s: bad name, type or shape", name);
		return;
	}
	memcpy(t.name, name, strlen(name));
	if (qwen_grow(&w->item, &w->cap_items, w->n_items + 1, sizeof t) < 0)
		qwen_oom(&w->bad);
	else
		w->item[w->n_items++] = t;
}

/* ---- writing */

static int
write_all(int fd, const void *p, size_t n, struct qwen_err *err)
{
	const char *s = p;
	ssize_t k;

	while (n > 0) {
		/* some systems refuse more than 2 GiB at once */
		k = write(fd, s, n < (1u << 30) ? n : 1u << 30);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return qwen_fail_errno(err, "%s", "cannot write");
		s += k;
		n -= (size_t)k;
	}
	return 0;
}

static uint64_t
align_up(uint64_t n, uint64_t a)
{
	return (n + a - 1) / a * a;
}

/* Offsets like those of the reference writer: in order, each padded. */
static int
lay_out(struct qwen_gguf_writer *w)
{
	uint64_t at = 0;
	size_t i;

	if (w->alignment < 8 || w->alignment > GGUF_ALIGN_MAX ||
	    (w->alignment & (w->alignment - 1)) != 0)
		return qwen_fail(&w->bad, QWEN_ERANGE,
		    "general.alignment %u is not a power of two from 8 to %u",
		    w->alignment, GGUF_ALIGN_MAX);
	for (i = 0; i < w->n_items; i++) {
		w->item[i].offset = at;
		if (w->item[i].bytes > INT64_MAX - at - GGUF_ALIGN_MAX)
			return qwen_fail(&w->bad, QWEN_ERANGE,
			    "tensor %s: file too large", w->item[i].name);
		at = align_up(at + w->item[i].bytes, w->alignment);
	}
	w->data_bytes = at;
	return 0;
}

static void
build_head(const struct qwen_gguf_writer *w, struct qwen_text *b)
{
	const struct item *t;
	size_t i, d;

	qwen_text_str(b, GGUF_MAGIC);
	add_u32(b, 3);
	add_u64(b, w->n_items);
	add_u64(b, w->n_kv);
	qwen_text_add(b, w->kv.s, w->kv.n);
	for (i = 0; i < w->n_items; i++) {
		t = &w->item[i];
		add_str(b, t->name, strlen(t->name));
		add_u32(b, t->n_dims);
		for (d = 0; d < t->n_dims; d++)
			add_u64(b, t->ne[d]);
		add_u32(b, t->type);
		add_u64(b, t->offset);
	}
}

/* Writes zeros after n bytes, up to the alignment. */
static int
pad(const struct qwen_gguf_writer *w, int fd, uint64_t n, struct qwen_err *err)
{
	static const unsigned char zero[4096];
	uint64_t left = align_up(n, w->alignment) - n;
	size_t k;

	for (; left > 0; left -= k) {
		k = left < sizeof zero ? (size_t)left : sizeof zero;
		if (write_all(fd, zero, k, err) < 0)
			return -1;
	}
	return 0;
}

int
qwen_gguf_make_head(struct qwen_gguf_writer *w, struct qwen_text *out,
    struct qwen_err *err)
{
	static const unsigned char zero[64];
	size_t left, n;

	if (w->bad.code == 0 && lay_out(w) == 0)
		build_head(w, out);
	left = (size_t)(align_up(out->n, w->alignment) - out->n);
	for (; w->bad.code == 0 && left > 0; left -= n) {
		n = left < sizeof zero ? left : sizeof zero;
		qwen_text_add(out, zero, n);
	}
	if (w->bad.code == 0 && (w->kv.failed || w->note.failed || out->failed))
		qwen_oom(&w->bad);
	w->head_bytes = out->n;
	return report(w, err);
}

int
qwen_gguf_write_head(struct qwen_gguf_writer *w, int fd, struct qwen_err *err)
{
	struct qwen_text b = { 0 };
	int rc = -1;

	if (w->begun)
		return qwen_fail(err, QWEN_ERANGE, "header written twice");
	if (qwen_gguf_make_head(w, &b, err) == 0 &&
	    write_all(fd, b.s, b.n, err) == 0) {
		w->begun = 1;
		rc = 0;
	}
	qwen_text_fini(&b);
	return rc;
}

int
qwen_gguf_write_outline(struct qwen_gguf_writer *w, int fd,
    struct qwen_err *err)
{
	if (qwen_gguf_write_head(w, fd, err) < 0)
		return -1;
	w->begun = 0;
	return ftruncate(fd, (off_t)qwen_gguf_writer_bytes(w)) == 0 ? 0 :
	    qwen_fail_errno(err, "cannot leave a hole");
}

int
qwen_gguf_write_data(struct qwen_gguf_writer *w, int fd, const void *data,
    size_t n, struct qwen_err *err)
{
	const unsigned char *p = data;
	uint64_t left;
	size_t k;

	if (!w->begun)
		return qwen_fail(err, QWEN_ERANGE, "data written before the "
		    "header");
	while (n > 0) {
		if (w->now == w->n_items)
			return qwen_fail(err, QWEN_ERANGE,
			    "more data than the tensors need");
		left = w->item[w->now].bytes - w->done;
		k = n < left ? n : (size_t)left;
		if (write_all(fd, p, k, err) < 0)
			return -1;
		p += k;
		n -= k;
		w->done += k;
		w->written += k;
		if (w->done == w->item[w->now].bytes) {
			if (pad(w, fd, w->done, err) < 0)
				return -1;
			w->now++;
			w->done = 0;
		}
	}
	if (w->progress != NULL)
		w->progress(w->progress_arg, w->written,
		    qwen_gguf_writer_bytes(w));
	return 0;
}

int
qwen_gguf_write_end(const struct qwen_gguf_writer *w, struct qwen_err *err)
{
	if (report(w, err) < 0)
		return -1;
	if (!w->begun || w->now != w->n_items)
		return qwen_fail(err, QWEN_ERANGE, "data of tensor %s is "
		    "missing",
		    w->now < w->n_items ? w->item[w->now].name : "?");
	return 0;
}

uint64_t
qwen_gguf_writer_bytes(const struct qwen_gguf_writer *w)
{
	return w->head_bytes > 0 ? w->head_bytes + w->data_bytes : 0;
}

size_t
qwen_gguf_writer_n_tensors(const struct qwen_gguf_writer *w)
{
	return w->n_items;
}

void
qwen_gguf_writer_progress(struct qwen_gguf_writer *w, qwen_gguf_progress *fn,
    void *arg)
{
	w->progress = fn;
	w->progress_arg = arg;
}

void
qwen_gguf_note(struct qwen_gguf_writer *w, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	qwen_text_add(&w->note, line, strlen(line) + 1);
}

const char *
qwen_gguf_writer_note(const struct qwen_gguf_writer *w, size_t i)
{
	const char *s = w->note.s, *end = s + w->note.n;

	for (; s < end && i > 0; i--)
		s += strlen(s) + 1;
	return s < end ? s : NULL;
}
