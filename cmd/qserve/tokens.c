/* SPDX-License-Identifier: ISC */
/*
 * tokens.c - tokenize, detokenize, apply templates and count tokens; no engine
 * is needed.
 */
#include "qserve.h"

/*
 * Limits of a request in bytes.  The server does nothing else while it handles
 * one, about 0.15 s per MiB.  A text that fits into the context is always
 * accepted.
 */
enum { BYTES_MAX = 1 << 20, BYTES_PER_TOKEN = 8 };

static int
is_too_large(struct qserve_call *c)
{
	uint64_t max = BYTES_PER_TOKEN * qserve_n_ctx(c->server);

	max = max > BYTES_MAX ? max : BYTES_MAX;
	if (c->body.n <= max)
		return 0;
	qserve_error(c, 413, "request_too_large", "the request has more than "
	    "%llu bytes, the limit of %s: send the text in parts, or use qtok",
	    (unsigned long long)max, c->path);
	return 1;
}

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
	int status, rc;

	if (is_too_large(c))
		return;
	rc = qwen_tokens_tokenize(qserve_service(c),
	    (size_t)qserve_n_ctx(c->server), c->body.s, c->body.n, &status,
	    &c->out, &err);
	answer(c, rc, status, &err);
}

void
qserve_detokenize(struct qserve_call *c)
{
	struct qwen_err err;
	int status, rc;

	if (is_too_large(c))
		return;
	rc = qwen_tokens_detokenize(qserve_service(c),
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
