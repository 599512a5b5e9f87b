/* SPDX-License-Identifier: ISC */
/*
 * make.c - shape, type and order of a GGUF tensor made from the folder's
 * tensors.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "hub/make.h"

uint32_t
qwen_hub_matrix_type(const struct qwen_hub_gguf *g, const struct hub_tensor *t)
{
	return t->ne[0] % qwen_ggml_block_len(g->type) == 0 ? g->type : QT_F16;
}

/* Returns the number format: decided by the tensor's name and shape. */
static uint32_t
type_for(const struct qwen_hub_gguf *g, const struct hub_tensor *t)
{
	static const char *const f32[] = { "_norm.weight",
	    ".ffn_gate_inp.weight", ".ffn_gate_inp_shexp.weight",
	    ".ssm_conv1d.weight" };
	size_t i;

	if (t->n_dims < 2 || !qwen_ends(t->name, ".weight"))
		return QT_F32;
	for (i = 0; i < sizeof f32 / sizeof f32[0]; i++) {
		if (qwen_ends(t->name, f32[i]))
			return QT_F32;
	}
	return qwen_hub_matrix_type(g, t);
}

struct hub_tensor *
qwen_hub_new_tensor(struct qwen_hub_gguf *g, const char *name)
{
	struct hub_tensor *t = qwen_push(&g->t, &g->cap, &g->n, sizeof *t,
	    g->hub->err);

	if (t == NULL)
		return NULL;
	snprintf(t->name, sizeof t->name, "%s", name);
	t->ne[0] = t->ne[1] = t->ne[2] = t->ne[3] = 1;
	return t;
}

static struct hub_source *
new_source(struct qwen_hub_gguf *g)
{
	return qwen_push(&g->source, &g->cap_sources, &g->n_sources,
	    sizeof *g->source, g->hub->err);
}

int
qwen_hub_bad_shape(const struct qwen_hub_gguf *g, const struct hub_source *s,
    const char *want)
{
	return qwen_hub_bad_tensor(g->hub, s->w, "%" PRIu64 " x %" PRIu64 " x %"
	    PRIu64 ", which does not fit %s (config.json)", s->planes, s->rows,
	    s->columns, want);
}

/* ----------------------------------------------------------------- scales */

/* Returns the single number of a tensor; 1 if it has none. */
static int
one_number(const struct qwen_hub_gguf *g, const struct qwen_st_tensor *t,
    int inverse, float *x)
{
	*x = 1;
	if (t == NULL)
		return 0;
	if (t->n != 1 || t->type != ST_F32)
		return qwen_hub_bad_tensor(g->hub, t, "not a single F32 "
		    "number");
	*x = qwen_bits_f32(qwen_le32(t->data));
	if (inverse)
		*x = 1.0f / *x;
	return 0;
}

/*
 * Adds the tensor of scales for a tensor of codes: one scale for the matrix, or
 * one per expert.  If all scales are 1, adds nothing.
 */
static int
add_scales(struct qwen_hub_gguf *g, const struct hub_tensor *of,
    const struct qwen_st_tensor *const *w, size_t n, int input)
{
	/* in GGUF, and in the folder: factors, or divisors */
	static const char *const names[2][3] = {
		{ "scale", "_scale_2", "_global_scale" },
		{ "input_scale", ".input_scale", ".input_global_scale" } };
	char name[64];
	size_t m = strlen(of->name) - strlen("weight"), i;
	struct hub_tensor *t;
	struct hub_source *s;
	int all_one = 1;
	float x;

	snprintf(name, sizeof name, "%.*s%s", (int)m, of->name,
	    names[input][0]);
	if ((t = qwen_hub_new_tensor(g, name)) == NULL)
		return -1;
	t->kind = HUB_SCALES;
	t->type = QT_F32;
	t->n_dims = 1;
	t->ne[0] = n;
	t->from = g->n_sources;
	t->n_from = n;
	for (i = 0; i < n; i++) {
		if ((s = new_source(g)) == NULL)
			return -1;
		s->w = qwen_hub_after(g->hub, w[i], names[input][1]);
		if (s->w == NULL) {
			s->w = qwen_hub_after(g->hub, w[i], names[input][2]);
			t->inverse |= s->w != NULL;
		}
		if (one_number(g, s->w, t->inverse, &x) < 0)
			return -1;
		all_one &= fabsf(x - 1) <= (n == 1 ? 1e-6f : 1.1e-5f);
	}
	if (all_one) {		/* scales of 1 are left out */
		g->n--;
		g->n_sources = t->from;
	}
	return 0;
}

