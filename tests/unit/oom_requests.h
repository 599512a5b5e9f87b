/* SPDX-License-Identifier: ISC */
/*
 * oom_requests.h - the part of out_of_memory.c, which includes it, that parses
 * and answers requests like a server.
 */
#ifndef OOM_REQUESTS_H
#define OOM_REQUESTS_H

#include "base/err.h"
#include "text/request/request.h"

static int
oom_recall(void *arg, const char *id, struct qwen_text *items,
    struct qwen_err *e)
{
	(void)arg;
	(void)id;
	(void)e;
	qwen_text_str(items, "[{\"role\":\"user\",\"content\":\"a\"},{\"id\":"
	    "\"msg_1_1\",\"role\":\"user\",\"content\":\"b\"}]");
	return 1;
}

/* Note the text, or fail if memory ran out while writing it. */
static int
oom_text(struct qwen_text *t)
{
	int rc = t->failed ? qwen_oom(&err) : 0;

	if (rc == 0)
		note(t->s, t->n);
	qwen_text_fini(t);
	return rc;
}

static int
oom_answer(struct qwen_request *q, struct qwen_answer_stream *s,
    struct qwen_text *t)
{
	static const char text[] = "<think>\nhm\n</think>\n\nWell.\n<tool_call>\n"
	    "{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>\nSo END";
	struct qwen_likely one = { 0, -0.5 };
	int32_t *ids;
	size_t n, i;
	int rc = made(qwen_tok_encode(q->service->tok, text, sizeof text - 1, 0,
	    &ids, &n, &err), &ids);

	for (i = 0; i < n && rc == 0; i++) {
		one.id = ids[i];
		rc = qwen_answer_put(q->answer, &one, &one, 1, &err);
		if (rc == 0)
			qwen_answer_stream_step(s, q->answer, t);
	}
	free(ids);
	if (rc >= 0)
		rc = qwen_answer_end(q->answer, "stop", &err);
	if (rc == 0)
		qwen_answer_stream_step(s, q->answer, t);
	return rc;
}

static int
oom_request(const struct qwen_service *s, enum qwen_form form,
    const char *json)
{
	struct qwen_text events = { 0 }, body = { 0 }, items = { 0 };
	struct qwen_request *q;
	struct qwen_answer_stream *sse = NULL;
	int rc;

	if (made(qwen_request_parse(&q, s, form, json, strlen(json), &err),
	    &q) < 0)
		return -1;
	rc = q->refusal.err.code != 0 ? qwen_fail(&err, q->refusal.err.code,
	    "%s", q->refusal.err.msg) : made(qwen_answer_stream_new(&sse, q, 1,
	    &err), &sse);
	if (rc == 0) {
		qwen_answer_stream_begin(sse, &events);
		rc = oom_answer(q, sse, &events);
	}
	if (rc == 0) {
		qwen_answer_stream_end(sse, &events);
		qwen_request_body(q, 1, &body);
		qwen_response_items(q, &items);
		rc = oom_text(&events) < 0 || oom_text(&body) < 0 ||
		    oom_text(&items) < 0 ? -1 : 0;
	}
	qwen_text_fini(&events);
	qwen_text_fini(&body);
	qwen_text_fini(&items);
	qwen_answer_stream_free(sse);
	qwen_request_free(q);
	return rc;
}

#define OOM_SCHEMA "{\"type\":\"object\",\"properties\":{\"n\":{\"type\":" \
	"\"integer\"}}}"
#define OOM_TOOL "\"name\":\"f\",\"description\":\"d\""

