/* SPDX-License-Identifier: ISC */
/*
 * whole.h - the same small model on the CPU and on a card: what both compute has
 * the same bits.
 */
#ifndef CUDA_WHOLE_H
#define CUDA_WHOLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../ref/tiny.h"
#include "../unit/state_util.h"
#include "../tap.h"
#include "engine/pass/open.h"

static struct qwen_err err;

static const struct tiny_shape dense = {
	.arch = "qwen3", .n_layer = 2, .n_embd = 48, .n_vocab = 71,
	.n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 80,
};

static const struct tiny_shape hybrid = {
	.arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	.n_vocab = 71, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32,
	.n_head_k = 2, .n_head_v = 4,
};

static const struct tiny_shape hybrid_moe = {
	.arch = "qwen35moe", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	.n_vocab = 71, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	.n_rot = 8, .conv_kernel = 4, .dk = 32, .dv = 32, .n_head_k = 2,
	.n_head_v = 4, .n_expert = 7, .n_expert_used = 3, .n_ff_exp = 24,
	.n_ff_shexp = 40,
};

static inline void
need(int rc)
{
	if (rc >= 0)
		return;
	printf("Bail out! %s\n", err.msg);
	exit(1);
}

/* Which of the two, with a session each. */
enum { CPU, CARD };
struct whole {
	struct qwen_model	*m[2];
	struct qwen_session	*s[2];
	float			*row[2];	/* logits of the last eval */
	size_t			 n_row[2];
};

/* Writes a tiny model, and frees it; returns its path, which is whole_path. */
static char whole_path[1024];
static inline const char *
write_tiny(struct tiny *t)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(whole_path, sizeof whole_path, "%s/whole-%ld.gguf", tmp != NULL ? tmp :
	    "/tmp", (long)getpid());
	tiny_write(t, whole_path);
	tiny_free(t);
	return whole_path;
}

/* Opens both with opts, and a session each. */
static inline void
whole_open(struct whole *w, const char *path, struct qwen_model_opts opts)
{
	static const char *const device[] = { NULL, "cuda:0" };
	int i;

	memset(w, 0, sizeof *w);
	opts.n_threads = 2;
	for (i = CPU; i <= CARD; i++) {
		opts.device = device[i];
		need(qwen_model_open(&w->m[i], path, &opts, &err));
		need(qwen_session_new(&w->s[i], w->m[i], &err));
	}
}

static inline void
whole_close(struct whole *w)
{
	int i;

	for (i = CPU; i <= CARD; i++) {
		qwen_session_free(w->s[i]);
		qwen_model_close(w->m[i]);
		free(w->row[i]);
	}
}

/* Is all of the model at home on the card? */
static inline int
all_on_card(const struct whole *w)
{
	const struct qwen_net *net = &w->m[CARD]->net;
	size_t n = net->hp.n_layer, half;

	for (half = 0; half < QWEN_HOMES(n); half++) {
		if (w->m[CARD]->place.home[half] == 0 && (net->mtp.on ||
		    half / 2 != n || half == QWEN_HEAD(n)))
			return 0;
	}
	return 1;
}

struct whole_row {
	struct whole	*w;
	int		 i;
};

static int
whole_note(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	struct whole_row *r = arg;
	size_t n = qwen_model_n_vocab(r->w->m[r->i]), *at = &r->w->n_row[r->i];

	(void)pos;
	(void)e;
	memcpy(r->w->row[r->i] + (*at)++ * n, logits, n * sizeof *logits);
	return 0;
}

/* Reads n tokens on both; have they the same logits of all rows? */
static inline int
whole_eval(struct whole *w, const int32_t *ids, size_t n,
    const struct qwen_span_rows *spans, size_t n_spans)
{
	size_t bytes = n * qwen_model_n_vocab(w->m[0]) * sizeof(float);
	int i;

	for (i = CPU; i <= CARD; i++) {
		struct whole_row r = { w, i };
		struct qwen_eval how = { .logits = QWEN_LOGITS_ALL,
		    .row = whole_note, .arg = &r, .spans = spans,
		    .n_spans = n_spans };

		free(w->row[i]);
		w->row[i] = malloc(bytes);
		w->n_row[i] = 0;
		need(qwen_session_eval(w->s[i], ids, n, &how, &err));
	}
	return w->n_row[CPU] == n && w->n_row[CARD] == n &&
	    memcmp(w->row[CPU], w->row[CARD], bytes) == 0;
}

/* Have both sessions the same keys, values, states and last logits? */
static inline int
whole_same(struct whole *w)
{
	qwen_memory_return(w->s[CARD]);
	return same_session(w->s[CPU], w->s[CARD]);
}

#endif
