/* SPDX-License-Identifier: ISC */
/*
 * parse.c - header, metadata and tensor directory of one GGUF file.
 *
 * The bytes may be hostile: every read goes through the cursor, every count is
 * compared with the bytes left before it is used, and tables grow as records
 * arrive, not as the header promises.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "gguf/gguf.h"

/*
 * The shortest records: a key of one byte and a value of one byte; a name of
 * one byte and one dimension.
 */
#define KV_MIN (8 + 1 + 4 + 1)
#define TENSOR_MIN (8 + 1 + 4 + 8 + 4 + 8)

struct parser {
	struct qwen_cursor	 c;
	struct qwen_err		*err;
	const char		*what;	/* kind of record */
	uint64_t		 index;	/* its number */
	size_t			 start;	/* its offset */
	struct qwen_str		 name;	/* its name, once known */
};

/* Fails with the place of the record in the message. */
static int __attribute__((format(printf, 3, 4)))
complain(const struct parser *p, int code, const char *fmt, ...)
{
	char text[160];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (p->name.len > 0)
		return qwen_fail(p->err, code, "%s %.*s at %zu: %s", p->what,
		    (int)(p->name.len < 64 ? p->name.len : 64), p->name.s,
		    p->start, text);
	return qwen_fail(p->err, code, "%s %" PRIu64 " at %zu: %s", p->what,
	    p->index, p->start, text);
}

static int
truncated(const struct parser *p)
{
	return complain(p, QWEN_EFORMAT, "needs %" PRIu64 " bytes at %zu, but "
	    "the file has %zu bytes: incomplete download?", p->c.fail_want,
	    p->c.fail_pos, p->c.len);
}

static void
begin_record(struct parser *p, const char *what, uint64_t index)
{
	p->what = what;
	p->index = index;
	p->start = p->c.pos;
	p->name.len = 0;
}

/* A length and that many bytes. */
static struct qwen_str
read_str(struct parser *p)
{
	struct qwen_str s = { NULL, 0 };
	uint64_t len = qwen_cursor_u64(&p->c);

	s.s = (const char *)qwen_cursor_bytes(&p->c, len);
	if (s.s != NULL)
		s.len = (size_t)len;
	return s;
}

/* ---- header */

static int
check_version(const struct qwen_gguf_shard *s, struct qwen_err *err)
{
	if (s->version != 0 && (s->version & 0xffff) == 0)
		return qwen_fail(err, QWEN_EUNSUP,
		    "wrong byte order (version reads as 0x%08x)", s->version);
	if (s->version == 1)
		return qwen_fail(err, QWEN_EUNSUP,
		    "GGUF version 1 is not supported; 2 and 3 are");
	if (s->version < 2 || s->version > 3)
		return qwen_fail(err, QWEN_EUNSUP,
		    "GGUF version %u is unknown; 2 and 3 are supported",
		    s->version);
	return 0;
}

/* Checks a count of the header: could that many records follow? */
static int
check_count(const struct parser *p, uint64_t n, size_t min, const char *what)
{
	if (n > qwen_cursor_left(&p->c) / min)
		return qwen_fail(p->err, QWEN_EFORMAT,
		    "header announces %" PRIu64 " %s, but the file has %zu "
		    "bytes: incomplete download?", n, what, p->c.len);
	if (n > GGUF_RECORDS_MAX)
		return qwen_fail(p->err, QWEN_EUNSUP,
		    "header announces %" PRIu64 " %s; at most %u are supported",
		    n, what, GGUF_RECORDS_MAX);
	return 0;
}

static int
read_header(struct parser *p, struct qwen_gguf_shard *s, uint64_t *n_tensors,
    uint64_t *n_kv)
{
	const unsigned char *magic = qwen_cursor_bytes(&p->c, 4);

	if (magic == NULL || memcmp(magic, GGUF_MAGIC, 4) != 0)
		return qwen_fail(p->err, QWEN_EFORMAT,
		    "not a GGUF file (no magic \"GGUF\" at 0)");
	s->version = qwen_cursor_u32(&p->c);
	if (!p->c.failed && check_version(s, p->err) < 0)
		return -1;
	*n_tensors = qwen_cursor_u64(&p->c);
	*n_kv = qwen_cursor_u64(&p->c);
	if (p->c.failed)
		return qwen_fail(p->err, QWEN_EFORMAT,
		    "header of %d bytes is truncated: the file has %zu bytes",
		    GGUF_HEADER_BYTES, p->c.len);
	if (check_count(p, *n_kv, KV_MIN, "keys") < 0 ||
	    check_count(p, *n_tensors, TENSOR_MIN, "tensors") < 0)
		return -1;
	return 0;
}

