/* SPDX-License-Identifier: ISC */
/*
 * request.c - requests to a server: parsing a body, answers token by token,
 * stop strings, messages.  tests/cli/qbatch.t tests the rest.
 */
#include "tok_util.h"
#include "text/grammar/grammar.h"
#include "qwen/sample.h"
#include "text/request/request.h"
#include "../tap.h"

static struct qwen_service service;
static struct qwen_err err;
static struct qwen_unknown unknown;

static void
start(void)
{
	static struct qwen_template *t;
	static struct qwen_grammars grammars;
	static struct qwen_str stop = { "END", 3 };
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	if (qwen_template_open(&t, "qwen3", &err) < 0 ||
	    qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		abort();
	service.template = t;
	service.model = "m";
	service.n_vocab = 258;
	service.max = 7;
	service.stop = &stop;
	service.n_stop = 1;
	grammars.gguf = g;
	service.grammars = &grammars;
	service.sample_opt = qwen_sample_opt;
}

static struct qwen_request *
parse(enum qwen_form form, const char *json)
{
	struct qwen_request *q;

	if (qwen_request_parse(&q, &service, form, json, strlen(json),
	    &err) < 0)
		abort();
	return q;
}

/* ----------------------------------------------------------------- reading */

static void
test_settings(void)
{
	static const char *const want[] = {
		"temp", "0.70", "top-p", "0.9", "top-k", "40", "min-p", "1e-2",
		"seed", "18446744073709551615", "presence-penalty", "1",
		"frequency-penalty", "-0.5", "repeat-penalty", "1.1",
		"min-tokens", "3",
	};
	struct qwen_request *q = parse(QWEN_FORM_COMPLETION,
	    "{\"prompt\":\"ab\",\"top_p\":0.9,\"temperature\":0.70,"
	    "\"min_p\":1e-2,\"top_k\":40,\"seed\":18446744073709551615,"
	    "\"presence_penalty\":1,\"frequency_penalty\":-0.5,"
	    "\"repetition_penalty\":1.1,\"min_tokens\":3,"
	    "\"logit_bias\":{\"5\":-100,\"7\":1.5}}");
	struct qwen_sampler *s;
	size_t i, k, same = 0;
	int set = 0;

	for (i = 0; i < q->n_settings; i++) {
		for (k = 0; k < 9; k++)
			same += strcmp(q->setting[i].option, want[2 * k]) ==
			    0 && strcmp(q->setting[i].value, want[2 * k + 1]) ==
			    0;
	}
	ok(same == 9 && q->n_settings == 9, "settings, digits as they are");
	ok(q->n_bias == 2 && q->bias_id[0] == 5 && q->bias[0] == -100 &&
	    q->bias_id[1] == 7 && q->bias[1] == 1.5, "biases");
	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	for (i = 0; i < q->n_settings; i++)
		set += qwen_sampler_set(s, q->setting[i].option,
		    q->setting[i].value, &err) == 0;
	ok(set == 9, "a sampler has all of these options");
	ok(q->min == 3 && q->max == 7 && q->n_stop == 1 && q->n == 1 &&
	    q->n_prompts == 1 && q->n_prompt_tokens == 2,
	    "what is not said is the service's");
	qwen_sampler_free(s);
	qwen_request_free(q);
}

static void
refused(enum qwen_form form, const char *json, const char *code,
    const char *msg)
{
	struct qwen_request *q = parse(form, json);
	struct qwen_text t = { 0 }, want = { 0 };

	qwen_request_body(q, 0, &t);
	qwen_text_str(&want, "{\"error\":{\"message\":");
	qwen_text_json(&want, msg, strlen(msg));
	qwen_text_fmt(&want, ",\"type\":\"invalid_request_error\",\"param\":"
	    "%s%s%s,\"code\":\"%s\"}}", q->refusal.param != NULL ? "\"" : "",
	    q->refusal.param != NULL ? q->refusal.param : "null",
	    q->refusal.param != NULL ? "\"" : "", code);
	ok(strcmp(t.s, want.s) == 0, "%s", t.s);
	qwen_text_fini(&t);
	qwen_text_fini(&want);
	qwen_request_free(q);
}

/* What a member of a completion makes of an option: it has this value. */
static void
setting_is(const char *member, const char *option, const char *want)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;

	qwen_text_fmt(&t, "{\"prompt\":\"a\",\"max_tokens\":5,%s}", member);
	q = parse(QWEN_FORM_COMPLETION, t.s);
	ok(q->refusal.err.code == 0 && q->n_settings == 1 &&
	    strcmp(q->setting[0].option, option) == 0 &&
	    strcmp(q->setting[0].value, want) == 0, "%s is %s %s", member,
	    option, want);
	qwen_request_free(q);
	qwen_text_fini(&t);
}

/* The number of tokens that a field asks for, in a completion. */
static void
max_is(const char *member, size_t want)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;

	qwen_text_fmt(&t, "{\"prompt\":\"a\",%s}", member);
	q = parse(QWEN_FORM_COMPLETION, t.s);
	ok(q->refusal.err.code == 0 && q->max == want, "%s: %zu tokens", member,
	    q->max);
	qwen_request_free(q);
	qwen_text_fini(&t);
}

/* LM Studio, llama.cpp, Ollama and transformers have these. */
static void
test_bounds(void)
{
	max_is("\"max_tokens\":-1", INT64_MAX);
	max_is("\"max_completion_tokens\":-1", INT64_MAX);
	max_is("\"n_predict\":-1", INT64_MAX);
	max_is("\"n_predict\":-2", INT64_MAX);
	max_is("\"num_predict\":-1", INT64_MAX);
	max_is("\"n_predict\":2", 2);
	max_is("\"num_predict\":3.0", 3);
	max_is("\"max_new_tokens\":4", 4);
	max_is("\"max_tokens\":5,\"n_predict\":9", 5);
	max_is("\"max_tokens\":null,\"n_predict\":9", 9);
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"max_tokens\":-3}",
	    "invalid_request", "max_tokens: -3 is not a whole number of at "
	    "least 1");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"n_predict\":"
	    "\"2\"}", "invalid_request", "n_predict: \"2\" is not a number");
	setting_is("\"top_k\":-1", "top-k", "0");
	setting_is("\"top_k\":0", "top-k", "0");
	setting_is("\"top_n_sigma\":-1.0", "top-n-sigma", "0");
	setting_is("\"repeat_last_n\":-1", "penalty-last-n", "-1");
}

/* All settings of a completion as one text, "option=value ..." */
static void
settings_are(const char *members, const char *want)
{
	struct qwen_text t = { 0 }, got = { 0 };
	struct qwen_request *q;
	struct qwen_sampler *s;
	size_t i, set = 0;

	qwen_text_fmt(&t, "{\"prompt\":\"a\",%s}", members);
	q = parse(QWEN_FORM_COMPLETION, t.s);
	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	qwen_text_str(&got, "");
	for (i = 0; i < q->n_settings; i++) {
		qwen_text_fmt(&got, "%s%s=%s", i > 0 ? " " : "",
		    q->setting[i].option, q->setting[i].value);
		set += qwen_sampler_set(s, q->setting[i].option,
		    q->setting[i].value, &err) == 0;
	}
	ok(q->refusal.err.code == 0 && set == q->n_settings && strcmp(got.s,
	    want) == 0, "%s: %s", members, q->refusal.err.code != 0 ?
	    q->refusal.err.msg : got.s);
	qwen_sampler_free(s);
	qwen_request_free(q);
	qwen_text_fini(&got);
	qwen_text_fini(&t);
}

