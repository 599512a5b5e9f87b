/* SPDX-License-Identifier: ISC */
/*
 * quantised.c - finds weights quantised by an unsupported method, which
 * config.json or tensor names tell.
 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "hub/json.h"
#include "hub/plan.h"

/* Supported methods, each between two spaces. */
static const char known[] = " fp8 fbgemm_fp8 compressed-tensors modelopt "
    "mxfp4 nvfp4 mlx ";

/*
 * Copies the method's name, for messages; "" if the weights are not quantised
 * according to config.json.
 */
static void
method_of(const struct qwen_hub *h, char *out, size_t size)
{
	yyjson_val *q = qwen_hub_get(h, "quantization_config");
	const char *s = qwen_hub_str(q, "quant_method");

	if (s == NULL && (q != NULL || qwen_hub_get(h, "quantization") !=
	    NULL))
		/* MLX writes group_size and bits, but no method */
		s = qwen_hub_mlx(h) != NULL ? "mlx" : "an unnamed method";
	snprintf(out, size, "%.40s", s != NULL ? s : "");
}

static int
is_known(const char *method)
{
	char word[72];

	snprintf(word, sizeof word, " %s ", method);
	return strchr(method, ' ') == NULL && strstr(known, word) != NULL;
}

/*
 * Returns the format of compressed-tensors, the algorithm of ModelOpt or the
 * mode of MLX; NULL if none is named.
 */
static const char *
variant_of(const struct qwen_hub *h)
{
	yyjson_val *q = qwen_hub_get(h, "quantization_config");
	const char *s = qwen_hub_str(q, "format");

	if (s == NULL && qwen_hub_mlx(h) != NULL)
		return qwen_hub_str(qwen_hub_mlx(h), "mode");
	return s != NULL ? s : qwen_hub_str(q, "quant_algo");
}

/* Returns 1 if the method is supported; of MLX only the mode "affine" is. */
static int
is_read(const char *method, const char *variant)
{
	return is_known(method) && (strcmp(method, "mlx") != 0 ||
	    variant == NULL || strcmp(variant, "affine") == 0);
}

/*
 * Returns 1 if the tensor has a number type that no supported method uses for
 * weights.
 */
static int
is_packed(const struct qwen_hub *h, const struct qwen_st_tensor *t)
{
	return !qwen_st_is_float(t->type) && !qwen_hub_is_affine(h, t) &&
	    t->type != ST_F8_E4M3 && t->type != ST_F8_E5M2 &&
	    t->type != ST_F8_E8M0 && t->type != ST_I8 && t->type != ST_U8 &&
	    !qwen_hub_is_scale(t->name);
}

/* Returns 1 if activations must be rotated when the model runs. */
static int
has_transforms(const struct qwen_hub *h)
{
	yyjson_val *v = yyjson_obj_get(qwen_hub_get(h, "quantization_config"),
	    "transform_config");

	return yyjson_is_ctn(v) && yyjson_get_len(v) > 0 &&
	    yyjson_get_len(yyjson_obj_get(v, "config_groups")) > 0;
}

/* Returns the first tensor whose name has this ending, or NULL. */
static const struct qwen_st_tensor *
find_ending(const struct qwen_hub *h, const char *ending)
{
	size_t i;

	for (i = 0; i < h->st.n; i++) {
		if (qwen_ends(h->st.v[i].name, ending))
			return &h->st.v[i];
	}
	return NULL;
}

/*
 * Finds methods by tensor names, for older folders whose config.json names no
 * method.
 */
static int
check_names(const struct qwen_hub *h)
{
	static const struct { const char *ending, *method; } of[] = {
		{ ".g_idx", "gptq" }, { ".qweight", "awq" },
		{ ".weight.absmax", "bitsandbytes" }, { ".SCB", "bitsandbytes" },
	};
	const struct qwen_st_tensor *t;
	size_t i;

	for (i = 0; i < sizeof of / sizeof of[0]; i++) {
		if ((t = find_ending(h, of[i].ending)) != NULL)
			return qwen_hub_fail(h, NULL, "weights quantised with "
			    "%s (tensor %.100s) are not supported: use the "
			    "original model, or a GGUF file of it",
			    of[i].method, t->name);
	}
	if ((t = find_ending(h, ".scales")) == NULL ||
	    find_ending(h, ".biases") == NULL)
		return 0;
	return qwen_hub_fail(h, NULL, "weights quantised with MLX (tensor "
	    "%.100s), but config.json has no quantization with bits and "
	    "group_size: get config.json from the same place", t->name);
}

int
qwen_hub_check_quantised(const struct qwen_hub *h)
{
	char method[64];
	const char *variant = variant_of(h);
	size_t i;
	int ok;

	method_of(h, method, sizeof method);
	if (*method == '\0')
		return check_names(h);
	ok = is_read(method, variant);
	if (ok && has_transforms(h))
		return qwen_hub_bad(h, "transform_config in "
		    "quantization_config is not supported: use the original "
		    "model, or a GGUF file of it");
	for (i = 0; i < h->st.n; i++) {
		if (ok ? !is_packed(h, &h->st.v[i]) :
		    qwen_st_is_float(h->st.v[i].type))
			continue;
		return qwen_hub_fail(h, NULL, "weights quantised with "
		    "%s%s%.40s%s (config.json) are not supported: use the "
		    "original model, or a GGUF file of it", method,
		    variant != NULL ? " (" : "", variant != NULL ? variant : "",
		    variant != NULL ? ")" : "");
	}
	return 0;
}
