/* SPDX-License-Identifier: ISC */
/*
 * adapter.c - which tensors the GGUF file of an adapter gets: of each matrix
 * that peft has put two beside (LoRA), these two, in the order of the model's.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hub/json.h"
#include "hub/make.h"

#define ADAPTER_CONFIG "adapter_config.json"

/* What peft calls the first and the second of a pair, after the module. */
static const char *const ending[][2] = {
	{ ".lora_A.weight", ".lora_B.weight" },
	{ ".lora_embedding_A", ".lora_embedding_B" },
};

/* The pairs of a block's experts, [3][n_expert][2]: down, gate, up. */
struct stack {
	const struct qwen_st_tensor **w;
	uint32_t	 n[3];
	float		 times[3];	/* their alpha, as alpha_of() has it */
};

struct plan {
	struct qwen_hub_gguf *g;
	struct stack	*stack;		/* of each block */
	uint64_t	 rank;		/* that all pairs must have, or 0 */
	struct qwen_err	*err;
};

/* ------------------------------------------------------------- the config */

/* Not null, false, 0 or empty. */
static int
is_set(yyjson_val *v)
{
	return yyjson_is_ctn(v) ? yyjson_get_len(v) > 0 :
	    v != NULL && !yyjson_is_null(v) && !yyjson_is_false(v) &&
	    !yyjson_equals_str(v, "") && !yyjson_equals_str(v, "none");
}

static int
bad_config(const struct plan *p, const char *what)
{
	return qwen_fail(p->err, QWEN_EUNSUP, "%s/adapter_config.json: %s",
	    p->g->hub->adapter_path, what);
}

/* What changes more than a pair of matrices does, or otherwise. */
static int
check_kind(const struct plan *p, yyjson_val *root)
{
	static const char *const other[] = { "use_dora", "use_qalora",
	    "use_bdlora", "fan_in_fan_out", "lora_bias", "bias",
	    "layer_replication", "modules_to_save", "trainable_token_indices",
	    "alora_invocation_tokens", "arrow_config", "kasa_config" };
	const char *type = yyjson_get_str(yyjson_obj_get(root, "peft_type"));
	char line[100];
	size_t i;

	if (type == NULL || strcmp(type, "LORA") != 0) {
		snprintf(line, sizeof line, "peft_type is %.40s, not LORA",
		    type != NULL ? type : "not there");
		return bad_config(p, line);
	}
	for (i = 0; i < sizeof other / sizeof other[0]; i++) {
		if (!is_set(yyjson_obj_get(root, other[i])))
			continue;
		snprintf(line, sizeof line, "%s is set, which is not "
		    "known here", other[i]);
		return bad_config(p, line);
	}
	return 0;
}

/* What is divided by the rank and multiplied with: by rsLoRA, of its root. */
static int
read_alpha(struct plan *p, yyjson_val *root)
{
	double alpha, times = 1;

	if (is_set(yyjson_obj_get(root, "use_rslora"))) {
		if (qwen_hub_u64(yyjson_obj_get(root, "r"), &p->rank) < 0 ||
		    p->rank == 0 || p->rank > 1 << 20 ||
		    is_set(yyjson_obj_get(root, "rank_pattern")))
			return bad_config(p, "use_rslora needs one rank, r, "
			    "of all matrices");
		times = sqrt((double)p->rank);
	}
	/* in the file, 0 is none */
	if (qwen_hub_f64(yyjson_obj_get(root, "lora_alpha"), &alpha) < 0 ||
	    !isfinite((float)(alpha * times)) || (float)(alpha * times) == 0)
		return bad_config(p, "no lora_alpha, or one that is no number "
		    "but 0");
	p->g->alpha = (float)(alpha * times);
	return 0;
}

/* ---------------------------------------------------------- alpha_pattern */

/*
 * A pattern that is the end of a name, maybe after ".*\\.": that end; 0 if it is
 * another regular expression.
 */
