/* SPDX-License-Identifier: ISC */
/* file.c - a GGUF file to another one with smaller weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "gguf/recipe.h"
#include "quantize/imatrix.h"
#include "quantize/plan.h"

enum {
	CHUNK_BYTES = 1 << 20,		/* of what is copied */
	PIECE = 1 << 15,		/* numbers that a thread takes */
	PIECES = 64,			/* that are written together */
	QUANT_VERSION = 2,
};

const char *
qwen_quantize_recipe(size_t i)
{
	size_t k;

	for (k = 0; qwen_recipe_name(k) != NULL; k++) {
		if (qwen_recipe_is_stock(k) &&
		    qwen_encode_known(qwen_recipe_rest(k)) && i-- == 0)
			return qwen_recipe_name(k);
	}
	return NULL;
}

/* As llama.cpp has them, Q4_K is Q4_K_M. */
int
qwen_quantize_find(size_t *recipe, const char *name, struct qwen_err *err)
{
	static const char *const medium[] = { "Q3_K", "Q4_K", "Q5_K" };
	char full[16];
	size_t i;

	for (i = 0; i < sizeof medium / sizeof medium[0]; i++) {
		if (strcasecmp(name, medium[i]) == 0) {
			memcpy(full, medium[i], 4);
			memcpy(full + 4, "_M", 3);
			name = full;
		}
	}
	if (qwen_recipe_find(recipe, name, err) < 0)
		return -1;
	if (!qwen_recipe_is_stock(*recipe) ||
	    !qwen_encode_known(qwen_recipe_rest(*recipe)))
		return qwen_fail(err, QWEN_EUNSUP, "weights cannot be made %s",
		    name);
	return 0;
}

/* ---------------------------------------------------------------- metadata */

static int
is_key(const struct qwen_gguf_kv *kv, const char *key, size_t n)
{
	return kv->key.len >= n && memcmp(kv->key.s, key, n) == 0;
}

static int
use_recipe(struct qwen_quantize *p, struct qwen_err *err)
{
	if (p->opts.size > 0)
		return 0;
	if (qwen_quantize_find(&p->recipe, p->opts.recipe, err) < 0)
		return -1;
	p->file_type = qwen_recipe_file_type(p->recipe);
	return 0;
}

/* Keys of this file, and not of what it is made of. */
static int
is_own(const struct qwen_gguf_kv *kv)
{
	static const char *const own[] = { "split.", "quantize.imatrix.",
	    "general.quantization_version", "general.file_type" };
	size_t i;

	for (i = 0; i < sizeof own / sizeof own[0]; i++) {
		if (is_key(kv, own[i], strlen(own[i])))
			return 1;
	}
	return 0;
}

static int
put_imatrix(struct qwen_quantize *p, struct qwen_err *err)
{
	const struct qwen_imatrix *m = p->opts.imatrix;
	struct qwen_text name = { 0 };
	struct qwen_str s;
	int failed;

	qwen_gguf_put_str(p->w, "quantize.imatrix.file",
	    p->opts.imatrix_name != NULL ? p->opts.imatrix_name : "");
	if (qwen_imatrix_dataset(m, &s)) {
		qwen_text_add(&name, s.s, s.len);
		qwen_gguf_put_str(p->w, "quantize.imatrix.dataset",
		    name.s != NULL ? name.s : "");
	}
	qwen_gguf_put_u32(p->w, "quantize.imatrix.entries_count",
	    (uint32_t)qwen_imatrix_entries(m));
	qwen_gguf_put_u32(p->w, "quantize.imatrix.chunks_count",
	    qwen_imatrix_chunks(m));
	failed = name.failed;
	qwen_text_fini(&name);
	return failed ? qwen_oom(err) : 0;
}

static int
put_head(struct qwen_quantize *p, struct qwen_err *err)
{
	const struct qwen_gguf_kv *kv;
	uint64_t align;
	size_t i;

	for (i = 0; (kv = qwen_gguf_kv(p->in, i)) != NULL; i++) {
		if (is_own(kv))
			continue;
		if (kv->key.len == 17 && is_key(kv, "general.alignment", 17) &&
		    qwen_gguf_get_u64(p->in, "general.alignment", 0, &align,
		    err) == 1)
			qwen_gguf_put_u32(p->w, "general.alignment",
			    (uint32_t)align);
		else
			qwen_gguf_put_kv(p->w, kv);
	}
	qwen_gguf_put_u32(p->w, "general.quantization_version", QUANT_VERSION);
	qwen_gguf_put_u32(p->w, "general.file_type",
	    p->file_type);
	if (p->opts.imatrix != NULL && put_imatrix(p, err) < 0)
		return -1;
	for (i = 0; i < p->n; i++)
		qwen_gguf_put_tensor(p->w, p->item[i].t->name, p->item[i].type,
		    p->item[i].t->n_dims, p->item[i].t->ne);
	return 0;
}

/* ------------------------------------------------------------------- a plan */

