/* SPDX-License-Identifier: ISC */
/*
 * hparams.c - hyperparameters from metadata.
 *
 * All numbers are checked against limits here, so that no later product overflows
 * and no kernel gets a shape that it does not support.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "gguf/gguf.h"
#include "engine/quant/math.h"
#include "engine/net/net.h"
#include "engine/quant/kv.h"

#define MAX_DIM ((uint64_t)1 << 24)	/* limit of each dimension */

/*
 * Limit of the numbers in a layer's recurrent state, since the file's size does not
 * bound them.  The largest published model has 2^20.
 */
#define MAX_STATE ((size_t)1 << 24)

/* Reads keys of an architecture; after an error rc is -1 and nothing more is read. */
struct keys {
	const struct qwen_gguf	*g;
	struct qwen_err		*err;
	int			 rc;
};

static int
missing(struct keys *k, const char *name)
{
	return k->rc = qwen_fail(k->err, QWEN_EFORMAT, "key %s is missing",
	    qwen_gguf_arch_key(k->g, name).s);
}

#define NEEDED UINT64_MAX	/* as a default: the key must be present */

/* Reads number i of a key, or takes the default if the key is absent. */
static int
get_size(struct keys *k, const char *name, size_t i, uint64_t lo, uint64_t hi,
    uint64_t def, size_t *out)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, name);
	uint64_t v = def;
	int r;

	if (k->rc < 0)
		return -1;
	if ((r = qwen_gguf_get_u64(k->g, key.s, i, &v, k->err)) < 0)
		return k->rc = -1;
	if (r == 0 && def == NEEDED)
		return missing(k, name);
	if (r > 0 && (v < lo || v > hi))
		return k->rc = qwen_fail(k->err, QWEN_ERANGE,
		    "%s is %llu, must be %llu to %llu", key.s,
		    (unsigned long long)v, (unsigned long long)lo,
		    (unsigned long long)hi);
	*out = (size_t)v;
	return 0;
}

static int
need_size(struct keys *k, const char *name, uint64_t lo, uint64_t hi,
    size_t *out)
{
	return get_size(k, name, 0, lo, hi, NEEDED, out);
}

/* The same for a real number; the default NAN means that the key must be present. */
static int
get_real(struct keys *k, const char *name, double def, double *out)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, name);
	int r;

	*out = def;
	if (k->rc < 0)
		return -1;
	if ((r = qwen_gguf_get_f64(k->g, key.s, 0, out, k->err)) < 0)
		return k->rc = -1;
	if (r == 0 && isnan(def))
		return missing(k, name);
	if (!(fabs(*out) <= FLT_MAX))
		return k->rc = qwen_fail(k->err, QWEN_ERANGE,
		    "%s is %g: not finite", key.s, *out);
	return 0;
}

/* Read a boolean key; *v is unchanged if the file lacks the key. */
static int
get_bool(struct keys *k, const char *name, int *v)
{
	if (k->rc == 0 && qwen_gguf_get_bool(k->g, qwen_gguf_arch_key(k->g,
	    name).s, 0, v, k->err) < 0)
		k->rc = -1;
	return k->rc;
}

/* Reads a key that has one value, or one for each block. */
static int
per_block(struct keys *k, const char *name, size_t block, size_t *i)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, name);
	const struct qwen_gguf_kv *kv = qwen_gguf_find(k->g, key.s);

	*i = 0;
	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY)
		return 0;
	if (kv->n <= block)
		return k->rc = qwen_fail(k->err, QWEN_EFORMAT,
		    "%s has %llu entries; block %zu needs one more", key.s,
		    (unsigned long long)kv->n, block);
	*i = block;
	return 0;
}

/*
 * A draft file has only the MTP block, and perhaps the embedding and the head.  Its
 * keys are those of the model that it drafts for.
 */
static int
refuse_draft(struct keys *k, size_t n_block)
{
	static const char *const names[] = { "general.basename",
	    "general.name", "general.architecture" };
	struct qwen_str of = { "", 0 };
	char name[64];
	size_t i;

	snprintf(name, sizeof name, "blk.%zu.nextn.eh_proj.weight",
	    n_block - 1);
	if (qwen_gguf_find_tensor(k->g, "blk.0.attn_norm.weight") != NULL ||
	    qwen_gguf_find_tensor(k->g, name) == NULL)
		return 0;
	for (i = 0; i < 3 &&
	    qwen_gguf_get_str(k->g, names[i], &of, NULL) != 1; i++)
		;
	return k->rc = qwen_fail(k->err, QWEN_EUNSUP, "a draft file for %.*s, "
	    "not a model: it has only the MTP block, the last of %zu blocks",
	    of.len > 64 ? 64 : (int)of.len, of.s,
	    n_block);
}

