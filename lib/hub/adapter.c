/* SPDX-License-Identifier: ISC */
/*
 * adapter.c - plans the tensors of an adapter's GGUF file: for each matrix with
 * a LoRA pair in the folder, A and B, in the order of the folder's files.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hub/adapter.h"
#include "hub/json.h"
#include "hub/make.h"

#define ADAPTER_CONFIG "adapter_config.json"

/*
 * Endings of the names of A and B after the module's name: as peft writes them;
 * with the adapter's name "default", as a running model saves them; and as MLX
 * writes them.
 */
static const char *const ending[][2] = {
	{ ".lora_A.weight", ".lora_B.weight" },
	{ ".lora_embedding_A", ".lora_embedding_B" },
	{ ".lora_A.default.weight", ".lora_B.default.weight" },
	{ ".lora_embedding_A.default", ".lora_embedding_B.default" },
	{ ".lora_a", ".lora_b" },	/* MLX */
};

enum { N_ENDINGS = sizeof ending / sizeof ending[0], MLX = N_ENDINGS - 1 };

/* ------------------------------------------------------------- one pair */

/* Multiplies by times all B tensors from tensor i on. */
static void
scale_b_tensors(struct qwen_hub_gguf *g, size_t i, float times)
{
	for (; times != 1 && i < g->n; i++) {
		if (g->t[i].name[strlen(g->t[i].name) - 1] != 'b')
			continue;
		g->t[i].op = HUB_TIMES;
		g->t[i].by = times;
	}
}

/* Adds the tensor of A (which = 0) or B (which = 1) of n matrices. */
static struct hub_tensor *
new_matrix(struct qwen_hub_gguf *g, const char *to, int which, size_t n)
{
	struct hub_tensor *t;
	char full[80];

	snprintf(full, sizeof full, "%s.lora_%c", to, "ab"[which]);
	if (strlen(full) >= sizeof t->name) {
		qwen_fail(g->hub->err, QWEN_EUNSUP, "%s: name too long for "
		    "GGUF", full);
		return NULL;
	}
	if ((t = qwen_hub_new_tensor(g, full)) != NULL) {
		t->from = g->n_sources;
		t->n_from = n;
	}
	return t;
}

/*
 * Sets shape and type of a matrix; transposed: its rows are columns of the
 * source.
 */
static void
set_matrix_shape(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    const struct hub_source *s, int transposed)
{
	t->order = transposed ? HUB_TRANSPOSED : HUB_AS_IS;
	qwen_hub_shape(t, s, transposed ? s->columns : s->rows, transposed ?
	    s->rows : s->columns);
	t->type = qwen_hub_matrix_type(g, t);
}

/*
 * Adds A (which = 0) or B (which = 1) of n pairs: 1, or one pair per expert;
 * pair[2 * i] is A and pair[2 * i + 1] is B of pair i.
 */
static struct hub_tensor *
plan_pair_matrix(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, size_t n, int which)
{
	struct hub_tensor *t;
	struct hub_source *s;
	int mlx = g->hub->adapter_mlx;	/* its matrices are transposed */
	size_t i;

	if ((t = new_matrix(g, name->to, which, n)) == NULL)
		return NULL;
	for (i = 0; i < n; i++) {
		if (qwen_hub_add_sources(g, name, pair + 2 * i + which, 1) < 0)
			return NULL;
		s = &g->source[t->from];
		if (pair[2 * i]->n_dims != 2 || pair[2 * i + 1]->n_dims != 2 ||
		    pair[2 * i]->shape[mlx] != pair[2 * i + 1]->shape[!mlx] ||
		    s[i].rows != s->rows || s[i].columns != s->columns) {
			qwen_fail(g->hub->err, QWEN_EFORMAT, "tensors %.90s "
			    "and %.90s do not fit: different ranks, or another "
			    "shape than the other pairs", pair[2 * i]->name,
			    pair[2 * i + 1]->name);
			return NULL;
		}
	}
	s = &g->source[t->from];
	set_matrix_shape(g, t, s, mlx);
	return t;
}

/*
 * One matrix of the folder becomes two in GGUF: each gets all of A, and its
 * rows of B.
 */
