/* SPDX-License-Identifier: ISC */
/*
 * ollama_in.c - rewrites requests to Ollama's /api/chat and /api/generate as
 * chats (or completions, with "raw") of OpenAI's form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"
#include "text/request/form.h"

static const struct qwen_member rows[] = {
	{ "context", QWEN_MEMBER_HEEDED, NULL },
	{ "format", QWEN_MEMBER_HEEDED, NULL },
	{ "images", QWEN_MEMBER_HEEDED, NULL },
	{ "keep_alive", QWEN_MEMBER_HEEDED, NULL },
	{ "logprobs", QWEN_MEMBER_HEEDED, NULL },
	{ "max_tokens", QWEN_MEMBER_FOREIGN, "options.num_predict" },
	{ "messages", QWEN_MEMBER_HEEDED, NULL },
	{ "num_predict", QWEN_MEMBER_FOREIGN, "options.num_predict" },
	{ "options", QWEN_MEMBER_HEEDED, NULL },
	{ "prompt", QWEN_MEMBER_HEEDED, NULL },
	{ "raw", QWEN_MEMBER_HEEDED, NULL },
	{ "response_format", QWEN_MEMBER_FOREIGN, "format" },
	{ "shift", QWEN_MEMBER_IDLE, NULL },
	{ "stream", QWEN_MEMBER_HEEDED, NULL },
	{ "suffix", QWEN_MEMBER_HEEDED, NULL },
	{ "system", QWEN_MEMBER_HEEDED, NULL },
	{ "template", QWEN_MEMBER_REFUSED, NULL },
	{ "think", QWEN_MEMBER_HEEDED, NULL },
	{ "tools", QWEN_MEMBER_HEEDED, NULL },
	{ "top_logprobs", QWEN_MEMBER_HEEDED, NULL },
	{ "truncate", QWEN_MEMBER_IDLE, NULL },
}, option_rows[] = {
	{ "embedding_only", QWEN_MEMBER_IDLE, NULL },
	{ "f16_kv", QWEN_MEMBER_IDLE, NULL },
	{ "logits_all", QWEN_MEMBER_IDLE, NULL },
	{ "low_vram", QWEN_MEMBER_IDLE, NULL },
	{ "main_gpu", QWEN_MEMBER_IDLE, NULL },
	{ "max_tokens", QWEN_MEMBER_FOREIGN, "num_predict" },
	{ "model", QWEN_MEMBER_IDLE, NULL },
	{ "num_batch", QWEN_MEMBER_IDLE, NULL },
	{ "num_ctx", QWEN_MEMBER_IDLE, NULL },
	{ "num_gpu", QWEN_MEMBER_IDLE, NULL },
	{ "num_keep", QWEN_MEMBER_IDLE, NULL },
	{ "num_predict", QWEN_MEMBER_HEEDED, NULL },
	{ "num_thread", QWEN_MEMBER_IDLE, NULL },
	{ "numa", QWEN_MEMBER_IDLE, NULL },
	{ "penalize_newline", QWEN_MEMBER_IDLE, NULL },
	{ "stop", QWEN_MEMBER_HEEDED, NULL },
	{ "stream", QWEN_MEMBER_IDLE, NULL },
	{ "tfs_z", QWEN_MEMBER_IDLE, NULL },
	{ "use_mlock", QWEN_MEMBER_IDLE, NULL },
	{ "use_mmap", QWEN_MEMBER_IDLE, NULL },
	{ "vocab_only", QWEN_MEMBER_IDLE, NULL },
};
static const struct qwen_members members = {
	rows, sizeof rows / sizeof rows[0]
}, options = {
	option_rows, sizeof option_rows / sizeof option_rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "response_format", "format" }, { "max_tokens", "num_predict" },
	{ "reasoning_effort", "think" },
};

void
qwen_ask_rename_ollama(struct qwen_refusal *no)
{
	qwen_ask_rename(no, names, sizeof names / sizeof names[0]);
}

struct in {
	struct qwen_ask		*r;
	struct qwen_refusal	*no;
	yyjson_val		*body, *options;
	struct qwen_text	 t;	/* the chat */
};

static void
add_key(struct in *in, yyjson_val *key)
{
	qwen_ask_write_key(&in->t, 1, yyjson_get_str(key),
	    yyjson_get_len(key));
}

