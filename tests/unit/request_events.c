/* SPDX-License-Identifier: ISC */
/*
 * request_events.c - answers as bodies and as events, in the forms of all APIs:
 * the cases of request_events.test.  Events, divided anywhere, assemble to the
 * body.
 */
#include <math.h>

#include "sse_util.h"
#include "text/request/form.h"
#include "tok_util.h"
#include "../cases.h"
#include "../tap.h"

enum { CUTS = 40, N_VOCAB = 258 };

static struct qwen_service service;
static struct qwen_err err;
static uint64_t seed = 1;

static void
start(void)
{
	static struct qwen_grammars grammars;
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	if (qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		abort();
	service.model = "m";
	service.n_vocab = N_VOCAB;
	service.max = 1000;
	service.streams = service.echoes = 1;
	grammars.gguf = g;
	service.grammars = &grammars;
	service.sample_opt = qwen_sample_opt;
}

/* An answer's text as tokens, which are its bytes, and where it stands. */
struct source {
	int32_t	*ids;
	size_t	 n, at;
	int	 cut;
};

static void
open_source(struct source *s, const char *text)
{
	*s = (struct source){ .at = 0 };
	if (qwen_tok_encode(service.tok, text, strlen(text), 0, &s->ids, &s->n,
	    &err) < 0)
		abort();
}

/* The text of answer i: those of the case in turn. */
static const char *
text_of(const struct test_case *c, size_t i)
{
	size_t n = 0, k = 0;
	int j;

	for (j = 0; j < c->n; j++)
		n += strcmp(c->l[j].key, "answer") == 0;
	for (j = 0; j < c->n; j++) {
		if (strcmp(c->l[j].key, "answer") == 0 && k++ == i % n)
			return c->l[j].text.s;
	}
	return "";
}

static void
put(struct qwen_answer *a, struct source *s, const char *finish)
{
	const struct qwen_request *q = a->request;
	struct qwen_likely top[QWEN_LOGPROBS_MAX], one;
	size_t k;

	if (s->at < s->n && !s->cut) {
		one = (struct qwen_likely){ s->ids[s->at++], -0.25 };
		for (k = 0; k < q->n_top; k++)
			top[k] = (struct qwen_likely){
			    (int32_t)((s->at * 7 + k) % 256), -1.5 };
		s->cut = qwen_answer_put(a, &one, top, q->n_top, &err);
		if (s->cut < 0)
			abort();
		return;
	}
	if (qwen_answer_end(a, finish, &err) < 0)
		abort();
}

/* The prompt, whose first token none comes before. */
static void
echo(struct qwen_answer *a)
{
	static const struct qwen_likely top = { 4, -1.25 };
	struct qwen_likely one;
	size_t i;

	for (i = 0; a->request->echo && i < a->prompt->n; i++) {
		one = (struct qwen_likely){ a->prompt->id[i],
		    i == 0 ? NAN : -0.75 };
		if (qwen_answer_echo(a, &one, &top, i > 0 &&
		    a->request->n_top > 0, &err) < 0)
			abort();
	}
}

/*
 * All answers of the request, side by side, and the events of that: with up to
 * max tokens at once, 0: all of them.
 */
static void
run(struct qwen_request *q, const struct test_case *c, size_t max,
    struct qwen_text *events)
{
	const char *finish = case_get(c, "finish") != NULL ?
	    case_str(c, "finish") : "stop";
	struct source *s = calloc(q->n_answers, sizeof *s);
	struct qwen_answer_stream *out;
	size_t i, k, left = q->n_answers;

	if (s == NULL || qwen_answer_stream_new(&out, q, 17, &err) < 0)
		abort();
	for (i = 0; i < q->n_answers; i++) {
		open_source(&s[i], text_of(c, i));
		echo(&q->answer[i]);
	}
	qwen_answer_stream_begin(out, events);
	while (left > 0) {
		i = max == 0 ? q->n_answers - left : rnd(&seed) % q->n_answers;
		if (q->answer[i].finish != NULL)
			continue;
		k = max == 0 ? SIZE_MAX : 1 + rnd(&seed) % max;
		while (k-- > 0 && q->answer[i].finish == NULL)
			put(&q->answer[i], &s[i], finish);
		left -= q->answer[i].finish != NULL;
		qwen_answer_stream_step(out, &q->answer[i], events);
	}
	qwen_answer_stream_end(out, events);
	qwen_answer_stream_free(out);
	for (i = 0; i < q->n_answers; i++)
		free(s[i].ids);
	free(s);
}

static enum qwen_form
form_of(const struct test_case *c)
{
	static const struct { const char *name; enum qwen_form form; } row[] = {
		{ "completion", QWEN_FORM_COMPLETION },
		{ "chat", QWEN_FORM_CHAT },
		{ "responses", QWEN_FORM_RESPONSES },
		{ "messages", QWEN_FORM_MESSAGES },
		{ "ollama chat", QWEN_FORM_OLLAMA_CHAT },
		{ "ollama generate", QWEN_FORM_OLLAMA_GENERATE },
		{ "llama", QWEN_FORM_LLAMA },
		{ "compact", QWEN_FORM_COMPACT },
	};
	size_t i;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		if (strcmp(case_str(c, "form"), row[i].name) == 0)
			return row[i].form;
	}
	case_bad(case_str(c, "form"));
	return QWEN_FORM_PLAIN;
}