static int
plan_qkvz_pair(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair)
{
	uint64_t keys = 2 * g->heads.n_key * g->heads.key_dim;
	uint64_t values = g->heads.n_value * g->heads.value_dim;
	struct hub_name one = *name;
	const struct hub_source *s;
	struct hub_tensor *t;
	int z;

	for (z = 0; z < 2; z++) {
		snprintf(one.to, sizeof one.to, "blk.%d.%s.weight",
		    name->layer, z ? "attn_gate" : "attn_qkv");
		if (plan_pair_matrix(g, &one, pair, 1, 0) == NULL ||
		    (t = plan_pair_matrix(g, &one, pair, 1, 1)) == NULL)
			return -1;
		s = &g->source[t->from];
		if (s->rows != keys + 2 * values)
			return qwen_hub_bad_shape(g, s, "rows of q, k, v and "
			    "z");
		t->order = z ? HUB_SPLIT_Z : HUB_SPLIT_QKV;
		qwen_hub_shape(t, s, z ? values : keys + values, s->columns);
	}
	return 0;
}

/* Adds the two tensors for n pairs: 1, or one per expert. */
static int
plan_pair_tensors(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, size_t n)
{
	struct hub_tensor *t;
	const struct hub_source *s;
	int columns = name->how == HUB_VALUE_COLUMNS;

	if (g->hub->adapter_mlx && name->how != HUB_PLAIN &&
	    name->how != HUB_ROUTER)
		return qwen_hub_bad_tensor(g->hub, pair[0], "MLX adapters for "
		    "matrices that GGUF reorders are not supported");
	switch (name->how) {
	case HUB_QKVZ:
		return plan_qkvz_pair(g, name, pair);
	case HUB_PLAIN:
	case HUB_ROUTER:
	case HUB_EXPERT:
	case HUB_HEADS:
	case HUB_VALUE_ROWS:
	case HUB_QKV_ROWS:
	case HUB_VALUE_COLUMNS:
		break;
	default:
		return qwen_hub_bad_tensor(g->hub, pair[0], "adapters for a "
		    "matrix that GGUF changes or omits are not supported");
	}
	if ((t = plan_pair_matrix(g, name, pair, n, 0)) == NULL)
		return -1;
	s = &g->source[t->from];
	if (columns && qwen_hub_tile(g, t, s, name->how) < 0)
		return -1;
	if (strcmp(name->to, "token_embd.weight") == 0)
		set_matrix_shape(g, t, s, !g->hub->adapter_mlx);
	if ((t = plan_pair_matrix(g, name, pair, n, 1)) == NULL)
		return -1;
	return columns ? 0 :
	    qwen_hub_tile(g, t, &g->source[t->from], name->how);
}

/* ----------------------------------------------------- experts in one tensor */

/*
 * Returns 1 if peft 0.minor or later wrote the config.  Versions before 0.18 do
 * not write their number.
 */
static int
is_since(yyjson_val *root, int minor)
{
	const char *s = qwen_hub_str(root, "peft_version");
	int a = 0, b = 0;

	return s != NULL && sscanf(s, "%d.%d", &a, &b) == 2 &&
	    (a > 0 || b >= minor);
}

static int
has_target(yyjson_val *root, const char *what)
{
	yyjson_val *list = yyjson_obj_get(root, "target_parameters"), *v;
	size_t i, n;

	yyjson_arr_foreach(list, i, n, v) {
		if (yyjson_is_str(v) && strstr(yyjson_get_str(v), what) != NULL)
			return 1;
	}
	return 0;
}

/*
 * A pair for all experts of a layer: for down_proj, else for gate_up_proj.
 * swapped: the folder's A has the outputs as columns.
 */
struct experts {
	int	 down, swapped;
	uint64_t in, out, rank;
};

/*
 * Determines which matrix a pair for all experts belongs to, as its name does
 * not say.  The shapes decide.  If several matrices have these shapes,
 * target_parameters decides: its last entry is the outermost pair.  If A and B
 * can be either way round, peft_version decides: before 0.20 peft took rows for
 * inputs.
 */
static int
identify_expert_pair(const struct adapter_plan *p, int inner,
    const struct qwen_st_tensor *const *pair, struct experts *out)
{
	yyjson_val *root = yyjson_doc_get_root(p->h->adapter);
	int down = has_target(root, "down_proj") && !inner;
	int swapped = !is_since(root, 20), i;
	uint64_t rows = pair[0]->shape[0];
	uint32_t n_embd, n_ff, n = p->g->n_expert;

	if (qwen_hub_need_u32(p->h, "hidden_size", &n_embd) < 0 ||
	    qwen_hub_need_u32(p->h, "moe_intermediate_size", &n_ff) < 0)
		return -1;
	for (i = 0; i < 4 && pair[0]->n_dims == 2 && pair[1]->n_dims == 2;
	    i++) {
		struct experts e = { .down = down ^ i / 2, .swapped =
		    swapped ^ i % 2, .rank = rows / n };

		e.in = e.down ? n_ff : n_embd;
		e.out = e.down ? n_embd : 2 * (uint64_t)n_ff;
		if (rows % n == 0 && pair[1]->shape[1] == rows &&
		    pair[0]->shape[1] == (e.swapped ? e.out : e.in) &&
		    pair[1]->shape[0] == (e.swapped ? e.in : e.out)) {
			*out = e;
			return 0;
		}
	}
	return qwen_fail(p->h->err, QWEN_EFORMAT, "tensors %.90s and %.90s do "
	    "not fit gate_up_proj or down_proj of %u experts (config.json)",
	    pair[0]->name, pair[1]->name, n);
}

