/* SPDX-License-Identifier: ISC */
/* arch.c - architectures, and their tensor names in Hugging Face and GGUF. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "hub/arch.h"
#include "hub/json.h"

/* Returns 1 for a class of the architecture, as in Qwen3ForCausalLM. */
static int
has_class(const struct qwen_arch *a, const char *name)
{
	static const char *const tail[] = { "ForCausalLM", "Model",
	    "ForConditionalGeneration", "TextModel",
	    "ForSequenceClassification" };
	size_t n = strlen(a->hf_class), i, all = sizeof tail / sizeof *tail;

	/* the last is a reranker */
	if (!a->ranks || a->vision)
		all--;
	for (i = 0; i < all && strncmp(name, a->hf_class, n) == 0; i++) {
		if (strcmp(name + n, tail[i]) == 0)
			return 1;
	}
	return 0;
}

/* Returns 1 for its model_type, as qwen3_5 or qwen3_5_text. */
static int
has_type(const struct qwen_arch *a, const char *type)
{
	size_t n = strlen(a->hf_type);

	return strncmp(type, a->hf_type, n) == 0 &&
	    (type[n] == '\0' || strcmp(type + n, "_text") == 0);
}

static const char *
first_class(yyjson_val *config)
{
	return yyjson_get_str(yyjson_arr_get_first(
	    yyjson_obj_get(config, "architectures")));
}

const char *
qwen_hub_class(const struct qwen_hub *h)
{
	return first_class(yyjson_doc_get_root(h->config));
}

int
qwen_hub_find_arch(struct qwen_hub *h)
{
	yyjson_val *root = yyjson_doc_get_root(h->config);
	const char *name = first_class(h->text), *type;
	size_t i;

	if (name == NULL)
		name = first_class(root);
	type = qwen_hub_str(h->text, "model_type");
	if (type == NULL)
		type = qwen_hub_str(root, "model_type");
	for (i = 0; (h->arch = qwen_arch_row(i)) != NULL; i++) {
		if (name != NULL && *name != '\0' ? has_class(h->arch, name) :
		    type != NULL && has_type(h->arch, type))
			return 0;
	}
	return qwen_hub_bad(h, "%s%.60s: unknown architecture; supported: "
	    "qwen2 to qwen3.5, dense and MoE", name != NULL ? "" :
	    "model_type ", name != NULL ? name : type != NULL ? type : "none");
}

/* ------------------------------------------------------------------ names */

struct name_row {
	const char	*from, *to;
	enum hub_how	 how;
};

static const struct name_row whole[] = {
	{ "embed_tokens.weight", "token_embd.weight", HUB_PLAIN },
	{ "norm.weight", "output_norm.weight", HUB_NORM },
	{ "lm_head.weight", "output.weight", HUB_PLAIN },
	{ "score.weight", "cls.output.weight", HUB_PLAIN },
};

