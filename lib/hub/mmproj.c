/* SPDX-License-Identifier: ISC */
/*
 * mmproj.c - plans the file of a folder's image encoder, in the order of
 * llama.cpp's converter: that of the folder's files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "hub/json.h"
#include "hub/make.h"

/* ----------------------------------------------------------------- config */

/*
 * Reads a number of vision_config; without the key takes def, or fails if def
 * is 0.
 */
static int
get_u32(const struct qwen_hub *h, yyjson_val *vision, const char *key,
    uint32_t def, uint32_t *out)
{
	yyjson_val *v = yyjson_obj_get(vision, key);
	uint64_t n = def;

	if (v == NULL && def == 0)
		return qwen_hub_bad(h, "vision_config has no %s", key);
	if (v != NULL && (qwen_hub_u64(v, &n) < 0 || n > UINT32_MAX))
		return qwen_hub_bad(h, "%s of vision_config is not a whole "
		    "number below 2^32", key);
	*out = (uint32_t)n;
	return 0;
}

/* Settings that all encoders of this kind have in common. */
static int
check_common(const struct qwen_hub *h, yyjson_val *vision)
{
	static const struct { const char *key; uint32_t want; } rows[] = {
		{ "spatial_merge_size", QWEN_MMPROJ_MERGE },
		{ "temporal_patch_size", 2 }, { "in_channels", 3 } }, *r;
	yyjson_val *act = yyjson_obj_get(vision, "hidden_act");
	uint32_t n;

	for (r = rows; r < rows + sizeof rows / sizeof rows[0]; r++) {
		if (get_u32(h, vision, r->key, r->want, &n) < 0)
			return -1;
		if (n != r->want)
			return qwen_hub_bad(h, "%s of vision_config is %u; "
			    "supported: %u", r->key, n, r->want);
	}
	if (act != NULL && !yyjson_equals_str(act, "gelu_pytorch_tanh"))
		return qwen_hub_bad(h, "hidden_act of vision_config is not "
		    "gelu_pytorch_tanh");
	return 0;
}

static int
read_side(const struct qwen_hub *h, yyjson_val *vision, struct qwen_mmproj *m)
{
	uint32_t n;

	if (get_u32(h, vision, "num_position_embeddings", 2304, &n) < 0)
		return -1;
	while ((uint64_t)m->side * m->side < n)
		m->side++;
	return (uint64_t)m->side * m->side == n ? 0 : qwen_hub_bad(h,
	    "num_position_embeddings of vision_config is %u, which is not a "
	    "square", n);
}

static int
read_deepstack(const struct qwen_hub *h, yyjson_val *vision,
    struct qwen_mmproj *m)
{
	yyjson_val *list = yyjson_obj_get(vision, "deepstack_visual_indexes");
	yyjson_val *v;
	uint64_t layer, next = 0;
	size_t i, n;

	if (list != NULL && !yyjson_is_null(list) && !yyjson_is_arr(list))
		return qwen_hub_bad(h, "deepstack_visual_indexes is not a "
		    "list");
	yyjson_arr_foreach(list, i, n, v) {
		if (qwen_hub_u64(v, &layer) < 0 || layer < next ||
		    layer >= m->n_layer)
			return qwen_hub_bad(h, "deepstack_visual_indexes must "
			    "be ascending numbers below %u", m->n_layer);
		m->deepstack[layer] = 1;
		m->n_deepstack++;
		next = layer + 1;
	}
	return 0;
}

/* Reads three numbers of a processor's settings, if it has the key. */
static int
read_colours(const struct qwen_hub *h, const char *file, yyjson_val *v,
    const char *key, float x[3])
{
	double d;
	size_t i;

	if ((v = yyjson_obj_get(v, key)) == NULL)
		return 0;
	for (i = 0; i < 3; i++) {
		if (yyjson_arr_size(v) != 3 ||
		    qwen_hub_f64(yyjson_arr_get(v, i), &d) < 0)
			return qwen_hub_fail(h, file, "%s is not a list of "
			    "three numbers", key);
		x[i] = (float)d;
	}
	return 1;
}

