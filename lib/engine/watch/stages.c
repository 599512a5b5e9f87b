/* SPDX-License-Identifier: ISC */
/* stages.c - the stages of the forward pass: what they are called, and where. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/watch/trace.h"

/* Layers that have a stage, and numbers of a token. */
enum where {
	ALWAYS, PREDICTS, ATTENTION, GATED, DELTANET, FFN, MLP, EXPERTS, SHARED
};
enum width {
	EMBD, HEADS, KV_HEADS, POSITIONS, CHANNELS, VALUES, VALUE_HEADS,
	ALL_EXPERTS, USED, ONE, FF, FF_USED, FF_SHARED, VOCAB
};

/*
 * In from, $ is the residual stream as it is there, and names are those of the
 * layer.
 */
static const struct row {
	const char	*name;
	const char	*what;		/* NULL: as the layer's block */
	enum where	 where;
	enum width	 width;
	const char	*from[3];
} rows[QWEN_TRACE_N] = {
	[QWEN_TRACE_ENORM] = { "nextn.enorm", "norm", PREDICTS, EMBD,
	    { NULL } },
	[QWEN_TRACE_HNORM] = { "nextn.hnorm", "norm", PREDICTS, EMBD,
	    { NULL } },
	[QWEN_TRACE_EH_PROJ] = { "nextn.eh_proj", "linear", PREDICTS, EMBD,
	    { "nextn.enorm", "nextn.hnorm" } },
	[QWEN_TRACE_Q] = { "attn.q", "linear", ATTENTION, HEADS, { "$" } },
	[QWEN_TRACE_GATE] = { "attn.gate", "linear", GATED, HEADS, { "$" } },
	[QWEN_TRACE_K] = { "attn.k", "linear", ATTENTION, KV_HEADS, { "$" } },
	[QWEN_TRACE_V] = { "attn.v", "linear", ATTENTION, KV_HEADS, { "$" } },
	[QWEN_TRACE_Q_ROPE] = { "attn.q_rope", "rope", ATTENTION, HEADS,
	    { "attn.q" } },
	[QWEN_TRACE_K_ROPE] = { "attn.k_rope", "rope", ATTENTION, KV_HEADS,
	    { "attn.k" } },
	[QWEN_TRACE_SCORES] = { "attn.scores", "product", ATTENTION, POSITIONS,
	    { "attn.q_rope", "attn.k_rope" } },
	[QWEN_TRACE_PROBS] = { "attn.probs", "softmax", ATTENTION, POSITIONS,
	    { "attn.scores.h*" } },
	[QWEN_TRACE_ATTN_OUT] = { "attn.out", "product", ATTENTION, HEADS,
	    { "attn.probs.h*", "attn.v" } },
	[QWEN_TRACE_QKV] = { "delta.qkv", "linear", DELTANET, CHANNELS,
	    { "$" } },
	[QWEN_TRACE_Z] = { "delta.z", "linear", DELTANET, VALUES, { "$" } },
	[QWEN_TRACE_CONV] = { "delta.conv", "conv", DELTANET, CHANNELS,
	    { "delta.qkv" } },
	[QWEN_TRACE_DECAY] = { "delta.decay", "gate", DELTANET, VALUE_HEADS,
	    { "$" } },
	[QWEN_TRACE_BETA] = { "delta.beta", "gate", DELTANET, VALUE_HEADS,
	    { "$" } },
	[QWEN_TRACE_DELTA_OUT] = { "delta.out", "delta", DELTANET, VALUES,
	    { "delta.conv", "delta.decay", "delta.beta" } },
	[QWEN_TRACE_DELTA_NORM] = { "delta.norm", "norm", DELTANET, VALUES,
	    { "delta.out", "delta.z" } },
	[QWEN_TRACE_MIXER] = { "mixer", NULL, ALWAYS, EMBD, { NULL } },
	[QWEN_TRACE_MIXER_RESIDUAL] = { "mixer_residual", "sum", ALWAYS, EMBD,
	    { "$", "mixer" } },
	[QWEN_TRACE_ROUTER] = { "router.logits", "linear", EXPERTS,
	    ALL_EXPERTS, { "mixer_residual" } },
	[QWEN_TRACE_EXPERTS] = { "router.experts", "top-k", EXPERTS, USED,
	    { "router.logits" } },
	[QWEN_TRACE_WEIGHTS] = { "router.weights", "softmax", EXPERTS, USED,
	    { "router.logits", "router.experts" } },
	[QWEN_TRACE_SHARED] = { "router.shared", "gate", SHARED, ONE,
	    { "mixer_residual" } },
	[QWEN_TRACE_EXPERTS_GATE] = { "experts.gate", "linear", EXPERTS,
	    FF_USED, { "mixer_residual", "router.experts" } },
	[QWEN_TRACE_EXPERTS_UP] = { "experts.up", "linear", EXPERTS, FF_USED,
	    { "mixer_residual", "router.experts" } },
	[QWEN_TRACE_EXPERTS_ACT] = { "experts.act", "swiglu", EXPERTS, FF_USED,
	    { "experts.gate", "experts.up" } },
	[QWEN_TRACE_SHARED_GATE] = { "shared.gate", "linear", SHARED,
	    FF_SHARED, { "mixer_residual" } },
	[QWEN_TRACE_SHARED_UP] = { "shared.up", "linear", SHARED, FF_SHARED,
	    { "mixer_residual" } },
	[QWEN_TRACE_SHARED_ACT] = { "shared.act", "swiglu", SHARED, FF_SHARED,
	    { "shared.gate", "shared.up" } },
	[QWEN_TRACE_MLP_GATE] = { "mlp.gate", "linear", MLP, FF,
	    { "mixer_residual" } },
	[QWEN_TRACE_MLP_UP] = { "mlp.up", "linear", MLP, FF,
	    { "mixer_residual" } },
	[QWEN_TRACE_MLP_ACT] = { "mlp.act", "swiglu", MLP, FF,
	    { "mlp.gate", "mlp.up" } },
	[QWEN_TRACE_FFN] = { "ffn", NULL, FFN, EMBD, { NULL } },
	[QWEN_TRACE_RESIDUAL] = { "residual", "sum", FFN, EMBD,
	    { "mixer_residual", "ffn" } },
	[QWEN_TRACE_HEAD_NORM] = { "nextn.shared_head_norm", "norm", PREDICTS,
	    EMBD, { "$" } },
	[QWEN_TRACE_HEAD] = { "nextn.shared_head_head", "linear", PREDICTS,
	    VOCAB, { "nextn.shared_head_norm" } },
};