/* Tensors of a layer; of_block() adds post_attention_layernorm. */
static const struct name_row block[] = {
	{ "input_layernorm.weight", "attn_norm.weight", HUB_NORM },
	{ "self_attn.q_proj.weight", "attn_q.weight", HUB_PLAIN },
	{ "self_attn.q_proj.bias", "attn_q.bias", HUB_PLAIN },
	{ "self_attn.k_proj.weight", "attn_k.weight", HUB_PLAIN },
	{ "self_attn.k_proj.bias", "attn_k.bias", HUB_PLAIN },
	{ "self_attn.v_proj.weight", "attn_v.weight", HUB_PLAIN },
	{ "self_attn.v_proj.bias", "attn_v.bias", HUB_PLAIN },
	{ "self_attn.o_proj.weight", "attn_output.weight", HUB_PLAIN },
	{ "self_attn.o_proj.bias", "attn_output.bias", HUB_PLAIN },
	{ "self_attn.q_norm.weight", "attn_q_norm.weight", HUB_NORM },
	{ "self_attn.k_norm.weight", "attn_k_norm.weight", HUB_NORM },
	{ "self_attn.rotary_emb.inv_freq", "", HUB_IGNORED },
	{ "mlp.gate_proj.weight", "ffn_gate.weight", HUB_PLAIN },
	{ "mlp.up_proj.weight", "ffn_up.weight", HUB_PLAIN },
	{ "mlp.down_proj.weight", "ffn_down.weight", HUB_PLAIN },
	{ "mlp.gate.weight", "ffn_gate_inp.weight", HUB_ROUTER },
	{ "mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight",
	    HUB_ROUTER },
	{ "mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight",
	    HUB_PLAIN },
	{ "mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight", HUB_PLAIN },
	{ "mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight",
	    HUB_PLAIN },
	{ "mlp.experts.down_proj", "ffn_down_exps.weight", HUB_DOWN_EXPERTS },
	{ "mlp.experts.down_proj.weight", "ffn_down_exps.weight",
	    HUB_DOWN_EXPERTS },
	{ "mlp.experts.gate_up_proj", "ffn_gate_exps.weight",
	    HUB_GATE_UP_EXPERTS },
	{ "mlp.experts.gate_up_proj.weight", "ffn_gate_exps.weight",
	    HUB_GATE_UP_EXPERTS },
	{ "mlp.switch_mlp.gate_proj.weight", "ffn_gate_exps.weight",
	    HUB_STACKED_EXPERTS },
	{ "mlp.switch_mlp.up_proj.weight", "ffn_up_exps.weight",
	    HUB_STACKED_EXPERTS },
	{ "mlp.switch_mlp.down_proj.weight", "ffn_down_exps.weight",
	    HUB_STACKED_EXPERTS },
	{ "linear_attn.in_proj_qkvz.weight", "attn_qkv.weight", HUB_QKVZ },
	{ "linear_attn.in_proj_ba.weight", "ssm_ba.weight", HUB_PLAIN },
	{ "linear_attn.in_proj_qkv.weight", "attn_qkv.weight", HUB_QKV_ROWS },
	{ "linear_attn.in_proj_z.weight", "attn_gate.weight", HUB_VALUE_ROWS },
	{ "linear_attn.in_proj_b.weight", "ssm_beta.weight", HUB_HEADS },
	{ "linear_attn.in_proj_a.weight", "ssm_alpha.weight", HUB_HEADS },
	{ "linear_attn.conv1d.weight", "ssm_conv1d.weight", HUB_CONV },
	{ "linear_attn.A_log", "ssm_a", HUB_DECAY },
	{ "linear_attn.dt_bias", "ssm_dt.bias", HUB_HEADS },
	{ "linear_attn.norm.weight", "ssm_norm.weight", HUB_PLAIN },
	{ "linear_attn.out_proj.weight", "ssm_out.weight", HUB_VALUE_COLUMNS },
	{ "eh_proj.weight", "nextn.eh_proj.weight", HUB_PLAIN },
	{ "enorm.weight", "nextn.enorm.weight", HUB_NORM },
	{ "hnorm.weight", "nextn.hnorm.weight", HUB_NORM },
	{ "embed_tokens.weight", "nextn.embed_tokens.weight", HUB_PLAIN },
	{ "shared_head.norm.weight", "nextn.shared_head_norm.weight", HUB_NORM },
	{ "shared_head.head.weight", "nextn.shared_head_head.weight", HUB_PLAIN },
};

/* Tensors of the MTP part outside its layers. */
static const struct name_row mtp[] = {
	{ "fc.weight", "eh_proj.weight", HUB_PLAIN },
	{ "pre_fc_norm_embedding.weight", "enorm.weight", HUB_PLAIN },
	{ "pre_fc_norm_hidden.weight", "hnorm.weight", HUB_PLAIN },
	{ "norm.weight", "shared_head.norm.weight", HUB_PLAIN },
	{ "embed_tokens.weight", "embed_tokens.weight", HUB_PLAIN },
	{ "lm_head.weight", "shared_head.head.weight", HUB_PLAIN },
};

#define FIND(rows, s) find_row(rows, sizeof (rows) / sizeof (rows)[0], s)

static const struct name_row *
find_row(const struct name_row *r, size_t n, const char *s)
{
	for (; n > 0; n--, r++) {
		if (strcmp(r->from, s) == 0)
			return r;
	}
	return NULL;
}

static const char *
skip(const char *s, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(s, prefix, n) == 0 ? s + n : s;
}

