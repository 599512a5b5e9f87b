/* SPDX-License-Identifier: ISC */
/* keys.c - the metadata, in the names and order of llama.cpp's converter. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "hub/json.h"
#include "hub/plan.h"
#include "qwen/embed.h"

enum { ROPE_KEYS_MAX = 100 };

struct keys {
	struct qwen_hub_gguf	*g;
	struct qwen_hub		*h;
	struct qwen_gguf_writer	*w;
	yyjson_val		*rope[2];	/* rope_parameters and
						   rope_scaling */
};

/* Copies a number of the config, if present, to another name. */
static void
copy_u32(const struct keys *k, const char *from, const char *tail)
{
	uint32_t v;

	if (qwen_hub_get_u32(k->h, from, &v) == 1)
		qwen_gguf_put_u32(k->w, tail, v);
}

/* ------------------------------------------------------------------- rope */

static const char *const rope_name[] = { "rope_parameters", "rope_scaling" };

/* Returns the text of a value for messages; `other' for an object or list. */
static const char *
said(yyjson_val *v, const char *other)
{
	return yyjson_is_str(v) ? yyjson_get_str(v) : yyjson_is_raw(v) ?
	    yyjson_get_raw(v) : yyjson_is_bool(v) ? yyjson_get_bool(v) ?
	    "true" : "false" : other;
}

/* Returns the type of RoPE scaling, from either key; NULL if neither is set. */
static const char *
type_of(yyjson_val *rope)
{
	const char *type = qwen_hub_str(rope, "rope_type");

	return type != NULL ? type : qwen_hub_str(rope, "type");
}

/* Returns 1 if the type means that positions are not scaled. */
static int
is_plain(const char *type)
{
	return type == NULL || strcmp(type, "default") == 0 ||
	    strcmp(type, "mrope") == 0;
}

static int
differ(yyjson_val *a, yyjson_val *b)
{
	double x, y;

	if (a == NULL || yyjson_is_null(a) || b == NULL || yyjson_is_null(b))
		return 0;
	return qwen_hub_f64(a, &x) == 0 && qwen_hub_f64(b, &y) == 0 ? x != y :
	    !yyjson_equals(a, b);
}

/* Checks one RoPE object alone: it names one type, for all layers. */
static int
check_one_rope(const struct keys *k, const char *name, yyjson_val *rope)
{
	const char *type = qwen_hub_str(rope, "type");
	const char *rope_type = qwen_hub_str(rope, "rope_type"), *s;
	yyjson_val *key, *v;
	size_t i, n;

	if (rope != NULL && !yyjson_is_obj(rope))
		return qwen_hub_bad(k->h, "%s is not an object", name);
	/* check_rope() compares the keys of two such objects pairwise */
	if (yyjson_obj_size(rope) > ROPE_KEYS_MAX)
		return qwen_hub_bad(k->h, "%s has more than %d keys", name,
		    ROPE_KEYS_MAX);
	yyjson_obj_foreach(rope, i, n, key, v) {
		s = yyjson_get_str(key);
		if (yyjson_is_obj(v))
			return qwen_hub_bad(k->h, "%s has %.40s for single "
			    "layers, but GGUF has one value for all layers",
			    name, s);
		if ((strcmp(s, "type") == 0 || strcmp(s, "rope_type") == 0) &&
		    !yyjson_is_str(v) && !yyjson_is_null(v))
			return qwen_hub_bad(k->h, "%.40s of %s is not a string",
			    s, name);
	}
	if (type != NULL && rope_type != NULL && strcmp(type, rope_type) != 0 &&
	    !(is_plain(type) && is_plain(rope_type)))
		return qwen_hub_bad(k->h, "%s has rope_type %.40s and type "
		    "%.40s", name, rope_type, type);
	return 0;
}

/*
 * Checks that rope_parameters and rope_scaling agree, if both are present (as
 * after a user added YaRN to an older config).  rope_parameters may also be
 * plain.
 */
