/* SPDX-License-Identifier: ISC */
/* request_images.c - the images of requests, in the forms of all APIs. */
#include "tok_util.h"
#include "text/request/request.h"
#include "../tap.h"

static struct qwen_service service;
static struct qwen_err err;
static int32_t pad;

static void
start(void)
{
	static struct qwen_template *t;
	static struct vocab v;
	static struct qwen_gguf *g;
	int32_t *ids;
	size_t n;

	vocab_init(&v, "qwen35");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|vision_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|vision_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|image_pad|>", QWEN_TOKEN_CONTROL);
	service.tok = vocab_open(&v, &g);
	if (qwen_template_open(&t, "qwen3.5", &err) < 0 ||
	    qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err) < 0 || qwen_tok_encode(service.tok,
	    "<|image_pad|>", 13, QWEN_TOK_SPECIAL, &ids, &n, &err) < 0)
		abort();
	pad = ids[0];
	free(ids);
	service.template = t;
	service.model = "m";
	service.n_vocab = qwen_tok_n_vocab(service.tok);
	service.max = 7;
	service.streams = 1;
	service.reads_images = 1;
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

/*
 * The request has these images, "KIND:TEXT " each, b, u or p; or this error; and
 * the prompt has a place for each.
 */
static void
has(const char *name, enum qwen_form form, const char *json, const char *want)
{
	struct qwen_request *q = parse(form, json);
	struct qwen_text t = { 0 };
	size_t i, k, places = 0;

	qwen_text_str(&t, q->refusal.err.code != 0 ? q->refusal.err.msg : "");
	for (i = 0; q->refusal.err.code == 0 && i < q->images.n; i++)
		qwen_text_fmt(&t, "%c:%s ", "-bup"[q->images.v[i].kind],
		    q->images.v[i].s);
	for (k = 0; q->n_prompts > 0 && k < q->prompt[0].n; k++)
		places += q->prompt[0].id[k] == pad;
	ok(strcmp(t.s, want) == 0 && (q->refusal.err.code != 0 ||
	    places == q->images.n), "%s: %s, %zu places", name, t.s, places);
	qwen_text_fini(&t);
	qwen_request_free(q);
}

#define CHAT(...) "{\"messages\":[{\"role\":\"user\",\"content\":[" \
	__VA_ARGS__ "]}]}"
#define URL(url) "{\"type\":\"image_url\",\"image_url\":{\"url\":\"" url \
	"\",\"detail\":\"low\"}}"
#define TEXT(s) "{\"type\":\"text\",\"text\":\"" s "\"}"
#define SOURCE(s) "{\"type\":\"image\",\"source\":" s "}"
#define BASE64(s) SOURCE("{\"type\":\"base64\",\"media_type\":\"image/png\"," \
	"\"data\":\"" s "\"}")