/*
 * Reads a number below 2^20 and a dot at *s, and moves *s after them; -1 if
 * there is no such number.
 */
static long
number(const char **s)
{
	const char *p = *s;
	uint64_t n;

	if ((*p == '0' && p[1] != '.') || qwen_digits(&p, &n) < 0 ||
	    n >= 1 << 20 || *p != '.')
		return -1;
	*s = p + 1;
	return (long)n;
}

const char *const qwen_hub_expert[3] = { "down", "gate", "up" };

void
qwen_hub_name_experts(struct hub_name *name, int which)
{
	snprintf(name->to, sizeof name->to, "blk.%d.ffn_%s_exps.weight",
	    name->layer, qwen_hub_expert[which]);
}

/* Recognises names such as "experts.7.up_proj.weight". */
static int
of_expert(const char *s, struct hub_name *out)
{
	const char *at = skip(s, "mlp.experts.");
	char want[24];
	long n;
	int i;

	if (at == s || (n = number(&at)) < 0)
		return 0;
	for (i = 0; i < 3; i++) {
		snprintf(want, sizeof want, "%s_proj.weight",
		    qwen_hub_expert[i]);
		if (strcmp(at, want) == 0) {
			out->how = HUB_EXPERT;
			out->expert = (uint32_t)n;
			out->which = i;
			qwen_hub_name_experts(out, i);
			return 1;
		}
	}
	return 0;
}

/* Recognises a tensor of a layer by its name within the layer. */
static int
of_block(const struct qwen_hub *h, const char *s, struct hub_name *out)
{
	const struct name_row *r = FIND(block, s);

	if (of_expert(s, out))
		return 1;
	if (strcmp(s, "post_attention_layernorm.weight") == 0) {
		out->how = HUB_NORM;
		snprintf(out->to, sizeof out->to, "blk.%d.%s", out->layer,
		    h->arch->ffn_norm);
		return 1;
	}
	if (r == NULL)
		return 0;
	out->how = r->how;
	snprintf(out->to, sizeof out->to, "blk.%d.%s", out->layer, r->to);
	return 1;
}

static int
of_mtp(const struct qwen_hub *h, const char *s, uint32_t n_layer,
    struct hub_name *out)
{
	const char *at = skip(s, "layers.");
	const struct name_row *r;
	long n = 0;

	out->is_mtp = 1;
	if (at != s) {
		if ((n = number(&at)) < 0)
			return 0;
	} else {
		if ((r = FIND(mtp, s)) == NULL)
			return 0;
		at = r->to;
	}
	out->layer = (int)n_layer + (int)n;
	return of_block(h, at, out);
}

/* Returns 1 for a tensor of the vision or audio part. */
static int
is_other_half(const char *s)
{
	static const char *const other[] = { "visual.", "vision_", "vision.",
	    "audio", "talker.", "code2wav.", "merger.", "patch_embed" };
	size_t i;

	for (i = 0; i < sizeof other / sizeof other[0]; i++) {
		if (strstr(s, other[i]) != NULL)
			return 1;
	}
	return 0;
}

int
qwen_hub_name(const struct qwen_hub *h, const char *from, uint32_t n_layer,
    struct hub_name *out)
{
	const char *s = skip(from, "thinker."), *at;
	const struct name_row *r;
	long n;

	memset(out, 0, sizeof *out);
	out->layer = -1;
	if (is_other_half(s)) {
		out->how = HUB_IGNORED;
		return 0;
	}
	s = skip(skip(skip(skip(s, "model."), "language_model."), "model."),
	    "language_model.");
	if ((at = skip(s, "mtp.")) != s) {
		if (of_mtp(h, at, n_layer, out))
			return 0;
	} else if ((at = skip(s, "layers.")) != s) {
		n = number(&at);
		out->layer = (int)n;
		if (n >= 0 && n < (long)n_layer && of_block(h, at, out))
			return 0;
	} else if ((r = FIND(whole, s)) != NULL) {
		out->how = r->how;
		snprintf(out->to, sizeof out->to, "%s", r->to);
		return 0;
	}
	return qwen_fail(h->err, QWEN_EUNSUP, "tensor %.100s does not belong "
	    "to a %s model of %u layers", from, h->arch->name, n_layer);
}
