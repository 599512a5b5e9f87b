/* SPDX-License-Identifier: ISC */
/* adapter_config.c - what adapter_config.json says, of peft or of MLX. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "hub/adapter.h"
#include "hub/json.h"

/* Not null, false, 0 or empty. */
static int
is_set(yyjson_val *v)
{
	return yyjson_is_ctn(v) ? yyjson_get_len(v) > 0 :
	    v != NULL && !yyjson_is_null(v) && !yyjson_is_false(v) &&
	    !yyjson_equals_str(v, "") && !yyjson_equals_str(v, "none");
}

static int
bad_config(const struct adapter_plan *p, const char *what)
{
	return qwen_fail(p->err, QWEN_EUNSUP, "%s/adapter_config.json: %s",
	    p->g->hub->adapter_path, what);
}

/*
 * Some ways to begin training (pissa, olora, corda, loftq and others) take a part
 * of the model's weights away, which peft does again when it loads the adapter.
 */
static int
init_changes_model(yyjson_val *root)
{
	static const char *const harmless[] = { "gaussian", "eva",
	    "orthogonal", "true", "false" };
	yyjson_val *v = yyjson_obj_get(root, "init_lora_weights");
	size_t i;

	for (i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
		if (yyjson_equals_str(v, harmless[i]))
			return 0;
	}
	return yyjson_is_str(v);
}

/* What changes more than a pair of matrices does, or otherwise. */
static int
check_kind(const struct adapter_plan *p, yyjson_val *root)
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
	if (init_changes_model(root))
		return bad_config(p, "init_lora_weights has changed the "
		    "model's own weights, which are not in the folder");
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
read_alpha(struct adapter_plan *p, yyjson_val *root)
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

/*
 * MLX's adapter_config.json: what it adds is scale * (x @ lora_a) @ lora_b.
 * Versions that wrote an alpha multiplied by alpha / rank as well, later ones
 * ignore it.
 */
static int
read_mlx(struct adapter_plan *p, yyjson_val *root)
{
	yyjson_val *type = yyjson_obj_get(root, "fine_tune_type");
	yyjson_val *par = yyjson_obj_get(root, "lora_parameters");
	char line[100];
	double scale;

	if (type != NULL && !yyjson_equals_str(type, "lora")) {
		snprintf(line, sizeof line, "fine_tune_type is %.40s, not lora",
		    yyjson_is_str(type) ? yyjson_get_str(type) : "no word");
		return bad_config(p, line);
	}
	if (!yyjson_is_obj(par))
		return bad_config(p, "no lora_parameters, for an adapter of "
		    "MLX (adapters.safetensors)");
	if (is_set(yyjson_obj_get(par, "alpha")))
		return bad_config(p, "lora_parameters has an alpha, which "
		    "versions of MLX understand differently");
	if (qwen_hub_u64(yyjson_obj_get(par, "rank"), &p->rank) < 0 ||
	    p->rank == 0 || p->rank > 1 << 20)
		return bad_config(p, "lora_parameters has no rank");
	if (qwen_hub_f64(yyjson_obj_get(par, "scale"), &scale) < 0)
		return bad_config(p, "lora_parameters has no scale");
	scale *= (double)p->rank;
	if (!isfinite((float)scale) || (float)scale == 0)
		return bad_config(p, "lora_parameters has a scale that is 0, "
		    "or too large");
	p->g->alpha = (float)scale;
	return 0;
}

int
qwen_hub_adapter_config(struct adapter_plan *p)
{
	yyjson_val *root = yyjson_doc_get_root(p->g->hub->adapter);

	if (p->g->hub->adapter_mlx)
		return read_mlx(p, root);
	return check_kind(p, root) < 0 ? -1 : read_alpha(p, root);
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
int
qwen_hub_alpha_of(const struct adapter_plan *p, const char *name, float *times)
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

