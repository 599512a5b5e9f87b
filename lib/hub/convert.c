/* SPDX-License-Identifier: ISC */
/* convert.c - writes the planned GGUF file, or opens it in memory. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/pool.h"
#include "gguf/gguf.h"
#include "hub/make.h"

enum { CHUNK_BYTES = 1 << 20 };

int
qwen_hub_gguf_new(struct qwen_hub_gguf **out, struct qwen_hub *h,
    const struct qwen_hub_opts *opts, struct qwen_err *err)
{
	struct qwen_hub_gguf *g = calloc(1, sizeof *g);
	size_t i;

	*out = NULL;
	if (g == NULL)
		return qwen_oom(err);
	g->hub = h;
	h->err = err;
	err->code = 0;
	g->opts = *opts;
	if (qwen_gguf_writer_new(&g->w, err) < 0 || qwen_hub_plan(g) < 0 ||
	    qwen_hub_put_keys(g) < 0) {
		qwen_hub_gguf_free(g);
		return -1;
	}
	for (i = 0; i < g->n; i++)
		qwen_gguf_put_tensor(g->w, g->t[i].name, g->t[i].type,
		    g->t[i].n_dims, g->t[i].ne);
	*out = g;
	return 0;
}

void
qwen_hub_gguf_free(struct qwen_hub_gguf *g)
{
	if (g == NULL)
		return;
	qwen_gguf_writer_free(g->w);
	free(g->t);
	free(g->source);
	free(g);
}

struct qwen_gguf_writer *
qwen_hub_gguf_writer(const struct qwen_hub_gguf *g)
{
	return g->w;
}

/* ---------------------------------------------------------------- writing */

struct conversion {
	struct qwen_hub_gguf *g;
	int		 fd;
	unsigned char	*to;		/* in memory; NULL: fd */
	/* for rows that change format or order */
	struct qwen_pool *pool;		/* NULL: not needed yet */
	unsigned char	*buf;		/* [threads][n_buf] */
	float		*x;		/* [threads][n_x] */
	uint64_t	*made;		/* [threads] rows made of each piece */
	size_t		 n_buf, n_x;
	uint64_t	 done, most;	/* bytes made in memory, and their
					   limit */
};

