/* SPDX-License-Identifier: ISC */
/* open.c - map a GGUF file, or all parts of a split one, and index it. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/what.h"
#include "gguf/gguf.h"
#include "gguf/write.h"

/* "-00001-of-00003.gguf" */
#define SUFFIX_LEN 20
#define SHARDS_MAX 99999		/* five digits */

/* Advice for files that users often give in place of a model. */
static const char *
advice(enum qwen_what what)
{
	switch (what) {
	case QWEN_IS_EMPTY:
	case QWEN_IS_ZEROS:
		return ": the download failed, get it again";
	case QWEN_IS_LFS:
		return ": \"git lfs pull\" gets the model itself, or curl -L -O "
		    "with its address";
	case QWEN_IS_HTML:
	case QWEN_IS_JSON:
		return ": download the file itself; on huggingface.co its "
		    "address has /resolve/, not /blob/";
	case QWEN_IS_STREAM:
		return ", which goes to stdin or -s";
	case QWEN_IS_ZIP:
	case QWEN_IS_PACKED:
		return ": unpack it first";
	case QWEN_IS_TENSORS:
		return ": gguf-convert makes GGUF of its folder";
	default:
		return "";
	}
}

/* Maps the file; refuses other types of files, and names the type. */
static int
map_file(struct qwen_gguf_shard *s, struct qwen_err *err)
{
	enum qwen_what what;
	struct stat st;
	const void *p;

	if (stat(s->path, &st) == 0 && S_ISDIR(st.st_mode))
		return qwen_fail(err, QWEN_EIO, "a folder, not a file: give "
		    "the GGUF file in it");
	if (qwen_map_file(&p, &s->bytes, s->path, err) < 0)
		return -1;
	s->map = p;
	s->mapped = 1;
	what = qwen_what(p, s->bytes < 512 ? s->bytes : 512);
	if (what != QWEN_IS_GGUF && what != QWEN_IS_OTHER)
		return qwen_fail(err, QWEN_EFORMAT, "not a GGUF file but %s%s "
		    "(%zu bytes)", qwen_what_name(what), advice(what),
		    s->bytes);
	if (s->bytes < GGUF_HEADER_BYTES)
		return qwen_fail(err, QWEN_EFORMAT, "not a GGUF file: %zu "
		    "bytes, but the header alone takes %d", s->bytes,
		    GGUF_HEADER_BYTES);
	return 0;
}

static int
add_shard(struct qwen_gguf *g, const char *path)
{
	struct qwen_gguf_shard *v;

	if (qwen_grow(&g->shard, &g->cap_shards, g->n_shards + 1,
	    sizeof *v) < 0)
		return -1;
	v = &g->shard[g->n_shards];
	memset(v, 0, sizeof *v);
	if ((v->path = strdup(path)) == NULL)
		return -1;
	g->n_shards++;
	return 0;
}

/* The split keys; count is 1 for a file that is not split. */
struct split {
	uint64_t	no, count, tensors;
	int		has_tensors;
};

static int
read_split(const struct qwen_gguf_keys *keys, struct split *sp,
    struct qwen_err *err)
{
	int no, count, n;

	sp->no = 0;
	sp->count = 1;
	sp->tensors = 0;
	no = qwen_gguf_keys_u64(keys, "split.no", 0, &sp->no, err);
	count = qwen_gguf_keys_u64(keys, "split.count", 0, &sp->count, err);
	n = qwen_gguf_keys_u64(keys, "split.tensors.count", 0, &sp->tensors,
	    err);
	if (no < 0 || count < 0 || n < 0)
		return -1;
	sp->has_tensors = n;
	if (count == 0 || (sp->count == 0 && sp->no == 0)) {
		sp->count = 1;		/* not split */
		sp->has_tensors = 0;
	}
	if (sp->count > SHARDS_MAX || sp->no >= sp->count)
		return qwen_fail(err, QWEN_EFORMAT, "split.no %" PRIu64 " and "
		    "split.count %" PRIu64 " contradict each other", sp->no,
		    sp->count);
	return 0;
}

/* Returns the name of part no, made from that of the first part. */
static char *
part_path(const char *first, uint64_t no, uint64_t count)
{
	size_t len = strlen(first);
	char *s = malloc(len + 1);

	if (s != NULL) {
		memcpy(s, first, len - SUFFIX_LEN);
		snprintf(s + len - SUFFIX_LEN, SUFFIX_LEN + 1,
		    "-%05u-of-%05u.gguf", (unsigned)no + 1, (unsigned)count);
	}
	return s;
}