static int
read_common(struct keys *k, struct qwen_hparams *h, int draft)
{
	static const char eps_key[] = "attention.layer_norm_rms_epsilon";
	const struct qwen_gguf_tensor *embd;
	static const char *const ends[] = { "tokenizer.ggml.eos_token_id",
	    "tokenizer.ggml.eot_token_id" };
	const struct qwen_gguf_kv *tokens;
	size_t nextn, i;
	int32_t id;
	double eps;

	if (need_size(k, "block_count", 1, 4096, &h->n_block) < 0 ||
	    (!draft && refuse_draft(k, h->n_block) < 0))
		return -1;
	get_size(k, "nextn_predict_layers", 0, 0, h->n_block - 1, 0, &nextn);
	need_size(k, "context_length", 1, (uint64_t)1 << 30, &h->n_ctx);
	need_size(k, "embedding_length", 1, MAX_DIM, &h->n_embd);
	if (get_real(k, eps_key, NAN, &eps) < 0)
		return -1;
	h->n_layer = h->n_block - nextn;
	/* of a model with fewer layers, the last vectors are not used */
	if (get_size(k, "n_deepstack_layers", 0, 0, 4096, 0,
	    &h->n_deepstack) < 0)
		return -1;
	if (!(eps >= 0 && eps <= 1))
		return qwen_fail(k->err, QWEN_ERANGE,
		    "%s is %g, must be 0 to 1", qwen_gguf_arch_key(k->g, eps_key).s, eps);
	h->eps = (float)eps;
	embd = qwen_gguf_find_tensor(k->g, "token_embd.weight");
	if (embd == NULL)
		return qwen_fail(k->err, QWEN_EFORMAT,
		    "tensor token_embd.weight is missing");
	if (embd->ne[1] > MAX_DIM)
		return qwen_fail(k->err, QWEN_ERANGE,
		    "token_embd.weight has %llu rows",
		    (unsigned long long)embd->ne[1]);
	h->n_vocab = (size_t)embd->ne[1];
	for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		if (qwen_vocab_id(k->g, ends[i], h->n_vocab, &id, k->err) < 0)
			return -1;
	}
	tokens = qwen_gguf_find(k->g, "tokenizer.ggml.tokens");
	if (tokens != NULL && tokens->n != h->n_vocab)
		return qwen_fail(k->err, QWEN_EFORMAT,
		    "token_embd.weight has %zu rows, but the vocabulary %llu "
		    "tokens", h->n_vocab, (unsigned long long)tokens->n);
	return 0;
}

/* Reads a per-block key, whose values in the attention layers must be equal. */
static int
same_in_attention(struct keys *k, const struct qwen_hparams *h,
    const char *name, uint64_t def, size_t *out)
{
	size_t i, at, v = 0;
	int first = 1;

	for (i = 0; i < h->n_layer; i++) {
		if (h->recurrent != NULL && h->recurrent[i])
			continue;
		if (per_block(k, name, i, &at) < 0 ||
		    get_size(k, name, at, 1, 65536, def, &v) < 0)
			return -1;
		if (!first && v != *out)
			return qwen_fail(k->err, QWEN_EUNSUP,
			    "%s differs between layers: not supported",
			    qwen_gguf_arch_key(k->g, name).s);
		*out = v;
		first = 0;
	}
	if (first)	/* no attention layer */
		*out = def != NEEDED ? (size_t)def : 1;
	return 0;
}

/* Refuses models without a causal mask, such as some embedding models. */
static int
check_causal(struct keys *k)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, "attention.causal");
	int causal = 1;

	if (qwen_gguf_get_bool(k->g, key.s, 0, &causal, k->err) < 0)
		return -1;
	return causal ? 0 : qwen_fail(k->err, QWEN_EUNSUP, "%s is false: "
	    "attention to later tokens is not supported", key.s);
}

