/* SPDX-License-Identifier: ISC */
/*
 * plan.c - decides the format of each tensor: by patterns, recipe and row
 * length.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "gguf/recipe.h"
#include "quantize/imatrix.h"
#include "quantize/plan.h"

enum { NAME_BYTES = 64, FORMAT_BYTES = 16 };

/* ------------------------------------------------------- roles of tensors */

/* Roles by a part of the tensor's name, like in llama.cpp. */
static const struct {
	const char	*part;
	enum qwen_role	 role, expert, shared;
} roles[] = {
	{ "attn_qkv.weight", QKV_ROLE, QKV_ROLE, QKV_ROLE },
	{ "attn_v.weight", V_ROLE, V_ROLE, V_ROLE },
	{ "attn_k.weight", K_ROLE, K_ROLE, K_ROLE },
	{ "attn_q.weight", Q_ROLE, Q_ROLE, Q_ROLE },
	{ "attn_output.weight", OUT_ROLE, OUT_ROLE, OUT_ROLE },
	{ "ffn_up", FFN_UP_ROLE, EXPERT_UP_ROLE, SHARED_UP_ROLE },
	{ "ffn_gate", FFN_GATE_ROLE, EXPERT_UP_ROLE, SHARED_UP_ROLE },
	{ "ffn_down", FFN_DOWN_ROLE, EXPERT_DOWN_ROLE, SHARED_DOWN_ROLE },
};

static enum qwen_role
role_of(const struct qwen_quantize *p, const struct qwen_gguf_tensor *t)
{
	size_t i;

	if (strcmp(t->name, "output.weight") == 0)
		return HEAD_ROLE;
	if (strcmp(t->name, "token_embd.weight") == 0)
		return qwen_gguf_find_tensor(p->in, "output.weight") != NULL ?
		    EMBED_ROLE : HEAD_ROLE;
	for (i = 0; i < sizeof roles / sizeof roles[0]; i++) {
		if (strstr(t->name, roles[i].part) != NULL)
			return strstr(t->name, "_shexp") != NULL ?
			    roles[i].shared : t->ne[2] > 1 ? roles[i].expert :
			    roles[i].role;
	}
	return FIXED;
}

/*
 * Returns 1 for a matrix that may change its format; small, sensitive ones may
 * not.
 */
static int
may_change(const struct qwen_gguf_tensor *t)
{
	return t->ne[1] * t->ne[2] * t->ne[3] > 1 &&
	    qwen_ends(t->name, "weight") &&
	    strstr(t->name, "_norm.weight") == NULL &&
	    strstr(t->name, "ffn_gate_inp.weight") == NULL &&
	    strstr(t->name, "ssm_conv1d") == NULL &&
	    qwen_quant_find(t->type) != NULL;
}

/* Returns the value of ARCHITECTURE.key, or 0. */
static uint32_t
key_of(const struct qwen_gguf *g, const char *key)
{
	uint64_t v = 0;

	if (qwen_gguf_get_u64(g, qwen_gguf_arch_key(g, key).s, 0, &v, NULL) !=
	    1 || v > UINT32_MAX)
		return 0;
	return (uint32_t)v;
}

/* ---------------------------------------------------------------- patterns */

struct pattern {
	char		 name[NAME_BYTES + 1];
	uint32_t	 type;
	int		 used, line;
};

struct patterns {
	struct pattern	*v;
	size_t		 n, cap;
};

/* Returns the format of this name, if weights can be encoded in it; or QT_N. */
static uint32_t
find_type(const char *name)
{
	uint32_t i;

	for (i = 0; i < QT_N; i++) {
		if (qwen_ggml_name(i) != NULL && qwen_encode_known(i) &&
		    strcasecmp(qwen_ggml_name(i), name) == 0)
			break;
	}
	return i;
}

static int
read_line(struct patterns *p, const char *s, size_t n, int line,
    struct qwen_err *err)
{
	char text[NAME_BYTES + FORMAT_BYTES + 64], type[FORMAT_BYTES + 1], more;
	struct pattern *one;
	int k;

	if (n >= sizeof text)
		return qwen_fail(err, QWEN_EFORMAT, "pattern or format too "
		    "long");
	memcpy(text, s, n);
	text[n] = '\0';
	text[strcspn(text, "#\r")] = '\0';
	if (text[strspn(text, " \t")] == '\0')
		return 0;
	if ((one = qwen_push(&p->v, &p->cap, &p->n, sizeof *one, err)) == NULL)
		return -1;
	one->line = line;
	k = sscanf(text, "%64s %16s %c", one->name, type, &more);
	if (k != 2)
		return qwen_fail(err, QWEN_EFORMAT, "expected a pattern and a "
		    "format");
	one->type = find_type(type);
	return one->type != QT_N ? 0 : qwen_fail(err, QWEN_EUNSUP, "unknown or "
	    "unsupported format %s", type);
}

