/* SPDX-License-Identifier: ISC */
/*
 * request_lists.c - posted requests for embeddings, reranking and tokens, and
 * the bodies of their answers.
 */
#include "tok_util.h"
#include "qwen/sample.h"
#include "text/request/request.h"
#include "../tap.h"

static struct qwen_service service;
static struct qwen_reranker *reranker;
static struct qwen_err err;

static void
start(void)
{
	static struct qwen_grammars grammars;
	static struct qwen_template *t;
	static struct vocab v;
	static struct qwen_gguf *g;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	if (qwen_template_open(&t, "qwen3", &err) < 0 ||
	    qwen_reranker_open(&reranker, g, NULL, &err) < 0 ||
	    qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		abort();
	service.template = t;
	service.model = "m";
	service.n_vocab = 258;
	service.max = 9;
	grammars.gguf = g;
	service.grammars = &grammars;
	service.sample_opt = qwen_sample_opt;
}

static void
is(struct qwen_text *got, const char *want)
{
	ok(!got->failed && strcmp(got->s, want) == 0, "%s", got->s);
	if (strcmp(got->s, want) != 0)
		printf("# wanted %s\n", want);
	got->n = 0;
}

#define NO(msg, param) "{\"error\":{\"message\":\"" msg "\",\"type\":" \
	"\"invalid_request_error\",\"param\":" param ",\"code\":" \
	"\"invalid_request\"}}"

/* ----------------------------------------------------------------- vectors */

static void
embed(const char *json, const char *want)
{
	static const float v[] = { 0.5f, -0.25f, 0.1f, 1.0f, 2.0f, 3.0f,
	    1e-9f, 0.0f, -1.0f };
	struct qwen_vectors s = { .tok = service.tok, .n_vocab = 258,
	    .how = { .first = -1, .last = 257 }, .cut = 6, .n_ctx = 5 };
	struct qwen_embeddings_request q = { .n = 0 };
	struct qwen_text t = { 0 };

	if (qwen_embeddings_parse(&q, &s, json, strlen(json), &err) < 0)
		abort();
	qwen_embeddings_body(&q, "m", v, 3, &t);
	is(&t, want);
	qwen_embeddings_fini(&q);
	qwen_text_fini(&t);
}

#define LIST(data, n) "{\"object\":\"list\",\"data\":[" data "],\"model\":\"m\"," \
	"\"usage\":{\"prompt_tokens\":" n ",\"total_tokens\":" n "}}"
#define VECTOR(i, v) "{\"object\":\"embedding\",\"index\":" i ",\"embedding\":" \
	v "}"

static void
test_embeddings(void)
{
	embed("{\"input\":\"ab\"}", LIST(VECTOR("0",
	    "[0.5,-0.25,0.100000001]"), "3"));
	embed("{\"model\":\"q\\u0009\",\"input\":[\"ab\",\"too long a text\"],"
	    "\"encoding_format\":\"float\",\"user\":\"u\"}", "{\"object\":"
	    "\"list\",\"data\":[" VECTOR("0", "[0.5,-0.25,0.100000001]") ","
	    VECTOR("1", "[1,2,3]") "],\"model\":\"q\\t\",\"usage\":{"
	    "\"prompt_tokens\":9,\"total_tokens\":9}}");
	embed("{\"input\":[[1,2],[3],[4]],\"encoding_format\":\"base64\"}",
	    LIST(VECTOR("0", "\"AAAAPwAAgL7NzMw9\"") "," VECTOR("1",
	    "\"AACAPwAAAEAAAEBA\"") "," VECTOR("2", "\"X3CJMAAAAAAAAIC/\""),
	    "7"));
	embed("{\"input\":[5,6,7]}", LIST(VECTOR("0",
	    "[0.5,-0.25,0.100000001]"), "4"));
	embed("{}", NO("input is missing", "\"input\""));
	embed("{\"input\":{}}", NO("input: is not a string, a list of token ids, "
	    "or a list of these", "\"input\""));
	embed("{\"input\":[\"a\",7]}", NO("input: is not a string, a list of "
	    "token ids, or a list of these", "\"input\""));
	embed("{\"input\":[258]}", NO("input: 258 is not a token of this "
	    "model", "\"input\""));
	embed("{\"input\":\"a\",\"dimensions\":0}", NO("dimensions: 0 is not a "
	    "whole number of at least 1", "\"dimensions\""));
	embed("{\"input\":\"a\",\"encoding_format\":\"int8\"}", NO(
	    "encoding_format: is not float or base64", "\"encoding_format\""));
	/* as OpenAI's interface has it: "cannot be an empty string" */
	embed("{\"input\":[]}", NO("input: is empty", "\"input\""));
	embed("{\"input\":\"\"}", NO("input: is empty", "\"input\""));
	embed("{\"input\":[[]]}", NO("input: entry 0 is empty", "\"input\""));
	embed("{\"input\":[\"\"]}", NO("input: entry 0 is empty",
	    "\"input\""));
	embed("{\"input\":[[1],[2],[]]}", NO("input: entry 2 is empty",
	    "\"input\""));
	embed("{\"input\":[\"a\",\"\",\"b\"]}", NO("input: entry 1 is empty",
	    "\"input\""));
	/* the end of a text stays where it is cut; here that of 6 is usual */
	embed("{\"input\":\"too long a text\"}", LIST(VECTOR("0",
	    "[0.5,-0.25,0.100000001]"), "6"));
	embed("{\"input\":\"too long a text\",\"truncate_prompt_tokens\":3}",
	    LIST(VECTOR("0", "[0.5,-0.25,0.100000001]"), "3"));
	embed("{\"input\":\"too long a text\",\"truncate_prompt_tokens\":-1}",
	    LIST(VECTOR("0", "[0.5,-0.25,0.100000001]"), "5"));
	embed("{\"input\":\"too long a text\",\"truncate\":true}",
	    LIST(VECTOR("0", "[0.5,-0.25,0.100000001]"), "5"));
	embed("{\"input\":\"too long a text\",\"truncate\":\"END\"}",
	    LIST(VECTOR("0", "[0.5,-0.25,0.100000001]"), "5"));
	embed("{\"input\":[1,2,3,4,5],\"truncate_prompt_tokens\":3}",
	    LIST(VECTOR("0", "[0.5,-0.25,0.100000001]"), "3"));
	embed("{\"input\":\"a\",\"truncate_prompt_tokens\":-2}", NO(
	    "truncate_prompt_tokens: -2 is not a whole number of at least 1",
	    "\"truncate_prompt_tokens\""));
	embed("{\"input\":\"a\",\"truncate\":\"START\"}", NO("truncate: is "
	    "not true, false, \\\"END\\\" or \\\"NONE\\\"", "\"truncate\""));
	embed("[]", NO("the request is not a JSON object", "null"));
}

/* Lengths that base64 fills up. */
static void
test_base64(void)
{
	static const float v[] = { 1.0f, -2.5f };
	struct qwen_embeddings_request q = { .n = 1, .base64 = 1 };
	struct qwen_text t = { 0 };

	qwen_embeddings_body(&q, "m", v, 1, &t);
	is(&t, LIST(VECTOR("0", "\"AACAPw==\""), "0"));
	qwen_embeddings_body(&q, "m", v, 2, &t);
	is(&t, LIST(VECTOR("0", "\"AACAPwAAIMA=\""), "0"));
	qwen_text_fini(&t);
}

/* ----------------------------------------------------------------- ranking */

static void
rank(const char *json, const char *want)
{
	static const double score[] = { 0.25, 0.75, 0.25, 0.5 };
	struct qwen_ranking s = { .tok = service.tok, .how = reranker };
	struct qwen_rerank_request q = { .n_top = 0 };
	struct qwen_text t = { 0 };

	if (qwen_rerank_parse(&q, &s, json, strlen(json), &err) < 0)
		abort();
	q.rank.n_tokens = q.rank.n;
	if (qwen_rerank_body(&q, 7, "m", score, &t, &err) < 0)
		abort();
	is(&t, want);
	qwen_rerank_fini(&q);
	qwen_text_fini(&t);
}

#define RANKED(model, list, n) "{\"id\":\"rerank-7\",\"object\":\"list\"," \
	"\"model\":\"" model "\",\"results\":[" list "],\"usage\":{" \
	"\"prompt_tokens\":" n ",\"total_tokens\":" n "}}"

static void
test_rerank(void)
{
	rank("{\"model\":\"r\",\"query\":\"a\",\"documents\":[\"b\",{\"text\":"
	    "\"c\"},\"d\",\"e\"]}", RANKED("r",
	    "{\"index\":1,\"relevance_score\":0.75},"
	    "{\"index\":3,\"relevance_score\":0.5},"
	    "{\"index\":0,\"relevance_score\":0.25},"
	    "{\"index\":2,\"relevance_score\":0.25}", "4"));
	rank("{\"query\":\"a\",\"documents\":[\"b\",{\"text\":\"c\\\"\"}],"
	    "\"top_n\":1,\"return_documents\":true}", RANKED("m",
	    "{\"index\":1,\"relevance_score\":0.75,\"document\":{\"text\":"
	    "\"c\\\"\"}}", "2"));
	rank("{\"query\":\"a\",\"documents\":[],\"top_n\":9}",
	    RANKED("m", "", "0"));
	rank("{\"documents\":[]}", NO("query is missing", "\"query\""));
	rank("{\"query\":\"a\"}", NO("documents is missing",
	    "\"documents\""));
	rank("{\"query\":\"a\",\"documents\":[\"b\",{\"image\":\"c\"}]}", NO(
	    "documents: images are not read for vectors and scores: give only "
	    "text", "\"documents\""));
	rank("{\"query\":\"a\",\"documents\":[\"b\"],\"max_tokens_per_doc\":1}",
	    NO("max_tokens_per_doc is not supported",
	    "\"max_tokens_per_doc\""));
}

/* ------------------------------------------------------------------ tokens */

static int
tokenize(const struct qwen_service *s, const char *json, size_t n,
    int *status, struct qwen_text *t, struct qwen_err *e)
{
	return qwen_tokens_tokenize(s, 512, json, n, status, t, e);
}

static int
count_form(const struct qwen_service *s, enum qwen_form form, const char *json,
    size_t n, int *status, struct qwen_text *t, struct qwen_err *e)
{
	struct qwen_request *q;
	int rc;

	if (qwen_request_parse(&q, s, form, json, n, e) < 0)
		return -1;
	rc = qwen_tokens_count(q, status, t, e);
	qwen_request_free(q);
	return rc;
}

static int
count(const struct qwen_service *s, const char *json, size_t n,
    int *status, struct qwen_text *t, struct qwen_err *e)
{
	return count_form(s, QWEN_FORM_MESSAGES, json, n, status, t, e);
}

static int
count_items(const struct qwen_service *s, const char *json, size_t n,
    int *status, struct qwen_text *t, struct qwen_err *e)
{
	return count_form(s, QWEN_FORM_RESPONSES, json, n, status, t, e);
}

static void
tokens(int (*ask)(const struct qwen_service *, const char *, size_t, int *,
    struct qwen_text *, struct qwen_err *), const char *json, int code,
    const char *want)
{
	struct qwen_text t = { 0 };
	int status = 0;

	if (ask(&service, json, strlen(json), &status, &t, &err) < 0)
		abort();
	ok(status == code, "status %d", status);
	is(&t, want);
	qwen_text_fini(&t);
}

#define HI "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"
#define HI_TEXT "<|im_start|>user\\na<|im_end|>\\n<|im_start|>assistant\\n"

static void
test_tokens(void)
{
	tokens(tokenize, "{\"content\":\"ab\"}", 200, "{\"tokens\":[64,65],"
	    "\"count\":2,\"max_model_len\":512}");
	tokens(tokenize, "{\"prompt\":\"a\xe2\x82\xac\",\"model\":\"x\","
	    "\"with_pieces\":true}", 200, "{\"tokens\":[{\"id\":64,\"piece\":"
	    "\"a\"},{\"id\":158,\"piece\":[226]},{\"id\":224,\"piece\":[130]},"
	    "{\"id\":105,\"piece\":[172]}],\"count\":4,\"max_model_len\":512}");
	tokens(tokenize, "{\"prompt\":\"<|im_end|>\",\"return_token_strs\":true,"
	    "\"parse_special\":true}", 200, "{\"tokens\":[257],\"count\":1,"
	    "\"max_model_len\":512,\"token_strs\":[\"<|im_end|>\"]}");
	tokens(tokenize, "{" HI ",\"add_generation_prompt\":false,"
	    "\"with_pieces\":false}", 200, "{\"tokens\":[256,84,82,68,81,198,64,"
	    "257,198],\"count\":9,\"max_model_len\":512}");
	tokens(tokenize, "{\"tokens\":[1]}", 400, NO("give one of: content, "
	    "prompt, messages", "null"));
	tokens(tokenize, "{\"messages\":[1]}", 400, NO("message 1 is not an object",
	    "\"messages\""));
	tokens(qwen_tokens_detokenize, "{\"tokens\":[64,158,224,105,257,158]}",
	    200, "{\"content\":\"a\xe2\x82\xac<|im_end|>\xef\xbf\xbd\","
	    "\"prompt\":\"a\xe2\x82\xac<|im_end|>\xef\xbf\xbd\"}");
	tokens(qwen_tokens_detokenize, "{\"tokens\":[]}", 200, "{\"content\":"
	    "\"\",\"prompt\":\"\"}");
	tokens(qwen_tokens_detokenize, "{\"tokens\":[999]}", 400, NO("tokens: "
	    "999 is not a token of this model", "\"tokens\""));
	tokens(qwen_tokens_prompt, "{" HI "}", 200, "{\"prompt\":\"" HI_TEXT
	    "\"}");
	tokens(qwen_tokens_prompt, "{}", 400, NO("messages is missing",
	    "\"messages\""));
	tokens(count, "{" HI ",\"max_tokens\":1,\"thinking\":{\"type\":\"adaptive\"}}",
	    200, "{\"input_tokens\":20}");
	tokens(count, "{}", 400, "{\"type\":\"error\",\"error\":{\"type\":"
	    "\"invalid_request_error\",\"message\":\"messages is missing\"}}");
	tokens(count_items, "{\"input\":\"a\"}", 200, "{\"object\":"
	    "\"response.input_tokens\",\"input_tokens\":20}");
}

/* ------------------------------------------------------------------ errors */

static void
error(enum qwen_form form, int status, const char *code, const char *want)
{
	struct qwen_text t = { 0 };

	qwen_error_body(form, status, code, NULL, "no \"x\"", &t);
	is(&t, want);
	qwen_text_fini(&t);
}

static void
test_errors(void)
{
	error(QWEN_FORM_CHAT, 404, "model_not_found", "{\"error\":{\"message\":"
	    "\"no \\\"x\\\"\",\"type\":\"invalid_request_error\",\"param\":null,"
	    "\"code\":\"model_not_found\"}}");
	error(QWEN_FORM_RESPONSES, 429, "queue_full", "{\"error\":{\"message\":"
	    "\"no \\\"x\\\"\",\"type\":\"rate_limit_error\",\"param\":null,"
	    "\"code\":\"queue_full\"}}");
	error(QWEN_FORM_COMPLETION, 503, NULL, "{\"error\":{\"message\":"
	    "\"no \\\"x\\\"\",\"type\":\"server_error\",\"param\":null,"
	    "\"code\":null}}");
	error(QWEN_FORM_MESSAGES, 401, "x", "{\"type\":\"error\",\"error\":{"
	    "\"type\":\"authentication_error\",\"message\":\"no \\\"x\\\"\"}}");
	error(QWEN_FORM_MESSAGES, 405, "x", "{\"type\":\"error\",\"error\":{"
	    "\"type\":\"invalid_request_error\",\"message\":\"no \\\"x\\\"\"}}");
	error(QWEN_FORM_MESSAGES, 503, "x", "{\"type\":\"error\",\"error\":{"
	    "\"type\":\"overloaded_error\",\"message\":\"no \\\"x\\\"\"}}");
}

int
main(void)
{
	start();
	test_embeddings();
	test_base64();
	test_rerank();
	test_tokens();
	test_errors();
	return done_testing();
}