/* ---- metadata */

/*
 * Skips n strings and stores nothing: tools that need no vocabulary pass
 * 250,000 tokens and as many merges in a millisecond.
 */
static int
skip_strings(struct parser *p, uint64_t n)
{
	const unsigned char *q = p->c.p + p->c.pos, *end = p->c.p + p->c.len;
	uint64_t i, len;

	for (i = 0; i < n; i++) {
		len = end - q < 8 ? 0 : qwen_le64(q);
		if (end - q < 8 || len > (uint64_t)(end - q) - 8)
			return complain(p, QWEN_EFORMAT, "string %" PRIu64 " "
			    "of %" PRIu64 ": needs %" PRIu64 " bytes at %zu, "
			    "but the file has %zu bytes: incomplete "
			    "download?", i, n,
			    end - q < 8 ? (uint64_t)8 : len,
			    (size_t)(q - p->c.p) + (end - q < 8 ? 0 : 8),
			    p->c.len);
		q += 8 + len;
	}
	p->c.pos = (size_t)(q - p->c.p);
	return 0;
}

static int
read_array(struct parser *p, struct qwen_gguf_kv *kv)
{
	uint32_t elem = qwen_cursor_u32(&p->c);
	size_t size;

	kv->n = qwen_cursor_u64(&p->c);
	if (p->c.failed)
		return truncated(p);
	if (elem == QWEN_GGUF_ARRAY)
		return complain(p, QWEN_EUNSUP,
		    "arrays of arrays are not supported");
	if (elem >= QWEN_GGUF_N_TYPES)
		return complain(p, QWEN_EFORMAT,
		    "array of unknown type %u", elem);
	kv->elem = (enum qwen_gguf_type)elem;
	size = qwen_gguf_type_bytes(kv->elem);
	/* a string takes at least the bytes of its length */
	if (kv->n > qwen_cursor_left(&p->c) / (size != 0 ? size : 8))
		return complain(p, QWEN_EFORMAT, "array of %" PRIu64 " %s at "
		    "%zu does not fit: the file has %zu bytes: incomplete "
		    "download?",
		    kv->n, qwen_gguf_type_name(kv->elem), p->c.pos, p->c.len);
	if (size == 0)
		return skip_strings(p, kv->n);
	qwen_cursor_bytes(&p->c, kv->n * size);
	return 0;
}

static int
read_value(struct parser *p, struct qwen_gguf_kv *kv)
{
	uint32_t type = qwen_cursor_u32(&p->c);
	size_t at;

	if (p->c.failed)
		return truncated(p);
	if (type >= QWEN_GGUF_N_TYPES)
		return complain(p, QWEN_EFORMAT, "unknown value type %u", type);
	kv->type = kv->elem = (enum qwen_gguf_type)type;
	kv->n = 1;
	/* the data of an array begins after its own small header */
	at = p->c.pos + (type == QWEN_GGUF_ARRAY ? 4 + 8 : 0);
	if (type == QWEN_GGUF_ARRAY) {
		if (read_array(p, kv) < 0)
			return -1;
	} else if (type == QWEN_GGUF_STRING) {
		read_str(p);
	} else {
		qwen_cursor_bytes(&p->c, qwen_gguf_type_bytes(kv->type));
	}
	if (p->c.failed)
		return truncated(p);
	kv->data = p->c.p + at;
	kv->bytes = p->c.pos - at;
	return 0;
}

static int
read_key(struct parser *p, struct qwen_gguf_keys *keys)
{
	struct qwen_gguf_kv *kv;
	struct qwen_str key;

	if ((kv = qwen_push(&keys->v, &keys->cap, &keys->n, sizeof *kv,
	    p->err)) == NULL)
		return -1;
	kv->offset = p->c.pos;
	key = read_str(p);
	if (p->c.failed)
		return truncated(p);
	if (key.len == 0)
		return complain(p, QWEN_EFORMAT, "empty key");
	if (key.len > GGUF_KEY_MAX)
		return complain(p, QWEN_EFORMAT, "key of %zu bytes", key.len);
	p->what = "key";
	p->name = kv->key = key;
	return read_value(p, kv);
}

