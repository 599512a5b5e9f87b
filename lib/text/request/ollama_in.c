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

static const struct qwen_field rows[] = {
	{ "context", QWEN_FIELD_USED, NULL },
	{ "format", QWEN_FIELD_USED, NULL },
	{ "images", QWEN_FIELD_USED, NULL },
	{ "keep_alive", QWEN_FIELD_USED, NULL },
	{ "logprobs", QWEN_FIELD_USED, NULL },
	{ "max_tokens", QWEN_FIELD_ALIAS, "options.num_predict" },
	{ "messages", QWEN_FIELD_USED, NULL },
	{ "num_predict", QWEN_FIELD_ALIAS, "options.num_predict" },
	{ "options", QWEN_FIELD_USED, NULL },
	{ "prompt", QWEN_FIELD_USED, NULL },
	{ "raw", QWEN_FIELD_USED, NULL },
	{ "response_format", QWEN_FIELD_ALIAS, "format" },
	{ "shift", QWEN_FIELD_IGNORED, NULL },
	{ "stream", QWEN_FIELD_USED, NULL },
	{ "suffix", QWEN_FIELD_USED, NULL },
	{ "system", QWEN_FIELD_USED, NULL },
	{ "template", QWEN_FIELD_REFUSED, NULL },
	{ "think", QWEN_FIELD_USED, NULL },
	{ "tools", QWEN_FIELD_USED, NULL },
	{ "top_logprobs", QWEN_FIELD_USED, NULL },
	{ "truncate", QWEN_FIELD_IGNORED, NULL },
}, option_rows[] = {
	{ "embedding_only", QWEN_FIELD_IGNORED, NULL },
	{ "f16_kv", QWEN_FIELD_IGNORED, NULL },
	{ "logits_all", QWEN_FIELD_IGNORED, NULL },
	{ "low_vram", QWEN_FIELD_IGNORED, NULL },
	{ "main_gpu", QWEN_FIELD_IGNORED, NULL },
	{ "max_tokens", QWEN_FIELD_ALIAS, "num_predict" },
	{ "model", QWEN_FIELD_IGNORED, NULL },
	{ "num_batch", QWEN_FIELD_IGNORED, NULL },
	{ "num_ctx", QWEN_FIELD_IGNORED, NULL },
	{ "num_gpu", QWEN_FIELD_IGNORED, NULL },
	{ "num_keep", QWEN_FIELD_IGNORED, NULL },
	{ "num_predict", QWEN_FIELD_USED, NULL },
	{ "num_thread", QWEN_FIELD_IGNORED, NULL },
	{ "numa", QWEN_FIELD_IGNORED, NULL },
	{ "penalize_newline", QWEN_FIELD_IGNORED, NULL },
	{ "stop", QWEN_FIELD_USED, NULL },
	{ "stream", QWEN_FIELD_IGNORED, NULL },
	{ "tfs_z", QWEN_FIELD_IGNORED, NULL },
	{ "use_mlock", QWEN_FIELD_IGNORED, NULL },
	{ "use_mmap", QWEN_FIELD_IGNORED, NULL },
	{ "vocab_only", QWEN_FIELD_IGNORED, NULL },
};
static const struct qwen_fields known_fields = {
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
qwen_refusal_rename_ollama(struct qwen_refusal *refusal)
{
	qwen_refusal_rename(refusal, names, sizeof names / sizeof names[0]);
}

struct rewriter {
	struct qwen_parser		*r;
	struct qwen_refusal	*refusal;
	yyjson_val		*body, *options;
	struct qwen_text	 t;	/* the chat */
};

static void
add_key(struct rewriter *rw, yyjson_val *key)
{
	qwen_parse_write_key(&rw->t, 1, yyjson_get_str(key),
	    yyjson_get_len(key));
}

/* Reads a field that is a string; NULL if it is absent. */
static int
get_text(struct rewriter *rw, const char *key, yyjson_val **out)
{
	*out = qwen_parse_get(rw->body, key);
	return *out == NULL || yyjson_is_str(*out) ? 0 :
	    qwen_refuse_field(rw->refusal, key, "is not a string");
}

static int
is_true(struct rewriter *rw, const char *key, int *out)
{
	yyjson_val *v = qwen_parse_get(rw->body, key);

	*out = yyjson_is_true(v);
	return v == NULL || yyjson_is_bool(v) ? 0 :
	    qwen_refuse_field(rw->refusal, key, "is not true or false");
}

/* ----------------------------------------------------------------- messages */

/*
 * Adds content with images as in OpenAI's form, without their bytes, which no
 * model here can use.  A later step refuses images or puts a line in their
 * place.
 */
static void
add_parts(struct rewriter *rw, yyjson_val *text, size_t n_images)
{
	size_t i;

	qwen_json_put(&rw->t, "[{'type':'text','text':");
	if (text != NULL)
		qwen_json_value(&rw->t, text);
	else
		qwen_json_put(&rw->t, "''");
	qwen_text_str(&rw->t, "}");
	for (i = 0; i < n_images; i++)
		qwen_json_put(&rw->t, ",{'type':'image_url','image_url':{'url':"
		    "'data:,'}}");
	qwen_text_str(&rw->t, "]");
}

static int
check_images(struct rewriter *rw, yyjson_val *images)
{
	return images == NULL || yyjson_is_arr(images) ? 0 :
	    qwen_refuse_field(rw->refusal, "images", "is not a list");
}

static int
add_message(struct rewriter *rw, yyjson_val *m)
{
	yyjson_val *images = qwen_parse_get(m, "images");
	yyjson_val *content = qwen_parse_get(m, "content"), *key, *v;
	size_t i, n, k = 0;

	if (check_images(rw, images) < 0)
		return -1;
	if (yyjson_arr_size(images) == 0 ||
	    (content != NULL && !yyjson_is_str(content))) {
		qwen_json_value(&rw->t, m);
		return 0;
	}
	yyjson_obj_foreach(m, i, n, key, v) {
		if (yyjson_equals_str(key, "images") ||
		    yyjson_equals_str(key, "content"))
			continue;
		qwen_parse_write_key(&rw->t, k++, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_json_value(&rw->t, v);
	}
	qwen_parse_write_key(&rw->t, k, "content", strlen("content"));
	add_parts(rw, content, yyjson_arr_size(images));
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* /api/chat; without messages the client only wants the model loaded. */
static int
add_chat(struct rewriter *rw)
{
	yyjson_val *messages = qwen_parse_get(rw->body, "messages"), *m;
	yyjson_val *tools = qwen_parse_get(rw->body, "tools");
	size_t i, n;

	if (messages != NULL && !yyjson_is_arr(messages))
		return qwen_refuse_field(rw->refusal, "messages", "is not a "
		    "list");
	if (yyjson_arr_size(messages) == 0) {
		rw->r->q->done_reason = "load";
		return 0;
	}
	qwen_json_put(&rw->t, ",'messages':[");
	yyjson_arr_foreach(messages, i, n, m) {
		qwen_text_str(&rw->t, i > 0 ? "," : "");
		if (add_message(rw, m) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, "]");
	if (tools != NULL) {
		qwen_json_put(&rw->t, ",'tools':%p", tools);
	}
	return 0;
}

/* Reads the token ids of an earlier prompt and answer of /api/generate. */
static int
read_context(struct rewriter *rw)
{
	struct qwen_ids *b = &rw->r->before, after = { 0 };
	const struct qwen_service *s = rw->r->s;
	yyjson_val *v = qwen_parse_get(rw->body, "context");
	struct qwen_str last = { "", 0 };
	int32_t *all;

	if (v == NULL)
		return 0;
	if (!yyjson_is_arr(v))
		return qwen_refuse_field(rw->refusal, "context", "is not a "
		    "list of token ids");
	if (qwen_parse_ids(rw->refusal, "context", v, s->n_vocab, b) < 0)
		return -1;
	if (b->n > 0)
		qwen_tok_decoder_put(s->spell, b->id[b->n - 1], &last, NULL);
	if (last.len != 10 || memcmp(last.s, "<|im_end|>", 10) != 0)
		return 0;
	/* all templates end a turn with a line feed */
	if (qwen_parse_encode(rw->refusal, "context", s->tok, 0, "\n", 1,
	    &after) < 0)
		return -1;
	if ((all = realloc(b->id, (b->n + after.n) * sizeof *all)) != NULL) {
		memcpy(all + b->n, after.id, after.n * sizeof *all);
		b->id = all;
		b->n += after.n;
	}
	free(after.id);
	return all != NULL ? 0 : qwen_oom(&rw->refusal->err);
}

/* Adds a plain prompt, with the suffix if the answer shall fill a gap. */
static int
add_raw(struct rewriter *rw, yyjson_val *prompt, yyjson_val *suffix)
{
	if (qwen_parse_get(rw->body, "system") != NULL ||
	    yyjson_arr_size(qwen_parse_get(rw->body, "context")) > 0)
		return qwen_refuse_invalid(rw->refusal, "raw", "a request with "
		    "raw or suffix cannot have system or context");
	if (yyjson_arr_size(qwen_parse_get(rw->body, "images")) > 0)
		return qwen_refuse_field(rw->refusal, "images", "a raw prompt "
		    "cannot have images");
	rw->r->q->form = QWEN_FORM_OLLAMA_RAW;
	qwen_json_put(&rw->t, ",'prompt':%p", prompt);
	if (suffix != NULL) {
		qwen_json_put(&rw->t, ",'suffix':%p", suffix);
	}
	return 0;
}

/* /api/generate: system and user messages; or only loads the model. */
static int
add_prompt(struct rewriter *rw)
{
	yyjson_val *prompt, *system, *images = qwen_parse_get(rw->body,
	    "images");
	yyjson_val *suffix;
	int raw;

	if (get_text(rw, "prompt", &prompt) < 0 ||
	    get_text(rw, "system", &system) < 0 ||
	    get_text(rw, "suffix", &suffix) < 0 ||
	    is_true(rw, "raw", &raw) < 0 || check_images(rw, images) < 0)
		return -1;
	if (yyjson_get_len(prompt) == 0 && yyjson_get_len(suffix) == 0) {
		rw->r->q->done_reason = "load";
		return 0;
	}
	if (raw || yyjson_get_len(suffix) > 0)
		return add_raw(rw, prompt, suffix);
	if (read_context(rw) < 0)
		return -1;
	rw->r->q->keep_ids = 1;
	qwen_json_put(&rw->t, ",'messages':[");
	if (yyjson_get_len(system) > 0) {
		qwen_json_put(&rw->t, "{'role':'system','content':%p},",
		    system);
	}
	qwen_json_put(&rw->t, "{'role':'user','content':");
	if (yyjson_arr_size(images) > 0)
		add_parts(rw, prompt, yyjson_arr_size(images));
	else
		qwen_json_value(&rw->t, prompt);
	qwen_text_str(&rw->t, "}]");
	return 0;
}

/* ------------------------------------------------------------- other fields */

/* A schema, or the word "json". */
static int
add_format(struct rewriter *rw)
{
	yyjson_val *v = qwen_parse_get(rw->body, "format");

	if (v == NULL || (yyjson_is_str(v) && yyjson_get_len(v) == 0))
		return 0;
	if (yyjson_equals_str(v, "json")) {
		qwen_json_put(&rw->t, ",'response_format':{'type':"
		    "'json_object'}");
		return 0;
	}
	if (!yyjson_is_obj(v))
		return qwen_refuse_field(rw->refusal, "format", "is not "
		    "\"json\" or a JSON schema");
	qwen_json_put(&rw->t, ",'response_format':{'type':'json_schema',"
	    "'json_schema':{'schema':%p}}", v);
	return 0;
}

/* The field think: true, false, or an effort. */
static int
add_thinking(struct rewriter *rw)
{
	yyjson_val *v = qwen_parse_get(rw->body, "think");
	int none = yyjson_equals_str(v, "none");
	int on = !none && (yyjson_is_true(v) || yyjson_is_str(v));

	if (v == NULL || (yyjson_is_str(v) && yyjson_get_len(v) == 0) ||
	    rw->r->q->form == QWEN_FORM_OLLAMA_RAW)
		return 0;
	if (!on && !none && !yyjson_is_bool(v))
		return qwen_refuse_field(rw->refusal, "think", "is not true, "
		    "false, or a string such as \"high\"");
	if (on && rw->r->s->template != NULL &&
	    !qwen_request_can_think(rw->r->s->template))
		return qwen_refuse_invalid(rw->refusal, "think", "\"%s\" does "
		    "not support thinking", rw->r->s->model);
	if (on && yyjson_is_str(v)) {
		qwen_json_put(&rw->t, ",'reasoning_effort':%p", v);
	}
	qwen_json_put(&rw->t, ",'enable_thinking':%s", on ? "true" : "false");
	return 0;
}

/* Values below 1: limited only by the context. */
static int
add_limit(struct rewriter *rw)
{
	yyjson_val *v = qwen_parse_get(rw->options, "num_predict");
	char buf[QWEN_NUMBER_SIZE];

	if (v == NULL)
		return 0;
	if (qwen_parse_number(rw->refusal, "num_predict", v, buf) < 0)
		return -1;
	if (strtod(buf, NULL) > 0)
		qwen_json_put(&rw->t, ",'max_tokens':%s", buf);
	return 0;
}

/* Copies options that a chat has under the same name. */
static int
add_options(struct rewriter *rw)
{
	yyjson_val *key, *v;
	size_t i, n;

	if (rw->options == NULL)
		return 0;
	if (!yyjson_is_obj(rw->options))
		return qwen_refuse_field(rw->refusal, "options", "is not an "
		    "object");
	if (qwen_parse_check_object(rw->r, &options, rw->options) < 0)
		return -1;
	yyjson_obj_foreach(rw->options, i, n, key, v) {
		if (!qwen_parse_is_copied(rw->r, &options, key) &&
		    !yyjson_equals_str(key, "stop"))
			continue;
		add_key(rw, key);
		qwen_json_value(&rw->t, v);
	}
	return add_limit(rw);
}

/* Copies fields outside the options that a chat has under the same name. */
static void
add_others(struct rewriter *rw)
{
	static const char *const same[] = { "logprobs", "top_logprobs" };
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(rw->body, i, n, key, v) {
		if (!qwen_parse_is_copied(rw->r, &known_fields, key) ||
		    yyjson_obj_getn(rw->options, yyjson_get_str(key),
		    yyjson_get_len(key)) != NULL ||
		    (yyjson_equals_str(key, "enable_thinking") &&
		    qwen_parse_get(rw->body, "think") != NULL))
			continue;
		add_key(rw, key);
		qwen_json_value(&rw->t, v);
	}
	for (i = 0; i < sizeof same / sizeof same[0]; i++) {
		if ((v = qwen_parse_get(rw->body, same[i])) == NULL)
			continue;
		qwen_json_put(&rw->t, ",'%s':%p", same[i], v);
	}
}

/* Streams unless the request says no; a load has a single line anyway. */
static void
add_stream(struct rewriter *rw)
{
	yyjson_val *v = qwen_parse_get(rw->body, "stream");

	if (rw->r->q->done_reason != NULL)
		return;
	qwen_json_put(&rw->t, ",'stream':");
	if (v != NULL)
		qwen_json_value(&rw->t, v);
	else
		qwen_text_str(&rw->t, "true");
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
	struct rewriter rw = { .r = r, .refusal = r->refusal, .body = r->body,
	    .options = qwen_parse_get(r->body, "options") };
	int chat = r->q->form == QWEN_FORM_OLLAMA_CHAT;

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	/* a first field, so that each other field begins with a comma */
	qwen_json_put(&rw.t, "{'add_generation_prompt':true");
	if ((chat ? add_chat : add_prompt)(&rw) < 0 || add_options(&rw) < 0 ||
	    add_format(&rw) < 0 || add_thinking(&rw) < 0) {
		qwen_text_fini(&rw.t);
		return -1;
	}
	if (r->q->done_reason != NULL && is_zero(qwen_parse_get(r->body,
	    "keep_alive")))
		r->q->done_reason = "unload";
	add_others(&rw);
	add_stream(&rw);
	qwen_text_str(&rw.t, "}");
	return qwen_parse_replace_body(r, &rw.t);
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
	static const char *const same[] = { "model", "dimensions" };
	yyjson_val *v = yyjson_obj_get(root, key), *cut;
	size_t i;

	cut = qwen_parse_get(root, "truncate");
	if (cut != NULL && !yyjson_is_bool(cut))
		return qwen_refuse_field(refusal, "truncate", "is not true or "
		    "false");
	if (v != NULL && !yyjson_is_str(v) && !yyjson_is_arr(v) &&
	    !yyjson_is_null(v))
		return qwen_refuse_field(refusal, key, "is not a string or a "
		    "list of strings");
	if (yyjson_is_arr(v) ? yyjson_arr_size(v) == 0 :
	    yyjson_get_len(v) == 0)
		return 0;
	qwen_json_put(t, "{'input':%p", v);
	for (i = 0; i < sizeof same / sizeof same[0]; i++) {
		if ((v = qwen_parse_get(root, same[i])) == NULL)
			continue;
		qwen_json_put(t, ",'%s':%p", same[i], v);
	}
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
		    "model"), &q->model, NULL);
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