struct walk {
	const struct qwen_arch		*a;
	const struct qwen_hparams	*h;
	unsigned			 mtp_parts;
	int	(*each)(void *arg, size_t number,
		    const struct qwen_trace_stage *st);
	void	*arg;
	char	 stream[QWEN_TRACE_NAME];	/* the last sum */
};

/*
 * A layer has a number for each head and each other stage, used or not.  The
 * block that predicts comes after the logits.
 */
size_t
qwen_stage_number(const struct qwen_hparams *h, enum qwen_trace_kind kind,
    size_t layer, size_t head)
{
	enum { ENDS = QWEN_TRACE_N - QWEN_TRACE_NORM };
	size_t more = h->n_head - 1;	/* of what each head has */
	size_t per = 2 * more + QWEN_TRACE_NORM - QWEN_TRACE_ENORM;
	size_t at = 1 + layer * per + (layer == h->n_layer ? ENDS : 0);

	if (kind == QWEN_TRACE_EMBED)
		return 0;
	if (kind >= QWEN_TRACE_NORM)
		return 1 + h->n_layer * per + (size_t)(kind - QWEN_TRACE_NORM);
	if (kind > QWEN_TRACE_SCORES)
		head += more;
	if (kind > QWEN_TRACE_PROBS)
		head += more;
	return at + (size_t)(kind - QWEN_TRACE_ENORM) + head;
}

size_t
qwen_stage_count(const struct qwen_hparams *h)
{
	return qwen_stage_number(h, QWEN_TRACE_HEAD, h->n_layer, 0) + 1;
}

/* Returns 1 for the MTP block. */
static int
predicts(const struct walk *w, size_t layer)
{
	return layer == w->h->n_layer;
}