static int
oom_forms(const struct qwen_service *s)
{
	return oom_request(s, QWEN_FORM_MESSAGES, "{\"model\":\"q\",\"system\":[{"
	    "\"type\":\"text\",\"text\":\"s\"}],\"messages\":[{\"role\":\"user\","
	    "\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\","
	    "\"text\":\"b\"}]},{\"role\":\"assistant\",\"content\":[{\"type\":"
	    "\"thinking\",\"thinking\":\"h\",\"signature\":\"\"},{\"type\":"
	    "\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}]},{\"role\":"
	    "\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":"
	    "\"t\",\"content\":\"2\"}]}],\"tools\":[{" OOM_TOOL
	    ",\"input_schema\":" OOM_SCHEMA "}],\"stop_sequences\":[\"END\"],"
	    "\"tool_choice\":{\"type\":\"auto\"}}") < 0 ||
	    oom_request(s, QWEN_FORM_RESPONSES, "{\"instructions\":\"i\","
	    "\"input\":[{\"role\":\"developer\",\"content\":\"d\"},{\"type\":"
	    "\"reasoning\",\"content\":[{\"text\":\"h\"}]},{\"type\":"
	    "\"function_call\",\"call_id\":\"c\",\"name\":\"f\",\"arguments\":"
	    "\"{}\"},{\"type\":\"function_call_output\",\"call_id\":\"c\","
	    "\"output\":\"2\"}],\"tools\":[{\"type\":\"function\"," OOM_TOOL
	    ",\"parameters\":" OOM_SCHEMA "}],\"previous_response_id\":\"r\","
	    "\"include\":[\"message.output_text.logprobs\"]}") < 0 ||
	    oom_request(s, QWEN_FORM_CHAT, "{\"messages\":[{\"role\":\"user\","
	    "\"content\":\"a\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
	    OOM_TOOL "}}],\"stream\":true,\"stream_options\":{\"include_usage\":"
	    "true}}") < 0 ||
	    oom_request(s, QWEN_FORM_CHAT, "{\"messages\":[{\"role\":\"user\","
	    "\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[{"
	    "\"type\":\"custom\",\"custom\":{\"name\":\"f\",\"input\":\"i\"}}"
	    "]}],\"tools\":[{\"type\":\"custom\",\"custom\":{" OOM_TOOL "}}],"
	    "\"stream\":true}") < 0 ||
	    oom_request(s, QWEN_FORM_RESPONSES, "{\"input\":[{\"type\":"
	    "\"additional_tools\",\"tools\":[{\"type\":\"function\",\"name\":"
	    "\"g\"}]},{\"type\":\"custom_tool_call\",\"call_id\":\"c\","
	    "\"name\":\"f\",\"input\":\"i\"},{\"type\":"
	    "\"local_shell_call_output\",\"id\":\"l\",\"output\":[1]},{"
	    "\"type\":\"compaction\",\"encrypted_content\":\"qpipe summary 1"
	    "\\nS\"},{\"id\":\"msg_1_1\"},{\"role\":\"user\",\"content\":"
	    "\"a\"}],\"tools\":[{\"type\":\"custom\"," OOM_TOOL "},{\"type\":"
	    "\"namespace\",\"name\":\"n\",\"tools\":[{\"type\":\"function\","
	    "\"name\":\"h\"}]}],\"tool_choice\":{\"type\":\"allowed_tools\","
	    "\"mode\":\"auto\",\"tools\":[{\"type\":\"custom\",\"name\":\"f\"}"
	    "]}}") < 0 ||
	    oom_request(s, QWEN_FORM_COMPACT, "{\"input\":[{\"role\":\"user\","
	    "\"content\":\"a\"}]}") < 0 ||
	    oom_request(s, QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"logprobs\":"
	    "1}") < 0 ||
	    oom_request(s, QWEN_FORM_OLLAMA_CHAT, "{\"model\":\"q\","
	    "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],"
	    "\"tools\":[{\"type\":\"function\",\"function\":{" OOM_TOOL
	    "}}],\"think\":\"low\",\"options\":{\"stop\":[\"END\"]},"
	    "\"logprobs\":true}") < 0 ||
	    oom_request(s, QWEN_FORM_OLLAMA_GENERATE, "{\"model\":\"q\","
	    "\"prompt\":\"a\",\"system\":\"s\",\"context\":[1,2],"
	    "\"format\":" OOM_SCHEMA "}") < 0 ||
	    oom_request(s, QWEN_FORM_LLAMA, "{\"prompt\":[1,\"a\"],"
	    "\"n_probs\":1,\"return_tokens\":true,\"logit_bias\":[[\"a\","
	    "false]]}") < 0 ? -1 : 0;
}

static int
oom_tokens(const struct qwen_service *s)
{
	static const char json[] = "{\"content\":\"ab\",\"with_pieces\":true,"
	    "\"tokens\":[1,2]}";
	static const char chat[] = "{\"messages\":[{\"role\":\"user\","
	    "\"content\":\"a\"}]}";
	struct qwen_text t = { 0 };
	int status, rc;

	rc = qwen_tokens_tokenize(s, 9, json, sizeof json - 1, &status, &t,
	    &err) < 0 || qwen_tokens_tokenize(s, 9, chat, sizeof chat - 1,
	    &status, &t, &err) < 0 || qwen_tokens_detokenize(s, json,
	    sizeof json - 1, &status, &t, &err) < 0 || qwen_tokens_prompt(s,
	    chat, sizeof chat - 1, &status, &t, &err) < 0 ? -1 : 0;
	if (rc == 0)
		return oom_text(&t);
	qwen_text_fini(&t);
	return -1;
}