/* A model, and not what may stand beside one. */
static int
check_kind(const struct qwen_gguf *g, struct qwen_err *err)
{
	struct qwen_str type = { NULL, 0 };

	if (qwen_gguf_get_str(g, "general.type", &type, err) < 0)
		return -1;
	if (type.s != NULL && (type.len != 5 || memcmp(type.s, "model", 5) != 0))
		return qwen_fail(err, QWEN_EUNSUP, "no model: its general.type "
		    "is %.*s", (int)(type.len < 40 ? type.len : 40), type.s);
	return 0;
}

static int
use_cpu(struct qwen_quantize *p, struct qwen_err *err)
{
	unsigned limit;

	if (p->opts.cpu == NULL || p->opts.cpu[0] == '\0')
		return 0;
	if (qwen_cpu_level(p->opts.cpu, &limit) < 0)
		return qwen_fail(err, QWEN_EUNSUP, "unknown processor level %s",
		    p->opts.cpu);
	p->cpu &= limit;
	return 0;
}

int
qwen_quantize_new(struct qwen_quantize **out, const struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, struct qwen_err *err)
{
	struct qwen_quantize *p = calloc(1, sizeof *p);

	*out = NULL;
	if (p == NULL)
		return qwen_oom(err);
	p->in = in;
	p->opts = *opts;
	p->cpu = qwen_cpu_detect();
	if (use_cpu(p, err) < 0 || use_recipe(p, err) < 0 ||
	    check_kind(in, err) < 0 ||
	    qwen_pool_new(&p->pool, opts->threads > 0 ? opts->threads :
	    qwen_cpu_count(), err) < 0 || qwen_quantize_plan(p, err) < 0 ||
	    qwen_gguf_writer_new(&p->w, err) < 0 || put_head(p, err) < 0) {
		qwen_quantize_free(p);
		return -1;
	}
	*out = p;
	return 0;
}

void
qwen_quantize_free(struct qwen_quantize *p)
{
	size_t i;

	if (p == NULL)
		return;
	for (i = 0; i < p->n_notes; i++)
		qwen_text_fini(&p->note[i]);
	qwen_pool_free(p->pool);
	qwen_gguf_writer_free(p->w);
	free(p->note);
	free(p->item);
	free(p);
}

const char *
qwen_quantize_note(const struct qwen_quantize *p, size_t i)
{
	return i < p->n_notes ? p->note[i].s : NULL;
}

size_t
qwen_quantize_n_tensors(const struct qwen_quantize *p)
{
	return p->n;
}

uint64_t
qwen_quantize_bytes(const struct qwen_quantize *p)
{
	return qwen_gguf_writer_bytes(p->w);
}

/* ------------------------------------------------------------------ writing */

/* The rows of a tensor that are written together, a few to each thread. */
struct pass {
	struct qwen_quantize	*p;
	int			 fd;
	const struct qwen_quantize_progress *progress;
	uint64_t		 done;
	const struct quantize_item *it;
	float			*w;		/* of its columns, or NULL */
	size_t			 from_row, to_row;	/* bytes of a row */
	uint64_t		 first, rows, step;	/* step: of a piece */
	float			*x[QWEN_POOL_MAX_THREADS];
	size_t			 cap_x;
	unsigned char		*out;
	size_t			 cap_out;
	struct qwen_err		 bad[PIECES];
};

static int
put(struct pass *s, const void *data, size_t n, struct qwen_err *err)
{
	if (qwen_gguf_write_data(s->p->w, s->fd, data, n, err) < 0)
		return -1;
	s->done += n;
	if (s->progress != NULL)
		s->progress->fn(s->progress->arg, s->done,
		    qwen_gguf_writer_bytes(s->p->w));
	return 0;
}

