/* SPDX-License-Identifier: ISC */
/* keys.c - the metadata of synthetic models. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/text.h"
#include "gguf/vocab.h"
#include "gguf/write.h"
#include "synth/shape.h"

/* ---------------------------------------------------------------- shape */

static void
put_general(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s)
{
	char name[96];

	snprintf(name, sizeof name, "%s, random weights", s->title);
	qwen_gguf_put_str(w, "general.architecture", s->info.arch);
	qwen_gguf_put_str(w, "general.type", "model");
	qwen_gguf_put_str(w, "general.name", name);
	qwen_gguf_put_str(w, "general.basename", s->title);
	qwen_gguf_put_str(w, "general.size_label", s->size);
	qwen_gguf_put_str(w, "general.quantized_by", "gguf-synth");
	qwen_gguf_put_u32(w, "general.quantization_version", 2);
	qwen_gguf_put_u32(w, "general.file_type", qwen_recipe_file_type(s->recipe));
}

static void
put_deltanet(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s)
{
	/*
	 * sections in the proportions of published models: 11, 11 and 10 of 32
	 * pairs
	 */
	int32_t pairs = (int32_t)s->rope_dim / 2, third = (pairs + 1) / 3;
	const int32_t sections[4] = { third, third, pairs - 2 * third, 0 };

	if (s->arch->sections)
		qwen_gguf_put_i32s(w, ".rope.dimension_sections",
		    sections, 4);
	qwen_gguf_put_u32(w, ".rope.dimension_count", s->rope_dim);
	qwen_gguf_put_u32(w, ".ssm.conv_kernel", s->conv);
	qwen_gguf_put_u32(w, ".ssm.state_size", s->state);
	qwen_gguf_put_u32(w, ".ssm.group_count", s->groups);
	qwen_gguf_put_u32(w, ".ssm.time_step_rank", s->rank);
	qwen_gguf_put_u32(w, ".ssm.inner_size", s->rank * s->state);
	qwen_gguf_put_u32(w, ".full_attention_interval", s->interval);
}

static void
put_hparams(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s)
{
	static const int32_t sections[4] = { 24, 20, 20, 0 };

	qwen_gguf_put_u32(w, ".block_count", s->info.n_layer + s->info.n_mtp);
	qwen_gguf_put_u32(w, ".context_length", s->context);
	qwen_gguf_put_u32(w, ".embedding_length", s->embd);
	if (s->ff)
		qwen_gguf_put_u32(w, ".feed_forward_length", s->ff);
	qwen_gguf_put_u32(w, ".attention.head_count", s->heads);
	qwen_gguf_put_u32(w, ".attention.head_count_kv", s->kv_heads);
	if (!s->arch->no_qk_norm) {
		qwen_gguf_put_u32(w, ".attention.key_length", s->head_dim);
		qwen_gguf_put_u32(w, ".attention.value_length", s->head_dim);
	}
	qwen_gguf_put_f32(w, ".attention.layer_norm_rms_epsilon",
	    1e-6f);
	qwen_gguf_put_f32(w, ".rope.freq_base", s->rope_base);
	if (s->info.n_expert) {
		qwen_gguf_put_u32(w, ".expert_count", s->info.n_expert);
		qwen_gguf_put_u32(w, ".expert_used_count", s->used);
		qwen_gguf_put_u32(w, ".expert_feed_forward_length", s->ff_exp);
	}
	if (s->ff_shexp)
		qwen_gguf_put_u32(w, ".expert_shared_feed_forward_length", s->ff_shexp);
	if (s->interval)
		put_deltanet(w, s);
	if (s->arch->vision) {
		qwen_gguf_put_i32s(w, ".rope.dimension_sections", sections, 4);
		qwen_gguf_put_u32(w, ".n_deepstack_layers", s->n_deepstack);
	}
	if (s->info.n_mtp)
		qwen_gguf_put_u32(w, ".nextn_predict_layers", s->info.n_mtp);
}

static void
put_pooling(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s)
{
	static const struct qwen_str labels[2] = { { "yes", 3 }, { "no", 2 } };

	qwen_gguf_put_u32(w, ".pooling_type", s->pooling);
	if (s->pooling == POOL_RANK)
		qwen_gguf_put_strs(w, ".classifier.output_labels",
		    labels, 2);
}