/* Adds A (which = 0) or B (which = 1) of all experts: one plane per expert. */
static int
plan_expert_matrix(struct qwen_hub_gguf *g, const char *to, int which,
    const struct experts *e, uint64_t row0,
    const struct qwen_st_tensor *const *pair)
{
	const struct hub_name name = { .how = HUB_PLAIN };
	uint64_t rows = !which ? e->rank : e->down ? e->out : e->out / 2;
	struct hub_tensor *t = new_matrix(g, to, which, 1);
	struct hub_source *s;
	int from_b = which ^ e->swapped;

	if (t == NULL)
		return -1;
	if (qwen_hub_add_sources(g, &name, pair + from_b, 1) < 0)
		return -1;
	s = &g->source[t->from];
	if (s->scale != NULL)
		return qwen_hub_bad_tensor(g->hub, s->w, "adapters with "
		    "quantisation scales are not supported");
	s->planes = g->n_expert;
	if (from_b)
		s->columns = e->rank;
	else
		s->rows = e->rank;
	t->order = from_b ? e->swapped ? HUB_MIXED_TRANSPOSED : HUB_MIXED :
	    e->swapped ? HUB_TRANSPOSED : HUB_AS_IS;
	t->row0 = row0;
	qwen_hub_shape(t, s, rows, which ? e->rank : e->in);
	t->n_dims = 3;
	t->type = qwen_hub_matrix_type(g, t);
	return 0;
}

/*
 * Adds the tensors of a pair for all experts of a layer: down, or gate and up.
 */
static int
plan_experts(struct adapter_plan *p, const struct hub_name *of, int inner,
    const struct qwen_st_tensor *const *pair)
{
	size_t first = p->g->n;
	struct hub_name name = *of;
	struct experts e;
	char module[48];
	uint64_t row0;
	float times;
	int i;

	if (identify_expert_pair(p, inner, pair, &e) < 0)
		return -1;
	snprintf(module, sizeof module, "layers.%d.mlp.experts.%s", of->layer,
	    e.down ? "down_proj" : "gate_up_proj");
	if (qwen_hub_alpha_of(p, module, &times) < 0)
		return -1;
	for (i = !e.down; i < (e.down ? 1 : 3); i++) {	/* down; gate, up */
		qwen_hub_name_experts(&name, i);
		row0 = i == 2 ? e.out / 2 : 0;
		if (plan_expert_matrix(p->g, name.to, 0, &e, 0, pair) < 0 ||
		    plan_expert_matrix(p->g, name.to, 1, &e, row0, pair) < 0)
			return -1;
	}
	scale_b_tensors(p->g, first, times);
	return 0;
}

/* ---------------------------------------------------------------- tensors */

/*
 * Returns 1 if w is the first matrix of a pair: sets the model's name of the
 * matrix, and *b to the second one.  Returns 0 if w is a second matrix, or one
 * of the model's own; -1 on errors.
 */
static int
pair_of(const struct adapter_plan *p, const struct qwen_st_tensor *w, char *name,
    const struct qwen_st_tensor **b)
{
	static const char prefix[] = "base_model.model.";
	size_t skip = strncmp(w->name, prefix, sizeof prefix - 1) == 0 ?
	    sizeof prefix - 1 : 0, n = strlen(w->name), m, i, k;
	char other[ST_NAME_MAX + 20];

	for (i = 0; i < 2 * N_ENDINGS; i++) {
		m = strlen(ending[i / 2][i % 2]);
		if ((i / 2 == MLX) != p->h->adapter_mlx)
			continue;
		if (n <= skip + m || strcmp(w->name + n - m,
		    ending[i / 2][i % 2]) != 0)
			continue;
		k = i / 2;
		snprintf(other, sizeof other, "%.*s%s", (int)(n - m), w->name,
		    ending[k][1 - i % 2]);
		*b = qwen_hub_find(p->h, other);
		if (*b == NULL)
			return qwen_hub_bad_tensor(p->h, w, "%.100s is missing",
			    other);
		snprintf(name, ST_NAME_MAX + 20, "%.*s.weight",
		    (int)(n - m - skip), w->name + skip);
		return i % 2 == 0;
	}
	/* the model's own embeddings, which peft may save too */
	if (strstr(w->name, ".base_layer.") != NULL)
		return 0;
	return qwen_hub_bad_tensor(p->h, w, "not one of a pair (lora_A, "
	    "lora_B); fully trained weights in adapters are not supported");
}

