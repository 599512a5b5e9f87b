/* SPDX-License-Identifier: ISC */
/*
 * join.c - weights that multiply the same rows, in one format, become one matrix,
 * so that one launch does for all: gate and up; q, k and v; the router and the
 * shared expert's; the shared expert and those it looks like.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/layout.h"
#include "engine/cuda/load.h"
#include "engine/cuda/lora.h"

enum { WEIGHTS_MAX = QWEN_DELTA_PIECES_MAX };

/* Weights whose results follow one another, and where they are to be. */
struct run {
	struct qwen_cuda_weight		*out[WEIGHTS_MAX];
	const struct qwen_weight	*w[WEIGHTS_MAX];
	const struct qwen_weight	*more[WEIGHTS_MAX];	/* the last
								   matrix, if
								   has_more */
	size_t				 n, n_matrix;
	int				 has_more;
};

static int
can_join(const struct qwen_weight *a, const struct qwen_weight *b)
{
	return a->data != NULL && b->data != NULL && a->quant == b->quant &&
	    a->operand == b->operand && a->n_in == b->n_in &&
	    a->scale == NULL && b->scale == NULL && a->lora == b->lora &&
	    (a->lora == NULL || b->lora_at == a->lora_at + a->n_out) &&
	    (a->bias != NULL) == (b->bias != NULL);
}

/* Copies the n biases of a run to the card, one after another. */
static int
put_biases(struct qwen_cuda *c, const struct run *r, size_t from, size_t n,
    struct qwen_err *err)
{
	struct qwen_cuda_weight *out = r->out[from];
	float *all = qwen_alloc(out->n_out, sizeof *all);
	size_t i, at = 0;
	int rc;

	if (all == NULL)
		return qwen_oom(err);
	for (i = from; i < from + n; i++) {
		memcpy(all + at, r->w[i]->bias, r->w[i]->n_out * sizeof *all);
		at += r->w[i]->n_out;
	}
	rc = qwen_cuda_vector(c, &out->bias, all, at, err);
	free(all);
	return rc;
}

/* Copies a weight's rows to those of a joined one, from byte `at' on. */
static int
fill(struct qwen_cuda *c, const struct qwen_cuda_weight *joined,
    const struct qwen_weight *w, uint64_t at, size_t n_matrix,
    struct qwen_err *err)
{
	struct qwen_cuda_weight part = *joined;

	part.of = w;
	part.data += at;
	part.n_matrix = (uint32_t)n_matrix;
	return qwen_cuda_weight_fill(c, &part, err);
}

/* Joins n weights of a run; the first, number `from', has the rows of all. */
static int
join(struct qwen_cuda *c, const struct run *r, size_t from, size_t n,
    struct qwen_err *err)
{
	struct qwen_cuda_weight *out = r->out[from];
	const struct qwen_weight *w = r->w[from];
	uint64_t at = 0;
	size_t i, rows = 0;

	for (i = from; i < from + n; i++) {
		rows += r->w[i]->n_out;
		*r->out[i] = (struct qwen_cuda_weight){ .of = r->w[i] };
	}
	*out = (struct qwen_cuda_weight){ .of = w, .n_in = (uint32_t)w->n_in,
	    .n_out = (uint32_t)rows,
	    .n_matrix = (uint32_t)r->n_matrix + (r->has_more != 0),
	    .row_bytes = qwen_cuda_row_bytes(w) };
	out->matrix_bytes = out->row_bytes * rows;
	out->data = qwen_cuda_own(c, (size_t)(out->matrix_bytes *
	    out->n_matrix));
	if (out->data == 0)
		return qwen_fail(err, QWEN_ENOMEM, "%s has no memory left for "
		    "the model's weights", c->card->name);
	if ((w->bias != NULL && put_biases(c, r, from, n, err) < 0) ||
	    qwen_cuda_lora_put(c, out, w, r->n_matrix, err) < 0)
		return -1;
	for (i = from; i < from + n; i++) {
		if (fill(c, out, r->w[i], at, r->n_matrix, err) < 0)
			return -1;
		if (r->has_more && fill(c, out, r->more[i], at + r->n_matrix *
		    out->matrix_bytes, 1, err) < 0)
			return -1;
		at += r->w[i]->n_out * out->row_bytes;
	}
	return 0;
}

