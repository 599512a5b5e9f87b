/* SPDX-License-Identifier: ISC */
/* mlp.c - the dense feed-forward block: down(silu(gate x) * up x). */
#include "engine/cpu/cpu.h"

static void
activate(struct qwen_batch *b, void *arg, size_t t)
{
	const struct qwen_weight *down = arg;
	struct qwen_scratch *s = b->s;
	float *g = s->ffn.gate + t * s->ffn.width;

	b->vec->swiglu(g, g, s->ffn.up + t * s->ffn.width, down->n_in);
	if (qwen_wants_operand(down))
		qwen_make_operands(b, s->ffn.q, s->ffn.width, t, g, down->n_in);
}

void
qwen_mlp_forward(struct qwen_batch *b, const struct qwen_layer *l)
{
	struct qwen_scratch *s = b->s;
	struct qwen_weight down = l->mlp.down;
	struct qwen_linear in[2] = {
		{ &l->mlp.gate, s->ffn.gate, s->ffn.width, NULL },
		{ &l->mlp.up, s->ffn.up, s->ffn.width, NULL },
	};
	struct qwen_linear out = { &l->mlp.down, s->out, s->out_width,
	    NULL };

	qwen_linears(b, in, 2, s->xn, b->hp->n_embd, s->xq, NULL, b->n);
	qwen_see(b, QWEN_TRACE_MLP_GATE, l->index, s->ffn.gate, s->ffn.width);
	qwen_see(b, QWEN_TRACE_MLP_UP, l->index, s->ffn.up, s->ffn.width);
	qwen_each_token(b, QWEN_STAGE_ACTIVATE, activate, &down,
	    3 * down.n_in);
	qwen_see(b, QWEN_TRACE_MLP_ACT, l->index, s->ffn.gate, s->ffn.width);
	qwen_linears(b, &out, 1, s->ffn.gate, s->ffn.width, s->ffn.q, NULL, b->n);
}