static int
oom_lists(const struct qwen_tok *tok, const struct qwen_gguf *g)
{
	static const char texts[] = "{\"model\":\"q\",\"input\":[\"a\",[1,2]]}";
	static const char documents[] = "{\"query\":\"q\",\"documents\":[\"a\","
	    "{\"text\":\"b\"}],\"return_documents\":true}";
	static const float v[4];
	static const double scores[2];
	struct qwen_embeddings_request e = { .n = 0 };
	struct qwen_rerank_request r = { .n_top = 0 };
	struct qwen_vectors how = { .tok = tok, .n_vocab = 100,
	    .how = { .first = -1, .last = 2 } };
	struct qwen_ranking rank = { .tok = tok };
	struct qwen_reranker *reranker;
	struct qwen_text t = { 0 };
	int rc;

	if (made(qwen_reranker_open(&reranker, g, NULL, &err), &reranker) < 0)
		return -1;
	rank.how = reranker;
	rc = qwen_embeddings_parse(&e, &how, texts, sizeof texts - 1, &err);
	if (rc == 0) {
		qwen_embeddings_body(&e, "m", v, 2, &t);
		rc = oom_text(&t);
	}
	qwen_embeddings_fini(&e);
	e = (struct qwen_embeddings_request){ .n = 0 };
	if (rc == 0)
		rc = qwen_ollama_embed_parse(&e, &how, 9, "input", texts,
		    sizeof texts - 1, &err);
	if (rc == 0) {
		qwen_ollama_embed_body(&e, "m", v, 2, 0, 0, &t);
		rc = oom_text(&t);
	}
	if (rc == 0 && (rc = qwen_rerank_parse(&r, &rank, documents,
	    sizeof documents - 1, &err)) == 0 && (rc = qwen_rerank_body(&r, 1,
	    "m", scores, &t, &err)) == 0)
		rc = oom_text(&t);
	qwen_text_fini(&t);
	qwen_embeddings_fini(&e);
	qwen_rerank_fini(&r);
	qwen_reranker_close(reranker);
	return rc;
}

/* A conversation that the template accepts only after many changes. */
static int
oom_history(struct qwen_service *s)
{
	static const char source[] = "{% for m in messages %}{% if m.role == "
	    "'system' and not loop.first %}{{ raise_exception('x') }}{% endif "
	    "%}{{ m.content }}{% for c in m.tool_calls %}{{ "
	    "c.function.arguments|tojson }}{% endfor %}{% endfor %}";
	const struct qwen_template *old = s->template;
	struct qwen_template *t = NULL;
	int rc = made(qwen_template_open_text(&t, source, sizeof source - 1,
	    &err), &t);

	s->template = t;
	s->placeholder = "";
	if (rc == 0)
		rc = oom_request(s, QWEN_FORM_CHAT, "{\"messages\":[{\"role\":"
		    "\"system\",\"content\":\"a\"},{\"role\":\"developer\","
		    "\"content\":[{\"type\":\"text\",\"text\":\"b\"}]},{"
		    "\"role\":\"user\",\"content\":[{\"type\":\"image\"}]},{"
		    "\"role\":\"system\",\"content\":\"c\"},{\"role\":"
		    "\"assistant\",\"content\":\"d\",\"tool_calls\":[{"
		    "\"function\":{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": "
		    "\\\"b\"}}]},{\"role\":\"function\",\"content\":\"e\\ud800\""
		    "},{\"role\":\"system\",\"content\":\"g\"},{\"role\":"
		    "\"assistant\",\"function_call\":{\"name\":\"f\","
		    "\"arguments\":\"5\"}},{\"role\":\"system\",\"content\":"
		    "\"h\"},{\"role\":\"assistant\",\"content\":\"i\"}]}");
	qwen_template_close(t);
	s->template = old;
	s->placeholder = NULL;
	return rc;
}

/* A conversation with images. */
static int
oom_images(struct qwen_service *s)
{
	const struct qwen_template *old = s->template;
	struct qwen_template *t = NULL;
	int rc = made(qwen_template_open(&t, "qwen3.5", &err), &t);

	s->template = t;
	s->reads_images = 1;
	if (rc == 0)
		rc = oom_request(s, QWEN_FORM_MESSAGES, "{\"max_tokens\":1,"
		    "\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":"
		    "\"image\",\"source\":{\"type\":\"base64\",\"data\":\"eA==\""
		    "}},{\"type\":\"image\",\"source\":{\"type\":\"url\",\"url\""
		    ":\"file:///a%20b\"}},{\"type\":\"text\",\"text\":\"a\"}]}]}");
	qwen_template_close(t);
	s->template = old;
	s->reads_images = 0;
	return rc;
}

static int
oom_service(const struct qwen_tok *tok, const struct qwen_gguf *g)
{
	struct qwen_grammars grammars = { .gguf = g };
	struct qwen_service s = { .tok = tok, .model = "m", .n_vocab = 100,
	    .max = 99, .grammars = &grammars, .streams = 1,
	    .sample_opt = qwen_sample_opt,
	    .recall = oom_recall };
	struct qwen_template *template = NULL;
	int rc;

	if (made(qwen_tok_decoder_new(&s.spell, tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err), &s.spell) < 0)
		return -1;
	rc = made(qwen_template_open(&template, "qwen3", &err), &template);
	s.template = template;
	if (rc == 0)
		rc = oom_forms(&s) < 0 || oom_history(&s) < 0 ||
		    oom_images(&s) < 0 || oom_tokens(&s) < 0 ||
		    oom_lists(tok, g) < 0 ? -1 : 0;
	qwen_grammars_fini(&grammars);
	qwen_template_close(template);
	qwen_tok_decoder_free(s.spell);
	return rc;
}

#endif