/* The request's settings, as those of a sampler: "temp=1 top-k=40". */
static void
describe_request(const char *fields, char buf[2048])
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	struct qwen_sampler *s;
	size_t i;

	qwen_text_fmt(&t, "{\"prompt\":\"a\",%s}", fields);
	q = parse(QWEN_FORM_COMPLETION, t.s);
	if (qwen_sampler_new(&s, &err) < 0)
		abort();
	for (i = 0; i < q->n_settings; i++) {
		if (qwen_sampler_set(s, q->setting[i].option,
		    q->setting[i].value, &err) < 0)
			break;
	}
	if (q->refusal.err.code != 0 || i < q->n_settings)
		snprintf(buf, 2048, "%s", q->refusal.err.code != 0 ?
		    q->refusal.err.msg : err.msg);
	else
		qwen_sampler_describe(s, buf, 2048);
	qwen_sampler_free(s);
	qwen_request_free(q);
	qwen_text_fini(&t);
}

/* A value of an option, and how a request has it. */
static const char *
value_of(const struct qwen_sample_opt *o, const char **json)
{
	*json = o->type == QWEN_SAMPLE_FLAG ? "true" :
	    o->type == QWEN_SAMPLE_LIST ? "[\"x\"]" :
	    o->type == QWEN_SAMPLE_REAL && o->def == 1 ? "0.5" : "1";
	return o->type == QWEN_SAMPLE_LIST ? "x" :
	    o->type == QWEN_SAMPLE_FLAG ? "1" : *json;
}

/* Each field of an option does what the option does. */
static void
test_sampling_fields(void)
{
	struct qwen_unknown strict = { .strict = 1 };
	const struct qwen_sample_opt *o;
	struct qwen_text rest = { 0 }, all = { 0 };
	struct qwen_sampler *s, *each;
	char fields[64], got[2048], want[2048];
	const char *json, *value;
	size_t i, k;

	service.unknown = &strict;
	if (qwen_sampler_new(&each, &err) < 0)
		abort();
	for (i = 0; (o = qwen_sample_opt(i)) != NULL; i++) {
		if (o->fields[0] == NULL) {
			qwen_text_fmt(&rest, " %s", o->name);
			continue;
		}
		value = value_of(o, &json);
		if (qwen_sampler_new(&s, &err) < 0 ||
		    qwen_sampler_set(s, o->name, value, &err) < 0 ||
		    qwen_sampler_set(each, o->name, value, &err) < 0)
			abort();
		qwen_sampler_describe(s, want, sizeof want);
		qwen_sampler_free(s);
		for (k = 0; o->fields[k] != NULL; k++) {
			snprintf(fields, sizeof fields, "\"%s\":%s",
			    o->fields[k], json);
			describe_request(fields, got);
			ok(want[0] != '\0' && strcmp(got, want) == 0,
			    "%s: %s", fields, got);
		}
		qwen_text_fmt(&all, "%s%s", all.n > 0 ? "," : "", fields);
		if (!o->below_off)
			continue;
		snprintf(fields, sizeof fields, "\"%s\":-1", o->fields[0]);
		describe_request(fields, got);
		ok(got[0] == '\0', "%s is off", fields);
	}
	describe_request(all.s, got);
	qwen_sampler_describe(each, want, sizeof want);
	ok(strcmp(got, want) == 0, "all fields: %s", got);
	ok(strcmp(rest.s, " chain stop logit-bias mirostat") == 0,
	    "options without such a field:%s", rest.s);
	qwen_sampler_free(each);
	qwen_text_fini(&rest);
	qwen_text_fini(&all);
	service.unknown = NULL;
}

/* By the names of llama.cpp's server, whose README has the defaults. */
static void
test_samplers(void)
{
	struct qwen_request *q;

	settings_are("\"temperature\":0", "temp=0 greedy=1");
	settings_are("\"temperature\":0.0,\"repeat_penalty\":1.1",
	    "repeat-penalty=1.1 temp=0 greedy=1");
	settings_are("\"mirostat\":0,\"mirostat_tau\":4", "mirostat=0");
	settings_are("\"mirostat\":2", "mirostat=5");
	settings_are("\"mirostat\":2,\"mirostat_tau\":4.5,"
	    "\"mirostat_eta\":0.2", "mirostat-eta=0.2 mirostat=4.5");
	settings_are("\"dry_multiplier\":0.8,\"dry_base\":1.75,"
	    "\"dry_allowed_length\":3,\"dry_penalty_last_n\":-1,"
	    "\"dry_sequence_breakers\":[\"\\n\",\":\"]",
	    "dry-multiplier=0.8 dry-base=1.75 dry-allowed-length=3 "
	    "dry-last-n=-1 dry-breaker=\n dry-breaker=:");
	settings_are("\"samplers\":[\"dry\",\"top_k\",\"typ_p\",\"top_p\","
	    "\"min_p\",\"xtc\",\"temperature\"]",
	    "chain=dry,top-k,typical,top-p,min-p,xtc,dyntemp,temp");
	settings_are("\"samplers\":\"edskypmxt\"", "chain=penalties,dry,"
	    "top-n-sigma,top-k,typical,top-p,min-p,xtc,dyntemp,temp");
	settings_are("\"top_k\":40,\"top_p\":0.99,\"samplers\":[\"top_k\","
	    "\"top_p\",\"infill\"]",
	    "top-k=40 top-p=0.99 chain=top-k,top-p greedy=1");
	settings_are("\"samplers\":[],\"min_keep\":1,\"seed\":null", "");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"mirostat\":1}",
	    "invalid_request", "mirostat: 1 is not supported; use 0, "
	    "or 2 for Mirostat 2");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"samplers\":["
	    "\"tfs_z\"]}", "invalid_request", "samplers: unknown sampler "
	    "\"tfs_z\"; known are penalties, dry, top_n_sigma, top_k, typ_p, top_p, "
	    "min_p, xtc, temperature and infill");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\","
	    "\"dry_sequence_breakers\":[]}", "invalid_request",
	    "dry_sequence_breakers: is not a non-empty list of strings");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"min_keep\":2}",
	    "invalid_request", "min_keep is not supported");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"stop_token_ids\":"
	    "[258]}", "invalid_request", "stop_token_ids: 258 is not a token "
	    "of this model");
	q = parse(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"seed\":-1,"
	    "\"dynatemp_range\":0.5,\"stop_token_ids\":[7,5]}");
	ok(q->refusal.err.code == 0 && q->seed_from == QWEN_SEED_RANDOM &&
	    q->n_settings == 0 && q->temp_range == 0.5 && q->n_stop_ids == 2 &&
	    q->stop_id[1] == 5, "-1 is a seed that is drawn");
	qwen_request_free(q);
}

static void
test_numbers(void)
{
	struct qwen_request *q = parse(QWEN_FORM_COMPLETION, "{\"prompt\":["
	    "5.0,6],\"max_tokens\":2.0,\"n\":3e0}");

	ok(q->refusal.err.code == 0 && q->max == 2 && q->n == 3 &&
	    q->prompt[0].id[0] == 5, "2.0 is 2");
	qwen_request_free(q);
	setting_is("\"seed\":-2", "seed", "18446744073709551614");
	setting_is("\"seed\":-9223372036854775808", "seed",
	    "9223372036854775808");
	setting_is("\"seed\":7.0", "seed", "7");
	setting_is("\"repeat_penalty\":1.25", "repeat-penalty", "1.25");
	setting_is("\"typical_p\":0.5", "typical", "0.5");
	setting_is("\"ignore_eos\":true", "min-tokens", "5");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"max_tokens\":2.5}",
	    "invalid_request", "max_tokens: 2.5 is not a whole number of at "
	    "least 1");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"ignore_eos\":1}",
	    "invalid_request", "ignore_eos: is not true or false");
}

