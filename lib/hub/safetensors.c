/* SPDX-License-Identifier: ISC */
/*
 * safetensors.c - reads the header of a safetensors file: the length of a JSON
 * text; the text, with type, shape and offsets of each tensor; then the data
 * (https://github.com/huggingface/safetensors, "Format").
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "hub/json.h"
#include "hub/safetensors.h"
#include "text/json/json.h"

enum { PREFIX = 8, HEADER_MAX = 100000000, TENSORS_MAX = 1 << 20 };

struct qwen_st_file {
	const unsigned char	*map;
	size_t			 bytes;
	int			 mapped;	/* we must unmap it */
	yyjson_doc		*doc;		/* owns the tensors' names */
};

static const struct {
	const char	*name;
	size_t		 bytes;
} types[ST_N_TYPES] = {
	[ST_F64] = { "F64", 8 }, [ST_F32] = { "F32", 4 },
	[ST_F16] = { "F16", 2 }, [ST_BF16] = { "BF16", 2 },
	[ST_F8_E4M3] = { "F8_E4M3", 1 }, [ST_F8_E5M2] = { "F8_E5M2", 1 },
	[ST_F8_E8M0] = { "F8_E8M0", 1 },
	[ST_U8] = { "U8", 1 }, [ST_I8] = { "I8", 1 }, [ST_BOOL] = { "BOOL", 1 },
	[ST_U16] = { "U16", 2 }, [ST_I16] = { "I16", 2 },
	[ST_U32] = { "U32", 4 }, [ST_I32] = { "I32", 4 },
	[ST_U64] = { "U64", 8 }, [ST_I64] = { "I64", 8 },
};

const char *
qwen_st_type_name(enum qwen_st_type type)
{
	return types[type].name;
}

size_t
qwen_st_type_bytes(enum qwen_st_type type)
{
	return types[type].bytes;
}

/* ------------------------------------------------------------ one tensor */

