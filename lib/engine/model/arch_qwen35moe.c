/* SPDX-License-Identifier: ISC */
/*
 * arch_qwen35moe.c - Qwen3.5 and 3.6 MoE: DeltaNet 3 : 1 gated attention,
 * experts and a shared one.
 */
#include "engine/model/model.h"

static int
hparams(struct qwen_hparams *h, const struct qwen_gguf *g, struct qwen_err *err)
{
	if (qwen_hparams_common(h, g, err) < 0 ||
	    qwen_hparams_deltanet(h, g, err) < 0 ||
	    qwen_hparams_attention(h, g, err) < 0 ||
	    qwen_hparams_rope(h, g, 1, err) < 0)
		return -1;
	return qwen_hparams_moe(h, g, 1, err);
}

static int
layer(struct qwen_model *m, struct qwen_layer *l, struct qwen_err *err)
{
	long i = (long)l->index;

	if (qwen_load_vector(m, &l->mixer_norm, i, "attn_norm.weight",
	    m->hp.n_embd, err) < 0 ||
	    qwen_load_vector(m, &l->ffn_norm, i, "post_attention_norm.weight",
	    m->hp.n_embd, err) < 0)
		return -1;
	if (m->hp.recurrent[l->index] ? qwen_deltanet_load(m, l, err) < 0 :
	    qwen_attention_load(m, l, 1, err) < 0)
		return -1;
	return qwen_moe_load(m, l, 1, err);
}

const struct qwen_arch qwen_arch_qwen35moe = {
	.name = "qwen35moe", .hparams = hparams, .layer = layer,
};