/* A file that is mapped is read once: its memory need not stay. */
static void
give_back(const struct pass *s, const unsigned char *data, uint64_t bytes)
{
	long page = sysconf(_SC_PAGESIZE);
	uintptr_t mask, from, to;

	/* in memory, they would be gone */
	if (page <= 0 || !qwen_gguf_is_file(s->p->in))
		return;
	mask = (uintptr_t)page - 1;
	from = (uintptr_t)data & ~mask;
	to = ((uintptr_t)data + (uintptr_t)bytes) & ~mask;
	if (from < to)
		(void)madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Rows of one matrix: those of an expert have weights of their own. */
static int
encode(struct pass *s, float *x, uint64_t row, uint64_t n, unsigned char *out,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = s->it->t;
	size_t n_row = (size_t)t->ne[0], i;
	const unsigned char *p;
	uint64_t k, at;

	for (at = 0; at < n; at += k) {
		p = qwen_gguf_data(t, (row + at) * s->from_row, &k);
		k = k / s->from_row < n - at ? k / s->from_row : n - at;
		qwen_quant_values(qwen_quant_find(t->type), p,
		    (size_t)k * n_row, x + at * n_row);
	}
	for (i = 0; i < (size_t)n * n_row; i++) {
		if (!isfinite(x[i]))
			return qwen_fail(err, QWEN_EFORMAT, "%s: row %llu has a "
			    "weight that is not finite", t->name,
			    (unsigned long long)(row + i / n_row));
	}
	for (; n > 0; n -= k, row += k, x += k * n_row, out += k * s->to_row) {
		k = t->ne[1] - row % t->ne[1];
		k = k < n ? k : n;
		if (qwen_encode_rows(s->it->type, s->p->cpu, x, s->w == NULL ?
		    NULL : s->w + row / t->ne[1] * n_row, n_row, (size_t)k, out,
		    err) < 0)
			return -1;
	}
	return 0;
}

static void
work(void *arg, size_t i, int thread)
{
	struct pass *s = arg;
	uint64_t row = i * s->step, n = s->rows - row;

	s->bad[i].code = 0;
	(void)encode(s, s->x[thread], s->first + row, n < s->step ? n : s->step,
	    s->out + row * s->to_row, &s->bad[i]);
}

/* Room for a piece in each thread, and for what is written together. */
static int
get_room(struct pass *s, struct qwen_err *err)
{
	int i, n = qwen_pool_threads(s->p->pool);
	size_t x, out;

	if (qwen_mul((size_t)s->step, (size_t)s->it->t->ne[0], &x) < 0 ||
	    qwen_mul((size_t)s->step * PIECES, s->to_row, &out) < 0)
		return qwen_oom(err);
	for (i = 0; x > s->cap_x && i < n; i++) {
		free(s->x[i]);
		s->x[i] = qwen_alloc(x, sizeof *s->x[i]);
		if (s->x[i] == NULL)
			return qwen_oom(err);
	}
	s->cap_x = x > s->cap_x ? x : s->cap_x;
	if (out > s->cap_out) {
		free(s->out);
		s->cap_out = 0;
		s->out = malloc(out);
		if (s->out == NULL)
			return qwen_oom(err);
		s->cap_out = out;
	}
	return 0;
}

static int
convert(struct pass *s, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = s->it->t;
	uint64_t all = t->ne[1] * t->ne[2] * t->ne[3];
	size_t n, i;

	s->from_row = qwen_quant_row_bytes(t->type, t->ne[0]);
	s->to_row = qwen_quant_row_bytes(s->it->type, t->ne[0]);
	s->step = t->ne[0] < PIECE ? PIECE / t->ne[0] : 1;
	if (get_room(s, err) < 0)
		return -1;
	for (s->first = 0; s->first < all; s->first += s->rows) {
		s->rows = all - s->first < s->step * PIECES ? all - s->first :
		    s->step * PIECES;
		n = (size_t)((s->rows + s->step - 1) / s->step);
		qwen_pool_run(s->p->pool, work, s, n);
		for (i = 0; i < n; i++) {
			if (s->bad[i].code != 0) {
				*err = s->bad[i];
				return -1;
			}
		}
		if (put(s, s->out, (size_t)s->rows * s->to_row, err) < 0)
			return -1;
		give_back(s, (const unsigned char *)t->data + s->first *
		    s->from_row, s->rows * s->from_row);
	}
	return 0;
}

static int
copy(struct pass *s, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = s->it->t;
	const unsigned char *p;
	uint64_t at, left;
	size_t n;

	for (at = 0; at < t->bytes; at += n) {
		p = qwen_gguf_data(t, at, &left);
		n = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
		if (put(s, p, n, err) < 0)
			return -1;
		give_back(s, p, n);
	}
	return 0;
}

static int
write_item(struct pass *s, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = s->it->t;
	int rc;

	if (s->it->type == t->type)
		return copy(s, err);
	if (s->it->weighted) {
		s->w = qwen_alloc((size_t)t->ne[0] * (size_t)t->ne[2] *
		    (size_t)t->ne[3], sizeof *s->w);
		if (s->w == NULL)
			return qwen_oom(err);
		qwen_imatrix_weights(s->p->opts.imatrix, t, s->w);
	}
	rc = convert(s, err);
	free(s->w);
	s->w = NULL;
	return rc;
}

int
qwen_quantize_write(struct qwen_quantize *p, int fd,
    const struct qwen_quantize_progress *progress, struct qwen_err *err)
{
	struct pass *s = calloc(1, sizeof *s);
	size_t i;
	int rc;

	if (s == NULL)
		return qwen_oom(err);
	s->p = p;
	s->fd = fd;
	s->progress = progress;
	rc = qwen_gguf_write_head(p->w, fd, err);
	for (i = 0; i < p->n && rc == 0; i++) {
		s->it = &p->item[i];
		rc = write_item(s, err);
	}
	for (i = 0; i < QWEN_POOL_MAX_THREADS; i++)
		free(s->x[i]);
	free(s->out);
	free(s);
	return rc < 0 ? -1 : qwen_gguf_write_end(p->w, err);
}
