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

/* A pattern of alpha_pattern that is the end of names, and its value. */
struct adapter_alpha {
	char		*end;
	size_t		 at;		/* place in the file: the first counts */
	yyjson_val	*value;
};

struct adapter_plan {
	struct qwen_hub_gguf *g;
	struct adapter_stack *stack;		/* of each block */
	uint64_t	 rank;		/* that all pairs must have, or 0 */
	size_t		 n_ignored;	/* pairs for images or audio */
	struct adapter_alpha *alpha;	/* by end, then place */
	size_t		 n_alpha;
	size_t		 odd_alpha;	/* place of the first other pattern */
	struct qwen_err	*err;
};

/* Read adapter_config.json into p; -1 if it asks for more than LoRA. */
int qwen_hub_adapter_config(struct adapter_plan *p);

/* Free what qwen_hub_adapter_config() has put into p. */
void qwen_hub_adapter_config_fini(struct adapter_plan *p);

/*
 * *times: the alpha of the matrix with this name, divided by lora_alpha.  Takes time
 * by the length of the name, and hardly by the number of patterns.
 */
int qwen_hub_alpha_of(const struct adapter_plan *p, const char *name,
    float *times);

#endif
