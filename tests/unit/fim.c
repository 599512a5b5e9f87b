/* SPDX-License-Identifier: ISC */
/*
 * fim.c - fill in the middle: its tokens by key and by name, the order of
 * Qwen2.5-Coder's model card, and requests for it.
 */
#include "tok_util.h"
#include "text/request/request.h"
#include "../tap.h"

static struct qwen_err err;

/* All six by name, as the files of Qwen2.5-Coder have them. */
static void
name_all(struct vocab *v)
{
	static const char *const names[] = { "<|fim_prefix|>",
	    "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
	    "<|repo_name|>", "<|file_sep|>" };
	size_t i;

	vocab_init(v, "qwen2");
	for (i = 0; i < 6; i++)
		vocab_token(v, names[i], QWEN_TOKEN_CONTROL);
}

/* The prompt as text with the names of control tokens is this. */
static void
prompt_is(const struct qwen_tok *t, const struct qwen_fim_text *x,
    const char *want)
{
	struct qwen_tok_decoder *d;
	struct qwen_text got = { 0 };
	struct qwen_str s;
	int32_t *ids;
	size_t i, n;

	if (qwen_tok_encode_fim(t, x, &ids, &n, &err) < 0 ||
	    qwen_tok_decoder_new(&d, t, QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL,
	    &err) < 0) {
		ok(0, "%s", err.msg);
		return;
	}
	for (i = 0; i < n; i++) {
		qwen_tok_decoder_put(d, ids[i], &s, &err);
		qwen_text_add(&got, s.s, s.len);
	}
	ok(got.n == strlen(want) && memcmp(got.s, want, got.n) == 0, "%.*s",
	    (int)got.n, got.s);
	qwen_text_fini(&got);
	qwen_tok_decoder_free(d);
	free(ids);
}

#define S(s) { s, sizeof s - 1 }