static int
check_rope(const struct keys *k)
{
	yyjson_val *key, *v, *other = qwen_hub_get(k->h, "rope_theta");
	const char *type = type_of(k->rope[0]), *added = type_of(k->rope[1]);
	const char *s;
	double factor;
	size_t i, n;

	for (i = 0; i < 2; i++) {
		if (check_one_rope(k, rope_name[i], k->rope[i]) < 0)
			return -1;
		v = yyjson_obj_get(k->rope[i], "rope_theta");
		if (differ(v, other))
			return qwen_hub_bad(k->h, "rope_theta is %.40s, but "
			    "%.40s in %s", said(other, "a list"),
			    said(v, "a list"), rope_name[i]);
	}
	for (i = 0; i < 2 && is_plain(type) && is_plain(added); i++) {
		v = yyjson_obj_get(k->rope[i], "factor");
		if (qwen_hub_f64(v, &factor) == 0 && factor != 1)
			return qwen_hub_bad(k->h, "%s has a factor but no type "
			    "of scaling", rope_name[i]);
	}
	if (!is_plain(type) && added != NULL && strcmp(type, added) != 0)
		return qwen_hub_bad(k->h, "rope_type is %.40s in "
		    "rope_parameters, but %.40s in rope_scaling", type, added);
	yyjson_obj_foreach(k->rope[1], i, n, key, v) {
		s = yyjson_get_str(key);
		other = yyjson_obj_get(k->rope[0], s);
		if (strcmp(s, "rope_type") != 0 && strcmp(s, "type") != 0 &&
		    differ(v, other))
			return qwen_hub_bad(k->h, "%.40s is %.40s in "
			    "rope_parameters, but %.40s in rope_scaling", s,
			    said(other, "one list"), said(v, "another"));
	}
	return 0;
}

/* Returns a RoPE setting: from rope_scaling, else from rope_parameters. */
static yyjson_val *
rope_get(const struct keys *k, const char *key)
{
	yyjson_val *v = yyjson_obj_get(k->rope[1], key);

	return v != NULL && !yyjson_is_null(v) ? v :
	    yyjson_obj_get(k->rope[0], key);
}

/* Reads a RoPE number from these, else from the top level of the config. */
static int
rope_f64(const struct keys *k, const char *key, double *out)
{
	yyjson_val *v = rope_get(k, key);

	if (v == NULL || yyjson_is_null(v))
		return qwen_hub_get_f64(k->h, key, out);
	return qwen_hub_f64(v, out) == 0 ? 1 :
	    qwen_hub_bad(k->h, "%s is not a number in the range of f32", key);
}

static int
has(const struct keys *k, const char *key)
{
	return yyjson_get_raw(rope_get(k, key)) != NULL;
}

static void
put_yarn(const struct keys *k, double factor)
{
	static const char *const row[][2] = {
		{ "extrapolation_factor", ".rope.scaling.yarn_ext_factor" },
		{ "attn_factor", ".rope.scaling.yarn_attn_factor" },
		{ "beta_fast", ".rope.scaling.yarn_beta_fast" },
		{ "beta_slow", ".rope.scaling.yarn_beta_slow" },
	};
	double v = 0, own;
	size_t i;

	rope_f64(k, "original_max_position_embeddings", &v);
	if (v >= 1 && v < 4294967296.0 && v == floor(v))
		qwen_gguf_put_u32(k->w,
		    ".rope.scaling.original_context_length", (uint32_t)v);
	else
		qwen_hub_bad(k->h, "yarn needs "
		    "original_max_position_embeddings, a whole number");
	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (has(k, row[i][0]) && rope_f64(k, row[i][0], &v) == 1)
			qwen_gguf_put_f32(k->w, row[i][1], (float)v);
	}
	/* attention_factor is the factor of cos and sin, YaRN's own included */
	if (!has(k, "attention_factor") ||
	    rope_f64(k, "attention_factor", &v) < 0)
		return;
	v /= 1 + 0.1 * log(factor);
	if (!has(k, "attn_factor"))
		qwen_gguf_put_f32(k->w, ".rope.scaling.yarn_attn_factor",
		    (float)v);
	else if (rope_f64(k, "attn_factor", &own) < 0 ||
	    fabs(own - v) > 1e-3 * fabs(v))
		qwen_hub_bad(k->h, "attention_factor and attn_factor "
		    "contradict each other");
}

