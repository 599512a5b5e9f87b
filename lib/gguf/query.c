/* SPDX-License-Identifier: ISC */
/* query.c - look up metadata and tensors of an open GGUF file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "gguf/gguf.h"

enum kind { UNSIGNED = 1, SIGNED = 2, REAL = 4, LOGICAL = 8 };

static const struct {
	const char	*name;
	size_t		 bytes;
	enum kind	 kind;		/* 0: not a number */
} types[QWEN_GGUF_N_TYPES] = {
	[QWEN_GGUF_UINT8] = { "UINT8", 1, UNSIGNED },
	[QWEN_GGUF_INT8] = { "INT8", 1, SIGNED },
	[QWEN_GGUF_UINT16] = { "UINT16", 2, UNSIGNED },
	[QWEN_GGUF_INT16] = { "INT16", 2, SIGNED },
	[QWEN_GGUF_UINT32] = { "UINT32", 4, UNSIGNED },
	[QWEN_GGUF_INT32] = { "INT32", 4, SIGNED },
	[QWEN_GGUF_FLOAT32] = { "FLOAT32", 4, REAL },
	[QWEN_GGUF_BOOL] = { "BOOL", 1, LOGICAL },
	[QWEN_GGUF_STRING] = { "STRING", 0, 0 },
	[QWEN_GGUF_ARRAY] = { "ARRAY", 0, 0 },
	[QWEN_GGUF_UINT64] = { "UINT64", 8, UNSIGNED },
	[QWEN_GGUF_INT64] = { "INT64", 8, SIGNED },
	[QWEN_GGUF_FLOAT64] = { "FLOAT64", 8, REAL },
};

const char *
qwen_gguf_type_name(enum qwen_gguf_type type)
{
	return (unsigned)type < QWEN_GGUF_N_TYPES ? types[type].name : NULL;
}

size_t
qwen_gguf_type_bytes(enum qwen_gguf_type type)
{
	return (unsigned)type < QWEN_GGUF_N_TYPES ? types[type].bytes : 0;
}

/* ---- metadata */

size_t
qwen_gguf_n_kv(const struct qwen_gguf *g)
{
	return g->keys.n;
}

const struct qwen_gguf_kv *
qwen_gguf_kv(const struct qwen_gguf *g, size_t i)
{
	return i < g->keys.n ? &g->keys.v[i] : NULL;
}

const struct qwen_gguf_kv *
qwen_gguf_find(const struct qwen_gguf *g, const char *key)
{
	return qwen_gguf_keys_find(&g->keys, key);
}

struct qwen_gguf_key
qwen_gguf_arch_key(const struct qwen_gguf *g, const char *name)
{
	struct qwen_gguf_key key;
	struct qwen_str arch = { "", 0 };

	qwen_gguf_get_str(g, "general.architecture", &arch, NULL);
	snprintf(key.s, sizeof key.s, "%.*s.%s",
	    (int)(arch.len < 60 ? arch.len : 60), arch.s, name);
	return key;
}

/* Loads element i of a numeric record as raw bits. */
static uint64_t
load(const struct qwen_gguf_kv *kv, size_t i)
{
	size_t n = types[kv->elem].bytes;
	const unsigned char *p = kv->data + i * n;
	uint64_t u = 0;

	while (n-- > 0)
		u = u << 8 | p[n];
	return u;
}

/*
 * Loads element i of a record of integers or BOOL; *neg is 1 if the result is a
 * negative int64_t.
 */
static uint64_t
load_int(const struct qwen_gguf_kv *kv, size_t i, int *neg)
{
	unsigned unused = 64 - 8 * (unsigned)types[kv->elem].bytes;
	uint64_t u = load(kv, i);

	*neg = types[kv->elem].kind == SIGNED && u << unused >> 63 != 0;
	if (*neg && unused > 0)
		u |= UINT64_MAX << (64 - unused);
	return types[kv->elem].kind == LOGICAL ? u != 0 : u;
}

/* "UINT32", or "ARRAY of UINT32". */
static int
wrong_type(const struct qwen_gguf_kv *kv, const char *key, const char *want,
    struct qwen_err *err)
{
	return qwen_fail(err, QWEN_EFORMAT, "key %s at %" PRIu64 ": type is "
	    "%s%s, must be %s", key, kv->offset,
	    kv->type == QWEN_GGUF_ARRAY ? "ARRAY of " : "",
	    types[kv->elem].name, want);
}

/*
 * Finds the record if it has an element i of one of these kinds, called want;
 * returns 1, 0 or -1 as the typed reads do.
 */
static int
element(const struct qwen_gguf_keys *keys, const char *key, size_t i,
    unsigned kinds, const char *want, const struct qwen_gguf_kv **out,
    struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_keys_find(keys, key);

	if (kv == NULL)
		return 0;
	if (i >= kv->n)
		return qwen_fail(err, QWEN_ERANGE, "key %s at %" PRIu64 ": no "
		    "element %zu, there are %" PRIu64 "", key, kv->offset, i,
		    kv->n);
	if ((types[kv->elem].kind & kinds) == 0)
		return wrong_type(kv, key, want, err);
	*out = kv;
	return 1;
}