static int
end_of_names(const char *s, char *out, size_t size)
{
	size_t n = 0;

	if (strncmp(s, ".*\\.", 4) == 0)
		s += 4;
	for (; *s != '\0'; s++) {
		if (s[0] == '\\' && s[1] == '.')
			s++;
		else if (strchr("._", *s) == NULL && !(*s >= '0' && *s <= '9') &&
		    !((*s | 32) >= 'a' && (*s | 32) <= 'z'))
			return 0;
		if (n + 1 >= size)
			return 0;
		out[n++] = *s;
	}
	out[n] = '\0';
	return n > 0;
}

static int
ends_so(const char *name, size_t n, const char *end)
{
	size_t m = strlen(end);

	return n >= m && memcmp(name + n - m, end, m) == 0 &&
	    (n == m || name[n - m - 1] == '.');
}

/* Alpha of what has this name, in parts of that of all. */
static int
alpha_of(const struct plan *p, const char *name, float *times)
{
	yyjson_val *root = yyjson_doc_get_root(p->g->hub->adapter), *key, *v;
	yyjson_val *map = yyjson_obj_get(root, "alpha_pattern");
	size_t n = strlen(name), m = strlen(".weight"), i, count;
	char end[ST_NAME_MAX];
	double all, alpha;

	*times = 1;
	yyjson_obj_foreach(map, i, count, key, v) {
		if (!end_of_names(yyjson_get_str(key), end, sizeof end))
			return bad_config(p, "alpha_pattern has a pattern that "
			    "is not known here");
		if (!ends_so(name, n, end) && !(n > m &&
		    strcmp(name + n - m, ".weight") == 0 &&
		    ends_so(name, n - m, end)))
			continue;
		if (qwen_hub_f64(yyjson_obj_get(root, "lora_alpha"), &all) < 0 ||
		    qwen_hub_f64(v, &alpha) < 0 ||
		    !isfinite((float)(alpha / all)))
			return bad_config(p, "alpha_pattern has what is no "
			    "number");
		*times = (float)(alpha / all);
		return 0;
	}
	return 0;
}

/* To the second ones of the pairs from tensor i on. */
static void
multiply(struct qwen_hub_gguf *g, size_t i, float times)
{
	for (; times != 1 && i < g->n; i++) {
		if (g->t[i].name[strlen(g->t[i].name) - 1] != 'b')
			continue;
		g->t[i].op = HUB_TIMES;
		g->t[i].by = times;
	}
}

/* ------------------------------------------------------------- one pair */

/* One of both: which is 0, A, or 1, B; experts' lie two apart. */
static struct hub_tensor *
half(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, size_t n, int which,
    struct qwen_err *err)
{
	struct hub_tensor *t;
	struct hub_source *s;
	char full[sizeof name->to + 8];
	size_t i;

	snprintf(full, sizeof full, "%s.lora_%c", name->to, "ab"[which]);
	if (strlen(full) >= sizeof t->name) {
		qwen_fail(err, QWEN_EUNSUP, "%s: a name longer than those of "
		    "GGUF", full);
		return NULL;
	}
	if ((t = qwen_hub_new_tensor(g, full, err)) == NULL)
		return NULL;
	t->from = g->n_sources;
	t->n_from = n;
	for (i = 0; i < n; i++) {
		if (qwen_hub_add_sources(g, name, pair + 2 * i + which, 1,
		    err) < 0)
			return NULL;
		s = &g->source[t->from];
		if (pair[2 * i]->n_dims != 2 || pair[2 * i + 1]->n_dims != 2 ||
		    pair[2 * i]->shape[0] != pair[2 * i + 1]->shape[1] ||
		    s[i].rows != s->rows || s[i].columns != s->columns) {
			qwen_fail(err, QWEN_EFORMAT, "tensors %.90s and %.90s: "
			    "no pair of one rank, or of another shape than "
			    "others", pair[2 * i]->name, pair[2 * i + 1]->name);
			return NULL;
		}
	}
	s = &g->source[t->from];
	qwen_hub_shape(t, s, s->rows, s->columns);
	t->type = t->ne[0] % qwen_ggml_block_len(g->type) == 0 ? g->type :
	    GGML_F16;
	return t;
}