/* Records the pair of one expert; plan_stack() adds the tensors. */
static int
gather(struct adapter_plan *p, const struct hub_name *name, float times,
    const struct qwen_st_tensor *const *pair)
{
	struct adapter_stack *s;

	if (name->is_mtp)
		return qwen_hub_bad_tensor(p->h, pair[0], "adapters for "
		    "experts of the MTP block are not supported");
	s = &p->stack[name->layer];
	if (s->e.n[name->which] > 0 && s->times[name->which] != times)
		return qwen_hub_bad_tensor(p->h, pair[0], "a separate alpha "
		    "for one expert is not supported");
	s->times[name->which] = times;
	return qwen_hub_gather(p->g, &s->e, name, pair, 2);
}

/*
 * Returns 1 if the name is that of a pair for all experts of a layer, and
 * changes it to the name of such a tensor.  *inner: the pair is beneath another
 * pair.
 */
static int
is_expert_pair_name(char *name, int *inner)
{
	static const char *const end[] = { ".mlp.experts.weight",
	    ".mlp.experts.base_layer.weight" };

	*inner = qwen_ends(name, end[1]);
	if (!*inner && !qwen_ends(name, end[0]))
		return 0;
	strcpy(name + strlen(name) - strlen(end[*inner]),
	    ".mlp.experts.down_proj");
	return 1;
}

/*
 * Checks the rank of a pair if one alpha, divided by one rank, is for all
 * pairs.
 */
static int
check_rank(const struct adapter_plan *p, const struct qwen_st_tensor *w)
{
	int mlx = p->h->adapter_mlx;
	uint64_t rank = w->n_dims == 2 ? w->shape[mlx] : 0;

	if (p->rank == 0 || rank == p->rank)
		return 0;
	return qwen_fail(p->h->err, QWEN_EFORMAT, "tensor %.100s has rank %"
	    PRIu64 ", but %s %" PRIu64 "", w->name, rank, mlx ?
	    "lora_parameters has rank" : "use_rslora is set with r", p->rank);
}

static int
plan_pair(struct adapter_plan *p, const struct qwen_st_tensor *w)
{
	char name[ST_NAME_MAX + 20];
	const struct qwen_st_tensor *pair[2] = { w, NULL };
	size_t first = p->g->n;
	struct hub_name of;
	int rc = pair_of(p, w, name, &pair[1]), inner, all;
	float times;

	if (rc <= 0)
		return rc;
	all = p->g->n_expert > 0 && is_expert_pair_name(name, &inner);
	if (qwen_hub_name(p->h, name, p->g->n_layer, &of) < 0)
		return -1;
	if (all)
		return plan_experts(p, &of, inner, pair);
	if (of.how == HUB_IGNORED) {
		p->n_ignored++;
		return 0;
	}
	if (check_rank(p, w) < 0 || qwen_hub_alpha_of(p, name, &times) < 0)
		return -1;
	if (of.how == HUB_EXPERT && p->g->n_expert > 0)
		return gather(p, &of, times, pair);
	rc = plan_pair_tensors(p->g, &of, pair, 1);
	scale_b_tensors(p->g, first, times);
	return rc;
}

/*
 * Adds the pairs of single experts of a layer: for each matrix all experts must
 * have a pair, or none.
 */
static int
plan_stack(struct adapter_plan *p, uint32_t layer)
{
	struct adapter_stack *s = &p->stack[layer];
	struct hub_name name = { .how = HUB_EXPERT, .layer = (int)layer };
	uint32_t n = p->g->n_expert;
	size_t first;
	int i;

	for (i = 0; i < 3; i++) {
		if (s->e.n[i] == 0)
			continue;
		if (s->e.n[i] < n)
			return qwen_fail(p->h->err, QWEN_EFORMAT, "layer %u: "
			    "%s_proj of only %u of %u experts: adapters must "
			    "cover all experts or none", layer,
			    qwen_hub_expert[i], s->e.n[i], n);
		qwen_hub_name_experts(&name, i);
		first = p->g->n;
		if (plan_pair_tensors(p->g, &name, s->e.w + 2 * (size_t)i * n,
		    n) < 0)
			return -1;
		scale_b_tensors(p->g, first, s->times[i]);
	}
	return 0;
}