/* ------------------------------------------------------------------ order */

void
qwen_hub_shape(struct hub_tensor *t, const struct hub_source *s, uint64_t rows,
    uint64_t columns)
{
	uint64_t planes = s->planes * t->n_from;

	t->ne[0] = columns;
	t->ne[1] = rows;
	t->ne[2] = planes;
	t->n_dims = planes > 1 || t->n_from > 1 || s->w->n_dims > 2 ? 3 :
	    s->w->n_dims;
}

/*
 * Puts the value heads, of size rows (or columns) each, into tiled order; they
 * begin at row `from' and must fill the rest.
 */
static int
tile(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    const struct hub_source *s, enum hub_order order, uint64_t from,
    uint64_t size)
{
	uint64_t n = order == HUB_TILED_ROWS ? s->rows : s->columns;
	uint64_t want = from + g->heads.n_value * size;
	char text[64];

	if (s->planes != 1 || n != want) {
		snprintf(text, sizeof text, "%" PRIu64 " %s", want,
		    order == HUB_TILED_ROWS ? "rows" : "columns");
		return qwen_hub_bad_shape(g, s, text);
	}
	if (!g->hub->arch->hybrid || g->hub->arch->grouped ||
	    g->heads.n_key == g->heads.n_value)
		return 0;
	if (t->kind == HUB_FP4 && order == HUB_TILED_COLUMNS &&
	    size % (qwen_hub_fp4(g->hub, s->w) == QT_NVFP4 ? 16 : 32) != 0)
		return qwen_hub_bad_tensor(g->hub, s->w, "heads of %" PRIu64 " "
		    "values are not a multiple of the block length", size);
	t->order = order;
	t->head_from = from;
	t->head_rows = size;
	return 0;
}

int
qwen_hub_tile(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    const struct hub_source *s, enum hub_how how)
{
	uint64_t keys = 2 * g->heads.n_key * g->heads.key_dim;
	uint64_t dim = g->heads.value_dim;

	switch (how) {
	case HUB_DECAY:
	case HUB_HEADS:
		return tile(g, t, s, s->w->n_dims == 1 ? HUB_TILED_COLUMNS :
		    HUB_TILED_ROWS, 0, 1);
	case HUB_VALUE_ROWS:
		return tile(g, t, s, HUB_TILED_ROWS, 0, dim);
	case HUB_QKV_ROWS:
	case HUB_CONV:
		return tile(g, t, s, HUB_TILED_ROWS, keys, dim);
	case HUB_VALUE_COLUMNS:
		return tile(g, t, s, HUB_TILED_COLUMNS, 0, dim);
	default:
		return 0;
	}
}

/*
 * Adds a second tensor from the same source, named by replacing `from' and all
 * after it in the name of the last tensor by `to'.  Returns the second tensor,
 * g->t[g->n - 1].
 */
static struct hub_tensor *
split(struct qwen_hub_gguf *g, const char *from, const char *to)
{
	struct hub_tensor *t = qwen_hub_new_tensor(g, ""), *first;
	char *at;

	if (t == NULL)
		return NULL;
	first = t - 1;
	*t = *first;
	if ((at = strstr(t->name, from)) != NULL)
		snprintf(at, sizeof t->name - (size_t)(at - t->name), "%s", to);
	return t;
}

static int
split_qkvz(struct qwen_hub_gguf *g, const struct hub_source *s)
{
	uint64_t keys = 2 * g->heads.n_key * g->heads.key_dim;
	uint64_t values = g->heads.n_value * g->heads.value_dim;
	struct hub_tensor *t = &g->t[g->n - 1];

	if (s->planes != 1 || s->rows != keys + 2 * values)
		return qwen_hub_bad_shape(g, s, "rows of q, k, v and z");
	t->order = HUB_SPLIT_QKV;
	qwen_hub_shape(t, s, keys + values, s->columns);
	if ((t = split(g, "attn_qkv", "attn_gate.weight")) == NULL)
		return -1;
	t->order = HUB_SPLIT_Z;
	qwen_hub_shape(t, s, values, s->columns);
	return 0;
}

