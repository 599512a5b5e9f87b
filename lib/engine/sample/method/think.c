/* SPDX-License-Identifier: ISC */
/*
 * think.c - limits the tokens of a thinking block.  After N tokens the sampler
 * closes the block as the model would: with </think> on its own line and an
 * empty line.  Then the answer continues.
 *
 * "Thinking budget" of the Qwen3 Technical Report, arXiv:2505.09388, section
 * 4.3, without the sentence that the report inserts before </think>.
 */
#include "base/err.h"
#include "base/pieces.h"
#include "engine/sample/sample.h"

struct memory {
	int32_t		 line, gap;	/* tokens "\n" and "\n\n", or -1 */
	int		 in_thinking;	/* a block is open */
	int		 on_line;	/* the text so far ends with a new
					   line */
	int		 closed;	/* the sampler closed the block: gap
					   comes next */
	uint64_t	 spent;		/* tokens in blocks since the prompt */
};

static int32_t
find_piece(const struct qwen_pieces *p, const char *text)
{
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (qwen_str_is(qwen_piece(p, (int32_t)i), text))
			return (int32_t)i;
	}
	return -1;
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	const struct qwen_pieces *p = s->w->pieces;
	struct memory *m = s->memory;

	if (p->think < 0 || p->unthink < 0)
		return qwen_fail(err, QWEN_EUNSUP, "think-max: the vocabulary "
		    "has no tokens <think> and </think>");
	m->line = find_piece(p, "\n");
	m->gap = find_piece(p, "\n\n");
	return 0;
}

static int32_t
forced_token(const struct qwen_chain_method *s)
{
	const struct memory *m = s->memory;

	if (m->closed)
		return m->gap;
	if (!m->in_thinking || m->spent < (uint64_t)s->v[0].i)
		return -1;
	return m->on_line || m->line < 0 ? s->w->pieces->unthink : m->line;
}

static int
accept(struct qwen_chain_method *s, int32_t token, int generated)
{
	const struct qwen_pieces *p = s->w->pieces;
	struct qwen_str text = qwen_piece(p, token);
	struct memory *m = s->memory;
	int ours = generated && token == forced_token(s);

	m->closed = ours && token == p->unthink && m->gap >= 0;
	if (!generated)
		m->spent = 0;
	else if (m->in_thinking)
		m->spent++;
	if (token == p->think)
		m->in_thinking = 1;
	else if (token == p->unthink)
		m->in_thinking = 0;
	if (text.len > 0)
		m->on_line = text.s[text.len - 1] == '\n';
	return 0;
}

const struct qwen_sampler_method qwen_sampler_think = {
	.name = "think-max", .rank = QWEN_RANK_THINK, .keeps_best = 1,
	.memory = sizeof(struct memory), .needs_pieces = 1,
	.begin = begin, .accept = accept, .forced_token = forced_token,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "think-max", .type = QWEN_SAMPLE_INT, .arg = "N",
	  .min = -1, .max = INT32_MAX, .def = -1,
	  .fields = { "thinking_token_budget", "thinking_budget_tokens" },
	  .help = "close a thinking block after N tokens; -1: never" },
};