static int
read_patterns(struct patterns *p, const char *text, struct qwen_err *err)
{
	int line = 1;
	size_t n;

	for (; text != NULL && *text != '\0'; line++) {
		n = strcspn(text, "\n");
		if (read_line(p, text, n, line, err) < 0)
			return qwen_fail_in(err, "line %d of the types", line);
		text += n + (text[n] == '\n');
	}
	return 0;
}

/* ---------------------------------------------------------------- formats */

/* Returns the format that llama.cpp uses if rows are not whole blocks. */
static uint32_t
fallback(uint32_t type)
{
	switch (type) {
	case QT_IQ1_S: case QT_IQ1_M: case QT_IQ2_XXS: case QT_IQ2_XS:
	case QT_IQ2_S: case QT_IQ3_XXS: case QT_IQ3_S: case QT_IQ4_XS:
		return QT_IQ4_NL;
	case QT_Q2_K: case QT_Q3_K:
		return QT_Q4_0;
	case QT_Q4_K:
		return QT_Q5_0;
	case QT_Q5_K:
		return QT_Q5_1;
	case QT_Q6_K:
		return QT_Q8_0;
	}
	return type;
}

static int
choose(struct qwen_quantize *p, const struct qwen_recipe_model *m,
    struct patterns *by, struct quantize_item *it, struct qwen_err *err)
{
	struct pattern *first = NULL;
	unsigned block = 0;
	size_t i;

	it->type = it->t->type;
	if (!may_change(it->t))
		return 0;
	for (i = by->n; i-- > 0;) {
		if (fnmatch(by->v[i].name, it->t->name, 0) != 0)
			continue;
		by->v[i].used = 1;
		first = &by->v[i];
	}
	if (first != NULL) {
		it->type = first->type;
		if (it->t->ne[0] % qwen_ggml_block_len(it->type) != 0)
			return qwen_fail(err, QWEN_ERANGE, "%s: rows of %llu "
			    "numbers are not a multiple of the block length of "
			    "%s", it->t->name, (unsigned long long)it->t->ne[0],
			    qwen_ggml_name(it->type));
		return 0;
	}
	if (qwen_quantize_keeps(p))
		return 0;
	it->open = 1;
	if (p->opts.size > 0)
		return 0;
	(void)sscanf(it->t->name, "blk.%u.", &block);
	it->type = qwen_recipe_rest(p->recipe);
	if (qwen_ggml_block_len(it->type) > 1)
		it->type = qwen_recipe_type(p->recipe, m, block,
		    role_of(p, it->t));
	if (it->t->ne[0] % qwen_ggml_block_len(it->type) != 0)
		it->type = fallback(it->type);
	if (it->t->ne[0] % qwen_ggml_block_len(it->type) != 0)
		it->type = QT_F16;
	return 0;
}

/*
 * Returns 1 for formats that llama.cpp refuses to make without an importance
 * matrix.
 */
static int
is_few(uint32_t type)
{
	return type == QT_IQ3_XXS || type == QT_IQ2_S || type == QT_IQ2_XS ||
	    type == QT_IQ2_XXS;
}

/* Notes precision that was already lost, and missing importance values. */
static void
add_notes(const struct qwen_quantize *p)
{
	size_t i, again = 0, plain = 0, changed = 0, few = 0;
	uint32_t from = 0;

	if (qwen_quantize_keeps(p))
		return;
	for (i = 0; i < p->n; i++) {
		const struct quantize_item *it = &p->item[i];

		if (it->type == it->t->type)
			continue;
		changed++;
		few += is_few(it->type);
		if (qwen_ggml_block_len(it->t->type) > 1) {
			again++;
			from = it->t->type;
		}
		plain += !it->weighted && qwen_ggml_block_len(it->type) > 1 &&
		    strcmp(it->t->name, "token_embd.weight") != 0 &&
		    strcmp(it->t->name, "output.weight") != 0;
	}
	if (again > 0)
		qwen_gguf_note(p->w, "%zu of %zu tensors are already quantised "
		    "(%s); the precision they lost cannot be restored", again,
		    p->n, qwen_ggml_name(from));
	if (changed == 0)
		qwen_gguf_note(p->w, "all tensors have these formats already");
	if (p->opts.imatrix == NULL && few > 0)
		qwen_gguf_note(p->w, "formats of this few bits need an "
		    "importance matrix: see --imatrix");
	if (p->opts.imatrix != NULL && plain > 0)
		qwen_gguf_note(p->w, "the importance matrix has nothing for "
		    "%zu of %zu tensors", plain, p->n);
}

