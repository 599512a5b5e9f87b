/* SPDX-License-Identifier: ISC */
/*
 * llama_in.c - rewrites requests to llama.cpp's /completion as completions of
 * OpenAI's form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

static const struct qwen_field rows[] = {
	{ "cache_prompt", QWEN_FIELD_IGNORED, NULL },
	{ "id_slot", QWEN_FIELD_IGNORED, NULL },
	{ "logit_bias", QWEN_FIELD_USED, NULL },
	{ "lora", QWEN_FIELD_REFUSED, NULL },
	{ "max_tokens", QWEN_FIELD_USED, NULL },
	{ "messages", QWEN_FIELD_ALIAS, "prompt" },
	{ "min_keep", QWEN_FIELD_REFUSED, "0" },
	{ "n_cache_reuse", QWEN_FIELD_IGNORED, NULL },
	{ "n_cmpl", QWEN_FIELD_USED, NULL },
	{ "n_discard", QWEN_FIELD_IGNORED, NULL },
	{ "n_indent", QWEN_FIELD_REFUSED, "0" },
	{ "n_keep", QWEN_FIELD_IGNORED, NULL },
	{ "n_predict", QWEN_FIELD_USED, NULL },
	{ "n_probs", QWEN_FIELD_USED, NULL },
	{ "post_sampling_probs", QWEN_FIELD_REFUSED, NULL },
	{ "prompt", QWEN_FIELD_USED, NULL },
	{ "response_fields", QWEN_FIELD_IGNORED, NULL },
	{ "return_progress", QWEN_FIELD_USED, NULL },
	{ "return_tokens", QWEN_FIELD_USED, NULL },
	{ "sse_ping_interval", QWEN_FIELD_IGNORED, NULL },
	{ "stop", QWEN_FIELD_USED, NULL },
	{ "t_max_predict_ms", QWEN_FIELD_IGNORED, NULL },
	{ "timings_per_token", QWEN_FIELD_IGNORED, NULL },
};
static const struct qwen_fields known_fields = {
	rows, sizeof rows / sizeof rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "max_tokens", "n_predict" }, { "logprobs", "n_probs" },
	{ "n", "n_cmpl" },
};

void
qwen_refusal_rename_llama(struct qwen_refusal *refusal)
{
	qwen_refusal_rename(refusal, names, sizeof names / sizeof names[0]);
}

struct rewriter {
	struct qwen_parser		*r;
	struct qwen_refusal	*refusal;
	struct qwen_text	 t;	/* the completion */
};

/* Reads a number into buf.  Returns 1; 0 if it is absent; -1. */
static int
number(struct rewriter *rw, const char *key, char buf[QWEN_NUMBER_SIZE])
{
	yyjson_val *v = qwen_parse_get(rw->r->body, key);

	if (v == NULL)
		return 0;
	return qwen_parse_number(rw->refusal, key, v, buf) < 0 ? -1 : 1;
}

/* ------------------------------------------------------------------ prompts */

/* Adds a list of token ids and strings as token ids. */
static int
add_mixed(struct rewriter *rw, yyjson_val *list)
{
	const struct qwen_service *s = rw->r->s;
	struct qwen_ids ids = { 0 };
	size_t i, n, k, n_all = 0;
	yyjson_val *v;

	qwen_text_str(&rw->t, "[");
	yyjson_arr_foreach(list, i, n, v) {
		if (!yyjson_is_str(v)) {
			qwen_json_put(&rw->t, "%s%p", n_all++ > 0 ? "," : "",
			    v);
			continue;
		}
		if (qwen_parse_encode(rw->refusal, "prompt", s->tok, s->encode,
		    yyjson_get_str(v), yyjson_get_len(v), &ids) < 0)
			return -1;
		for (k = 0; k < ids.n; k++)
			qwen_text_fmt(&rw->t, "%s%ld", n_all++ > 0 ? "," : "",
			    (long)ids.id[k]);
		free(ids.id);
		ids = (struct qwen_ids){ 0 };
	}
	qwen_text_str(&rw->t, "]");
	return 0;
}

static size_t
count_texts(yyjson_val *list)
{
	size_t i, n, n_texts = 0;
	yyjson_val *v;

	yyjson_arr_foreach(list, i, n, v)
		n_texts += yyjson_is_str(v);
	return n_texts;
}

/*
 * Adds one prompt: a string, token ids, a mixture, or an object with a string.
 */
static int
add_one(struct rewriter *rw, yyjson_val *v)
{
	yyjson_val *text = qwen_parse_get_text(v, "prompt_string");

	if (!yyjson_is_obj(v)) {
		if (yyjson_is_arr(v) && count_texts(v) > 0)
			return add_mixed(rw, v);
		qwen_json_value(&rw->t, v);
		return 0;
	}
	if (text == NULL)
		return qwen_refuse_field(rw->refusal, "prompt", "an object has "
		    "no prompt_string");
	if (yyjson_arr_size(yyjson_obj_get(v, "multimodal_data")) > 0)
		return qwen_refuse_field(rw->refusal, "prompt",
		    "multimodal_data is not supported (text only)");
	qwen_json_value(&rw->t, text);
	return 0;
}

/* Returns 1 if a list has several prompts: only strings, lists, or objects. */
static int
is_many(yyjson_val *list)
{
	size_t i, n;
	yyjson_val *v;

	yyjson_arr_foreach(list, i, n, v) {
		if (yyjson_is_ctn(v))
			return 1;
	}
	return n > 0 && count_texts(list) == n;
}