void
qwen_synth_put_keys(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s)
{
	put_general(w, s);
	put_hparams(w, s);
	if (s->pooling != POOL_NONE)
		put_pooling(w, s);
}

/* ------------------------------------------------------------- vocabulary */

/* The vocabulary of a file, padded to the size of the shape. */
struct vocab {
	struct qwen_str	*token;
	int32_t		*type;
	size_t		 n;
	size_t		 end;		/* a token that can end a text */
};

static void
load_tokens(struct vocab *v, const struct qwen_vocab *from)
{
	size_t i;

	v->end = from->n - 1;
	for (i = 0; i < from->n; i++) {
		v->token[i] = qwen_vocab_text(from, i);
		v->type[i] = from->types == NULL ? QWEN_TOKEN_NORMAL :
		    (int32_t)qwen_le32(from->types->data + 4 * i);
		if (qwen_str_is(v->token[i], "<|im_end|>"))
			v->end = i;
	}
}

/* Copies all other tokenizer keys unchanged. */
static void
copy_keys(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s,
    const struct qwen_gguf *g)
{
	static const char *const own[] = {
		"tokenizer.ggml.pre", "tokenizer.ggml.tokens",
		"tokenizer.ggml.token_type", "tokenizer.ggml.scores",
		"tokenizer.ggml.add_eos_token",
	};
	const struct qwen_gguf_kv *kv;
	size_t n = s->pooling == POOL_LAST ? 5 : 4, i, k;

	for (i = 0; (kv = qwen_gguf_kv(g, i)) != NULL; i++) {
		if (kv->key.len < 10 || memcmp(kv->key.s, "tokenizer.", 10))
			continue;
		for (k = 0; k < n && !qwen_str_is(kv->key, own[k]); k++)
			;
		if (k == n)
			qwen_gguf_put_kv(w, kv);
	}
}

static void
put_tokens(struct qwen_gguf_writer *w, const struct qwen_synth_shape *s,
    const struct vocab *v, const struct qwen_gguf *g)
{
	qwen_gguf_put_str(w, "tokenizer.ggml.pre", s->arch->pre);
	qwen_gguf_put_tokens(w, v->token, v->type, v->n);
	copy_keys(w, s, g);
	if (s->pooling == POOL_LAST)	/* the last token, which is pooled, is
					   always the same */
		qwen_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", 1);
	if (qwen_gguf_find(g, "tokenizer.ggml.eos_token_id") == NULL)
		qwen_gguf_put_u32(w, "tokenizer.ggml.eos_token_id",
		    (uint32_t)v->end);
}

int
qwen_synth_put_vocab(struct qwen_gguf_writer *w,
    const struct qwen_synth_shape *s, const struct qwen_gguf *g,
    struct qwen_err *err)
{
	static const char merges[] = "tokenizer.ggml.merges";
	struct vocab v = { .n = s->info.n_vocab };
	const struct qwen_gguf_kv *kv = qwen_gguf_find(g, merges);
	struct qwen_vocab from;
	int rc = -1;

	if (qwen_vocab_init(&from, g, err) < 0)
		return qwen_fail_in(err, "%s", qwen_gguf_path(g, 0));
	v.token = calloc(v.n, sizeof *v.token);
	v.type = calloc(v.n, sizeof *v.type);
	if (kv == NULL || kv->type != QWEN_GGUF_ARRAY ||
	    kv->elem != QWEN_GGUF_STRING || kv->n == 0)
		qwen_fail(err, QWEN_EFORMAT, "%s: no vocabulary: %s is "
		    "missing or not strings", qwen_gguf_path(g, 0), merges);
	else if (from.n > v.n)
		qwen_fail(err, QWEN_ERANGE, "%s has %zu tokens, but the model "
		    "has room for only %zu", qwen_gguf_path(g, 0), from.n, v.n);
	else if (v.token == NULL || v.type == NULL)
		qwen_oom(err);
	else {
		load_tokens(&v, &from);
		put_tokens(w, s, &v, g);
		rc = 0;
	}
	free(v.token);
	free(v.type);
	qwen_vocab_fini(&from);
	return rc;
}
