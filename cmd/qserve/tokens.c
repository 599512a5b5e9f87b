/* SPDX-License-Identifier: ISC */
/* tokens.c - what needs no engine: tokens of texts, and texts of tokens. */
#include "qserve.h"

static void
answer(struct qserve_call *c, int rc, int status, const struct qwen_err *err)
{
	if (rc < 0)
		qserve_error(c, 500, "out_of_memory", "%s", err->msg);
	else
		qserve_done(c, status);
}

void
qserve_tokenize(struct qserve_call *c)
{
	struct qwen_err err;
	int status, rc = qwen_tokens_tokenize(qserve_service(c),
	    (size_t)qserve_n_ctx(c->server), c->body.s, c->body.n, &status,
	    &c->out, &err);

	answer(c, rc, status, &err);
}

void
qserve_detokenize(struct qserve_call *c)
{
	struct qwen_err err;
	int status, rc = qwen_tokens_detokenize(qserve_service(c),
	    c->body.s, c->body.n, &status, &c->out, &err);

	answer(c, rc, status, &err);
}

void
qserve_apply_template(struct qserve_call *c)
{
	struct qwen_err err;
	int status, rc = qwen_tokens_prompt(qserve_service(c),
	    c->body.s, c->body.n, &status, &c->out, &err);

	answer(c, rc, status, &err);
}

void
qserve_count_tokens(struct qserve_call *c)
{
	struct qwen_err err;
	int status, rc = qwen_tokens_count(qserve_service(c), c->form,
	    c->body.s, c->body.n, &status, &c->out, &err);

	answer(c, rc, status, &err);
}
