/* SPDX-License-Identifier: ISC */
/*
 * plan.c - plans the tensors of the GGUF file in the order of llama.cpp's
 * converter.  Tensors of 4-bit codes come first, then all others, each in the
 * order of the folder's files.  Experts of a layer are stacked where their last
 * one is met.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hub/make.h"

/* Experts of a layer met so far. */
struct expert_group {
	struct hub_experts e;
	int		 done[3];
};

struct plan {
	struct qwen_hub_gguf *g;
	const struct qwen_hub *h;	/* g->hub */
	struct expert_group	*group;		/* one per layer */
	unsigned char	*seen;		/* [layers] its attn_norm was met */
	int		 embd, norm, rank;	/* the model's tensors of these
						   roles were met */
	int		 codes;		/* this pass takes 4-bit codes */
	size_t		 n_other;	/* tensors for images or audio */
};

/* ---------------------------------------------------------------- experts */

static int
gather(struct plan *p, const struct qwen_st_tensor *w,
    const struct hub_name *name)
{
	uint32_t n = p->g->n_expert;
	struct expert_group *x = &p->group[name->layer];
	struct hub_name all = *name;
	int i;

	if (qwen_hub_gather(p->g, &x->e, name, &w, 1) < 0)
		return -1;
	for (i = 0; i < 3; i++) {
		/*
		 * codes: stack a matrix as soon as it is complete; others:
		 * stack all three together
		 */
		if (x->done[i] || (p->codes ? i != name->which || x->e.n[i] <
		    n : x->e.n[0] < n || x->e.n[1] < n || x->e.n[2] < n))
			continue;
		x->done[i] = 1;
		qwen_hub_name_experts(&all, i);
		if (qwen_hub_make(p->g, &all, x->e.w + (size_t)i * n, n) < 0)
			return -1;
	}
	return 0;
}

