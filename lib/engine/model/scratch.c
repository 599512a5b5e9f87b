/* SPDX-License-Identifier: ISC */
/* scratch.c - memory of the forward pass, sized once for the largest batch. */
#include <assert.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/forward.h"
#include "engine/model/lora.h"

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * A width of rows that lie apart in the caches: where they begin whole pages
 * apart, those of hundreds of tokens share few sets of them.  128 bytes more
 * are what a panel of a kernel writes of a row.
 */
static size_t
apart(size_t width)
{
	width = (width + 31) / 32 * 32;
	return width % 1024 == 0 ? width + 32 : width;
}

/* Width of the rows that hold a mixer's projections. */
static size_t
in_width(const struct qwen_model *m)
{
	const struct qwen_hparams *h = &m->net.hp;
	size_t attn = (2 * h->n_head + 2 * h->n_head_kv) * h->n_embd_head;
	size_t delta = 2 * h->n_head_k * h->dk + 2 * h->n_head_v * h->dv +
	    2 * h->n_head_v;

	return apart(max_size(attn, delta));
}

/* Uninitialised memory: pages that are never used are never touched. */
static void
take(struct qwen_scratch *s, void *pp, size_t n, size_t size)
{
	void *p;
	size_t bytes;

	if (s->count_only) {
		if (qwen_mul(n, size, &bytes) < 0 ||
		    qwen_add(s->bytes, bytes, &s->bytes) < 0)
			s->failed = 1;
		return;
	}
	p = qwen_alloc_large(n, size);
	assert(s->n_owned < QWEN_SCRATCH_MAX);
	s->owned[s->n_owned++] = p;
	s->failed |= p == NULL;
	memcpy(pp, &p, sizeof p);
}

void
qwen_scratch_free(struct qwen_scratch *s)
{
	while (s->n_owned > 0)
		free(s->owned[--s->n_owned]);
	free(s->part);
	free(s->shares);
	free(s->progress);
	memset(s, 0, sizeof *s);
}

/* Packed tokens: those of a matrix, of experts' slots, and of a thread's own. */
static void
take_packed(struct qwen_scratch *s, const struct qwen_model *m, size_t n,
    size_t nt)
{
	const struct qwen_hparams *h = &m->net.hp;
	size_t bytes = m->kernels.pack_bytes, tile = QWEN_PACK_TOKENS;
	size_t groups = max_size(h->n_embd, max_size(s->o_width,
	    s->ff_width)) / QWEN_GROUP;
	size_t terms = m->net.operands[QWEN_AS_TWO_Q8] ? 2 : 1;
	size_t tiles = (terms * n + tile - 1) / tile;
	size_t own = (QWEN_TOKEN_CHUNK + tile - 1) / tile;

	if (bytes == 0)
		return;
	if (own > tiles)
		own = tiles;
	s->own_bytes = own * groups * bytes;
	take(s, &s->own, nt, s->own_bytes);
	tiles *= groups;
	if (h->n_expert > 0)
		tiles = max_size(tiles, (terms * s->slots / tile +
		    h->n_expert + 2) *
		    (s->ff_width / QWEN_GROUP));
	take(s, &s->packed, tiles, bytes);
}

/* Products that share an input: deltanet.c has that many; experts have two. */
enum { LOW_SETS = 4 };

