/* SPDX-License-Identifier: ISC */
/*
 * recipe.c - the format of each tensor by its role and depth: the mixes of
 * llama.cpp, and those of publishers.
 */
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "gguf/recipe.h"

/* Roles that recipes treat alike. */
enum {
	VALUES = V_ROLE | QKV_ROLE,
	ATTN = Q_ROLE | K_ROLE | VALUES | OUT_ROLE | GATE_ROLE | SSM_OUT_ROLE,
	SHARED = SHARED_UP_ROLE | SHARED_DOWN_ROLE,
	UP = FFN_GATE_ROLE | FFN_UP_ROLE | EXPERT_UP_ROLE | SHARED_UP_ROLE,
	DOWN = FFN_DOWN_ROLE | EXPERT_DOWN_ROLE | SHARED_DOWN_ROLE,
	EXPERTS = EXPERT_UP_ROLE | EXPERT_DOWN_ROLE,
};

enum where {
	EVERYWHERE,
	RANGE,		/* layers from the first to the second 64th of the
			   depth */
	COUNTED,	/* the same, counting tensors of this role (llama.cpp's
			   term) */
	FIRST,		/* the first N layers */
	MORE_BITS,	/* both ends, and every third layer between */
	GROUPED,	/* models with four or more query heads per KV head */
	MOE,		/* MoE models */
	EIGHT,		/* models with eight experts */
	EIGHT_MORE,	/* those, in the layers of MORE_BITS */
	MTP,		/* the MTP layers */
};

enum when {
	ALWAYS,
	UNWEIGHTED,	/* no importance matrix, or a published file */
	PLAIN,		/* no importance matrix */
	WEIGHTED,	/* an importance matrix */
};

/* The first rule that matches a tensor decides its format. */
struct rule {
	unsigned	 roles;
	uint32_t	 type;
	enum where	 where;
	uint32_t	 from, to;
	enum when	 when;
};

struct recipe {
	const char	*name;
	uint32_t	 file_type;	/* general.file_type */
	uint32_t	 rest;		/* format if no rule matches */
	const struct rule *rules;	/* ended by one without roles */
};

/* A rule has the format's name without QT_. */
#define RULE(roles, type, ...) { roles, QT_##type, __VA_ARGS__ }
#define ALL(roles, type) RULE(roles, type, EVERYWHERE, 0, 0, ALWAYS)
#define IF(where, roles, type) RULE(roles, type, where, 0, 0, ALWAYS)
#define IN(roles, type, from, to) RULE(roles, type, RANGE, from, to, ALWAYS)
#define UP_TO(roles, type, n) RULE(roles, type, FIRST, 0, n, ALWAYS)
#define WHEN(when, roles, type) RULE(roles, type, EVERYWHERE, 0, 0, when)
#define IN_WHEN(when, roles, type, from, to) \
	RULE(roles, type, RANGE, from, to, when)
#define RULES(...) (const struct rule []){ __VA_ARGS__, { .roles = 0 } }

/* The first rules of all recipes; some include EIGHT_Q5. */
#define HEAD_Q6 ALL(HEAD_ROLE, Q6_K), IF(EIGHT, VALUES | K_ROLE, Q8_0)
#define EIGHT_Q5 IF(EIGHT, OUT_ROLE, Q5_K)

/* Recipes below three bits. */
#define BELOW_3(embed, value, least) \
	ALL(HEAD_ROLE, Q5_K), ALL(EMBED_ROLE, embed), \
	IF(GROUPED, VALUES, Q4_K), IF(MOE, VALUES, Q4_K), ALL(VALUES, value), \
	IF(EIGHT, K_ROLE, Q4_K), IF(EIGHT, OUT_ROLE, Q5_K), \
	RULE(DOWN, least, COUNTED, 0, 8, ALWAYS)

/*
 * Unsloth's files of MoE models: 8 bits for what every token needs, and the
 * recipe's formats for the experts.
 */