int
qwen_gguf_keys_u64(const struct qwen_gguf_keys *keys, const char *key,
    size_t i, uint64_t *out, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = NULL;
	uint64_t u;
	int neg, r = element(keys, key, i, UNSIGNED | SIGNED, "an integer", &kv,
	    err);

	if (r <= 0)
		return r;
	u = load_int(kv, i, &neg);
	if (neg)
		return qwen_fail(err, QWEN_ERANGE, "key %s at %" PRIu64
		    ": %" PRId64 " is negative", key, kv->offset, (int64_t)u);
	*out = u;
	return 1;
}

int
qwen_gguf_get_u64(const struct qwen_gguf *g, const char *key, size_t i,
    uint64_t *out, struct qwen_err *err)
{
	return qwen_gguf_keys_u64(&g->keys, key, i, out, err);
}

int
qwen_gguf_get_f64(const struct qwen_gguf *g, const char *key, size_t i,
    double *out, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = NULL;
	uint64_t u;
	int neg, r = element(&g->keys, key, i, UNSIGNED | SIGNED | REAL, "a "
	    "number", &kv, err);

	if (r <= 0)
		return r;
	u = load_int(kv, i, &neg);
	if (kv->elem == QWEN_GGUF_FLOAT32)
		*out = (double)qwen_bits_f32((uint32_t)u);
	else if (kv->elem == QWEN_GGUF_FLOAT64)
		memcpy(out, &u, sizeof *out);
	else
		*out = neg ? (double)(int64_t)u : (double)u;
	return 1;
}

int
qwen_gguf_get_bool(const struct qwen_gguf *g, const char *key, size_t i,
    int *out, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = NULL;
	uint64_t u;
	/* some programs write flags as integers */
	int neg, r = element(&g->keys, key, i, UNSIGNED | SIGNED | LOGICAL, "a "
	    "BOOL", &kv, err);

	if (r <= 0)
		return r;
	if ((u = load_int(kv, i, &neg)) > 1)
		return qwen_fail(err, QWEN_ERANGE, "key %s at %" PRIu64
		    ": neither 0 nor 1", key, kv->offset);
	*out = (int)u;
	return 1;
}

int
qwen_gguf_get_str(const struct qwen_gguf *g, const char *key,
    struct qwen_str *out, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, key);

	if (kv == NULL)
		return 0;
	if (kv->type != QWEN_GGUF_STRING)
		return wrong_type(kv, key, "a STRING", err);
	out->s = (const char *)kv->data + 8;
	out->len = kv->bytes - 8;
	return 1;
}

int
qwen_gguf_next_str(const struct qwen_gguf_kv *kv, size_t *pos,
    struct qwen_str *out)
{
	if (kv->elem != QWEN_GGUF_STRING || *pos >= kv->bytes)
		return 0;
	out->len = (size_t)qwen_le64(kv->data + *pos);
	out->s = (const char *)kv->data + *pos + 8;
	*pos += 8 + out->len;
	return 1;
}

/* ---- tensors */

size_t
qwen_gguf_n_tensors(const struct qwen_gguf *g)
{
	return g->dir.n;
}

const struct qwen_gguf_tensor *
qwen_gguf_tensor(const struct qwen_gguf *g, size_t i)
{
	return i < g->dir.n ? &g->dir.v[i].t : NULL;
}

static int
cmp_name(const void *name, const void *elem)
{
	return strcmp(name, (*(struct qwen_gguf_entry *const *)elem)->name);
}

const struct qwen_gguf_tensor *
qwen_gguf_find_tensor(const struct qwen_gguf *g, const char *name)
{
	struct qwen_gguf_entry **found = g->dir.n == 0 ? NULL : bsearch(name,
	    g->dir.by_name, g->dir.n, sizeof *found, cmp_name);

	return found != NULL ? &(*found)->t : NULL;
}

const unsigned char *
qwen_gguf_data(const struct qwen_gguf_tensor *t, uint64_t at, uint64_t *n)
{
	uint64_t size;

	if (t->part == NULL) {
		*n = t->bytes - at;
		return (const unsigned char *)t->data + at;
	}
	size = t->bytes / t->ne[2];
	*n = size - at % size;
	return (const unsigned char *)t->part[at / size] + at % size;
}

/* ---- files */

unsigned
qwen_gguf_version(const struct qwen_gguf *g)
{
	return g->shard[0].version;
}

unsigned
qwen_gguf_n_shards(const struct qwen_gguf *g)
{
	return g->n_shards;
}

const char *
qwen_gguf_path(const struct qwen_gguf *g, unsigned shard)
{
	return shard < g->n_shards ? g->shard[shard].path : NULL;
}

uint64_t
qwen_gguf_file_bytes(const struct qwen_gguf *g, unsigned shard)
{
	return shard < g->n_shards ? g->shard[shard].bytes : 0;
}

uint64_t
qwen_gguf_data_offset(const struct qwen_gguf *g, unsigned shard)
{
	return shard < g->n_shards ? g->shard[shard].data_offset : 0;
}
