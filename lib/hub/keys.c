/* SPDX-License-Identifier: ISC */
/* keys.c - the metadata, in the names and order of llama.cpp's converter. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "hub/json.h"
#include "hub/plan.h"
#include "qwen/embed.h"

enum { ROPE_KEYS_MAX = 100 };

struct keys {
	struct qwen_hub_gguf	*g;
	const struct qwen_hub	*h;
	struct qwen_gguf_writer	*w;
	struct qwen_err		*err;
};

/* Returns "ARCHITECTURE.tail" in buf. */
static const char *
key_of(const struct keys *k, const char *tail, char *buf, size_t n)
{
	snprintf(buf, n, "%s.%s", k->h->arch->name, tail);
	return buf;
}

static void
put_u32(const struct keys *k, const char *tail, uint32_t v)
{
	char buf[96];

	qwen_gguf_put_u32(k->w, key_of(k, tail, buf, sizeof buf), v);
}

static void
put_f32(const struct keys *k, const char *tail, double v)
{
	char buf[96];

	qwen_gguf_put_f32(k->w, key_of(k, tail, buf, sizeof buf), (float)v);
}

/* Copies a number of the config, if present, to another name. */
static int
copy_u32(const struct keys *k, const char *from, const char *tail)
{
	uint32_t v;
	int rc = qwen_hub_get_u32(k->h, from, &v, k->err);

	if (rc == 1)
		put_u32(k, tail, v);
	return rc;
}

/* ------------------------------------------------------------------- rope */

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
	const char *type = yyjson_get_str(yyjson_obj_get(rope, "rope_type"));

	return type != NULL ? type :
	    yyjson_get_str(yyjson_obj_get(rope, "type"));
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
	yyjson_val *type = yyjson_obj_get(rope, "type"), *key, *v;
	yyjson_val *rope_type = yyjson_obj_get(rope, "rope_type");
	size_t i, n;

	if (rope != NULL && !yyjson_is_null(rope) && !yyjson_is_obj(rope))
		return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: %s is "
		    "not an object", k->h->path, name);
	/* check_rope() compares the keys of two such objects pairwise */
	if (yyjson_obj_size(rope) > ROPE_KEYS_MAX)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
		    "%s has more than %d keys", k->h->path, name,
		    ROPE_KEYS_MAX);
	yyjson_obj_foreach(rope, i, n, key, v) {
		if (yyjson_is_obj(v))
			return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
			    "%s has %.40s for single layers, but GGUF has one "
			    "value for all layers", k->h->path, name,
			    yyjson_get_str(key));
		if ((v == type || v == rope_type) && !yyjson_is_str(v) &&
		    !yyjson_is_null(v))
			return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: "
			    "%.40s of %s is not a string", k->h->path,
			    yyjson_get_str(key), name);
	}
	if (yyjson_is_str(type) && yyjson_is_str(rope_type) &&
	    !yyjson_equals(type, rope_type) &&
	    !(is_plain(yyjson_get_str(type)) &&
	    is_plain(yyjson_get_str(rope_type))))
		return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: %s has "
		    "rope_type %.40s and type %.40s", k->h->path, name,
		    yyjson_get_str(rope_type), yyjson_get_str(type));
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
	static const char *const name[] = { "rope_parameters", "rope_scaling" };
	yyjson_val *rope[2], *key, *v, *other;
	const char *type, *added;
	double factor;
	size_t i, n;

	for (i = 0; i < 2; i++) {
		rope[i] = qwen_hub_get(k->h, name[i]);
		if (check_one_rope(k, name[i], rope[i]) < 0)
			return -1;
		v = yyjson_obj_get(rope[i], "rope_theta");
		other = qwen_hub_get(k->h, "rope_theta");
		if (differ(v, other))
			return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
			    "rope_theta is %.40s, but %.40s in %s", k->h->path,
			    said(other, "a list"), said(v, "a list"), name[i]);
	}
	type = type_of(rope[0]);
	added = type_of(rope[1]);
	for (i = 0; i < 2 && is_plain(type) && is_plain(added); i++) {
		if (qwen_hub_f64(yyjson_obj_get(rope[i], "factor"),
		    &factor) == 0 && factor != 1)
			return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
			    "%s has a factor but no type of scaling",
			    k->h->path, name[i]);
	}
	if (!is_plain(type) && added != NULL && strcmp(type, added) != 0)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
		    "rope_type is %.40s in rope_parameters, but %.40s in "
		    "rope_scaling", k->h->path, type, added);
	yyjson_obj_foreach(rope[1], i, n, key, v) {
		other = yyjson_obj_get(rope[0], yyjson_get_str(key));
		if (strcmp(yyjson_get_str(key), "rope_type") != 0 &&
		    strcmp(yyjson_get_str(key), "type") != 0 &&
		    differ(v, other))
			return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
			    "%.40s is %.40s in rope_parameters, but %.40s in "
			    "rope_scaling", k->h->path, yyjson_get_str(key),
			    said(other, "one list"),
			    said(v, "another"));
	}
	return 0;
}