/*
 * Sets whether the importance matrix has weights for the tensor; -1 on errors.
 */
static int
weigh(const struct qwen_quantize *p, struct quantize_item *it,
    struct qwen_err *err)
{
	int has = p->opts.imatrix == NULL ? 0 :
	    qwen_imatrix_has(p->opts.imatrix, it->t, err);

	it->weighted = has > 0;
	return has;
}

static int
plan_items(struct qwen_quantize *p, struct patterns *by, struct qwen_err *err)
{
	const struct qwen_recipe_model m = {
		.n_layer = key_of(p->in, "block_count"),
		.heads = key_of(p->in, "attention.head_count"),
		.kv_heads = key_of(p->in, "attention.head_count_kv"),
		.n_expert = key_of(p->in, "expert_count"),
		.shared = key_of(p->in,
		    "expert_shared_feed_forward_length") > 0,
		.made = p->opts.imatrix != NULL ? QWEN_MADE_WEIGHTED :
		    QWEN_MADE_PLAIN,
	};
	struct quantize_item *it;
	size_t i;

	for (i = 0; i < p->n; i++) {
		it = &p->item[i];
		it->t = qwen_gguf_tensor(p->in, i);
		if (choose(p, &m, by, it, err) < 0 || ((it->type != it->t->type
		    || it->open) && weigh(p, it, err) < 0))
			return -1;
	}
	for (i = 0; i < by->n; i++) {
		if (!by->v[i].used)
			return qwen_fail(err, QWEN_ERANGE, "line %d of the "
			    "types: %s matches no tensor that can be converted",
			    by->v[i].line, by->v[i].name);
	}
	if (p->opts.size > 0 && qwen_quantize_fit(p, err) < 0)
		return -1;
	add_notes(p);
	return 0;
}

/*
 * If adapters change a tied embedding, or its use as the output head, adds the
 * head as a separate tensor.
 */
static int
untie(struct qwen_quantize *p, struct qwen_err *err)
{
	const struct quantize_item *embd = NULL;
	struct quantize_item *head = &p->item[p->n];
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (strcmp(p->item[i].t->name, "output.weight") == 0)
			return 0;
		if (strcmp(p->item[i].t->name, "token_embd.weight") == 0)
			embd = &p->item[i];
	}
	if (embd == NULL)
		return 0;
	*head = *embd;
	p->head = *embd->t;
	p->head.name = "output.weight";
	head->t = &p->head;
	head->changed = qwen_merge_changes(p->merge, p->head.name, &p->head);
	p->n += head->changed || embd->changed;
	return weigh(p, head, err);
}

/*
 * Marks the tensors that adapters change, and checks that they can be encoded.
 */
static int
merge_items(struct qwen_quantize *p, struct qwen_err *err)
{
	const char *from = NULL;
	size_t i, again = 0, plain = 0;

	for (i = 0; i < p->n; i++)
		p->item[i].changed = qwen_merge_changes(p->merge,
		    p->item[i].t->name, p->item[i].t);
	if (untie(p, err) < 0)
		return -1;
	for (i = 0; i < p->n; i++) {
		struct quantize_item *it = &p->item[i];
		const char *name = qwen_ggml_name(it->type);

		if (!it->changed)
			continue;
		if (!qwen_encode_known(it->type))
			return qwen_fail(err, QWEN_EUNSUP, "tensor %s is %s, "
			    "which cannot be encoded: choose another format "
			    "with --type", it->t->name, name);
		if (weigh(p, it, err) < 0)
			return -1;
		if (qwen_ggml_block_len(it->type) > 1) {
			from = name;
			again++;
			plain += !it->weighted;
		}
	}
	if (again == 0 || !qwen_quantize_keeps(p))
		return 0;
	qwen_gguf_note(p->w, "the changes of %zu of %zu tensors are rounded to "
	    "their formats (%s)", again, p->n, from);
	if (p->opts.imatrix != NULL && plain > 0)
		qwen_gguf_note(p->w, "the importance matrix has nothing for "
		    "%zu of them", plain);
	return 0;
}

int
qwen_quantize_plan(struct qwen_quantize *p, struct qwen_err *err)
{
	struct patterns by = { NULL, 0, 0 };
	int rc = -1;

	p->n = qwen_gguf_n_tensors(p->in);
	/* one more for a head that is no longer tied */
	p->item = calloc(p->n + 1, sizeof *p->item);
	if (p->item == NULL)
		return qwen_oom(err);
	if (read_patterns(&by, p->opts.types, err) == 0)
		rc = plan_items(p, &by, err);
	free(by.v);
	return rc == 0 && p->merge != NULL ? merge_items(p, err) : rc;
}
