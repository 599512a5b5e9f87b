/* SPDX-License-Identifier: ISC */
/* adapter_config.c - reads adapter_config.json of peft or MLX. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hub/adapter.h"
#include "hub/json.h"

/* Returns 1 if the value is not null, false, 0, "none" or empty. */
static int
is_set(yyjson_val *v)
{
	return yyjson_is_ctn(v) ? yyjson_get_len(v) > 0 :
	    v != NULL && !yyjson_is_null(v) && !yyjson_is_false(v) &&
	    !yyjson_equals_str(v, "") && !yyjson_equals_str(v, "none");
}

#define bad_config(p, ...) (qwen_fail((p)->h->err, QWEN_EUNSUP, __VA_ARGS__), \
	qwen_fail_in((p)->h->err, "%s/adapter_config.json", \
	(p)->h->adapter_path))

/*
 * Returns 1 if training began by changing the model's weights (pissa, olora,
 * corda, loftq and others).  peft repeats that change when it loads the
 * adapter.
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

/* Refuses adapters that change more than a pair of matrices per weight does. */
static int
check_kind(const struct adapter_plan *p, yyjson_val *root)
{
	static const char *const other[] = { "use_dora", "use_qalora",
	    "use_bdlora", "fan_in_fan_out", "lora_bias", "bias",
	    "layer_replication", "modules_to_save", "trainable_token_indices",
	    "alora_invocation_tokens", "arrow_config", "kasa_config" };
	const char *type = qwen_hub_str(root, "peft_type");
	size_t i;

	if (type == NULL || strcmp(type, "LORA") != 0)
		return bad_config(p, "peft_type is %.40s, not LORA",
		    type != NULL ? type : "not there");
	if (init_changes_model(root))
		return bad_config(p, "init_lora_weights changed the model's "
		    "own weights, which are not in the folder");
	for (i = 0; i < sizeof other / sizeof other[0]; i++) {
		if (is_set(yyjson_obj_get(root, other[i])))
			return bad_config(p, "%s is set, which is not known "
			    "here", other[i]);
	}
	return 0;
}

/*
 * Reads lora_alpha, the factor of BA before the division by the rank. rsLoRA
 * divides by the root of the rank, so alpha is multiplied by the root.
 */
static int
read_alpha(struct adapter_plan *p, yyjson_val *root)
{
	double alpha, times = 1;

	if (is_set(yyjson_obj_get(root, "use_rslora"))) {
		if (qwen_hub_u64(yyjson_obj_get(root, "r"), &p->rank) < 0 ||
		    p->rank == 0 || p->rank > 1 << 20 ||
		    is_set(yyjson_obj_get(root, "rank_pattern")))
			return bad_config(p, "use_rslora needs one rank r for "
			    "all matrices");
		times = sqrt((double)p->rank);
	}
	/* in the GGUF file alpha 0 would mean: no alpha */
	if (qwen_hub_f64(yyjson_obj_get(root, "lora_alpha"), &alpha) < 0 ||
	    !isfinite((float)(alpha * times)) || (float)(alpha * times) == 0)
		return bad_config(p,
		    "lora_alpha is missing, 0 or not a number");
	p->g->alpha = (float)(alpha * times);
	return 0;
}

/*
 * Reads adapter_config.json of MLX.  An adapter adds scale * (x @ lora_a) @
 * lora_b. An alpha is refused: versions that wrote one also multiplied by alpha
 * / rank, later versions ignore it.
 */
static int
read_mlx(struct adapter_plan *p, yyjson_val *root)
{
	yyjson_val *type = yyjson_obj_get(root, "fine_tune_type");
	yyjson_val *par = yyjson_obj_get(root, "lora_parameters");
	double scale;

	if (type != NULL && !yyjson_equals_str(type, "lora"))
		return bad_config(p, "fine_tune_type is %.40s, not lora",
		    yyjson_is_str(type) ? yyjson_get_str(type) : "no word");
	if (!yyjson_is_obj(par))
		return bad_config(p, "lora_parameters is missing, which an MLX "
		    "adapter needs (adapters.safetensors)");
	if (is_set(yyjson_obj_get(par, "alpha")))
		return bad_config(p, "lora_parameters has an alpha, which MLX "
		    "versions interpret differently");
	if (qwen_hub_u64(yyjson_obj_get(par, "rank"), &p->rank) < 0 ||
	    p->rank == 0 || p->rank > 1 << 20)
		return bad_config(p, "lora_parameters has no rank");
	if (qwen_hub_f64(yyjson_obj_get(par, "scale"), &scale) < 0)
		return bad_config(p, "lora_parameters has no scale");
	scale *= (double)p->rank;
	if (!isfinite((float)scale) || (float)scale == 0)
		return bad_config(p, "lora_parameters has a scale that is 0 or "
		    "too large");
	p->g->alpha = (float)scale;
	return 0;
}