static void
put_scaling(const struct keys *k)
{
	const char *type = type_of(k->rope[1]);
	double factor = 0;

	if (type == NULL)
		type = type_of(k->rope[0]);
	if (is_plain(type))
		return;
	if (strcmp(type, "yarn") != 0 && strcmp(type, "linear") != 0)
		qwen_hub_bad(k->h, "unknown RoPE scaling %.40s", type);
	if (qwen_hub_f64(rope_get(k, "factor"), &factor) < 0)
		qwen_hub_bad(k->h, "RoPE scaling without a factor");
	qwen_gguf_put_str(k->w, ".rope.scaling.type", type);
	qwen_gguf_put_f32(k->w, ".rope.scaling.factor", (float)factor);
	if (*type == 'y')
		put_yarn(k, factor);
}

/* Writes the sections of multi-dimensional RoPE, if there are any. */
static void
put_sections(const struct keys *k)
{
	yyjson_val *v = rope_get(k, "mrope_section");
	int32_t section[4] = { 0 };
	size_t i, n = yyjson_arr_size(v);
	uint64_t u;

	for (i = 0; i < n && i < 4; i++) {
		if (qwen_hub_u64(yyjson_arr_get(v, i), &u) < 0 || u > 1 << 20)
			qwen_hub_bad(k->h, "mrope_section has an invalid "
			    "number");
		else
			section[i] = (int32_t)u;
	}
	if (v != NULL)
		qwen_gguf_put_i32s(k->w, ".rope.dimension_sections",
		    section, 4);
}

/* ---------------------------------------------------------------- general */

static void
put_sampling(const struct keys *k)
{
	static const char *const row[][2] = {
		{ "top_k", "general.sampling.top_k" },
		{ "top_p", "general.sampling.top_p" },
		{ "min_p", "general.sampling.min_p" },
		{ "temperature", "general.sampling.temp" },
		{ "repetition_penalty", "general.sampling.penalty_repeat" },
	};
	yyjson_doc *doc;
	yyjson_val *v;
	double x;
	size_t i;

	qwen_hub_json(k->h, "generation_config.json", &doc);
	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		v = yyjson_obj_get(yyjson_doc_get_root(doc), row[i][0]);
		if (v == NULL || yyjson_is_null(v))
			continue;
		if (qwen_hub_f64(v, &x) < 0 || fabs(x) > 1e9)
			qwen_hub_fail(k->h, "generation_config.json", "%s is "
			    "not a number", row[i][0]);
		else if (i == 0)
			qwen_gguf_put_i32(k->w, row[i][1], (int32_t)x);
		else
			qwen_gguf_put_f32(k->w, row[i][1], (float)x);
	}
	yyjson_doc_free(doc);
}

/*
 * Appends a word of a title: "qwen" becomes "Qwen"; "0.6b", "v2" and "A3B"
 * stay.
 */
static void
add_word(struct qwen_text *t, const char *s, size_t n)
{
	size_t i, lower = 0, upper = 0;
	int last = ' ';
	char c;

	for (i = 0; i < n; i++) {
		lower += islower((unsigned char)s[i]) != 0;
		upper += isupper((unsigned char)s[i]) != 0;
	}
	if (t->n > 0)
		qwen_text_str(t, " ");
	if (lower == 0 || upper > 0 || (s[0] >= '0' && s[0] <= '9') ||
	    (s[0] == 'v' && lower == 1)) {
		qwen_text_add(t, s, n);
		return;
	}
	for (i = 0; i < n; i++, last = (unsigned char)s[i - 1]) {
		c = islower(last) ? s[i] : (char)toupper((unsigned char)s[i]);
		qwen_text_add(t, &c, 1);
	}
}

/* Writes general.name: the folder's name as a title. */
static void
put_name(const struct keys *k)
{
	const char *path = k->h->adapter != NULL ? k->h->adapter_path :
	    k->h->path;
	char *real = realpath(path, NULL);
	const char *s = real != NULL ? strrchr(real, '/') + 1 : "";
	struct qwen_text t = { 0 };
	size_t n;

	if (real == NULL)
		qwen_fail_errno(k->h->err, "%s", path);
	for (; *s != '\0'; s += n) {
		s += strspn(s, "- ");
		n = strcspn(s, "- ");
		if (n > 0)
			add_word(&t, s, n);
	}
	free(real);
	if (t.failed)
		qwen_oom(k->h->err);
	qwen_gguf_put_str(k->w, "general.name", t.s != NULL ? t.s : "");
	qwen_text_fini(&t);
}