/*
 * Plans a tensor of all experts: down, or gate and up with half of the rows
 * each.
 */
static int
experts(struct qwen_hub_gguf *g, const struct hub_source *s, int gate_up)
{
	struct hub_tensor *t = &g->t[g->n - 1];
	uint64_t rows = s->rows, columns = s->columns, in;
	uint32_t n_embd;
	int i, turn = g->turned;

	if (qwen_hub_need_u32(g->hub, "hidden_size", &n_embd) < 0)
		return -1;
	if (t->kind == HUB_FP4 || (turn && s->scale != NULL))
		return qwen_hub_bad_tensor(g->hub, s->w, "one set of scales "
		    "for all experts is not supported");
	in = turn ? rows : columns;
	rows = turn ? columns : rows;
	if (s->planes != g->n_expert || (gate_up ? in != n_embd ||
	    rows % 2 != 0 : rows != n_embd))
		return qwen_hub_bad_shape(g, s, "the experts");
	t->order = turn ? HUB_TRANSPOSED : HUB_AS_IS;
	qwen_hub_shape(t, s, gate_up ? rows / 2 : rows, in);
	for (i = 0; i < gate_up; i++) {
		if ((t = split(g, "ffn_gate", "ffn_up_exps.weight")) == NULL)
			return -1;
		t->row0 = rows / 2;
	}
	return 0;
}

/* Checks the shape of a tensor of all experts for one matrix (MLX). */
static int
stacked(struct qwen_hub_gguf *g, const struct hub_tensor *t,
    const struct hub_source *s)
{
	uint32_t n_embd;

	if (qwen_hub_need_u32(g->hub, "hidden_size", &n_embd) < 0)
		return -1;
	if (s->planes != g->n_expert || n_embd != (strstr(t->name,
	    "ffn_down") != NULL ? s->rows : s->columns))
		return qwen_hub_bad_shape(g, s, "the experts");
	return 0;
}

int
qwen_hub_gather(const struct qwen_hub_gguf *g, struct hub_experts *e,
    const struct hub_name *name, const struct qwen_st_tensor *const *w,
    size_t each)
{
	size_t n = g->n_expert;
	const struct qwen_st_tensor **at;

	if (name->expert >= n)
		return qwen_hub_bad_tensor(g->hub, w[0], "expert number out of "
		    "range, config.json has %zu experts", n);
	if (e->w == NULL && (e->w = calloc(n * 3 * each, sizeof *e->w)) == NULL)
		return qwen_oom(g->hub->err);
	at = e->w + each * ((size_t)name->which * n + name->expert);
	if (at[0] != NULL)
		return qwen_fail(g->hub->err, QWEN_EFORMAT, "tensors %.90s and "
		    "%.90s map to the same expert", at[0]->name, w[0]->name);
	memcpy(at, w, each * sizeof *at);
	e->n[name->which]++;
	return 0;
}

/* ------------------------------------------------------------- one tensor */

int
qwen_hub_add_sources(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n)
{
	struct hub_source *s, *first;
	size_t i;

	for (i = 0; i < n; i++) {
		if ((s = new_source(g)) == NULL ||
		    qwen_hub_source(g, w[i], s) < 0)
			return -1;
		if (name->how == HUB_CONV && g->mlx && s->columns == 1) {
			s->columns = s->rows;
			s->rows = 1;
		}
		if (name->how == HUB_CONV && s->rows == 1) {
			s->rows = s->planes;	/* channels; no groups */
			s->planes = 1;
		}
		first = s - i;
		if (i > 0 && (s->planes != 1 || s->rows != first->rows ||
		    s->columns != first->columns ||
		    s->bits != first->bits ||
		    qwen_hub_fp4(g->hub, s->w) !=
		    qwen_hub_fp4(g->hub, first->w)))
			return qwen_hub_bad_tensor(g->hub, s->w, "shape or "
			    "type differs from %.100s", first->w->name);
	}
	return 0;
}