/* Reads a field that is a string; NULL if it is absent. */
static int
get_text(struct in *in, const char *key, yyjson_val **out)
{
	*out = qwen_ask_get(in->body, key);
	return *out == NULL || yyjson_is_str(*out) ? 0 :
	    wrong(in->no, key, "is not a string");
}

static int
is_true(struct in *in, const char *key, int *out)
{
	yyjson_val *v = qwen_ask_get(in->body, key);

	*out = yyjson_is_true(v);
	return v == NULL || yyjson_is_bool(v) ? 0 : wrong(in->no, key,
	    "is not true or false");
}

/* ----------------------------------------------------------------- messages */

/*
 * Adds content with images as in OpenAI's form, without their bytes, which no
 * model here can use.  A later step refuses images or puts a line in their
 * place.
 */
static void
add_parts(struct in *in, yyjson_val *text, size_t n_images)
{
	size_t i;

	qwen_text_str(&in->t, "[{\"type\":\"text\",\"text\":");
	if (text != NULL)
		qwen_ask_write(&in->t, text);
	else
		qwen_text_str(&in->t, "\"\"");
	qwen_text_str(&in->t, "}");
	for (i = 0; i < n_images; i++)
		qwen_text_str(&in->t, ",{\"type\":\"image_url\","
		    "\"image_url\":{\"url\":\"data:,\"}}");
	qwen_text_str(&in->t, "]");
}

static int
check_images(struct in *in, yyjson_val *images)
{
	return images == NULL || yyjson_is_arr(images) ? 0 :
	    wrong(in->no, "images", "is not a list");
}