#define UD_MOE(up, down) \
	ALL(EXPERT_UP_ROLE, up), ALL(EXPERT_DOWN_ROLE, down), \
	IF(MOE, SSM_BA_ROLE, F32), IF(MTP, ROUTER_ROLE, BF16), \
	IF(MOE, HEAD_ROLE, Q6_K), \
	IF(MOE, ATTN | SHARED | EMBED_ROLE | EH_PROJ_ROLE, Q8_0)

/* Those of dense models: the MTP block and small tensors. */
#define UD_DENSE \
	ALL(SSM_BA_ROLE | EH_PROJ_ROLE, Q8_0), IF(MTP, V_ROLE, Q8_0), \
	IF(MTP, FFN_GATE_ROLE | FFN_UP_ROLE, Q5_K), \
	IF(MTP, ATTN | FFN_DOWN_ROLE, Q6_K), HEAD_Q6

static const struct recipe recipes[] = {
	{ "F32", 0, QT_F32, NULL },
	{ "BF16", 32, QT_BF16, NULL },
	{ "F16", 1, QT_F16, NULL },
	{ "Q8_0", 7, QT_Q8_0, NULL },
	{ "Q6_K", 18, QT_Q6_K, RULES(HEAD_Q6) },
	{ "Q5_K_M", 17, QT_Q5_K, RULES(HEAD_Q6,
	    IF(MORE_BITS, VALUES | DOWN, Q6_K)) },
	{ "Q5_K_S", 16, QT_Q5_K, RULES(HEAD_Q6) },
	{ "Q5_1", 9, QT_Q5_1, RULES(HEAD_Q6) },
	{ "Q5_0", 8, QT_Q5_0, RULES(HEAD_Q6,
	    IN_WHEN(WEIGHTED, DOWN, Q5_1, 0, 8)) },
	{ "Q4_K_M", 15, QT_Q4_K, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(MORE_BITS, VALUES | DOWN, Q6_K)) },
	{ "Q4_K_S", 14, QT_Q4_K, RULES(HEAD_Q6, EIGHT_Q5,
	    UP_TO(VALUES, Q5_K, 4), IN(DOWN, Q5_K, 0, 8)) },
	{ "Q4_1", 3, QT_Q4_1, RULES(HEAD_Q6) },
	{ "Q4_0", 2, QT_Q4_0, RULES(HEAD_Q6,
	    IN_WHEN(WEIGHTED, DOWN, Q4_1, 0, 8)) },
	{ "IQ4_NL", 25, QT_IQ4_NL, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(GROUPED, VALUES, Q5_K), IN_WHEN(UNWEIGHTED, DOWN, Q5_K, 0, 8)) },
	{ "IQ4_XS", 30, QT_IQ4_XS, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(GROUPED, VALUES, Q5_K), IN_WHEN(UNWEIGHTED, DOWN, Q5_K, 0, 8)) },
	{ "MXFP4_MOE", 38, QT_Q8_0, RULES(ALL(EXPERTS, MXFP4)) },
	{ "NVFP4", 39, QT_NVFP4, RULES(ALL(EMBED_ROLE | HEAD_ROLE, Q8_0),
	    ALL(SSM_BA_ROLE | EH_PROJ_ROLE, BF16),
	    IF(MTP, ATTN | UP | DOWN, BF16)) },
	{ "Q3_K_L", 13, QT_Q3_K, RULES(HEAD_Q6, IF(EIGHT, OUT_ROLE, Q3_K),
	    ALL(VALUES | DOWN | OUT_ROLE, Q5_K)) },
	{ "Q3_K_M", 12, QT_Q3_K, RULES(HEAD_Q6, EIGHT_Q5,
	    UP_TO(VALUES, Q5_K, 2), IN(DOWN, Q5_K, 0, 4),
	    ALL(VALUES | DOWN | OUT_ROLE, Q4_K)) },
	{ "Q3_K_S", 11, QT_Q3_K, RULES(HEAD_Q6, EIGHT_Q5) },
	{ "IQ3_M", 27, QT_IQ3_S, RULES(HEAD_Q6, EIGHT_Q5,
	    ALL(VALUES | OUT_ROLE, Q4_K), IN(DOWN, Q4_K, 0, 8),
	    IF(EIGHT_MORE, DOWN, Q4_K)) },
	{ "IQ3_S", 26, QT_IQ3_S, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(GROUPED, VALUES, Q4_K)) },
	{ "IQ3_XS", 22, QT_IQ3_S, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(GROUPED, VALUES, Q4_K), ALL(Q_ROLE | K_ROLE, IQ3_XXS),
	    IN(UP, IQ3_XXS, 8, 56)) },
	{ "IQ3_XXS", 23, QT_IQ3_XXS, RULES(ALL(HEAD_ROLE, Q5_K),
	    IF(EIGHT, VALUES | K_ROLE, Q8_0), EIGHT_Q5,
	    ALL(EMBED_ROLE | OUT_ROLE, IQ3_S), IF(GROUPED, VALUES, Q4_K),
	    WHEN(PLAIN, VALUES, IQ3_S), IN_WHEN(PLAIN, DOWN, Q4_K, 0, 8),
	    WHEN(PLAIN, DOWN, Q3_K),
	    ALL(Q_ROLE | K_ROLE, IQ2_S)) },
	{ "Q2_K", 10, QT_Q2_K, RULES(HEAD_Q6, EIGHT_Q5,
	    IF(GROUPED, VALUES, Q4_K), ALL(VALUES | DOWN | OUT_ROLE, Q3_K)) },
	{ "Q2_K_S", 21, QT_Q2_K, RULES(HEAD_Q6, IF(GROUPED, VALUES, Q4_K),
	    IN(DOWN, Q4_K, 0, 8)) },
	{ "IQ2_M", 29, QT_IQ2_S, RULES(BELOW_3(IQ3_S, IQ3_S, IQ3_S),
	    ALL(OUT_ROLE, IQ3_S)) },
	{ "IQ2_S", 28, QT_IQ2_XS, RULES(BELOW_3(IQ3_S, IQ3_S, IQ3_S),
	    ALL(OUT_ROLE, IQ3_S)) },
	{ "IQ2_XS", 20, QT_IQ2_XS, RULES(BELOW_3(Q2_K, Q2_K, Q2_K)) },
	{ "IQ2_XXS", 19, QT_IQ2_XXS, RULES(BELOW_3(Q2_K, Q2_K, Q2_K)) },
	{ "IQ1_M", 31, QT_IQ1_M, RULES(BELOW_3(Q2_K, Q2_K, Q2_K),
	    ALL(OUT_ROLE, IQ2_XXS)) },
	{ "IQ1_S", 24, QT_IQ1_S, RULES(BELOW_3(Q2_K, Q2_K, Q2_K),
	    ALL(OUT_ROLE, IQ2_XXS)) },
	{ "TQ2_0", 37, QT_TQ2_0, RULES(HEAD_Q6, ALL(EMBED_ROLE, Q4_K)) },
	{ "TQ1_0", 36, QT_TQ1_0, RULES(HEAD_Q6, ALL(EMBED_ROLE, Q4_K)) },
	{ "Q2_0", 41, QT_Q2_0, RULES(HEAD_Q6, ALL(EMBED_ROLE, Q4_K)) },
	{ "Q1_0", 40, QT_Q1_0, RULES(HEAD_Q6) },

	{ "UD-Q4_K_XL", 15, QT_Q4_K, RULES(UD_MOE(Q4_K, Q5_K), UD_DENSE,
	    ALL(EMBED_ROLE | SSM_OUT_ROLE | V_ROLE, Q8_0),
	    ALL(QKV_ROLE | K_ROLE | OUT_ROLE, Q6_K),
	    ALL(GATE_ROLE | Q_ROLE, Q5_K),
	    IN(FFN_DOWN_ROLE, Q5_K, 0, 8),
	    IN(FFN_GATE_ROLE, IQ4_XS, 16, 48)) },
	/* which three of the 41 in Q6_K is not known */
	{ "UD-Q4_K_M", 15, QT_IQ4_XS, RULES(
	    IN(EXPERT_DOWN_ROLE, Q6_K, 57, 58),
	    IN(EXPERT_DOWN_ROLE, Q6_K, 60, 61),
	    IN(EXPERT_DOWN_ROLE, Q6_K, 62, 63),
	    UD_MOE(Q4_K, Q5_K), UD_DENSE,
	    ALL(SSM_OUT_ROLE | V_ROLE, Q6_K), ALL(EMBED_ROLE | VALUES, Q5_K),
	    ALL(K_ROLE | OUT_ROLE, Q4_K), ALL(GATE_ROLE, IQ4_NL),
	    ALL(FFN_DOWN_ROLE, Q4_K), IN(UP, IQ3_S, 20, 44)) },
	{ "UD-IQ4_XS", 30, QT_IQ4_XS, RULES(UD_MOE(IQ3_S, IQ4_XS), UD_DENSE,
	    ALL(SSM_OUT_ROLE | V_ROLE | EMBED_ROLE, Q5_K),
	    ALL(QKV_ROLE | K_ROLE | OUT_ROLE, Q4_K),
	    IN(UP, IQ3_S, 16, 48)) },
	{ "UD-Q3_K_M", 12, QT_Q3_K, RULES(UD_MOE(Q3_K, Q4_K), UD_DENSE,
	    ALL(SSM_OUT_ROLE | V_ROLE, Q5_K),
	    ALL(QKV_ROLE | K_ROLE | OUT_ROLE | EMBED_ROLE, Q4_K),
	    IN(FFN_DOWN_ROLE, IQ4_XS, 0, 16),
	    ALL(FFN_DOWN_ROLE, IQ3_S), IN(UP, IQ3_XXS, 16, 48)) },
	{ "UD-IQ3_XXS", 23, QT_IQ3_XXS, RULES(
	    IN(EXPERT_UP_ROLE, IQ2_S, 16, 48),
	    UD_MOE(IQ3_XXS, IQ3_S), UD_DENSE,
	    ALL(SSM_OUT_ROLE | V_ROLE, Q4_K),
	    ALL(K_ROLE | OUT_ROLE | EMBED_ROLE, IQ4_XS),
	    ALL(QKV_ROLE, IQ3_S), ALL(Q_ROLE | GATE_ROLE, IQ2_S),
	    IN(FFN_DOWN_ROLE, IQ3_S, 0, 12),
	    IN(UP, IQ2_S, 20, 44)) },
	/* the counts of Qwen3.8-27B's file; the layers are not known */
	{ "UD-Q2_K_XL", 10, QT_IQ3_XXS, RULES(UD_MOE(Q2_K, Q3_K), UD_DENSE,
	    ALL(EMBED_ROLE, Q4_K), IN(V_ROLE, Q6_K, 0, 4),
	    ALL(V_ROLE, Q4_K), ALL(K_ROLE, IQ4_XS), ALL(OUT_ROLE, IQ3_S),
	    ALL(Q_ROLE, Q2_K), ALL(QKV_ROLE, IQ2_XXS),
	    IN(SSM_OUT_ROLE, Q4_K, 0, 6),
	    IN(SSM_OUT_ROLE, IQ4_XS, 61, 64), ALL(SSM_OUT_ROLE, IQ3_S),
	    IN(GATE_ROLE, IQ1_S, 16, 42),
	    IN(GATE_ROLE, IQ1_M, 42, 43), ALL(GATE_ROLE, IQ2_XS),
	    IN(FFN_DOWN_ROLE, Q3_K, 0, 5),
	    IN(FFN_DOWN_ROLE, IQ4_XS, 63, 64),
	    IN(FFN_UP_ROLE, IQ2_S, 20, 44),
	    IN(FFN_GATE_ROLE, IQ2_XS, 28, 35),
	    IN(FFN_GATE_ROLE, IQ2_S, 7, 57)) },
	{ "UD-IQ2_XXS", 19, QT_IQ2_XXS, RULES(UD_MOE(IQ2_XS, IQ2_S), UD_DENSE,
	    ALL(EMBED_ROLE | V_ROLE | SSM_OUT_ROLE, Q4_K),
	    ALL(K_ROLE | OUT_ROLE, IQ3_S), ALL(Q_ROLE | QKV_ROLE, IQ2_XS),
	    ALL(FFN_DOWN_ROLE, IQ2_S), IN(GATE_ROLE, IQ1_M, 16, 48)) },
};