static int
recurrent(const struct walk *w, size_t layer)
{
	return w->a->hybrid && !predicts(w, layer) && w->h->recurrent[layer];
}

static int
has_ffn(const struct walk *w, size_t layer)
{
	return !predicts(w, layer) || (w->mtp_parts & QWEN_MTP_FFN);
}

static int
has(const struct walk *w, size_t layer, enum where where)
{
	switch (where) {
	case PREDICTS:
		return predicts(w, layer);
	case ATTENTION:
		return !recurrent(w, layer);
	case GATED:
		return !recurrent(w, layer) && w->a->hybrid;
	case DELTANET:
		return recurrent(w, layer);
	case FFN:
		return has_ffn(w, layer);
	case MLP:
		return has_ffn(w, layer) && !w->a->moe;
	case EXPERTS:
		return has_ffn(w, layer) && w->a->moe;
	case SHARED:
		return has_ffn(w, layer) && w->a->moe && w->h->n_ff_shexp > 0;
	case ALWAYS:
		break;
	}
	return 1;
}

static size_t
width_of(const struct qwen_hparams *h, enum width width)
{
	switch (width) {
	case EMBD:
		return h->n_embd;
	case HEADS:
		return h->n_head * h->n_embd_head;
	case KV_HEADS:
		return h->n_head_kv * h->n_embd_head;
	case POSITIONS:
		return 0;
	case CHANNELS:
		return 2 * h->n_head_k * h->dk + h->n_head_v * h->dv;
	case VALUES:
		return h->n_head_v * h->dv;
	case VALUE_HEADS:
		return h->n_head_v;
	case ALL_EXPERTS:
		return h->n_expert;
	case USED:
		return h->n_expert_used;
	case FF:
		return h->n_ff;
	case FF_USED:
		return h->n_expert_used * h->n_ff_exp;
	case FF_SHARED:
		return h->n_ff_shexp;
	case VOCAB:
		return h->n_vocab;
	case ONE:
		break;
	}
	return 1;
}

static void
add_from(struct qwen_trace_stage *st, const char *name)
{
	size_t i = 0;

	while (st->from[i][0] != '\0')
		i++;
	snprintf(st->from[i], sizeof st->from[i], "%s", name);
}

static void
add_from_layer(struct qwen_trace_stage *st, size_t layer, const char *name)
{
	char full[QWEN_TRACE_NAME];

	snprintf(full, sizeof full, "blk.%zu.%s", layer, name);
	add_from(st, full);
}

/*
 * Describes the stage of a row in a layer, without the head's part of its name.
 */
static void
fill(const struct walk *w, size_t layer, enum qwen_trace_kind kind,
    struct qwen_trace_stage *st)
{
	const struct row *r = &rows[kind];
	size_t i;

	memset(st, 0, sizeof *st);
	snprintf(st->name, sizeof st->name, "blk.%zu.%s", layer, r->name);
	st->what = r->what != NULL ? r->what : kind == QWEN_TRACE_FFN ?
	    (w->a->moe ? "experts" : "mlp") :
	    recurrent(w, layer) ? "deltanet" : "attention";
	st->n = width_of(w->h, r->width);
	st->choices = kind == QWEN_TRACE_EXPERTS;
	st->first = predicts(w, layer);
	for (i = 0; i < 3 && r->from[i] != NULL; i++) {
		if (r->from[i][0] == '$')
			add_from(st, w->stream);
		else
			add_from_layer(st, layer, r->from[i]);
	}
	if (kind == QWEN_TRACE_ENORM && !(w->mtp_parts & QWEN_MTP_EMBD))
		add_from(st, "embed");
	if (kind == QWEN_TRACE_HNORM)
		add_from(st, "norm");
	if (kind == QWEN_TRACE_ATTN_OUT && has(w, layer, GATED))
		add_from_layer(st, layer, "attn.gate");
	if (kind == QWEN_TRACE_MIXER)
		add_from_layer(st, layer, recurrent(w, layer) ? "delta.norm" :
		    "attn.out");
	if (kind == QWEN_TRACE_FFN)
		add_from_layer(st, layer, w->a->moe ? "experts.act" :
		    "mlp.act");
	if (kind == QWEN_TRACE_FFN && has(w, layer, SHARED))
		add_from_layer(st, layer, "shared.act");
	if (kind == QWEN_TRACE_FFN && w->a->moe)
		add_from_layer(st, layer, "router.*");
}

