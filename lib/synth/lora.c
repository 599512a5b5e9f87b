/* SPDX-License-Identifier: ISC */
/*
 * lora.c - writes LoRA adapters with random changes to all matrices of a model.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gguf/gguf.h"
#include "gguf/write.h"
#include "synth/synth.h"

/* Size of a change relative to the weights, roughly. */
#define SHARE 0.2

/* Returns 1 for a matrix or an embedding. */
static int
is_matrix(const struct qwen_gguf_tensor *t)
{
	return qwen_ends(t->name, ".weight") && strstr(t->name, "norm") == NULL &&
	    strstr(t->name, "conv1d") == NULL &&
	    (t->n_dims > 1 || strstr(t->name, "ffn_gate_inp_shexp") != NULL);
}

/* Names, shapes and standard deviations of A and B for a tensor. */
struct pair {
	char		 name[2][80];
	uint64_t	 ne[2][3];
	unsigned	 n_dims;
	double		 sd[2];
};

static struct pair
pair_of(const struct qwen_gguf_tensor *t, uint64_t rank)
{
	int embedding = strcmp(t->name, "token_embd.weight") == 0 ||
	    qwen_ends(t->name, "embed_tokens.weight");
	double n_in = (double)t->ne[0], sd = SHARE / sqrt((double)rank);
	struct pair p = { .ne = { { t->ne[0], rank, t->ne[2] },
	    { rank, t->ne[1], t->ne[2] } }, .n_dims = t->ne[2] > 1 ? 3 : 2,
	    .sd = { 1 / sqrt(n_in), sd } };

	if (embedding) {	/* rows of A are looked up */
		p = (struct pair){ .ne = { { rank, t->ne[1], 1 },
		    { rank, t->ne[0], 1 } }, .n_dims = 2,
		    .sd = { 1, sd / sqrt(n_in) } };
	}
	snprintf(p.name[0], sizeof p.name[0], "%s.lora_a", t->name);
	snprintf(p.name[1], sizeof p.name[1], "%s.lora_b", t->name);
	return p;
}

static void
put_head(struct qwen_gguf_writer *w, const struct qwen_gguf *model,
    const struct qwen_synth_lora *o)
{
	const struct qwen_gguf_tensor *t;
	const struct qwen_gguf_kv *arch = qwen_gguf_find(model,
	    "general.architecture");
	/* the order of value heads, which the adapter must share */
	const struct qwen_gguf_kv *order = qwen_gguf_find(model,
	    qwen_gguf_arch_key(model, "ssm.v_head_reordered").s);
	struct pair p;
	size_t i;
	int k;

	qwen_gguf_put_str(w, "general.type", "adapter");
	if (arch != NULL)
		qwen_gguf_put_kv(w, arch);
	if (order != NULL)
		qwen_gguf_put_kv(w, order);
	qwen_gguf_put_str(w, "adapter.type", "lora");
	qwen_gguf_put_f32(w, "adapter.lora.alpha", (float)o->alpha);
	for (i = 0; (t = qwen_gguf_tensor(model, i)) != NULL; i++) {
		if (!is_matrix(t))
			continue;
		p = pair_of(t, o->rank);
		for (k = 0; k < 2; k++)
			qwen_gguf_put_tensor(w, p.name[k], o->type, p.n_dims,
			    p.ne[k]);
	}
}

int
qwen_synth_write_lora(const struct qwen_gguf *model,
    const struct qwen_synth_lora *o, int fd, struct qwen_err *err)
{
	struct qwen_gguf_writer *w;
	const struct qwen_gguf_tensor *t;
	uint64_t rng = o->seed;
	struct pair p;
	size_t i;
	int k, rc;

	if (qwen_gguf_writer_new(&w, err) < 0)
		return -1;
	put_head(w, model, o);
	rc = qwen_gguf_write_head(w, fd, err);
	for (i = 0; rc == 0 && (t = qwen_gguf_tensor(model, i)) != NULL; i++) {
		p = pair_of(t, o->rank);
		for (k = 0; rc == 0 && is_matrix(t) && k < 2; k++)
			rc = qwen_synth_put_random(w, fd, o->type, p.ne[k][0] * p.ne[k][1] *
			    p.ne[k][2], p.sd[k], &rng, err);
	}
	if (rc == 0)
		rc = qwen_gguf_write_end(w, err);
	qwen_gguf_writer_free(w);
	return rc;
}