static struct qwen_request *
parse(const struct test_case *c)
{
	const struct qwen_text *json = case_get(c, "request");
	struct qwen_request *q;

	if (qwen_request_parse(&q, &service, form_of(c), json->s, json->n,
	    &err) < 0)
		abort();
	q->number = 7;
	q->n_cached = 2;
	q->has_cached = case_get(c, "cached") != NULL;
	return q;
}

static void
same(const struct qwen_text *got, const struct test_case *c, const char *key)
{
	const struct qwen_text *want = case_get(c, key);

	if (want != NULL && !ok(strcmp(got->s, want->s) == 0, "%s",
	    case_str(c, "name")))
		printf("# %s: got\n%s\n# wanted\n%s\n", key, got->s, want->s);
}

/*
 * Whether the tokens in a chat's logprobs, put together, are its content: what
 * OpenAI's reference calls them, "a list of message content tokens".
 */
static int
spell_content(const char *body)
{
	yyjson_doc *d = yyjson_read(body, strlen(body),
	    YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *list = yyjson_obj_get(yyjson_doc_get_root(d), "choices");
	yyjson_val *choice, *v, *byte, *content;
	struct qwen_text t = { 0 };
	size_t i, k, j, n, m, l;
	int same = 1;
	char one;

	yyjson_arr_foreach(list, i, n, choice) {
		t.n = 0;
		yyjson_arr_foreach(yyjson_obj_get(yyjson_obj_get(choice,
		    "logprobs"), "content"), k, m, v) {
			yyjson_arr_foreach(yyjson_obj_get(v, "bytes"), j, l,
			    byte) {
				one = (char)strtol(yyjson_get_raw(byte), NULL,
				    10);
				qwen_text_add(&t, &one, 1);
			}
		}
		content = yyjson_obj_get(yyjson_obj_get(choice, "message"),
		    "content");
		if (t.n != yyjson_get_len(content) || (t.n > 0 &&
		    memcmp(t.s, yyjson_get_str(content), t.n) != 0)) {
			printf("# %.*s: %s\n", (int)t.n, t.n > 0 ? t.s : "",
			    yyjson_get_str(content));
			same = 0;
		}
	}
	qwen_text_fini(&t);
	yyjson_doc_free(d);
	return same;
}

/* Once, and then in other pieces: is it always the same? */
static void
check(const struct test_case *c)
{
	struct qwen_text body = { 0 }, events = { 0 };
	struct qwen_request *q;
	struct sse_body b;
	int i, same_body = 0;

	for (i = 0; i < CUTS; i++) {
		q = parse(c);
		q->include_usage = 1;
		body.n = events.n = 0;
		run(q, c, (size_t)(1 + i % 9), &events);
		qwen_request_body(q, 17, &body);
		if (q->refusal.err.code != 0 || body.failed || events.failed)
			abort();
		sse_body_init(&b);
		sse_feed(&b, q->form, events.s, events.n);
		same_body += sse_is(&b, q->form, body.s, body.n);
		if (same_body <= i) {
			printf("# got %.900s\n# wanted %.900s\n",
			    yyjson_mut_val_write(b.root, 0, NULL), body.s);
			i = CUTS;
		}
		sse_body_fini(&b);
		qwen_request_free(q);
	}
	ok(same_body == CUTS, "%s: %d ways to cut its events",
	    case_str(c, "name"), CUTS);
	same(&body, c, "body");
	if (strcmp(case_str(c, "form"), "chat") == 0 &&
	    strstr(case_str(c, "request"), "\"logprobs\":true") != NULL)
		ok(spell_content(body.s), "%s: tokens of logprobs are the "
		    "content", case_str(c, "name"));
	qwen_text_fini(&body);
	qwen_text_fini(&events);
}

/* Whether the same is asked for. */
static int
same_request(const struct qwen_request *a, const struct qwen_request *b)
{
	size_t i;
	int rc = a->refusal.err.code == 0 && b->refusal.err.code == 0 &&
	    a->n_prompts == b->n_prompts && a->n == b->n &&
	    a->n_prompt_tokens == b->n_prompt_tokens &&
	    memcmp(a->prompt[0].id, b->prompt[0].id, a->n_prompt_tokens *
	    sizeof *a->prompt[0].id) == 0 && a->max == b->max &&
	    a->n_stop == b->n_stop && a->grammar == b->grammar &&
	    a->one_call == b->one_call && a->n_settings == b->n_settings &&
	    a->n_bias == b->n_bias && a->thinking == b->thinking &&
	    a->n_tools == b->n_tools && a->logprobs == b->logprobs &&
	    a->n_top == b->n_top && a->stream == b->stream &&
	    (a->n_tools == 0 || memcmp(a->tools, b->tools, a->n_tools) == 0);

	for (i = 0; rc && i < a->n_stop; i++)
		rc = a->stop[i].len == b->stop[i].len && memcmp(a->stop[i].s,
		    b->stop[i].s, a->stop[i].len) == 0;
	for (i = 0; rc && i < a->n_settings; i++)
		rc = strcmp(a->setting[i].value, b->setting[i].value) == 0;
	return rc;
}

static void
run_case(const struct test_case *c)
{
	struct qwen_template *t = NULL;
	const char *name = case_get(c, "template") != NULL ?
	    case_str(c, "template") : "qwen3";
	const struct qwen_text *json = case_get(c, "same");
	struct qwen_request *q, *chat;
	struct qwen_text out = { 0 };

	if (qwen_template_open(&t, name, &err) < 0)
		abort();
	service.template = t;
	service.placeholder = case_get(c, "placeholder") != NULL ?
	    case_str(c, "placeholder") : NULL;
	q = parse(c);
	if (q->refusal.err.code != 0) {
		qwen_request_body(q, 17, &out);
		same(&out, c, "error");
		ok(case_get(c, "error") != NULL, "%s", out.s);
	} else if (case_get(c, "error") != NULL) {
		ok(0, "%s: it is refused", case_str(c, "name"));
	} else if (json != NULL) {
		if (qwen_request_parse(&chat, &service, QWEN_FORM_CHAT, json->s,
		    json->n, &err) < 0)
			abort();
		ok(same_request(q, chat), "%s: as a chat (%s)",
		    case_str(c, "name"), chat->refusal.err.msg);
		qwen_request_free(chat);
	} else {
		run(q, c, 0, &out);
		same(&out, c, "events");
		if (q->form != QWEN_FORM_COMPACT)
			check(c);
		out.n = 0;
		qwen_request_body(q, 17, &out);
		if (q->form == QWEN_FORM_COMPACT)
			same(&out, c, "body");
	}
	qwen_text_fini(&out);
	qwen_request_free(q);
	qwen_template_close(t);
}

/* What fails when some of it was told. */
static void
test_failure(void)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	struct qwen_answer_stream *s;

	if (qwen_request_parse(&q, &service, QWEN_FORM_COMPLETION,
	    "{\"prompt\":\"a\"}", 14, &err) < 0 ||
	    qwen_answer_stream_new(&s, q, 17, &err) < 0)
		abort();
	qwen_answer_stream_begin(s, &t);
	qwen_refuse(&q->refusal, "unavailable", NULL, "the engine is gone");
	qwen_answer_stream_end(s, &t);
	ok(strcmp(t.s, "data: {\"error\":{\"message\":\"the engine is gone\","
	    "\"type\":\"server_error\",\"param\":null,\"code\":\"unavailable\""
	    "}}\n\ndata: [DONE]\n\n") == 0 &&
	    qwen_refusal_status(&q->refusal) == 503, "%s", t.s);
	qwen_answer_stream_free(s);
	qwen_request_free(q);
	qwen_text_fini(&t);
}

