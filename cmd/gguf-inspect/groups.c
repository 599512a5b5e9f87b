/* SPDX-License-Identifier: ISC */
/* groups.c - the part of a model that a tensor belongs to. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-inspect.h"

const char *const inspect_group_name[] = {
	"embedding", "output", "attention", "deltanet", "router", "experts",
	"shared-expert", "ffn", "norm", "mtp", "merger", "other",
};
uint64_t
inspect_first_mtp(const struct qwen_gguf *g)
{
	uint64_t blocks = 0, nextn = 0;
	struct qwen_str arch;
	char key[128];

	if (qwen_gguf_get_str(g, "general.architecture", &arch, NULL) != 1 ||
	    arch.len > 64)
		return UINT64_MAX;
	snprintf(key, sizeof key, "%.*s.block_count", (int)arch.len, arch.s);
	if (qwen_gguf_get_u64(g, key, 0, &blocks, NULL) != 1)
		return UINT64_MAX;
	snprintf(key, sizeof key, "%.*s.nextn_predict_layers", (int)arch.len,
	    arch.s);
	if (qwen_gguf_get_u64(g, key, 0, &nextn, NULL) != 1 || nextn == 0 ||
	    nextn > blocks)
		return UINT64_MAX;
	return blocks - nextn;
}

static int
starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/*
 * Return 1 if the block is a DeltaNet block; attn_qkv belongs to attention in
 * the other blocks.
 */
static int
is_recurrent(const struct qwen_gguf *g, uint64_t block)
{
	char name[64];

	snprintf(name, sizeof name, "blk.%" PRIu64 ".ssm_a", block);
	return qwen_gguf_find_tensor(g, name) != NULL;
}

static int
group_in_block(const struct qwen_gguf *g, uint64_t block, const char *part)
{
	static const struct { const char *start; int group; } by[] = {
		{ "ssm_", INSPECT_DELTANET }, { "attn_norm", INSPECT_NORM },
		{ "attn_q_norm", INSPECT_NORM },
		{ "attn_k_norm", INSPECT_NORM },
		{ "post_attention_norm", INSPECT_NORM },
		{ "ffn_norm", INSPECT_NORM },
		{ "attn_", INSPECT_ATTENTION }, { "nextn.", INSPECT_MTP },
		{ "ffn_gate_inp_shexp", INSPECT_SHARED },
		{ "ffn_gate_inp", INSPECT_ROUTER },
	};
	size_t i;

	if (starts(part, "attn_qkv") || starts(part, "attn_gate"))
		return is_recurrent(g, block) ? INSPECT_DELTANET :
		    INSPECT_ATTENTION;
	for (i = 0; i < sizeof by / sizeof by[0]; i++) {
		if (starts(part, by[i].start))
			return by[i].group;
	}
	if (!starts(part, "ffn_"))
		return INSPECT_OTHER;
	return strstr(part, "_shexp") != NULL ? INSPECT_SHARED :
	    strstr(part, "_exps") != NULL ? INSPECT_EXPERTS : INSPECT_FFN;
}

/* Returns the group of a tensor of an image encoder. */
static int
group_of_image(const char *name)
{
	const char *part = name[0] != '\0' ? strrchr(name + 1, '.') : NULL;

	if (starts(name, "mm.") || starts(name, "v.deepstack."))
		return INSPECT_MERGER;
	if (starts(name, "v.patch_embd") || starts(name, "v.position_embd"))
		return INSPECT_EMBEDDING;
	if (part == NULL)
		return INSPECT_OTHER;
	while (part > name && part[-1] != '.')
		part--;
	return starts(part, "attn_") ? INSPECT_ATTENTION :
	    starts(part, "ffn_") ? INSPECT_FFN :
	    starts(part, "ln") || starts(part, "post_ln") ? INSPECT_NORM :
	    INSPECT_OTHER;
}

int
inspect_group(const struct qwen_gguf *g, const char *name, uint64_t mtp)
{
	unsigned long long block;
	char *end;

	if (starts(name, "v.") || starts(name, "mm."))
		return group_of_image(name);
	if (starts(name, "token_embd"))
		return starts(name, "token_embd_norm") ? INSPECT_NORM :
		    INSPECT_EMBEDDING;
	if (starts(name, "output_norm"))
		return INSPECT_NORM;
	if (starts(name, "output"))
		return INSPECT_OUTPUT;
	if (!starts(name, "blk.") || name[4] < '0' || name[4] > '9')
		return INSPECT_OTHER;
	block = strtoull(name + 4, &end, 10);
	if (*end != '.')
		return INSPECT_OTHER;
	return block >= mtp ? INSPECT_MTP : group_in_block(g, block, end + 1);
}
