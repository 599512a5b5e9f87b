/* SPDX-License-Identifier: ISC */
/* route.c - which call does what, and those that need no engine. */
#include <string.h>
#include <time.h>

#include "page.h"
#include "qserve.h"

static void
health(struct qserve_call *c)
{
	const struct qserve_engine *e = c->server->engines;

	while (e != NULL && !e->ready)
		e = e->next;
	qwen_text_fmt(&c->out, "{\"status\":\"%s\"}",
	    c->server->draining ? "ending" : e == NULL ? "starting" : "ok");
	qserve_done(c, c->server->draining || e == NULL ? 503 : 200);
}

uint64_t
qserve_n_ctx(const struct qserve *s)
{
	const struct qserve_engine *e;
	uint64_t n = 0;

	for (e = s->engines; e != NULL; e = e->next) {
		if (e->ready && (n == 0 || e->hello.n_ctx < n))
			n = e->hello.n_ctx;
	}
	return n;
}

static void
put_time(struct qwen_text *t, time_t at)
{
	struct tm tm;
	char buf[32];

	if (gmtime_r(&at, &tm) != NULL &&
	    strftime(buf, sizeof buf, "%Y-%m-%dT%H:%M:%SZ", &tm) > 0)
		qwen_text_fmt(t, ",\"created_at\":\"%s\"", buf);
}

/* What OpenAI's clients look for, then what Anthropic's do. */
static void
put_model(struct qserve_call *c)
{
	const struct qserve *s = c->server;
	const char *name = s->with.service.model;

	qwen_text_str(&c->out, "{\"id\":");
	qwen_text_json(&c->out, name, strlen(name));
	qwen_text_fmt(&c->out, ",\"object\":\"model\",\"created\":%llu,"
	    "\"owned_by\":\"qpipe\"", (unsigned long long)s->started);
	qwen_text_str(&c->out, ",\"type\":\"model\",\"lifecycle\":\"active\","
	    "\"display_name\":");
	qwen_text_json(&c->out, name, strlen(name));
	put_time(&c->out, (time_t)s->started);
	if (qserve_n_ctx(s) > 0)
		qwen_text_fmt(&c->out, ",\"max_model_len\":%llu",
		    (unsigned long long)qserve_n_ctx(s));
	qwen_text_str(&c->out, "}");
}

static void
models(struct qserve_call *c)
{
	qwen_text_str(&c->out, "{\"object\":\"list\",\"data\":[");
	put_model(c);
	qwen_text_str(&c->out, "],\"has_more\":false}");
	qserve_done(c, 200);
}

static void
model(struct qserve_call *c)
{
	const char *name = c->path + strlen("/v1/models/");

	if (strcmp(name, c->server->with.service.model) != 0) {
		qserve_error(c, 404, "model_not_found",
		    "there is no model '%s' here", name);
		return;
	}
	put_model(c);
	qserve_done(c, 200);
}

static void
page(struct qserve_call *c)
{
	struct qwen_err err;

	if (qserve_page(&c->out, &c->policy, &err) < 0) {
		qserve_error(c, 500, "failed", "%s", err.msg);
		return;
	}
	c->type = "text/html; charset=utf-8";
	qserve_done(c, 200);
}

/* A path that ends with a slash is what others begin with. */
static const struct qserve_route routes[] = {
	{ "GET", "/", QWEN_FORM_CHAT, 1, page },
	{ "GET", "/health", QWEN_FORM_CHAT, 1, health },
	{ "GET", "/metrics", QWEN_FORM_CHAT, 0, qserve_metrics },
	{ "GET", "/v1/models", QWEN_FORM_CHAT, 0, models },
	{ "GET", "/v1/models/", QWEN_FORM_CHAT, 0, model },
	{ "POST", "/v1/completions", QWEN_FORM_COMPLETION, 0, qserve_answer },
	{ "POST", "/v1/chat/completions", QWEN_FORM_CHAT, 0, qserve_answer },
	{ "POST", "/v1/responses", QWEN_FORM_RESPONSES, 0, qserve_answer },
	{ "POST", "/v1/responses/compact", QWEN_FORM_COMPACT, 0,
	    qserve_answer },
	{ "POST", "/v1/responses/input_tokens", QWEN_FORM_RESPONSES, 0,
	    qserve_count_tokens },
	{ "GET", "/v1/responses/", QWEN_FORM_RESPONSES, 0,
	    qserve_response_get },
	{ "DELETE", "/v1/responses/", QWEN_FORM_RESPONSES, 0,
	    qserve_response_delete },
	{ "POST", "/v1/messages", QWEN_FORM_MESSAGES, 0, qserve_answer },
	{ "POST", "/infill", QWEN_FORM_INFILL, 0, qserve_answer },
	{ "POST", "/v1/messages/count_tokens", QWEN_FORM_MESSAGES, 0,
	    qserve_count_tokens },
	{ "POST", "/v1/embeddings", QWEN_FORM_CHAT, 0, qserve_vectors },
	{ "POST", "/v1/rerank", QWEN_FORM_CHAT, 0, qserve_rank },
	{ "POST", "/rerank", QWEN_FORM_CHAT, 0, qserve_rank },
	{ "POST", "/tokenize", QWEN_FORM_CHAT, 0, qserve_tokenize },
	{ "POST", "/detokenize", QWEN_FORM_CHAT, 0, qserve_detokenize },
	{ "POST", "/apply-template", QWEN_FORM_CHAT, 0,
	    qserve_apply_template },
};

static int
fits(const struct qserve_route *r, const char *path)
{
	size_t n = strlen(r->path);

	return r->path[n - 1] == '/' && n > 1 ? strncmp(path, r->path, n) == 0 &&
	    path[n] != '\0' : strcmp(path, r->path) == 0;
}

const struct qserve_route *
qserve_route(const char *method, const char *path, int *status,
    const char **allow)
{
	size_t i;

	*status = 404;
	for (i = 0; i < sizeof routes / sizeof routes[0]; i++) {
		if (!fits(&routes[i], path))
			continue;
		if (strcmp(method, routes[i].method) == 0 ||
		    (strcmp(method, "HEAD") == 0 &&
		    strcmp(routes[i].method, "GET") == 0))
			return &routes[i];
		*status = 405;
		*allow = routes[i].method;
	}
	return NULL;
}