/* Returns a RoPE setting: from rope_scaling, else from rope_parameters. */
static yyjson_val *
rope_get(const struct keys *k, const char *key)
{
	yyjson_val *v = yyjson_obj_get(qwen_hub_get(k->h, "rope_scaling"), key);

	return v != NULL && !yyjson_is_null(v) ? v :
	    yyjson_obj_get(qwen_hub_get(k->h, "rope_parameters"), key);
}

/* Reads a RoPE number from these, else from the top level of the config. */
static int
rope_f64(const struct keys *k, const char *key, double *out)
{
	yyjson_val *v = rope_get(k, key);

	if (v == NULL || yyjson_is_null(v))
		return qwen_hub_get_f64(k->h, key, out, k->err);
	return qwen_hub_f64(v, out) == 0 ? 1 : qwen_fail(k->err, QWEN_EFORMAT,
	    "%s/config.json: %s is not a number in the range of f32",
	    k->h->path, key);
}

static int
has(const struct keys *k, const char *key)
{
	return yyjson_get_raw(rope_get(k, key)) != NULL;
}

static int
put_yarn(const struct keys *k, double factor)
{
	static const struct {
		const char	*from, *tail;
	} row[] = {
		{ "extrapolation_factor", "rope.scaling.yarn_ext_factor" },
		{ "attn_factor", "rope.scaling.yarn_attn_factor" },
		{ "beta_fast", "rope.scaling.yarn_beta_fast" },
		{ "beta_slow", "rope.scaling.yarn_beta_slow" },
	};
	double v, own;
	size_t i;
	int rc;

	rc = rope_f64(k, "original_max_position_embeddings", &v);
	if (rc == 1 && v >= 1 && v < 4294967296.0 && v == floor(v))
		put_u32(k, "rope.scaling.original_context_length", (uint32_t)v);
	else
		return rc < 0 ? -1 : qwen_fail(k->err, QWEN_EFORMAT,
		    "%s/config.json: yarn needs "
		    "original_max_position_embeddings, a whole number",
		    k->h->path);
	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (!has(k, row[i].from))
			continue;
		if (rope_f64(k, row[i].from, &v) < 0)
			return -1;
		put_f32(k, row[i].tail, v);
	}
	/* attention_factor is the factor of cos and sin, YaRN's own included */
	if (has(k, "attention_factor")) {
		if (rope_f64(k, "attention_factor", &v) < 0)
			return -1;
		v /= 1 + 0.1 * log(factor);
		if (!has(k, "attn_factor"))
			put_f32(k, "rope.scaling.yarn_attn_factor", v);
		else if (rope_f64(k, "attn_factor", &own) < 0 ||
		    fabs(own - v) > 1e-3 * fabs(v))
			return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: "
			    "attention_factor and attn_factor contradict each "
			    "other", k->h->path);
	}
	return 0;
}

