/* SPDX-License-Identifier: ISC */
/*
 * ollama_in.c - rewrites requests to Ollama's /api/chat and /api/generate as
 * chats (or completions, with "raw") of OpenAI's form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/request/form.h"

static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("context", "format", "images",
	    "keep_alive", "messages", "options", "prompt", "raw", "stream",
	    "suffix", "system", "think", "tools"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("logprobs", "top_logprobs"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("shift", "truncate"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("template"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("max_tokens", "options.num_predict",
	    "num_predict", "options.num_predict", "response_format", "format"),
} }, options = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("num_predict"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("stop"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("embedding_only", "f16_kv",
	    "logits_all", "low_vram", "main_gpu", "model", "num_batch",
	    "num_ctx", "num_gpu", "num_keep", "num_thread", "numa",
	    "penalize_newline", "stream", "tfs_z", "use_mlock", "use_mmap",
	    "vocab_only"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("max_tokens", "num_predict"),
} };

const char *const qwen_ollama_names[] = {
	"response_format", "format", "max_tokens", "num_predict",
	"reasoning_effort", "think", NULL
};

/* ----------------------------------------------------------------- messages */

/*
 * Adds content with images in front, as Ollama does.  If the model reads no
 * images, a later step refuses them or puts a line in their place.
 */
static void
add_parts(struct qwen_text *t, yyjson_val *text, yyjson_val *images)
{
	struct qwen_str s = qwen_parse_str(text);
	yyjson_val *v;
	size_t i, n;

	qwen_json_put(t, ",'content':[");
	yyjson_arr_foreach(images, i, n, v)
		qwen_json_put(t, ",{'type':'image','source':{'type':'base64',"
		    "'data':%p}}", v);
	qwen_json_put(t, ",{'type':'text','text':%pS}]", &s);
}

static int
check_images(struct qwen_parser *r, yyjson_val *images)
{
	return images == NULL || yyjson_is_arr(images) ? 0 : qwen_wrong(r,
	    "images", "is not a list");
}

static int
add_message(struct qwen_parser *r, yyjson_val *m)
{
	yyjson_val *images = qwen_parse_get(m, "images");
	yyjson_val *content = qwen_parse_get(m, "content"), *key, *v;
	size_t i, n;

	if (check_images(r, images) < 0)
		return -1;
	if (yyjson_arr_size(images) == 0 ||
	    (content != NULL && !yyjson_is_str(content))) {
		qwen_json_put(&r->out, ",%p", m);
		return 0;
	}
	qwen_json_put(&r->out, ",{");
	yyjson_obj_foreach(m, i, n, key, v) {
		if (!yyjson_equals_str(key, "images") &&
		    !yyjson_equals_str(key, "content"))
			qwen_json_put(&r->out, ",%p:%p", key, v);
	}
	add_parts(&r->out, content, images);
	qwen_text_str(&r->out, "}");
	return 0;
}

/* /api/chat; without messages the client only wants the model loaded. */
static int
add_chat(struct qwen_parser *r)
{
	yyjson_val *messages = qwen_parse_get(r->body, "messages");

	if (messages != NULL && !yyjson_is_arr(messages))
		return qwen_wrong(r, "messages", "is not a list");
	if (yyjson_arr_size(messages) == 0) {
		r->q->done_reason = "load";
		return 0;
	}
	if (qwen_parse_each(r, ",'messages':[", messages, add_message, "]") < 0)
		return -1;
	qwen_parse_copy(&r->out, r->body, "tools", "tools");
	return 0;
}

/* Reads the token ids of an earlier prompt and answer of /api/generate. */
static int
read_context(struct qwen_parser *r)
{
	struct qwen_ids *b = &r->before, after = { 0 };
	const struct qwen_service *s = r->s;
	yyjson_val *v = qwen_parse_get(r->body, "context");
	struct qwen_str last = { "", 0 };
	int32_t *all;

	if (v == NULL)
		return 0;
	if (!yyjson_is_arr(v))
		return qwen_wrong(r, "context", "is not a list of token ids");
	if (qwen_parse_ids(r->refusal, "context", v, s->n_vocab, b) < 0)
		return -1;
	if (b->n > 0)
		qwen_tok_decoder_put(s->spell, b->id[b->n - 1], &last, NULL);
	if (last.len != 10 || memcmp(last.s, "<|im_end|>", 10) != 0)
		return 0;
	/* all templates end a turn with a line feed */
	if (qwen_parse_encode(r->refusal, "context", s->tok, 0, "\n", 1,
	    &after) < 0)
		return -1;
	if ((all = realloc(b->id, (b->n + after.n) * sizeof *all)) != NULL) {
		memcpy(all + b->n, after.id, after.n * sizeof *all);
		b->id = all;
		b->n += after.n;
	}
	free(after.id);
	return all != NULL ? 0 : qwen_oom(&r->refusal->err);
}

