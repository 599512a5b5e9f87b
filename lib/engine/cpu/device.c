/* SPDX-License-Identifier: ISC */
/* device.c - the CPU as a device: struct qwen_device. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cpu/cpu.h"
#include "engine/cpu/describe.h"
#include "engine/cpu/forward.h"
#include "engine/cpu/lora.h"
#include "engine/cpu/tune.h"
#include "engine/engine.h"

static struct qwen_cpu *
cpu_of(const struct qwen_resident *r)
{
	return (struct qwen_cpu *)(uintptr_t)r;
}

/*
 * Places the quantized forms that the weights take in a group of activations.
 */
static void
place_operands(struct qwen_cpu *c)
{
	static const size_t bytes[QWEN_OPERANDS] = {
		[QWEN_AS_Q8] = sizeof(struct qwen_q8),
		[QWEN_AS_BF16] = QWEN_GROUP * sizeof(uint16_t),
		[QWEN_AS_TWO_Q8] = 2 * sizeof(struct qwen_q8),
	};
	size_t i;

	for (i = 0; i < QWEN_OPERANDS; i++) {
		c->x_at[i] = c->x_bytes;
		c->x_bytes += c->r.net->operands[i] ? bytes[i] : 0;
	}
}

static int
cpu_open(struct qwen_resident **out, struct qwen_engine *e,
    const struct qwen_net *net, unsigned char *home, size_t index,
    const struct qwen_wish *wish, struct qwen_err *err)
{
	struct qwen_cpu *c = qwen_alloc(1, sizeof *c);
	struct qwen_tuning t = { .features = e->features, .used = net->used,
	    .path = e->tuning };

	(void)wish;
	*out = NULL;
	if (c == NULL)
		return qwen_oom(err);
	c->r = (struct qwen_resident){ .dev = &qwen_cpu_device, .net = net,
	    .home = home, .index = index };
	c->pool = e->pool;
	qwen_kernels_init(&c->kernels, e->features, net->numerics);
	place_operands(c);
	/* formats of the weights alone get scratch memory */
	qwen_kernels_packing(&c->kernels, net->used);
	t.k = &c->kernels;
	if (e->tuning != NULL)
		qwen_tune(&t);
	*out = &c->r;
	return 0;
}

static void
cpu_close(struct qwen_resident *r)
{
	struct qwen_cpu *c = cpu_of(r);

	qwen_profile_set(&c->profile, 0, 0);
	free(c);
}

static int
cpu_profile(struct qwen_resident *r, int on)
{
	struct qwen_cpu *c = cpu_of(r);

	return qwen_profile_set(&c->profile, on, qwen_pool_threads(c->pool));
}

/* ------------------------------------------------------------------- a pass */

static struct qwen_batch
batch_of(struct qwen_work *w, const struct qwen_pass *p)
{
	struct qwen_cpu *c = cpu_of(w->r);
	struct qwen_scratch *s = (struct qwen_scratch *)(void *)w;

	assert(p->n <= s->cap && p->n_share <= s->cap_share);
	return (struct qwen_batch){ .cpu = c, .net = w->r->net,
	    .hp = &w->r->net->hp, .vec = c->kernels.vec->run.vec, .s = s,
	    .pass = p, .share = p->share, .n = p->n, .n_wanted = p->n };
}

/* Reads the token's row of an embedding, with what adapters add to it. */
static void
read_embedding(const struct qwen_batch *b, const struct qwen_weight *w,
    size_t t, float *x)
{
	size_t id = (size_t)b->pass->row[t].id;

	qwen_quant_dequantize(w->quant->type, w->data + id * w->row_bytes, x,
	    b->hp->n_embd, NULL);
	if (w->lora != NULL)
		qwen_lora_embed(b, w, id, x, b->s->low.v +
		    t * b->s->low.width);
}

static void
embed(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_input *in = &b->pass->row[t];
	float *x = b->s->x + t * b->hp->n_embd;

	(void)arg;
	if (in->vec != NULL)
		memcpy(x, in->vec, b->hp->n_embd * sizeof *x);
	else
		read_embedding(b, &b->net->token_embd, t, x);
}

static void
cpu_embed(struct qwen_work *w, const struct qwen_pass *p)
{
	struct qwen_batch b = batch_of(w, p);

	qwen_each_token(&b, QWEN_STAGE_EMBED, embed, NULL, b.hp->n_embd);
	b.s->pending = 0;
	qwen_see(&b, QWEN_TRACE_EMBED, 0, b.s->x, b.hp->n_embd);
}

/*
 * Makes the input of proj: the normed embedding, then the normed hidden state.
 */
static void
join(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_mtp *m = &b->net->mtp;
	const struct qwen_input *in = &b->pass->row[t];
	struct qwen_scratch *s = b->s;
	size_t n = b->hp->n_embd;
	float *x = s->mix.o + t * s->mix.o_width;

	(void)arg;
	memset(x, 0, 2 * n * sizeof *x);
	if (in->embd != NULL)
		memcpy(x, in->embd, n * sizeof *x);
	else if (in->id >= 0)
		read_embedding(b, &m->embd, t, x);
	if (in->embd != NULL || in->id >= 0)
		b->vec->rmsnorm(x, x, m->embd_norm, n, b->hp->eps);
	if (in->vec != NULL)
		b->vec->rmsnorm(x + n, in->vec, m->hidden_norm, n, b->hp->eps);
	if (qwen_wants_operand(&m->proj))
		qwen_make_operands(b, s->mix.oq, s->mix.o_width, t, x, 2 * n);
}

