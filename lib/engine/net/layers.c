/* SPDX-License-Identifier: ISC */
/* layers.c - the weights of each kind of block, and all weights of a model. */
#include <assert.h>

#include "base/err.h"
#include "base/mem.h"
#include "gguf/gguf.h"
#include "engine/net/lora.h"

/* ---------------------------------------------------------------- attention */

void
qwen_attention_load(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_hparams *h = &ld->m->hp;
	struct qwen_attention *a = &l->attn;
	size_t d = h->n_embd_head, kv = h->n_head_kv * d, n = h->n_embd;
	size_t o = h->n_head * d, q = ld->m->arch->hybrid ? 2 * o : o;

	a->gated = ld->m->arch->hybrid;
	ld->purpose = QWEN_FOR_ATTN_PROJECTIONS;
	if (qwen_has_tensor(ld, "attn_qkv.weight")) {
		qwen_load_weight(ld, &a->q, "attn_qkv.weight", n, q + 2 * kv,
		    0);
		a->k = qwen_weight_rows(&a->q, q, kv);
		a->v = qwen_weight_rows(&a->q, q + kv, kv);
		a->q.n_out = q;
	} else {
		qwen_load_weight(ld, &a->q, "attn_q.weight", n, q, 0);
		qwen_load_weight(ld, &a->k, "attn_k.weight", n, kv, 0);
		qwen_load_weight(ld, &a->v, "attn_v.weight", n, kv, 0);
	}
	qwen_load_weight(ld, &a->output, "attn_output.weight", o, n, 0);
	if (!ld->m->arch->no_qk_norm) {
		qwen_load_vector(ld, &a->q_norm, "attn_q_norm.weight", d);
		qwen_load_vector(ld, &a->k_norm, "attn_k_norm.weight", d);
	}
	l->mixer = QWEN_ATTENTION;
}

/* ----------------------------------------------------------------- DeltaNet */

/*
 * Returns memory for n floats, part of one allocation for all layers, which is large
 * enough for huge pages.  NULL if out of memory.
 */
static float *
take_taps(struct qwen_loader *ld, const struct qwen_layer *l, size_t n)
{
	const struct qwen_hparams *h = &ld->m->hp;
	size_t layers = 0, i;
	float *p;

	n = (n + 15) / 16 * 16;		/* keep the alignment */
	for (i = l->index; ld->taps == NULL && i < h->n_layer; i++)
		layers += h->recurrent[i];
	if (ld->taps == NULL &&
	    (ld->taps = qwen_load_large(ld, layers * n, sizeof *p)) == NULL)
		return NULL;
	p = ld->taps;
	ld->taps += n;
	return p;
}

/* Stores the taps as [tap][channel], so that channels are the lanes. */
static void
load_conv(struct qwen_loader *ld, struct qwen_layer *l, size_t nc)
{
	size_t kc = ld->m->hp.conv_kernel, c, j;
	struct qwen_weight w = { 0 };
	float *taps, buf[QWEN_TAPS_MAX];
	const float *row;

	qwen_load_weight(ld, &w, "ssm_conv1d.weight", kc, nc, 0);
	if (w.data == NULL ||
	    (taps = take_taps(ld, l, kc * nc)) == NULL)
		return;
	assert(kc <= sizeof buf / sizeof *buf);
	for (c = 0; c < nc; c++) {
		row = (const float *)(const void *)(w.data + c * w.row_bytes);
		if (w.quant->type != QT_F32) {
			qwen_quant_values(w.quant, w.data + c * w.row_bytes,
			    kc, buf);
			row = buf;
		}
		for (j = 0; j < kc; j++)
			taps[j * nc + c] = row[j];
	}
	l->delta.conv = taps;
}

/* Loads a matrix of n rows as one piece, whose results are at `at'. */
static void
load_piece(struct qwen_loader *ld, struct qwen_deltanet *d, const char *name,
    size_t at, size_t n)
{
	struct qwen_piece *p = &d->in[d->n_in++];

	p->at = at;
	qwen_load_weight(ld, &p->w, name, ld->m->hp.n_embd, n, 0);
}