/* ---------------------------------------------------------- alpha_pattern */

/*
 * If the pattern is an end of names, maybe after ".*\\.", copies this end to
 * out and returns 1; returns 0 for any other regular expression.
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

/* Orders by end; equal ends by position in the file. */
static int
compare_alpha(const void *a, const void *b)
{
	const struct adapter_alpha *x = a, *y = b;
	int c = strcmp(x->end, y->end);

	return c != 0 ? c : (x->at > y->at) - (x->at < y->at);
}

/* Reads and sorts the patterns of alpha_pattern that are ends of names. */
static int
read_patterns(struct adapter_plan *p, yyjson_val *map)
{
	size_t size = yyjson_obj_size(map), i, count;
	char end[ST_NAME_MAX];
	struct adapter_alpha *a;
	yyjson_val *key, *v;

	p->odd_alpha = SIZE_MAX;
	if (size == 0)
		return 0;
	if ((p->alpha = calloc(size, sizeof *p->alpha)) == NULL)
		return qwen_oom(p->h->err);
	yyjson_obj_foreach(map, i, count, key, v) {
		if (!end_of_names(yyjson_get_str(key), end, sizeof end)) {
			if (p->odd_alpha == SIZE_MAX)
				p->odd_alpha = i;
			continue;
		}
		a = &p->alpha[p->n_alpha];
		if ((a->end = strdup(end)) == NULL)
			return qwen_oom(p->h->err);
		p->n_alpha++;
		a->at = i;
		a->value = v;
	}
	if (p->n_alpha > 0)
		qsort(p->alpha, p->n_alpha, sizeof *p->alpha, compare_alpha);
	return 0;
}

/* Returns the first entry in the file with exactly this end, or NULL. */
static const struct adapter_alpha *
find_end(const struct adapter_plan *p, const char *end)
{
	size_t from = 0, to = p->n_alpha, mid;

	while (from < to) {
		mid = from + (to - from) / 2;
		if (strcmp(p->alpha[mid].end, end) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from < p->n_alpha && strcmp(p->alpha[from].end, end) == 0 ?
	    &p->alpha[from] : NULL;
}

/*
 * Returns the first pattern in the file that is an end of the name, starting at
 * one of its dot-separated parts; or best, if that comes first in the file.
 */
static const struct adapter_alpha *
first_end(const struct adapter_plan *p, const char *name,
    const struct adapter_alpha *best)
{
	const struct adapter_alpha *a;

	while (name != NULL) {
		a = find_end(p, name);
		if (a != NULL && (best == NULL || a->at < best->at))
			best = a;
		if ((name = strchr(name, '.')) != NULL)
			name++;
	}
	return best;
}

int
qwen_hub_alpha_of(const struct adapter_plan *p, const char *name, float *times)
{
	yyjson_val *root = yyjson_doc_get_root(p->h->adapter);
	const struct adapter_alpha *a = first_end(p, name, NULL);
	char module[ST_NAME_MAX + 20];
	double all, alpha;

	*times = 1;
	if (qwen_ends(name, ".weight")) {
		snprintf(module, sizeof module, "%.*s",
		    (int)(strlen(name) - strlen(".weight")), name);
		a = first_end(p, module, a);
	}
	if (p->odd_alpha < (a != NULL ? a->at : SIZE_MAX))
		return bad_config(p,
		    "alpha_pattern has an unsupported pattern");
	if (a == NULL)
		return 0;
	if (qwen_hub_f64(yyjson_obj_get(root, "lora_alpha"), &all) < 0 ||
	    qwen_hub_f64(a->value, &alpha) < 0 ||
	    !isfinite((float)(alpha / all)))
		return bad_config(p, "alpha_pattern has a value that is not a "
		    "number");
	*times = (float)(alpha / all);
	return 0;
}

/* --------------------------------------------------------------- the whole */

int
qwen_hub_adapter_config(struct adapter_plan *p)
{
	yyjson_val *root = yyjson_doc_get_root(p->h->adapter);

	if (p->h->adapter_mlx ? read_mlx(p, root) < 0 :
	    check_kind(p, root) < 0 || read_alpha(p, root) < 0)
		return -1;
	return read_patterns(p, yyjson_obj_get(root, "alpha_pattern"));
}

void
qwen_hub_adapter_config_fini(struct adapter_plan *p)
{
	size_t i;

	for (i = 0; i < p->n_alpha; i++)
		free(p->alpha[i].end);
	free(p->alpha);
}
