/* SPDX-License-Identifier: ISC */
/* source.c - weights of the folder and their scales. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hub/json.h"
#include "hub/plan.h"

/* Endings of companion tensors, appended to the name of the weights. */
static const char *const endings[] = {
	"_scale_inv", "_scale", "_scale_2", "_global_scale", "_packed", "_shape",
};

/* Endings of other tensors of a module, unused or used only beside codes. */
static const char *const beside[] = {
	".input_scale", ".input_global_scale", ".k_scale", ".v_scale",
	".q_scale", ".activation_scale", "_activation_scale", "output_scale",
	".scales", ".biases",	/* MLX */
};

int
qwen_hub_is_scale(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof endings / sizeof endings[0]; i++) {
		/* "_packed" are weights */
		if (strcmp(endings[i], "_packed") != 0 &&
		    qwen_ends(name, endings[i]))
			return 1;
	}
	for (i = 0; i < sizeof beside / sizeof beside[0]; i++) {
		if (qwen_ends(name, beside[i]))
			return 1;
	}
	return 0;
}

const struct qwen_st_tensor *
qwen_hub_after(const struct qwen_hub *h, const struct qwen_st_tensor *w,
    const char *ending)
{
	char name[ST_NAME_MAX + 20];
	size_t n = strlen(w->name);

	if (strchr(w->name, '.') == NULL)
		return NULL;
	if (*ending == '.')
		n = (size_t)(strrchr(w->name, '.') - w->name);
	else if (qwen_ends(w->name, "_packed"))
		n -= strlen("_packed");
	snprintf(name, sizeof name, "%.*s%s", (int)n, w->name, ending);
	return qwen_hub_find(h, name);
}

static const struct qwen_st_tensor *
scale_of(const struct qwen_hub *h, const struct qwen_st_tensor *w)
{
	const struct qwen_st_tensor *s = qwen_hub_after(h, w, "_scale_inv");

	return s != NULL ? s : qwen_hub_after(h, w, "_scale");
}

uint32_t
qwen_hub_fp4(const struct qwen_hub *h, const struct qwen_st_tensor *w)
{
	const struct qwen_st_tensor *s;

	if (w->type != ST_U8 || (s = qwen_hub_after(h, w, "_scale")) == NULL)
		return 0;
	return s->type == ST_F8_E4M3 ? QT_NVFP4 :
	    s->type == ST_U8 || s->type == ST_F8_E8M0 ? QT_MXFP4 : 0;
}

/* Sets the shape as planes of rows; returns 0 if that is not possible. */
static int
as_planes(const struct qwen_st_tensor *t, uint64_t *planes, uint64_t *rows,
    uint64_t *columns)
{
	*planes = *rows = 1;
	/* five: the patch embedding of an image encoder */
	if (t->n_dims == 0 || (t->n_dims > 3 && t->n_dims != 5) || t->n == 0)
		return 0;
	*columns = t->shape[t->n_dims - 1];
	if (t->n_dims > 1)
		*rows = t->shape[t->n_dims - 2];
	if (t->n_dims > 2)
		*planes = t->n / *rows / *columns;
	return 1;
}

static int
wrong(const struct qwen_hub_gguf *g, const struct hub_source *s)
{
	return qwen_hub_bad_tensor(g->hub, s->w, "its scales %.100s have "
	    "another shape", s->scale->name);
}

/* Reads weight_block_size of the config; zeros if there is none. */
static void
configured_block(const struct qwen_hub *h, uint64_t *rows, uint64_t *columns)
{
	yyjson_val *q = qwen_hub_get(h, "quantization_config"), *v, *group;
	size_t i, n;
	yyjson_val *key;

	v = yyjson_obj_get(q, "weight_block_size");
	group = yyjson_obj_get(q, "config_groups");
	if (v == NULL && yyjson_is_obj(group)) {
		yyjson_obj_foreach(group, i, n, key, v) {
			v = yyjson_obj_get(yyjson_obj_get(v, "weights"),
			    "block_structure");
			break;
		}
	}
	if (yyjson_arr_size(v) != 2 ||
	    qwen_hub_u64(yyjson_arr_get(v, 0), rows) < 0 ||
	    qwen_hub_u64(yyjson_arr_get(v, 1), columns) < 0)
		*rows = *columns = 0;
}

