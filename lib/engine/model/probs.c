/* SPDX-License-Identifier: ISC */
/*
 * probs.c - the scores and probabilities of attention, for a trace.  The attention
 * kernels never have all of a row, since they work chunk by chunk; this file computes
 * the same scores by the same kernel.
 */
#include <string.h>

#include "engine/quant/math.h"
#include "engine/model/forward.h"
#include "engine/model/trace.h"

/* A query with the 16 keys of a block, as attn.inc has it. */
static void
float_scores(const struct qwen_kv_shape *s, const float *q,
    const uint16_t *keys, float *score)
{
	const float *x = (const float *)(const void *)keys;
	size_t i, j, at;

	for (j = 0; j < QWEN_KV_BLOCK; j++)
		score[j] = 0.0f;
	for (i = 0; i < s->d; i++) {
		for (j = 0; j < QWEN_KV_BLOCK; j++) {
			at = i * QWEN_KV_BLOCK + j;
			score[j] = fmaf(q[i], s->k == QWEN_KV_F32 ? x[at] :
			    qwen_f16_f32(keys[at]), score[j]);
		}
	}
}

/* Dimension i of the key of position j, in a tile of whole numbers: kv.h. */
static int
number_at(enum qwen_kv k, const uint8_t *tile, size_t i, size_t j)
{
	int byte;

	if (k == QWEN_KV_Q8_0)
		return (int8_t)tile[i / 2 * 32 + 2 * j + i % 2];
	byte = tile[i % 16 / 2 * 32 + 2 * j + i % 2];
	return (i < 16 ? byte & 15 : byte >> 4) - 8;
}

/* The same where keys are whole numbers, as attn_kv.inc has it. */
static void
rounded_scores(const struct qwen_kv_shape *s, const float *query,
    const uint16_t *keys, float *score)
{
	const int16_t *q = (const int16_t *)(const void *)query;
	const uint8_t *tile = (const uint8_t *)(keys + s->d /
	    QWEN_KV_GROUP * QWEN_KV_BLOCK);
	size_t i, j, g;
	int sum;

	for (j = 0; j < QWEN_KV_BLOCK; j++) {
		score[j] = 0.0f;
		for (g = 0; g < s->d / QWEN_KV_GROUP; g++) {
			for (sum = 0, i = 0; i < QWEN_KV_GROUP; i++)
				sum += q[g * QWEN_KV_GROUP + i] * number_at(
				    s->k, tile + g * QWEN_KV_TILE(s->k), i, j);
			score[j] = fmaf((float)sum, qwen_f16_f32(keys[g *
			    QWEN_KV_BLOCK + j]), score[j]);
		}
		score[j] *= qwen_kv_query_scale(query, s->d);
	}
}

/* Scores of n keys to their shares of the whole. */
static void
softmax(float *p, size_t n)
{
	float max = p[0];
	double sum = 0;
	size_t i;

	for (i = 1; i < n; i++)
		max = p[i] > max ? p[i] : max;
	for (i = 0; i < n; i++) {
		p[i] = qwen_expf(p[i] - max);
		sum += (double)p[i];
	}
	for (i = 0; i < n; i++)
		p[i] = (float)((double)p[i] / sum);
}

struct job {
	struct qwen_batch	*b;
	size_t			 layer, q_step;
};

/* Item: a row's head. */
static void
do_probs(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_hparams *h = j->b->hp;
	size_t t = item / h->n_head, head = item % h->n_head;
	size_t head_kv = head / (h->n_head / h->n_head_kv);
	const struct qwen_share *share = qwen_share_of(j->b, t);
	uint16_t *const *block = share->s->layer[j->layer].block + share->skip;
	struct qwen_kv_shape s = qwen_kv_shape_of(h);
	size_t n = share->pos + t - share->first + 1, i, k;
	float *told = qwen_trace_at(j->b, t, QWEN_TRACE_SCORES, j->layer, head);
	float *probs = qwen_trace_at(j->b, t, QWEN_TRACE_PROBS, j->layer, head);
	float *p = told != NULL ? told : probs;
	const float *q = j->b->b->in + t * j->b->b->in_width + head *
	    j->q_step;
	const uint16_t *keys;
	float score[QWEN_KV_BLOCK];

	(void)thread;
	if (p == NULL)
		return;
	/* slots of the block that predicts: position 0 has no row */
	if (j->layer == h->n_layer) {
		*p++ = 0.0f;
		if (p == probs + 1)
			probs++;
		else if (probs != NULL)
			*probs++ = 0.0f;
	}
	for (i = 0; i < n; i += QWEN_KV_BLOCK) {
		keys = block[i / QWEN_KV_BLOCK] + qwen_kv_k_at(&s, head_kv) /
		    sizeof *keys;
		(qwen_kv_width(s.k) > 0 ? float_scores : rounded_scores)(&s,
		    q, keys, score);
		for (k = 0; k < QWEN_KV_BLOCK && i + k < n; k++)
			p[i + k] = score[k];
	}
	if (probs != NULL && probs != p)
		memcpy(probs, p, n * sizeof *p);
	if (probs != NULL)
		softmax(probs, n);
}

void
qwen_trace_probs(struct qwen_batch *b, const struct qwen_layer *l,
    size_t q_step)
{
	struct job j = { b, l->index, q_step };

	qwen_pool_run(b->m->pool, do_probs, &j, b->n * b->hp->n_head);
}
