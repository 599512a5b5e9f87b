/* SPDX-License-Identifier: ISC */
/*
 * echo.c - completions that begin with their prompts.  If log-probabilities are
 * requested, the prompts are scored first; then the answers are generated.
 */
#include <math.h>
#include <string.h>

#include "answer.h"

/* Add a token of a prompt to the front of all answers to it. */
static int
put_prompt_token(struct qserve_call *c, size_t prompt,
    const struct qwen_likely *token,
    const struct qwen_likely *top, size_t n_top)
{
	struct qserve_answering *x = c->state;
	struct qwen_request *q = x->q;
	struct qwen_err err;
	size_t i;

	for (i = prompt * q->n; i < (prompt + 1) * q->n; i++) {
		if (qwen_answer_echo(&q->answer[i], token, top, n_top,
		    &err) < 0) {
			qserve_answer_fail(c, err.code == QWEN_ENOMEM ?
			    "out_of_memory" : "failed", err.msg);
			return -1;
		}
	}
	return 0;
}

static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	struct qserve_answering *x = c->state;
	const struct qwen_ids *p = &x->q->prompt[i];

	/* a single token has no score; the engine only confirms it */
	o->kind = p->n > 1 ? QWEN_ENGINE_SCORE : QWEN_ENGINE_HIDDEN;
	o->tokens = p->id;
	o->n = p->n;
	o->from = p->n > 1;
	o->logprobs = p->n > 1;
	o->n_top = p->n > 1 ? x->q->n_top : 0;
	return 0;
}

static void
score(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct qserve_answering *x = c->state;
	struct qwen_likely token = { x->q->prompt[i].id[ev->at], ev->logprob };
	struct qwen_likely top[QWEN_LOGPROBS_MAX];
	size_t k;

	for (k = 0; k < ev->n_top && k < QWEN_LOGPROBS_MAX; k++)
		top[k] = (struct qwen_likely){ ev->top_ids[k],
		    ev->top_logprobs[k] };
	put_prompt_token(c, i, &token, top, k);
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct qserve_answering *x = c->state;
	struct qwen_likely first = { x->q->prompt[i].id[0], NAN };

	if (ev->kind == QWEN_EVENT_STARTED) {
		put_prompt_token(c, i, &first, NULL, 0);
	} else if (ev->kind == QWEN_EVENT_SCORE) {
		/* ignore positions outside of the prompt */
		if (ev->at < x->q->prompt[i].n)
			score(c, i, ev);
	} else if (ev->kind == QWEN_EVENT_END &&
	    strcmp(ev->why, "done") != 0) {
		qserve_answer_ended(c, i, ev);
	} else if (ev->kind == QWEN_EVENT_END && c->n_left == 0) {
		qserve_jobs_cancel(c);
		qserve_answer_generate(c);
	}
}

static const struct qserve_handler handler = { make_request, on_event,
    qserve_answer_fail };

void
qserve_echo(struct qserve_call *c)
{
	struct qserve_answering *x = c->state;
	struct qwen_request *q = x->q;
	struct qwen_likely token = { 0, NAN };
	size_t i, k;

	if (q->logprobs) {
		qserve_jobs_new(c, q->n_prompts, &handler);
		return;
	}
	for (i = 0; i < q->n_prompts; i++) {
		for (k = 0; k < q->prompt[i].n; k++) {
			token.id = q->prompt[i].id[k];
			if (put_prompt_token(c, i, &token, NULL, 0) < 0)
				return;
		}
	}
	qserve_answer_generate(c);
}