/* What responses left, by id. */
static int
recall(void *arg, const char *id, struct qwen_text *items, struct qwen_err *e)
{
	struct qwen_text *kept = arg;

	(void)e;
	if (strcmp(id, "resp_7") != 0)
		return 0;
	qwen_text_add(items, kept->s, kept->n);
	return 1;
}

static struct qwen_request *
respond(const char *json, const char *answer, struct qwen_text *kept)
{
	struct test_case c = { .n = 0 };
	struct qwen_request *q;
	struct qwen_text t = { 0 };

	if (qwen_request_parse(&q, &service, QWEN_FORM_RESPONSES, json,
	    strlen(json), &err) < 0)
		abort();
	q->number = 7;
	if (answer == NULL)
		return q;
	strcpy(c.l[0].key, "answer");
	qwen_text_str(&c.l[0].text, answer);
	c.n = 1;
	run(q, &c, 0, &t);
	kept->n = 0;
	qwen_response_items(q, kept);
	case_fini(&c);
	qwen_text_fini(&t);
	qwen_request_free(q);
	return NULL;
}

static void
test_recall(void)
{
	struct qwen_text kept = { 0 };
	struct qwen_template *t;
	struct qwen_request *a, *b;

	if (qwen_template_open(&t, "qwen3.5", &err) < 0)
		abort();
	service.template = t;
	service.recall = recall;
	service.recall_arg = &kept;
	respond("{\"input\":\"a\",\"instructions\":\"once\"}", "Hm.</think>"
	    "One.", &kept);
	ok(strcmp(kept.s, "[{\"role\":\"user\",\"content\":\"a\"},{\"id\":"
	    "\"rs_7_0\",\"type\":\"reasoning\",\"status\":\"completed\","
	    "\"summary\":[],\"content\":[{\"type\":\"reasoning_text\","
	    "\"text\":\"Hm.\"}]},{\"id\":\"msg_7_1\",\"type\":\"message\","
	    "\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{"
	    "\"type\":\"output_text\",\"text\":\"One.\",\"annotations\":[],"
	    "\"logprobs\":[]}]}]") == 0, "items: %s", kept.s);
	respond("{\"input\":[{\"role\":\"user\",\"content\":\"b\"}],"
	    "\"previous_response_id\":\"resp_7\"}", "Hm.</think>Two.", &kept);
	a = respond("{\"input\":\"c\",\"previous_response_id\":\"resp_7\","
	    "\"instructions\":\"x\",\"store\":false}", NULL, NULL);
	b = respond("{\"input\":[{\"role\":\"system\",\"content\":\"x\"},{"
	    "\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\","
	    "\"content\":\"One.\"},{\"role\":\"user\",\"content\":\"b\"},{"
	    "\"role\":\"assistant\",\"content\":\"Two.\"},{\"role\":\"user\","
	    "\"content\":\"c\"}]}", NULL, NULL);
	ok(same_request(a, b) && strcmp(a->previous, "resp_7") == 0 &&
	    a->items == NULL && b->items != NULL, "turns of before, and new "
	    "instructions");
	qwen_request_free(a);
	qwen_request_free(b);
	a = respond("{\"input\":\"c\",\"previous_response_id\":\"resp_8\"}",
	    NULL, NULL);
	ok(strcmp(a->refusal.code, "previous_response_not_found") == 0, "%s",
	    a->refusal.err.msg);
	qwen_request_free(a);
	a = respond("{\"input\":[{\"role\":\"user\",\"content\":\"x\"},{"
	    "\"type\":\"item_reference\",\"id\":\"msg_7_1\"},{\"role\":"
	    "\"user\",\"content\":\"y\"}],\"store\":false}", NULL, NULL);
	b = respond("{\"input\":[{\"role\":\"user\",\"content\":\"x\"},{"
	    "\"role\":\"assistant\",\"content\":\"One.\"},{\"role\":"
	    "\"user\",\"content\":\"y\"}]}", NULL, NULL);
	ok(same_request(a, b), "an item by its id: %s", a->refusal.err.msg);
	qwen_request_free(a);
	qwen_request_free(b);
	a = respond("{\"input\":[{\"id\":\"msg_7_9\"}]}", NULL, NULL);
	ok(qwen_refusal_status(&a->refusal) == 404, "%s", a->refusal.err.msg);
	qwen_request_free(a);
	qwen_text_fini(&kept);
	service.recall = NULL;
	qwen_template_close(t);
}