static int
check_experts(const struct plan *p)
{
	uint32_t l, n = p->g->n_layer + p->g->n_mtp;
	int i;

	for (l = 0; l < n; l++) {
		for (i = 0; i < 3; i++) {
			if (p->group[l].e.w != NULL && !p->group[l].done[i])
				return qwen_fail(p->h->err, QWEN_EFORMAT,
				    "layer %u: the files have %s_proj of only "
				    "%u of %u experts", l, qwen_hub_expert[i],
				    p->group[l].e.n[i], p->g->n_expert);
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- tensors */

static int
is_wanted(const struct qwen_hub_gguf *g, const struct hub_name *name)
{
	if (name->how == HUB_IGNORED)
		return 0;
	return name->is_mtp ? !g->opts.no_mtp :
	    !g->opts.mtp_only || name->layer < 0;
}

/* Recognises a tensor by its name without "_packed". */
static int
name_of(const struct qwen_hub_gguf *g, const struct qwen_st_tensor *w,
    struct hub_name *name)
{
	char s[ST_NAME_MAX + 1];
	size_t n = strlen(w->name);

	if (qwen_ends(w->name, "_packed"))
		n -= strlen("_packed");
	snprintf(s, sizeof s, "%.*s", (int)n, w->name);
	return qwen_hub_name(g->hub, s, g->n_layer, name);
}

/*
 * Adds a note if the config ties the output to the embeddings, but the files
 * have an output matrix with other values.
 */
static int
note_untied(const struct plan *p, const struct qwen_st_tensor *head)
{
	const struct qwen_hub *h = p->h;
	const struct qwen_st_tensor *t;
	struct hub_name name;
	size_t i;

	if (!yyjson_is_true(qwen_hub_get(h, "tie_word_embeddings")))
		return 0;
	for (i = 0; i < h->st.n; i++) {
		t = &h->st.v[i];
		if (qwen_hub_is_scale(t->name))
			continue;
		if (name_of(p->g, t, &name) < 0)
			return -1;
		if (strcmp(name.to, "token_embd.weight") != 0)
			continue;
		if (t->type == head->type && t->bytes == head->bytes &&
		    memcmp(t->data, head->data, t->bytes) == 0)
			return 0;
		qwen_gguf_note(p->g->w, "config.json ties the output to the "
		    "embeddings, but %.60s differs from them: the output is "
		    "%.60s", head->name, head->name);
		return 0;
	}
	return 0;
}

/*
 * Plans a tensor that belongs to no layer.  A reranker that answers yes or no
 * keeps only the rows of these words of the output matrix (or of the
 * embeddings, if the output is tied to them), not the matrix.
 */
static int
plan_whole(struct plan *p, const struct hub_name *name,
    const struct qwen_st_tensor *w)
{
	struct qwen_hub_gguf *g = p->g;
	int embd = strcmp(name->to, "token_embd.weight") == 0;
	int head = strcmp(name->to, "output.weight") == 0;

	if (strcmp(name->to, "cls.output.weight") == 0) {
		if (g->rank != HUB_RANK_SCORE)
			return qwen_fail(p->h->err, QWEN_EUNSUP, "tensor "
			    "%.100s belongs to a reranker, which this %s model "
			    "is not", w->name, g->hub->arch->name);
		p->rank = 1;
	}
	p->embd |= embd;
	p->norm |= strcmp(name->to, "output_norm.weight") == 0;
	if (g->rank == HUB_RANK_WORDS && (g->tied ? embd : head)) {
		p->rank = 1;
		if (qwen_hub_make_classifier(g, w) < 0)
			return -1;
	}
	if (head && g->rank == HUB_NO_RANK && note_untied(p, w) < 0)
		return -1;
	return head && g->rank != HUB_NO_RANK ? 0 :
	    qwen_hub_make(g, name, &w, 1);
}

static int
plan_tensor(struct plan *p, const struct qwen_st_tensor *w)
{
	struct hub_name name;

	if ((qwen_hub_fp4(p->h, w) != 0) != p->codes ||
	    qwen_hub_is_scale(w->name))
		return 0;
	if (name_of(p->g, w, &name) < 0)
		return -1;
	p->n_other += name.how == HUB_IGNORED && name.layer < 0;
	if (!is_wanted(p->g, &name))
		return 0;
	if (name.layer < 0)
		return plan_whole(p, &name, w);
	if (strstr(name.to, ".attn_norm.weight") != NULL)
		p->seen[name.layer] = 1;
	return name.how == HUB_EXPERT ? gather(p, w, &name) :
	    qwen_hub_make(p->g, &name, &w, 1);
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that no two tensors get the same GGUF name. */
static int
check_twice(const struct qwen_hub_gguf *g)
{
	const char **name = calloc(g->n + 1, sizeof *name);
	size_t i;
	int rc = 0;

	if (name == NULL)
		return qwen_oom(g->hub->err);
	for (i = 0; i < g->n; i++)
		name[i] = g->t[i].name;
	qsort(name, g->n, sizeof *name, compare);
	for (i = 1; i < g->n && rc == 0; i++) {
		if (strcmp(name[i - 1], name[i]) == 0)
			rc = qwen_fail(g->hub->err, QWEN_EFORMAT, "%s: two "
			    "tensors become %s in GGUF",
			    g->hub->adapter_path != NULL ?
			    g->hub->adapter_path : g->hub->path, name[i]);
	}
	free(name);
	return rc;
}

/* Checks that the tensors are complete that every model has. */
static int
check_whole(const struct plan *p)
{
	const struct qwen_hub_gguf *g = p->g;
	uint32_t l;

	if (!p->embd || !p->norm)
		return qwen_hub_fail(p->h, NULL, "the files have no tensor %s",
		    p->embd ? "norm.weight" : "embed_tokens.weight");
	if (g->rank != HUB_NO_RANK && !p->rank)
		return qwen_hub_fail(p->h, NULL, "a reranker, but the files "
		    "have no tensor %s", g->rank == HUB_RANK_SCORE ?
		    "score.weight" : "lm_head.weight");
	for (l = g->opts.mtp_only ? g->n_layer : 0;
	    l < g->n_layer + g->n_mtp; l++) {
		if (!p->seen[l])
			return qwen_hub_fail(p->h, NULL, "layer %u of %u is "
			    "not in the files", l, g->n_layer + g->n_mtp);
	}
	return check_experts(p);
}

/* ------------------------------------------------------------- the config */

/* Counts the MTP layers in the files; their number becomes g->n_mtp. */
static int
count_mtp(struct qwen_hub_gguf *g)
{
	const struct qwen_st *st = &g->hub->st;
	struct hub_name name;
	uint32_t n = 0, said = 0;
	size_t i;

	for (i = 0; i < st->n; i++) {
		if (qwen_hub_is_scale(st->v[i].name))
			continue;
		if (name_of(g, &st->v[i], &name) < 0)
			return -1;
		if (name.is_mtp && (uint32_t)name.layer - g->n_layer + 1 > n)
			n = (uint32_t)name.layer - g->n_layer + 1;
	}
	if (n > g->n_layer)
		return qwen_fail(g->hub->err, QWEN_EFORMAT, "%u MTP blocks "
		    "after %u layers", n, g->n_layer);
	if (g->opts.mtp_only && n == 0)
		return qwen_fail(g->hub->err, QWEN_ERANGE, "%s has no MTP "
		    "block", g->hub->path);
	if (qwen_hub_get_u32(g->hub, "mtp_num_hidden_layers", &said) < 0)
		return -1;
	if (said > 0 && n == 0 && !g->opts.no_mtp)
		qwen_gguf_note(g->w, "config.json names an MTP block, but the "
		    "files have none: converted without it");
	g->n_mtp = g->opts.no_mtp ? 0 : n;
	return 0;
}

/*
 * Returns the type of the first f16 or bf16 matrix; without any, F32 if there
 * are F32 or F64 matrices, else F16.
 */
static uint32_t
type_of_folder(const struct qwen_hub *h)
{
	uint32_t type = QT_F16;
	const struct qwen_st_tensor *t;
	size_t i;

	for (i = 0; i < h->st.n; i++) {
		t = &h->st.v[i];
		if (t->n_dims < 2 || qwen_hub_is_scale(t->name))
			continue;
		if (qwen_hub_is_affine(h, t))
			t = qwen_hub_after(h, t, ".scales");
		if (t->type == ST_BF16 || t->type == ST_F16)
			return t->type == ST_BF16 ? QT_BF16 : QT_F16;
		if (t->type == ST_F32 || t->type == ST_F64)
			type = QT_F32;
	}
	return type;
}

/*
 * Returns the first tensor of n_dims dimensions (0: any number) with this text
 * in its name, or NULL.
 */
static const struct qwen_st_tensor *
first_named(const struct qwen_hub *h, const char *text, unsigned n_dims)
{
	const struct qwen_st_tensor *t = h->st.v, *end = t + h->st.n;

	while (t < end && (strstr(t->name, text) == NULL ||
	    (n_dims != 0 && t->n_dims != n_dims)))
		t++;
	return t < end ? t : NULL;
}

/*
 * Returns 1 if the fused expert tensors have inputs as rows.  Vision models
 * have, unless transformers has rewritten the files.  If the shape of
 * gate_up_proj allows both, that of down_proj decides.
 */
static int
are_turned(const struct qwen_hub *h, uint32_t n_embd)
{
	const struct qwen_st_tensor *up, *down;

	if (!h->arch->vision)
		return 0;
	up = first_named(h, ".mlp.experts.gate_up_proj", 3);
	down = first_named(h, ".mlp.experts.down_proj", 3);
	return up != NULL && up->shape[1] == n_embd &&
	    (up->shape[2] != n_embd ||
	    (down != NULL && down->shape[2] == n_embd));
}

/*
 * Returns 1 if MLX saved a hybrid model: it adds 1 to the norms.  Only the
 * shape of convolutions, [channels, width, 1], shows that.
 */
static int
is_of_mlx(const struct qwen_hub *h)
{
	const struct qwen_st_tensor *t = first_named(h,
	    "linear_attn.conv1d.weight", 0);

	return t != NULL && t->n_dims == 3 && t->shape[2] == 1 &&
	    t->shape[1] != 1;
}

static int
read_heads(struct qwen_hub_gguf *g)
{
	static const char *const key[] = { "linear_num_key_heads",
	    "linear_num_value_heads", "linear_key_head_dim",
	    "linear_value_head_dim" };
	uint64_t *to[] = { &g->heads.n_key, &g->heads.n_value,
	    &g->heads.key_dim, &g->heads.value_dim };
	uint32_t n;
	size_t i;

	for (i = 0; i < 4; i++) {
		if (qwen_hub_need_u32(g->hub, key[i], &n) < 0)
			return -1;
		if (n > 1 << 20)
			return qwen_hub_bad(g->hub, "%s is %u", key[i], n);
		*to[i] = n;
	}
	if (g->heads.n_value % g->heads.n_key != 0)
		return qwen_hub_bad(g->hub, "%" PRIu64 " value heads share %"
		    PRIu64 " key heads", g->heads.n_value, g->heads.n_key);
	return 0;
}

uint32_t
qwen_hub_type_of(const struct qwen_hub_gguf *g, uint32_t own)
{
	static const uint32_t type[] = { [QWEN_HUB_F32] = QT_F32,
	    [QWEN_HUB_F16] = QT_F16, [QWEN_HUB_BF16] = QT_BF16,
	    [QWEN_HUB_Q8_0] = QT_Q8_0 };

	return g->opts.type == QWEN_HUB_AUTO ? own : type[g->opts.type];
}

static int
read_config(struct qwen_hub_gguf *g)
{
	const struct qwen_hub *h = g->hub;
	uint32_t n_embd;

	if (qwen_hub_need_u32(h, "num_hidden_layers", &g->n_layer) < 0)
		return -1;
	if (g->n_layer > 10000)
		return qwen_hub_bad(h, "%u layers", g->n_layer);
	if (h->arch->moe && qwen_hub_need_u32(h,
	    qwen_hub_get(h, "num_local_experts") != NULL ?
	    "num_local_experts" : "num_experts", &g->n_expert) < 0)
		return -1;
	if (g->n_expert > 1 << 16)
		return qwen_hub_bad(h, "%u experts", g->n_expert);
	if (h->arch->hybrid && read_heads(g) < 0)
		return -1;
	if (qwen_hub_need_u32(h, "hidden_size", &n_embd) < 0)
		return -1;
	g->type = qwen_hub_type_of(g, type_of_folder(h));
	if (h->adapter != NULL)
		return 0;
	if (qwen_hub_find_rank(g) < 0)
		return -1;
	g->turned = are_turned(h, n_embd);
	g->mlx = is_of_mlx(h);
	if (count_mtp(g) < 0)
		return -1;
	return g->mlx && g->n_mtp > 0 ?
	    qwen_hub_fail(h, NULL, "MLX weights with an MTP block are not "
	    "supported: use --no-mtp to leave the block out") : 0;
}

/* Fills the table of the 256 F8 values: sign, exponent, `man' mantissa bits. */
static void
f8_table(float *x, int man, int bias, int e5m2)
{
	int i, k, e, m;
	float f;

	for (i = 0; i < 256; i++) {
		e = (i & 127) >> man;
		m = i & ((1 << man) - 1);
		f = (float)(e > 0 ? m + (1 << man) : m);
		for (k = (e > 0 ? e : 1) - bias - man; k < 0; k++)
			f /= 2;
		for (; k > 0; k--)
			f *= 2;
		/* no infinity in E4M3 */
		if (e5m2 ? e == 31 : (i & 127) == 127)
			f = !e5m2 || m > 0 ? qwen_bits_f32(0x7fc00000) :
			    qwen_bits_f32(0x7f800000);
		x[i] = i & 128 ? -f : f;
	}
}

int
qwen_hub_plan(struct qwen_hub_gguf *g)
{
	struct plan p = { .g = g, .h = g->hub };
	const struct qwen_st *st = &g->hub->st;
	uint32_t l;
	size_t i, n;
	int rc = -1;

	f8_table(g->e4m3, 3, 7, 0);
	f8_table(g->e5m2, 2, 15, 1);
	if (g->opts.mmproj)
		return qwen_hub_plan_mmproj(g) < 0 ? -1 : check_twice(g);
	if (read_config(g) < 0)
		return -1;
	if (g->hub->adapter != NULL)
		return g->hub->plan(g) < 0 ? -1 : check_twice(g);
	n = g->n_layer + g->n_mtp;
	p.group = calloc(n, sizeof *p.group);
	p.seen = calloc(n, 1);
	if (p.group == NULL || p.seen == NULL)
		qwen_oom(g->hub->err);
	else
		rc = 0;
	for (p.codes = 1; p.codes >= 0 && rc == 0; p.codes--) {
		for (i = 0; i < st->n && rc == 0; i++)
			rc = plan_tensor(&p, &st->v[i]);
	}
	if (rc == 0)
		rc = check_twice(g) < 0 ? -1 : check_whole(&p);
	if (rc == 0 && p.n_other > 0 && !g->opts.mtp_only)
		qwen_gguf_note(g->w, "%zu tensors for images or audio are left "
		    "out: the file is for text only%s", p.n_other,
		    qwen_hub_get(g->hub, "vision_config") != NULL ?
		    "; --mmproj makes the file for images" : "");
	for (l = 0; p.group != NULL && l < n; l++)
		free(p.group[l].e.w);
	free(p.group);
	free(p.seen);
	return rc;
}