static int
read_attention(struct keys *k, struct qwen_hparams *h)
{
	size_t value_length;
	double scale;

	if (check_causal(k) < 0 || same_in_attention(k, h, "attention.head_count", NEEDED,
	    &h->n_head) < 0 ||
	    same_in_attention(k, h, "attention.head_count_kv", h->n_head,
	    &h->n_head_kv) < 0)
		return -1;
	if (h->n_head % h->n_head_kv != 0)
		return qwen_fail(k->err, QWEN_EFORMAT,
		    "%zu heads cannot share %zu key-value heads evenly",
		    h->n_head, h->n_head_kv);
	if (get_size(k, "attention.key_length", 0, 1, QWEN_HEAD_MAX,
	    h->n_embd / h->n_head, &h->n_embd_head) < 0 ||
	    get_size(k, "attention.value_length", 0, 1, QWEN_HEAD_MAX,
	    h->n_embd_head, &value_length) < 0)
		return -1;
	/* a size without a key was not checked yet */
	if (value_length != h->n_embd_head || h->n_embd_head == 0 ||
	    h->n_embd_head % 16 != 0 || h->n_embd_head > QWEN_HEAD_MAX)
		return qwen_fail(k->err, QWEN_EUNSUP, "head sizes %zu and "
		    "%zu: must be equal and a multiple of 16 up to %d",
		    h->n_embd_head, value_length, QWEN_HEAD_MAX);
	if ((qwen_kv_width(h->k) == 0 || qwen_kv_width(h->v) == 0) &&
	    h->n_embd_head % QWEN_KV_GROUP != 0)
		return qwen_fail(k->err, QWEN_EUNSUP, "head size %zu is not a "
		    "multiple of %d: only f32 and f16 are possible as KV cache "
		    "types", h->n_embd_head, QWEN_KV_GROUP);
	if (get_real(k, "attention.scale", 0, &scale) < 0)
		return -1;
	if (scale == 0)
		scale = 1.0 / sqrt((double)h->n_embd_head);
	h->attn_scale = (float)scale;
	return 0;
}

/* Reads the sections, which cover all pairs, so that text has ordinary RoPE. */
static int
read_sections(struct keys *k, struct qwen_hparams *h)
{
	static const char key[] = "rope.dimension_sections";
	size_t i, sum = 0;

	for (i = 0; i < 3; i++, sum += h->rope_section[i - 1]) {
		if (get_size(k, key, i, 0, 4096, NEEDED,
		    &h->rope_section[i]) < 0)
			return -1;
	}
	if (sum != h->n_rot / 2)
		return qwen_fail(k->err, QWEN_EUNSUP,
		    "%s covers %zu of %zu pairs of dimensions", qwen_gguf_arch_key(k->g,
		    key).s, sum, h->n_rot / 2);
	return 0;
}

struct scaling {
	enum qwen_rope_kind	kind;
	double			factor, n_orig;
	double			fast, slow;	/* YaRN: turns over n_orig from
						   which, to which */
	double			attn;		/* and what its factor of cos
						   and sin is multiplied by */
};

/* YaRN (Peng et al. 2023, section 3.4): mix interpolated and plain angles. */
static void
yarn(struct qwen_hparams *h, double base, const struct scaling *s)
{
	double ln_base = qwen_log(base), n = (double)h->n_rot;
	double low, high, t;
	size_t j;

	low = floor(n * qwen_log(s->n_orig / (s->fast * 2.0 *
	    0x1.921fb54442d18p+1)) / (2.0 * ln_base));
	high = ceil(n * qwen_log(s->n_orig / (s->slow * 2.0 *
	    0x1.921fb54442d18p+1)) / (2.0 * ln_base));
	low = low > 0 ? low : 0;
	high = high < n - 1 ? high : n - 1;
	for (j = 0; j < h->n_rot / 2; j++) {
		t = high - low > 0.001 ? high - low : 0.001;
		t = ((double)j - low) / t;
		t = t < 0 ? 0 : t > 1 ? 1 : t;
		h->rope_freq[j] *= (1.0 - t) + t / s->factor;
	}
	h->rope_mscale = s->attn * (1.0 + 0.1 * qwen_log(s->factor));
}

