/* SPDX-License-Identifier: ISC */
/*
 * hparams.c - hyperparameters from metadata.
 *
 * Every number is bounded here, so that no later product overflows and no
 * kernel meets a shape that it does not do.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/kernel/math.h"
#include "engine/model/model.h"

#define MAX_DIM ((uint64_t)1 << 24)	/* of any one dimension */

/*
 * Of the recurrent state of a layer, which the file's size does not bound; the
 * largest published model has 2^20.
 */
#define MAX_STATE ((size_t)1 << 24)

struct key { char s[128]; };

/* "<architecture>.<name>" */
static struct key
arch_key(const struct qwen_gguf *g, const char *name)
{
	struct key k;
	struct qwen_str a = { "", 0 };

	qwen_gguf_get_str(g, "general.architecture", &a, NULL);
	snprintf(k.s, sizeof k.s, "%.*s.%s", a.len > 60 ? 60 : (int)a.len,
	    a.s, name);
	return k;
}

/* 1 read, 0 absent (then *out = def), -1 error. */
static int
get_size(const struct qwen_gguf *g, const char *name, size_t i, uint64_t lo,
    uint64_t hi, uint64_t def, size_t *out, struct qwen_err *err)
{
	struct key k = arch_key(g, name);
	uint64_t v = def;
	int r = qwen_gguf_get_u64(g, k.s, i, &v, err);

	if (r < 0)
		return -1;
	if (r > 0 && (v < lo || v > hi))
		return qwen_fail(err, QWEN_ERANGE,
		    "%s is %llu, must be %llu to %llu", k.s,
		    (unsigned long long)v, (unsigned long long)lo,
		    (unsigned long long)hi);
	*out = (size_t)v;
	return r;
}

static int
need_size(const struct qwen_gguf *g, const char *name, uint64_t lo,
    uint64_t hi, size_t *out, struct qwen_err *err)
{
	int r = get_size(g, name, 0, lo, hi, 0, out, err);

	if (r == 0)
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing",
		    arch_key(g, name).s);
	return r < 0 ? -1 : 0;
}

static int
get_real(const struct qwen_gguf *g, const char *name, double def, double *out,
    struct qwen_err *err)
{
	struct key k = arch_key(g, name);
	int r;

	*out = def;
	r = qwen_gguf_get_f64(g, k.s, 0, out, err);
	if (r > 0 && !(fabs(*out) <= FLT_MAX))
		return qwen_fail(err, QWEN_ERANGE, "%s is %g: not finite", k.s,
		    *out);
	return r;
}

/* A key that may hold one value, or one for each block. */
static int
per_block(const struct qwen_gguf *g, const char *name, size_t block, size_t *i,
    struct qwen_err *err)
{
	struct key k = arch_key(g, name);
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, k.s);

	*i = 0;
	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY)
		return 0;
	if (kv->n <= block)
		return qwen_fail(err, QWEN_EFORMAT,
		    "%s has %llu entries, block %zu needs one more", k.s,
		    (unsigned long long)kv->n, block);
	*i = block;
	return 0;
}

int
qwen_hparams_common(struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	const struct qwen_gguf_tensor *embd;
	const struct qwen_gguf_kv *tokens;
	size_t nextn;
	double eps;

	if (need_size(g, "block_count", 1, 4096, &h->n_block, err) < 0 ||
	    get_size(g, "nextn_predict_layers", 0, 0, h->n_block - 1, 0,
	    &nextn, err) < 0 ||
	    need_size(g, "context_length", 1, (uint64_t)1 << 30, &h->n_ctx,
	    err) < 0 ||
	    need_size(g, "embedding_length", 1, MAX_DIM, &h->n_embd, err) < 0)
		return -1;
	h->n_layer = h->n_block - nextn;
	switch (get_real(g, "attention.layer_norm_rms_epsilon", 0, &eps, err)) {
	case 1:
		break;
	case 0:
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing",
		    arch_key(g, "attention.layer_norm_rms_epsilon").s);
	default:
		return -1;
	}
	if (!(eps >= 0 && eps <= 1))
		return qwen_fail(err, QWEN_ERANGE, "%s is %g, must be 0 to 1",
		    arch_key(g, "attention.layer_norm_rms_epsilon").s, eps);
	h->eps = (float)eps;
	embd = qwen_gguf_find_tensor(g, "token_embd.weight");
	if (embd == NULL)
		return qwen_fail(err, QWEN_EFORMAT,
		    "tensor token_embd.weight is missing");
	if (embd->ne[1] > MAX_DIM)
		return qwen_fail(err, QWEN_ERANGE,
		    "token_embd.weight has %llu rows",
		    (unsigned long long)embd->ne[1]);
	h->n_vocab = (size_t)embd->ne[1];
	tokens = qwen_gguf_find(g, "tokenizer.ggml.tokens");
	if (tokens != NULL && tokens->n != h->n_vocab)
		return qwen_fail(err, QWEN_EFORMAT,
		    "token_embd.weight has %zu rows for %llu tokens",
		    h->n_vocab, (unsigned long long)tokens->n);
	return 0;
}