static void
test_forms(void)
{
	has("a chat", QWEN_FORM_CHAT, CHAT(TEXT("a <|image_pad|>") ","
	    URL("data:image/png;base64,YWJjZA==") ","
	    URL("https://x.org/a.png") "," TEXT("b")),
	    "b:abcd u:https://x.org/a.png ");
	has("files", QWEN_FORM_CHAT, CHAT(URL("file:///a%20b.png") ","
	    URL("c/d.png") ",{\"type\":\"image\",\"image\":\"e.png\"}"),
	    "p:/a b.png p:c/d.png p:e.png ");
	has("a line of a batch", QWEN_FORM_PLAIN, CHAT(URL("data:;base64,eHk")),
	    "b:xy ");
	has("Anthropic", QWEN_FORM_MESSAGES, "{\"max_tokens\":1,\"messages\":["
	    "{\"role\":\"user\",\"content\":[" TEXT("a") "," BASE64("eA==") ","
	    SOURCE("{\"type\":\"url\",\"url\":\"http://y\"}") "]}]}",
	    "b:x u:http://y ");
	has("Anthropic: a tool's result", QWEN_FORM_MESSAGES, "{\"max_tokens\":"
	    "1,\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
	    "\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"1\","
	    "\"name\":\"f\",\"input\":{}}]},{\"role\":\"user\",\"content\":[{"
	    "\"type\":\"tool_result\",\"tool_use_id\":\"1\",\"content\":["
	    TEXT("t") "," BASE64("eQ") "]}," BASE64("eg") "]}]}", "b:y b:z ");
	has("Responses", QWEN_FORM_RESPONSES, "{\"input\":[{\"role\":\"user\","
	    "\"content\":[{\"type\":\"input_text\",\"text\":\"a\"},{\"type\":"
	    "\"input_image\",\"detail\":\"auto\",\"image_url\":\"data:image/"
	    "png;base64,eA==\"}]},{\"type\":\"function_call\",\"call_id\":"
	    "\"1\",\"name\":\"f\",\"arguments\":\"{}\"},{\"type\":"
	    "\"function_call_output\",\"call_id\":\"1\",\"output\":[{\"type\":"
	    "\"input_image\",\"image_url\":\"data:;base64,eQ==\"}]}]}",
	    "b:x b:y ");
	has("Ollama", QWEN_FORM_OLLAMA_CHAT, "{\"messages\":[{\"role\":"
	    "\"user\",\"content\":\"a\",\"images\":[\"eA==\",\"eQ==\"]}]}",
	    "b:x b:y ");
	has("Ollama's generate", QWEN_FORM_OLLAMA_GENERATE, "{\"prompt\":\"a\","
	    "\"images\":[\"eA==\"]}", "b:x ");
	has("no image", QWEN_FORM_CHAT, CHAT(TEXT("<|image_pad|>")), "");
}

static void
test_base64(void)
{
	has("lines, and no padding", QWEN_FORM_CHAT, CHAT(URL("data:image/png;"
	    "base64,YWJj\\nZGVm\\r\\nZw")), "b:abcdefg ");
	has("the alphabet of URLs", QWEN_FORM_CHAT, CHAT(URL("data:;BASE64,"
	    "fn5-fz8_")), "b:~~~\177?? ");
}

static void
test_refused(void)
{
	has("not base64", QWEN_FORM_CHAT, CHAT(URL("data:;base64,eA==") ","
	    URL("data:;base64,a*b")), "image 2: byte 2 of its data is not base64");
	has("empty", QWEN_FORM_CHAT, CHAT(URL("data:image/png;base64,")),
	    "image 1: it has no data");
	has("no URL", QWEN_FORM_CHAT, CHAT(URL("")), "image 1: its URL is empty");
	has("not in base64", QWEN_FORM_CHAT, CHAT(URL("data:image/png,x")),
	    "image 1: a data: URL must be data:TYPE;base64,DATA");
	has("an unknown kind", QWEN_FORM_CHAT, CHAT(URL("s3://a/b")),
	    "image 1: a URL of this kind is not supported: send a data: URL");
	has("a NUL", QWEN_FORM_CHAT, CHAT(URL("file:///a%00b")),
	    "image 1: its name has a NUL");
	has("nothing", QWEN_FORM_CHAT, CHAT("{\"type\":\"image\"}"),
	    "image 1: the part has no image");
	has("a number", QWEN_FORM_CHAT, CHAT("{\"type\":\"image_url\","
	    "\"image_url\":5}"), "image 1: its URL is not a string");
	has("a file's id", QWEN_FORM_MESSAGES, "{\"max_tokens\":1,\"messages\":"
	    "[{\"role\":\"user\",\"content\":[" SOURCE("{\"type\":\"file\","
	    "\"file_id\":\"1\"}") "]}]}", "image 1: its source is neither "
	    "base64 with data nor url with a url");
	has("an image of Ollama", QWEN_FORM_OLLAMA_CHAT, "{\"messages\":[{"
	    "\"role\":\"user\",\"content\":\"a\",\"images\":[7]}]}", "image 1: "
	    "its source is neither base64 with data nor url with a url");
	has("a system message", QWEN_FORM_CHAT, "{\"messages\":[{\"role\":"
	    "\"system\",\"content\":[" URL("data:;base64,eA==") "]},{\"role\":"
	    "\"user\",\"content\":\"a\"}]}",
	    "the chat template refuses: System message cannot "
	    "contain images.");
	has("a document", QWEN_FORM_CHAT, CHAT("{\"type\":\"file\"}"),
	    "message 1: parts of type file are not supported (text only); "
	    "--image-placeholder puts a line in their place");
	service.placeholder = "";
	has("a document, with a placeholder", QWEN_FORM_CHAT,
	    CHAT("{\"type\":\"file\"}," URL("data:;base64,eA==")), "b:x ");
	service.placeholder = NULL;
	service.reads_images = 0;
	has("a text model", QWEN_FORM_CHAT, CHAT(URL("data:;base64,eA==")),
	    "message 1: parts of type image_url are not supported (text only); "
	    "--image-placeholder puts a line in their place");
	service.reads_images = 1;
}

