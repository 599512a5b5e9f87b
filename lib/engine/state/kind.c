/* SPDX-License-Identifier: ISC */
/* kind.c - the kinds of records, and the fields that each of them has. */
#include <string.h>

#include "engine/state/state.h"

#define UINT(name) { name, QWEN_SHAPE_UINT }
#define TEXT(name) { name, QWEN_SHAPE_TEXT }
#define BYTES(name) { name, QWEN_SHAPE_BYTES }
#define BOOL(name) { name, QWEN_SHAPE_BOOL }
#define ARRAY(name) { name, QWEN_SHAPE_ARRAY }

#define BIT(f) (1u << QWEN_F_##f)
#define PIECE (BIT(OFF) | BIT(LEN) | BIT(CODEC))

_Static_assert(QWEN_F_OWN + QWEN_OWN_MAX <= 32,
    "a record has one bit for each of its fields");

const struct qwen_kind_row qwen_kinds[QWEN_N_KINDS] = {
	[QWEN_K_NONE] = { "" },
	[QWEN_K_INFO] = { "info", .own = { UINT("format"), TEXT("writer"),
	    UINT("n_tokens"), UINT("kv_block"), ARRAY("layers"), UINT("from"),
	    BYTES("prefix"), BOOL("converted") },
	    .optional = BIT(FROM) | BIT(PREFIX) | BIT(CONVERTED) },
	[QWEN_K_SPANS] = { "spans", PIECE, .width = 1 },
	[QWEN_K_TOKENS] = { "tokens", PIECE, .width = 4 },
	[QWEN_K_KV] = { "kv", PIECE | BIT(LAYER), .width = 2, .waits = 1 },
	[QWEN_K_MTP] = { "mtp", .own = { UINT("heads"), UINT("size"),
	    UINT("embd"), UINT("first"), BYTES("model") } },
	[QWEN_K_MTP_KV] = { "mtp-kv", PIECE, .width = 2, .skip = 1,
	    .waits = 1 },
	[QWEN_K_DELTA] = { "delta", PIECE | BIT(LAYER) | BIT(AT), .width = 4,
	    .waits = 1 },
	[QWEN_K_CONV] = { "conv", PIECE | BIT(LAYER) | BIT(AT), .width = 4,
	    .waits = 1 },
	[QWEN_K_LOGITS] = { "logits", PIECE | BIT(AT), .width = 4,
	    .waits = 1 },
	[QWEN_K_HIDDEN] = { "hidden", PIECE | BIT(AT), .width = 4, .skip = 1,
	    .waits = 1 },
	[QWEN_K_CHECKPOINT] = { "checkpoint", BIT(AT),
	    .own = { BOOL("named") } },
	[QWEN_K_GENERATED] = { "generated", PIECE, .width = 1 },
	[QWEN_K_SAMPLER] = { "sampler", .own = { TEXT("options"),
	    BYTES("pending"), TEXT("memory") }, .optional = BIT(MEMORY) },
	[QWEN_K_RUN] = { "run", .own = { UINT("start"), UINT("count"),
	    UINT("input"), TEXT("options"), BOOL("finished"), BOOL("again"),
	    BYTES("base") } },
	[QWEN_K_INDEX] = { "index", PIECE, .width = 1 },
	[QWEN_K_END] = { "end", .own = { UINT("records"), UINT("bytes"),
	    UINT("raw"), BYTES("total"), UINT("index"), BOOL("steps") },
	    .optional = BIT(INDEX) | BIT(STEPS) },
};

enum qwen_kind
qwen_kind_find(const char *name)
{
	enum qwen_kind k;

	for (k = QWEN_K_INFO; k < QWEN_N_KINDS; k++) {
		if (strcmp(qwen_kinds[k].name, name) == 0)
			return k;
	}
	return QWEN_K_NONE;
}
