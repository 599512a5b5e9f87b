/* SPDX-License-Identifier: ISC */
/* arch.h - inside: architectures, and what hubs and GGUF call their tensors. */
#ifndef QWEN_HUB_ARCH_H
#define QWEN_HUB_ARCH_H

#include "hub/folder.h"

enum {
	HUB_MOE = 1,		/* experts */
	HUB_LINEAR = 2,		/* linear attention; norms are stored less 1 */
	HUB_TILED = 4,		/* its value heads are put into tiled order */
	HUB_VISION = 8,		/* the text half of a model that sees */
	HUB_RANK = 16,		/* some are made for ranking */
};

struct qwen_hub_arch {
	const char	*name;		/* general.architecture */
	const char	*classes;	/* of the config, between spaces */
	const char	*types;		/* its model_type, likewise */
	unsigned	 flags;
};

/* What is to be done with a tensor, beside giving it its name. */
enum hub_how {
	HUB_PLAIN,
	HUB_NORM,		/* a norm, 1 to be added where HUB_LINEAR */
	HUB_ROUTER,		/* always F32 */
	HUB_CONV,		/* F32; value rows after q and k */
	HUB_DECAY,		/* -exp(), an element each value head */
	HUB_HEADS,		/* a row, or element, each value head */
	HUB_VALUE_ROWS,		/* head_v_dim rows each value head */
	HUB_QKV_ROWS,		/* likewise, after those of q and k */
	HUB_VALUE_COLUMNS,	/* head_v_dim columns each value head */
	HUB_QKVZ,		/* q, k, v and z, interleaved by key head */
	HUB_EXPERT,		/* of one expert: to be put together */
	HUB_DOWN_EXPERTS,	/* of all */
	HUB_STACKED_EXPERTS,	/* of all, one matrix after the other (MLX) */
	HUB_GATE_UP_EXPERTS,	/* of all, two in one */
	HUB_IGNORED,		/* nothing that a text model needs */
};

/* A tensor of the folder, understood. */
struct hub_name {
	char		 to[64];	/* in GGUF; of an expert, of all */
	enum hub_how	 how;
	int		 layer;		/* -1: of none; MTP blocks come last */
	int		 is_mtp;
	uint32_t	 expert;	/* where HUB_EXPERT */
	int		 which;		/* of an expert: 0 down, 1 gate, 2 up */
};

/* The class that the whole config names, or NULL. */
const char *qwen_hub_class(const struct qwen_hub *h);

/* Set h->arch by the config. */
int qwen_hub_find_arch(struct qwen_hub *h, struct qwen_err *err);

/*
 * What a tensor called from (a weight or bias, no scale of it) is, in a model of
 * n_layer blocks before those of MTP; -1 if that is not known.
 */
int qwen_hub_name(const struct qwen_hub *h, const char *from, uint32_t n_layer,
    struct hub_name *out, struct qwen_err *err);

#endif
