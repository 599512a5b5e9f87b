/* SPDX-License-Identifier: ISC */
/* route.c - the handler of each method and path. */
#include <string.h>

#include "qserve.h"
#include "text/json/json.h"

static void
health(struct qserve_call *c)
{
	size_t n_ready = 0, n_stuck = 0;
	double now = cli_now();
	struct qserve_engine *e;
	const char *status;

	for (e = c->server->engines; e != NULL; e = e->next) {
		n_ready += (size_t)e->ready;
		n_stuck += (size_t)qserve_engine_is_stuck(e, now);
		/* its answer is for the next health request */
		if (now > e->heard_at + 1)
			qserve_engine_probe(e);
	}
	status = c->server->draining ? "ending" : n_ready == 0 ? "starting" :
	    n_stuck == n_ready ? "stuck" : "ok";
	qwen_json_put(&c->out, "{'status':'%s'", status);
	if (n_stuck > 0)
		qwen_json_put(&c->out, ",'engines':%zu,'stuck':%zu", n_ready,
		    n_stuck);
	qwen_text_str(&c->out, "}");
	qserve_done(c, strcmp(status, "ok") == 0 ? 200 : 503);
}

#define CHAT QWEN_FORM_CHAT
#define OLLAMA QWEN_FORM_OLLAMA_CHAT

/* A kind of call without a state. */
#define DO(begin) &(const struct qserve_kind){ begin, 0, NULL }

/* A path that ends with a slash matches all paths that begin with it. */
static const struct qserve_route routes[] = {
	{ "GET", "/", CHAT, QSERVE_OPEN, DO(qserve_page) },
	{ "GET", "/health", CHAT, QSERVE_OPEN, DO(health) },
	{ "GET", "/v1/health", CHAT, QSERVE_OPEN, DO(health) },
	{ "GET", "/healthz", CHAT, QSERVE_OPEN, DO(health) },
	{ "GET", "/metrics", CHAT, 0, &qserve_metrics },
	{ "GET", "/v1/models", CHAT, 0, DO(qserve_models) },
	{ "GET", "/v1/models/", CHAT, 0, DO(qserve_model) },
	{ "GET", "/models", CHAT, 0, DO(qserve_models) },
	{ "POST", "/v1/completions", QWEN_FORM_COMPLETION, 0, &qserve_answers },
	{ "POST", "/v1/chat/completions", CHAT, 0, &qserve_answers },
	{ "POST", "/v1/responses", QWEN_FORM_RESPONSES, 0, &qserve_answers },
	{ "POST", "/v1/responses/compact", QWEN_FORM_COMPACT, 0,
	    &qserve_answers },
	{ "POST", "/v1/responses/input_tokens", QWEN_FORM_RESPONSES,
	    0, &qserve_counts },
	{ "GET", "/v1/responses/", QWEN_FORM_RESPONSES, 0,
	    DO(qserve_response_get) },
	{ "DELETE", "/v1/responses/", QWEN_FORM_RESPONSES, 0,
	    DO(qserve_response_delete) },
	{ "POST", "/v1/messages", QWEN_FORM_MESSAGES, 0, &qserve_answers },
	{ "POST", "/infill", QWEN_FORM_INFILL, 0, &qserve_answers },
	{ "POST", "/v1/messages/count_tokens", QWEN_FORM_MESSAGES, 0,
	    &qserve_counts },
	{ "POST", "/v1/embeddings", CHAT, 0, &qserve_vectors },
	{ "POST", "/v1/rerank", CHAT, 0, &qserve_ranks },
	{ "POST", "/rerank", CHAT, 0, &qserve_ranks },
	/* of vLLM and llama.cpp */
	{ "POST", "/tokenize", CHAT, QSERVE_TOKENIZE, DO(qserve_tokens) },
	{ "POST", "/detokenize", CHAT, QSERVE_DETOKENIZE, DO(qserve_tokens) },
	{ "GET", "/tokenizer_info", CHAT, 0, DO(qserve_tokenizer_info) },
	{ "POST", "/apply-template", CHAT, QSERVE_TEMPLATE, DO(qserve_tokens) },
	{ "GET", "/props", CHAT, 0, DO(qserve_props) },
	{ "GET", "/slots", CHAT, 0, DO(qserve_slots) },
	{ "POST", "/completion", QWEN_FORM_LLAMA, 0, &qserve_answers },
	{ "POST", "/completions", QWEN_FORM_LLAMA, 0, &qserve_answers },
	/* of Ollama */
	{ "GET", "/api/version", OLLAMA, 0, DO(qserve_ollama_version) },
	{ "GET", "/api/tags", OLLAMA, 0, DO(qserve_ollama_tags) },
	{ "GET", "/api/ps", OLLAMA, 0, DO(qserve_ollama_ps) },
	{ "POST", "/api/show", OLLAMA, 0, DO(qserve_ollama_show) },
	{ "POST", "/api/chat", OLLAMA, 0, &qserve_answers },
	{ "POST", "/api/generate", QWEN_FORM_OLLAMA_GENERATE, 0,
	    &qserve_answers },
	{ "POST", "/api/embed", OLLAMA, QSERVE_INPUT, &qserve_vectors },
	{ "POST", "/api/embeddings", OLLAMA, QSERVE_PROMPT, &qserve_vectors },
	{ "POST", "/api/pull", OLLAMA, 0, DO(qserve_ollama_pull) },
	{ "POST", "/api/push", OLLAMA, 0, DO(qserve_ollama_not_here) },
	{ "POST", "/api/create", OLLAMA, 0, DO(qserve_ollama_not_here) },
	{ "POST", "/api/copy", OLLAMA, 0, DO(qserve_ollama_not_here) },
	{ "DELETE", "/api/delete", OLLAMA, 0, DO(qserve_ollama_not_here) },
};

static int
matches(const struct qserve_route *r, const char *path)
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
		if (!matches(&routes[i], path))
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