static void
take_all(struct qwen_scratch *s, const struct qwen_model *m, size_t n, int all)
{
	const struct qwen_hparams *h = &m->net.hp;
	size_t nt = (size_t)qwen_pool_threads(m->pool);
	size_t tile = max_size(QWEN_TOKEN_CHUNK * QWEN_ROW_CHUNK,
	    QWEN_ATTN_WORK(h->n_embd_head));
	size_t k = max_size(n * (h->n_expert_used + 1), QWEN_HEAD_ROWS);

	s->slots = k;
	take(s, &s->x, n * h->n_embd, sizeof *s->x);
	take(s, &s->xn, n * h->n_embd, sizeof *s->xn);
	take(s, &s->xq, n * QWEN_Q8_GROUPS(h->n_embd), m->x_bytes);
	take(s, &s->out, n * s->out_width, sizeof *s->out);
	take(s, &s->in, n * s->in_width, sizeof *s->in);
	take(s, &s->o, n * s->o_width, sizeof *s->o);
	take(s, &s->oq, n * QWEN_Q8_GROUPS(s->o_width), m->x_bytes);
	take(s, &s->cos, n * h->n_rot / 2, sizeof *s->cos);
	take(s, &s->sin, n * h->n_rot / 2, sizeof *s->sin);
	take(s, &s->router, n * (h->n_expert + 1), sizeof *s->router);
	take(s, &s->expert, k, sizeof *s->expert);
	take(s, &s->weight, k, sizeof *s->weight);
	take(s, &s->slot, k, sizeof *s->slot);
	take(s, &s->first, h->n_expert + 2, sizeof *s->first);
	take(s, &s->active, h->n_expert + 1, sizeof *s->active);
	take(s, &s->gate, k * s->ff_width, sizeof *s->gate);
	take(s, &s->up, k * s->ff_width, sizeof *s->up);
	take(s, &s->hq, k * QWEN_Q8_GROUPS(s->ff_width), m->x_bytes);
	take(s, &s->tile, nt * tile, sizeof *s->tile);
	if (m->net.operands[QWEN_AS_TWO_Q8])
		take(s, &s->second, nt * QWEN_TOKEN_CHUNK / 2,
		    QWEN_ROW_CHUNK_MANY * sizeof *s->second);
	take_packed(s, m, n, nt);
	take(s, &s->owner, n, sizeof *s->owner);
	take(s, &s->wanted, n, sizeof *s->wanted);
	take(s, &s->yrow, n, sizeof *s->yrow);
	take(s, &s->xp, nt * k, sizeof *s->xp);
	take(s, &s->yp, nt * k, sizeof *s->yp);
	if (m->net.mtp.on)
		take(s, &s->draft, qwen_draft_rows(m), sizeof *s->draft);
	s->low_width = qwen_loras_width(&m->net);
	if (s->low_width > 0)
		take(s, &s->low, max_size(n * LOW_SETS, 2 * k), s->low_width *
		    sizeof *s->low);
	if (all)
		take(s, &s->logits, QWEN_HEAD_ROWS * h->n_vocab,
		    sizeof *s->logits);
}

/* Of all, what grows with a timeline. */
static int
fit_part(struct qwen_scratch *s, const struct qwen_model *m, size_t n_partial,
    struct qwen_err *err)
{
	free(s->part);
	s->part = NULL;
	s->cap_partial = 0;
	s->part = qwen_alloc_large(n_partial * (m->net.hp.n_embd_head + 2),
	    sizeof *s->part);
	if (s->part == NULL)
		return qwen_oom(err);
	s->cap_partial = n_partial;
	return 0;
}

static void
set_widths(struct qwen_scratch *s, const struct qwen_model *m)
{
	const struct qwen_hparams *h = &m->net.hp;

	s->in_width = in_width(m);
	s->o_width = max_size(h->n_head * h->n_embd_head,
	    h->n_head_v * h->dv);
	if (m->net.mtp.on)	/* what goes into proj */
		s->o_width = max_size(s->o_width, 2 * h->n_embd);
	s->ff_width = apart(max_size(h->n_ff, max_size(h->n_ff_exp,
	    h->n_ff_shexp)));
	s->out_width = apart(h->n_embd);
}

uint64_t
qwen_scratch_bytes(const struct qwen_model *m, size_t n, size_t n_partial,
    int all)
{
	struct qwen_scratch s = { .count_only = 1 };

	set_widths(&s, m);
	take_all(&s, m, n, all);
	/* what fit_part() takes at first */
	take(&s, &s.part, (n_partial + n_partial / 2) *
	    (m->net.hp.n_embd_head + 2), sizeof *s.part);
	return s.failed ? UINT64_MAX : s.bytes;
}

int
qwen_scratch_fit(struct qwen_scratch *s, const struct qwen_model *m, size_t n,
    size_t n_partial, int all, struct qwen_err *err)
{
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
	set_widths(s, m);
	take_all(s, m, n, all);
	if (s->failed || fit_part(s, m, n_partial, err) < 0) {
		qwen_scratch_free(s);
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	}
	s->cap = n;
	return 0;
}
