/* SPDX-License-Identifier: ISC */
/*
 * chat_tokens.c - every special token of a vocabulary as text in every field of
 * a request: only text written by the template becomes a control token.
 */
#include "text/chat/chat.h"
#include "../tap.h"
#include "chat_util.h"

/* Every place; @ is where the text goes. */
static const char request[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"a @ b\"}, "
    "{\"role\": \"user\", \"content\": \"@\"}, "
    "{\"role\": \"assistant\", \"content\": \"c @\", \"reasoning_content\": "
    "\"d @ e\", \"tool_calls\": [{\"type\": \"function\", \"function\": "
    "{\"name\": \"f@\", \"arguments\": {\"p@\": \"v @\", \"q\": [\"@\", "
    "{\"@\": \"@\"}]}}}]}, "
    "{\"role\": \"tool\", \"content\": \"@ f\"}, "
    "{\"role\": \"assistant\", \"content\": \"<think>g @</think>h @\"}, "
    "{\"role\": \"user\", \"content\": \"i\\n@\\nj\"}], "
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f@\", "
    "\"description\": \"k @\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"p@\": {\"type\": \"string\", \"description\": "
    "\"@\", \"enum\": [\"@\", \"l\"]}}, \"x@\": \"@\"}, \"y\": \"@\"}}]}";

/* The request with text for each @: free(). */
static char *
fill(const char *text)
{
	struct bytes b = { NULL, 0, 0 };
	const char *s;

	for (s = request; *s != '\0'; s++) {
		if (*s == '@')
			add_bytes(&b, text, strlen(text));
		else
			add_bytes(&b, s, 1);
	}
	add_bytes(&b, "", 1);
	return (char *)b.p;
}

struct vocabulary {
	struct qwen_gguf	*g;
	struct qwen_tok		*t;
	struct bytes		 file;
};

static void
open_vocabulary(struct vocabulary *v, const char *model)
{
	const char *top = getenv("TOP");
	struct bytes raw = { NULL, 0, 0 };
	char path[1024], buf[4096];
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/golden/models/%s/model.gguf.zst",
	    top != NULL ? top : ".", model);
	if ((f = fopen(path, "rb")) == NULL)
		exit(1);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		add_bytes(&raw, buf, n);
	fclose(f);
	n = (size_t)ZSTD_getFrameContentSize(raw.p, raw.n);
	v->file.p = malloc(n);
	if (v->file.p == NULL || ZSTD_isError(ZSTD_decompress(v->file.p, n,
	    raw.p, raw.n)) || qwen_gguf_open_memory(&v->g, v->file.p, n,
	    NULL) < 0 || qwen_tok_open(&v->t, v->g, QWEN_TOK_ENCODE |
	    QWEN_TOK_DECODE, NULL) < 0)
		exit(1);
	free(raw.p);
}

static uint64_t
type_of(const struct vocabulary *v, size_t id)
{
	uint64_t type = 0;

	qwen_gguf_get_u64(v->g, "tokenizer.ggml.token_type", id, &type, NULL);
	return type;
}

/* A prompt's control tokens, and whether its ids are its text. */
struct seen {
	int32_t	control[256];
	size_t	n;
	int	same_text;
};

static void
look(const struct vocabulary *v, const struct qwen_template *t,
    const char *json, struct seen *out)
{
	struct qwen_tok_decoder *d;
	struct qwen_prompt *p;
	struct qwen_str s, text;
	int32_t *ids;
	size_t n, i, at = 0;

	memset(out, 0, sizeof *out);
	if (qwen_template_render(t, json, strlen(json), &p, NULL) < 0)
		return;
	text = qwen_prompt_text(p);
	if (qwen_prompt_encode(p, v->t, 0, text.len, &ids, &n, NULL) < 0 ||
	    qwen_tok_decoder_new(&d, v->t, QWEN_TOK_SHOW_SPECIAL |
	    QWEN_TOK_BYTES, NULL) < 0)
		exit(1);
	out->same_text = 1;
	for (i = 0; i < n; i++) {
		if (type_of(v, (size_t)ids[i]) == QWEN_TOKEN_CONTROL &&
		    out->n < 256)
			out->control[out->n++] = ids[i];
		qwen_tok_decoder_put(d, ids[i], &s, NULL);
		out->same_text &= s.len <= text.len - at &&
		    memcmp(text.s + at, s.s, s.len) == 0;
		at += s.len;
	}
	out->same_text &= at == text.len;
	qwen_tok_decoder_free(d);
	free(ids);
	qwen_prompt_free(p);
}

