/* SPDX-License-Identifier: ISC */
/*
 * tensor.c - converts a tensor of a file to another format, a few rows at a
 * time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "quantize/imatrix.h"
#include "quantize/plan.h"

enum {
	CHUNK_BYTES = 1 << 20,		/* bytes copied at a time */
	PIECE = 1 << 15,		/* numbers per piece: one thread
					   converts it */
	PIECES = 64,			/* pieces written at a time */
};

/* Converts tensors in passes of `rows' rows, a few per thread. */
struct quantize_pass {
	struct qwen_quantize	*p;
	int			 fd;
	unsigned char		*to;		/* in memory; NULL: to fd */
	size_t			 left;		/* bytes of room there */
	const struct quantize_item *it;
	uint32_t		 type;
	float			*w;		/* weights of columns, or
						   NULL */
	struct quantize_changes	*changes;	/* or NULL */
	size_t			 from_row, to_row;	/* bytes of a row */
	uint64_t		 first, rows, step;	/* step: rows per
							   piece */
	float			*x[QWEN_POOL_MAX_THREADS];
	size_t			 cap_x;
	unsigned char		*out;
	size_t			 cap_out;
	struct qwen_err		 bad[PIECES];
};

struct quantize_pass *
qwen_quantize_pass_new(struct qwen_quantize *p, int fd, struct qwen_err *err)
{
	struct quantize_pass *s = calloc(1, sizeof *s);

	if (s == NULL) {
		qwen_oom(err);
		return NULL;
	}
	s->p = p;
	s->fd = fd;
	return s;
}

void
qwen_quantize_pass_free(struct quantize_pass *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < QWEN_POOL_MAX_THREADS; i++)
		free(s->x[i]);
	free(s->out);
	free(s->w);
	qwen_merge_free(s->changes);
	free(s);
}

/* Puts the next bytes of a tensor into memory or into the file. */
static int
put(struct quantize_pass *s, const void *data, size_t n, struct qwen_err *err)
{
	if (s->to == NULL)
		return qwen_gguf_write_data(s->p->w, s->fd, data, n, err);
	if (n > s->left)
		return qwen_fail(err, QWEN_EFORMAT, "the tensors have more "
		    "bytes than planned");
	memcpy(s->to, data, n);
	s->to += n;
	s->left -= n;
	return 0;
}

/* Frees the memory of the first n bytes of a tensor: the file is read once. */
static void
give_back(const struct quantize_pass *s, uint64_t n)
{
	/* data made in memory would be lost */
	if (qwen_gguf_is_file(s->p->in))
		qwen_give_back((void *)(uintptr_t)s->it->t->data, (size_t)n);
}

/* Converts rows; weights of columns differ between experts. */
static int
encode(struct quantize_pass *s, float *x, uint64_t row, uint64_t n, unsigned char *out,
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
	if (s->changes != NULL)
		qwen_merge_rows(s->changes, x, row, n);
	for (i = 0; i < (size_t)n * n_row; i++) {
		if (!isfinite(x[i]))
			return qwen_fail(err, QWEN_EFORMAT, "%s: row %llu has "
			    "a weight that is NaN or infinite", t->name,
			    (unsigned long long)(row + i / n_row));
	}
	for (; n > 0; n -= k, row += k, x += k * n_row, out += k * s->to_row) {
		k = t->ne[1] - row % t->ne[1];
		k = k < n ? k : n;
		if (qwen_encode_rows(s->type, s->p->cpu, x, s->w == NULL ?
		    NULL : s->w + row / t->ne[1] * n_row, n_row, (size_t)k, out,
		    err) < 0)
			return -1;
	}
	return 0;
}

static void
work(void *arg, size_t i, int thread)
{
	struct quantize_pass *s = arg;
	uint64_t row = i * s->step, n = s->rows - row;

	s->bad[i].code = 0;
	(void)encode(s, s->x[thread], s->first + row, n < s->step ? n : s->step,
	    s->out + row * s->to_row, &s->bad[i]);
}

/* Allocates room for a piece per thread, and for the output of a pass. */
static int
get_room(struct quantize_pass *s, struct qwen_err *err)
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
convert(struct quantize_pass *s, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = s->it->t;
	uint64_t all = t->ne[1] * t->ne[2] * t->ne[3];
	size_t n, i;

	s->from_row = qwen_quant_row_bytes(t->type, t->ne[0]);
	s->to_row = qwen_quant_row_bytes(s->type, t->ne[0]);
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
		give_back(s, (s->first + s->rows) * s->from_row);
	}
	return 0;
}

static int
copy(struct quantize_pass *s, struct qwen_err *err)
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
		give_back(s, at + n);
	}
	return 0;
}

int
qwen_quantize_tensor(struct quantize_pass *s, const struct quantize_item *it,
    uint32_t type, void *to, size_t n, struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t = it->t;
	int rc;

	s->it = it;
	s->type = type;
	s->to = to;
	s->left = n;
	if (type == t->type && !it->changed)
		return copy(s, err);
	if (it->changed && qwen_merge_load(&s->changes, s->p->merge, t->name,
	    t, err) < 0)
		return -1;
	if (it->weighted && (s->w = qwen_imatrix_weights(s->p->opts.imatrix,
	    t, err)) == NULL)
		return -1;
	rc = convert(s, err);
	free(s->w);
	s->w = NULL;
	qwen_merge_free(s->changes);
	s->changes = NULL;
	return rc;
}