/* As many images as are allowed, and one more. */
static void
test_many(void)
{
	int i, k;

	for (k = QWEN_REQUEST_IMAGES_MAX; k <= QWEN_REQUEST_IMAGES_MAX + 1;
	    k++) {
		struct qwen_text t = { 0 };
		struct qwen_request *q;

		qwen_text_str(&t, "{\"messages\":[{\"role\":\"user\","
		    "\"content\":[");
		for (i = 0; i < k; i++)
			qwen_text_fmt(&t, "%s%s", i > 0 ? "," : "",
			    URL("data:;base64,eA=="));
		qwen_text_str(&t, "]}]}");
		q = parse(QWEN_FORM_CHAT, t.s);
		ok((q->refusal.err.code != 0) == (k >
		    QWEN_REQUEST_IMAGES_MAX), "%d images: %s", k,
		    q->refusal.err.msg);
		qwen_request_free(q);
		qwen_text_fini(&t);
	}
}

/* Images get bytes, and lose them; in every length of base64. */
static void
test_messages(void)
{
	static const char bytes[] = "GIF89a\0\377\200";
	struct qwen_image_sources all = { 0 };
	struct qwen_image_source src[2];
	struct qwen_messages *m;
	struct qwen_str text;
	char *json, *bare;
	size_t n, n_bare, k;

	if (qwen_messages_new(&m, &err) < 0 ||
	    qwen_messages_add_text(m, "system", "s", 1, 0, &err) < 0 ||
	    qwen_messages_add_image(m, &err) < 0 ||
	    qwen_messages_add_text(m, "user", "a", 1, 1, &err) < 0 ||
	    qwen_messages_add_image(m, &err) < 0 ||
	    qwen_messages_json(m, 0, &bare, &n_bare, &err) < 0)
		abort();
	for (k = 0; k < 3; k++) {
		ok(qwen_messages_last_part(m, k, &text) == 1 &&
		    (text.s != NULL) == (k == 1), "part %zu", k);
	}
	ok(!qwen_messages_last_part(m, 3, &text), "no more parts");
	for (k = 1; k < sizeof bytes; k++) {
		src[0] = src[1] = (struct qwen_image_source){
		    .kind = QWEN_SOURCE_BYTES, .s = (char *)(uintptr_t)bytes,
		    .n = k };
		src[1].n = sizeof bytes - k;
		if (qwen_messages_set_images(m, src, &err) < 0 ||
		    qwen_messages_images(m, &all, &err) < 0)
			abort();
		ok(all.n == 2 && all.v[0].n == k && all.v[1].n == src[1].n &&
		    memcmp(all.v[0].s, bytes, k) == 0 &&
		    memcmp(all.v[1].s, bytes, src[1].n) == 0 &&
		    all.v[1].message == 1, "%zu bytes", k);
		qwen_image_sources_fini(&all);
	}
	qwen_messages_json(m, 0, &json, &n, &err);
	ok(strstr(json, "\"image_url\":{\"url\":\"data:image/gif;base64,R0lG") !=
	    NULL, "a data: URL");
	free(json);
	qwen_messages_set_images(m, NULL, &err);
	qwen_messages_json(m, 0, &json, &n, &err);
	ok(n == n_bare && memcmp(json, bare, n) == 0, "without bytes again");
	free(json);
	free(bare);
	qwen_messages_free(m);
}

int
main(void)
{
	start();
	test_forms();
	test_base64();
	test_refused();
	test_many();
	test_messages();
	return done_testing();
}
