/* SPDX-License-Identifier: ISC */
/* arch_qwen3.c - Qwen3 dense: attention and a gated MLP. */
#include "engine/model/model.h"

static int
hparams(struct qwen_hparams *h, const struct qwen_gguf *g, struct qwen_err *err)
{
	if (qwen_hparams_common(h, g, err) < 0 ||
	    qwen_hparams_attention(h, g, err) < 0 ||
	    qwen_hparams_rope(h, g, 0, err) < 0)
		return -1;
	return qwen_hparams_dense(h, g, err);
}

static int
layer(struct qwen_model *m, struct qwen_layer *l, struct qwen_err *err)
{
	long i = (long)l->index;

	if (qwen_load_vector(m, &l->mixer_norm, i, "attn_norm.weight",
	    m->hp.n_embd, err) < 0 ||
	    qwen_load_vector(m, &l->ffn_norm, i, "ffn_norm.weight",
	    m->hp.n_embd, err) < 0)
		return -1;
	if (qwen_attention_load(m, l, 0, err) < 0)
		return -1;
	return qwen_mlp_load(m, l, err);
}

const struct qwen_arch qwen_arch_qwen3 = {
	.name = "qwen3", .hparams = hparams, .layer = layer,
};
