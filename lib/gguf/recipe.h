/* SPDX-License-Identifier: ISC */
/* recipe.h - recipes: mixes of formats by the role and depth of tensors. */
#ifndef QWEN_GGUF_RECIPE_H
#define QWEN_GGUF_RECIPE_H

#include <stddef.h>
#include <stdint.h>

#include "gguf/type.h"
#include "qwen/base.h"

/* Role of a tensor, as far as recipes distinguish them. */
enum qwen_role {
	FIXED = 0,			/* F32 in all files */
	EMBED_ROLE = 1 << 0,		/* token_embd, if there is an output
					   tensor */
	HEAD_ROLE = 1 << 1,		/* output, or token_embd used as both */
	Q_ROLE = 1 << 2, K_ROLE = 1 << 3, V_ROLE = 1 << 4, OUT_ROLE = 1 << 5,
	QKV_ROLE = 1 << 6, GATE_ROLE = 1 << 7,	/* of DeltaNet */
	SSM_BA_ROLE = 1 << 8, SSM_OUT_ROLE = 1 << 9,
	FFN_GATE_ROLE = 1 << 10, FFN_UP_ROLE = 1 << 11, FFN_DOWN_ROLE = 1 << 12,
	EXPERT_UP_ROLE = 1 << 13,		/* gate too */
	EXPERT_DOWN_ROLE = 1 << 14,
	SHARED_UP_ROLE = 1 << 15, SHARED_DOWN_ROLE = 1 << 16,
	ROUTER_ROLE = 1 << 17,
	EH_PROJ_ROLE = 1 << 18,			/* of the MTP block */
};

/* How a file is made; llama.cpp's mixes depend on it. */
enum qwen_recipe_made {
	QWEN_MADE_PLAIN,		/* without an importance matrix */
	QWEN_MADE_WEIGHTED,		/* with one */
	QWEN_MADE_PUBLISHED,		/* like published files */
};

/* The properties of a model that recipes depend on. */
struct qwen_recipe_model {
	uint32_t	 n_layer, heads, kv_heads, n_expert;
	int		 shared;	/* it has a shared expert */
	enum qwen_recipe_made made;
};

/*
 * Names and numbers of recipes; case is ignored.  QWEN_EUNSUP for an unknown
 * name.
 */
const char *qwen_recipe_name(size_t recipe);	/* NULL after the last */
int qwen_recipe_find(size_t *recipe, const char *name, struct qwen_err *err);

/* Returns 1 for a recipe of llama.cpp, 0 for one of a publisher. */
int qwen_recipe_is_stock(size_t recipe);

/*
 * qwen_recipe_rest returns the format of most tensors; qwen_recipe_type that of
 * a tensor of this role in layer `block'.
 */
uint32_t qwen_recipe_rest(size_t recipe);

uint32_t qwen_recipe_type(size_t recipe, const struct qwen_recipe_model *m,
    uint32_t block, enum qwen_role role);

/*
 * qwen_recipe_file_type returns a recipe's number in general.file_type;
 * qwen_recipe_of_file the name of the stock recipe with this number, or NULL.
 */
uint32_t qwen_recipe_file_type(size_t recipe);
const char *qwen_recipe_of_file(uint64_t file_type);

#endif