/* Plans an adapter, after the model's config was read. */
static int
plan_adapter(struct qwen_hub_gguf *g)
{
	struct adapter_plan p = { .g = g, .h = g->hub };
	const struct qwen_st *st = &g->hub->st;
	uint32_t l;
	size_t i;
	int rc;

	rc = qwen_hub_adapter_config(&p);
	if (rc == 0 &&
	    (p.stack = calloc(g->n_layer, sizeof *p.stack)) == NULL)
		rc = qwen_oom(g->hub->err);
	for (i = 0; i < st->n && rc == 0; i++)
		rc = plan_pair(&p, &st->v[i]);
	for (l = 0; l < g->n_layer && rc == 0; l++)
		rc = plan_stack(&p, l);
	for (l = 0; p.stack != NULL && l < g->n_layer; l++)
		free(p.stack[l].e.w);
	free(p.stack);
	qwen_hub_adapter_config_fini(&p);
	if (rc == 0 && g->n == 0)
		rc = qwen_fail(g->hub->err, QWEN_EFORMAT, p.n_ignored > 0 ?
		    "%s: the adapter has only matrices for images or audio" :
		    "%s: the adapter has no pair of matrices",
		    g->hub->adapter_path);
	if (rc == 0 && p.n_ignored > 0)
		qwen_gguf_note(g->w, "%zu of its matrices are for images or "
		    "audio, which are not computed here: they are left out, "
		    "and change no text", p.n_ignored);
	return rc;
}

/* -------------------------------------------------------------- the folder */

int
qwen_hub_is_adapter(const char *folder)
{
	struct qwen_err err = { 0 };
	struct qwen_hub h = { .path = (char *)(uintptr_t)folder, .err = &err };
	yyjson_doc *config, *adapter;
	int is = qwen_hub_json(&h, "config.json", &config) == 0 &&
	    qwen_hub_json(&h, ADAPTER_CONFIG, &adapter) != 0;

	yyjson_doc_free(config);
	if (is)
		yyjson_doc_free(adapter);
	return is;
}

/* Reads config and weights of an adapter from its own folder. */
static int
read_adapter(struct qwen_hub *a)
{
	static const char peft[] = "adapter_model.safetensors";
	static const char mlx[] = "adapters.safetensors";
	int rc = qwen_hub_json(a, ADAPTER_CONFIG, &a->adapter);

	if (rc == 0)
		rc = qwen_hub_fail(a, NULL, "no " ADAPTER_CONFIG ": give the "
		    "folder of an adapter in peft's format");
	if (rc < 0)
		return -1;
	a->adapter_mlx = !qwen_hub_has(a, peft) && qwen_hub_has(a, mlx);
	return qwen_hub_add_weights(a, a->adapter_mlx ? mlx : peft);
}

/*
 * Opens the config of the model: in the folder base, or in the one that the
 * adapter names.
 */
static int
open_base(struct qwen_hub **out, const struct qwen_hub *a, const char *base)
{
	if (base == NULL)
		base = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(
		    a->adapter), a->adapter_mlx ? "model" :
		    "base_model_name_or_path"));
	if (base == NULL)
		return qwen_hub_fail(a, NULL, "the adapter does not name its "
		    "model: give the model's folder, with its config.json, by "
		    "--base");
	if (qwen_hub_open_config(out, base, a->err) < 0)
		return qwen_fail_in(a->err, "%s: its base model (see --base)",
		    a->path);
	return 0;
}

int
qwen_hub_open_adapter(struct qwen_hub **out, const char *folder,
    const char *base, struct qwen_err *err)
{
	struct qwen_hub *a = qwen_hub_alloc(folder, err), *h = NULL;

	*out = NULL;
	if (a == NULL || read_adapter(a) < 0 || open_base(&h, a, base) < 0) {
		qwen_hub_close(a);
		return -1;
	}
	h->st = a->st;
	h->by_name = a->by_name;
	h->adapter = a->adapter;
	h->adapter_mlx = a->adapter_mlx;
	h->adapter_path = a->path;
	h->plan = plan_adapter;
	free(a);
	*out = h;
	return 0;
}