/* One matrix of the folder is two: both have its A, and rows of its B. */
static int
halves_of_qkvz(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, struct qwen_err *err)
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
		if (half(g, &one, pair, 1, 0, err) == NULL ||
		    (t = half(g, &one, pair, 1, 1, err)) == NULL)
			return -1;
		s = &g->source[t->from];
		if (s->rows != keys + 2 * values)
			return qwen_hub_bad_shape(s, "rows of q, k, v and z",
			    err);
		t->order = z ? HUB_SPLIT_Z : HUB_SPLIT_QKV;
		qwen_hub_shape(t, s, z ? values : keys + values, s->columns);
	}
	return 0;
}

/* What there is for a matrix: n pairs, one after the other, of experts many. */
static int
make_pair(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *pair, size_t n, struct qwen_err *err)
{
	struct hub_tensor *t;
	const struct hub_source *s;
	int columns = name->how == HUB_VALUE_COLUMNS;

	switch (name->how) {
	case HUB_IGNORED:
		return 0;
	case HUB_QKVZ:
		return halves_of_qkvz(g, name, pair, err);
	case HUB_PLAIN:
	case HUB_ROUTER:
	case HUB_EXPERT:
	case HUB_HEADS:
	case HUB_VALUE_ROWS:
	case HUB_QKV_ROWS:
	case HUB_VALUE_COLUMNS:
		break;
	default:
		return qwen_fail(err, QWEN_EUNSUP, "tensor %.100s: a matrix "
		    "that becomes another one in GGUF files, or none",
		    pair[0]->name);
	}
	if ((t = half(g, name, pair, n, 0, err)) == NULL)
		return -1;
	s = &g->source[t->from];
	if (columns && qwen_hub_tile(g, t, s, name->how, err) < 0)
		return -1;
	if (strcmp(name->to, "token_embd.weight") == 0) {
		t->order = HUB_TRANSPOSED;
		qwen_hub_shape(t, s, s->columns, s->rows);
		t->type = t->ne[0] % qwen_ggml_block_len(g->type) == 0 ?
		    g->type : GGML_F16;
	}
	if ((t = half(g, name, pair, n, 1, err)) == NULL)
		return -1;
	return columns ? 0 : qwen_hub_tile(g, t, &g->source[t->from], name->how,
	    err);
}

/* ----------------------------------------------------- experts in one tensor */