/*
 * Writes the size label: "35B", or "128x30B" for 128 experts, where the size
 * counts one expert.
 */
static void
put_size(const struct keys *k)
{
	static const char suffix[] = "KMBT";
	const struct hub_tensor *t;
	double n = 0, all, x;
	char buf[32], *at = buf;
	size_t i;
	int s, has = 0, digits;

	for (i = 0; i < k->g->n; i++) {
		t = &k->g->t[i];
		all = (double)t->ne[0] * (double)t->ne[1] *
		    (double)t->ne[2] * (double)t->ne[3];
		if (strstr(t->name, "_exps.") != NULL && t->n_dims > 2) {
			all /= (double)t->ne[2];
			has = 1;
		}
		n += all;
	}
	for (s = 0, x = n / 1e3; s < 3 && x > 1e3; s++)
		x /= 1e3;
	digits = nearbyint(x) < 1 ? 2 : nearbyint(x) < 10 ? 1 : 0;
	if (has)
		at += snprintf(buf, sizeof buf, "%ux", k->g->n_expert);
	snprintf(at, sizeof buf - (size_t)(at - buf), "%.*f%c", digits, x,
	    suffix[s]);
	qwen_gguf_put_str(k->w, "general.size_label", buf);
}

/* Returns llama.cpp's general.file_type of the mix. */
static uint32_t
file_type(const struct qwen_hub_gguf *g)
{
	if (g->type == QT_Q8_0)
		return 7;
	if (g->fp4 != 0)
		return g->fp4 == QT_NVFP4 ? 39 : 38;
	if (g->q4_1)
		return 3;
	return g->type == QT_F32 ? 0 : g->type == QT_F16 ? 1 : 32;
}

/* ------------------------------------------------------------- the model */

static void
put_model(const struct keys *k)
{
	uint32_t head_dim;
	double x;

	qwen_gguf_put_u32(k->w, ".block_count", k->g->n_layer + k->g->n_mtp);
	copy_u32(k, "max_position_embeddings", ".context_length");
	copy_u32(k, "hidden_size", ".embedding_length");
	copy_u32(k, "intermediate_size", ".feed_forward_length");
	copy_u32(k, "num_attention_heads", ".attention.head_count");
	copy_u32(k, "num_key_value_heads", ".attention.head_count_kv");
	if (check_rope(k) < 0)
		return;
	put_scaling(k);
	put_sections(k);
	if (rope_f64(k, "rope_theta", &x) == 1)
		qwen_gguf_put_f32(k->w, ".rope.freq_base", (float)x);
	if (qwen_hub_get_f64(k->h, "rms_norm_eps", &x) == 1)
		qwen_gguf_put_f32(k->w, ".attention.layer_norm_rms_epsilon",
		    (float)x);
	if (k->g->n_expert > 0) {
		qwen_gguf_put_u32(k->w, ".expert_count", k->g->n_expert);
		copy_u32(k, "num_experts_per_tok", ".expert_used_count");
	}
	if (qwen_hub_get_u32(k->h, "head_dim", &head_dim) == 1) {
		qwen_gguf_put_u32(k->w, ".attention.key_length", head_dim);
		qwen_gguf_put_u32(k->w, ".attention.value_length", head_dim);
	}
	qwen_gguf_put_u32(k->w, "general.file_type", file_type(k->g));
}

/*
 * Writes which layers have linear attention: those of layer_types, else all
 * except every `every'-th.
 */