static int
tell(const struct walk *w, size_t layer, enum qwen_trace_kind kind,
    struct qwen_trace_stage *st)
{
	size_t head, n = strlen(st->name);
	int rc;

	if (kind != QWEN_TRACE_SCORES && kind != QWEN_TRACE_PROBS)
		return w->each(w->arg, qwen_stage_number(w->h, kind, layer, 0),
		    st);
	for (head = 0; head < w->h->n_head; head++) {
		snprintf(st->name + n, sizeof st->name - n, ".h%zu", head);
		rc = w->each(w->arg, qwen_stage_number(w->h, kind, layer, head),
		    st);
		if (rc != 0)
			return rc;
	}
	return 0;
}

static int
walk_layer(struct walk *w, size_t layer)
{
	struct qwen_trace_stage st;
	int kind, rc;

	for (kind = QWEN_TRACE_ENORM; kind <= QWEN_TRACE_HEAD; kind++) {
		if (!has(w, layer, rows[kind].where))
			continue;
		fill(w, layer, (enum qwen_trace_kind)kind, &st);
		rc = tell(w, layer, (enum qwen_trace_kind)kind, &st);
		if (rc != 0)
			return rc;
		if (kind == QWEN_TRACE_EH_PROJ || kind == QWEN_TRACE_RESIDUAL ||
		    kind == QWEN_TRACE_MIXER_RESIDUAL)
			memcpy(w->stream, st.name, sizeof w->stream);
	}
	return 0;
}

/* Reports a stage that belongs to no layer. */
static int
tell_plain(const struct walk *w, enum qwen_trace_kind kind, const char *name,
    const char *what, size_t n, const char *from)
{
	struct qwen_trace_stage st = { .what = what, .n = n };

	snprintf(st.name, sizeof st.name, "%s", name);
	add_from(&st, from);
	return w->each(w->arg, qwen_stage_number(w->h, kind, 0, 0), &st);
}

int
qwen_stages(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg, size_t number,
    const struct qwen_trace_stage *st), void *arg)
{
	struct walk w = { a, h, mtp_parts, each, arg, "embed" };
	size_t i;
	int rc;

	rc = tell_plain(&w, QWEN_TRACE_EMBED, "embed", "embedding", h->n_embd,
	    "");
	for (i = 0; i < h->n_layer && rc == 0; i++)
		rc = walk_layer(&w, i);
	if (rc == 0)
		rc = tell_plain(&w, QWEN_TRACE_NORM, "norm", "norm", h->n_embd,
		    w.stream);
	if (rc == 0)
		rc = tell_plain(&w, QWEN_TRACE_LOGITS, "logits", "linear",
		    h->n_vocab, "norm");
	return rc != 0 || mtp_parts == 0 ? rc : walk_layer(&w, h->n_layer);
}

struct plain {
	int	(*each)(void *arg, const struct qwen_trace_stage *st);
	void	*arg;
};

static int
without_number(void *arg, size_t number, const struct qwen_trace_stage *st)
{
	const struct plain *p = arg;

	(void)number;
	return p->each(p->arg, st);
}

void
qwen_stages_plain(const struct qwen_arch *a, const struct qwen_hparams *h,
    unsigned mtp_parts, int (*each)(void *arg,
    const struct qwen_trace_stage *st), void *arg)
{
	struct plain p = { each, arg };

	qwen_stages(a, h, mtp_parts, without_number, &p);
}

int
qwen_trace_stages(const struct qwen_gguf *g,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg,
    struct qwen_err *err)
{
	const struct qwen_arch *a;
	struct qwen_hparams h = { 0 };
	unsigned parts;

	if ((a = qwen_arch_of(g, err)) == NULL)
		return -1;
	if (qwen_hparams_read(&h, a, g, 0, err) < 0) {
		qwen_hparams_free(&h);
		return -1;
	}
	parts = h.n_block > h.n_layer ? qwen_mtp_parts(g, h.n_layer) : 0;
	qwen_stages_plain(a, &h, parts, each, arg);
	qwen_hparams_free(&h);
	return 0;
}