static int
put_scaling(const struct keys *k)
{
	const char *type = type_of(qwen_hub_get(k->h, "rope_scaling"));
	double factor;
	char buf[96];

	if (type == NULL)
		type = type_of(qwen_hub_get(k->h, "rope_parameters"));
	if (is_plain(type))
		return 0;
	if (strcmp(type, "yarn") != 0 && strcmp(type, "linear") != 0)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s/config.json: unknown "
		    "RoPE scaling %.40s", k->h->path, type);
	if (qwen_hub_f64(rope_get(k, "factor"), &factor) < 0)
		return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: RoPE "
		    "scaling without a factor", k->h->path);
	qwen_gguf_put_str(k->w, key_of(k, "rope.scaling.type", buf, sizeof buf),
	    type);
	put_f32(k, "rope.scaling.factor", factor);
	return *type == 'y' ? put_yarn(k, factor) : 0;
}

/*
 * Writes the sections of multi-dimensional RoPE; returns 0 if there are none.
 */
static int
put_sections(const struct keys *k)
{
	yyjson_val *v = rope_get(k, "mrope_section");
	int32_t section[4] = { 0 };
	size_t i, n = yyjson_arr_size(v);
	uint64_t u;
	char buf[96];

	if (v == NULL)
		return 0;
	for (i = 0; i < n && i < 4; i++) {
		if (qwen_hub_u64(yyjson_arr_get(v, i), &u) < 0 || u > 1 << 20)
			return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: "
			    "mrope_section has an invalid number", k->h->path);
		section[i] = (int32_t)u;
	}
	qwen_gguf_put_i32s(k->w, key_of(k, "rope.dimension_sections", buf,
	    sizeof buf), section, 4);
	return 1;
}

/* ---------------------------------------------------------------- general */

static void
put_i32(struct qwen_gguf_writer *w, const char *key, int32_t v)
{
	unsigned char b[4];
	struct qwen_gguf_kv kv = { .key = { key, strlen(key) },
	    .type = QWEN_GGUF_INT32, .elem = QWEN_GGUF_INT32, .n = 1,
	    .data = b, .bytes = sizeof b };

	qwen_put_le32(b, (uint32_t)v);
	qwen_gguf_put_kv(w, &kv);
}

static int
put_sampling(const struct keys *k)
{
	static const struct {
		const char	*from, *key;
		int		 whole;
	} row[] = {
		{ "top_k", "general.sampling.top_k", 1 },
		{ "top_p", "general.sampling.top_p", 0 },
		{ "min_p", "general.sampling.min_p", 0 },
		{ "temperature", "general.sampling.temp", 0 },
		{ "repetition_penalty", "general.sampling.penalty_repeat", 0 },
	};
	yyjson_doc *doc;
	yyjson_val *v;
	double x;
	size_t i;
	int rc = qwen_hub_json(k->h, "generation_config.json", &doc, k->err);

	if (rc <= 0)
		return rc;
	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		v = yyjson_obj_get(yyjson_doc_get_root(doc), row[i].from);
		if (v == NULL || yyjson_is_null(v))
			continue;
		if (qwen_hub_f64(v, &x) < 0 || fabs(x) > 1e9) {
			rc = qwen_fail(k->err, QWEN_EFORMAT,
			    "%s/generation_config.json: %s is not a number",
			    k->h->path, row[i].from);
			break;
		}
		if (row[i].whole)
			put_i32(k->w, row[i].key, (int32_t)x);
		else
			qwen_gguf_put_f32(k->w, row[i].key, (float)x);
	}
	yyjson_doc_free(doc);
	return rc < 0 ? -1 : 0;
}

static int
is_lower(int c)
{
	return c >= 'a' && c <= 'z';
}

static int
is_upper(int c)
{
	return c >= 'A' && c <= 'Z';
}

/*
 * Appends a word of a title: "qwen" becomes "Qwen"; "0.6b", "v2" and "A3B"
 * stay.
 */