enum { N_RECIPES = sizeof recipes / sizeof recipes[0] };

static int
is_time(const struct rule *r, enum qwen_recipe_made made)
{
	switch (r->when) {
	case ALWAYS: return 1;
	case UNWEIGHTED: return made != QWEN_MADE_WEIGHTED;
	case PLAIN: return made == QWEN_MADE_PLAIN;
	case WEIGHTED: return made == QWEN_MADE_WEIGHTED;
	}
	return 0;
}

static int
is_more(uint32_t n, uint32_t i)
{
	return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

static int
is_there(const struct rule *r, const struct qwen_recipe_model *m, uint32_t i,
    enum qwen_role role)
{
	uint32_t n = m->n_layer;

	switch (r->where) {
	case EVERYWHERE: return 1;
	case RANGE: return i >= n * r->from / 64 && i < n * r->to / 64;
	case COUNTED:
		if (m->shared && m->made != QWEN_MADE_PUBLISHED)
			i = 2 * i + ((role & SHARED) != 0);
		return i >= n * r->from / 64 && i < n * r->to / 64;
	case FIRST: return i < r->to;
	case MORE_BITS: return is_more(n, i);
	case GROUPED: return m->heads >= 4 * m->kv_heads;
	case MOE: return m->n_expert != 0;
	case EIGHT:
		return m->n_expert == 8 && m->made != QWEN_MADE_PUBLISHED;
	case EIGHT_MORE:
		return m->n_expert == 8 && m->made != QWEN_MADE_PUBLISHED &&
		    is_more(n, i);
	case MTP: return i >= n;
	}
	return 0;
}

uint32_t
qwen_recipe_type(size_t recipe, const struct qwen_recipe_model *m,
    uint32_t block, enum qwen_role role)
{
	const struct rule *r = recipes[recipe].rules;

	for (; r != NULL && r->roles != 0; r++) {
		if ((r->roles & role) != 0 && is_time(r, m->made) &&
		    is_there(r, m, block, role))
			return r->type;
	}
	return role == ROUTER_ROLE ? QT_F32 : recipes[recipe].rest;
}

uint32_t
qwen_recipe_rest(size_t recipe)
{
	return recipes[recipe].rest;
}

uint32_t
qwen_recipe_file_type(size_t recipe)
{
	return recipes[recipe].file_type;
}

const char *
qwen_recipe_of_file(uint64_t file_type)
{
	size_t i;

	for (i = 0; i < N_RECIPES; i++) {
		if (recipes[i].file_type == file_type)
			return recipes[i].name;	/* stock recipes come first */
	}
	return NULL;
}

int
qwen_recipe_is_stock(size_t recipe)
{
	return strncmp(recipes[recipe].name, "UD-", 3) != 0;
}

const char *
qwen_recipe_name(size_t recipe)
{
	return recipe < N_RECIPES ? recipes[recipe].name : NULL;
}

int
qwen_recipe_find(size_t *recipe, const char *name, struct qwen_err *err)
{
	size_t i;

	for (i = 0; i < N_RECIPES; i++) {
		if (strcasecmp(recipes[i].name, name) == 0) {
			*recipe = i;
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP, "unknown recipe %s", name);
}
