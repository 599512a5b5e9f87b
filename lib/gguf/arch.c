/* SPDX-License-Identifier: ISC */
/* arch.c - the architectures. */
#include <stdio.h>

#include "base/err.h"
#include "base/text.h"
#include "gguf/arch.h"
#include "gguf/mmproj.h"

#define PLAIN .ffn_norm = "ffn_norm.weight", .pre = "qwen2"
#define HYBRID .hybrid = 1, .ffn_norm = "post_attention_norm.weight"
#define HF(class, type) .hf_class = class, .hf_type = type

static const struct qwen_arch archs[] = {
	/* Qwen2.5 too */
	{ .name = "qwen2", PLAIN, .no_qk_norm = 1, HF("Qwen2", "qwen2") },
	{ .name = "qwen2moe", PLAIN, .no_qk_norm = 1,
	  .moe = 1, .shared = 1, .share_of_all = 1,
	  HF("Qwen2Moe", "qwen2_moe") },
	{ .name = "qwen3", PLAIN, .ranks = 1, HF("Qwen3", "qwen3") },
	{ .name = "qwen35", HYBRID, .pre = "qwen35", .sections = 1,
	  HF("Qwen3_5", "qwen3_5") },
	/* Qwen3.6 too */
	{ .name = "qwen35moe", HYBRID, .pre = "qwen35", .sections = 1,
	  .moe = 1, .shared = 1, HF("Qwen3_5Moe", "qwen3_5_moe") },
	{ .name = "qwen3moe", PLAIN, .moe = 1, HF("Qwen3Moe", "qwen3_moe") },
	{ .name = "qwen3next", HYBRID, .pre = "qwen2", .grouped = 1,
	  .moe = 1, .shared = 1, HF("Qwen3Next", "qwen3_next") },
	/* the text part of vision models */
	{ .name = "qwen3vl", PLAIN, .sections = 1, .vision = 1, .ranks = 1,
	  HF("Qwen3VL", "qwen3_vl") },
	{ .name = "qwen3vlmoe", PLAIN, .sections = 1, .vision = 1, .moe = 1,
	  HF("Qwen3VLMoe", "qwen3_vl_moe") },
};

#define N_ARCHS (sizeof archs / sizeof archs[0])

const struct qwen_arch *
qwen_arch_row(size_t i)
{
	return i < N_ARCHS ? &archs[i] : NULL;
}

const struct qwen_arch *
qwen_arch_find(struct qwen_str name)
{
	size_t i;

	for (i = 0; i < N_ARCHS; i++) {
		if (qwen_str_is(name, archs[i].name))
			return &archs[i];
	}
	return NULL;
}

/* Writes "qwen2, qwen2moe, ..." to buf. */
static void
list_names(char *buf, size_t size)
{
	size_t i, n = 0;

	for (i = 0; i < N_ARCHS && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s",
		    i > 0 ? ", " : "", archs[i].name);
}

const struct qwen_arch *
qwen_arch_of(const struct qwen_gguf *g, struct qwen_err *err)
{
	const struct qwen_arch *a;
	struct qwen_str name, type;
	char known[160];
	int r = qwen_gguf_get_str(g, "general.architecture", &name, err);

	if (r < 0)
		return NULL;
	if (r == 0) {
		qwen_fail(err, QWEN_EFORMAT,
		    "key general.architecture is missing");
		return NULL;
	}
	if (qwen_gguf_get_str(g, "general.type", &type, err) > 0 &&
	    qwen_str_is(type, "adapter")) {
		qwen_fail(err, QWEN_EUNSUP,
		    "an adapter, not a model: give it with --lora");
		return NULL;
	}
	if (qwen_mmproj_refuse(g, err) < 0)
		return NULL;
	if ((a = qwen_arch_find(name)) != NULL)
		return a;
	list_names(known, sizeof known);
	qwen_fail(err, QWEN_EUNSUP,
	    "unknown architecture \"%.*s\"; supported: %s",
	    name.len > 40 ? 40 : (int)name.len, name.s, known);
	return NULL;
}