/* Whether peft was that version, or a later one; those before 0.18 do not say. */
static int
is_since(yyjson_val *root, int minor)
{
	const char *s = yyjson_get_str(yyjson_obj_get(root, "peft_version"));
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

/* What a pair is for: down_proj, else gate_up_proj; and is A of the outputs? */
struct experts {
	int	 down, swapped;
	uint64_t in, out, rank;
};

/*
 * Nothing names the tensor.  Shapes tell it, and where these could be several
 * the tensors that the config names, of which the last is the outermost, and
 * the version: before 0.20 peft took rows for inputs.
 */
static int
know_experts(const struct plan *p, int inner,
    const struct qwen_st_tensor *const *pair, struct experts *out)
{
	yyjson_val *root = yyjson_doc_get_root(p->g->hub->adapter);
	int down = has_target(root, "down_proj") && !inner;
	int swapped = !is_since(root, 20), i;
	uint64_t rows = pair[0]->shape[0];
	uint32_t n_embd, n_ff, n = p->g->n_expert;

	if (qwen_hub_need_u32(p->g->hub, "hidden_size", &n_embd, p->err) < 0 ||
	    qwen_hub_need_u32(p->g->hub, "moe_intermediate_size", &n_ff,
	    p->err) < 0)
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
	return qwen_fail(p->err, QWEN_EFORMAT, "tensors %.90s and %.90s: no "
	    "pair for gate_up_proj or down_proj of %u experts, as config.json "
	    "says", pair[0]->name, pair[1]->name, n);
}

/* A, which is 0, or B of all experts: a plane for each. */
static int
half_of_experts(struct qwen_hub_gguf *g, const char *to, int which,
    const struct experts *e, uint64_t row0,
    const struct qwen_st_tensor *const *pair, struct qwen_err *err)
{
	const struct hub_name name = { .how = HUB_PLAIN };
	uint64_t rows = !which ? e->rank : e->down ? e->out : e->out / 2;
	char full[80];
	struct hub_tensor *t;
	struct hub_source *s;
	int from_b = which ^ e->swapped;

	snprintf(full, sizeof full, "%s.lora_%c", to, "ab"[which]);
	if ((t = qwen_hub_new_tensor(g, full, err)) == NULL)
		return -1;
	t->from = g->n_sources;
	t->n_from = 1;
	if (qwen_hub_add_sources(g, &name, pair + from_b, 1, err) < 0)
		return -1;
	s = &g->source[t->from];
	if (s->scale != NULL)
		return qwen_fail(err, QWEN_EUNSUP, "tensor %.100s: an adapter "
		    "with scales", s->w->name);
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
	t->type = t->ne[0] % qwen_ggml_block_len(g->type) == 0 ? g->type :
	    GGML_F16;
	return 0;
}

/* What there is for the experts of a block, which are in one tensor or two. */
static int
plan_experts(struct plan *p, uint32_t layer, int inner,
    const struct qwen_st_tensor *const *pair)
{
	static const char *const what[] = { "gate", "up", "down" };
	size_t first = p->g->n;
	struct experts e;
	char to[48];
	uint64_t row0;
	float times;
	int i;

	if (know_experts(p, inner, pair, &e) < 0)
		return -1;
	snprintf(to, sizeof to, "layers.%u.mlp.experts.%s", layer, e.down ?
	    "down_proj" : "gate_up_proj");
	if (alpha_of(p, to, &times) < 0)
		return -1;
	for (i = e.down ? 2 : 0; i < (e.down ? 3 : 2); i++) {
		snprintf(to, sizeof to, "blk.%u.ffn_%s_exps.weight", layer,
		    what[i]);
		row0 = i == 1 ? e.out / 2 : 0;
		if (half_of_experts(p->g, to, 0, &e, 0, pair, p->err) < 0 ||
		    half_of_experts(p->g, to, 1, &e, row0, pair, p->err) < 0)
			return -1;
	}
	multiply(p->g, first, times);
	return 0;
}

/* ---------------------------------------------------------------- tensors */

/*
 * The matrix that w is the first one of a pair of, as the model calls it, and
 * the second one: 1; 0 if w is a second one, or of the model itself; -1.
 */
static int
pair_of(const struct plan *p, const struct qwen_st_tensor *w, char *name,
    const struct qwen_st_tensor **b)
{
	static const char prefix[] = "base_model.model.";
	size_t skip = strncmp(w->name, prefix, sizeof prefix - 1) == 0 ?
	    sizeof prefix - 1 : 0, n = strlen(w->name), m, i, k;
	char other[ST_NAME_MAX + 20];

	for (i = 0; i < 4; i++) {
		m = strlen(ending[i / 2][i % 2]);
		if (n <= skip + m || strcmp(w->name + n - m,
		    ending[i / 2][i % 2]) != 0)
			continue;
		k = i / 2;
		snprintf(other, sizeof other, "%.*s%s", (int)(n - m), w->name,
		    ending[k][1 - i % 2]);
		*b = qwen_hub_find(p->g->hub, other);
		if (*b == NULL)
			return qwen_fail(p->err, QWEN_EFORMAT, "tensor %.100s:"
			    " without %.100s", w->name, other);
		snprintf(name, ST_NAME_MAX + 20, "%.*s.weight",
		    (int)(n - m - skip), w->name + skip);
		return i % 2 == 0;
	}
	/* the model's own, where peft has saved embeddings along */
	if (strstr(w->name, ".base_layer.") != NULL)
		return 0;
	return qwen_fail(p->err, QWEN_EUNSUP, "tensor %.100s: not one of a "
	    "pair (lora_A, lora_B); weights that were trained as a whole are "
	    "of no adapter", w->name);
}

/* An expert's: all of a block's when the last of them is there. */
static int
gather(struct plan *p, const struct hub_name *name, float times,
    const struct qwen_st_tensor *const *pair)
{
	uint32_t n = p->g->n_expert;
	const struct qwen_st_tensor **at;
	struct stack *s;

	if (name->is_mtp)
		return qwen_fail(p->err, QWEN_EUNSUP, "tensor %.100s: for "
		    "experts of the block for drafts", pair[0]->name);
	s = &p->stack[name->layer];
	if (name->expert >= n)
		return qwen_fail(p->err, QWEN_EFORMAT, "tensor %.100s: there "
		    "are %u experts, as config.json says", pair[0]->name, n);
	if (s->w == NULL &&
	    (s->w = calloc((size_t)n * 6, sizeof *s->w)) == NULL)
		return qwen_oom(p->err);
	at = s->w + 2 * ((size_t)name->which * n + name->expert);
	if (at[0] != NULL)
		return qwen_fail(p->err, QWEN_EFORMAT, "tensors %.90s and "
		    "%.90s are one", at[0]->name, pair[0]->name);
	if (s->n[name->which] > 0 && s->times[name->which] != times)
		return qwen_fail(p->err, QWEN_EUNSUP, "tensor %.100s: an alpha "
		    "of its own among those of experts", pair[0]->name);
	at[0] = pair[0];
	at[1] = pair[1];
	s->times[name->which] = times;
	s->n[name->which]++;
	return 0;
}

/*
 * Is it what holds all experts of a block?  Then it becomes the name of a tensor
 * there; inner if it is beneath another pair.
 */
static int
are_experts(char *name, int *inner)
{
	static const char *const end[] = { ".mlp.experts.weight",
	    ".mlp.experts.base_layer.weight" };
	size_t n = strlen(name), m;
	int i;

	for (i = 0; i < 2; i++) {
		m = strlen(end[i]);
		if (n <= m || strcmp(name + n - m, end[i]) != 0)
			continue;
		*inner = i;
		strcpy(name + n - m, ".mlp.experts.down_proj");
		return 1;
	}
	return 0;
}

static int
plan_pair(struct plan *p, const struct qwen_st_tensor *w)
{
	char name[ST_NAME_MAX + 20];
	const struct qwen_st_tensor *pair[2] = { w, NULL };
	size_t first = p->g->n;
	struct hub_name of;
	int rc = pair_of(p, w, name, &pair[1]), inner;
	float times;

	if (rc <= 0)
		return rc;
	if (p->g->n_expert > 0 && are_experts(name, &inner)) {
		if (qwen_hub_name(p->g->hub, name, p->g->n_layer, &of,
		    p->err) < 0)
			return -1;
		return plan_experts(p, (uint32_t)of.layer, inner, pair);
	}
	if (p->rank != 0 && w->shape[0] != p->rank)
		return qwen_fail(p->err, QWEN_EFORMAT, "tensor %.100s: of rank "
		    "%" PRIu64 ", and use_rslora is set with r %" PRIu64,
		    w->name, w->shape[0], p->rank);
	if (qwen_hub_name(p->g->hub, name, p->g->n_layer, &of, p->err) < 0)
		return -1;
	if (alpha_of(p, name, &times) < 0)
		return -1;
	if (of.how == HUB_EXPERT && p->g->n_expert > 0)
		return gather(p, &of, times, pair);
	rc = make_pair(p->g, &of, pair, 1, p->err);
	multiply(p->g, first, times);
	return rc;
}

/* The experts of a block: of a matrix all, or none. */
static int
plan_stack(struct plan *p, uint32_t layer)
{
	static const char *const what[] = { "down", "gate", "up" };
	struct stack *s = &p->stack[layer];
	struct hub_name name = { .how = HUB_EXPERT, .layer = (int)layer };
	uint32_t n = p->g->n_expert;
	size_t i, first;

	for (i = 0; i < 3; i++) {
		if (s->n[i] == 0)
			continue;
		if (s->n[i] < n)
			return qwen_fail(p->err, QWEN_EFORMAT, "block %u: "
			    "%s_proj of %u of %u experts: an adapter is for "
			    "all or none", layer, what[i], s->n[i], n);
		snprintf(name.to, sizeof name.to, "blk.%u.ffn_%s_exps.weight",
		    layer, what[i]);
		first = p->g->n;
		if (make_pair(p->g, &name, s->w + 2 * i * n, n,
		    p->err) < 0)
			return -1;
		multiply(p->g, first, s->times[i]);
	}
	return 0;
}

/* When the model's config was read. */
static int
plan_adapter(struct qwen_hub_gguf *g, struct qwen_err *err)
{
	struct plan p = { .g = g, .err = err };
	const struct qwen_st *st = &g->hub->st;
	yyjson_val *root = yyjson_doc_get_root(g->hub->adapter);
	uint32_t l;
	size_t i;
	int rc;

	if (check_kind(&p, root) < 0 || read_alpha(&p, root) < 0)
		return -1;
	p.stack = calloc(g->n_layer, sizeof *p.stack);
	rc = p.stack == NULL ? qwen_oom(err) : 0;
	for (i = 0; i < st->n && rc == 0; i++)
		rc = plan_pair(&p, &st->v[i]);
	for (l = 0; l < g->n_layer && rc == 0; l++)
		rc = plan_stack(&p, l);
	for (l = 0; p.stack != NULL && l < g->n_layer; l++)
		free(p.stack[l].w);
	free(p.stack);
	if (rc == 0 && g->n == 0)
		rc = qwen_fail(err, QWEN_EFORMAT, "%s: no pair of matrices in "
		    "its files", g->hub->adapter_path);
	return rc;
}

/* -------------------------------------------------------------- the folder */

int
qwen_hub_is_adapter(const char *folder)
{
	struct qwen_hub h = { .path = (char *)(uintptr_t)folder };
	yyjson_doc *doc;
	struct qwen_err err;
	int is = qwen_hub_json(&h, "config.json", &doc, &err) == 0;

	yyjson_doc_free(doc);
	if (is) {
		is = qwen_hub_json(&h, ADAPTER_CONFIG, &doc, &err) != 0;
		yyjson_doc_free(doc);
	}
	return is;
}

/* The weights and the config of an adapter, in a folder of its own. */
static int
read_adapter(struct qwen_hub *a, struct qwen_err *err)
{
	int rc = qwen_hub_json(a, ADAPTER_CONFIG, &a->adapter, err);

	if (rc == 0)
		rc = qwen_fail(err, QWEN_EFORMAT, "%s: no " ADAPTER_CONFIG
		    " in it: give the folder of an adapter, as peft writes it",
		    a->path);
	return rc < 0 ? -1 : qwen_hub_add_weights(a,
	    "adapter_model.safetensors", err);
}

/* The model's config: base, or what the adapter says. */
static int
open_base(struct qwen_hub **out, const struct qwen_hub *a, const char *base,
    struct qwen_err *err)
{
	if (base == NULL)
		base = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(
		    a->adapter), "base_model_name_or_path"));
	if (base == NULL)
		return qwen_fail(err, QWEN_EFORMAT, "%s: it does not say of "
		    "which model it is: --base names the folder of that, with "
		    "its config.json", a->path);
	if (qwen_hub_open_config(out, base, err) < 0)
		return qwen_fail_in(err, "%s: its model, see --base", a->path);
	return 0;
}

int
qwen_hub_open_adapter(struct qwen_hub **out, const char *folder,
    const char *base, struct qwen_err *err)
{
	struct qwen_hub *a = calloc(1, sizeof *a), *h = NULL;

	*out = NULL;
	if (a == NULL || (a->path = strdup(folder)) == NULL) {
		qwen_hub_close(a);
		return qwen_oom(err);
	}
	if (read_adapter(a, err) < 0 || open_base(&h, a, base, err) < 0) {
		qwen_hub_close(a);
		return -1;
	}
	h->st = a->st;
	h->by_name = a->by_name;
	h->adapter = a->adapter;
	h->adapter_path = a->path;
	h->plan = plan_adapter;
	free(a);
	*out = h;
	return 0;
}
