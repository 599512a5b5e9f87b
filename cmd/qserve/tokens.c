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

void
qserve_tokens(struct qserve_call *c)
{
	enum qserve_what what = c->route->what;
	struct qserve_reader r;
	const struct qwen_service *s = &r.service;
	size_t n_ctx = (size_t)qserve_n_ctx(c->server), n = c->body.n;
	size_t max = BYTES_PER_TOKEN * n_ctx;
	const char *json = c->body.s;
	struct qwen_err err;
	int status, rc;

	max = max > BYTES_MAX ? max : BYTES_MAX;
	if (what <= QSERVE_DETOKENIZE && n > max) {
		qserve_error(c, 413, "request_too_large", "the request has "
		    "more than %zu bytes, the limit of %s: send the text in "
		    "parts, or use qtok", max, c->path);
		return;
	}
	qserve_reader_init(&r, c->server);
	/* a list of tokens has no place for the rows of images */
	r.service.reads_images &= what == QSERVE_TEMPLATE;
	rc = what == QSERVE_TOKENIZE ? qwen_tokens_tokenize(s, n_ctx, json, n,
	    &status, &c->out, &err) : what == QSERVE_DETOKENIZE ?
	    qwen_tokens_detokenize(s, json, n, &status, &c->out, &err) :
	    qwen_tokens_prompt(s, json, n, &status, &c->out, &err);
	qserve_reader_fini(&r);
	if (rc < 0)
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
	else
		qserve_done(c, status);
}

/* ------------------------------------------------------------------- counts */

/* The state of a call. */
struct counting {
	struct qserve_reader	 reader;
	struct qwen_request	*q;
};

static void
put_count(struct qserve_call *c)
{
	struct counting *x = c->state;
	struct qwen_err err;
	int status;

	if (qwen_tokens_count(x->q, &status, &c->out, &err) < 0)
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
	else
		qserve_done(c, status);
}

static void
begin_count(struct qserve_call *c)
{
	struct counting *x = c->state;
	struct qwen_err err;

	qserve_reader_init(&x->reader, c->server);
	if (qwen_request_parse(&x->q, &x->reader.service, c->form, c->body.s,
	    c->body.n, &err) < 0)
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
	else
		qserve_images_get(c, x->q, 0, put_count);
}

static void
end_count(struct qserve_call *c)
{
	struct counting *x = c->state;

	qserve_reader_fini(&x->reader);
	qwen_request_free(x->q);
}

const struct qserve_kind qserve_counts = { begin_count,
    sizeof(struct counting), end_count };