static void
add_word(struct qwen_text *t, const char *s, size_t n)
{
	size_t i, lower = 0, upper = 0;
	char c, last = ' ';

	for (i = 0; i < n; i++) {
		lower += is_lower(s[i]);
		upper += is_upper(s[i]);
	}
	if (t->n > 0)
		qwen_text_str(t, " ");
	if (lower == 0 || upper > 0 || (s[0] >= '0' && s[0] <= '9') ||
	    (s[0] == 'v' && lower == 1)) {
		qwen_text_add(t, s, n);
		return;
	}
	for (i = 0; i < n; i++, last = s[i - 1]) {
		c = s[i];
		if (is_lower(c) && !is_lower(last))
			c = (char)(c - 'a' + 'A');
		qwen_text_add(t, &c, 1);
	}
}

/* Writes general.name: the folder's name as a title. */
static int
put_name(const struct keys *k)
{
	const char *path = k->h->adapter != NULL ? k->h->adapter_path :
	    k->h->path;
	char *real = realpath(path, NULL);
	const char *s = real != NULL ? strrchr(real, '/') + 1 : NULL;
	struct qwen_text t = { 0 };
	size_t n;

	if (real == NULL)
		return qwen_fail_errno(k->err, "%s", path);
	for (; *s != '\0'; s += n) {
		s += strspn(s, "- ");
		n = strcspn(s, "- ");
		if (n > 0)
			add_word(&t, s, n);
	}
	free(real);
	if (t.failed)
		return qwen_oom(k->err);
	qwen_gguf_put_str(k->w, "general.name", t.s != NULL ? t.s : "");
	qwen_text_fini(&t);
	return 0;
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
		all = (double)t->ne[0] * (double)t->ne[1] * (double)t->ne[2];
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
	if (g->type == GGML_Q8_0)
		return 7;
	if (g->fp4 != 0)
		return g->fp4 == GGML_NVFP4 ? 39 : 38;
	if (g->q4_1)
		return 3;
	return g->type == GGML_F32 ? 0 : g->type == GGML_F16 ? 1 : 32;
}

/* ------------------------------------------------------------- the model */

static int
put_model(const struct keys *k)
{
	uint32_t head_dim;
	double x;
	int rc;

	put_u32(k, "block_count", k->g->n_layer + k->g->n_mtp);
	if (copy_u32(k, "max_position_embeddings", "context_length") < 0 ||
	    copy_u32(k, "hidden_size", "embedding_length") < 0 ||
	    copy_u32(k, "intermediate_size", "feed_forward_length") < 0 ||
	    copy_u32(k, "num_attention_heads", "attention.head_count") < 0 ||
	    copy_u32(k, "num_key_value_heads", "attention.head_count_kv") < 0 ||
	    check_rope(k) < 0 || put_scaling(k) < 0 || put_sections(k) < 0)
		return -1;
	if ((rc = rope_f64(k, "rope_theta", &x)) < 0)
		return -1;
	if (rc == 1)
		put_f32(k, "rope.freq_base", x);
	if ((rc = qwen_hub_get_f64(k->h, "rms_norm_eps", &x, k->err)) < 0)
		return -1;
	if (rc == 1)
		put_f32(k, "attention.layer_norm_rms_epsilon", x);
	if (k->g->n_expert > 0) {
		put_u32(k, "expert_count", k->g->n_expert);
		if (copy_u32(k, "num_experts_per_tok", "expert_used_count") < 0)
			return -1;
	}
	if ((rc = qwen_hub_get_u32(k->h, "head_dim", &head_dim, k->err)) < 0)
		return -1;
	if (rc == 1) {
		put_u32(k, "attention.key_length", head_dim);
		put_u32(k, "attention.value_length", head_dim);
	}
	qwen_gguf_put_u32(k->w, "general.file_type", file_type(k->g));
	return 0;
}

/*
 * Writes which layers have linear attention: those of layer_types, else all
 * except every `every'-th.
 */