/* The same for files of late 2025: q, k, v, z of each key head in turn. */
static void
load_by_key(struct qwen_loader *ld, struct qwen_deltanet *d, struct qwen_delta_row row)
{
	const struct qwen_hparams *h = &ld->m->hp;
	size_t v = h->n_head_v / h->n_head_k * h->dv, from = 0, k, i;
	size_t n[4] = { h->dk, h->dk, v, v };
	size_t at[4] = { 0, row.v / 2, row.v, row.z };
	struct qwen_weight all = { .data = NULL };

	qwen_load_weight(ld, &all, "ssm_in.weight", h->n_embd, row.alpha, 0);
	for (k = 0; k < h->n_head_k; k++) {
		for (i = 0; i < 4; i++) {
			struct qwen_piece *p = &d->in[d->n_in++];

			p->w = qwen_weight_rows(&all, from, n[i]);
			p->at = at[i] + k * n[i];
			from += n[i];
		}
	}
}

#define PIECES 4		/* qkv, gate, alpha, beta */

void
qwen_deltanet_load(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_hparams *h = &ld->m->hp;
	struct qwen_deltanet *d = &l->delta;
	struct qwen_delta_row row = qwen_delta_row_of(h);
	size_t vd = h->n_head_v * h->dv, n = h->n_embd, nc = row.z;
	int pieces = qwen_has_tensor(ld, "ssm_in.weight");

	if (pieces && h->n_head_k > QWEN_KEY_HEADS_MAX)
		ld->rc = qwen_fail(ld->err, QWEN_EUNSUP, "ssm_in.weight for "
		    "%zu key heads; at most %d are supported", h->n_head_k,
		    QWEN_KEY_HEADS_MAX);
	if (ld->rc < 0 || (d->in = qwen_load_memory(ld, pieces ? QWEN_DELTA_PIECES_MAX :
	    PIECES, sizeof *d->in)) == NULL)
		return;
	ld->purpose = QWEN_FOR_DELTA_PROJECTIONS;
	if (pieces) {
		load_by_key(ld, d, row);
	} else {
		load_piece(ld, d, "attn_qkv.weight", 0, nc);
		load_piece(ld, d, "attn_gate.weight", row.z, vd);
	}
	d->by_key = qwen_has_tensor(ld, "ssm_ba.weight");
	if ((pieces || d->by_key) && !h->grouped &&
	    h->n_head_v != h->n_head_k && ld->rc == 0)
		ld->rc = qwen_fail(ld->err, QWEN_EUNSUP, "blk.%ld.%s: not "
		    "supported where value heads are tiled over key heads",
		    ld->layer, pieces ? "ssm_in.weight" : "ssm_ba.weight");
	if (d->by_key) {
		load_piece(ld, d, "ssm_ba.weight", row.alpha, 2 * h->n_head_v);
	} else {
		load_piece(ld, d, "ssm_alpha.weight", row.alpha, h->n_head_v);
		load_piece(ld, d, "ssm_beta.weight", row.beta, h->n_head_v);
	}
	qwen_load_weight(ld, &d->out, "ssm_out.weight", vd, n, 0);
	qwen_load_vector(ld, &d->a, "ssm_a", h->n_head_v);
	/* Ollama's converter names it without ".bias" */
	qwen_load_vector(ld, &d->dt, !qwen_has_tensor(ld, "ssm_dt.bias") &&
	    qwen_has_tensor(ld, "ssm_dt") ? "ssm_dt" : "ssm_dt.bias",
	    h->n_head_v);
	qwen_load_vector(ld, &d->norm, "ssm_norm.weight", h->dv);
	load_conv(ld, l, nc);
	l->mixer = QWEN_DELTANET;
}

/* ------------------------------------------------------------- feed-forward */

static void
load_mlp(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_hparams *h = &ld->m->hp;

	ld->purpose = QWEN_FOR_MLP;
	qwen_load_weight(ld, &l->mlp.gate, "ffn_gate.weight", h->n_embd,
	    h->n_ff, 0);
	qwen_load_weight(ld, &l->mlp.up, "ffn_up.weight", h->n_embd, h->n_ff,
	    0);
	qwen_load_weight(ld, &l->mlp.down, "ffn_down.weight", h->n_ff,
	    h->n_embd, 0);
	l->ffn = QWEN_MLP;
}

static void
load_experts(struct qwen_loader *ld, struct qwen_moe *e)
{
	const struct qwen_hparams *h = &ld->m->hp;
	size_t n = h->n_embd, ff = h->n_ff_exp;

	ld->purpose = QWEN_FOR_ROUTED_EXPERTS;
	qwen_load_weight(ld, &e->routed.down, "ffn_down_exps.weight", ff, n,
	    h->n_expert);
	if (!qwen_has_tensor(ld, "ffn_gate_up_exps.weight")) {
		qwen_load_weight(ld, &e->routed.gate, "ffn_gate_exps.weight", n, ff,
		    h->n_expert);
		qwen_load_weight(ld, &e->routed.up, "ffn_up_exps.weight", n, ff,
		    h->n_expert);
		return;
	}
	/* one stack: gate rows first, then up rows */
	qwen_load_weight(ld, &e->routed.gate, "ffn_gate_up_exps.weight", n,
	    2 * ff, h->n_expert);
	if (e->routed.gate.data == NULL)
		return;
	e->routed.up = qwen_weight_rows(&e->routed.gate, ff, ff);
	e->routed.gate.n_out = ff;
}