/* Reads the file's YaRN ramp and its factor of cos and sin. */
static int
read_ramp(struct keys *k, struct scaling *s)
{
	static const char ext[] = "rope.scaling.yarn_ext_factor";
	static const char attn[] = "rope.scaling.yarn_attn_factor";
	double v;

	if (get_real(k, "rope.scaling.yarn_beta_fast", 32, &s->fast) < 0 ||
	    get_real(k, "rope.scaling.yarn_beta_slow", 1, &s->slow) < 0)
		return -1;
	if (!(s->slow > 0 && s->fast > s->slow && s->fast <= 1e6))
		return qwen_fail(k->err, QWEN_ERANGE, "YaRN's ramp from %g to "
		    "%g turns is invalid", s->fast, s->slow);
	if (get_real(k, ext, 1, &v) < 0 || get_real(k, attn, 1, &s->attn) < 0)
		return -1;
	if (v != 1)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s is %g; only 1 is "
		    "supported", qwen_gguf_arch_key(k->g, ext).s, v);
	if (!(s->attn >= 0.01 && s->attn <= 100))
		return qwen_fail(k->err, QWEN_ERANGE, "%s is %g: must be 0.01 "
		    "to 100", qwen_gguf_arch_key(k->g, attn).s, s->attn);
	return 0;
}

static int
read_scaling(struct keys *k, const struct qwen_hparams *h, struct scaling *s)
{
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, "rope.scaling.type");
	struct qwen_str type = { NULL, 0 };
	double old;	/* a key of older files without a type */

	if (get_real(k, "rope.scale_linear", 1, &old) < 0 ||
	    qwen_gguf_get_str(k->g, key.s, &type, k->err) < 0 ||
	    get_real(k, "rope.scaling.factor", old, &s->factor) < 0 ||
	    get_real(k, "rope.scaling.original_context_length",
	    (double)h->n_ctx, &s->n_orig) < 0)
		return -1;
	if (type.s == NULL)
		type = s->factor == 1 ? (struct qwen_str){ "none", 4 } :
		    (struct qwen_str){ "linear", 6 };
	s->kind = qwen_str_is(type, "none") ? QWEN_ROPE_NONE :
	    qwen_str_is(type, "linear") ? QWEN_ROPE_LINEAR :
	    qwen_str_is(type, "yarn") ? QWEN_ROPE_YARN : QWEN_ROPE_FILE;
	s->fast = 32;
	s->slow = s->attn = 1;
	if (s->kind == QWEN_ROPE_YARN && (h->rope.kind == QWEN_ROPE_FILE ||
	    h->rope.kind == QWEN_ROPE_YARN) && read_ramp(k, s) < 0)
		return -1;
	if (s->kind == QWEN_ROPE_FILE && h->rope.kind == QWEN_ROPE_FILE)
		return qwen_fail(k->err, QWEN_EUNSUP,
		    "%s \"%.*s\" is not supported", key.s,
		    type.len > 40 ? 40 : (int)type.len, type.s);
	return 0;
}

/*
 * Replaces the file's scaling by the one that was requested.  The factor is rounded
 * to f32, as in a file.
 */
static int
override(struct keys *k, struct qwen_hparams *h, struct scaling *s)
{
	struct scaling own = *s;
	double n;

	/* with factor 1, both kinds leave positions unchanged */
	s->kind = h->rope.factor == 1000 && h->rope.n_orig == 0 ?
	    QWEN_ROPE_NONE : h->rope.kind;
	h->rope.kind = s->kind;
	s->fast = 32;
	s->slow = s->attn = 1;
	s->factor = s->kind == QWEN_ROPE_NONE ? 1 :
	    (double)(float)(h->rope.factor / 1000.0);
	if (h->rope.n_orig > 0)
		s->n_orig = h->rope.n_orig;
	n = floor(s->n_orig * s->factor);
	if (!(s->n_orig >= 1 && n <= QWEN_ROPE_N_MAX))
		return qwen_fail(k->err, QWEN_ERANGE, "RoPE scaled %g times "
		    "from %g positions: at most %d positions are supported",
		    s->factor, s->n_orig, QWEN_ROPE_N_MAX);
	if (s->kind == own.kind && (s->kind == QWEN_ROPE_NONE ||
	    (s->factor == own.factor && s->n_orig == own.n_orig &&
	    s->fast == own.fast && s->slow == own.slow &&
	    s->attn == own.attn))) {
		h->rope.kind = QWEN_ROPE_FILE;
		return 0;
	}
	h->rope.n_orig = s->kind == QWEN_ROPE_NONE ? 0 : (uint32_t)s->n_orig;
	h->n_ctx = (size_t)n;
	return 0;
}

