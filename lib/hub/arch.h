/* SPDX-License-Identifier: ISC */
/*
 * arch.h - internal: architectures, and their tensor names in Hugging Face and
 * GGUF files.
 */
#ifndef QWEN_HUB_ARCH_H
#define QWEN_HUB_ARCH_H

#include "hub/folder.h"

/* How to convert a tensor, besides renaming it. */
enum hub_how {
	HUB_PLAIN,
	HUB_NORM,		/* a norm; of a hybrid model, add 1 */
	HUB_ROUTER,		/* always F32 */
	HUB_CONV,		/* F32; value rows follow those of q and k */
	HUB_DECAY,		/* -exp(), one element per value head */
	HUB_HEADS,		/* one row, or element, per value head */
	HUB_VALUE_ROWS,		/* head_v_dim rows per value head */
	HUB_QKV_ROWS,		/* the same, after the rows of q and k */
	HUB_VALUE_COLUMNS,	/* head_v_dim columns per value head */
	HUB_QKVZ,		/* q, k, v and z, interleaved by key head */
	HUB_EXPERT,		/* of one expert; to be stacked */
	HUB_DOWN_EXPERTS,	/* of all experts */
	HUB_STACKED_EXPERTS,	/* of all experts, one matrix after another
				   (MLX) */
	HUB_GATE_UP_EXPERTS,	/* of all experts, gate and up in one tensor */
	HUB_IGNORED,		/* not needed by a text model */
};

/* A recognised tensor of the folder. */
struct hub_name {
	char		 to[64];	/* GGUF name; for an expert, that of the
					   stack */
	enum hub_how	 how;
	int		 layer;		/* -1: none; MTP layers come last */
	int		 is_mtp;
	uint32_t	 expert;	/* if HUB_EXPERT */
	int		 which;		/* for an expert: 0 down, 1 gate, 2
					   up */
};

/* Names of the matrices of experts, "down", "gate" and "up". */
extern const char *const qwen_hub_expert[3];

/* Sets name->to to the stack of all experts of its layer, for this matrix. */
void qwen_hub_name_experts(struct hub_name *name, int which);

/* Returns the class that config.json names, or NULL. */
const char *qwen_hub_class(const struct qwen_hub *h);

/* Sets h->arch from config.json. */
int qwen_hub_find_arch(struct qwen_hub *h);

/*
 * Recognises the tensor called from (a weight or bias, not a scale) in a model
 * of n_layer layers before the MTP layers; -1 if the name is unknown.
 */
int qwen_hub_name(const struct qwen_hub *h, const char *from, uint32_t n_layer,
    struct hub_name *out);

#endif