/* The value of a per-block key in attention layers, which must agree. */
static int
same_in_attention(const struct qwen_hparams *h, const struct qwen_gguf *g,
    const char *name, uint64_t def, size_t *out, struct qwen_err *err)
{
	size_t i, at, v = 0;
	int first = 1;

	for (i = 0; i < h->n_layer; i++) {
		if (h->recurrent != NULL && h->recurrent[i])
			continue;
		if (per_block(g, name, i, &at, err) < 0 ||
		    get_size(g, name, at, 1, 65536, def, &v, err) < 0)
			return -1;
		if (!first && v != *out)
			return qwen_fail(err, QWEN_EUNSUP,
			    "%s differs between layers: not supported",
			    arch_key(g, name).s);
		*out = v;
		first = 0;
	}
	if (first)	/* no attention layer at all */
		*out = (size_t)(def != 0 ? def : 1);
	if (*out == 0)
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing",
		    arch_key(g, name).s);
	return 0;
}

int
qwen_hparams_attention(struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	size_t value_length;
	double scale;

	if (same_in_attention(h, g, "attention.head_count", 0, &h->n_head,
	    err) < 0 ||
	    same_in_attention(h, g, "attention.head_count_kv", h->n_head,
	    &h->n_head_kv, err) < 0)
		return -1;
	if (h->n_head % h->n_head_kv != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "%zu heads do not share %zu key-value heads evenly",
		    h->n_head, h->n_head_kv);
	if (get_size(g, "attention.key_length", 0, 1, QWEN_HEAD_MAX,
	    h->n_embd / h->n_head, &h->n_embd_head, err) < 0 ||
	    get_size(g, "attention.value_length", 0, 1, QWEN_HEAD_MAX,
	    h->n_embd_head, &value_length, err) < 0)
		return -1;
	/* a size that no key gives has not been bounded yet */
	if (value_length != h->n_embd_head || h->n_embd_head == 0 ||
	    h->n_embd_head % 16 != 0 || h->n_embd_head > QWEN_HEAD_MAX)
		return qwen_fail(err, QWEN_EUNSUP, "head sizes %zu and %zu: "
		    "must be equal and a multiple of 16 up to %d",
		    h->n_embd_head, value_length, QWEN_HEAD_MAX);
	if (get_real(g, "attention.scale", 0, &scale, err) < 0)
		return -1;
	if (scale == 0)
		scale = 1.0 / sqrt((double)h->n_embd_head);
	h->attn_scale = (float)scale;
	return 0;
}

/* Sections must cover all pairs: then text is ordinary RoPE. */
static int
check_sections(const struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	size_t i, s = 0, sum = 0;

	for (i = 0; i < 3; i++) {
		switch (get_size(g, "rope.dimension_sections", i, 0, 4096, 0,
		    &s, err)) {
		case 1:
			sum += s;
			break;
		case 0:
			return qwen_fail(err, QWEN_EFORMAT,
			    "key %s is missing",
			    arch_key(g, "rope.dimension_sections").s);
		default:
			return -1;
		}
	}
	if (sum != h->n_rot / 2)
		return qwen_fail(err, QWEN_EUNSUP,
		    "%s covers %zu of %zu pairs",
		    arch_key(g, "rope.dimension_sections").s, sum,
		    h->n_rot / 2);
	return 0;
}