static int
cmp_keys(const void *a, const void *b)
{
	const struct qwen_str *x = &(*(struct qwen_gguf_kv *const *)a)->key;
	const struct qwen_str *y = &(*(struct qwen_gguf_kv *const *)b)->key;
	int r = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

	return r != 0 ? r : x->len < y->len ? -1 : x->len > y->len;
}

/*
 * Sorting finds duplicate names and serves look-ups; unlike a hash table it has
 * no worst case that a file could provoke.
 */
static int
index_keys(struct qwen_gguf_keys *keys, struct qwen_err *err)
{
	const struct qwen_gguf_kv *a, *b;
	size_t i;

	keys->by_key = qwen_alloc(keys->n, sizeof *keys->by_key);
	if (keys->by_key == NULL)
		return qwen_oom(err);
	for (i = 0; i < keys->n; i++)
		keys->by_key[i] = &keys->v[i];
	qsort(keys->by_key, keys->n, sizeof *keys->by_key, cmp_keys);
	for (i = 1; i < keys->n; i++) {
		a = keys->by_key[i - 1];
		b = keys->by_key[i];
		if (cmp_keys(&a, &b) == 0)
			return qwen_fail(err, QWEN_EFORMAT,
			    "key %.*s: duplicate, at %" PRIu64 " and %" PRIu64,
			    (int)(a->key.len < 64 ? a->key.len : 64),
			    a->key.s, a->offset < b->offset ? a->offset :
			    b->offset, a->offset < b->offset ? b->offset :
			    a->offset);
	}
	return 0;
}

const struct qwen_gguf_kv *
qwen_gguf_keys_find(const struct qwen_gguf_keys *keys, const char *key)
{
	struct qwen_gguf_kv want = { .key = { key, strlen(key) } };
	struct qwen_gguf_kv *p = &want, **found = keys->n == 0 ? NULL :
	    bsearch(&p, keys->by_key, keys->n, sizeof p, cmp_keys);

	return found != NULL ? *found : NULL;
}

void
qwen_gguf_keys_fini(struct qwen_gguf_keys *keys)
{
	free(keys->v);
	free(keys->by_key);
	memset(keys, 0, sizeof *keys);
}

static int
read_alignment(struct qwen_gguf_shard *s, const struct qwen_gguf_keys *keys,
    struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;
	uint32_t a;

	s->alignment = GGUF_ALIGN_DEFAULT;
	kv = qwen_gguf_keys_find(keys, "general.alignment");
	if (kv == NULL)
		return 0;
	if (kv->type != QWEN_GGUF_UINT32)
		return qwen_fail(err, QWEN_EFORMAT, "key general.alignment at %"
		    PRIu64 ": type is %s, must be UINT32", kv->offset,
		    qwen_gguf_type_name(kv->type));
	a = qwen_le32(kv->data);
	/* the format requires a multiple of 8, as do numbers in the mapping */
	if (a < 8 || a > GGUF_ALIGN_MAX || (a & (a - 1)) != 0)
		return qwen_fail(err, QWEN_EFORMAT, "key general.alignment at %"
		    PRIu64 ": %u is not a power of two from 8 to %u",
		    kv->offset, a, GGUF_ALIGN_MAX);
	s->alignment = a;
	return 0;
}

/* ---- tensor directory */

static int
check_name(const struct parser *p, const struct qwen_str *name)
{
	if (name->len == 0)
		return complain(p, QWEN_EFORMAT, "empty name");
	if (name->len > GGUF_NAME_MAX)
		return complain(p, QWEN_EFORMAT, "name of %zu bytes; at most "
		    "%d are allowed", name->len, GGUF_NAME_MAX);
	if (memchr(name->s, '\0', name->len) != NULL)
		return complain(p, QWEN_EFORMAT, "NUL in the name");
	return 0;
}

static int
read_shape(struct parser *p, struct qwen_gguf_tensor *t)
{
	unsigned i;

	t->n_dims = qwen_cursor_u32(&p->c);
	if (p->c.failed)
		return truncated(p);
	if (t->n_dims == 0 || t->n_dims > 4)
		return complain(p, QWEN_EFORMAT,
		    "%u dimensions, must be 1 to 4", t->n_dims);
	for (i = 0; i < 4; i++)
		t->ne[i] = i < t->n_dims ? qwen_cursor_u64(&p->c) : 1;
	if (p->c.failed)
		return truncated(p);
	for (i = 0; i < t->n_dims; i++) {
		if (t->ne[i] == 0 || t->ne[i] > INT64_MAX)
			return complain(p, QWEN_EFORMAT, "dimension %u is %"
			    PRIu64, i, t->ne[i]);
	}
	return 0;
}

