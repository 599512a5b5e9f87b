/* SPDX-License-Identifier: ISC */
/* scratch.c - memory of the forward pass, sized once for the largest batch. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/lora.h"

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * Returns a row width that suits the caches. Rows that begin whole pages apart
 * would share few cache sets; 128 bytes more, which a kernel's panel writes of
 * a row, avoid that.
 */
static size_t
apart(size_t width)
{
	width = (width + 31) / 32 * 32;
	return width % 1024 == 0 ? width + 32 : width;
}

/* Returns the width of the rows that hold a mixer's projections. */
static size_t
in_width(const struct qwen_hparams *h)
{
	size_t attn = (2 * h->n_head + 2 * h->n_head_kv) * h->n_embd_head;
	size_t delta = 2 * h->n_head_k * h->dk + 2 * h->n_head_v * h->dv +
	    2 * h->n_head_v;

	return apart(max_size(attn, delta));
}

/* Takes uninitialised memory: pages that are never used are never touched. */
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

/*
 * Takes room for packed rows: of a matrix, of experts' slots, and of a thread.
 */
static void
take_packed(struct qwen_scratch *s, const struct qwen_cpu *c, size_t n,
    size_t nt)
{
	const struct qwen_hparams *h = &c->r.net->hp;
	size_t bytes = c->kernels.pack_bytes, tile = QWEN_PACK_TOKENS;
	size_t groups = max_size(h->n_embd, max_size(s->mix.o_width,
	    s->ffn.width)) / QWEN_GROUP;
	size_t terms = c->r.net->operands[QWEN_AS_TWO_Q8] ? 2 : 1;
	size_t tiles = (terms * n + tile - 1) / tile;
	size_t own = (QWEN_TOKEN_CHUNK + tile - 1) / tile;

	if (bytes == 0)
		return;
	if (own > tiles)
		own = tiles;
	s->thread.packed_bytes = own * groups * bytes;
	take(s, &s->thread.packed, nt, s->thread.packed_bytes);
	tiles *= groups;
	if (h->n_expert > 0)
		tiles = max_size(tiles, (terms * s->slots / tile +
		    h->n_expert + 2) * (s->ffn.width / QWEN_GROUP));
	take(s, &s->packed, tiles, bytes);
}

static void
take_mixer(struct qwen_scratch *s, const struct qwen_cpu *c, size_t n,
    size_t n_share)
{
	const struct qwen_hparams *h = &c->r.net->hp;

	s->mix.in_width = in_width(h);
	s->mix.o_width = max_size(h->n_head * h->n_embd_head,
	    h->n_head_v * h->dv);
	if (c->r.net->mtp.on)	/* what goes into proj */
		s->mix.o_width = max_size(s->mix.o_width, 2 * h->n_embd);
	take(s, &s->mix.in, n * s->mix.in_width, sizeof *s->mix.in);
	take(s, &s->mix.o, n * s->mix.o_width, sizeof *s->mix.o);
	take(s, &s->mix.oq, n * QWEN_Q8_GROUPS(s->mix.o_width), c->x_bytes);
	take(s, &s->attn.cos, n * h->n_rot / 2, sizeof *s->attn.cos);
	take(s, &s->attn.sin, n * h->n_rot / 2, sizeof *s->attn.sin);
	take(s, &s->attn.share, n_share, sizeof *s->attn.share);
}

static void
take_ffn(struct qwen_scratch *s, const struct qwen_cpu *c, size_t n)
{
	const struct qwen_hparams *h = &c->r.net->hp;
	size_t k = s->slots;

	s->ffn.width = apart(max_size(h->n_ff, max_size(h->n_ff_exp,
	    h->n_ff_shexp)));
	take(s, &s->moe.router, n * (h->n_expert + 1), sizeof *s->moe.router);
	take(s, &s->moe.expert, k, sizeof *s->moe.expert);
	take(s, &s->moe.weight, k, sizeof *s->moe.weight);
	take(s, &s->moe.slot, k, sizeof *s->moe.slot);
	take(s, &s->moe.first, h->n_expert + 2, sizeof *s->moe.first);
	take(s, &s->moe.active, h->n_expert + 1, sizeof *s->moe.active);
	take(s, &s->ffn.gate, k * s->ffn.width, sizeof *s->ffn.gate);
	take(s, &s->ffn.up, k * s->ffn.width, sizeof *s->ffn.up);
	take(s, &s->ffn.q, k * QWEN_Q8_GROUPS(s->ffn.width), c->x_bytes);
}

/*
 * Adapters' sets among products that share an input: at most four in
 * deltanet.c.
 */
enum { LOW_SETS = 4 };

/*
 * The least row pointers of a thread: those of two threads share no cache line.
 */
enum { SLOTS_MIN = 64 };