static uint64_t
pieces(uint64_t n, uint64_t of)
{
	return n / of + (n % of != 0);
}

/*
 * Sets the blocks of scales of F8 and I8 weights: the whole tensor, rows, or
 * blocks of the configured size.
 */
static int
scale_blocks(const struct qwen_hub_gguf *g, struct hub_source *s)
{
	uint64_t planes, rows, columns;
	const struct qwen_st_tensor *sc = s->scale;

	if (sc->type != ST_F32 && sc->type != ST_BF16 && sc->type != ST_F16)
		return qwen_hub_bad_tensor(g->hub, s->w, "scales of type %s "
		    "are not supported", qwen_st_type_name(sc->type));
	if (sc->n == 1) {
		s->block_rows = s->rows;
		s->block_columns = s->columns;
		s->scale_columns = 1;
		return 0;
	}
	if (sc->n_dims == 1) {
		planes = columns = 1;
		rows = sc->n;
	} else if (!as_planes(sc, &planes, &rows, &columns))
		return wrong(g, s);
	configured_block(g->hub, &s->block_rows, &s->block_columns);
	if (columns == 1 && rows == s->rows) {
		s->block_rows = 1;
		s->block_columns = s->columns;
	}
	if (s->block_rows == 0 || s->block_columns == 0)
		return qwen_hub_bad_tensor(g->hub, s->w, "scales per block, "
		    "but config.json has no weight_block_size");
	s->scale_columns = columns;
	if (planes != s->planes || rows != pieces(s->rows, s->block_rows) ||
	    columns != pieces(s->columns, s->block_columns))
		return wrong(g, s);
	return 0;
}

static int
scale_codes(const struct qwen_hub_gguf *g, struct hub_source *s, uint32_t type)
{
	uint64_t planes, rows, columns, len = type == QT_MXFP4 ? 32 : 16;

	s->columns *= 2;
	if (!as_planes(s->scale, &planes, &rows, &columns) ||
	    planes != s->planes || rows != s->rows ||
	    s->columns % len != 0 || columns != s->columns / len)
		return wrong(g, s);
	if (s->columns % qwen_ggml_block_len(type) != 0)
		return qwen_hub_bad_tensor(g->hub, s->w, "rows of %" PRIu64 " "
		    "numbers are not a multiple of the block length of %s",
		    s->columns, qwen_ggml_name(type));
	return 0;
}

int
qwen_hub_source(const struct qwen_hub_gguf *g, const struct qwen_st_tensor *w,
    struct hub_source *s)
{
	uint32_t fp4 = qwen_hub_fp4(g->hub, w);

	memset(s, 0, sizeof *s);
	s->w = w;
	if (!as_planes(w, &s->planes, &s->rows, &s->columns))
		return qwen_hub_bad_tensor(g->hub, w, "unsupported shape of %u "
		    "dimensions and %" PRIu64 " elements", w->n_dims, w->n);
	if (qwen_st_is_float(w->type))
		return 0;
	if (qwen_hub_is_affine(g->hub, w))
		return qwen_hub_affine(g, s);
	s->scale = scale_of(g->hub, w);
	if (fp4 != 0)
		return scale_codes(g, s, fp4);
	if (w->type != ST_F8_E4M3 && w->type != ST_F8_E5M2 && w->type != ST_I8)
		return qwen_hub_bad_tensor(g->hub, w, "weights of type %s with "
		    "unknown packing", qwen_st_type_name(w->type));
	if (s->scale == NULL && w->type == ST_I8)
		return qwen_hub_bad_tensor(g->hub, w, "integer weights without "
		    "scales");
	return s->scale == NULL ? 0 : scale_blocks(g, s);
}