/* YaRN (Peng et al. 2023, section 3.4): mix interpolated and plain angles. */
static void
yarn(struct qwen_hparams *h, double base, double factor, double n_orig)
{
	double ln_base = qwen_log(base), n = (double)h->n_rot;
	double low, high, t;
	size_t j;

	low = floor(n * qwen_log(n_orig / (32.0 * 2.0 * 0x1.921fb54442d18p+1)) /
	    (2.0 * ln_base));
	high = ceil(n * qwen_log(n_orig / (2.0 * 0x1.921fb54442d18p+1)) /
	    (2.0 * ln_base));
	low = low > 0 ? low : 0;
	high = high < n - 1 ? high : n - 1;
	for (j = 0; j < h->n_rot / 2; j++) {
		t = high - low > 0.001 ? high - low : 0.001;
		t = ((double)j - low) / t;
		t = t < 0 ? 0 : t > 1 ? 1 : t;
		h->rope_freq[j] *= (1.0 - t) + t / factor;
	}
	h->rope_mscale = 1.0 + 0.1 * qwen_log(factor);
}

static int
rope_scaling(struct qwen_hparams *h, const struct qwen_gguf *g, double base,
    struct qwen_err *err)
{
	struct key k = arch_key(g, "rope.scaling.type");
	struct qwen_str type = { "none", 4 };
	double factor, n_orig;
	size_t j;

	if (qwen_gguf_get_str(g, k.s, &type, err) < 0 ||
	    get_real(g, "rope.scaling.factor", 1, &factor, err) < 0 ||
	    get_real(g, "rope.scaling.original_context_length",
	    (double)h->n_ctx, &n_orig, err) < 0)
		return -1;
	if (type.len == 4 && memcmp(type.s, "none", 4) == 0)
		return 0;
	if (!(factor >= 1 && factor <= 1e6) || !(n_orig >= 1 && n_orig <= 1e9))
		return qwen_fail(err, QWEN_ERANGE,
		    "RoPE scaling factor %g over %g positions", factor, n_orig);
	if (type.len == 6 && memcmp(type.s, "linear", 6) == 0) {
		for (j = 0; j < h->n_rot / 2; j++)
			h->rope_freq[j] /= factor;
		return 0;
	}
	if (type.len == 4 && memcmp(type.s, "yarn", 4) == 0) {
		yarn(h, base, factor, n_orig);
		return 0;
	}
	return qwen_fail(err, QWEN_EUNSUP, "%s \"%.*s\" is not supported", k.s,
	    type.len > 40 ? 40 : (int)type.len, type.s);
}

int
qwen_hparams_rope(struct qwen_hparams *h, const struct qwen_gguf *g,
    int sections, struct qwen_err *err)
{
	double base;
	size_t j;

	if (get_size(g, "rope.dimension_count", 0, 2, h->n_embd_head,
	    h->n_embd_head, &h->n_rot, err) < 0 ||
	    get_real(g, "rope.freq_base", 10000, &base, err) < 0)
		return -1;
	if (h->n_rot % 2 != 0 || !(base > 1 && base < 1e15))
		return qwen_fail(err, QWEN_ERANGE, "RoPE over %zu dimensions "
		    "with base %g: must be even, and 1 to 1e15", h->n_rot,
		    base);
	if (sections && check_sections(h, g, err) < 0)
		return -1;
	h->rope_freq = qwen_alloc(h->n_rot / 2, sizeof *h->rope_freq);
	if (h->rope_freq == NULL)
		return qwen_oom(err);
	for (j = 0; j < h->n_rot / 2; j++)
		h->rope_freq[j] = qwen_exp(-2.0 * (double)j /
		    (double)h->n_rot * qwen_log(base));
	h->rope_mscale = 1.0;
	return rope_scaling(h, g, base, err);
}

int
qwen_hparams_dense(struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	return need_size(g, "feed_forward_length", 1, MAX_DIM, &h->n_ff, err);
}