/* The ids of a harmless prompt are those of its text with control tokens. */
static int
as_whole(const struct vocabulary *v, const struct qwen_template *t,
    const char *json)
{
	struct qwen_prompt *p;
	struct qwen_str text;
	int32_t *ids, *want, *part;
	size_t n, n_want, n_part, at, from = 0, done = 0;
	int same = 1;

	if (qwen_template_render(t, json, strlen(json), &p, NULL) < 0)
		return 0;
	text = qwen_prompt_text(p);
	if (qwen_prompt_encode(p, v->t, 0, text.len, &ids, &n, NULL) < 0 ||
	    qwen_tok_encode(v->t, text.s, text.len, QWEN_TOK_SPECIAL, &want,
	    &n_want, NULL) < 0)
		exit(1);
	same = n == n_want && memcmp(ids, want, n * sizeof *ids) == 0;
	for (; from < text.len; from = at) {	/* turn by turn */
		at = qwen_prompt_turn(p, from + 1);
		if (qwen_prompt_encode(p, v->t, from, at, &part, &n_part,
		    NULL) < 0)
			exit(1);
		same = same && done + n_part <= n && memcmp(ids + done, part,
		    n_part * sizeof *ids) == 0;
		done += n_part;
		free(part);
	}
	free(ids);
	free(want);
	qwen_prompt_free(p);
	return same && done == n;
}

static void
with_template(const struct vocabulary *v, const struct qwen_template *t,
    const char *name)
{
	const struct qwen_gguf_kv *kv = qwen_gguf_find(v->g,
	    "tokenizer.ggml.tokens");
	struct seen want, got;
	struct qwen_str s;
	char *json = fill("word"), token[256];
	size_t pos = 0, id, tried = 0, bad = 0;

	ok(as_whole(v, t, json), "%s: without any, at once and turn by turn",
	    name);
	look(v, t, json, &want);
	free(json);
	for (id = 0; qwen_gguf_next_str(kv, &pos, &s); id++) {
		if (type_of(v, id) != QWEN_TOKEN_CONTROL || s.len > 200)
			continue;
		snprintf(token, sizeof token, "%.*s", (int)s.len, s.s);
		json = fill(token);
		look(v, t, json, &got);
		tried++;
		if (!got.same_text || got.n != want.n || memcmp(got.control,
		    want.control, got.n * sizeof *got.control) != 0) {
			bad++;
			printf("# %s: %s\n", name, token);
		}
		free(json);
	}
	ok(want.n > 5 && tried > 2 && bad == 0, "%s: %zu control tokens stay "
	    "text in every place, %zu do not", name, tried, bad);
}

int
main(void)
{
	static const char *const model[] = { "qwen3", "qwen35moe-ud" };
	struct vocabulary v;
	struct qwen_template *t;
	size_t i, k;

	for (i = 0; i < 2; i++) {
		open_vocabulary(&v, model[i]);
		for (k = 0; qwen_template_name(k) != NULL; k++) {
			if (qwen_template_open(&t, qwen_template_name(k),
			    NULL) < 0)
				exit(1);
			with_template(&v, t, qwen_template_name(k));
			qwen_template_close(t);
		}
		if (qwen_template_open_gguf(&t, v.g, NULL) < 0)
			exit(1);
		with_template(&v, t, "the file's own");
		qwen_template_close(t);
		qwen_tok_close(v.t);
		qwen_gguf_close(v.g);
		free(v.file.p);
	}
	return done_testing();
}