static void
test_order(void)
{
	static const struct qwen_fim_file files[] = {
		{ S("a.py"), S("x = 1\n") }, { S("b.py"), S("y = 2\n") },
	};
	struct qwen_fim_text x = { .prefix = S("def f("),
	    .suffix = S("):\n") };
	struct qwen_gguf *g;
	struct vocab v;
	struct qwen_tok *t;
	int32_t *ids, hand[] = { 256, 'a' - '!', 258, 'b' - '!', 257 };
	size_t n;

	name_all(&v);
	t = vocab_open(&v, &g);
	prompt_is(t, &x, "<|fim_prefix|>def f(<|fim_suffix|>):\n<|fim_middle|>");
	x.line = (struct qwen_str)S("  a");
	prompt_is(t, &x, "<|fim_prefix|>def f(  a<|fim_suffix|>):\n"
	    "<|fim_middle|>");
	x.file = files;
	x.n_files = 2;
	prompt_is(t, &x, "<|repo_name|>myproject\n<|file_sep|>a.py\nx = 1\n"
	    "<|file_sep|>b.py\ny = 2\n<|file_sep|>filename\n"
	    "<|fim_prefix|>def f(  a<|fim_suffix|>):\n<|fim_middle|>");
	x.name = (struct qwen_str)S("c.py");
	x.n_files = 1;
	prompt_is(t, &x, "<|repo_name|>myproject\n<|file_sep|>a.py\nx = 1\n"
	    "<|file_sep|>c.py\n<|fim_prefix|>def f(  a<|fim_suffix|>):\n"
	    "<|fim_middle|>");
	x = (struct qwen_fim_text){ .prefix = S("a"), .suffix = S("b") };
	ok(qwen_tok_encode_fim(t, &x, &ids, &n, &err) == 0 && n == 5 &&
	    memcmp(ids, hand, sizeof hand) == 0, "prefix, suffix, middle");
	free(ids);
	x = (struct qwen_fim_text){ .prefix = S("<|fim_middle|>") };
	ok(qwen_tok_encode_fim(t, &x, &ids, &n, &err) == 0 && n == 14 + 3,
	    "names in a text are text");
	free(ids);
	x = (struct qwen_fim_text){ .ids = hand + 1, .n_ids = 1,
	    .suffix = S("b") };
	ok(qwen_tok_encode_fim(t, &x, &ids, &n, &err) == 0 && n == 5 &&
	    memcmp(ids, hand, sizeof hand) == 0, "ids in place of a text");
	free(ids);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

/* Three tokens without such names, which keys name. */
static void
by_keys(const char *pre, const char *suf, const char *mid)
{
	struct qwen_fim_text x = { .prefix = S("a"), .suffix = S("b") };
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<P>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<S>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<M>", QWEN_TOKEN_CONTROL);
	v.key[0] = pre;
	v.key[1] = suf;
	v.key[2] = mid;
	v.key_id[0] = 256;
	v.key_id[1] = 257;
	v.key_id[2] = 258;
	t = vocab_open(&v, &g);
	prompt_is(t, &x, "<P>a<S>b<M>");
	ok(qwen_tok_fim(t, QWEN_FIM_FILE) == -1, "no token between files");
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

static void
test_missing(void)
{
	struct qwen_fim_text x = { .prefix = S("a"), .suffix = S("b") };
	struct qwen_gguf *g;
	struct qwen_tok *t;
	struct vocab v;
	int32_t *ids;
	size_t n;

	vocab_init(&v, "qwen2");
	vocab_token(&v, "<|fim_prefix|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|fim_suffix|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|fim_middle|>", QWEN_TOKEN_UNUSED);
	t = vocab_open(&v, &g);
	ok(qwen_tok_encode_fim(t, &x, &ids, &n, &err) == -1 &&
	    err.code == QWEN_EUNSUP && ids == NULL, "%s", err.msg);
	qwen_tok_close(t);
	qwen_gguf_close(g);
	v.key[0] = "tokenizer.ggml.fim_mid_token_id";
	v.key_id[0] = 259;
	vocab_write(&v);
	if (qwen_gguf_open_memory(&g, v.file.p, v.file.n, &err) < 0)
		abort();
	ok(qwen_tok_open(&t, g, QWEN_TOK_ENCODE, &err) == 0 &&
	    qwen_tok_fim(t, QWEN_FIM_MIDDLE) == -1, "an id that is no token");
	qwen_tok_close(t);
	qwen_gguf_close(g);
	vocab_free(&v);
}

/* -------------------------------------------------------------------- requests */

static struct qwen_service service;

static struct qwen_request *
parse(enum qwen_form form, const char *json)
{
	struct qwen_request *q;

	if (qwen_request_parse(&q, &service, form, json, strlen(json),
	    &err) < 0)
		abort();
	return q;
}

static void
refused(enum qwen_form form, const char *json, const char *param,
    const char *msg)
{
	struct qwen_request *q = parse(form, json);

	ok(q->refusal.err.code != 0 && q->refusal.param != NULL &&
	    strcmp(q->refusal.param, param) == 0 && strcmp(q->refusal.err.msg,
	    msg) == 0, "%s", q->refusal.err.msg);
	qwen_request_free(q);
}

/* The tokens of its first prompt are these. */
static void
ids_are(enum qwen_form form, const char *json, const int32_t *want, size_t n)
{
	struct qwen_request *q = parse(form, json);

	ok(q->refusal.err.code == 0 && q->prompt[0].n == n &&
	    q->n_prompt_tokens >= n &&
	    memcmp(q->prompt[0].id, want, n * sizeof *want) == 0, "%s %s",
	    json, q->refusal.err.code != 0 ? q->refusal.err.msg : "");
	ok(q->n_stop_ids >= 6, "tokens of files and parts end it");
	qwen_request_free(q);
}

/* Of an answer, token by token, the body. */
static void
body_is(const char *json, const char *text, const char *want)
{
	struct qwen_request *q = parse(QWEN_FORM_INFILL, json);
	struct qwen_answer *a = &q->answer[0];
	struct qwen_text t = { 0 };
	struct qwen_likely token = { 0, 0 };
	int32_t *ids;
	size_t i, n;
	int ended = 0;

	if (qwen_tok_encode(service.tok, text, strlen(text), 0, &ids, &n,
	    &err) < 0)
		abort();
	for (i = 0; i < n && !ended; i++) {
		token.id = ids[i];
		ended = qwen_answer_put(a, &token, NULL, 0, &err);
	}
	free(ids);
	if (qwen_answer_end(a, "stop", &err) < 0)
		abort();
	qwen_request_body(q, 0, &t);
	ok(strcmp(t.s, want) == 0, "%s", t.s);
	qwen_text_fini(&t);
	qwen_request_free(q);
}

#define AROUND "{\"input_prefix\":\"a\",\"input_suffix\":\"b\""

static void
test_requests(void)
{
	static const int32_t want[] = { 256, 'a' - '!', 258, 'b' - '!', 257 };
	static struct vocab v;
	struct qwen_gguf *g;
	struct qwen_request *q;

	name_all(&v);
	service.tok = vocab_open(&v, &g);
	service.n_vocab = v.n_tokens;
	if (qwen_tok_decoder_new(&service.spell, service.tok, QWEN_TOK_BYTES |
	    QWEN_TOK_SHOW_SPECIAL, &err) < 0)
		abort();
	service.model = "m";
	service.no_template = "none";
	service.max = 5;
	service.streams = service.echoes = 1;
	ids_are(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"suffix\":\"b\"}",
	    want, 5);
	ids_are(QWEN_FORM_COMPLETION, "{\"prompt\":[\"a\",\"c\"],\"suffix\":"
	    "\"b\"}", want, 5);
	ids_are(QWEN_FORM_COMPLETION, "{\"prompt\":[64],\"suffix\":\"b\"}",
	    want, 5);
	ids_are(QWEN_FORM_PLAIN, "{\"prompt\":\"a\",\"suffix\":\"b\"}", want,
	    5);
	ids_are(QWEN_FORM_INFILL, AROUND "}", want, 5);
	ids_are(QWEN_FORM_INFILL, "{\"input_prefix\":\"\",\"prompt\":\"a\","
	    "\"input_suffix\":\"b\",\"input_extra\":[]}", want, 5);
	q = parse(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"suffix\":\"\"}");
	ok(q->refusal.err.code == 0 && q->prompt[0].n == 1 && q->n_stop_ids ==
	    0, "an empty suffix is none");
	qwen_request_free(q);
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"suffix\":7}",
	    "suffix", "suffix: is not a string");
	refused(QWEN_FORM_COMPLETION, "{\"prompt\":\"a\",\"suffix\":\"b\","
	    "\"echo\":true}", "suffix", "suffix and echo cannot be combined");
	refused(QWEN_FORM_INFILL, "{\"input_prefix\":\"a\"}", "input_suffix",
	    "input_suffix is missing");
	refused(QWEN_FORM_INFILL, AROUND ",\"input_extra\":[{\"filename\":"
	    "\"x\"}]}", "input_extra", "input_extra: entry 0 is not an object "
	    "with a string \"text\" and optionally a string \"filename\"");
	refused(QWEN_FORM_INFILL, AROUND ",\"response_fields\":[1]}",
	    "response_fields", "response_fields: is not a list of strings");
	q = parse(QWEN_FORM_INFILL, AROUND ",\"n_predict\":0}");
	ok(q->refusal.err.code == 0 && q->max == 0, "none may be wanted");
	qwen_request_free(q);
	body_is(AROUND ",\"response_fields\":[\"content\",\"stop_type\","
	    "\"timings/prompt_n\",\"stop\",\"\"]}", "xy",
	    "{\"content\":\"xy\",\"stop_type\":\"eos\",\"stop\":true}");
	body_is(AROUND ",\"response_fields\":[\"\"]}", "xy", "{}");
	body_is(AROUND ",\"stop\":[\"z\"],\"response_fields\":[\"content\","
	    "\"stop_type\",\"stopping_word\"]}", "xyzzy", "{\"content\":\"xy\","
	    "\"stop_type\":\"word\",\"stopping_word\":\"z\"}");
	/* a line that is indented less ends it, but no empty one */
	body_is(AROUND ",\"n_indent\":2,\"response_fields\":[\"content\","
	    "\"stop_type\"]}", "x\n  y\n\n   z\n w\n  v", "{\"content\":"
	    "\"x\\n  y\\n\\n   z\\n \",\"stop_type\":\"limit\"}");
	body_is(AROUND "}", "x", "{\"index\":0,\"content\":\"x\",\"tokens\":[],"
	    "\"id_slot\":0,\"stop\":true,\"model\":\"m\",\"tokens_predicted\":1,"
	    "\"tokens_evaluated\":5,\"generation_settings\":{\"n_predict\":5,"
	    "\"n_probs\":0,\"stream\":false,\"stop\":[]},\"prompt\":\""
	    "<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>\","
	    "\"has_new_line\":false,\"truncated\":false,\"stop_type\":\"eos\",\"stopping_word\":\"\",\"tokens_cached\":0}");
	/* llama.vscode wants several */
	q = parse(QWEN_FORM_INFILL, AROUND ",\"n_cmpl\":3}");
	ok(q->refusal.err.code == 0 && q->n_answers == 3 && q->n_prompts == 1,
	    "n_cmpl");
	qwen_request_free(q);
	/* where there is no room for all files, the first are left out */
	service.n_ctx = 60;
	q = parse(QWEN_FORM_INFILL, AROUND ",\"n_predict\":5,\"input_extra\":["
	    "{\"text\":\"0123456789012345678901234567890123456789\"},"
	    "{\"text\":\"abc\",\"filename\":\"d\"}]}");
	/* repo, its name and line feed; two files of 1 + 1 + 1 + 3, 1 + 9 */
	ok(q->refusal.err.code == 0 && q->prompt[0].n == 11 + 6 + 10 + 5,
	    "%zu tokens", q->prompt[0].n);
	qwen_request_free(q);
	qwen_tok_decoder_free(service.spell);
	qwen_tok_close((struct qwen_tok *)(uintptr_t)service.tok);
	qwen_gguf_close(g);
	vocab_free(&v);
}

int
main(void)
{
	test_order();
	by_keys("tokenizer.ggml.fim_pre_token_id",
	    "tokenizer.ggml.fim_suf_token_id",
	    "tokenizer.ggml.fim_mid_token_id");
	by_keys("tokenizer.ggml.prefix_token_id",
	    "tokenizer.ggml.suffix_token_id",
	    "tokenizer.ggml.middle_token_id");
	test_missing();
	test_requests();
	return done_testing();
}