static void
load_moe(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_hparams *h = &ld->m->hp;
	struct qwen_moe *e = &l->moe;
	size_t n = h->n_embd, ff = h->n_ff_shexp;

	l->ffn = QWEN_MOE;
	ld->purpose = QWEN_FOR_ROUTER;
	qwen_load_weight(ld, &e->router, "ffn_gate_inp.weight", n, h->n_expert,
	    0);
	load_experts(ld, e);
	if (!ld->m->arch->shared)
		return;
	ld->purpose = QWEN_FOR_ROUTER;
	qwen_load_weight(ld, &e->shared_router, "ffn_gate_inp_shexp.weight", n,
	    1, 0);
	ld->purpose = QWEN_FOR_SHARED_EXPERT;
	qwen_load_weight(ld, &e->shared.gate, "ffn_gate_shexp.weight", n, ff,
	    0);
	qwen_load_weight(ld, &e->shared.up, "ffn_up_shexp.weight", n, ff, 0);
	qwen_load_weight(ld, &e->shared.down, "ffn_down_shexp.weight", ff, n,
	    0);
}

void
qwen_ffn_load(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_arch *a = ld->m->arch;

	qwen_load_vector(ld, &l->ffn_norm, a->ffn_norm, ld->m->hp.n_embd);
	if (a->moe)
		load_moe(ld, l);
	else
		load_mlp(ld, l);
}

/* ---------------------------------------------------------------- the model */

enum { CLASSES_MAX = 1024 };

void
qwen_classifier_load(struct qwen_loader *ld)
{
	struct qwen_net *m = ld->m;
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(m->gguf,
	    "cls.output.weight");

	ld->layer = -1;
	if (t == NULL)
		return;
	/* Qwen's models have no layer before the classifier */
	if (ld->rc == 0 && (qwen_has_tensor(ld, "cls.weight") ||
	    t->ne[1] > CLASSES_MAX)) {
		ld->rc = qwen_fail(ld->err, QWEN_EUNSUP, "this kind of "
		    "cls.output.weight is not supported");
		return;
	}
	qwen_load_weight(ld, &m->cls, "cls.output.weight", m->hp.n_embd,
	    (size_t)t->ne[1], 0);
}

static void
load_layer(struct qwen_loader *ld, struct qwen_layer *l)
{
	const struct qwen_arch *a = ld->m->arch;
	const struct qwen_hparams *h = &ld->m->hp;

	ld->layer = (long)l->index;
	qwen_load_vector(ld, &l->mixer_norm, "attn_norm.weight", h->n_embd);
	if (a->hybrid && h->recurrent[l->index])
		qwen_deltanet_load(ld, l);
	else
		qwen_attention_load(ld, l);
	qwen_ffn_load(ld, l);
}

int
qwen_load_weights(struct qwen_loader *ld)
{
	struct qwen_net *m = ld->m;
	const struct qwen_hparams *h = &m->hp;
	size_t i;

	ld->layer = -1;
	ld->purpose = QWEN_FOR_EMBEDDING;
	qwen_load_weight(ld, &m->token_embd, "token_embd.weight", h->n_embd,
	    h->n_vocab, 0);
	qwen_load_vector(ld, &m->output_norm, "output_norm.weight",
	    h->n_embd);
	ld->purpose = QWEN_FOR_HEAD;
	m->output = m->token_embd;	/* tied */
	m->output.purpose = QWEN_FOR_HEAD;
	if (qwen_has_tensor(ld, "output.weight"))
		qwen_load_weight(ld, &m->output, "output.weight", h->n_embd,
		    h->n_vocab, 0);
	else	/* adapters may change only one of them */
		qwen_lora_load(ld, &m->output, "output.weight", 0);
	qwen_classifier_load(ld);
	m->layer = qwen_alloc(h->n_layer, sizeof *m->layer);
	if (m->layer == NULL)
		return qwen_oom(ld->err);
	for (i = 0; i < h->n_layer && ld->rc == 0; i++) {
		m->layer[i].index = i;
		load_layer(ld, &m->layer[i]);
	}
	return ld->rc;
}