static int
add_prompt(struct rewriter *rw)
{
	yyjson_val *prompt = qwen_parse_get(rw->r->body, "prompt"), *v;
	size_t i, n;

	if (prompt == NULL)
		return qwen_refuse_invalid(rw->refusal, "prompt", "prompt is "
		    "missing");
	qwen_json_put(&rw->t, ",'prompt':");
	if (!is_many(prompt))
		return add_one(rw, prompt);
	qwen_text_str(&rw->t, "[");
	yyjson_arr_foreach(prompt, i, n, v) {
		qwen_text_str(&rw->t, i > 0 ? "," : "");
		if (add_one(rw, v) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, "]");
	return 0;
}

/* ------------------------------------------------------------- other fields */

/* Reads the limit of tokens; negative: no limit; 0: only read the prompt. */
static int
add_limit(struct rewriter *rw)
{
	char buf[QWEN_NUMBER_SIZE];
	int rc = number(rw, "n_predict", buf);

	if (rc == 0)
		rc = number(rw, "max_tokens", buf);
	if (rc <= 0)
		return rc;
	if (strcmp(buf, "0") == 0)
		rw->r->only_reads = 1;
	else if (buf[0] != '-')
		qwen_json_put(&rw->t, ",'max_tokens':%s", buf);
	return 0;
}

/*
 * Adds a pair of a token id, or string, and its bias; false: never choose it.
 */
static int
add_pair(struct rewriter *rw, yyjson_val *pair, size_t *n_all)
{
	yyjson_val *what = yyjson_arr_get(pair, 0);
	yyjson_val *bias = yyjson_arr_get(pair, 1);
	const struct qwen_service *s = rw->r->s;
	struct qwen_ids ids = { 0 };
	char buf[QWEN_NUMBER_SIZE];
	size_t i;
	int rc;

	if (yyjson_arr_size(pair) != 2)
		return qwen_refuse_field(rw->refusal, "logit_bias", "entry %zu "
		    "is not a pair", *n_all);
	if (yyjson_is_false(bias))
		snprintf(buf, sizeof buf, "-1e30");
	else if (qwen_parse_number(rw->refusal, "logit_bias", bias, buf) < 0)
		return -1;
	if (yyjson_is_str(what))
		rc = qwen_parse_encode(rw->refusal, "logit_bias", s->tok,
		    s->encode, yyjson_get_str(what), yyjson_get_len(what),
		    &ids);
	else {
		char id[QWEN_NUMBER_SIZE];

		if (qwen_parse_number(rw->refusal, "logit_bias", what, id) < 0)
			return -1;
		qwen_json_put(&rw->t, "%s'%s':%s", (*n_all)++ > 0 ? "," : "",
		    id, buf);
		return 0;
	}
	for (i = 0; rc == 0 && i < ids.n; i++)
		qwen_json_put(&rw->t, "%s'%ld':%s", (*n_all)++ > 0 ? "," : "",
		    (long)ids.id[i], buf);
	free(ids.id);
	return rc;
}

static int
add_bias(struct rewriter *rw)
{
	yyjson_val *v = qwen_parse_get(rw->r->body, "logit_bias"), *pair;
	size_t i, n, n_all = 0;

	if (v == NULL)
		return 0;
	qwen_json_put(&rw->t, ",'logit_bias':");
	if (!yyjson_is_arr(v)) {
		qwen_json_value(&rw->t, v);
		return 0;
	}
	qwen_text_str(&rw->t, "{");
	yyjson_arr_foreach(v, i, n, pair) {
		if (add_pair(rw, pair, &n_all) < 0)
			return -1;
	}
	qwen_text_str(&rw->t, "}");
	return 0;
}

/* Adds fields that get another name, and fields copied unchanged. */
static int
add_others(struct rewriter *rw)
{
	yyjson_val *key, *v, *body = rw->r->body;
	char buf[QWEN_NUMBER_SIZE];
	size_t i, n;
	int rc;

	yyjson_obj_foreach(body, i, n, key, v) {
		if (!qwen_parse_is_copied(rw->r, &known_fields, key) &&
		    !yyjson_equals_str(key, "stop") &&
		    !yyjson_equals_str(key, "return_progress"))
			continue;
		qwen_parse_write_key(&rw->t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_json_value(&rw->t, v);
	}
	if ((rc = number(rw, "n_probs", buf)) > 0 && strcmp(buf, "0") != 0)
		qwen_json_put(&rw->t, ",'logprobs':%s", buf);
	if (rc >= 0 && (rc = number(rw, "n_cmpl", buf)) > 0)
		qwen_json_put(&rw->t, ",'n':%s", buf);
	return rc;
}

int
qwen_parse_llama(struct qwen_parser *r)
{
	struct rewriter rw = { .r = r, .refusal = r->refusal };
	yyjson_val *tokens = qwen_parse_get(r->body, "return_tokens");
	int streams = yyjson_is_true(qwen_parse_get(r->body, "stream"));

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	if (tokens != NULL && !yyjson_is_bool(tokens))
		return qwen_refuse_field(r->refusal, "return_tokens", "is not "
		    "true or false");
	r->q->keep_ids = streams || yyjson_is_true(tokens);
	/* a first field, so that each other field begins with a comma */
	qwen_json_put(&rw.t, "{'add_generation_prompt':true");
	if (add_prompt(&rw) < 0 || add_limit(&rw) < 0 || add_bias(&rw) < 0 ||
	    add_others(&rw) < 0) {
		qwen_text_fini(&rw.t);
		return -1;
	}
	qwen_text_str(&rw.t, "}");
	return qwen_parse_replace_body(r, &rw.t);
}