static void
put_recurrent(const struct keys *k, uint32_t every)
{
	yyjson_val *types = qwen_hub_get(k->h, "layer_types");
	uint32_t n = k->g->n_layer + k->g->n_mtp, i;
	unsigned char *b = calloc(n, 1);

	if (b == NULL)
		qwen_oom(k->h->err);
	if (types != NULL && yyjson_arr_size(types) != k->g->n_layer)
		qwen_hub_bad(k->h, "layer_types has %zu layers, not %u",
		    yyjson_arr_size(types), k->g->n_layer);
	for (i = 0; b != NULL && i < k->g->n_layer; i++)
		b[i] = types != NULL ? yyjson_equals_str(yyjson_arr_get(types,
		    i), "linear_attention") : (i + 1) % every != 0;
	if (b != NULL)
		qwen_gguf_put_bools(k->w, ".attention.recurrent_layers", b, n);
	free(b);
}

/*
 * Writes the keys of hybrid models: linear attention, and the RoPE dimensions
 * of the other layers.
 */
static void
put_linear(const struct keys *k)
{
	const struct hub_heads *d = &k->g->heads;
	uint32_t every = 4, dim = 0, n_embd = 0, n_head = 1;
	double part = 0.25;

	if (k->g->n_mtp > 0)
		qwen_gguf_put_u32(k->w, ".nextn_predict_layers", k->g->n_mtp);
	qwen_hub_need_u32(k->h, "linear_conv_kernel_dim", &dim);
	qwen_gguf_put_u32(k->w, ".ssm.conv_kernel", dim);
	qwen_gguf_put_u32(k->w, ".ssm.state_size", (uint32_t)d->key_dim);
	qwen_gguf_put_u32(k->w, ".ssm.group_count", (uint32_t)d->n_key);
	qwen_gguf_put_u32(k->w, ".ssm.time_step_rank", (uint32_t)d->n_value);
	qwen_gguf_put_u32(k->w, ".ssm.inner_size", (uint32_t)(d->value_dim *
	    d->n_value));
	qwen_hub_get_u32(k->h, "full_attention_interval", &every);
	if (every == 0) {
		qwen_hub_bad(k->h, "full_attention_interval is 0");
		return;
	}
	put_recurrent(k, every);
	qwen_gguf_put_u32(k->w, ".full_attention_interval", every);
	if (qwen_hub_get_u32(k->h, "head_dim", &dim) == 0 &&
	    qwen_hub_need_u32(k->h, "hidden_size", &n_embd) == 0 &&
	    qwen_hub_need_u32(k->h, "num_attention_heads", &n_head) == 0)
		dim = n_embd / n_head;
	rope_f64(k, "partial_rotary_factor", &part);
	if (part < 0 || part > 1)
		qwen_hub_bad(k->h, "partial_rotary_factor is not from 0 to 1");
	else
		qwen_gguf_put_u32(k->w, ".rope.dimension_count", (uint32_t)(dim *
		    part));
}

/* ----------------------------------------------------------------- pooling */

/*
 * Returns the folder of the pooling module, or NULL if the model does no
 * pooling.
 */
static const char *
pooling_folder(yyjson_val *modules)
{
	const char *type;
	yyjson_val *v;
	size_t i, n;

	yyjson_arr_foreach(modules, i, n, v) {
		type = qwen_hub_str(v, "type");
		if (type != NULL && qwen_ends(type, "Pooling"))
			return qwen_hub_str(v, "path");
	}
	return NULL;
}

/* Returns the pooling type from the module's config: by flag, or by name. */
static uint32_t
pooling_type(yyjson_val *v)
{
	static const struct {
		const char	*flag, *name;
		uint32_t	 type;
	} types[] = {
		{ "pooling_mode_mean_tokens", "mean", QWEN_POOLING_MEAN },
		{ "pooling_mode_cls_token", "cls", QWEN_POOLING_CLS },
		{ "pooling_mode_lasttoken", "lasttoken", QWEN_POOLING_LAST },
	};
	size_t i;

	for (i = 0; i < sizeof types / sizeof types[0]; i++) {
		if (yyjson_is_true(yyjson_obj_get(v, types[i].flag)))
			return types[i].type;
	}
	v = yyjson_obj_get(v, "pooling_mode");
	for (i = 0; i < sizeof types / sizeof types[0]; i++) {
		if (yyjson_equals_str(v, types[i].name))
			return types[i].type;
	}
	return QWEN_POOLING_NONE;
}

/*
 * Writes the pooling type of an embedding model of sentence-transformers, which
 * modules.json describes.
 */