/* Reads how colours become numbers. */
static int
read_processor(struct qwen_hub_gguf *g, struct qwen_mmproj *m)
{
	static const char *const file[] = { "preprocessor_config.json",
	    "processor_config.json" };
	yyjson_doc *doc;
	yyjson_val *v, *part;
	int i, found = 0, rc = 0;

	for (i = 0; i < 3; i++)
		m->mean[i] = m->std[i] = 0.5f;
	for (i = 0; i < 2 && rc >= 0; i++) {
		if ((rc = qwen_hub_json(g->hub, file[i], &doc)) <= 0)
			continue;
		v = yyjson_doc_get_root(doc);
		part = yyjson_obj_get(v, "image_processor");
		v = part != NULL ? part : v;
		rc = read_colours(g->hub, file[i], v, "image_mean", m->mean);
		found |= rc > 0;
		if (rc >= 0)
			rc = read_colours(g->hub, file[i], v, "image_std",
			    m->std);
		yyjson_doc_free(doc);
	}
	if (rc >= 0 && !found)
		qwen_gguf_note(g->w, "no %s with image_mean: mean and deviation "
		    "of colours are 0.5, as in the published models", file[0]);
	return rc < 0 ? -1 : 0;
}

static int
read_config(struct qwen_hub_gguf *g)
{
	struct qwen_hub *h = g->hub;
	struct qwen_mmproj *m = &g->mmproj;
	yyjson_val *vision = yyjson_obj_get(yyjson_doc_get_root(h->config),
	    "vision_config");
	uint32_t out;

	if (!yyjson_is_obj(vision))
		return qwen_hub_bad(h, "there is no vision_config: the model "
		    "reads no images");
	if (check_common(h, vision) < 0 ||
	    get_u32(h, vision, "depth", 0, &m->n_layer) < 0 ||
	    get_u32(h, vision, "hidden_size", 0, &m->n_embd) < 0 ||
	    get_u32(h, vision, "intermediate_size", 0, &m->n_ff) < 0 ||
	    get_u32(h, vision, "num_heads", 0, &m->n_head) < 0 ||
	    get_u32(h, vision, "patch_size", 16, &m->patch) < 0 ||
	    qwen_hub_need_u32(h, "hidden_size", &m->n_out) < 0 ||
	    get_u32(h, vision, "out_hidden_size", m->n_out, &out) < 0 ||
	    read_side(h, vision, m) < 0)
		return -1;
	if (out != m->n_out)
		return qwen_hub_bad(h, "out_hidden_size of vision_config is "
		    "%u, but hidden_size of the text model is %u", out,
		    m->n_out);
	m->eps = 1e-6f;		/* a constant of transformers */
	if (qwen_mmproj_check_sizes(m, h->err) < 0)
		return qwen_fail_in(h->err, "%s/config.json", h->path);
	return read_deepstack(h, vision, m) < 0 ? -1 : read_processor(g, m);
}

/* ---------------------------------------------------------------- tensors */

/* A tensor of the encoder, and whether the folder has it. */
struct wanted {
	struct qwen_mmproj_tensor t;
	int	 met;
};

static int
compare(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;
	int order = strcmp(x->t.hub, y->t.hub);

	return order != 0 ? order : strcmp(x->t.name, y->t.name);
}

/* Lists all tensors of the encoder by their names in folders; NULL: no memory. */
static struct wanted *
list_wanted(const struct qwen_mmproj *m, size_t *n)
{
	struct qwen_mmproj_tensor t;
	struct wanted *v;
	size_t i;

	for (*n = 0; qwen_mmproj_tensor(m, *n, &t); ++*n)
		;
	if ((v = calloc(*n, sizeof *v)) == NULL)
		return NULL;
	for (i = 0; i < *n; i++)
		qwen_mmproj_tensor(m, i, &v[i].t);
	qsort(v, *n, sizeof *v, compare);
	return v;
}