/* Checks that the first file is part 1 and has the matching name. */
static int
check_first(const char *path, const struct split *sp, struct qwen_err *err)
{
	char want[SUFFIX_LEN + 1];
	size_t len = strlen(path);

	if (sp->no != 0)
		return qwen_fail(err, QWEN_EFORMAT, "this is part %" PRIu64 " "
		    "of %" PRIu64 "; open part 1", sp->no + 1, sp->count);
	snprintf(want, sizeof want, "-%05u-of-%05u.gguf", 1,
	    (unsigned)sp->count);
	if (len < SUFFIX_LEN || strcmp(path + len - SUFFIX_LEN, want) != 0)
		return qwen_fail(err, QWEN_EFORMAT, "part 1 of %" PRIu64 " "
		    "must have a name ending in %s", sp->count, want);
	return 0;
}

static int
check_part(const struct qwen_gguf_keys *keys, const struct split *first,
    uint64_t no, struct qwen_err *err)
{
	struct split sp;

	if (read_split(keys, &sp, err) < 0)
		return -1;
	if (sp.no != no || sp.count != first->count)
		return qwen_fail(err, QWEN_EFORMAT, "its keys say part %"
		    PRIu64 " of %" PRIu64 ", its name part %" PRIu64 " of %"
		    PRIu64 "", sp.no + 1, sp.count, no + 1, first->count);
	if (sp.has_tensors && first->has_tensors &&
	    sp.tensors != first->tensors)
		return qwen_fail(err, QWEN_EFORMAT, "split.tensors.count is %"
		    PRIu64 ", but %" PRIu64 " in part 1", sp.tensors,
		    first->tensors);
	return 0;
}

static int
open_part(struct qwen_gguf *g, const struct split *sp, unsigned no,
    struct qwen_err *err)
{
	struct qwen_gguf_keys keys = { 0 };
	char *path = part_path(g->shard[0].path, no, sp->count);
	int rc = -1;

	if (path == NULL || add_shard(g, path) < 0)
		qwen_oom(err);
	else if (map_file(&g->shard[no], err) < 0)
		qwen_fail_in(err, "part %u of %u cannot be opened: %s", no + 1,
		    (unsigned)sp->count, qwen_base_name(path));
	else if (qwen_gguf_parse(&g->shard[no], no, &keys, &g->dir, err) < 0 ||
	    check_part(&keys, sp, no, err) < 0)
		qwen_fail_in(err, "%s", qwen_base_name(path));
	else
		rc = 0;
	qwen_gguf_keys_fini(&keys);
	free(path);
	return rc;
}

static int
open_rest(struct qwen_gguf *g, struct qwen_err *err)
{
	struct split sp;
	unsigned no;

	if (read_split(&g->keys, &sp, err) < 0)
		return -1;
	if (sp.count > 1) {
		if (check_first(g->shard[0].path, &sp, err) < 0)
			return -1;
		for (no = 1; no < sp.count; no++) {
			if (open_part(g, &sp, no, err) < 0)
				return -1;
		}
	}
	if (sp.has_tensors && sp.tensors != g->dir.n)
		return qwen_fail(err, QWEN_EFORMAT, "split.tensors.count is %"
		    PRIu64 ", but the parts have %zu tensors", sp.tensors,
		    g->dir.n);
	return qwen_gguf_index(&g->dir, err);
}

/* Opens the file path, or if path is NULL the len bytes at buf. */
static int
open_first(struct qwen_gguf **out, const char *path, const void *buf,
    size_t len, struct qwen_err *err)
{
	struct qwen_gguf *g;

	*out = NULL;
	if ((g = calloc(1, sizeof *g)) == NULL ||
	    add_shard(g, path != NULL ? path : "") < 0) {
		qwen_oom(err);
		goto fail;
	}
	g->shard[0].map = buf;
	g->shard[0].bytes = len;
	if ((path != NULL && map_file(&g->shard[0], err) < 0) ||
	    qwen_gguf_parse(&g->shard[0], 0, &g->keys, &g->dir, err) < 0 ||
	    open_rest(g, err) < 0)
		goto fail;
	*out = g;
	return 0;
fail:
	qwen_gguf_close(g);
	return -1;
}

int
qwen_gguf_open(struct qwen_gguf **out, const char *path, struct qwen_err *err)
{
	return open_first(out, path, NULL, 0, err);
}

int
qwen_gguf_open_memory(struct qwen_gguf **out, const void *buf, size_t len,
    struct qwen_err *err)
{
	return open_first(out, NULL, buf, len, err);
}