static void
test_refused(void)
{
	struct qwen_request *q;

	refused(QWEN_FORM_CHAT, "{\"prompt\":\"a\"}", "invalid_request",
	    "messages is missing");
	refused(QWEN_FORM_COMPLETION, "[]", "invalid_request",
	    "the request is not a JSON object");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":", "invalid_json",
	    "invalid JSON at byte 11: unexpected end of data");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"metadata\":[{\"k\":1,"
	    "\"\\u006b\":2}]}", "invalid_json", "duplicate key \"k\"");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":[258]}", "invalid_request",
	    "prompt: 258 is not a token of this model");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"logit_bias\":{"
	    "\"258\":1}}", "invalid_request", "logit_bias: \"258\" is not a "
	    "token of this model");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"logit_bias\":{"
	    "\"5\":1,\"05\":1}}", "invalid_request", "logit_bias: token 5 is "
	    "given twice");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"logit_bias\":{"
	    "\"5\":1e39}}", "invalid_request", "logit_bias: 1e39 is too "
	    "large");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"stream\":true}",
	    "invalid_request", "stream is not supported");
	service.streams = 1;
	q = parse(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"stream\":true}");
	ok(q->refusal.err.code == 0 && q->stream, "but it is where it can be");
	qwen_request_free(q);
}

/* A request that is refused for a member (or NULL), in these words. */
static void
refused_for(const char *param, const char *json, const char *msg)
{
	struct qwen_request *q = parse(QWEN_FORM_CHAT, json);

	ok(q->refusal.err.code != 0 && strcmp(q->refusal.err.msg, msg) == 0 &&
	    (param == NULL ? q->refusal.param == NULL : q->refusal.param !=
	    NULL && strcmp(q->refusal.param, param) == 0), "%s: %s", param !=
	    NULL ? param : "no member", q->refusal.err.msg);
	qwen_request_free(q);
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define PARTS(t) "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":" \
	"\"text\",\"text\":\"a\"},{\"type\":\"" t "\"}]}]}"

static void
test_members(void)
{
	struct qwen_unknown u = { .n = 0 };
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	int i;

	refused_for("max_tokens", "{" HI ",\"max_tokens\":0}",
	    "max_tokens: 0 is not a whole number of at least 1");
	refused_for("temperature", "{" HI ",\"temperature\":\"hot\"}",
	    "temperature: \"hot\" is not a number");
	refused_for("structural_tag", "{" HI ",\"structural_tag\":\"a+\"}",
	    "structural_tag is not supported");
	refused_for("chat_template", "{" HI ",\"chat_template\":\"{{ 1 }}\"}",
	    "chat_template is not supported");
	refused_for("min_keep", "{" HI ",\"min_keep\":2}",
	    "min_keep is not supported");
	q = parse(QWEN_FORM_CHAT, "{" HI ",\"min_keep\":0,\"bad_words\":[],"
	    "\"guided_regex\":null,\"chat_template\":\"\"}");
	ok(q->refusal.err.code == 0, "unless they ask for nothing");
	qwen_request_free(q);
	refused_for("top_logprobs", "{" HI ",\"top_logprobs\":2}",
	    "top_logprobs needs logprobs: true");
	refused_for("top_logprobs", "{" HI ",\"logprobs\":null,"
	    "\"top_logprobs\":2}", "top_logprobs needs logprobs: true");
	refused_for("top_logprobs", "{" HI ",\"logprobs\":false,"
	    "\"top_logprobs\":2}", "top_logprobs needs logprobs: true");
	refused_for("modalities", "{" HI ",\"modalities\":[\"text\",\"audio\"]}",
	    "modalities: only text is supported");
	service.unknown = &u;
	for (i = 0; i < 2; i++)
		qwen_request_free(parse(QWEN_FORM_CHAT, "{" HI ",\"temprature\":"
		    "1,\"user\":\"u\",\"store\":true,\"verbosity\":\"low\","
		    "\"max_length\":3,\"xyzzy\":1,\"reasoning_content\":2}"));
	qwen_unknown_list(&u, &t);
	ok(strcmp(t.s, "temprature (did you mean temperature?), max_length "
	    "(did you mean max_tokens?), xyzzy") == 0, "noted once: %s", t.s);
	qwen_text_fini(&t);
	q = parse(QWEN_FORM_CHAT, "{" HI ",\"a1\":1,\"b1\":1,\"c1\":1,"
	    "\"d1\":1,\"e1\":1,\"f1\":1}");
	ok(q->refusal.err.code == 0 && u.n == QWEN_UNKNOWN_MAX && u.more,
	    "so many, and others");
	qwen_request_free(q);
	u.strict = 1;
	refused_for(NULL, "{" HI ",\"temprature\":1}", "unknown field "
	    "temprature (did you mean temperature?)");
	refused_for(NULL, "{" HI ",\"xyzzy\":1}", "unknown field xyzzy");
	refused_for("tools", "{" HI ",\"tools\":[{\"type\":\"web_search\"}]}",
	    "tools of type web_search: not supported");
	u.strict = 0;
	q = parse(QWEN_FORM_CHAT, "{" HI ",\"tools\":[{\"type\":\"web_search\"},"
	    "{\"type\":\"web_search\"},{\"type\":\"mcp\"}]}");
	ok(q->refusal.err.code == 0 && u.n_notes == 2 && strcmp(u.note[0],
	    "left out of requests: tools of type web_search") == 0 &&
	    strcmp(u.note[1], "left out of requests: tools of type mcp") == 0,
	    "%s", u.note[1]);
	qwen_request_free(q);
	qwen_text_fini(&t);
	service.unknown = NULL;
}

/* param NULL: it fits; message NULL: whichever. */
static void
too_long(enum qwen_form form, const char *json, size_t n_ctx,
    const char *param, const char *message)
{
	struct qwen_request *q = parse(form, json);
	int fits = qwen_request_fits(q, n_ctx) == 0;

	ok(fits == (param == NULL) && (fits || (strcmp(q->refusal.code,
	    "context_length_exceeded") == 0 &&
	    qwen_refusal_status(&q->refusal) == 400 && strcmp(q->refusal.param,
	    param) == 0)) && (message == NULL || strcmp(q->refusal.err.msg,
	    message) == 0), "%s in %zu: %s", json, n_ctx, q->refusal.err.msg);
	qwen_request_free(q);
}

/* What is far too long for the model is not made tokens to its end. */
static void
test_too_long(void)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;

	service.n_ctx = 10000;
	qwen_text_str(&t, "{\"prompt\":\"");
	while (t.n < 200000)
		qwen_text_str(&t, "ab ");
	qwen_text_str(&t, "\"}");
	q = parse(QWEN_FORM_COMPLETION, t.s);
	ok(q->refusal.err.code != 0 && strncmp(q->refusal.err.msg, "prompt is "
	    "too long: at least ", 29) == 0 && strstr(q->refusal.err.msg,
	    " tokens > 10000; this model's maximum context length is 10000 "
	    "tokens") != NULL && strcmp(q->refusal.code,
	    "context_length_exceeded") == 0 && strcmp(q->refusal.param,
	    "prompt") == 0, "%s", q->refusal.err.msg);
	qwen_request_free(q);
	t.n = 0;
	qwen_text_str(&t, "{\"messages\":[{\"role\":\"user\",\"content\":\"");
	while (t.n < 200000)
		qwen_text_str(&t, "ab ");
	qwen_text_str(&t, "\"}]}");
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(q->refusal.err.code != 0 && q->refusal.param != NULL &&
	    strcmp(q->refusal.param, "messages") == 0, "%s",
	    q->refusal.err.msg);
	qwen_request_free(q);
	service.n_ctx = 100000;
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(q->refusal.err.code == 0, "what might fit is read");
	qwen_request_free(q);
	service.n_ctx = 0;
	too_long(QWEN_FORM_COMPLETION, "{\"prompt\":\"abc\"}", 2,
	    "prompt", "prompt is too long: 3 tokens > 2; this model's maximum "
	    "context length is 2 tokens");
	too_long(QWEN_FORM_COMPLETION, "{\"prompt\":\"abc\"}", 3,
	    "prompt", "prompt is too long: 3 tokens > 2; this model's maximum "
	    "context length is 3 tokens");
	too_long(QWEN_FORM_COMPLETION, "{\"prompt\":\"abc\"}", 4, NULL, NULL);
	too_long(QWEN_FORM_COMPLETION, "{\"prompt\":\"abc\",\"echo\":true,"
	    "\"max_tokens\":0}", 3, NULL, NULL);
	too_long(QWEN_FORM_RESPONSES, "{\"input\":\"abc\"}", 2, "input", NULL);
	too_long(QWEN_FORM_MESSAGES, "{\"max_tokens\":1,\"messages\":[{"
	    "\"role\":\"user\",\"content\":\"a\"}]}", 2, "messages", NULL);
	qwen_text_fini(&t);
}