static int
refuse_type(const struct parser *p, uint32_t type)
{
	const char *name = qwen_gguf_other_type(type);

	if (name == NULL)
		return complain(p, QWEN_EUNSUP, "unknown type %u", type);
	return complain(p, QWEN_EUNSUP, type < 64 ? "type %s (%u) was removed "
	    "from ggml: get a newer file of this model" : "type %s (%u) exists "
	    "only in ik_llama.cpp: get another file of this model", name, type);
}

/* Computes the size of the tensor from its type and shape. */
static int
size_tensor(const struct parser *p, struct qwen_gguf_tensor *t)
{
	size_t len = qwen_ggml_block_len(t->type);

	if (len == 0)
		return refuse_type(p, t->type);
	if (t->ne[0] % len != 0)
		return complain(p, QWEN_EFORMAT, "row of %" PRIu64 " elements "
		    "is not a multiple of %zu, the block length of %s",
		    t->ne[0], len, qwen_ggml_name(t->type));
	if (qwen_gguf_tensor_bytes(t->type, t->ne, &t->bytes) < 0)
		return complain(p, QWEN_EFORMAT, "shape %" PRIu64 "x%" PRIu64
		    "x%" PRIu64 "x%" PRIu64 " overflows", t->ne[0], t->ne[1],
		    t->ne[2], t->ne[3]);
	return 0;
}

static int
read_tensor(struct parser *p, struct qwen_gguf_dir *dir, unsigned no)
{
	struct qwen_gguf_entry *e;
	struct qwen_str name;

	if ((e = qwen_push(&dir->v, &dir->cap, &dir->n, sizeof *e,
	    p->err)) == NULL)
		return -1;
	e->record = p->c.pos;
	name = read_str(p);
	if (p->c.failed)
		return truncated(p);
	if (check_name(p, &name) < 0)
		return -1;
	memcpy(e->name, name.s, name.len);
	p->what = "tensor";
	p->name = name;
	e->t.shard = no;
	if (read_shape(p, &e->t) < 0)
		return -1;
	e->t.type = qwen_cursor_u32(&p->c);
	e->t.offset = qwen_cursor_u64(&p->c);	/* relative, until place_tensor() */
	if (p->c.failed)
		return truncated(p);
	return size_tensor(p, &e->t);
}

/*
 * Turns the relative offset into an absolute one and a pointer; sets *end to
 * the end of the data.
 */
static int
place_tensor(struct qwen_gguf_shard *s, struct qwen_gguf_entry *e,
    uint64_t *end,
    struct qwen_err *err)
{
	uint64_t begin;

	if (e->t.offset % s->alignment != 0)
		return qwen_fail(err, QWEN_EFORMAT, "tensor %s at %" PRIu64
		    ": offset %" PRIu64 " is not a multiple of the alignment"
		    " %" PRIu64, e->name, e->record, e->t.offset, s->alignment);
	if (__builtin_add_overflow(s->data_offset, e->t.offset, &begin) ||
	    __builtin_add_overflow(begin, e->t.bytes, end))
		return qwen_fail(err, QWEN_EFORMAT, "tensor %s at %" PRIu64
		    ": offset %" PRIu64 " overflows", e->name, e->record,
		    e->t.offset);
	e->t.offset = begin;
	if (*end <= s->bytes)
		e->t.data = s->map + begin;
	return 0;
}

/*
 * A fork used ggml's number for Q2_0 (blocks of 64 weights) for blocks of 128,
 * which take 17 of 18 bytes.  The position of the next tensor, or of the end of
 * the file, reveals it.
 */
static int
check_q2_0(const struct qwen_gguf_shard *s, const struct qwen_gguf_dir *dir,
    size_t first, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	uint64_t bytes, room, pad = s->alignment - 1;
	size_t i;

	for (i = first; i < dir->n; i++) {
		t = &dir->v[i].t;
		if (t->type != 42 || s->bytes < s->data_offset)
			continue;
		bytes = t->bytes / 18 * 17;
		room = i + 1 < dir->n ? dir->v[i + 1].t.offset :
		    s->bytes - s->data_offset;
		if (t->offset > room)
			continue;
		room -= t->offset;
		if (room >= bytes && room - bytes <= pad && room < t->bytes)
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s: type 42 "
			    "is Q2_0 with blocks of 64 weights, but this file "
			    "has blocks of 128, as a fork of ggml wrote them: "
			    "get another file of this model", dir->v[i].name);
	}
	return 0;
}