/* The text of a custom tool's call, whatever became of its arguments. */
static void
test_input(void)
{
	static const struct { const char *arguments, *input; } row[] = {
		{ "{\"input\":\"a\\n\\u00e9\"}", "a\n\xc3\xa9" },
		{ "{\"text\":\"a\"}", "a" }, { "{}", "{}" },
		{ "{\"input\":7}", "{\"input\":7}" },
		{ "{\"a\":\"x\",\"b\":\"y\"}", "{\"a\":\"x\",\"b\":\"y\"}" },
		/* cut: as much of the text as is there */
		{ "{\"input\":\"ab", "ab" }, { "{\"input\":\"ab\\", "ab" },
		{ "{\"input\":\"ab\\u00e", "ab" },
		{ "{\"input\":\"ab\"", "ab" }, { "{\"inp", "" },
	};
	struct qwen_request q = { .n_alias = 0 };
	struct qwen_answer a = { .request = &q };
	struct qwen_block b = { .kind = QWEN_BLOCK_CALL, .n_name = 1 };
	struct qwen_text got = { 0 }, want = { 0 };
	size_t i;

	for (i = 0; i < sizeof row / sizeof row[0]; i++) {
		a.calls.n = got.n = want.n = 0;
		qwen_text_fmt(&a.calls, "f%s", row[i].arguments);
		b.n = a.calls.n;
		qwen_block_input(&got, &a, &b);
		qwen_text_json(&want, row[i].input, strlen(row[i].input));
		ok(!got.failed && strcmp(got.s, want.s) == 0, "%s: %s",
		    row[i].arguments, got.s);
	}
	qwen_text_fini(&a.calls);
	qwen_text_fini(&got);
	qwen_text_fini(&want);
}

int
main(void)
{
	FILE *f = case_open("unit/request_events.test");
	static struct test_case c;

	start();
	while (case_next(&c, f, " name form template placeholder request answer "
	    "finish cached events body error same "))
		run_case(&c);
	fclose(f);
	test_failure();
	test_recall();
	test_input();
	return done_testing();
}