static int
put_data(struct conversion *p, const void *data, size_t n)
{
	if (p->to != NULL) {
		memcpy(p->to, data, n);
		p->to += n;
		return 0;
	}
	return qwen_gguf_write_data(p->g->w, p->fd, data, n, p->g->hub->err);
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * Returns the length of runs of rows that can be copied from the folder without
 * change; 0 if the rows must be converted.
 */
static uint64_t
copy_run_rows(const struct hub_tensor *t, const struct hub_source *s)
{
	static const uint32_t same[ST_N_TYPES] = { [ST_F32] = QT_F32 + 1,
	    [ST_F16] = QT_F16 + 1, [ST_BF16] = QT_BF16 + 1 };

	if (t->kind != HUB_NUMBERS || t->op != HUB_KEEP || s->scale != NULL ||
	    same[s->w->type] != t->type + 1)
		return 0;
	return t->order == HUB_AS_IS ? t->ne[1] :
	    t->order == HUB_TILED_ROWS ? t->head_rows : 0;
}

/* Copies plane k of a source, `run' rows at a time. */
static int
copy_plane(struct conversion *p, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t k, uint64_t run)
{
	size_t size = s->columns * qwen_st_type_bytes(s->w->type), bytes, n;
	const unsigned char *at;
	uint64_t r = 0, len;

	for (; r < t->ne[1]; r += len) {
		len = t->order == HUB_TILED_ROWS && r < t->head_from ?
		    t->head_from - r : least(run, t->ne[1] - r);
		at = s->w->data + (k * s->rows + qwen_hub_row(p->g, t, r)) *
		    size;
		for (bytes = len * size; bytes > 0; bytes -= n, at += n) {
			n = (size_t)least(bytes, CHUNK_BYTES);
			if (put_data(p, at, n) < 0)
				return -1;
		}
	}
	return 0;
}

/*
 * Starts the threads, once, and allocates for each thread room for a chunk of
 * output of at least one row, and for two rows of f32.
 */
static int
get_threads(struct conversion *p)
{
	int n = p->g->opts.threads;
	size_t row = 0, i;

	if (p->pool != NULL)
		return 0;
	n = n > 0 ? n : qwen_cpu_count();
	for (i = 0; i < p->g->n_sources; i++) {
		if (p->g->source[i].columns > row)
			row = (size_t)p->g->source[i].columns;
		if (p->g->source[i].rows > row)
			row = (size_t)p->g->source[i].rows;
	}
	if (qwen_mul(row, 2, &p->n_x) < 0 || qwen_mul(row, sizeof *p->x,
	    &p->n_buf) < 0 || qwen_pool_new(&p->pool, n, p->g->hub->err) < 0)
		return qwen_oom(p->g->hub->err);
	p->n_buf = p->n_buf > CHUNK_BYTES ? p->n_buf : CHUNK_BYTES;
	p->buf = qwen_alloc((size_t)n, p->n_buf);
	p->x = qwen_alloc((size_t)n * p->n_x, sizeof *p->x);
	p->made = qwen_alloc((size_t)n, sizeof *p->made);
	return p->buf == NULL || p->x == NULL || p->made == NULL ?
	    qwen_oom(p->g->hub->err) : 0;
}

static void
end_threads(struct conversion *p)
{
	qwen_pool_free(p->pool);
	free(p->buf);
	free(p->x);
	free(p->made);
}

/* Conversion of n rows of a plane, step rows per thread. */
struct row_task {
	struct conversion	*p;
	const struct hub_tensor *t;
	const struct hub_source *s;
	uint64_t	 plane, first, n, step;
	unsigned char	*to;
	size_t		 size;			/* of a row */
};

static uint64_t
rows_of(const struct row_task *m, size_t i)
{
	return least(m->step, m->n - i * m->step);
}

static void
make_rows(void *arg, size_t i, int thread)
{
	const struct row_task *m = arg;
	uint64_t at = i * m->step;

	m->p->made[i] = qwen_hub_rows(m->p->g, m->t, m->s, m->plane,
	    m->first + at, rows_of(m, i),
	    m->p->x + (size_t)thread * m->p->n_x, m->to + at * m->size);
}

/* Fails if a piece is incomplete; the message names its first bad row. */
static int
check_rows(const struct row_task *m, size_t pieces)
{
	size_t i;

	for (i = 0; i < pieces; i++) {
		if (m->p->made[i] < rows_of(m, i))
			return qwen_hub_bad_tensor(m->p->g->hub, m->s->w, "row "
			    "%" PRIu64 " of %s has a value that is NaN, "
			    "infinite, or too large for %s",
			    m->first + i * m->step + m->p->made[i], m->t->name,
			    qwen_ggml_name(m->t->type));
	}
	return 0;
}

/* Converts plane k of a source to another format or order. */
static int
write_plane(struct conversion *p, const struct hub_tensor *t,
    const struct hub_source *s, uint64_t k)
{
	struct row_task m = { .p = p, .t = t, .s = s, .plane = k };
	uint64_t threads, most;
	size_t pieces;

	if (get_threads(p) < 0)
		return -1;
	m.size = t->ne[0] / qwen_ggml_block_len(t->type) *
	    qwen_ggml_block_bytes(t->type);
	threads = (uint64_t)qwen_pool_threads(p->pool);
	m.step = least(p->n_buf / m.size, (t->ne[1] + threads - 1) / threads);
	most = m.step * threads;
	for (; m.first < t->ne[1]; m.first += m.n) {
		m.n = least(most, t->ne[1] - m.first);
		m.to = p->to != NULL ? p->to : p->buf;
		pieces = (size_t)((m.n + m.step - 1) / m.step);
		qwen_pool_run(p->pool, make_rows, &m, pieces);
		if (check_rows(&m, pieces) < 0)
			return -1;
		if (p->to != NULL)
			p->to += m.n * m.size;
		else if (put_data(p, p->buf, (size_t)m.n * m.size) < 0)
			return -1;
	}
	return 0;
}

static int
write_scales(struct conversion *p, const struct hub_tensor *t)
{
	const struct qwen_st_tensor *w;
	unsigned char b[4];
	size_t i;
	float x;

	for (i = 0; i < t->n_from; i++) {
		w = p->g->source[t->from + i].w;
		x = w == NULL ? 1.0f : qwen_bits_f32(qwen_le32(w->data));
		if (t->inverse)
			x = 1.0f / x;
		qwen_put_le32(b, qwen_f32_bits(x));
		if (put_data(p, b, sizeof b) < 0)
			return -1;
	}
	return 0;
}

static int
write_tensor(struct conversion *p, const struct hub_tensor *t)
{
	const struct hub_source *s = &p->g->source[t->from];
	uint64_t k, run;
	size_t i;
	int rc = 0;

	if (t->kind == HUB_SCALES)
		return write_scales(p, t);
	for (i = 0; i < t->n_from && rc == 0; i++, s++) {
		run = copy_run_rows(t, s);
		for (k = 0; k < s->planes && rc == 0; k++)
			rc = run != 0 ? copy_plane(p, t, s, k, run) :
			    write_plane(p, t, s, k);
		qwen_st_done(s->w);
	}
	return rc;
}

int
qwen_hub_gguf_write(struct qwen_hub_gguf *g, int fd, struct qwen_err *err)
{
	struct conversion p = { .g = g, .fd = fd };
	size_t i;
	int rc = qwen_gguf_write_head(g->w, fd, err);

	g->hub->err = err;
	err->code = 0;
	for (i = 0; i < g->n && rc == 0; i++)
		rc = write_tensor(&p, &g->t[i]);
	end_threads(&p);
	return rc < 0 ? -1 : qwen_gguf_write_end(g->w, err);
}

/* ---------------------------------------------------------------- in memory */

/* Bytes of a tensor, or part, that go into a model's fingerprint. */
enum { PART_MIN = 64 };

/* Returns 1 if all sources can be used in the folder's files as they are. */
static int
all_in_place(const struct qwen_hub_gguf *g, const struct hub_tensor *t)
{
	const struct hub_source *s = &g->source[t->from];
	size_t i;

	for (i = 0; i < t->n_from; i++, s++) {
		if (t->order != HUB_AS_IS || t->row0 != 0 || s->planes != 1 ||
		    s->rows != t->ne[1] || copy_run_rows(t, s) != s->rows ||
		    (uintptr_t)s->w->data % qwen_st_type_bytes(s->w->type) !=
		    0 || (t->n_from > 1 && s->w->bytes < PART_MIN))
			return 0;
	}
	return 1;
}

/*
 * Uses the experts where they are in the folder's files; the table of pointers
 * to them takes the memory meant for their data.
 */
static int
place_parts(struct conversion *p, struct qwen_gguf *out, size_t i)
{
	const struct hub_tensor *t = &p->g->t[i];
	const void **part;
	size_t k;

	part = qwen_gguf_room(out, i, t->n_from * sizeof *part, p->g->hub->err);
	if (part == NULL)
		return -1;
	for (k = 0; k < t->n_from; k++)
		part[k] = p->g->source[t->from + k].w->data;
	out->dir.v[i].t.part = part;
	out->dir.v[i].t.data = part[0];
	return 0;
}

static int
make(struct conversion *p, struct qwen_gguf *out, size_t i)
{
	size_t n = (size_t)out->dir.v[i].t.bytes;

	if (n > p->most - p->done)
		return qwen_fail(p->g->hub->err, QWEN_ENOMEM, "out of memory: "
		    "the weights need more than the %.1f GiB available",
		    (double)p->most / 0x1p30);
	if ((p->to = qwen_gguf_room(out, i, n, p->g->hub->err)) == NULL)
		return -1;
	p->done += n;
	return write_tensor(p, &p->g->t[i]);
}

/*
 * Sets the data of tensor i: in the folder's file if it needs no conversion.
 * Norms, biases, routers and rows of "yes" and "no" are made in memory.
 */
static int
place_tensor(struct conversion *p, struct qwen_gguf *out, size_t i)
{
	const struct hub_tensor *t = &p->g->t[i];

	if (all_in_place(p->g, t)) {
		if (t->n_from > 1)
			return place_parts(p, out, i);
		out->dir.v[i].t.data = p->g->source[t->from].w->data;
		return 0;
	}
	if (t->n_dims == 1 || p->g->opts.type != QWEN_HUB_AUTO ||
	    t->order == HUB_PICKED || strstr(t->name, ".ffn_gate_inp") != NULL)
		return make(p, out, i);
	return qwen_fail(p->g->hub->err, QWEN_EUNSUP, "%s must be converted "
	    "first: run \"gguf-convert %s\" to make a GGUF file", t->name,
	    p->g->hub->path);
}

/*
 * Opens the planned file.  Weights that need no conversion stay in the folder's
 * files; other norms, biases and routers are made in memory, *made bytes, at
 * most `most'; matrices too, if the options name a type.
 */
static int
place(struct qwen_hub_gguf *g, struct qwen_gguf **out, uint64_t most,
    uint64_t *made)
{
	struct conversion p = { .g = g, .most = most };
	size_t i;
	int rc = qwen_gguf_open_head(out, g->hub->path, g->w, g->hub->err);

	for (i = 0; i < g->n && rc == 0; i++)
		rc = place_tensor(&p, *out, i);
	end_threads(&p);
	*made = p.done;
	if (rc < 0) {
		qwen_gguf_close(*out);
		*out = NULL;
	}
	return rc;
}

static void
release(void *arg)
{
	qwen_hub_close(arg);
}

/*
 * Returns 0 if weights of this architecture can be used in the order of Hugging
 * Face folders, or if they will be converted.
 */
static int
check_arch(const struct qwen_hub *h, int type)
{
	if (type != QWEN_HUB_AUTO || !h->arch->hybrid)
		return 0;
	return qwen_fail(h->err, QWEN_EUNSUP, "weights of %s must be reordered "
	    "first: run \"gguf-convert %s\" to make a GGUF file", h->arch->name,
	    h->path);
}

int
qwen_hub_load(struct qwen_gguf **out, const char *folder, int type,
    int threads, uint64_t most, uint64_t *made, struct qwen_err *err)
{
	struct qwen_hub_opts o = { .type = type, .threads = threads };
	struct qwen_hub_gguf *g = NULL;
	struct qwen_hub *h;
	int rc;

	*out = NULL;
	*made = 0;
	if (qwen_hub_open(&h, folder, err) < 0)
		return -1;
	rc = check_arch(h, type) < 0 ||
	    qwen_hub_gguf_new(&g, h, &o, err) < 0 ? -1 :
	    place(g, out, most, made);
	qwen_hub_gguf_free(g);
	if (rc < 0) {
		qwen_hub_close(h);
		return -1;
	}
	(*out)->release = release;
	(*out)->arg = h;
	return 0;
}