static int
add_message(struct in *in, yyjson_val *m)
{
	yyjson_val *images = qwen_ask_get(m, "images");
	yyjson_val *content = qwen_ask_get(m, "content"), *key, *v;
	size_t i, n, k = 0;

	if (check_images(in, images) < 0)
		return -1;
	if (yyjson_arr_size(images) == 0 ||
	    (content != NULL && !yyjson_is_str(content))) {
		qwen_ask_write(&in->t, m);
		return 0;
	}
	yyjson_obj_foreach(m, i, n, key, v) {
		if (yyjson_equals_str(key, "images") ||
		    yyjson_equals_str(key, "content"))
			continue;
		qwen_ask_write_key(&in->t, k++, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_ask_write(&in->t, v);
	}
	qwen_ask_write_key(&in->t, k, "content", strlen("content"));
	add_parts(in, content, yyjson_arr_size(images));
	qwen_text_str(&in->t, "}");
	return 0;
}

/* /api/chat; without messages the client only wants the model loaded. */
static int
add_chat(struct in *in)
{
	yyjson_val *messages = qwen_ask_get(in->body, "messages"), *m;
	yyjson_val *tools = qwen_ask_get(in->body, "tools");
	size_t i, n;

	if (messages != NULL && !yyjson_is_arr(messages))
		return wrong(in->no, "messages", "is not a list");
	if (yyjson_arr_size(messages) == 0) {
		in->r->q->loads = "load";
		return 0;
	}
	qwen_text_str(&in->t, ",\"messages\":[");
	yyjson_arr_foreach(messages, i, n, m) {
		qwen_text_str(&in->t, i > 0 ? "," : "");
		if (add_message(in, m) < 0)
			return -1;
	}
	qwen_text_str(&in->t, "]");
	if (tools != NULL) {
		qwen_text_str(&in->t, ",\"tools\":");
		qwen_ask_write(&in->t, tools);
	}
	return 0;
}

/* Reads the token ids of an earlier prompt and answer of /api/generate. */
static int
read_context(struct in *in)
{
	struct qwen_ids *b = &in->r->before, after = { 0 };
	const struct qwen_service *s = in->r->s;
	yyjson_val *v = qwen_ask_get(in->body, "context");
	struct qwen_str last = { "", 0 };
	int32_t *all;

	if (v == NULL)
		return 0;
	if (!yyjson_is_arr(v))
		return wrong(in->no, "context", "is not a list of token ids");
	if (qwen_ask_ids(in->no, "context", v, s->n_vocab, b) < 0)
		return -1;
	if (b->n > 0)
		qwen_tok_decoder_put(s->spell, b->id[b->n - 1], &last, NULL);
	if (last.len != 10 || memcmp(last.s, "<|im_end|>", 10) != 0)
		return 0;
	/* all templates end a turn with a line feed */
	if (qwen_ask_encode(in->no, "context", s->tok, 0, "\n", 1, &after) < 0)
		return -1;
	if ((all = realloc(b->id, (b->n + after.n) * sizeof *all)) != NULL) {
		memcpy(all + b->n, after.id, after.n * sizeof *all);
		b->id = all;
		b->n += after.n;
	}
	free(after.id);
	return all != NULL ? 0 : qwen_oom(&in->no->err);
}

/* Adds a plain prompt, with the suffix if the answer shall fill a gap. */
static int
add_raw(struct in *in, yyjson_val *prompt, yyjson_val *suffix)
{
	if (qwen_ask_get(in->body, "system") != NULL ||
	    yyjson_arr_size(qwen_ask_get(in->body, "context")) > 0)
		return bad(in->no, "raw", "a request with raw or suffix cannot "
		    "have system or context");
	if (yyjson_arr_size(qwen_ask_get(in->body, "images")) > 0)
		return wrong(in->no, "images", "a raw prompt cannot have "
		    "images");
	in->r->q->form = QWEN_FORM_OLLAMA_RAW;
	qwen_text_str(&in->t, ",\"prompt\":");
	qwen_ask_write(&in->t, prompt);
	if (suffix != NULL) {
		qwen_text_str(&in->t, ",\"suffix\":");
		qwen_ask_write(&in->t, suffix);
	}
	return 0;
}

/* /api/generate: system and user messages; or only loads the model. */
static int
add_prompt(struct in *in)
{
	yyjson_val *prompt, *system, *images = qwen_ask_get(in->body, "images");
	yyjson_val *suffix;
	int raw;

	if (get_text(in, "prompt", &prompt) < 0 ||
	    get_text(in, "system", &system) < 0 ||
	    get_text(in, "suffix", &suffix) < 0 ||
	    is_true(in, "raw", &raw) < 0 || check_images(in, images) < 0)
		return -1;
	if (yyjson_get_len(prompt) == 0 && yyjson_get_len(suffix) == 0) {
		in->r->q->loads = "load";
		return 0;
	}
	if (raw || yyjson_get_len(suffix) > 0)
		return add_raw(in, prompt, suffix);
	if (read_context(in) < 0)
		return -1;
	in->r->q->keep_ids = 1;
	qwen_text_str(&in->t, ",\"messages\":[");
	if (yyjson_get_len(system) > 0) {
		qwen_text_str(&in->t, "{\"role\":\"system\",\"content\":");
		qwen_ask_write(&in->t, system);
		qwen_text_str(&in->t, "},");
	}
	qwen_text_str(&in->t, "{\"role\":\"user\",\"content\":");
	if (yyjson_arr_size(images) > 0)
		add_parts(in, prompt, yyjson_arr_size(images));
	else
		qwen_ask_write(&in->t, prompt);
	qwen_text_str(&in->t, "}]");
	return 0;
}

/* ------------------------------------------------------------- other fields */

/* A schema, or the word "json". */
static int
add_format(struct in *in)
{
	yyjson_val *v = qwen_ask_get(in->body, "format");

	if (v == NULL || (yyjson_is_str(v) && yyjson_get_len(v) == 0))
		return 0;
	if (yyjson_equals_str(v, "json")) {
		qwen_text_str(&in->t, ",\"response_format\":"
		    "{\"type\":\"json_object\"}");
		return 0;
	}
	if (!yyjson_is_obj(v))
		return wrong(in->no, "format", "is not \"json\" or a JSON "
		    "schema");
	qwen_text_str(&in->t, ",\"response_format\":{\"type\":\"json_schema\","
	    "\"json_schema\":{\"schema\":");
	qwen_ask_write(&in->t, v);
	qwen_text_str(&in->t, "}}");
	return 0;
}

/* The field think: true, false, or an effort. */
static int
add_thinking(struct in *in)
{
	yyjson_val *v = qwen_ask_get(in->body, "think");
	int none = yyjson_equals_str(v, "none");
	int on = !none && (yyjson_is_true(v) || yyjson_is_str(v));

	if (v == NULL || (yyjson_is_str(v) && yyjson_get_len(v) == 0) ||
	    in->r->q->form == QWEN_FORM_OLLAMA_RAW)
		return 0;
	if (!on && !none && !yyjson_is_bool(v))
		return wrong(in->no, "think", "is not true, false, or a string "
		    "such as \"high\"");
	if (on && in->r->s->template != NULL &&
	    !qwen_request_can_think(in->r->s->template))
		return bad(in->no, "think", "\"%s\" does not support thinking",
		    in->r->s->model);
	if (on && yyjson_is_str(v)) {
		qwen_text_str(&in->t, ",\"reasoning_effort\":");
		qwen_ask_write(&in->t, v);
	}
	qwen_text_fmt(&in->t, ",\"enable_thinking\":%s", on ? "true" :
	    "false");
	return 0;
}

/* Values below 1: limited only by the context. */
static int
add_limit(struct in *in)
{
	yyjson_val *v = qwen_ask_get(in->options, "num_predict");
	char buf[QWEN_ASK_NUMBER];

	if (v == NULL)
		return 0;
	if (qwen_ask_number(in->no, "num_predict", v, buf) < 0)
		return -1;
	if (strtod(buf, NULL) > 0)
		qwen_text_fmt(&in->t, ",\"max_tokens\":%s", buf);
	return 0;
}

/* Copies options that a chat has under the same name. */
static int
add_options(struct in *in)
{
	yyjson_val *key, *v;
	size_t i, n;

	if (in->options == NULL)
		return 0;
	if (!yyjson_is_obj(in->options))
		return wrong(in->no, "options", "is not an object");
	if (qwen_ask_members_of(in->r, &options, in->options) < 0)
		return -1;
	yyjson_obj_foreach(in->options, i, n, key, v) {
		if (!qwen_ask_passes(in->r, &options, key) &&
		    !yyjson_equals_str(key, "stop"))
			continue;
		add_key(in, key);
		qwen_ask_write(&in->t, v);
	}
	return add_limit(in);
}

/* Copies fields outside the options that a chat has under the same name. */
static void
add_others(struct in *in)
{
	static const char *const same[] = { "logprobs", "top_logprobs" };
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(in->body, i, n, key, v) {
		if (!qwen_ask_passes(in->r, &members, key) ||
		    yyjson_obj_getn(in->options, yyjson_get_str(key),
		    yyjson_get_len(key)) != NULL ||
		    (yyjson_equals_str(key, "enable_thinking") &&
		    qwen_ask_get(in->body, "think") != NULL))
			continue;
		add_key(in, key);
		qwen_ask_write(&in->t, v);
	}
	for (i = 0; i < sizeof same / sizeof same[0]; i++) {
		if ((v = qwen_ask_get(in->body, same[i])) == NULL)
			continue;
		qwen_text_fmt(&in->t, ",\"%s\":", same[i]);
		qwen_ask_write(&in->t, v);
	}
}

/* Streams unless the request says no; a load has a single line anyway. */
static void
add_stream(struct in *in)
{
	yyjson_val *v = qwen_ask_get(in->body, "stream");

	if (in->r->q->loads != NULL)
		return;
	qwen_text_str(&in->t, ",\"stream\":");
	if (v != NULL)
		qwen_ask_write(&in->t, v);
	else
		qwen_text_str(&in->t, "true");
}

/* Returns 1 for a duration of zero in any notation. */
static int
is_zero(yyjson_val *v)
{
	const char *s = yyjson_is_str(v) ? yyjson_get_str(v) :
	    yyjson_is_raw(v) ? yyjson_get_raw(v) : "1";

	return *s != '\0' && strtod(s, NULL) == 0 && (*s == '0' || *s == '.');
}

int
qwen_ask_ollama(struct qwen_ask *r)
{
	struct in in = { .r = r, .no = r->no, .body = r->body,
	    .options = qwen_ask_get(r->body, "options") };
	int chat = r->q->form == QWEN_FORM_OLLAMA_CHAT;

	if (qwen_ask_members(r, &members) < 0)
		return -1;
	/* a first field, so that each other field begins with a comma */
	qwen_text_str(&in.t, "{\"add_generation_prompt\":true");
	if ((chat ? add_chat : add_prompt)(&in) < 0 || add_options(&in) < 0 ||
	    add_format(&in) < 0 || add_thinking(&in) < 0) {
		qwen_text_fini(&in.t);
		return -1;
	}
	if (r->q->loads != NULL && is_zero(qwen_ask_get(r->body, "keep_alive")))
		r->q->loads = "unload";
	add_others(&in);
	add_stream(&in);
	qwen_text_str(&in.t, "}");
	return qwen_ask_rewrite(r, &in.t);
}

/* ----------------------------------------------------------- other requests */

int
qwen_request_can_think(const struct qwen_template *t)
{
	return qwen_template_names(t, "enable_thinking") ||
	    qwen_template_thinks(t, QWEN_THINKING_NONE);
}

int
qwen_ollama_name(struct qwen_refusal *no, const char *json, size_t n,
    char **name, int *verbose)
{
	yyjson_val *root, *v;
	yyjson_doc *doc = qwen_ask_open(no, json, n, &root);

	if ((v = text_of(root, "model")) == NULL)
		v = text_of(root, "name");
	if (root != NULL && yyjson_get_len(v) == 0)
		bad(no, "model", "model is required");
	if (verbose != NULL)
		*verbose = yyjson_is_true(yyjson_obj_get(root, "verbose"));
	if (no->err.code == 0 && name != NULL &&
	    (*name = strdup(yyjson_get_str(v))) == NULL)
		qwen_oom(&no->err);
	yyjson_doc_free(doc);
	if (no->err.code == QWEN_ENOMEM)
		no->code = "out_of_memory";
	return no->err.code == 0 ? 0 : -1;
}

/*
 * Rewrites the body as one of /v1/embeddings.  Returns 1; 0 if it has no text;
 * -1.
 */
static int
write_embed(struct qwen_refusal *no, yyjson_val *root, const char *key,
    struct qwen_text *t)
{
	static const char *const same[] = { "model", "dimensions" };
	yyjson_val *v = yyjson_obj_get(root, key), *cut;
	size_t i;

	cut = qwen_ask_get(root, "truncate");
	if (cut != NULL && !yyjson_is_bool(cut))
		return wrong(no, "truncate", "is not true or false");
	if (v != NULL && !yyjson_is_str(v) && !yyjson_is_arr(v) &&
	    !yyjson_is_null(v))
		return wrong(no, key, "is not a string or a list of strings");
	if (yyjson_is_arr(v) ? yyjson_arr_size(v) == 0 :
	    yyjson_get_len(v) == 0)
		return 0;
	qwen_text_str(t, "{\"input\":");
	qwen_ask_write(t, v);
	for (i = 0; i < sizeof same / sizeof same[0]; i++) {
		if ((v = qwen_ask_get(root, same[i])) == NULL)
			continue;
		qwen_text_fmt(t, ",\"%s\":", same[i]);
		qwen_ask_write(t, v);
	}
	qwen_text_str(t, "}");
	return 1;
}

int
qwen_ollama_embed_parse(struct qwen_embeddings *q, const struct qwen_vectors *s,
    size_t n_ctx, const char *key, const char *json, size_t n,
    struct qwen_err *err)
{
	struct qwen_vectors how = *s;
	struct qwen_text t = { 0 };
	yyjson_val *root;
	yyjson_doc *doc = qwen_ask_open_mended(&q->no, s->unknown, json, n,
	    &root);
	int rc = root == NULL || qwen_ask_line(&q->no, QWEN_LINE_OLLAMA_EMBED,
	    s->unknown, root) < 0 ? -1 : write_embed(&q->no, root, key, &t);

	if (rc == 0)
		rc = qwen_ask_get(root, "model") == NULL ? 0 :
		    qwen_ask_json(&q->no, yyjson_obj_get(root, "model"),
		    &q->model, NULL);
	else if (rc > 0 && !t.failed) {
		how.cut = yyjson_is_false(yyjson_obj_get(root, "truncate")) ?
		    0 : n_ctx;
		rc = qwen_embeddings_parse(q, &how, t.s, t.n, err);
	}
	yyjson_doc_free(doc);
	if (t.failed || q->no.err.code == QWEN_ENOMEM)
		rc = qwen_oom(err);
	else if (q->no.err.code != 0)
		rc = 0;
	qwen_text_fini(&t);
	return rc;
}