static int
put_recurrent(const struct keys *k, uint32_t every)
{
	yyjson_val *types = qwen_hub_get(k->h, "layer_types");
	uint32_t n = k->g->n_layer + k->g->n_mtp, i;
	unsigned char *b = calloc(n, 1);
	const char *s;
	char buf[96];
	struct qwen_gguf_kv kv = { .type = QWEN_GGUF_ARRAY,
	    .elem = QWEN_GGUF_BOOL, .n = n, .data = b, .bytes = n };

	if (b == NULL)
		return qwen_oom(k->err);
	if (types != NULL && yyjson_arr_size(types) != k->g->n_layer) {
		free(b);
		return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: "
		    "layer_types has %zu layers, not %u", k->h->path,
		    yyjson_arr_size(types), k->g->n_layer);
	}
	for (i = 0; i < k->g->n_layer; i++) {
		s = yyjson_get_str(yyjson_arr_get(types, i));
		b[i] = types != NULL ? s != NULL &&
		    strcmp(s, "linear_attention") == 0 : (i + 1) % every != 0;
	}
	kv.key.s = key_of(k, "attention.recurrent_layers", buf, sizeof buf);
	kv.key.len = strlen(kv.key.s);
	qwen_gguf_put_kv(k->w, &kv);
	free(b);
	return 0;
}

/*
 * Writes the keys of hybrid models: linear attention, and the RoPE dimensions
 * of the other layers.
 */
static int
put_linear(const struct keys *k)
{
	const struct hub_heads *d = &k->g->heads;
	uint32_t every = 4, dim, n_embd, n_head;
	double part = 0.25;
	int rc;

	if (k->g->n_mtp > 0)
		put_u32(k, "nextn_predict_layers", k->g->n_mtp);
	if (qwen_hub_need_u32(k->h, "linear_conv_kernel_dim", &dim, k->err) < 0)
		return -1;
	put_u32(k, "ssm.conv_kernel", dim);
	put_u32(k, "ssm.state_size", (uint32_t)d->key_dim);
	put_u32(k, "ssm.group_count", (uint32_t)d->n_key);
	put_u32(k, "ssm.time_step_rank", (uint32_t)d->n_value);
	put_u32(k, "ssm.inner_size", (uint32_t)(d->value_dim * d->n_value));
	if (qwen_hub_get_u32(k->h, "full_attention_interval", &every,
	    k->err) < 0)
		return -1;
	if (every == 0)
		return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: "
		    "full_attention_interval is 0", k->h->path);
	if (put_recurrent(k, every) < 0)
		return -1;
	put_u32(k, "full_attention_interval", every);
	if ((rc = qwen_hub_get_u32(k->h, "head_dim", &dim, k->err)) < 0)
		return -1;
	if (rc == 0) {
		if (qwen_hub_need_u32(k->h, "hidden_size", &n_embd,
		    k->err) < 0 || qwen_hub_need_u32(k->h,
		    "num_attention_heads", &n_head, k->err) < 0)
			return -1;
		dim = n_embd / n_head;
	}
	if (rope_f64(k, "partial_rotary_factor", &part) < 0)
		return -1;
	if (part < 0 || part > 1)
		return qwen_fail(k->err, QWEN_EFORMAT, "%s/config.json: "
		    "partial_rotary_factor is not from 0 to 1", k->h->path);
	put_u32(k, "rope.dimension_count", (uint32_t)(dim * part));
	return 0;
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
		type = yyjson_get_str(yyjson_obj_get(v, "type"));
		if (type != NULL && strlen(type) >= 7 &&
		    strcmp(type + strlen(type) - 7, "Pooling") == 0)
			return yyjson_get_str(yyjson_obj_get(v, "path"));
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
static int
put_pooling(const struct keys *k)
{
	yyjson_doc *modules = NULL, *conf = NULL;
	const char *folder;
	char path[300];
	uint32_t type;
	int r = qwen_hub_json(k->h, "modules.json", &modules, k->err);

	folder = r > 0 ? pooling_folder(yyjson_doc_get_root(modules)) : NULL;
	if (folder != NULL && (*folder == '.' || strlen(folder) > 255 ||
	    strcspn(folder, "/") < strlen(folder)))
		r = qwen_fail(k->err, QWEN_EFORMAT, "%s/modules.json: the path "
		    "of the pooling module is not a folder name", k->h->path);
	else if (folder != NULL) {
		snprintf(path, sizeof path, "%s/config.json", folder);
		r = qwen_hub_json(k->h, path, &conf, k->err);
		if (r == 0)
			r = qwen_fail(k->err, QWEN_EFORMAT, "%s/%s is missing, "
			    "but modules.json names it", k->h->path, path);
	}
	if (r > 0 && conf != NULL) {
		type = pooling_type(yyjson_doc_get_root(conf));
		if (type == QWEN_POOLING_NONE)
			r = qwen_fail(k->err, QWEN_EUNSUP, "%s/%s: unsupported "
			    "pooling; mean, cls and lasttoken are supported",
			    k->h->path, path);
		else
			put_u32(k, "pooling_type", type);
	}
	yyjson_doc_free(modules);
	yyjson_doc_free(conf);
	return r < 0 ? -1 : 0;
}