static int
scale_rope(struct keys *k, struct qwen_hparams *h, double base)
{
	struct scaling s;
	size_t j;

	if (read_scaling(k, h, &s) < 0)
		return -1;
	h->rope_file.kind = s.kind;
	if (s.factor >= 1 && s.factor <= QWEN_ROPE_FACTOR_MAX)
		h->rope_file.factor = (uint32_t)(1000 * s.factor + 0.5);
	if (s.n_orig >= 1 && s.n_orig <= UINT32_MAX)
		h->rope_file.n_orig = (uint32_t)s.n_orig;
	if (h->rope.kind != QWEN_ROPE_FILE && override(k, h, &s) < 0)
		return -1;
	if (s.kind == QWEN_ROPE_NONE)
		return 0;
	if (!(s.factor >= 1 && s.factor <= 1e6) ||
	    !(s.n_orig >= 1 && s.n_orig <= 1e9))
		return qwen_fail(k->err, QWEN_ERANGE, "RoPE scaling factor %g "
		    "over %g positions", s.factor, s.n_orig);
	if (s.kind == QWEN_ROPE_YARN)
		yarn(h, base, &s);
	for (j = 0; s.kind == QWEN_ROPE_LINEAR && j < h->n_rot / 2; j++)
		h->rope_freq[j] /= s.factor;
	return 0;
}

static int
read_rope(struct keys *k, struct qwen_hparams *h, int sections)
{
	double base;
	size_t j;

	if (get_size(k, "rope.dimension_count", 0, 2, h->n_embd_head,
	    h->n_embd_head, &h->n_rot) < 0 ||
	    get_real(k, "rope.freq_base", 10000, &base) < 0)
		return -1;
	if (h->n_rot % 2 != 0 || !(base > 1 && base < 1e15))
		return qwen_fail(k->err, QWEN_ERANGE, "RoPE over %zu "
		    "dimensions with base %g: must be even, and 1 to 1e15",
		    h->n_rot, base);
	if (sections && read_sections(k, h) < 0)
		return -1;
	h->rope_freq = qwen_alloc(h->n_rot / 2, sizeof *h->rope_freq);
	if (h->rope_freq == NULL)
		return qwen_oom(k->err);
	for (j = 0; j < h->n_rot / 2; j++)
		h->rope_freq[j] = qwen_exp(-2.0 * (double)j /
		    (double)h->n_rot * qwen_log(base));
	h->rope_mscale = 1.0;
	return scale_rope(k, h, base);
}

static int
read_moe(struct keys *k, struct qwen_hparams *h, const struct qwen_arch *a)
{
	int norm = !a->share_of_all;
	size_t n_ff, gate;
	double scale;

	need_size(k, "expert_count", 1, 65536, &h->n_expert);
	need_size(k, "expert_used_count", 1, h->n_expert, &h->n_expert_used);
	/* 0: no key; 1: softmax */
	if (get_size(k, "expert_gating_func", 0, 0, UINT32_MAX, 1, &gate) < 0)
		return -1;
	if (gate > 1)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s is %zu; only 1 "
		    "(softmax) is supported",
		    qwen_gguf_arch_key(k->g, "expert_gating_func").s, gate);
	/* Ollama's key */
	if (get_bool(k, "norm_top_k_prob", &norm) < 0)
		return -1;
	if (norm == a->share_of_all)
		return qwen_fail(k->err, QWEN_EUNSUP, "%s is %s: not "
		    "supported for %s", qwen_gguf_arch_key(k->g, "norm_top_k_prob").s,
		    norm ? "true" : "false", a->name);
	if (get_size(k, "feed_forward_length", 0, 0, MAX_DIM, 0, &n_ff) < 0)
		return -1;
	get_size(k, "expert_feed_forward_length", 0, 1, MAX_DIM,
	    n_ff / h->n_expert_used, &h->n_ff_exp);
	get_size(k, "expert_shared_feed_forward_length", 0, 1, MAX_DIM, n_ff,
	    &h->n_ff_shexp);
	if (get_real(k, "expert_weights_scale", 0, &scale) < 0)
		return -1;
	if (h->n_ff_exp == 0)
		return missing(k, "expert_feed_forward_length");
	if (!a->shared)
		h->n_ff_shexp = 0;
	else if (h->n_ff_shexp == 0)
		return missing(k, "expert_shared_feed_forward_length");
	h->expert_scale = scale == 0 ? 1.0f : (float)scale;
	return 0;
}

/* Returns whether head_count_kv is 0 for layers without attention. */
static int
marks_recurrent(const struct keys *k, const struct qwen_hparams *h)
{
	const char *key = "attention.head_count_kv";
	struct qwen_gguf_key full = qwen_gguf_arch_key(k->g, key);
	const struct qwen_gguf_kv *kv = qwen_gguf_find(k->g, full.s);
	uint64_t v;
	size_t i;

	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY)
		return 0;
	for (i = 0; i < h->n_layer; i++) {
		if (qwen_gguf_get_u64(k->g, full.s, i, &v, NULL) > 0 && v == 0)
			return 1;
	}
	return 0;
}