/* The prompt is the same, token by token. */
static void
same_prompt(const char *a, const char *b, const char *what)
{
	struct qwen_request *x = parse(QWEN_FORM_CHAT, a);
	struct qwen_request *y = parse(QWEN_FORM_CHAT, b);

	ok(x->refusal.err.code == 0 && y->refusal.err.code == 0 &&
	    x->n_prompt_tokens == y->n_prompt_tokens && memcmp(
	    x->prompt[0].id, y->prompt[0].id, x->n_prompt_tokens *
	    sizeof *x->prompt[0].id) == 0, "%s", what);
	qwen_request_free(x);
	qwen_request_free(y);
}

#define TOOL_G "{\"type\":\"function\",\"function\":{\"name\":\"g\\\"\"}}"
#define TOOLS "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"," \
	"\"parameters\":{\"type\":\"object\",\"properties\":{\"s\":{\"type\":" \
	"\"string\"},\"n\":{\"$ref\":\"#/$defs/n\"},\"u\":{\"type\":\"string\"," \
	"\"enum\":[\"c\",\"f\"]},\"k\":{\"type\":\"integer\",\"minimum\":1}}," \
	"\"required\":[\"s\",\"k\"],\"$defs\":{\"n\":{\"type\":\"boolean\"}}}}}," \
	TOOL_G "]"

#define HINT "; --image-placeholder puts a line in their place"

static void
test_messages_of_clients(void)
{
	refused_for("messages", PARTS("image_url"), "message 1: parts of type "
	    "image_url are not supported (text only)" HINT);
	refused_for("messages", PARTS("input_audio"), "message 1: parts of "
	    "type input_audio are not supported (text only)" HINT);
	refused_for("messages", PARTS("file"), "message 1: parts of type file "
	    "are not supported (text only)" HINT);
	refused_for("messages", PARTS("text"), "message 1: part 2 is not an object "
	    "with a text");
	refused_for("messages", "{\"messages\":[{\"content\":\"a\"}]}",
	    "message 1 has no role");
	refused_for("messages", "{\"messages\":[{\"role\":\"user\","
	    "\"content\":7}]}", "message 1: the content is neither a string nor "
	    "a list of parts");
	same_prompt("{\"messages\":[{\"role\":\"developer\",\"content\":"
	    "\"a\"},{\"role\":\"user\",\"content\":\"b\"}]}",
	    "{\"messages\":[{\"role\":\"system\",\"content\":\"a\"},"
	    "{\"role\":\"user\",\"content\":\"b\"}]}",
	    "the role developer is system");
	same_prompt("{" HI "," TOOLS ",\"tool_choice\":\"none\"}", "{" HI "}",
	    "tool_choice none: as if there were no tools");
	same_prompt("{" HI "," TOOLS ",\"tool_choice\":\"required\"}",
	    "{" HI "," TOOLS "}", "required: they are told of as usual");
	same_prompt("{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\",\"allowed_tools\":{\"mode\":\"auto\",\"tools\":"
	    "[" TOOL_G "]}}}",
	    "{" HI ",\"tools\":[" TOOL_G "]}", "allowed: as if there were no "
	    "others");
	same_prompt("{" HI ",\"reasoning_effort\":\"none\"}", "{" HI
	    ",\"enable_thinking\":false}", "reasoning_effort none");
	same_prompt("{" HI ",\"reasoning_effort\":\"high\"}", "{" HI "}",
	    "others change nothing");
}

/* Lines that tell a version. */
static int
is_version(void *arg, const char *line, size_t n)
{
	(void)arg;
	return n >= 2 && memcmp(line, "v:", 2) == 0;
}

#define SAYS(role, content) "{\"messages\":[{\"role\":\"" role "\"," \
	"\"content\":" content "},{\"role\":\"user\",\"content\":\"v: 1\"}]}"

static void
test_passed_over(void)
{
	service.pass_over = is_version;
	same_prompt(SAYS("system", "\"v: 1\\na\\n\\nb v:\\nv: 2\""),
	    SAYS("system", "\"a\\n\\nb v:\""), "lines go");
	same_prompt(SAYS("developer", "\"v:\\nv:\""), SAYS("system", "\"\""),
	    "all of them");
	same_prompt(SAYS("system", "[{\"type\":\"text\",\"text\":\"v: 1\"},{"
	    "\"type\":\"text\",\"text\":\"a\\nv: 2\\nb\"}]"),
	    SAYS("system", "[{\"type\":\"text\",\"text\":\"a\\nb\"}]"),
	    "and parts of nothing else");
	same_prompt(SAYS("system", "\"\\na\\n\""), SAYS("developer",
	    "\"v:\\n\\na\\n\""), "empty ones stay");
	service.pass_over = NULL;
	same_prompt(SAYS("developer", "\"v: 1\""), SAYS("system", "\"v: 1\""),
	    "none goes unasked");
}

/*
 * The text token by token, which are bytes: until it is cut, or to the end.  What
 * there is must only grow.
 */
static int
answer(struct qwen_answer *a, const char *text)
{
	struct qwen_likely token, top = { 4, -2.5 };
	struct qwen_text before = { 0 };
	int32_t *ids;
	size_t n, i;
	int cut = 0, grows = 1;

	if (qwen_tok_encode(service.tok, text, strlen(text), 0, &ids, &n,
	    &err) < 0)
		abort();
	for (i = 0; i < n && !cut; i++) {
		token = (struct qwen_likely){ ids[i], -0.5 };
		cut = qwen_answer_put(a, &token, &top, 1, &err);
		grows &= cut >= 0 && a->text.n >= before.n && (before.n == 0 ||
		    memcmp(a->text.s, before.s, before.n) == 0) &&
		    qwen_utf8_check(a->text.s, a->text.n) == a->text.n;
		before.n = 0;
		qwen_text_add(&before, a->text.s, a->text.n);
	}
	if (qwen_answer_end(a, "length", &err) < 0)
		abort();
	free(ids);
	qwen_text_fini(&before);
	return grows && (size_t)cut < 2 && a->n == i;
}

/* Whether the request's answer may be this text. */
static int
may_be(const struct qwen_request *q, const char *text)
{
	struct qwen_match *m;
	int rc;

	if (q->grammar == NULL || qwen_match_new(&m, q->grammar,
	    service.grammars->trie, &err) < 0)
		return -1;
	rc = qwen_match_feed(m, text, strlen(text), &err) > 0 &&
	    qwen_match_may_end(m);
	qwen_match_free(m);
	return rc;
}