/* Returns the first one of this name, or NULL. */
static struct wanted *
find_wanted(struct wanted *v, size_t n, const char *hub)
{
	size_t lo = 0, hi = n, mid;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (strcmp(v[mid].t.hub, hub) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n && strcmp(v[lo].t.hub, hub) == 0 ? &v[lo] : NULL;
}

/* Returns the name within the encoder, or NULL for tensors of other parts. */
static const char *
name_in_encoder(const char *name)
{
	static const char *const prefix[] = { "model.visual.", "visual." };
	size_t i, n;

	for (i = 0; i < 2; i++) {
		n = strlen(prefix[i]);
		if (strncmp(name, prefix[i], n) == 0)
			return name + n;
	}
	return NULL;
}

/*
 * Sets the source of the patch embedding for frame 0 or 1 of two: it has
 * [n_embd][3][2] planes of a patch's pixels.
 */
static int
take_frame(const struct qwen_hub_gguf *g, struct hub_tensor *t,
    struct hub_source *s, uint64_t frame)
{
	const struct qwen_mmproj *m = &g->mmproj;
	const uint64_t want[] = { m->n_embd, 3, 2, m->patch, m->patch };

	if (s->w->n_dims != 5 || s->scale != NULL ||
	    memcmp(s->w->shape, want, sizeof want) != 0)
		return qwen_hub_bad_shape(g, s, "a patch embedding of [n_embd, "
		    "3, 2, patch, patch]");
	s->planes /= 2;
	s->rows *= 2;
	t->row0 = frame * m->patch;
	return 0;
}

static int
make_tensor(struct qwen_hub_gguf *g, const struct wanted *w,
    const struct qwen_st_tensor *st, uint64_t frame)
{
	static const struct hub_name plain = { .how = HUB_PLAIN };
	struct hub_tensor *t = qwen_hub_new_tensor(g, w->t.name);
	struct hub_source *s;

	if (t == NULL)
		return -1;
	t->from = g->n_sources;
	t->n_from = 1;
	if (qwen_hub_add_sources(g, &plain, &st, 1) < 0)
		return -1;
	s = &g->source[t->from];
	t->n_dims = w->t.n_dims;
	memcpy(t->ne, w->t.ne, sizeof t->ne);
	if (w->t.kind == QWEN_MMPROJ_PATCHES)
		return take_frame(g, t, s, frame);
	if (s->planes != 1 || s->columns != t->ne[0] || s->rows != t->ne[1])
		return qwen_hub_bad_shape(g, s, "the encoder");
	return 0;
}

/* Plans what becomes of one tensor of the folder. */
static int
plan_tensor(struct qwen_hub_gguf *g, struct wanted *v, size_t n,
    const struct qwen_st_tensor *st)
{
	const char *hub = name_in_encoder(st->name);
	struct wanted *w;
	size_t i;

	if (hub == NULL || qwen_hub_is_scale(st->name))
		return 0;
	if ((w = find_wanted(v, n, hub)) == NULL)
		return qwen_fail(g->hub->err, QWEN_EUNSUP, "tensor %.100s does "
		    "not belong to an image encoder of %u layers", st->name,
		    g->mmproj.n_layer);
	for (i = 0; w + i < v + n && strcmp(w[i].t.hub, hub) == 0; i++) {
		w[i].met = 1;
		if (make_tensor(g, &w[i], st, i) < 0)
			return -1;
	}
	return 0;
}

/* Sets the number formats, which may depend on the first matrix. */
static void
set_types(struct qwen_hub_gguf *g, const struct wanted *v, size_t n)
{
	uint32_t own = QT_F32;
	const struct hub_source *s;
	const struct qwen_st_tensor *w;
	enum qwen_mmproj_kind kind;
	size_t i, k;

	for (i = 0; i < g->n && own == QT_F32; i++) {
		s = &g->source[g->t[i].from];
		w = s->scale != NULL ? s->scale : s->w;
		if (g->t[i].n_dims >= 2 && (w->type == ST_BF16 ||
		    w->type == ST_F16))
			own = w->type == ST_BF16 ? QT_BF16 : QT_F16;
	}
	g->type = qwen_hub_type_of(g, own);
	for (i = 0; i < g->n; i++) {
		for (k = 0; k < n && strcmp(v[k].t.name, g->t[i].name) != 0;)
			k++;
		kind = v[k].t.kind;
		g->t[i].type = kind == QWEN_MMPROJ_MATRIX ?
		    qwen_hub_matrix_type(g, &g->t[i]) : kind ==
		    QWEN_MMPROJ_PATCHES && g->type == QT_F16 ? QT_F16 : QT_F32;
	}
}

int
qwen_hub_plan_mmproj(struct qwen_hub_gguf *g)
{
	const struct qwen_st *st = &g->hub->st;
	struct wanted *v;
	size_t n, i;
	int rc = 0;

	if (read_config(g) < 0)
		return -1;
	if ((v = list_wanted(&g->mmproj, &n)) == NULL)
		return qwen_oom(g->hub->err);
	for (i = 0; i < st->n && rc == 0; i++)
		rc = plan_tensor(g, v, n, &st->v[i]);
	for (i = 0; i < n && rc == 0; i++) {
		if (!v[i].met)
			rc = qwen_hub_fail(g->hub, NULL, "the files have no "
			    "tensor model.visual.%s", v[i].t.hub);
	}
	if (rc == 0)
		set_types(g, v, n);
	free(v);
	return rc;
}
