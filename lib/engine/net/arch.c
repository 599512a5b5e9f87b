/* SPDX-License-Identifier: ISC */
/* arch.c - the table of architectures. */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "engine/net/net.h"

static const struct qwen_arch archs[] = {
	/* Qwen2.5 too */
	{ .name = "qwen2", .ffn_norm = "ffn_norm.weight", .no_qk_norm = 1 },
	{ .name = "qwen2moe", .ffn_norm = "ffn_norm.weight", .no_qk_norm = 1,
	  .moe = 1, .shared = 1, .share_of_all = 1 },
	{ .name = "qwen3", .ffn_norm = "ffn_norm.weight" },
	{ .name = "qwen35", .ffn_norm = "post_attention_norm.weight",
	  .hybrid = 1, .sections = 1 },
	/* Qwen3.6 too */
	{ .name = "qwen35moe", .ffn_norm = "post_attention_norm.weight",
	  .hybrid = 1, .sections = 1, .moe = 1, .shared = 1 },
	{ .name = "qwen3moe", .ffn_norm = "ffn_norm.weight", .moe = 1 },
	{ .name = "qwen3next", .ffn_norm = "post_attention_norm.weight",
	  .hybrid = 1, .grouped = 1, .moe = 1, .shared = 1 },
	/* the text part of vision models */
	{ .name = "qwen3vl", .ffn_norm = "ffn_norm.weight", .sections = 1 },
	{ .name = "qwen3vlmoe", .ffn_norm = "ffn_norm.weight", .sections = 1,
	  .moe = 1 },
};

#define N_ARCHS (sizeof archs / sizeof archs[0])

const struct qwen_arch *
qwen_arch_find(struct qwen_str name)
{
	size_t i;

	for (i = 0; i < N_ARCHS; i++) {
		if (strlen(archs[i].name) == name.len &&
		    memcmp(archs[i].name, name.s, name.len) == 0)
			return &archs[i];
	}
	return NULL;
}

void
qwen_arch_names(char *buf, size_t size)
{
	size_t i, n = 0;

	if (size > 0)
		buf[0] = '\0';
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
	    type.len == 7 && memcmp(type.s, "adapter", 7) == 0) {
		qwen_fail(err, QWEN_EUNSUP,
		    "an adapter, not a model: give it with --lora");
		return NULL;
	}
	if (name.len == 4 && memcmp(name.s, "clip", 4) == 0) {
		qwen_fail(err, QWEN_EUNSUP, "the image part of a model "
		    "(mmproj): only text is supported; give the other file");
		return NULL;
	}
	if ((a = qwen_arch_find(name)) != NULL)
		return a;
	qwen_arch_names(known, sizeof known);
	qwen_fail(err, QWEN_EUNSUP,
	    "unknown architecture \"%.*s\"; supported: %s",
	    name.len > 40 ? 40 : (int)name.len, name.s, known);
	return NULL;
}