#define CALL(x) "<tool_call>\n" x "\n</tool_call>"
#define F(args) CALL("{\"name\": \"f\", \"arguments\": " args "}")
#define G CALL("{\"name\": \"g\\\"\", \"arguments\": {}}")

static void
test_calls(void)
{
	struct qwen_request *q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS
	    ",\"tool_choice\":\"required\"}");

	ok(may_be(q, F("{\"s\": \"a\", \"n\": true, \"k\": 12}")) == 1 &&
	    may_be(q, G) == 1 && may_be(q, G "\n" F("{\"s\": \"\", \"k\": 1}")
	    "\n" G) == 1, "calls as JSON, one or some");
	ok(may_be(q, "") == 0 && may_be(q, "hi") == 0 && may_be(q, F("{}")) ==
	    0 && may_be(q, F("{\"s\": \"a\", \"n\": 1, \"k\": 1}")) == 0 &&
	    may_be(q, F("{\"s\": \"a\", \"k\": 0}")) == 0 &&
	    may_be(q, F("{\"s\":\"a\",\"k\":1}")) == 0 &&
	    may_be(q, G " ") == 0, "and nothing else");
	qwen_request_free(q);
	q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"function\",\"function\":{\"name\":\"g\\\"\"}},"
	    "\"parallel_tool_calls\":false}");
	ok(may_be(q, G) == 1 && may_be(q, G "\n" G) == 0 &&
	    may_be(q, F("{\"s\": \"\", \"k\": 1}")) == 0,
	    "one call of the one that is named");
	qwen_request_free(q);
	q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\",\"mode\":\"required\",\"tools\":[{\"type\":"
	    "\"function\",\"name\":\"g\\\"\"}]}}");
	ok(may_be(q, G) == 1 && may_be(q, G "\n" G) == 1 &&
	    may_be(q, F("{\"s\": \"\", \"k\": 1}")) == 0,
	    "those that are allowed, as /v1/responses has them");
	qwen_request_free(q);
	q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS
	    ",\"parallel_tool_calls\":false}");
	ok(q->grammar == NULL && answer(q->answer, "a " G "\n" G) &&
	    q->answer->n_calls == 1, "auto: a call may come, but one alone");
	qwen_request_free(q);
}

/* The ways to have a schema held. */
static void
test_schemas(void)
{
	static const char *const ways[] = {
		"\"response_format\":{\"type\":\"json_schema\","
		"\"json_schema\":{\"schema\":{\"type\":\"boolean\"}}}",
		"\"response_format\":{\"type\":\"json_schema\",\"schema\":{"
		"\"type\":\"boolean\"}}",
		"\"response_format\":{\"type\":\"json_object\",\"schema\":{"
		"\"type\":\"boolean\"}}",
		"\"json_schema\":{\"type\":\"boolean\"}",
		"\"guided_json\":{\"type\":\"boolean\"}",
		"\"guided_json\":\"{\\\"type\\\":\\\"boolean\\\"}\"",
	};
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	size_t i;

	for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		t.n = 0;
		qwen_text_fmt(&t, "{" HI ",%s}", ways[i]);
		q = parse(QWEN_FORM_CHAT, t.s);
		ok(q->refusal.err.code == 0 && may_be(q, "true") == 1 &&
		    may_be(q, "{}") == 0, "%s", ways[i]);
		qwen_request_free(q);
	}
	qwen_text_fini(&t);
	refused_for("guided_json", "{" HI ",\"json_schema\":{},"
	    "\"guided_json\":{}}", "guided_json and json_schema cannot be combined");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":"
	    "\"required\",\"json_schema\":{}}",
	    "tool_choice and json_schema cannot be combined");
}

/* What vLLM, SGLang and others call it; what their documents say it means. */
static void
test_names_of_others(void)
{
	static const struct { const char *way, *yes, *no; } ways[] = {
		{ "\"guided_regex\":\"\\\\d{2}-[a-z]+\"", "12-ab", "12-ab1" },
		{ "\"regex\":\"a|bc\"", "bc", "ac" },
		{ "\"regex\":\"^(a|b)\\\\\\\\$\"", "a\\", "a" },
		{ "\"guided_choice\":[\"yes\",\"no \\\"q\\\"\"]",
		    "no \"q\"", "ye" },
		{ "\"guided_grammar\":\"root ::= \\\"a\\\"+\"", "aa", "b" },
		{ "\"ebnf\":\"root ::= \\\"a\\\"+\"", "a", "" },
		{ "\"structured_outputs\":{\"json\":{\"type\":\"null\"}}",
		    "null", "1" },
		{ "\"structured_outputs\":{\"json\":\"{\\\"type\\\":"
		    "\\\"null\\\"}\"}", "null", "1" },
		{ "\"structured_outputs\":{\"regex\":\"[ab]\"}", "b", "ab" },
		{ "\"structured_outputs\":{\"choice\":[\"x\"],"
		    "\"disable_any_whitespace\":true}", "x", "y" },
		{ "\"structured_outputs\":{\"grammar\":\"root ::= [0-9]\"}",
		    "3", "a" },
		{ "\"structured_outputs\":{\"json_object\":true}", "{}",
		    "[]" },
		{ "\"response_format\":{\"type\":\"regex\",\"pattern\":"
		    "\"(p|n)\"}", "n", "m" },
		{ "\"response_format\":{\"type\":\"grammar\",\"grammar\":"
		    "\"root ::= [x]\"}", "x", "a" },
	};
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	size_t i;

	for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		t.n = 0;
		qwen_text_fmt(&t, "{" HI ",%s}", ways[i].way);
		q = parse(QWEN_FORM_CHAT, t.s);
		ok(may_be(q, ways[i].yes) == 1 && may_be(q, ways[i].no) == 0,
		    "%s: %s", ways[i].way, q->refusal.err.code != 0 ?
		    q->refusal.err.msg : "holds");
		qwen_request_free(q);
	}
	qwen_text_fini(&t);
	refused_for("structured_outputs", "{" HI ",\"structured_outputs\":{"
	    "\"regex\":\"a\",\"choice\":[\"b\"]}}", "structured_outputs: "
	    "json, regex, choice and the like cannot be combined");
	refused_for("guided_choice", "{" HI ",\"guided_choice\":[]}",
	    "guided_choice: is not a list of strings");
	refused_for("guided_regex", "{" HI ",\"guided_regex\":\"(\"}",
	    "guided_regex: the pattern, at character 4: unclosed group");
}

/* A template that does not tell the model of tools. */
static void
test_untold_tools(void)
{
	static const char text[] = "{%- for m in messages -%}{{ m.content }}"
	    "{%- endfor -%}";
	const struct qwen_template *before = service.template;
	struct qwen_template *t;
	struct qwen_request *q;

	if (qwen_template_open_text(&t, text, strlen(text), &err) < 0)
		abort();
	service.template = t;
	refused_for("tools", "{" HI "," TOOLS "}", "tools: the model's chat "
	    "template does not support tools");
	q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS ",\"tool_choice\":"
	    "\"none\"}");
	ok(q->refusal.err.code == 0, "unless none is to be called");
	qwen_request_free(q);
	service.template = before;
	qwen_template_close(t);
}

#define TAGS(x) "<tool_call>\n" x "</tool_call>"
#define P(p, v) "<parameter=" p ">\n" v "\n</parameter>\n"
#define FT(x) TAGS("<function=f>\n" x "</function>\n")

/* Whether a parameter of that schema may be so many times a text, and another. */
static int
may_be_text(const struct qwen_request *q, int times, const char *text,
    const char *last)
{
	struct qwen_text t = { 0 };
	int rc;

	qwen_text_str(&t, "<tool_call>\n<function=f>\n<parameter=a>\n");
	for (; times > 0; times--)
		qwen_text_str(&t, text);
	qwen_text_fmt(&t, "%s\n</parameter>\n</function>\n</tool_call>", last);
	rc = may_be(q, t.s);
	qwen_text_fini(&t);
	return rc;
}

