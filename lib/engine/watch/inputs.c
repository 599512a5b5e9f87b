/* SPDX-License-Identifier: ISC */
/*
 * inputs.c - how strong the inputs of each matrix are: sums of their squares,
 * in the order of the tokens, so that threads and batches change nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model.h"
#include "engine/watch/watch.h"

/* Columns that one thread takes. */
enum { COLUMNS = 64 };

static int
by_data(const void *a, const void *b)
{
	const struct qwen_inputs *x = a, *y = b;

	return x->data < y->data ? -1 : x->data > y->data;
}

/*
 * Adds the matrices of a file, or those of its blocks alone: a side file's ends
 * have the names of the model's. Memory for sums comes at first use.
 */
static int
add_tensors(struct qwen_input_sums *s, const struct qwen_gguf *g, int blocks,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *t;
	struct qwen_inputs *e;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		if (t->n_dims < 2 ||
		    (blocks && strncmp(t->name, "blk.", 4) != 0))
			continue;
		if (qwen_grow(&s->v, &s->cap, s->n + 1, sizeof *s->v) < 0)
			return qwen_oom(err);
		e = &s->v[s->n++];
		memset(e, 0, sizeof *e);
		e->name = t->name;
		e->data = t->data;
		e->bytes = t->bytes;
		e->n_in = (size_t)t->ne[0];
		e->n_matrix = (size_t)t->ne[2];
	}
	return 0;
}

int
qwen_model_measure_inputs(struct qwen_model *m, struct qwen_err *err)
{
	struct qwen_input_sums *s = calloc(1, sizeof *s);

	if (s == NULL)
		return qwen_oom(err);
	if (add_tensors(s, m->net.gguf, 0, err) < 0 || (m->net.mtp.side != NULL &&
	    add_tensors(s, m->net.mtp.side, 1, err) < 0)) {
		qwen_inputs_free(s);
		return -1;
	}
	if (s->n > 0)
		qsort(s->v, s->n, sizeof *s->v, by_data);
	qwen_inputs_free(m->inputs);
	m->inputs = s;
	return 0;
}

void
qwen_inputs_free(struct qwen_input_sums *s)
{
	size_t i;

	if (s == NULL)
		return;
	for (i = 0; i < s->n; i++) {
		free(s->v[i].sum);
		free(s->v[i].count);
	}
	free(s->v);
	free(s);
}

const struct qwen_inputs *
qwen_model_inputs(const struct qwen_model *m, size_t i)
{
	return m->inputs != NULL && i < m->inputs->n ? &m->inputs->v[i] : NULL;
}

int
qwen_model_inputs_failed(const struct qwen_model *m)
{
	return m->inputs != NULL && m->inputs->failed;
}

/*
 * Returns the tensor of a weight, with room for its sums; NULL if it has none.
 */
static struct qwen_inputs *
find(struct qwen_input_sums *s, const struct qwen_weight *w)
{
	size_t lo = 0, hi = s->n, mid;
	struct qwen_inputs *e;

	while (lo < hi) {
		mid = (lo + hi) / 2;
		if (s->v[mid].data <= w->data)
			lo = mid + 1;
		else
			hi = mid;
	}
	e = lo > 0 ? &s->v[lo - 1] : NULL;
	if (e == NULL || w->data >= e->data + e->bytes || w->n_in != e->n_in)
		return NULL;
	if (e->sum == NULL) {
		e->sum = qwen_alloc(e->n_in * e->n_matrix, sizeof *e->sum);
		e->count = calloc(e->n_matrix, sizeof *e->count);
		s->failed |= e->sum == NULL || e->count == NULL;
	}
	return e->sum != NULL && e->count != NULL ? e : NULL;
}

struct job {
	struct qwen_inputs	*e;
	const struct qwen_seen	*s;
	double			*sum;
};

/* Item: some columns, of all rows. */
static void
do_columns(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_seen *s = j->s;
	size_t c0 = item * COLUMNS, c1 = c0 + COLUMNS, t, c, row;

	(void)thread;
	if (c1 > j->e->n_in)
		c1 = j->e->n_in;
	for (t = 0; t < s->n; t++) {
		const float *x = s->x;

		row = s->at != NULL ? s->at[t] : t;
		if (s->at != NULL && s->used > 0)
			row /= s->used;
		for (c = c0, x += row * s->stride; c < c1; c++)
			j->sum[c] += (double)x[c] * (double)x[c];
	}
}

/* The same inputs go to several pieces of a tensor: they count once. */
static int
is_before(struct qwen_input_sums *sums, const struct qwen_seen *s, size_t i,
    const struct qwen_inputs *e)
{
	while (i-- > 0) {
		if (find(sums, s->w[i]) == e)
			return 1;
	}
	return 0;
}

void
qwen_inputs_see(struct qwen_input_sums *sums, struct qwen_pool *pool,
    const struct qwen_seen *s)
{
	struct job j = { .s = s };
	size_t i, e;

	for (i = 0; s->n > 0 && i < s->n_w; i++) {
		j.e = find(sums, s->w[i]);
		if (j.e == NULL || is_before(sums, s, i, j.e))
			continue;
		/* the shared expert follows the others */
		e = s->e < j.e->n_matrix ? s->e : 0;
		j.sum = j.e->sum + e * j.e->n_in;
		j.e->count[e] += s->n;
		qwen_pool_run(pool, do_columns, &j,
		    (j.e->n_in + COLUMNS - 1) / COLUMNS);
	}
}
