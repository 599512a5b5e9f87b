/* SPDX-License-Identifier: ISC */
/* load.c - a model's weights on the card, layer by layer. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cuda/layout.h"
#include "engine/cuda/load.h"
#include "engine/cuda/lora.h"

cu_ptr
qwen_cuda_own(struct qwen_cuda *c, size_t bytes)
{
	cu_ptr p;

	if (qwen_grow(&c->owned, &c->cap_owned, c->n_owned + 1,
	    sizeof *c->owned) < 0 || (p = qwen_cuda_alloc(c->card, bytes)) == 0)
		return 0;
	c->owned[c->n_owned++] = p;
	return p;
}

/* Says that the card has no room, or has failed. */
static int
fail_memory(const struct qwen_cuda *c, struct qwen_err *err)
{
	if (qwen_cuda_check(c->card, err) < 0)
		return -1;
	return qwen_fail(err, QWEN_ENOMEM, "%s has no memory left for the "
	    "model's weights", c->card->name);
}

int
qwen_cuda_vector(struct qwen_cuda *c, cu_ptr *out, const float *p, size_t n,
    struct qwen_err *err)
{
	*out = 0;
	if (p == NULL)
		return 0;
	if ((*out = qwen_cuda_own(c, n * sizeof *p)) == 0)
		return fail_memory(c, err);
	qwen_cuda_put(c->card, *out, p, n * sizeof *p);
	return 0;
}

/* ---------------------------------------------------------- what a layer has */

typedef int weight_fn(void *arg, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix);

static int
each_of_mlp(struct qwen_cuda_mlp *out, const struct qwen_mlp *m, size_t n,
    weight_fn *fn, void *arg)
{
	return fn(arg, &out->gate, &m->gate, n) < 0 ||
	    fn(arg, &out->up, &m->up, n) < 0 ||
	    fn(arg, &out->down, &m->down, n) < 0 ? -1 : 0;
}

static int
each_of_mixer(struct qwen_cuda_layer *out, const struct qwen_layer *l,
    weight_fn *fn, void *arg)
{
	size_t i;

	if (l->mixer == QWEN_ATTENTION)
		return fn(arg, &out->q, &l->attn.q, 1) < 0 ||
		    fn(arg, &out->k, &l->attn.k, 1) < 0 ||
		    fn(arg, &out->v, &l->attn.v, 1) < 0 ||
		    fn(arg, &out->output, &l->attn.output, 1) < 0 ? -1 : 0;
	for (i = 0; i < l->delta.n_in; i++) {
		if (fn(arg, &out->in[i], &l->delta.in[i].w, 1) < 0)
			return -1;
	}
	return fn(arg, &out->out, &l->delta.out, 1);
}

/* Calls fn for each weight of half a layer, and its place on the card. */
static int
each_weight(struct qwen_cuda_layer *out, const struct qwen_net *net,
    size_t half, weight_fn *fn, void *arg)
{
	const struct qwen_hparams *h = &net->hp;
	const struct qwen_layer *l = qwen_net_layer(net, half / 2);

	if (half == QWEN_MIXER(h->n_layer) && fn(arg, &out->proj,
	    &net->mtp.proj, 1) < 0)
		return -1;
	if (half % 2 == 0)
		return each_of_mixer(out, l, fn, arg);
	if (l->ffn == QWEN_MLP)
		return each_of_mlp(&out->mlp, &l->mlp, 1, fn, arg);
	if (l->ffn == QWEN_NO_FFN)
		return 0;
	return fn(arg, &out->router, &l->moe.router, 1) < 0 ||
	    each_of_mlp(&out->routed, &l->moe.routed, h->n_expert, fn,
	    arg) < 0 || (h->n_ff_shexp > 0 && (fn(arg, &out->shared_router,
	    &l->moe.shared_router, 1) < 0 || each_of_mlp(&out->shared,
	    &l->moe.shared, 1, fn, arg) < 0)) ? -1 : 0;
}

/* Places that each_weight passes to its function when nothing is loaded. */
struct nothing {
	struct qwen_cuda_layer	layer;
	struct qwen_cuda_weight	in[QWEN_DELTA_PIECES_MAX];
};

static int
check_weight(void *arg, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix)
{
	(void)arg;
	(void)out;
	(void)n_matrix;
	return w->data == NULL || qwen_cuda_can_multiply(w) ? 0 : -1;
}

static int
add_bytes(void *arg, struct qwen_cuda_weight *out, const struct qwen_weight *w,
    size_t n_matrix)
{
	uint64_t *sum = arg;

	(void)out;
	*sum += w->data != NULL ? qwen_cuda_weight_bytes(w, n_matrix) : 0;
	return 0;
}

/* Calls fn for the weights of a half or of the head; nothing is filled in. */
static int
look_at(const struct qwen_net *net, size_t half, weight_fn *fn, void *arg)
{
	struct nothing *n;
	int rc;

	if (half == QWEN_HEAD(net->hp.n_layer))
		return fn(arg, NULL, &net->output, 1);
	if ((n = qwen_alloc(1, sizeof *n)) == NULL)
		return -1;
	n->layer.in = n->in;
	rc = each_weight(&n->layer, net, half, fn, arg);
	free(n);
	return rc;
}

int
qwen_cuda_can(const struct qwen_net *net, size_t half)
{
	if (half == QWEN_MIXER(net->hp.n_layer) &&
	    !qwen_cuda_can_multiply(&net->mtp.head))
		return 0;
	return look_at(net, half, check_weight, NULL) == 0;
}