static struct qwen_request *
with_parameter(const char *schema)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;

	qwen_text_fmt(&t, "{" HI ",\"tools\":[{\"function\":{\"name\":\"f\","
	    "\"parameters\":{\"properties\":{\"a\":%s},\"required\":[\"a\"],"
	    "\"$defs\":{\"s\":{\"type\":\"string\",\"maxLength\":3}}}}}],"
	    "\"tool_choice\":\"required\"}", schema);
	q = parse(QWEN_FORM_CHAT, t.s);
	qwen_text_fini(&t);
	return q;
}

/* A tool of so many parameters is refused, and soon. */
static void
test_wide_tool(void)
{
	struct qwen_text t = { 0 };
	int i;

	qwen_text_str(&t, "{" HI ",\"tools\":[{\"function\":{\"name\":\"f\","
	    "\"parameters\":{\"properties\":{");
	for (i = 0; i < 30000; i++)
		qwen_text_fmt(&t, "%s\"p%d\":{}", i > 0 ? "," : "", i);
	qwen_text_str(&t, "}}}}],\"tool_choice\":\"required\"}");
	refused_for("tools", t.s, "tools: f has more than 1000 parameters");
	qwen_text_fini(&t);
	service.unknown = &unknown;
	unknown.strict = 1;
	refused_for("tools", "{" HI ",\"tools\":[{\"function\":{\"name\":\"f\","
	    "\"parameters\":{\"properties\":{},\"required\":[\"z\"]}}}],"
	    "\"tool_choice\":\"required\"}", "tools: f: z is required but not one of the properties");
	unknown.strict = 0;
	service.unknown = NULL;
}

/* Limits of texts that stand between tags. */
static void
test_raw_texts(void)
{
	struct qwen_request *q = with_parameter("{\"type\":\"string\","
	    "\"maxLength\":1000}");

	ok(may_be_text(q, 100, "<p>a</p>", "") == 1 &&
	    may_be_text(q, 200, "<<<a", "") == 1 && may_be_text(q, 0, "", "") == 1 &&
	    may_be_text(q, 800, "\xc3\xa9", "") == 1, "long texts with tags");
	ok(may_be_text(q, 1001, "a", "") == 0 && may_be_text(q, 200, "<p>a<",
	    "b") == 0 && may_be_text(q, 1, "</parameter>", "") == 0,
	    "but for longer ones, and the tag that ends them");
	qwen_request_free(q);
	q = with_parameter("{\"type\":[\"string\",\"null\"],\"minLength\":2,"
	    "\"maxLength\":12}");
	ok(may_be_text(q, 12, "<", "") == 1 && may_be_text(q, 13, "a", "") == 0 &&
	    may_be_text(q, 1, "a", "") == 0 && may_be_text(q, 1, "null", "") == 1,
	    "short ones, and null");
	qwen_request_free(q);
	q = with_parameter("{\"anyOf\":[{\"$ref\":\"#/$defs/s\"},{\"type\":"
	    "\"integer\",\"maximum\":50},{\"type\":\"array\"}]}");
	ok(may_be_text(q, 1, "ab", "") == 1 && may_be_text(q, 1, "49", "") == 1 &&
	    may_be_text(q, 1, "51", "") == 0 && may_be_text(q, 1, "abcd", "") ==
	    0 && may_be_text(q, 1, "[1, 2]", "") == 1 && may_be_text(q, 1, "[",
	    "") == 0, "no text that is read as an integer is one");
	qwen_request_free(q);
	q = with_parameter("{\"type\":\"string\",\"pattern\":\"^<a>.*$\"}");
	ok(may_be_text(q, 1, "<a></b>", "") == 1 && may_be_text(q, 1, "<b>",
	    "") == 0 && may_be_text(q, 1, "<a></parameter>", "") == 0,
	    "a pattern of tags");
	qwen_request_free(q);
	q = with_parameter("{\"type\":\"string\",\"minLength\":40}");
	ok(may_be_text(q, 70, "a<", "") == 1 && may_be_text(q, 39, "a", "") == 0,
	    "a least length");
	qwen_request_free(q);
	q = parse(QWEN_FORM_CHAT, "{" HI ",\"tools\":[{\"function\":{\"name\":"
	    "\"f\",\"parameters\":{\"$ref\":\"#/$defs/P\",\"$defs\":{\"P\":"
	    "{\"type\":\"OBJECT\",\"properties\":{\"a\":{\"type\":\"INTEGER\","
	    "\"maximum\":5}},\"required\":[\"a\"]}}}}}],\"tool_choice\":"
	    "\"required\"}");
	ok(may_be_text(q, 1, "4", "") == 1 && may_be_text(q, 1, "7", "") == 0 &&
	    may_be(q, TAGS("<function=f>\n</function>\n")) == 0,
	    "parameters that are a reference as a whole");
	qwen_request_free(q);
	q = with_parameter("{\"type\":\"string\",\"format\":\"uri\"}");
	ok(may_be_text(q, 1, "https://example.org/a?b=c#d", "") == 1 &&
	    may_be_text(q, 1, "an example", "") == 0, "a URI");
	qwen_request_free(q);
	q = with_parameter("{\"type\":\"string\",\"format\":\"uri\","
	    "\"minLength\":1,\"maxLength\":2083}");
	ok(may_be_text(q, 1, "https://example.org/", "") == 1 &&
	    may_be_text(q, 1, "an example", "") == 0, "a URI with bounds");
	qwen_request_free(q);
	q = with_parameter("{\"type\":\"string\",\"format\":"
	    "\"json-pointer\"}");
	ok(may_be_text(q, 1, "/a/b", "") == 1 && may_be_text(q, 1, "/<",
	    "/parameter>") == 0, "a JSON pointer is no tag");
	qwen_request_free(q);
}

static void
test_tags(void)
{
	struct qwen_template *t;
	const struct qwen_template *before = service.template;
	struct qwen_request *q;

	if (qwen_template_open(&t, "qwen3-coder", &err) < 0)
		abort();
	service.template = t;
	q = parse(QWEN_FORM_CHAT, "{" HI "," TOOLS ",\"tool_choice\":"
	    "\"required\"}");
	ok(may_be(q, FT(P("s", "a<b></p>\n</parameter \n") P("k", "7"))) == 1 &&
	    may_be(q, FT(P("s", "") P("u", "c") P("k", "7"))) == 1 &&
	    may_be(q, TAGS("<function=g\">\n</function>\n")) == 1,
	    "calls with tags");
	ok(may_be(q, FT(P("s", "a"))) == 0 && may_be(q, FT(P("s", "a")
	    P("k", "x"))) == 0 && may_be(q, FT(P("s", "a") P("u", "d")
	    P("k", "1"))) == 0 && may_be(q, FT(P("s", "</parameter>")
	    P("k", "1"))) == 0 && may_be(q, FT(P("s", "a\n</parameter>\nb")
	    P("k", "1"))) == 0 && may_be(q, F("{}")) == 0,
	    "and nothing else");
	qwen_request_free(q);
	test_raw_texts();
	test_wide_tool();
	service.template = before;
	qwen_template_close(t);
}

