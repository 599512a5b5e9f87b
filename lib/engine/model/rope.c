/* SPDX-License-Identifier: ISC */
/*
 * rope.c - rotary position embedding (Su et al. 2021): the angles.
 *
 * In double with our own range reduction: f32 would be 0.016 rad off at
 * position 262,144, and libm's sine is not the same everywhere.
 */
#include "engine/kernel/math.h"
#include "engine/model/forward.h"

static void
angles(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_share *p = qwen_share_of(b, t);
	size_t j, half = b->hp->n_rot / 2, pos = p->pos + t - p->first;
	double s, c;

	(void)arg;
	for (j = 0; j < half; j++) {
		qwen_sincos((double)pos * b->hp->rope_freq[j], &s, &c);
		b->b->cos[t * half + j] = (float)(c * b->hp->rope_mscale);
		b->b->sin[t * half + j] = (float)(s * b->hp->rope_mscale);
	}
}

void
qwen_rope_angles(struct qwen_batch *b)
{
	qwen_each_token(b, QWEN_STAGE_EMBED, angles, NULL, b->hp->n_rot);
}
