/* SPDX-License-Identifier: ISC */
/* describe.c - what the CPU computes a model with, and where its time goes. */
#include <stdio.h>

#include "engine/cpu/describe.h"

static const char *const stage_names[QWEN_STAGE_MATMUL] = {
	[QWEN_STAGE_EMBED] = "embed", [QWEN_STAGE_NORM] = "norm",
	[QWEN_STAGE_ATTN_PREPARE] = "attn.prepare",
	[QWEN_STAGE_KV_APPEND] = "kv.append",
	[QWEN_STAGE_ATTN] = "attn", [QWEN_STAGE_CONV] = "conv",
	[QWEN_STAGE_DELTA_PREPARE] = "delta.prepare",
	[QWEN_STAGE_DELTA] = "delta",
	[QWEN_STAGE_DELTA_FINISH] = "delta.finish",
	[QWEN_STAGE_ROUTE] = "route", [QWEN_STAGE_ACTIVATE] = "activate",
	[QWEN_STAGE_COMBINE] = "combine", [QWEN_STAGE_PACK] = "pack",
	[QWEN_STAGE_LORA] = "lora",
};

static const char *const purpose_names[QWEN_FOR_N] = {
	[QWEN_FOR_EMBEDDING] = "embedding", [QWEN_FOR_NORM] = "norm",
	[QWEN_FOR_ATTN_PROJECTIONS] = "attn_projections",
	[QWEN_FOR_ATTN_PREPARE] = "attn_prepare",
	[QWEN_FOR_KV_APPEND] = "kv_append",
	[QWEN_FOR_ATTENTION] = "attention",
	[QWEN_FOR_DELTA_PROJECTIONS] = "delta_projections",
	[QWEN_FOR_DELTA_CONV] = "delta_conv",
	[QWEN_FOR_DELTA_PREPARE] = "delta_prepare",
	[QWEN_FOR_DELTA_RULE] = "delta_rule",
	[QWEN_FOR_DELTA_FINISH] = "delta_finish",
	[QWEN_FOR_ROUTER] = "router",
	[QWEN_FOR_ROUTED_EXPERTS] = "routed_experts",
	[QWEN_FOR_SHARED_EXPERT] = "shared_expert",
	[QWEN_FOR_MLP] = "mlp", [QWEN_FOR_HEAD] = "head",
	[QWEN_FOR_MTP_PROJECTION] = "mtp_projection",
	[QWEN_FOR_ADAPTERS] = "adapters",
};

static void
name_stage(struct qwen_kernel_stat *out, const struct qwen_cpu *c,
    size_t stage)
{
	const struct qwen_kernels *k = &c->kernels;
	const struct qwen_kernel *used = k->vec;
	uint32_t type;

	if (stage < QWEN_STAGE_MATMUL) {
		snprintf(out->name, sizeof out->name, "%s", stage_names[stage]);
		if (stage == QWEN_STAGE_ATTN)
			used = k->attn;
		else if (stage == QWEN_STAGE_DELTA)
			used = k->delta;
	} else {
		int gemm = stage >= QWEN_STAGE_GEMM;

		type = (uint32_t)(stage - (gemm ? QWEN_STAGE_GEMM :
		    QWEN_STAGE_MATMUL));
		snprintf(out->name, sizeof out->name, "%s.%s", gemm ? "gemm" :
		    "matmul", qwen_ggml_name(type));
		/* of all GEMMs, that of the most tokens */
		used = gemm ? k->gemm[type].by[QWEN_TOKEN_CLASSES - 1] :
		    k->matmul[type];
	}
	snprintf(out->variant, sizeof out->variant, "%s", used->name);
}

size_t
qwen_cpu_stats(const struct qwen_resident *r, int by_purpose,
    struct qwen_kernel_stat *out, size_t max)
{
	const struct qwen_cpu *c = (const struct qwen_cpu *)(const void *)r;
	size_t i, n = 0, all = by_purpose ? QWEN_FOR_N : QWEN_STAGE_N;
	struct qwen_kernel_stat s;

	for (i = 0; c->profile.on && i < all; i++) {
		if (!(by_purpose ? qwen_profile_sum(&c->profile, 0,
		    QWEN_STAGE_N, i, 1, &s) : qwen_profile_sum(&c->profile, i,
		    1, 0, QWEN_FOR_N, &s)))
			continue;
		if (by_purpose)
			snprintf(s.name, sizeof s.name, "%s",
			    purpose_names[i]);
		else
			name_stage(&s, c, i);
		if (n < max)
			out[n] = s;
		n++;
	}
	return n;
}

static size_t
line(char *buf, size_t size, size_t at, const char *op, const char *name)
{
	int n = snprintf(buf + (at < size ? at : size), at < size ? size - at :
	    0, "kernel %s %s\n", op, name);

	return at + (n > 0 ? (size_t)n : 0);
}

/* "kernel gemm.Q4_K avx512vnni, from 32 tokens amx"; or nothing. */
static size_t
gemm_line(char *buf, size_t size, size_t at, const struct qwen_gemms *g,
    uint32_t type)
{
	const struct qwen_kernel *k, *last = NULL;
	char op[32], names[320] = "";	/* each class may have its own */
	size_t c, n = 0;

	for (c = 0; c < QWEN_TOKEN_CLASSES; c++, last = k) {
		k = g->by[c];
		if (k == NULL || (last != NULL && k == last))
			continue;
		if (n == 0)
			n = (size_t)snprintf(names, sizeof names, "%s",
			    k->name);
		else
			n += (size_t)snprintf(names + n, sizeof names - n,
			    ", from %u tokens %s", qwen_token_classes[c],
			    k->name);
	}
	if (n == 0)
		return at;
	snprintf(op, sizeof op, "gemm.%s", qwen_ggml_name(type));
	return line(buf, size, at, op, names);
}

size_t
qwen_cpu_describe(const struct qwen_resident *r, char *buf, size_t size)
{
	const struct qwen_kernels *k =
	    &((const struct qwen_cpu *)(const void *)r)->kernels;
	const struct qwen_gguf *g = r->net->gguf;
	unsigned char used[QT_N] = { 0 };
	char op[32];
	size_t i, n = 0;

	for (i = 0; i < qwen_gguf_n_tensors(g); i++) {
		if (qwen_gguf_tensor(g, i)->type < QT_N)
			used[qwen_gguf_tensor(g, i)->type] = 1;
	}
	for (i = 0; i < QT_N; i++) {
		if (!used[i] || k->matmul[i] == NULL)
			continue;
		snprintf(op, sizeof op, "matmul.%s",
		    qwen_ggml_name((uint32_t)i));
		n = line(buf, size, n, op, k->matmul[i]->name);
		n = gemm_line(buf, size, n, &k->gemm[i], (uint32_t)i);
	}
	n = line(buf, size, n, "delta", k->delta->name);
	n = line(buf, size, n, "attn", k->attn->name);
	return line(buf, size, n, "vec", k->vec->name);
}
