/* SPDX-License-Identifier: ISC */
/* adapter.h - inside: an adapter while it is planned. */
#ifndef QWEN_HUB_ADAPTER_H
#define QWEN_HUB_ADAPTER_H

#include "hub/plan.h"

/* The pairs of a block's experts, [3][n_expert][2]: down, gate, up. */
struct adapter_stack {
	const struct qwen_st_tensor **w;
	uint32_t	 n[3];
	float		 times[3];	/* their alpha, as alpha_of() has it */
};

struct adapter_plan {
	struct qwen_hub_gguf *g;
	struct adapter_stack *stack;		/* of each block */
	uint64_t	 rank;		/* that all pairs must have, or 0 */
	size_t		 n_ignored;	/* pairs for images or audio */
	struct qwen_err	*err;
};

/* Read adapter_config.json into p; -1 if it asks for more than LoRA. */
int qwen_hub_adapter_config(struct adapter_plan *p);

/* Alpha of what has this name, in parts of that of all: *times. */
int qwen_hub_alpha_of(const struct adapter_plan *p, const char *name,
    float *times);

#endif
