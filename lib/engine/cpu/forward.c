/* SPDX-License-Identifier: ISC */
/*
 * forward.c - rows through the layers:
 *
 *	x += mixer(norm(x)); x += ffn(norm(x))
 *
 * What a block adds stays in out until the next norm, which reads x anyway.
 * Rows in which a number is not finite are carried on: they touch no others.
 */
#include <math.h>
#include <string.h>

#include "engine/cpu/cpu.h"
#include "engine/cpu/forward.h"
#include "engine/cpu/lora.h"

struct norm {
	const float	*w;
	size_t		 place;	/* of the sum that is normed */
	size_t		 last;	/* from this place on, only wanted rows are
				   checked */
};

/* Adds out to x, if that is pending, and norms x to xn and its operands. */
static void
add_norm(struct qwen_batch *b, void *arg, size_t t)
{
	const struct norm *p = arg;
	const struct qwen_share *share = qwen_share_of(b, t);
	struct qwen_scratch *s = b->s;
	size_t i, n = b->hp->n_embd;
	const float *y = s->out + t * s->out_width;
	float *x = s->x + t * n, sum;

	for (i = 0; s->pending && i < n; i++)
		x[i] += y[i];
	sum = b->vec->rmsnorm(s->xn + t * n, x, p->w, n, b->hp->eps);
	if (!isfinite(sum) && (p->place < p->last ||
	    t - share->first >= share->want))
		qwen_note_bad(b->pass, t, p->place);
	qwen_make_operands(b, s->xq, n, t, s->xn + t * n, n);
}

void
qwen_batch_norm(struct qwen_batch *b, const float *w, size_t place)
{
	struct norm p = { .w = w, .place = place,
	    .last = QWEN_PLACE_MIXER(b->hp->n_layer - 1) };

	/* the sum and what is added to it, its weights, the normed row */
	qwen_each_token(b, QWEN_STAGE_NORM, add_norm, &p,
	    (b->s->pending ? 5 : 3) * b->hp->n_embd);
	b->s->pending = 0;
}

/* Moves the wanted rows to the front; bytes is the size of a row. */
static void
gather(const struct qwen_batch *b, void *rows, size_t bytes)
{
	size_t i;

	for (i = 0; i < b->n_wanted; i++) {
		if (b->wanted[i] != i)
			memcpy((char *)rows + i * bytes, (char *)rows +
			    b->wanted[i] * bytes, bytes);
	}
}

/* Drops all rows but the wanted ones from the pass and its buffers. */
static void
drop_rest(struct qwen_batch *b, struct qwen_pass *p)
{
	gather(b, b->s->x, b->hp->n_embd * sizeof *b->s->x);
	gather(b, b->s->out, b->s->out_width * sizeof *b->s->out);
	qwen_pass_drop(p);
	b->n = b->n_wanted = p->n;
	b->wanted = NULL;
}

/* Adds a row's deepstack vector of a layer to the layer's result. */
static void
add_deep(struct qwen_batch *b, void *arg, size_t t)
{
	size_t n = b->hp->n_embd, i = *(const size_t *)arg;
	const float *deep = b->pass->row[t].deep;

	if (deep != NULL)
		b->vec->axpy(b->s->out + t * b->s->out_width, 1.0f,
		    deep + i * n, n);
}

static int
has_deep(const struct qwen_batch *b, size_t layer)
{
	size_t t;

	if (layer >= b->hp->n_deepstack)
		return 0;
	for (t = 0; t < b->n && b->pass->row[t].deep == NULL; t++)
		;
	return t < b->n;
}

static void
run_mixer(struct qwen_batch *b, struct qwen_pass *p, const struct qwen_layer *l)
{
	struct qwen_scratch *s = b->s;
	size_t i = l->index, n_embd = b->hp->n_embd;
	int again = s->pending;

	if (i == p->last) {
		b->n_wanted = qwen_pass_wanted(p, s->wanted);
		b->wanted = b->n_wanted < b->n ? s->wanted : NULL;
	}
	qwen_batch_norm(b, l->mixer_norm, QWEN_PLACE_FFN(i) - 2);
	if (again)
		qwen_see(b, QWEN_TRACE_RESIDUAL, i - 1, s->x, n_embd);
	if (l->mixer == QWEN_DELTANET)
		qwen_deltanet_forward(b, l);
	else
		qwen_attention_forward(b, l);
	s->pending = 1;
	qwen_see(b, QWEN_TRACE_MIXER, i, s->out, s->out_width);
	if (b->wanted != NULL)
		drop_rest(b, p);
}

static void
run_ffn(struct qwen_batch *b, const struct qwen_layer *l)
{
	struct qwen_scratch *s = b->s;
	size_t i = l->index;

	if (b->n == 0 || l->ffn == QWEN_NO_FFN)
		return;
	qwen_batch_norm(b, l->ffn_norm, QWEN_PLACE_MIXER(i));
	qwen_see(b, QWEN_TRACE_MIXER_RESIDUAL, i, s->x, b->hp->n_embd);
	if (l->ffn == QWEN_MOE)
		qwen_moe_forward(b, l);
	else
		qwen_mlp_forward(b, l);
	s->pending = 1;
	if (has_deep(b, i))
		qwen_each_token(b, QWEN_STAGE_NORM, add_deep, &i, 3 * b->hp->n_embd);
	qwen_see(b, QWEN_TRACE_FFN, i, s->out, s->out_width);
}

void
qwen_batch_layers(struct qwen_batch *b, struct qwen_pass *p, size_t first,
    size_t n)
{
	const struct qwen_layer *l;
	size_t i;

	qwen_rope_angles(b);
	for (i = first; i < first + n && qwen_any_good(p); i++) {
		l = qwen_net_layer(b->net, i / 2);
		if (i % 2 == 0) {
			run_mixer(b, p, l);
			continue;
		}
		run_ffn(b, l);
		if (p->layer != NULL)
			p->layer(p->arg, i / 2);
	}
}
