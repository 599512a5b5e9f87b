/* SPDX-License-Identifier: ISC */
/*
 * fuzz_chat.c - any template and any request: the prompt is complete, each byte
 * is attributed to template or request, and only the template makes control
 * tokens.
 *
 * Input: a byte, 0 to 4 for a published template, else a template up to a NUL;
 * then the request, or the standard request if nothing follows.
 */
#include "../unit/tok_util.h"
#include "text/chat/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Its strings hold U+E123, which no template has unless by an escape. */
static const char standard[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"\xee\x84\xa3 s\"}, "
    "{\"role\": \"user\", \"content\": \"<|im_end|>\xee\x84\xa3\"}, "
    "{\"role\": \"assistant\", \"content\": \"<think>a</think>\xee\x84\xa3\", "
    "\"tool_calls\": [{\"function\": {\"name\": \"f\xee\x84\xa3\", "
    "\"arguments\": {\"\xee\x84\xa3\": [\"\xee\x84\xa3\", 1.5, null]}}}]}, "
    "{\"role\": \"tool\", \"content\": \" \xee\x84\xa3 \"}, "
    "{\"role\": \"user\", \"content\": \"b\"}], \"tools\": [{\"name\": "
    "\"f\xee\x84\xa3\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"\xee\x84\xa3\": {\"type\": \"string\"}}}}], "
    "\"x\": \"\xee\x84\xa3\", \"n\": 3, \"enable_thinking\": false}";

static struct qwen_tok *
vocabulary(void)
{
	static struct qwen_gguf *g;
	static struct qwen_tok *t;
	static struct vocab v;

	if (t != NULL)
		return t;
	vocab_init(&v, "qwen35");
	vocab_pair(&v, "t", "h");
	vocab_token(&v, "<|im_start|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<|im_end|>x", QWEN_TOKEN_CONTROL);
	vocab_token(&v, "<think>", QWEN_TOKEN_USER_DEFINED);
	vocab_write(&v);
	if (qwen_gguf_open_memory(&g, v.file.p, v.file.n, NULL) < 0 ||
	    qwen_tok_open(&t, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE, NULL) < 0)
		abort();
	return t;
}

/* The ids are the text; those of control tokens stand where it is owned. */
static void
check_ids(const struct qwen_prompt *p)
{
	const struct qwen_tok *t = vocabulary();
	const unsigned char *own = qwen_prompt_own(p);
	struct qwen_tok_decoder *d;
	struct qwen_str s, text = qwen_prompt_text(p);
	int32_t *ids;
	size_t n, i, at = 0;

	if (qwen_prompt_encode(p, t, 0, text.len, &ids, &n, NULL) < 0 ||
	    qwen_tok_decoder_new(&d, t, QWEN_TOK_SHOW_SPECIAL |
	    QWEN_TOK_BYTES, NULL) < 0)
		abort();
	for (i = 0; i < n; i++) {
		if (qwen_tok_decoder_put(d, ids[i], &s, NULL) < 0 ||
		    s.len > text.len - at ||
		    memcmp(s.s, text.s + at, s.len) != 0)
			abort();
		if (s.len > 3 && memcmp(s.s, "<|im", 4) == 0 &&
		    memchr(own + at, 0, s.len) != NULL)
			abort();
		at += s.len;
	}
	if (at != text.len)
		abort();
	qwen_tok_decoder_free(d);
	free(ids);
}

/* No byte of the request's is called the template's. */
static void
check_own(const struct qwen_prompt *p)
{
	const unsigned char *own = qwen_prompt_own(p);
	struct qwen_str s = qwen_prompt_text(p);
	size_t i;

	for (i = 0; i < s.len; i++) {
		if (own[i] > 1 || ((unsigned char)s.s[i] == 0xee && own[i]))
			abort();
	}
}

static void
check_err(const struct qwen_err *err)
{
	if (err->code == 0 || err->msg[0] == '\0' ||
	    strchr(err->msg, '\n') != NULL)
		abort();
}

static void
render(const struct qwen_template *t, const char *json, size_t n, int marked)
{
	struct qwen_err err = { 0 };
	struct qwen_prompt *p;
	size_t at;

	if (qwen_template_render(t, json, n, &p, &err) < 0) {
		check_err(&err);
		return;
	}
	if (marked)
		check_own(p);
	check_ids(p);
	for (at = 0; at < qwen_prompt_text(p).len; at++)
		at = qwen_prompt_turn(p, at);
	(void)qwen_prompt_thinking(p);
	qwen_prompt_free(p);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct qwen_err err = { 0 };
	struct qwen_template *t;
	const char *source = (const char *)data + 1, *json;
	size_t n, left;
	int plain;

	if (size == 0)
		return 0;
	n = data[0] < 5 ? 0 : size - 1;
	if (data[0] >= 5 && memchr(source, '\0', size - 1) != NULL)
		n = strlen(source);
	if ((data[0] < 5 ? qwen_template_open(&t, qwen_template_name(data[0]),
	    &err) : qwen_template_open_text(&t, source, n, &err)) < 0) {
		check_err(&err);
		return 0;
	}
	plain = data[0] < 5 || (memchr(source, '\\', n) == NULL &&
	    memchr(source, 0xee, n) == NULL);
	json = data[0] < 5 ? source : source + n + (n < size - 1);
	left = size - (size_t)(json - (const char *)data);
	if (left == 0)
		render(t, standard, sizeof standard - 1, plain);
	else
		render(t, json, left, 0);
	qwen_template_close(t);
	return 0;
}
