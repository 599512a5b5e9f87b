/* SPDX-License-Identifier: ISC */
/*
 * staging.c - weights to the card: the host's threads lay rows out in one of two
 * buffers while the card copies the other.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/layout.h"
#include "engine/cuda/load.h"

/* Bytes of a buffer, and rows that a thread takes at once. */
enum { BUFFER = 32 << 20, ROWS = 32 };

struct qwen_cuda_staging {
	unsigned char	*buffer[2];
	int		 pinned[2];	/* the card reads it by itself */
	int		 next;		/* the card may still read the other */
};

/* Rows that the host lays out. */
struct rows {
	const struct qwen_weight	*w;
	const unsigned char		*from;
	unsigned char			*to;
	size_t				 n, row_bytes;
};

static void
lay_rows(void *arg, size_t item, int thread)
{
	const struct rows *j = arg;
	size_t r = item * ROWS, end = r + ROWS < j->n ? r + ROWS : j->n;

	(void)thread;
	for (; r < end; r++)
		qwen_cuda_lay(j->w, j->from + r * j->w->row_bytes,
		    j->to + r * j->row_bytes);
}

static void
lay_all(struct qwen_pool *pool, struct rows *j)
{
	size_t n = (j->n + ROWS - 1) / ROWS, i;

	if (pool != NULL && n > 1) {
		qwen_pool_run(pool, lay_rows, j, n);
		return;
	}
	for (i = 0; i < n; i++)
		lay_rows(j, i, 0);
}

static struct qwen_cuda_staging *
new_staging(struct qwen_cuda_card *card)
{
	struct qwen_cuda_staging *s = qwen_alloc(1, sizeof *s);
	void *p;
	int i;

	for (i = 0; s != NULL && i < 2; i++) {
		if ((s->pinned[i] = card->failed == NULL &&
		    card->cu.host_alloc(&p, BUFFER, 0) == 0))
			s->buffer[i] = p;
		else
			s->buffer[i] = qwen_alloc_large(BUFFER, 1);
	}
	return s;
}

void
qwen_cuda_staging_free(struct qwen_cuda *c)
{
	struct qwen_cuda_staging *s = c->staging;
	int i;

	if (s == NULL)
		return;
	qwen_cuda_sync(c->card);
	for (i = 0; i < 2; i++) {
		if (s->pinned[i])
			c->card->cu.host_free(s->buffer[i]);
		else
			free(s->buffer[i]);
	}
	free(s);
	c->staging = NULL;
}

/* Copies n rows, as many at once as a buffer has room for. */
static void
stage_rows(struct qwen_cuda *c, const struct qwen_cuda_weight *m,
    const unsigned char *from, cu_ptr to, size_t n)
{
	struct qwen_cuda_staging *s = c->staging;
	struct rows j = { .w = m->of, .row_bytes = (size_t)m->row_bytes };
	size_t r, most = BUFFER / j.row_bytes;

	for (r = 0; r < n; r += j.n) {
		j.n = n - r < most ? n - r : most;
		j.from = from + r * m->of->row_bytes;
		j.to = s->buffer[s->next];
		lay_all(c->pool, &j);
		qwen_cuda_sync(c->card);	/* for the other buffer */
		qwen_cuda_put(c->card, to + r * m->row_bytes, j.to,
		    j.n * j.row_bytes);
		s->next = !s->next;
	}
}

int
qwen_cuda_weight_fill(struct qwen_cuda *c, const struct qwen_cuda_weight *to,
    struct qwen_err *err)
{
	const struct qwen_weight *w = to->of;
	size_t e;

	if (c->staging == NULL)
		c->staging = new_staging(c->card);
	if (c->staging == NULL || c->staging->buffer[0] == NULL ||
	    c->staging->buffer[1] == NULL)
		return qwen_oom(err);
	if (to->n_matrix == 1 || (w->part == NULL &&
	    w->expert_bytes == w->n_out * w->row_bytes &&
	    to->matrix_bytes == w->n_out * to->row_bytes)) {
		stage_rows(c, to, w->part != NULL ? w->part[0] : w->data,
		    to->data, w->n_out * to->n_matrix);
		return qwen_cuda_check(c->card, err);
	}
	for (e = 0; e < to->n_matrix; e++)
		stage_rows(c, to, w->part != NULL ? w->part[e] :
		    w->data + e * w->expert_bytes, to->data +
		    e * to->matrix_bytes, w->n_out);
	return qwen_cuda_check(c->card, err);
}