/* Joins what can be joined of neighbours. */
static int
join_run(struct qwen_cuda *c, const struct run *r, struct qwen_err *err)
{
	size_t i, n;

	for (i = 0; i < r->n; i += n) {
		for (n = 1; i + n < r->n && can_join(r->w[i + n - 1],
		    r->w[i + n]);
		    n++)
			;
		if ((n > 1 || r->has_more) && join(c, r, i, n, err) < 0)
			return -1;
	}
	return 0;
}

static void
add(struct run *r, struct qwen_cuda_weight *out, const struct qwen_weight *w)
{
	r->out[r->n] = out;
	r->w[r->n++] = w;
}

/* ---- what a layer has */

int
qwen_cuda_join_mixer(struct qwen_cuda *c, struct qwen_cuda_layer *out,
    const struct qwen_layer *l, struct qwen_err *err)
{
	struct run r = { .n_matrix = 1 };
	size_t i, at = 0;

	if (l->mixer == QWEN_ATTENTION) {
		add(&r, &out->q, &l->attn.q);
		add(&r, &out->k, &l->attn.k);
		add(&r, &out->v, &l->attn.v);
		return join_run(c, &r, err);
	}
	/* pieces in the order of their results */
	for (i = 0; i < l->delta.n_in; i++) {
		if (l->delta.in[i].at != at)
			continue;
		add(&r, &out->in[i], &l->delta.in[i].w);
		at += l->delta.in[i].w.n_out;
		i = SIZE_MAX;	/* from the first piece again */
	}
	return join_run(c, &r, err);
}

static void
add_gate_up(struct run *r, struct qwen_cuda_mlp *out, const struct qwen_mlp *l)
{
	add(r, &out->gate, &l->gate);
	add(r, &out->up, &l->up);
}

/* Do the shared expert's matrices look like those of a routed one? */
static int
is_alike(const struct qwen_moe *m)
{
	return can_join(&m->routed.gate, &m->shared.gate) &&
	    can_join(&m->routed.up, &m->shared.up) &&
	    can_join(&m->routed.down, &m->shared.down) &&
	    m->routed.gate.bias == NULL && m->routed.up.bias == NULL &&
	    m->routed.down.bias == NULL &&
	    m->routed.gate.n_out == m->shared.gate.n_out;
}

static int
join_experts(struct qwen_cuda *c, struct qwen_cuda_layer *out,
    const struct qwen_moe *m, struct qwen_err *err)
{
	struct run r = { .n_matrix = c->r.net->hp.n_expert },
	    down = { .n_matrix = r.n_matrix }, shared = { .n_matrix = 1 };

	add_gate_up(&r, &out->routed, &m->routed);
	if (!is_alike(m)) {
		add_gate_up(&shared, &out->shared, &m->shared);
		return join_run(c, &r, err) < 0 ||
		    join_run(c, &shared, err) < 0 ? -1 : 0;
	}
	add(&down, &out->routed.down, &m->routed.down);
	r.has_more = down.has_more = 1;
	r.more[0] = &m->shared.gate;
	r.more[1] = &m->shared.up;
	down.more[0] = &m->shared.down;
	out->shared.gate.of = &m->shared.gate;
	out->shared.up.of = &m->shared.up;
	out->shared.down.of = &m->shared.down;
	return join_run(c, &r, err) < 0 || join_run(c, &down, err) < 0 ? -1 : 0;
}

int
qwen_cuda_join_ffn(struct qwen_cuda *c, struct qwen_cuda_layer *out,
    const struct qwen_layer *l, struct qwen_err *err)
{
	struct run r = { .n_matrix = 1 };

	if (l->ffn == QWEN_NO_FFN)
		return 0;
	if (l->ffn == QWEN_MLP) {
		add_gate_up(&r, &out->mlp, &l->mlp);
		return join_run(c, &r, err);
	}
	add(&r, &out->router, &l->moe.router);
	add(&r, &out->shared_router, &l->moe.shared_router);
	return join_run(c, &r, err) < 0 ||
	    join_experts(c, out, &l->moe, err) < 0 ? -1 : 0;
}