/* Tools that are fine alone, and together more than a grammar can be. */
static void
test_too_many_rules(void)
{
	struct qwen_text t = { 0 };
	struct qwen_request *q;
	int i;

	unknown.n_notes = 0;
	qwen_text_str(&t, "{" HI ",\"tool_choice\":\"required\",\"tools\":[");
	for (i = 0; i < 40; i++)
		qwen_text_fmt(&t, "%s{\"function\":{\"name\":\"t%d\","
		    "\"parameters\":{\"properties\":{\"a\":{\"type\":"
		    "\"string\",\"pattern\":\"^(?!x)[a-z]*$\",\"maxLength\":"
		    "200}},\"required\":[\"a\"]}}}", i > 0 ? "," : "", i);
	qwen_text_str(&t, "]}");
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(may_be(q, CALL("{\"name\": \"t39\", \"arguments\": {\"b\": 1}}")) ==
	    1 && unknown.n_notes == 1, "too many rules: anything, noted: %s %s",
	    unknown.note[0], q->refusal.err.code != 0 ? q->refusal.err.msg :
	    "");
	qwen_request_free(q);
	qwen_text_fini(&t);
}

static void
test_tools_refused(void)
{
	struct qwen_request *q;

	refused_for("tool_choice", "{" HI ",\"tool_choice\":\"required\"}",
	    "tool_choice: is required, but there are no tools");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":\"any\"}",
	    "tool_choice: is not none, auto, required or a function with a "
	    "name");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"function\",\"function\":{\"name\":\"h\"}}}",
	    "tool_choice: unknown tool h");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\"}}",
	    "tool_choice: the mode of allowed_tools is not auto or required");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\",\"mode\":\"auto\",\"tools\":[]}}",
	    "tool_choice: allowed_tools has no list of 1 to 1024 tools");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\",\"mode\":\"auto\",\"tools\":[{\"name\":\"h\"}]}}",
	    "tool_choice: unknown tool h");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"allowed_tools\",\"mode\":\"auto\",\"tools\":[7]}}",
	    "tool_choice: allowed tool 1 has no name");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"custom\"}}", "tool_choice: tools of type custom are not available here");
	refused_for("tool_choice", "{" HI "," TOOLS ",\"tool_choice\":{\"type\":"
	    "\"custom\",\"custom\":{\"name\":\"h\"}}}", "tool_choice: unknown tool h");
	refused_for("tool_choice", "{" HI ",\"tools\":[{\"type\":"
	    "\"web_search\"}],\"tool_choice\":\"required\"}", "tool_choice: is required, but there are no tools");
	refused_for("tools", "{" HI ",\"tools\":[{\"type\":\"function\"}]}",
	    "tools: tool 1 has no function with a name");
	service.unknown = &unknown;
	unknown.strict = 1;
	refused_for("tools", "{" HI ",\"tools\":[{\"function\":{\"name\":\"f\","
	    "\"parameters\":{\"not\":{}}}}],\"tool_choice\":\"required\"}",
	    "tools: f: no text of finite length matches the schema");
	unknown.strict = 0;
	q = parse(QWEN_FORM_CHAT, "{" HI ",\"tools\":[{\"function\":{\"name\":"
	    "\"f\",\"parameters\":{\"not\":{}}}},{\"function\":{\"name\":"
	    "\"h\",\"parameters\":{\"properties\":{\"a\":{\"type\":"
	    "\"integer\"}},\"required\":[\"a\"]}}}],\"tool_choice\":"
	    "\"required\"}");
	ok(may_be(q, F("{\"x\": 1}")) == 1 && may_be(q, CALL("{\"name\": "
	    "\"h\", \"arguments\": {\"a\": 7}}")) == 1 && may_be(q,
	    CALL("{\"name\": \"h\", \"arguments\": {}}")) == 0,
	    "a tool whose schema cannot be held is called with any object");
	ok(unknown.n_notes == 1 && strstr(unknown.note[0], "tool f cannot be "
	    "held") != NULL, "and that is noted: %s", unknown.note[0]);
	qwen_request_free(q);
	test_too_many_rules();
	service.unknown = NULL;
}

/* Tools beside a schema of the answer. */
static void
test_call_or_answer(void)
{
	static const char format[] = "\"response_format\":{\"type\":"
	    "\"json_schema\",\"json_schema\":{\"schema\":{\"properties\":{"
	    "\"a\":{\"type\":\"boolean\"}},\"required\":[\"a\"]}}}";
	struct qwen_text t = { 0 };
	struct qwen_request *q;

	qwen_text_fmt(&t, "{" HI "," TOOLS ",%s}", format);
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(may_be(q, "{\"a\":true}") == 1 && may_be(q, G) == 1 &&
	    may_be(q, "{}") == 0 && may_be(q, F("{}")) == 0,
	    "auto: a call, or an answer by the schema");
	qwen_request_free(q);
	t.n = 0;
	qwen_text_fmt(&t, "{" HI "," TOOLS ",%s,\"tool_choice\":{\"type\":"
	    "\"function\",\"function\":{\"name\":\"g\\\"\"}}}", format);
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(may_be(q, "{\"a\":true}") == 0 && may_be(q, G) == 1 &&
	    may_be(q, F("{\"s\": \"\", \"k\": 1}")) == 0,
	    "a tool that is named is called");
	qwen_request_free(q);
	t.n = 0;
	qwen_text_fmt(&t, "{" HI "," TOOLS ",%s,\"tool_choice\":\"none\"}",
	    format);
	q = parse(QWEN_FORM_CHAT, t.s);
	ok(may_be(q, "{\"a\":true}") == 1 && may_be(q, G) == 0,
	    "none: an answer by the schema");
	qwen_request_free(q);
	qwen_text_fini(&t);
}

/* ----------------------------------------------------------------- answers */

static int
says(const struct qwen_text *t, const char *want)
{
	return t->n == strlen(want) && (t->n == 0 || strcmp(t->s, want) == 0);
}

static void
test_stops(void)
{
	struct qwen_request *q = parse(QWEN_FORM_COMPLETION,
	    "{\"prompt\":\"a\",\"n\":4,\"min_tokens\":5}");
	struct qwen_answer *a = q->answer;

	ok(answer(&a[0], "one two EN ENDED") && says(&a[0].text,
	    "one two EN ") && strcmp(a[0].finish, "stop") == 0 &&
	    a[0].n == 14, "a text up to the stop string");
	ok(answer(&a[1], "one two EN") && says(&a[1].text, "one two EN") &&
	    strcmp(a[1].finish, "length") == 0,
	    "what might have been one comes in the end");
	ok(answer(&a[2], "END ENDE") && says(&a[2].text, "END ") &&
	    a[2].n == 7, "none before the least number of tokens");
	ok(answer(&a[3], "\xe2\x82\xac\xc3") && says(&a[3].text,
	    "\xe2\x82\xac\xef\xbf\xbd"), "characters come whole");
	qwen_request_free(q);
}

/* What the service, or a grammar, has of repairs. */
static void
test_strict_calls(void)
{
	static const char bare[] = "{\"name\": \"f\", \"arguments\": {}}";
	static const char *const json[] = {
		"{" HI ",\"stop\":\"END\",\"tools\":[{\"name\":\"f\"}]}",
		"{" HI ",\"stop\":\"END\",\"tools\":[{\"name\":\"f\"}],"
		    "\"response_format\":{"
		    "\"type\":\"json_object\"}}",
	};
	struct qwen_request *q;
	int i;

	for (i = 0; i < 3; i++) {
		service.strict_calls = i == 2;
		q = parse(QWEN_FORM_CHAT, json[i == 1]);
		ok(answer(q->answer, "{\"name\": \"f\", \"arguments\": {}}END") &&
		    q->answer->n_calls == (i == 0) &&
		    says(&q->answer->text, i == 0 ? "" : bare), "a whole "
		    "answer that is an object: %s", i == 0 ? "a call" : i == 1 ?
		    "JSON was asked for" : "calls are strict");
		qwen_request_free(q);
	}
	service.strict_calls = 0;
}

