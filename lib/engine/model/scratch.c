/* SPDX-License-Identifier: ISC */
/* scratch.c - memory of the forward pass, sized once for the largest batch. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/forward.h"

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Width of the rows that hold a mixer's projections. */
static size_t
in_width(const struct qwen_model *m)
{
	const struct qwen_hparams *h = &m->hp;
	size_t attn = (2 * h->n_head + 2 * h->n_head_kv) * h->n_embd_head;
	size_t delta = 2 * h->n_head_k * h->dk + 2 * h->n_head_v * h->dv +
	    2 * h->n_head_v;

	return (max_size(attn, delta) + 15) / 16 * 16;
}

/* Uninitialised memory: pages that are never used are never touched. */
static int
take(void *pp, size_t n, size_t size)
{
	void *p = qwen_alloc_large(n, size);

	if (p == NULL)
		return -1;
	memcpy(pp, &p, sizeof p);
	return 0;
}

void
qwen_scratch_free(struct qwen_scratch *s)
{
	free(s->x);
	free(s->xn);
	free(s->xq);
	free(s->out);
	free(s->in);
	free(s->o);
	free(s->oq);
	free(s->cos);
	free(s->sin);
	free(s->router);
	free(s->expert);
	free(s->weight);
	free(s->slot);
	free(s->first);
	free(s->active);
	free(s->gate);
	free(s->up);
	free(s->hq);
	free(s->tile);
	free(s->part);
	free(s->owner);
	free(s->wanted);
	free(s->yrow);
	free(s->logits);
	free(s->xp);
	free(s->yp);
	free(s->shares);
	free(s->progress);
	memset(s, 0, sizeof *s);
}

static int
take_all(struct qwen_scratch *s, const struct qwen_model *m, size_t n,
    size_t n_partial, int all)
{
	const struct qwen_hparams *h = &m->hp;
	size_t nt = (size_t)qwen_pool_threads(m->pool);
	size_t tile = max_size(QWEN_TOKEN_CHUNK * QWEN_ROW_CHUNK,
	    QWEN_ATTN_WORK(h->n_embd_head));

	s->slots = max_size(n * (h->n_expert_used + 1), QWEN_HEAD_ROWS);
	return take(&s->x, n * h->n_embd, sizeof *s->x) < 0 ||
	    take(&s->xn, n * h->n_embd, sizeof *s->xn) < 0 ||
	    take(&s->xq, n * QWEN_Q8_GROUPS(h->n_embd), m->x_bytes) < 0 ||
	    take(&s->out, n * h->n_embd, sizeof *s->out) < 0 ||
	    take(&s->in, n * s->in_width, sizeof *s->in) < 0 ||
	    take(&s->o, n * s->o_width, sizeof *s->o) < 0 ||
	    take(&s->oq, n * QWEN_Q8_GROUPS(s->o_width), m->x_bytes) < 0 ||
	    take(&s->cos, n * h->n_rot / 2, sizeof *s->cos) < 0 ||
	    take(&s->sin, n * h->n_rot / 2, sizeof *s->sin) < 0 ||
	    take(&s->router, n * (h->n_expert + 1), sizeof *s->router) < 0 ||
	    take(&s->expert, s->slots, sizeof *s->expert) < 0 ||
	    take(&s->weight, s->slots, sizeof *s->weight) < 0 ||
	    take(&s->slot, s->slots, sizeof *s->slot) < 0 ||
	    take(&s->first, h->n_expert + 2, sizeof *s->first) < 0 ||
	    take(&s->active, h->n_expert + 1, sizeof *s->active) < 0 ||
	    take(&s->gate, s->slots * s->ff_width, sizeof *s->gate) < 0 ||
	    take(&s->up, s->slots * s->ff_width, sizeof *s->up) < 0 ||
	    take(&s->hq, s->slots * QWEN_Q8_GROUPS(s->ff_width),
	    m->x_bytes) < 0 ||
	    take(&s->tile, nt * tile, sizeof *s->tile) < 0 ||
	    take(&s->part, n_partial * (h->n_embd_head + 2),
	    sizeof *s->part) < 0 ||
	    take(&s->owner, n, sizeof *s->owner) < 0 ||
	    take(&s->wanted, n, sizeof *s->wanted) < 0 ||
	    take(&s->yrow, n, sizeof *s->yrow) < 0 ||
	    (all && take(&s->logits, QWEN_HEAD_ROWS * h->n_vocab,
	    sizeof *s->logits) < 0) ||
	    take(&s->xp, nt * s->slots, sizeof *s->xp) < 0 ||
	    take(&s->yp, nt * s->slots, sizeof *s->yp) < 0 ? -1 : 0;
}

/* A timeline has grown: nothing else has to. */
static int
fit_part(struct qwen_scratch *s, const struct qwen_model *m, size_t n_partial,
    struct qwen_err *err)
{
	free(s->part);
	s->part = NULL;
	s->cap_partial = 0;
	if (take(&s->part, n_partial * (m->hp.n_embd_head + 2),
	    sizeof *s->part) < 0)
		return qwen_oom(err);
	s->cap_partial = n_partial;
	return 0;
}

int
qwen_scratch_fit(struct qwen_scratch *s, const struct qwen_model *m, size_t n,
    size_t n_partial, int all, struct qwen_err *err)
{
	const struct qwen_hparams *h = &m->hp;

	if (n_partial <= s->cap_partial)
		n_partial = s->cap_partial;
	else
		n_partial += n_partial / 2;
	if (n <= s->cap && (!all || s->logits != NULL))
		return n_partial == s->cap_partial ? 0 :
		    fit_part(s, m, n_partial, err);
	all = all || s->logits != NULL;
	n = max_size(n, s->cap);
	qwen_scratch_free(s);
	s->in_width = in_width(m);
	s->o_width = max_size(h->n_head * h->n_embd_head,
	    h->n_head_v * h->dv);
	s->ff_width = max_size(h->n_ff, max_size(h->n_ff_exp, h->n_ff_shexp));
	if (take_all(s, m, n, n_partial, all) < 0) {
		qwen_scratch_free(s);
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	}
	s->cap = n;
	s->cap_partial = n_partial;
	return 0;
}