/* Sets shape, order and conversion of the numbers. */
static int
arrange(struct qwen_hub_gguf *g, const struct hub_name *name)
{
	struct hub_tensor *t = &g->t[g->n - 1];
	const struct hub_source *s = &g->source[t->from];
	int gate_up = name->how == HUB_GATE_UP_EXPERTS;

	qwen_hub_shape(t, s, s->rows, s->columns);
	if (name->how == HUB_NORM && g->hub->arch->hybrid && !g->mlx)
		t->op = HUB_PLUS_ONE;
	if (name->how == HUB_DECAY)
		t->op = HUB_MINUS_EXP;
	if (name->how == HUB_CONV)
		t->n_dims = 2;
	if (name->how == HUB_QKVZ)
		return split_qkvz(g, s);
	if (gate_up || name->how == HUB_DOWN_EXPERTS)
		return experts(g, s, gate_up);
	if (name->how == HUB_STACKED_EXPERTS)
		return stacked(g, t, s);
	if (s->planes != 1)
		return qwen_hub_bad_shape(g, s, "a matrix");
	return qwen_hub_tile(g, t, s, name->how);
}

/*
 * Makes MLX codes Q4_1 if no type was requested and Q4_1 can represent every
 * weight exactly.
 */
static int
choose_affine(struct qwen_hub_gguf *g, struct hub_tensor *t)
{
	const struct hub_source *s = &g->source[t->from];
	size_t i;

	if (t->order == HUB_MIXED || t->order == HUB_MIXED_TRANSPOSED ||
	    t->order == HUB_TRANSPOSED)
		return qwen_hub_bad_tensor(g->hub, s->w, "quantised by MLX, "
		    "but %s is its transpose: not supported", t->name);
	if (g->opts.type != QWEN_HUB_AUTO || t->type == QT_F32 ||
	    t->ne[0] % 32 != 0 || (t->order == HUB_TILED_COLUMNS &&
	    t->head_rows % 32 != 0))
		return 0;
	for (i = 0; i < t->n_from; i++) {
		if (s[i].bits == 0 || !qwen_hub_affine_is_q4_1(&s[i]))
			return 0;
	}
	t->kind = HUB_AFFINE;
	t->type = QT_Q4_1;
	g->q4_1 = 1;
	return 0;
}

int
qwen_hub_make(struct qwen_hub_gguf *g, const struct hub_name *name,
    const struct qwen_st_tensor *const *w, size_t n)
{
	size_t first = g->n, i, last;
	struct hub_tensor *t = qwen_hub_new_tensor(g, name->to);
	uint32_t fp4 = qwen_hub_fp4(g->hub, w[0]);

	if (t == NULL)
		return -1;
	t->from = g->n_sources;
	t->n_from = n;
	t->kind = fp4 != 0 ? HUB_FP4 : HUB_NUMBERS;
	if (qwen_hub_add_sources(g, name, w, n) < 0 || arrange(g, name) < 0)
		return -1;
	last = g->n;
	for (i = first; i < last; i++) {
		t = &g->t[i];
		if (name->how == HUB_EXPERT)
			t->n_dims = 3;
		t->type = fp4 != 0 ? fp4 : type_for(g, t);
		if (g->source[t->from].bits != 0 && choose_affine(g, t) < 0)
			return -1;
	}
	g->fp4 = fp4 != 0 ? (int)fp4 : g->fp4;
	for (i = first; fp4 == QT_NVFP4 && i < last; i++) {
		struct hub_tensor of = g->t[i];

		if (add_scales(g, &of, w, n, 0) < 0 ||
		    add_scales(g, &of, w, n, 1) < 0)
			return -1;
	}
	return 0;
}

int
qwen_hub_make_classifier(struct qwen_hub_gguf *g,
    const struct qwen_st_tensor *w)
{
	struct hub_name name = { .to = "cls.output.weight", .layer = -1 };
	struct hub_tensor *t;

	if (qwen_hub_fp4(g->hub, w) != 0)
		return qwen_hub_bad_tensor(g->hub, w, "rows cannot be taken "
		    "from 4-bit codes");
	if (qwen_hub_make(g, &name, &w, 1) < 0)
		return -1;
	t = &g->t[g->n - 1];
	if (t->n_dims != 2 || g->word[0] >= t->ne[1] || g->word[1] >= t->ne[1])
		return qwen_hub_bad_shape(g, &g->source[t->from], "rows of yes "
		    "and no");
	t->order = HUB_PICKED;
	t->ne[1] = 2;
	return 0;
}