/* Makes the pages of n bytes at `at' writable. */
static int
make_room(void *at, size_t n, struct qwen_err *err)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from, to;

	from = (uintptr_t)at / page * page;
	to = ((uintptr_t)at + n + page - 1) / page * page;
	if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE) < 0)
		return qwen_oom(err);
	return 0;
}

int
qwen_gguf_open_head(struct qwen_gguf **out, const char *path,
    struct qwen_gguf_writer *w, struct qwen_err *err)
{
	struct qwen_gguf *g = calloc(1, sizeof *g);
	struct qwen_text head = { 0 };
	uint64_t bytes;
	void *p = MAP_FAILED;

	*out = NULL;
	if (qwen_gguf_make_head(w, &head, err) < 0)
		goto fail;
	bytes = qwen_gguf_writer_bytes(w);
	if (g == NULL || add_shard(g, path) < 0 || bytes > SIZE_MAX ||
	    (p = mmap(NULL, (size_t)bytes, PROT_NONE, MAP_PRIVATE |
	    MAP_ANONYMOUS, -1, 0)) == MAP_FAILED) {
		qwen_oom(err);
		goto fail;
	}
	g->shard[0].map = p;
	g->shard[0].bytes = (size_t)bytes;
	g->shard[0].mapped = 1;
#ifdef MADV_NOHUGEPAGE
	(void)madvise(p, (size_t)bytes, MADV_NOHUGEPAGE);
#endif
	if (make_room(p, head.n, err) < 0)
		goto fail;
	memcpy(p, head.s, head.n);
	if (qwen_gguf_parse(&g->shard[0], 0, &g->keys, &g->dir, err) < 0 ||
	    qwen_gguf_index(&g->dir, err) < 0)
		goto fail;
	*out = g;
	qwen_text_fini(&head);
	return 0;
fail:
	qwen_text_fini(&head);
	qwen_gguf_close(g);
	return -1;
}

int
qwen_gguf_is_file(const struct qwen_gguf *g)
{
	return (g->of != NULL ? g->of : g)->release == NULL;
}

void *
qwen_gguf_room(struct qwen_gguf *g, size_t i, size_t n, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = &g->dir.v[i].t;
	unsigned char *at = (unsigned char *)(uintptr_t)g->shard[0].map +
	    t->offset;

	return make_room(at, n, err) < 0 ? NULL : at;
}

void
qwen_gguf_want_huge(const struct qwen_gguf *g)
{
#ifdef MADV_HUGEPAGE
	unsigned i;

	for (i = 0; i < g->n_shards; i++) {
		if (g->shard[i].mapped && g->release == NULL)
			(void)madvise((void *)(uintptr_t)g->shard[i].map,
			    g->shard[i].bytes, MADV_HUGEPAGE);
	}
#else
	(void)g;
#endif
}

int
qwen_gguf_again(struct qwen_gguf **out, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct qwen_gguf *to = calloc(1, sizeof *to);
	size_t i, n = g->dir.n > 0 ? g->dir.n : 1;

	*out = NULL;
	if (to == NULL)
		return qwen_oom(err);
	*to = *g;
	to->of = g->of != NULL ? g->of : g;
	to->release = NULL;
	to->dir.v = calloc(n, sizeof *to->dir.v);
	to->dir.by_name = calloc(n, sizeof *to->dir.by_name);
	if (to->dir.v == NULL || to->dir.by_name == NULL) {
		qwen_gguf_close(to);
		return qwen_oom(err);
	}
	for (i = 0; i < g->dir.n; i++) {
		to->dir.v[i] = g->dir.v[i];
		to->dir.v[i].t.name = to->dir.v[i].name;
		to->dir.by_name[i] = to->dir.v + (g->dir.by_name[i] - g->dir.v);
	}
	*out = to;
	return 0;
}

static void
close_shards(struct qwen_gguf *g)
{
	unsigned i;

	for (i = 0; i < g->n_shards; i++) {
		if (g->shard[i].mapped)
			qwen_unmap_file(g->shard[i].map, g->shard[i].bytes);
		free(g->shard[i].path);
	}
	free(g->shard);
}

void
qwen_gguf_close(struct qwen_gguf *g)
{
	if (g == NULL)
		return;
	if (g->of == NULL) {
		close_shards(g);
		qwen_gguf_keys_fini(&g->keys);
	}
	free(g->dir.v);
	free(g->dir.by_name);
	if (g->release != NULL)
		g->release(g->arg);
	free(g);
}
