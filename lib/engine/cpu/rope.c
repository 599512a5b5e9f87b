/* SPDX-License-Identifier: ISC */
/*
 * rope.c - rotary position embedding (Su et al. 2021): the angles.
 *
 * In double with our own range reduction: f32 would be 0.016 rad off at
 * position 262,144, and libm's sine is not the same everywhere.
 */
#include "engine/quant/math.h"
#include "engine/cpu/cpu.h"

/* Returns which of the three positions turns pair j: they take turns. */
static size_t
axis_of(const struct qwen_hparams *h, size_t j)
{
	return j < 3 * h->rope_section[j % 3] ? j % 3 : 0;
}

void
qwen_rope_at(const struct qwen_hparams *h, const uint32_t pos[3], float *cos,
    float *sin)
{
	double s, c;
	size_t j;

	for (j = 0; j < h->n_rot / 2; j++) {
		qwen_sincos((double)pos[axis_of(h, j)] * h->rope_freq[j], &s,
		    &c);
		cos[j] = (float)(c * h->rope_mscale);
		sin[j] = (float)(s * h->rope_mscale);
	}
}

static void
angles(struct qwen_batch *b, void *arg, size_t t)
{
	size_t half = b->hp->n_rot / 2;

	(void)arg;
	qwen_rope_at(b->hp, b->pass->row[t].pos, b->s->attn.cos + t * half,
	    b->s->attn.sin + t * half);
}

void
qwen_rope_angles(struct qwen_batch *b)
{
	qwen_each_token(b, QWEN_STAGE_EMBED, angles, NULL, b->hp->n_rot);
}