static void
take_all(struct qwen_scratch *s, const struct qwen_cpu *c, size_t n,
    size_t n_share)
{
	const struct qwen_net *net = c->r.net;
	const struct qwen_hparams *h = &net->hp;
	size_t nt = (size_t)qwen_pool_threads(c->pool);
	size_t tile = max_size(QWEN_TOKEN_CHUNK * QWEN_ROW_CHUNK_MANY,
	    QWEN_ATTN_WORK(h->n_embd_head));
	size_t k = max_size(n * (h->n_expert_used + 1), SLOTS_MIN);

	s->slots = k;
	s->out_width = apart(h->n_embd);
	take(s, &s->x, n * h->n_embd, sizeof *s->x);
	take(s, &s->xn, n * h->n_embd, sizeof *s->xn);
	take(s, &s->xq, n * QWEN_Q8_GROUPS(h->n_embd), c->x_bytes);
	take(s, &s->out, n * s->out_width, sizeof *s->out);
	take(s, &s->wanted, n, sizeof *s->wanted);
	take_mixer(s, c, n, n_share);
	take_ffn(s, c, n);
	take(s, &s->thread.tile, nt * tile, sizeof *s->thread.tile);
	if (net->operands[QWEN_AS_TWO_Q8])
		take(s, &s->thread.second, nt * QWEN_TOKEN_CHUNK / 2,
		    QWEN_ROW_CHUNK_MANY * sizeof *s->thread.second);
	take_packed(s, c, n, nt);
	take(s, &s->thread.xp, nt * k, sizeof *s->thread.xp);
	take(s, &s->thread.yp, nt * k, sizeof *s->thread.yp);
	s->low.width = qwen_loras_width(net);
	if (s->low.width > 0)
		take(s, &s->low.v, max_size(n * LOW_SETS, 2 * k),
		    s->low.width * sizeof *s->low.v);
}

/* Takes the part that grows with the length of a session. */
static int
fit_part(struct qwen_scratch *s, const struct qwen_hparams *h, size_t n_part,
    struct qwen_err *err)
{
	free(s->attn.part);
	s->attn.cap_part = 0;
	s->attn.part = qwen_alloc_large(n_part * (h->n_embd_head + 2),
	    sizeof *s->attn.part);
	if (s->attn.part == NULL)
		return qwen_oom(err);
	s->attn.cap_part = n_part;
	return 0;
}

/*
 * Returns the rows of part with some to spare, so that decoding seldom grows
 * it.
 */
static size_t
partials(const struct qwen_hparams *h, size_t n_share, size_t end)
{
	size_t n = qwen_attention_partials(h, n_share, end);

	return n + n / 2;
}

uint64_t
qwen_scratch_bytes(const struct qwen_resident *r, size_t n, size_t n_share,
    size_t end)
{
	struct qwen_scratch s = { .count_only = 1 };

	take_all(&s, (const struct qwen_cpu *)(const void *)r, n, n_share);
	take(&s, &s.attn.part, partials(&r->net->hp, n_share, end) *
	    (r->net->hp.n_embd_head + 2), sizeof *s.attn.part);
	return s.failed ? UINT64_MAX : s.bytes;
}

int
qwen_scratch_new(struct qwen_work **out, struct qwen_resident *r,
    struct qwen_err *err)
{
	struct qwen_scratch *s = qwen_alloc(1, sizeof *s);

	*out = NULL;
	if (s == NULL)
		return qwen_oom(err);
	s->work.r = r;
	*out = &s->work;
	return 0;
}

static void
empty(struct qwen_scratch *s)
{
	struct qwen_work work = s->work;

	while (s->n_owned > 0)
		free(s->owned[--s->n_owned]);
	free(s->attn.part);
	memset(s, 0, sizeof *s);
	s->work = work;
}

void
qwen_scratch_free(struct qwen_work *w)
{
	empty((struct qwen_scratch *)(void *)w);
	free(w);
}

int
qwen_scratch_fit(struct qwen_work *w, size_t n, size_t n_share, size_t end,
    struct qwen_err *err)
{
	struct qwen_scratch *s = (struct qwen_scratch *)(void *)w;
	const struct qwen_hparams *h = &w->r->net->hp;
	size_t n_part = qwen_attention_partials(h, n_share, end);

	n_part = n_part <= s->attn.cap_part ? s->attn.cap_part :
	    partials(h, n_share, end);
	if (n <= s->cap && n_share <= s->cap_share)
		return n_part == s->attn.cap_part ? 0 :
		    fit_part(s, h, n_part, err);
	n = max_size(n, s->cap);
	n_share = max_size(n_share, s->cap_share);
	empty(s);
	take_all(s, (struct qwen_cpu *)(void *)w->r, n, n_share);
	if (s->failed || fit_part(s, h, n_part, err) < 0) {
		empty(s);
		return qwen_fail(err, QWEN_ENOMEM,
		    "out of memory for a batch of %zu tokens", n);
	}
	s->cap = n;
	s->cap_share = n_share;
	return 0;
}