static void
cpu_join(struct qwen_work *w, const struct qwen_pass *p)
{
	struct qwen_batch b = batch_of(w, p);
	struct qwen_scratch *s = b.s;
	size_t n = b.hp->n_embd, layer = b.net->mtp.layer.index;
	struct qwen_linear proj = { &b.net->mtp.proj, s->x, n, NULL };

	qwen_each_token(&b, QWEN_STAGE_EMBED, join, NULL, 3 * n);
	qwen_linears(&b, &proj, 1, s->mix.o, s->mix.o_width, s->mix.oq, NULL,
	    b.n);
	s->pending = 0;
	qwen_see(&b, QWEN_TRACE_ENORM, layer, s->mix.o, s->mix.o_width);
	qwen_see(&b, QWEN_TRACE_HNORM, layer, s->mix.o + n, s->mix.o_width);
	qwen_see(&b, QWEN_TRACE_EH_PROJ, layer, s->x, n);
}

static void
cpu_put(struct qwen_work *w, const struct qwen_pass *p, const float *x)
{
	struct qwen_batch b = batch_of(w, p);

	memcpy(b.s->x, x, b.n * b.hp->n_embd * sizeof *x);
	b.s->pending = 0;
}

static void
cpu_get(struct qwen_work *w, const struct qwen_pass *p, float *x)
{
	struct qwen_batch b = batch_of(w, p);
	struct qwen_scratch *s = b.s;
	size_t t, i, n = b.hp->n_embd;

	memcpy(x, s->x, b.n * n * sizeof *x);
	for (t = 0; s->pending && t < b.n; t++) {
		for (i = 0; i < n; i++)
			x[t * n + i] += s->out[t * s->out_width + i];
	}
}

static void
cpu_run(struct qwen_work *w, struct qwen_pass *p, size_t first, size_t n)
{
	struct qwen_batch b = batch_of(w, p);

	qwen_batch_layers(&b, p, first, n);
}

/* Tells the hook of the layers' result, its norm, and the head's input. */
static void
see_end(const struct qwen_batch *b, enum qwen_head head)
{
	const struct qwen_net *net = b->net;
	const struct qwen_layer *l = head == QWEN_HEAD_OUTPUT ?
	    &net->layer[net->hp.n_layer - 1] : &net->mtp.layer;
	const struct qwen_weight *w = head == QWEN_HEAD_OUTPUT ?
	    &net->output : &net->mtp.head;
	size_t n = b->hp->n_embd;

	qwen_see(b, l->ffn != QWEN_NO_FFN ? QWEN_TRACE_RESIDUAL :
	    QWEN_TRACE_MIXER_RESIDUAL, l->index, b->s->x, n);
	if (head == QWEN_HEAD_OUTPUT)
		qwen_see(b, QWEN_TRACE_NORM, 0, b->s->xn, n);
	else
		qwen_see(b, QWEN_TRACE_HEAD_NORM, l->index, b->s->xn, n);
	/* a head that the trunk shares is measured by what that makes of it */
	if (head == QWEN_HEAD_OUTPUT || w->data != net->output.data)
		qwen_see_inputs(b, &w, 1, b->s->xn, n, NULL, b->n);
}

static void
cpu_norm(struct qwen_work *w, const struct qwen_pass *p, enum qwen_head head,
    float *hidden)
{
	struct qwen_batch b = batch_of(w, p);
	const struct qwen_net *net = b.net;

	if (head == QWEN_HEAD_OUTPUT)
		qwen_batch_norm(&b, net->output_norm,
		    QWEN_PLACE_FFN(net->hp.n_layer - 1));
	else
		qwen_batch_norm(&b, net->mtp.norm,
		    QWEN_PLACE_FFN(net->mtp.layer.index));
	if (p->see != NULL)
		see_end(&b, head);
	if (hidden != NULL)
		memcpy(hidden, b.s->xn, b.n * b.hp->n_embd * sizeof *hidden);
}

static void
cpu_head(struct qwen_work *w, const struct qwen_pass *p, enum qwen_head head,
    const uint32_t *at, size_t n, float *const *y)
{
	struct qwen_batch b = batch_of(w, p);
	const struct qwen_net *net = b.net;
	struct qwen_weight part[2];
	struct qwen_linear lin[2] = { { head == QWEN_HEAD_OUTPUT ?
	    &net->output : &net->mtp.head, NULL, 0, y } };
	size_t n_lin = 1, first, last;

	if (head == QWEN_HEAD_DRAFT) {
		last = qwen_draft_rows(net, &first) - first;
		part[0] = qwen_weight_rows(&net->mtp.head, 0, first);
		part[1] = qwen_weight_rows(&net->mtp.head,
		    b.hp->n_vocab - last, last);
		assert(n == 1);
		lin[0] = (struct qwen_linear){ &part[0], y[0], 0, NULL };
		lin[1] = (struct qwen_linear){ &part[1], y[0] + first, 0, NULL };
		n_lin = last > 0 ? 2 : 1;
	}
	qwen_linears(&b, lin, n_lin, b.s->xn, b.hp->n_embd, b.s->xq, at, n);
}

const struct qwen_device qwen_cpu_device = {
	.name = "cpu", .open = cpu_open, .close = cpu_close,
	.work_new = qwen_scratch_new, .work_free = qwen_scratch_free,
	.fit = qwen_scratch_fit, .bytes = qwen_scratch_bytes,
	.embed = cpu_embed, .join = cpu_join, .put = cpu_put, .get = cpu_get,
	.run = cpu_run, .norm = cpu_norm, .head = cpu_head,
	.replay = qwen_deltanet_replay,
	.profile = cpu_profile, .stats = qwen_cpu_stats,
	.describe = qwen_cpu_describe,
};
