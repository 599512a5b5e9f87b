/* SPDX-License-Identifier: ISC */
/*
 * probs.c - the scores and probabilities of attention, for a trace.  The attention
 * kernels never have all of a row, since they work chunk by chunk; this file computes
 * the same scores by the same kernel.
 */
#include <string.h>

#include "engine/quant/math.h"
#include "engine/watch/watch.h"

/* Multiplies a query with the 16 keys of a block, in the order of attn.inc. */
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

/*
 * Returns dimension i of the key of position j, in a tile of integers (kv.h).
 */
static int
number_at(enum qwen_kv k, const uint8_t *tile, size_t i, size_t j)
{
	int byte;

	if (k == QWEN_KV_Q8_0)
		return (int8_t)tile[i / 2 * 32 + 2 * j + i % 2];
	byte = tile[i % 16 / 2 * 32 + 2 * j + i % 2];
	return (i < 16 ? byte & 15 : byte >> 4) - 8;
}

/* The same for integer keys, in the order of attn_kv.inc. */
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
		score[j] *= query[s->d / 2];
	}
}

/* Turns the scores of n keys into their softmax. */
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
	const struct qwen_pass		*p;
	const struct qwen_hparams	*h;
	const struct qwen_seen		*s;
};

/* Item: a row's head. */
static void
do_probs(void *arg, size_t item, int thread)
{
	const struct job *j = arg;
	const struct qwen_hparams *h = j->h;
	size_t t = item / h->n_head, head = item % h->n_head;
	size_t head_kv = head / (h->n_head / h->n_head_kv);
	size_t layer = j->s->layer, n = j->p->row[t].slot + 1, i, k;
	const struct qwen_share *share = &j->p->share[j->p->owner[t]];
	uint16_t *const *block = share->mem->layer[layer].block + share->skip;
	struct qwen_kv_shape s = qwen_kv_shape_of(h);
	float *told = qwen_trace_at(j->p, h, t, QWEN_TRACE_SCORES, layer, head);
	float *probs = qwen_trace_at(j->p, h, t, QWEN_TRACE_PROBS, layer, head);
	float *p = told != NULL ? told : probs;
	const float *q = (const float *)j->s->x + t * j->s->stride +
	    head * j->s->step;
	const uint16_t *keys;
	float score[QWEN_KV_BLOCK];

	(void)thread;
	if (p == NULL)
		return;
	/* slots of the MTP block: position 0 has no row */
	if (layer == h->n_layer) {
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
qwen_probs_see(const struct qwen_pass *p, const struct qwen_watch *w,
    const struct qwen_seen *s)
{
	struct job j = { p, &w->net->hp, s };

	qwen_pool_run(w->pool, do_probs, &j, s->n * j.h->n_head);
}