/* Adds a plain prompt, with the suffix if the answer shall fill a gap. */
static int
add_raw(struct qwen_parser *r)
{
	if (qwen_parse_get(r->body, "system") != NULL ||
	    yyjson_arr_size(qwen_parse_get(r->body, "context")) > 0)
		return qwen_invalid(r, "raw", "a request with raw or suffix "
		    "cannot have system or context");
	if (yyjson_arr_size(qwen_parse_get(r->body, "images")) > 0)
		return qwen_wrong(r, "images", "a raw prompt cannot have "
		    "images");
	r->q->form = QWEN_FORM_OLLAMA_RAW;
	qwen_parse_copy(&r->out, r->body, "prompt", "prompt");
	qwen_parse_copy(&r->out, r->body, "suffix", "suffix");
	return 0;
}

/* /api/generate: system and user messages; or only loads the model. */
static int
add_prompt(struct qwen_parser *r)
{
	struct qwen_str prompt = { 0 }, system = { 0 }, suffix = { 0 };
	yyjson_val *images = qwen_parse_get(r->body, "images");
	int raw;

	if (qwen_read_string(r, "prompt", &prompt) < 0 ||
	    qwen_read_string(r, "system", &system) < 0 ||
	    qwen_read_string(r, "suffix", &suffix) < 0 ||
	    (raw = qwen_read_truth(r, "raw", 0)) < 0 ||
	    check_images(r, images) < 0)
		return -1;
	if (prompt.len == 0 && suffix.len == 0) {
		r->q->done_reason = "load";
		return 0;
	}
	if (raw || suffix.len > 0)
		return add_raw(r);
	if (read_context(r) < 0)
		return -1;
	r->q->keep_ids = 1;
	qwen_json_put(&r->out, ",'messages':[");
	if (system.len > 0)
		qwen_json_put(&r->out, "{'role':'system','content':%pS},",
		    &system);
	qwen_json_put(&r->out, "{'role':'user'");
	if (yyjson_arr_size(images) > 0)
		add_parts(&r->out, qwen_parse_get(r->body, "prompt"), images);
	else
		qwen_json_put(&r->out, ",'content':%pS", &prompt);
	qwen_text_str(&r->out, "}]");
	return 0;
}

/* ------------------------------------------------------------- other fields */

/* A schema, or the word "json". */
static int
add_format(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "format");

	if (v == NULL || yyjson_equals_str(v, ""))
		return 0;
	if (yyjson_equals_str(v, "json"))
		qwen_json_put(&r->out, ",'response_format':{'type':"
		    "'json_object'}");
	else if (yyjson_is_obj(v))
		qwen_parse_add_schema(r, v);
	else
		return qwen_wrong(r, "format", "is not \"json\" or a JSON "
		    "schema");
	return 0;
}

/* The field think: true, false, or an effort. */
static int
add_thinking(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "think");
	int none = yyjson_equals_str(v, "none");
	int on = !none && (yyjson_is_true(v) || yyjson_is_str(v));

	if (v == NULL || yyjson_equals_str(v, "") ||
	    r->q->form == QWEN_FORM_OLLAMA_RAW)
		return 0;
	if (!on && !none && !yyjson_is_bool(v))
		return qwen_wrong(r, "think", "is not true, false, or a string "
		    "such as \"high\"");
	if (on && r->s->template != NULL &&
	    !qwen_request_can_think(r->s->template))
		return qwen_invalid(r, "think", "\"%s\" does not support "
		    "thinking", r->s->model);
	if (on && yyjson_is_str(v))
		qwen_json_put(&r->out, ",'reasoning_effort':%p", v);
	qwen_json_put(&r->out, ",'enable_thinking':%s", on ? "true" : "false");
	return 0;
}

/* Copies options that a chat has under the same name. */
static int
add_options(struct qwen_parser *r, yyjson_val *from)
{
	char buf[QWEN_NUMBER_SIZE];
	yyjson_val *key, *v;
	size_t i, n;
	int got;

	if (from == NULL)
		return 0;
	if (!yyjson_is_obj(from))
		return qwen_wrong(r, "options", "is not an object");
	if (qwen_parse_check_object(r, &options, from) < 0)
		return -1;
	yyjson_obj_foreach(from, i, n, key, v) {
		if (qwen_parse_is_copied(r, &options, key))
			qwen_json_put(&r->out, ",%p:%p", key, v);
	}
	got = qwen_parse_number_of(r->refusal, from, "num_predict", buf);
	/* below 1: limited only by the context */
	if (got > 0 && strtod(buf, NULL) > 0)
		qwen_json_put(&r->out, ",'max_tokens':%s", buf);
	return got < 0 ? -1 : 0;
}