/*
 * Sets which trunk layers are DeltaNet: by attention.recurrent_layers, else
 * full_attention_interval, else zeros in attention.head_count_kv, else all except
 * every fourth layer.
 */
static int
plan_recurrent(struct keys *k, struct qwen_hparams *h)
{
	static const char name[] = "attention.recurrent_layers";
	static const char heads[] = "attention.head_count_kv";
	struct qwen_gguf_key key = qwen_gguf_arch_key(k->g, name);
	int zeros = marks_recurrent(k, h);
	size_t interval, i, at, n_kv = 0;
	int v;

	if (get_size(k, "full_attention_interval", 0, 1, 4096, zeros ? 0 : 4,
	    &interval) < 0)
		return -1;
	h->recurrent = qwen_alloc(h->n_layer, 1);
	if (h->recurrent == NULL)
		return qwen_oom(k->err);
	for (i = 0; i < h->n_layer; i++) {
		if (interval == 0 && (per_block(k, heads, i, &at) < 0 ||
		    get_size(k, heads, at, 0, 65536, NEEDED, &n_kv) < 0))
			return -1;
		v = interval == 0 ? n_kv == 0 : (i + 1) % interval != 0;
		if (per_block(k, name, i, &at) < 0 ||
		    qwen_gguf_get_bool(k->g, key.s, at, &v, k->err) < 0)
			return -1;
		h->recurrent[i] = v != 0;
	}
	return 0;
}

/*
 * Sets the order of value heads: converters tile those of Qwen3.5 over the key heads
 * and keep those of Qwen3-Next in groups.  Ollama's files have the key
 * v_head_reordered.
 */
static int
read_deltanet(struct keys *k, struct qwen_hparams *h, int grouped)
{
	int tiled = !grouped;
	size_t inner;

	need_size(k, "ssm.conv_kernel", 1, QWEN_TAPS_MAX, &h->conv_kernel);
	need_size(k, "ssm.state_size", 16, 256, &h->dk);
	need_size(k, "ssm.group_count", 1, 4096, &h->n_head_k);
	need_size(k, "ssm.time_step_rank", 1, 4096, &h->n_head_v);
	if (need_size(k, "ssm.inner_size", 16, MAX_DIM, &inner) < 0)
		return -1;
	if (inner % h->n_head_v != 0 || h->n_head_v % h->n_head_k != 0)
		return qwen_fail(k->err, QWEN_EFORMAT, "DeltaNet: %zu value "
		    "and %zu key heads do not fit an inner size of %zu",
		    h->n_head_v, h->n_head_k, inner);
	h->dv = inner / h->n_head_v;
	if (h->dv % 16 != 0 || h->dv > 256)
		return qwen_fail(k->err, QWEN_EUNSUP, "DeltaNet head size "
		    "%zu: must be a multiple of 16 up to 256", h->dv);
	if (h->n_head_v * h->dk > MAX_STATE / h->dv)
		return qwen_fail(k->err, QWEN_EUNSUP, "DeltaNet: a state of "
		    "%zux%zux%zu numbers per layer; at most %zu are supported",
		    h->n_head_v, h->dk, h->dv, (size_t)MAX_STATE);
	if (get_bool(k, "ssm.v_head_reordered", &tiled) < 0)
		return -1;
	h->grouped = !tiled;
	return plan_recurrent(k, h);
}

int
qwen_hparams_read(struct qwen_hparams *h, const struct qwen_arch *a,
    const struct qwen_gguf *g, int draft, struct qwen_err *err)
{
	struct keys k = { g, err, 0 };

	if (read_common(&k, h, draft) < 0 ||
	    (a->hybrid && read_deltanet(&k, h, a->grouped) < 0) ||
	    read_attention(&k, h) < 0 || read_rope(&k, h, a->sections) < 0)
		return -1;
	return a->moe ? read_moe(&k, h, a) :
	    need_size(&k, "feed_forward_length", 1, MAX_DIM, &h->n_ff);
}

void
qwen_hparams_free(struct qwen_hparams *h)
{
	free(h->rope_freq);
	free(h->recurrent);
	h->rope_freq = NULL;
	h->recurrent = NULL;
}
