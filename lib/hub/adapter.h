/* SPDX-License-Identifier: ISC */
/* adapter.h - internal: planning the conversion of an adapter. */
#ifndef QWEN_HUB_ADAPTER_H
#define QWEN_HUB_ADAPTER_H

#include "hub/make.h"

/* The pairs of a layer's experts. */
struct adapter_stack {
	struct hub_experts e;
	float		 times[3];	/* their alpha, as by
					   qwen_hub_alpha_of() */
};

/* A pattern of alpha_pattern that matches the end of names, and its value. */
struct adapter_alpha {
	char		*end;
	size_t		 at;		/* position in the file: the first match
					   counts */
	yyjson_val	*value;
};

struct adapter_plan {
	struct qwen_hub_gguf *g;
	struct qwen_hub	*h;		/* g->hub */
	struct adapter_stack *stack;		/* one per layer */
	uint64_t	 rank;		/* rank required of all pairs, or 0 */
	size_t		 n_ignored;	/* pairs for images or audio */
	struct adapter_alpha *alpha;	/* sorted by end, then position */
	size_t		 n_alpha;
	size_t		 odd_alpha;	/* position of the first unsupported
					   pattern */
};

/* Reads adapter_config.json into p; -1 if it requests more than LoRA. */
int qwen_hub_adapter_config(struct adapter_plan *p);

/* Frees what qwen_hub_adapter_config() allocated in p. */
void qwen_hub_adapter_config_fini(struct adapter_plan *p);

/*
 * Sets *times to the alpha of the named matrix, divided by lora_alpha.  Takes
 * time proportional to the length of the name, nearly independent of the number
 * of patterns.
 */
int qwen_hub_alpha_of(const struct adapter_plan *p, const char *name,
    float *times);

#endif