static void
put_pooling(const struct keys *k)
{
	yyjson_doc *modules, *conf = NULL;
	const char *folder;
	char path[300];
	uint32_t type;

	qwen_hub_json(k->h, "modules.json", &modules);
	folder = pooling_folder(yyjson_doc_get_root(modules));
	if (folder != NULL && (*folder == '.' || strlen(folder) > 255 ||
	    strchr(folder, '/') != NULL))
		qwen_hub_fail(k->h, "modules.json", "the path of the pooling "
		    "module is not a folder name");
	else if (folder != NULL) {
		snprintf(path, sizeof path, "%s/config.json", folder);
		if (qwen_hub_json(k->h, path, &conf) == 0)
			qwen_fail(k->h->err, QWEN_EFORMAT, "%s/%s is missing, "
			    "but modules.json names it", k->h->path, path);
	}
	type = pooling_type(yyjson_doc_get_root(conf));
	if (conf != NULL && type == QWEN_POOLING_NONE)
		qwen_hub_fail(k->h, path, "unsupported pooling; mean, cls and "
		    "lasttoken are supported");
	else if (conf != NULL)
		qwen_gguf_put_u32(k->w, ".pooling_type", type);
	yyjson_doc_free(modules);
	yyjson_doc_free(conf);
}

/* ---------------------------------------------------------------- together */

/* Writes the keys that only some architectures have. */
static void
put_special(const struct keys *k)
{
	static const int32_t sections[] = { 11, 11, 10, 0 };
	const struct qwen_arch *a = k->h->arch;
	yyjson_val *v;

	if (a->moe || a->hybrid) {
		copy_u32(k, "moe_intermediate_size",
		    ".expert_feed_forward_length");
		copy_u32(k, "shared_expert_intermediate_size",
		    ".expert_shared_feed_forward_length");
	}
	if (a->hybrid)
		put_linear(k);
	if (a->hybrid && !a->grouped && rope_get(k, "mrope_section") == NULL)
		qwen_gguf_put_i32s(k->w, ".rope.dimension_sections",
		    sections, 4);
	if (a->vision) {
		v = yyjson_obj_get(qwen_hub_get(k->h, "vision_config"),
		    "deepstack_visual_indexes");
		qwen_gguf_put_u32(k->w, ".n_deepstack_layers",
		    (uint32_t)yyjson_arr_size(v));
	}
}

/* Writes the keys of a model, after those that all files have. */
static void
put_text_model(const struct keys *k)
{
	qwen_hub_check(k->g);
	put_model(k);
	if (k->g->rank != HUB_NO_RANK)
		qwen_hub_put_rank(k->g);
	else
		put_pooling(k);
	put_special(k);
}

/* The functions above note failures in h->err; this one looks at the end. */
int
qwen_hub_put_keys(struct qwen_hub_gguf *g)
{
	struct qwen_hub *h = g->hub;
	const struct keys k = { g, h, g->w,
	    { qwen_hub_get(h, rope_name[0]), qwen_hub_get(h, rope_name[1]) } };
	int adapter = h->adapter != NULL, mmproj = g->opts.mmproj;

	h->err->code = 0;
	qwen_gguf_put_str(g->w, "general.architecture", mmproj ?
	    QWEN_MMPROJ_ARCH : h->arch->name);
	qwen_gguf_put_str(g->w, "general.type", adapter ? "adapter" : mmproj ?
	    "mmproj" : "model");
	if (adapter)
		qwen_gguf_put_str(g->w, "adapter.type", "lora");
	else
		put_sampling(&k);
	put_name(&k);
	if (adapter)
		qwen_gguf_put_f32(g->w, "adapter.lora.alpha", g->alpha);
	else
		put_size(&k);
	if (mmproj) {
		qwen_gguf_put_u32(g->w, "general.file_type", file_type(g));
		qwen_mmproj_put_keys(g->w, &g->mmproj);
	} else if (!adapter)
		put_text_model(&k);
	qwen_gguf_put_u32(g->w, "general.quantization_version", 2);
	if (h->err->code != 0)
		return -1;
	return adapter || mmproj || g->opts.no_vocab ? 0 :
	    qwen_hub_put_vocab(g);
}