int
qwen_hparams_moe(struct qwen_hparams *h, const struct qwen_gguf *g, int shared,
    struct qwen_err *err)
{
	size_t n_ff;
	double scale;

	if (need_size(g, "expert_count", 1, 65536, &h->n_expert, err) < 0 ||
	    need_size(g, "expert_used_count", 1, h->n_expert,
	    &h->n_expert_used, err) < 0 ||
	    get_size(g, "feed_forward_length", 0, 0, MAX_DIM, 0, &n_ff,
	    err) < 0 ||
	    get_size(g, "expert_feed_forward_length", 0, 1, MAX_DIM,
	    n_ff / h->n_expert_used, &h->n_ff_exp, err) < 0 ||
	    get_size(g, "expert_shared_feed_forward_length", 0, 1, MAX_DIM,
	    n_ff, &h->n_ff_shexp, err) < 0 ||
	    get_real(g, "expert_weights_scale", 0, &scale, err) < 0)
		return -1;
	if (h->n_ff_exp == 0 || (shared && h->n_ff_shexp == 0))
		return qwen_fail(err, QWEN_EFORMAT, "key %s is missing",
		    arch_key(g, h->n_ff_exp == 0 ?
		    "expert_feed_forward_length" :
		    "expert_shared_feed_forward_length").s);
	if (!shared)
		h->n_ff_shexp = 0;
	h->expert_scale = scale == 0 ? 1.0f : (float)scale;
	return 0;
}

/* Which trunk layers are DeltaNet: the array if there is one, else by rule. */
static int
plan_recurrent(struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	struct key k = arch_key(g, "attention.recurrent_layers");
	size_t interval, i;

	if (get_size(g, "full_attention_interval", 0, 1, 4096, 4, &interval,
	    err) < 0)
		return -1;
	h->recurrent = qwen_alloc(h->n_layer, 1);
	if (h->recurrent == NULL)
		return qwen_oom(err);
	for (i = 0; i < h->n_layer; i++) {
		int r, v = (i + 1) % interval != 0;
		size_t at;

		if (per_block(g, "attention.recurrent_layers", i, &at,
		    err) < 0)
			return -1;
		r = qwen_gguf_get_bool(g, k.s, at, &v, err);
		if (r < 0)
			return -1;
		h->recurrent[i] = v != 0;
	}
	return 0;
}

int
qwen_hparams_deltanet(struct qwen_hparams *h, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	size_t inner;

	if (need_size(g, "ssm.conv_kernel", 1, 16, &h->conv_kernel, err) < 0 ||
	    need_size(g, "ssm.state_size", 16, 256, &h->dk, err) < 0 ||
	    need_size(g, "ssm.group_count", 1, 4096, &h->n_head_k, err) < 0 ||
	    need_size(g, "ssm.time_step_rank", 1, 4096, &h->n_head_v,
	    err) < 0 ||
	    need_size(g, "ssm.inner_size", 16, MAX_DIM, &inner, err) < 0)
		return -1;
	if (inner % h->n_head_v != 0 || h->n_head_v % h->n_head_k != 0)
		return qwen_fail(err, QWEN_EFORMAT, "DeltaNet: %zu value and "
		    "%zu key heads do not fit an inner size of %zu",
		    h->n_head_v, h->n_head_k, inner);
	h->dv = inner / h->n_head_v;
	if (h->dv % 16 != 0 || h->dv > 256)
		return qwen_fail(err, QWEN_EUNSUP, "DeltaNet head size %zu: "
		    "must be a multiple of 16 up to 256", h->dv);
	if (h->n_head_v * h->dk > MAX_STATE / h->dv)
		return qwen_fail(err, QWEN_EUNSUP, "DeltaNet: a state of "
		    "%zux%zux%zu numbers a layer, %zu are allowed",
		    h->n_head_v, h->dk, h->dv, (size_t)MAX_STATE);
	return plan_recurrent(h, g, err);
}

void
qwen_hparams_free(struct qwen_hparams *h)
{
	free(h->rope_freq);
	free(h->recurrent);
	h->rope_freq = NULL;
	h->recurrent = NULL;
}