/*
 * Places all tensors that were read, and checks that the file has their data.
 */
static int
place_all(struct qwen_gguf_shard *s, struct qwen_gguf_dir *dir, size_t first,
    struct qwen_err *err)
{
	const struct qwen_gguf_entry *last = NULL;
	uint64_t end = 0, most = 0, unit;
	size_t i;

	if (check_q2_0(s, dir, first, err) < 0)
		return -1;
	for (i = first; i < dir->n; i++) {
		if (place_tensor(s, &dir->v[i], &end, err) < 0)
			return -1;
		if (end > most) {
			most = end;
			last = &dir->v[i];
		}
	}
	if (last == NULL || most <= s->bytes)
		return 0;
	unit = most < 1000000000 ? 1000000 : 1000000000;
	return qwen_fail(err, QWEN_EFORMAT, "the file ends at %.1f of %.1f %s: "
	    "incomplete download? (tensor %s ends at %" PRIu64 ", the file has "
	    "%zu bytes)", (double)s->bytes / (double)unit,
	    (double)most / (double)unit, unit == 1000000 ? "MB" : "GB",
	    last->name, most, s->bytes);
}

static int
cmp_places(const void *a, const void *b)
{
	const struct qwen_gguf_tensor *x =
	    &(*(struct qwen_gguf_entry *const *)a)->t;
	const struct qwen_gguf_tensor *y =
	    &(*(struct qwen_gguf_entry *const *)b)->t;

	if (x->shard != y->shard)
		return x->shard < y->shard ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int
cmp_names(const void *a, const void *b)
{
	const struct qwen_gguf_entry *x = *(struct qwen_gguf_entry *const *)a;
	const struct qwen_gguf_entry *y = *(struct qwen_gguf_entry *const *)b;

	return strcmp(x->name, y->name);
}

int
qwen_gguf_index(struct qwen_gguf_dir *dir, struct qwen_err *err)
{
	struct qwen_gguf_entry **by = qwen_alloc(dir->n, sizeof *by), *a, *b;
	size_t i;

	if ((dir->by_name = by) == NULL)
		return qwen_oom(err);
	for (i = 0; i < dir->n; i++) {
		by[i] = &dir->v[i];
		by[i]->t.name = by[i]->name;
	}
	qsort(by, dir->n, sizeof *by, cmp_places);
	for (i = 1; i < dir->n; i++) {
		a = by[i - 1];
		b = by[i];
		if (a->t.shard == b->t.shard &&
		    a->t.offset + a->t.bytes > b->t.offset)
			return qwen_fail(err, QWEN_EFORMAT, "tensors %s and %s"
			    " overlap at %" PRIu64, a->name, b->name,
			    b->t.offset);
	}
	qsort(by, dir->n, sizeof *by, cmp_names);
	for (i = 1; i < dir->n; i++) {
		a = by[i - 1];
		b = by[i];
		if (strcmp(a->name, b->name) == 0)
			return qwen_fail(err, QWEN_EFORMAT, "tensor %s:"
			    " duplicate, at %" PRIu64 " (part %u) and %" PRIu64
			    " (part %u)", a->name, a->record, a->t.shard + 1,
			    b->record, b->t.shard + 1);
	}
	return 0;
}

int
qwen_gguf_parse(struct qwen_gguf_shard *s, unsigned no,
    struct qwen_gguf_keys *keys, struct qwen_gguf_dir *dir,
    struct qwen_err *err)
{
	struct parser p = { .err = err };
	uint64_t n_tensors = 0, n_kv = 0, i;
	size_t first = dir->n;

	qwen_cursor_init(&p.c, s->map, s->bytes);
	if (read_header(&p, s, &n_tensors, &n_kv) < 0)
		return -1;
	for (i = 0; i < n_kv; i++) {
		begin_record(&p, "metadata record", i);
		if (read_key(&p, keys) < 0)
			return -1;
	}
	if (index_keys(keys, err) < 0 || read_alignment(s, keys, err) < 0)
		return -1;
	for (i = 0; i < n_tensors; i++) {
		begin_record(&p, "tensor record", i);
		if (read_tensor(&p, dir, no) < 0)
			return -1;
	}
	/*
	 * cannot wrap: the directory ends within the file and alignment is
	 * small
	 */
	s->data_offset = ((uint64_t)p.c.pos + s->alignment - 1) &
	    ~(s->alignment - 1);
	return place_all(s, dir, first, err);
}