/* Copies fields outside the options that a chat has under the same name. */
static void
add_others(struct qwen_parser *r, yyjson_val *given)
{
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(r->body, i, n, key, v) {
		if (qwen_parse_is_copied(r, &known_fields, key) &&
		    (yyjson_obj_getn(given, yyjson_get_str(key),
		    yyjson_get_len(key)) == NULL ||
		    !qwen_parse_is_copied(r, &options, key)) &&
		    (!yyjson_equals_str(key, "enable_thinking") ||
		    qwen_parse_get(r->body, "think") == NULL))
			qwen_json_put(&r->out, ",%p:%p", key, v);
	}
	/* a load has a single line anyway */
	if (r->q->done_reason != NULL)
		return;
	qwen_json_put(&r->out, ",'stream':");
	if ((v = qwen_parse_get(r->body, "stream")) != NULL)
		qwen_json_value(&r->out, v);
	else
		qwen_text_str(&r->out, "true");
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
qwen_parse_ollama(struct qwen_parser *r)
{
	yyjson_val *from = qwen_parse_get(r->body, "options");
	int chat = r->q->form == QWEN_FORM_OLLAMA_CHAT;

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	qwen_json_put(&r->out, "{'add_generation_prompt':true");
	if ((chat ? add_chat : add_prompt)(r) < 0 || add_options(r, from) < 0 ||
	    add_format(r) < 0 || add_thinking(r) < 0)
		return -1;
	if (r->q->done_reason != NULL && is_zero(qwen_parse_get(r->body,
	    "keep_alive")))
		r->q->done_reason = "unload";
	add_others(r, from);
	qwen_text_str(&r->out, "}");
	return qwen_parse_replace_body(r);
}

/* ----------------------------------------------------------- other requests */

int
qwen_request_can_think(const struct qwen_template *t)
{
	return qwen_template_names(t, "enable_thinking") ||
	    qwen_template_thinks(t, QWEN_THINKING_NONE);
}

int
qwen_ollama_name(struct qwen_refusal *refusal, const char *json, size_t n,
    char **name, int *verbose)
{
	yyjson_val *root, *v;
	yyjson_doc *doc = qwen_parse_open(refusal, json, n, &root);

	if ((v = qwen_parse_get_text(root, "model")) == NULL)
		v = qwen_parse_get_text(root, "name");
	if (root != NULL && yyjson_get_len(v) == 0)
		qwen_refuse_invalid(refusal, "model", "model is required");
	if (verbose != NULL)
		*verbose = yyjson_is_true(yyjson_obj_get(root, "verbose"));
	if (refusal->err.code == 0 && name != NULL &&
	    (*name = strdup(yyjson_get_str(v))) == NULL)
		qwen_oom(&refusal->err);
	yyjson_doc_free(doc);
	if (refusal->err.code == QWEN_ENOMEM)
		refusal->code = "out_of_memory";
	return refusal->err.code == 0 ? 0 : -1;
}

/*
 * Rewrites the body as one of /v1/embeddings.  Returns 1; 0 if it has no text;
 * -1.
 */
static int
write_embed(struct qwen_refusal *refusal, yyjson_val *root, const char *key,
    struct qwen_text *t)
{
	yyjson_val *v = qwen_parse_get(root, key);

	if (qwen_parse_truth(refusal, root, "truncate", 0) < 0)
		return -1;
	if (v != NULL && !yyjson_is_str(v) && !yyjson_is_arr(v))
		return qwen_refuse_field(refusal, key, "is not a string or a "
		    "list of strings");
	if (yyjson_is_arr(v) ? yyjson_arr_size(v) == 0 :
	    yyjson_get_len(v) == 0)
		return 0;
	qwen_json_put(t, "{'input':%p", v);
	qwen_parse_copy(t, root, "model", "model");
	qwen_parse_copy(t, root, "dimensions", "dimensions");
	qwen_text_str(t, "}");
	return 1;
}

int
qwen_ollama_embed_parse(struct qwen_embeddings_request *q,
    const struct qwen_vectors *s, size_t n_ctx, const char *key,
    const char *json, size_t n, struct qwen_err *err)
{
	struct qwen_vectors how = *s;
	struct qwen_text t = { 0 };
	yyjson_val *root;
	yyjson_doc *doc = qwen_parse_open_mended(&q->refusal, s->unknown, json,
	    n, &root);
	int rc = root == NULL || qwen_parse_check_body(&q->refusal,
	    QWEN_BODY_OLLAMA_EMBED, s->unknown, root) < 0 ? -1 :
	    write_embed(&q->refusal, root, key, &t);

	if (rc == 0)
		rc = qwen_parse_get(root, "model") == NULL ? 0 :
		    qwen_parse_to_json(&q->refusal, yyjson_obj_get(root,
		    "model"), &q->model);
	else if (rc > 0 && !t.failed) {
		how.cut = yyjson_is_false(yyjson_obj_get(root, "truncate")) ?
		    0 : n_ctx;
		rc = qwen_embeddings_parse(q, &how, t.s, t.n, err);
	}
	yyjson_doc_free(doc);
	if (t.failed || q->refusal.err.code == QWEN_ENOMEM)
		rc = qwen_oom(err);
	else if (q->refusal.err.code != 0)
		rc = 0;
	qwen_text_fini(&t);
	return rc;
}