/* ---------------------------------------------------------------- together */

/* Writes the keys that only some architectures have. */
static int
put_special(const struct keys *k)
{
	static const int32_t sections[] = { 11, 11, 10, 0 };
	unsigned flags = k->h->arch->flags;
	yyjson_val *v;
	char buf[96];

	if ((flags & HUB_MOE || flags & HUB_LINEAR) &&
	    (copy_u32(k, "moe_intermediate_size",
	    "expert_feed_forward_length") < 0 ||
	    copy_u32(k, "shared_expert_intermediate_size",
	    "expert_shared_feed_forward_length") < 0))
		return -1;
	if (flags & HUB_LINEAR && put_linear(k) < 0)
		return -1;
	if (flags & HUB_TILED && rope_get(k, "mrope_section") == NULL)
		qwen_gguf_put_i32s(k->w, key_of(k, "rope.dimension_sections",
		    buf, sizeof buf), sections, 4);
	if (flags & HUB_VISION) {
		v = yyjson_obj_get(qwen_hub_get(k->h, "vision_config"),
		    "deepstack_visual_indexes");
		put_u32(k, "n_deepstack_layers", (uint32_t)yyjson_arr_size(v));
	}
	return 0;
}

static int
put_adapter(const struct keys *k)
{
	qwen_gguf_put_str(k->w, "general.type", "adapter");
	qwen_gguf_put_str(k->w, "adapter.type", "lora");
	if (put_name(k) < 0)
		return -1;
	qwen_gguf_put_f32(k->w, "adapter.lora.alpha", k->g->alpha);
	qwen_gguf_put_u32(k->w, "general.quantization_version", 2);
	return 0;
}

int
qwen_hub_put_keys(struct qwen_hub_gguf *g, struct qwen_err *err)
{
	const struct keys k = { g, g->hub, g->w, err };

	qwen_gguf_put_str(g->w, "general.architecture", g->hub->arch->name);
	if (g->hub->adapter != NULL)
		return put_adapter(&k);
	qwen_gguf_put_str(g->w, "general.type", "model");
	if (put_sampling(&k) < 0 || put_name(&k) < 0)
		return -1;
	put_size(&k);
	if (qwen_hub_check(g, err) < 0 || put_model(&k) < 0 ||
	    (g->rank != HUB_NO_RANK ? qwen_hub_put_rank(g, err) :
	    put_pooling(&k)) < 0 || put_special(&k) < 0)
		return -1;
	qwen_gguf_put_u32(g->w, "general.quantization_version", 2);
	return g->opts.no_vocab ? 0 : qwen_hub_put_vocab(g, err);
}
