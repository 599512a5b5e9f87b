/* SPDX-License-Identifier: ISC */
/*
 * check.c - settings of config.json for which GGUF has no key, as all files of
 * an architecture have the same.  Settings that would change the computation
 * are refused, or noted.
 */
#include <inttypes.h>
#include <string.h>

#include "hub/json.h"
#include "hub/plan.h"

/* Checks that all layers of a model with experts have experts. */
static int
check_dense(const struct qwen_hub_gguf *g)
{
	const struct qwen_hub *h = g->hub;
	yyjson_val *list = qwen_hub_get(h, "mlp_only_layers"), *v;
	uint32_t step = 1;
	uint64_t layer;
	size_t i, n;

	if (!h->arch->moe)
		return 0;
	if (qwen_hub_get_u32(h, "decoder_sparse_step", &step) < 0)
		return -1;
	if (step != 1)
		return qwen_hub_bad(h, "decoder_sparse_step is %u, but all "
		    "layers of %s must have experts", step, h->arch->name);
	if (list != NULL && !yyjson_is_null(list) && !yyjson_is_arr(list))
		return qwen_hub_bad(h, "mlp_only_layers is not a list");
	yyjson_arr_foreach(list, i, n, v) {
		if (qwen_hub_u64(v, &layer) < 0)
			return qwen_hub_bad(h, "mlp_only_layers has an invalid "
			    "layer");
		if (layer < g->n_layer)
			return qwen_hub_bad(h, "mlp_only_layers has layer %"
			    PRIu64 ", but all layers of %s must have experts",
			    layer, h->arch->name);
	}
	return 0;
}

/* Returns the number of layers that have a tensor whose name ends with tail. */
static uint32_t
count(const struct qwen_hub_gguf *g, const char *tail)
{
	const char *s;
	uint32_t n = 0;
	size_t i;

	for (i = 0; i < g->n; i++) {
		s = strchr(g->t[i].name, '.');
		if (s == NULL || (s = strchr(s + 1, '.')) == NULL)
			continue;
		n += strcmp(s + 1, tail) == 0;
	}
	return n;
}

/*
 * Checks that all layers have biases of attention exactly if the config says
 * so. For qwen2 the config has no key: q, k and v have biases, the output has
 * not.
 */
static int
check_biases(const struct qwen_hub_gguf *g)
{
	static const char *const what[][2] = {
		{ "attn_q.weight", "attn_q.bias" },
		{ "attn_k.weight", "attn_k.bias" },
		{ "attn_v.weight", "attn_v.bias" },
		{ "attn_output.weight", "attn_output.bias" },
	};
	int old = g->hub->arch->no_qk_norm, has = old;
	int silent = old && !g->hub->arch->moe;
	const char *key = old ? "qkv_bias" : "attention_bias";
	yyjson_val *v = silent ? NULL : qwen_hub_get(g->hub, key);
	uint32_t all, n;
	size_t i;

	if (v != NULL && !yyjson_is_null(v)) {
		if (!yyjson_is_bool(v))
			return qwen_hub_bad(g->hub, "%s is neither true nor "
			    "false", key);
		has = yyjson_get_bool(v);
	}
	for (i = silent ? 3 : 0; i < 4; i++) {
		all = count(g, what[i][0]);
		n = count(g, what[i][1]);
		if (i == 3 && old && n > 0)
			return qwen_hub_fail(g->hub, NULL, "the files have %s, "
			    "which %s does not support", what[i][1],
			    g->hub->arch->name);
		if ((i < 3 || !old) && n != (has ? all : 0))
			return qwen_hub_bad(g->hub, "%s is %s, but %u of %u "
			    "layers have %s", key, has ? "true" : "false", n,
			    all, what[i][1]);
	}
	return 0;
}

int
qwen_hub_check(struct qwen_hub_gguf *g)
{
	const struct qwen_hub *h = g->hub;
	yyjson_val *act = qwen_hub_get(h, "hidden_act");
	yyjson_val *topk = qwen_hub_get(h, "norm_topk_prob");
	int divides = !h->arch->share_of_all;

	if (act != NULL && !yyjson_is_null(act) && !yyjson_is_str(act))
		return qwen_hub_bad(h, "hidden_act is not a string");
	if (yyjson_is_str(act) && strcmp(yyjson_get_str(act), "silu") != 0)
		return qwen_hub_bad(h, "hidden_act is %s; %s needs silu",
		    yyjson_get_str(act), h->arch->name);
	if (check_dense(g) < 0 || check_biases(g) < 0)
		return -1;
	if (yyjson_is_bool(topk) && h->arch->moe &&
	    yyjson_get_bool(topk) != divides)
		qwen_gguf_note(g->w, "config.json says norm_topk_prob %s, "
		    "which GGUF cannot express: weights of experts of %s are "
		    "%sdivided by their sum", divides ? "false" : "true",
		    h->arch->name, divides ? "" : "not ");
	if (yyjson_get_bool(qwen_hub_get(h, "use_sliding_window")))
		qwen_gguf_note(g->w, "config.json has a sliding window, which "
		    "GGUF cannot express: each token sees all before it");
	return 0;
}