int
qwen_cuda_shares_head(const struct qwen_resident *r)
{
	return qwen_cuda_has(r, QWEN_HEAD(r->net->hp.n_layer)) &&
	    r->net->mtp.head.data == r->net->output.data;
}

uint64_t
qwen_cuda_half_bytes(const struct qwen_net *net, size_t half)
{
	uint64_t sum = 0;

	return look_at(net, half, add_bytes, &sum) < 0 ? UINT64_MAX : sum;
}

/* ------------------------------------------------------------------- loading */

struct load {
	struct qwen_cuda	*c;
	struct qwen_err		*err;
};

static int
load_weight(void *arg, struct qwen_cuda_weight *out,
    const struct qwen_weight *w, size_t n_matrix)
{
	struct load *l = arg;

	if (w->data == NULL || out->of != NULL)		/* joined to another */
		return 0;
	if (qwen_cuda_weight_put(l->c, out, w, n_matrix, l->err) == 0)
		return 0;
	return fail_memory(l->c, l->err);
}

/* The vectors of a layer, which are small. */
static int
load_vectors(struct load *ld, struct qwen_cuda_layer *out,
    const struct qwen_layer *l)
{
	const struct qwen_hparams *h = &ld->c->r.net->hp;
	const struct qwen_mtp *mtp = &ld->c->r.net->mtp;
	int is_mtp = l == &mtp->layer;
	const struct {
		cu_ptr		*out;
		const float	*p;
		size_t		 n;
	} all[] = {
		{ &out->mixer_norm, l->mixer_norm, h->n_embd },
		{ &out->ffn_norm, l->ffn_norm, h->n_embd },
		{ &out->q_norm, l->attn.q_norm, h->n_embd_head },
		{ &out->k_norm, l->attn.k_norm, h->n_embd_head },
		{ &out->conv, l->delta.conv, h->conv_kernel *
		    qwen_delta_row_of(h).z },
		{ &out->a, l->delta.a, h->n_head_v },
		{ &out->dt, l->delta.dt, h->n_head_v },
		{ &out->norm, l->delta.norm, h->dv },
		{ &out->embd_norm, is_mtp ? mtp->embd_norm : NULL, h->n_embd },
		{ &out->hidden_norm, is_mtp ? mtp->hidden_norm : NULL,
		    h->n_embd },
		{ &out->head_norm, is_mtp ? mtp->norm : NULL, h->n_embd },
	};
	size_t i;

	for (i = 0; i < sizeof all / sizeof all[0]; i++) {
		if (qwen_cuda_vector(ld->c, all[i].out, all[i].p, all[i].n,
		    ld->err) < 0)
			return -1;
	}
	return 0;
}

static int
load_layer(struct load *ld, size_t i)
{
	const struct qwen_net *net = ld->c->r.net;
	struct qwen_cuda_layer *out = &ld->c->layer[i];
	const struct qwen_layer *l = qwen_net_layer(net, i);
	size_t half;

	out->of = l;
	if (l->mixer == QWEN_DELTANET && (out->in = qwen_alloc(l->delta.n_in,
	    sizeof *out->in)) == NULL)
		return qwen_oom(ld->err);
	if (load_vectors(ld, out, l) < 0)
		return -1;
	for (half = QWEN_MIXER(i); half <= QWEN_FFN(i); half++) {
		if (!qwen_cuda_has(&ld->c->r, half))
			continue;
		if ((half == QWEN_MIXER(i) ? qwen_cuda_join_mixer :
		    qwen_cuda_join_ffn)(ld->c, out, l, ld->err) < 0)
			return -1;
		if (each_weight(out, net, half, load_weight, ld) < 0)
			return -1;
	}
	return 0;
}

static int
load_all(struct qwen_cuda *c, struct qwen_err *err)
{
	const struct qwen_net *net = c->r.net;
	struct load ld = { c, err };
	size_t i, n = net->hp.n_layer;

	if ((c->layer = qwen_alloc(n + 1, sizeof *c->layer)) == NULL)
		return qwen_oom(err);
	for (i = 0; i <= n; i++) {
		if ((qwen_cuda_has(&c->r, QWEN_MIXER(i)) ||
		    qwen_cuda_has(&c->r, QWEN_FFN(i))) && load_layer(&ld,
		    i) < 0)
			return -1;
	}
	if (qwen_cuda_has(&c->r, QWEN_HEAD(n)) && (qwen_cuda_vector(c,
	    &c->output_norm, net->output_norm, net->hp.n_embd, err) < 0 ||
	    load_weight(&ld, &c->output, &net->output, 1) < 0))
		return -1;
	if (!qwen_cuda_has(&c->r, QWEN_MIXER(n)))
		return 0;
	if (qwen_cuda_shares_head(&c->r))
		c->layer[n].head = c->output;
	return load_weight(&ld, &c->layer[n].head, &net->mtp.head, 1);
}

int
qwen_cuda_load(struct qwen_cuda *c, struct qwen_err *err)
{
	int rc = load_all(c, err);

	qwen_cuda_staging_free(c);
	return rc;
}

void
qwen_cuda_unload(struct qwen_cuda *c)
{
	size_t i;

	for (i = 0; c->layer != NULL && i <= c->r.net->hp.n_layer; i++)
		free(c->layer[i].in);
	free(c->layer);
	qwen_cuda_lora_free(c);
	while (c->n_owned > 0)
		qwen_cuda_free(c->card, c->owned[--c->n_owned]);
	free(c->owned);
}
