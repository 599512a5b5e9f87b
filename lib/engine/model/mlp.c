/* SPDX-License-Identifier: ISC */
/* mlp.c - the dense feed-forward block: down(silu(gate x) * up x). */
#include "engine/model/forward.h"
#include "engine/model/trace.h"

static void
activate(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_weight *down = arg;
	struct qwen_scratch *s = b->b;
	float *g = s->gate + t * s->ff_width;

	b->vec->swiglu(g, g, s->up + t * s->ff_width, down->n_in);
	if (qwen_wants_operand(down))
		qwen_make_operands(b, s->hq, s->ff_width, t, g, down->n_in);
}

void
qwen_mlp_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	struct qwen_scratch *s = b->b;
	struct qwen_weight down = l->mlp.down;
	struct qwen_linear in[2] = {
		{ &l->mlp.gate, s->gate, s->ff_width, NULL },
		{ &l->mlp.up, s->up, s->ff_width, NULL },
	};
	struct qwen_linear out = { &l->mlp.down, s->out, s->out_width,
	    NULL };

	qwen_linears(b, in, 2, s->xn, b->hp->n_embd, s->xq, NULL, b->n);
	if (b->trace) {
		qwen_trace_rows(b, QWEN_TRACE_MLP_GATE, l->index, s->gate,
		    s->ff_width);
		qwen_trace_rows(b, QWEN_TRACE_MLP_UP, l->index, s->up,
		    s->ff_width);
	}
	qwen_each_token(b, QWEN_STAGE_ACTIVATE, activate, &down,
	    3 * down.n_in);
	if (b->trace)
		qwen_trace_rows(b, QWEN_TRACE_MLP_ACT, l->index, s->gate,
		    s->ff_width);
	qwen_linears(b, &out, 1, s->gate, s->ff_width, s->hq, NULL, b->n);
}