static void
test_chat(void)
{
	struct qwen_request *q = parse(QWEN_FORM_CHAT, "{\"messages\":[{"
	    "\"role\":\"user\",\"content\":\"hi\"}],\"tools\":[{\"type\":"
	    "\"function\",\"function\":{\"name\":\"f\",\"parameters\":{"
	    "\"type\":\"object\",\"properties\":{\"x\":{\"type\":\"integer\"}"
	    "}}}}],\"logprobs\":true,\"top_logprobs\":1,\"stop\":\"}{\"}");
	struct qwen_answer *a = q->answer;
	struct qwen_text t = { 0 };

	q->number = 12;
	ok(answer(a, "<think>\nhm, hm\n</think>\n\nWell.\n<tool_call>\n"
	    "{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>") &&
	    says(&a->reasoning, "hm, hm") && says(&a->text, "Well.") &&
	    a->n_calls == 1, "a chat's reply is taken apart as it comes");
	ok(strncmp(a->logprobs.s, "{\"token\":\"W\",\"logprob\":-0.5,"
	    "\"bytes\":[87],\"top_logprobs\":[{\"token\":\"%\",\"logprob\":"
	    "-2.5,\"bytes\":[37]}]},{", 100) == 0, "%.100s",
	    a->logprobs.s);
	a->logprobs.n = 0;
	a->finish = "stop";
	qwen_request_body(q, 1700000000, &t);
	ok(strstr(t.s, "{\"id\":\"chatcmpl-12\",\"object\":\"chat.completion\","
	    "\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,"
	    "\"message\":{\"role\":\"assistant\",\"content\":\"Well.\","
	    "\"reasoning_content\":\"hm, hm\",\"tool_calls\":[{\"id\":"
	    "\"call_12_0_0\",\"type\":\"function\",\"function\":{\"name\":"
	    "\"f\",\"arguments\":\"{\\\"x\\\": 1}\"}}]}") == t.s &&
	    strstr(t.s, "\"finish_reason\":\"tool_calls\"}],\"usage\":"),
	    "%s", t.s);
	qwen_text_fini(&t);
	qwen_request_free(q);
}

/* -------------------------------------------------------------- stop strings */

/* Pieces in turn; nobody looks yet at one that begins with a dash. */
static void
cut_is(const char *const *stops, const char *const *pieces, const char *want)
{
	struct qwen_text got = { 0 };
	struct qwen_stop_finder *c;
	struct qwen_str s;
	int found = 0, look;

	if (qwen_stop_finder_new(&c, &err) < 0)
		abort();
	for (; *stops != NULL; stops++)
		qwen_stop_finder_add(c, *stops, strlen(*stops), &err);
	for (; *pieces != NULL && !found; pieces++) {
		look = (*pieces)[0] != '-';
		s = (struct qwen_str){ *pieces + !look,
		    strlen(*pieces + !look) };
		if (qwen_stop_finder_feed(c, &s, look, &found, &err) < 0)
			abort();
		qwen_text_add(&got, s.s, s.len);
		qwen_text_str(&got, "|");
	}
	s = qwen_stop_finder_end(c);
	qwen_text_str(&got, found ? "!" : ".");
	qwen_text_add(&got, s.s, s.len);
	ok(strcmp(got.s, want) == 0, "cut: %s, want %s", got.s, want);
	qwen_text_fini(&got);
	qwen_stop_finder_free(c);
}

#define LIST(...) (const char *const []){ __VA_ARGS__, NULL }

static void
test_cut(void)
{
	cut_is(LIST("abc"), LIST("xab", "abcd"), "x|ab|!abcd");
	cut_is(LIST("abc"), LIST("xab", "x"), "x|abx|.");
	cut_is(LIST("abc"), LIST("ab", "a"), "|ab|.a");
	cut_is(LIST("abc", "b"), LIST("xaby"), "xa|!by");
	cut_is(LIST("b", "ab"), LIST("xaby"), "x|!aby");
	cut_is(LIST("abc"), LIST("-xabcy", "ab", "c"), "xabcy|||!abc");
	cut_is(LIST("ab", "abxy"), LIST("-ab", "x", "z"), "||abxz|.");
	cut_is(LIST("ab", "abxy"), LIST("-ab", "x", "y"), "|||!abxy");
}

/* ---------------------------------------------------------------- messages */

static void
test_messages(void)
{
	static const char image[] = "{\"messages\":[{\"role\":\"system\","
	    "\"content\":\"s\"},{\"role\":\"user\",\"content\":[{\"type\":"
	    "\"text\",\"text\":\"What is it?\"},{\"type\":\"image_url\","
	    "\"image_url\":{\"url\":\"http://x/y.png\"}}]}]}";
	struct qwen_messages *m, *again;
	char *json;
	size_t n;

	if (qwen_messages_new(&m, &err) < 0)
		abort();
	qwen_messages_add_text(m, "system", "s", 1, 1, &err);
	qwen_messages_add_text(m, "user", "a", 1, 1, &err);
	qwen_messages_add_text(m, "user", "b\"", 2, 1, &err);
	qwen_messages_add_text(m, "user", "c", 1, 0, &err);
	ok(qwen_messages_add_text(m, "user", "\xff", 1, 1, &err) < 0, "%s",
	    err.msg);
	qwen_messages_add(m, "{\"role\":\"tool\",\"n\":1.50}", 24, &err);
	qwen_messages_set(m, "x", "[1]", 3, &err);
	qwen_messages_set(m, "x", "true", 4, &err);
	ok(qwen_messages_set(m, "x", "tru", 3, &err) < 0, "%s", err.msg);
	if (qwen_messages_json(m, 0, &json, &n, &err) < 0)
		abort();
	ok(strcmp(json, "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
	    "{\"role\":\"user\",\"content\":\"a\\n\\nb\\\"\"},{\"role\":\"user\","
	    "\"content\":\"c\"},{\"role\":\"tool\",\"n\":1.50}],\"x\":true}")
	    == 0 && strlen(json) == n, "%s", json);
	if (qwen_messages_read_with(&again, NULL, 0, json, n, &err) < 0)
		abort();
	free(json);
	qwen_messages_drop_last(again);
	qwen_messages_drop_last(again);
	if (qwen_messages_json(again, 0, &json, &n, &err) < 0)
		abort();
	ok(strcmp(json, "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},"
	    "{\"role\":\"user\",\"content\":\"a\\n\\nb\\\"\"}],\"x\":true}") == 0 &&
	    strcmp(qwen_messages_system(again), "s") == 0,
	    "and without the last two: %s", json);
	free(json);
	qwen_messages_free(m);
	qwen_messages_free(again);
	ok(qwen_messages_read_with(&m, NULL, 0, "[]", 2, &err) < 0 && m == NULL, "%s",
	    err.msg);
	ok(qwen_messages_read_with(&m, NULL, 0, image, strlen(image), &err) < 0 &&
	    m == NULL && strcmp(err.msg, "message 2: parts of type image_url "
	    "are not supported (text only)" HINT) == 0, "%s", err.msg);
	ok(qwen_messages_read_with(&m, NULL, 0, "{\"a\":1}", 7, &err) == 0 &&
	    !qwen_messages_has_list(m) && qwen_messages_system(m) == NULL,
	    "a request may have none");
	qwen_messages_free(m);
}

int
main(void)
{
	start();
	test_settings();
	test_numbers();
	test_bounds();
	test_sampling_fields();
	test_samplers();
	test_refused();
	test_members();
	test_messages_of_clients();
	test_passed_over();
	test_calls();
	test_tags();
	test_tools_refused();
	test_call_or_answer();
	test_names_of_others();
	test_too_long();
	test_schemas();
	test_untold_tools();
	test_stops();
	test_chat();
	test_strict_calls();
	test_cut();
	test_messages();
	return done_testing();
}