static int
read_type(struct qwen_st_tensor *t, yyjson_val *v, struct qwen_err *err)
{
	const char *s = yyjson_get_str(v);
	int i;

	if (s == NULL)
		return qwen_fail(err, QWEN_EFORMAT, "dtype is missing");
	for (i = 0; i < ST_N_TYPES; i++) {
		if (strcmp(s, types[i].name) == 0) {
			t->type = (enum qwen_st_type)i;
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP, "unknown number type %.20s", s);
}

static int
read_shape(struct qwen_st_tensor *t, yyjson_val *v, struct qwen_err *err)
{
	size_t i;

	if (!yyjson_is_arr(v) || yyjson_arr_size(v) > ST_DIMS_MAX)
		return qwen_fail(err, QWEN_EFORMAT, "the shape is not a list "
		    "of at most %d numbers", ST_DIMS_MAX);
	t->n_dims = (unsigned)yyjson_arr_size(v);
	t->n = 1;
	for (i = 0; i < t->n_dims; i++) {
		if (qwen_hub_u64(yyjson_arr_get(v, i), &t->shape[i]) < 0 ||
		    __builtin_mul_overflow(t->n, t->shape[i], &t->n) ||
		    t->n > SIZE_MAX / 8)
			return qwen_fail(err, QWEN_EFORMAT,
			    "invalid shape");
	}
	return 0;
}

/* Reads the offsets of the tensor's data in the room bytes after the header. */
static int
read_place(struct qwen_st_tensor *t, yyjson_val *v,
    const unsigned char *data, size_t room, struct qwen_err *err)
{
	uint64_t from, to;

	if (yyjson_arr_size(v) != 2 ||
	    qwen_hub_u64(yyjson_arr_get(v, 0), &from) < 0 ||
	    qwen_hub_u64(yyjson_arr_get(v, 1), &to) < 0 || from > to)
		return qwen_fail(err, QWEN_EFORMAT, "data_offsets is missing");
	if (to > room)
		return qwen_fail(err, QWEN_EFORMAT, "its data ends at %"
		    PRIu64 ", but the file has %zu bytes of data: incomplete "
		    "download?", to, room);
	if (to - from != t->n * types[t->type].bytes)
		return qwen_fail(err, QWEN_EFORMAT, "%" PRIu64 " bytes of "
		    "data, but its shape and type %s need %" PRIu64 "", to -
		    from, types[t->type].name, t->n * types[t->type].bytes);
	t->data = data + from;
	t->bytes = (size_t)(to - from);
	return 0;
}

static int
check_name(yyjson_val *key, struct qwen_err *err)
{
	const char *s = yyjson_get_str(key);
	size_t i, n = yyjson_get_len(key);

	if (n == 0 || n > ST_NAME_MAX)
		return qwen_fail(err, QWEN_EFORMAT, "a tensor with a name of "
		    "%zu bytes", n);
	for (i = 0; i < n; i++) {
		if ((unsigned char)s[i] <= ' ' || (unsigned char)s[i] >= 127)
			return qwen_fail(err, QWEN_EFORMAT, "a tensor name "
			    "that is not plain text: %.60s", s);
	}
	return 0;
}

/* Adds a tensor of the last file. */
static int
add_tensor(struct qwen_st *st, yyjson_val *key, yyjson_val *v,
    const unsigned char *data, size_t room, struct qwen_err *err)
{
	struct qwen_st_tensor *t;

	if (check_name(key, err) < 0)
		return -1;
	if (st->n == TENSORS_MAX)
		return qwen_fail(err, QWEN_EFORMAT, "too many tensors");
	if ((t = qwen_push(&st->v, &st->cap, &st->n, sizeof *t, err)) == NULL)
		return -1;
	t->name = yyjson_get_str(key);
	t->mapped = st->file[st->n_files - 1].mapped;
	if (read_type(t, yyjson_obj_get(v, "dtype"), err) < 0 ||
	    read_shape(t, yyjson_obj_get(v, "shape"), err) < 0 ||
	    read_place(t, yyjson_obj_get(v, "data_offsets"), data, room,
	    err) < 0)
		return qwen_fail_in(err, "tensor %.100s", t->name);
	return 0;
}

/* --------------------------------------------------------------- one file */

static int
by_place(const void *a, const void *b)
{
	const struct qwen_st_tensor *x = a, *y = b;

	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int
by_name(const void *a, const void *b)
{
	const struct qwen_st_tensor *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Checks that n tensors fill room bytes of data without gap or overlap. */
static int
check_places(struct qwen_st_tensor *t, size_t n, const unsigned char *data,
    size_t room, struct qwen_err *err)
{
	const unsigned char *at = data;
	size_t i;

	qsort(t, n, sizeof *t, by_place);
	for (i = 0; i < n; i++) {
		if (t[i].data < at)
			return qwen_fail(err, QWEN_EFORMAT, "tensors %.100s "
			    "and %.100s overlap", t[i - 1].name, t[i].name);
		if (t[i].data > at)
			return qwen_fail(err, QWEN_EFORMAT, "%td unused bytes "
			    "before tensor %.100s", t[i].data - at, t[i].name);
		at += t[i].bytes;
	}
	if (at != data + room)
		return qwen_fail(err, QWEN_EFORMAT, "%td unused bytes at the "
		    "end", data + room - at);
	qsort(t, n, sizeof *t, by_name);
	return 0;
}

static int
parse(struct qwen_st *st, struct qwen_st_file *f, struct qwen_err *err)
{
	yyjson_val *root, *key, *v;
	size_t room, first = st->n, i, n;
	uint64_t head;

	if (f->bytes < PREFIX)
		return qwen_fail(err, QWEN_EFORMAT, "not a safetensors file: "
		    "%zu bytes", f->bytes);
	head = qwen_le64(f->map);
	if (head > HEADER_MAX || head > f->bytes - PREFIX)
		return qwen_fail(err, QWEN_EFORMAT, "not a safetensors file, "
		    "or truncated: the header needs %" PRIu64 " of %zu bytes",
		    head, f->bytes);
	room = f->bytes - PREFIX - (size_t)head;
	f->doc = qwen_json_open((const char *)f->map + PREFIX, (size_t)head,
	    err);
	if (f->doc == NULL)
		return qwen_fail_in(err, "header");
	root = yyjson_doc_get_root(f->doc);
	if (!yyjson_is_obj(root))
		return qwen_fail(err, QWEN_EFORMAT, "not a JSON object");
	yyjson_obj_foreach(root, i, n, key, v) {
		if (strcmp(yyjson_get_str(key), "__metadata__") != 0 &&
		    add_tensor(st, key, v, f->map + PREFIX + head, room,
		    err) < 0)
			return -1;
	}
	if (st->n == first)
		return room == 0 ? 0 : qwen_fail(err, QWEN_EFORMAT,
		    "the file has data, but no tensor");
	return check_places(st->v + first, st->n - first,
	    f->map + PREFIX + head, room, err);
}

int
qwen_st_add(struct qwen_st *st, const char *path, struct qwen_err *err)
{
	struct qwen_st_file *f = qwen_push(&st->file, &st->cap_files,
	    &st->n_files, sizeof *f, err);
	const void *map;

	if (f == NULL || qwen_map_file(&map, &f->bytes, path, err) < 0)
		return -1;
	f->map = map;
	f->mapped = 1;
	return parse(st, f, err);
}

int
qwen_st_add_memory(struct qwen_st *st, const void *buf, size_t n,
    struct qwen_err *err)
{
	struct qwen_st_file *f = qwen_push(&st->file, &st->cap_files,
	    &st->n_files, sizeof *f, err);

	if (f == NULL)
		return -1;
	f->map = buf;
	f->bytes = n;
	return parse(st, f, err);
}

void
qwen_st_fini(struct qwen_st *st)
{
	size_t i;

	for (i = 0; i < st->n_files; i++) {
		yyjson_doc_free(st->file[i].doc);
		if (st->file[i].mapped)
			qwen_unmap_file(st->file[i].map, st->file[i].bytes);
	}
	free(st->file);
	free(st->v);
	memset(st, 0, sizeof *st);
}

void
qwen_st_done(const struct qwen_st_tensor *t)
{
	if (t->mapped)
		qwen_give_back((void *)(uintptr_t)t->data, t->bytes);
}
