/* SPDX-License-Identifier: ISC */
/*
 * llama_in.c - rewrites requests to llama.cpp's /completion as completions of
 * OpenAI's form.
 */
#include <stdlib.h>
#include <string.h>

#include "text/request/parser.h"

static const struct qwen_fields known_fields = { {
	[QWEN_FIELD_USED] = QWEN_WORDS("logit_bias", "max_tokens", "n_cmpl",
	    "n_predict", "n_probs", "prompt", "return_tokens"),
	[QWEN_FIELD_COPIED] = QWEN_WORDS("return_progress", "stop"),
	[QWEN_FIELD_IGNORED] = QWEN_WORDS("cache_prompt", "id_slot",
	    "n_cache_reuse", "n_discard", "n_keep", "response_fields",
	    "sse_ping_interval", "t_max_predict_ms", "timings_per_token"),
	[QWEN_FIELD_REFUSED] = QWEN_WORDS("lora", "post_sampling_probs"),
	[QWEN_FIELD_ABOVE] = QWEN_WORDS("min_keep", "0", "n_indent", "0"),
	[QWEN_FIELD_ALIAS] = QWEN_WORDS("messages", "prompt"),
} };

const char *const qwen_llama_names[] = {
	"max_tokens", "n_predict", "logprobs", "n_probs", "n", "n_cmpl", NULL
};

/* Appends the token ids of a string, in quotes, each with the text after. */
static int
add_ids(struct qwen_parser *r, const char *key, yyjson_val *text,
    const char *quote, const char *after)
{
	struct qwen_ids ids = { 0 };
	size_t i;

	if (qwen_parse_encode(r->refusal, key, r->s->tok, r->s->encode,
	    yyjson_get_str(text), yyjson_get_len(text), &ids) < 0)
		return -1;
	for (i = 0; i < ids.n; i++)
		qwen_json_put(&r->out, ",%s%ld%s%s", quote, (long)ids.id[i],
		    quote, after);
	free(ids.id);
	return 0;
}

/* ------------------------------------------------------------------ prompts */

/* Adds a list of token ids and strings as token ids. */
static int
add_mixed(struct qwen_parser *r, yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	qwen_json_put(&r->out, ",[");
	yyjson_arr_foreach(list, i, n, v) {
		if (!yyjson_is_str(v))
			qwen_json_put(&r->out, ",%p", v);
		else if (add_ids(r, "prompt", v, "", "") < 0)
			return -1;
	}
	qwen_text_str(&r->out, "]");
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
add_one(struct qwen_parser *r, yyjson_val *v)
{
	yyjson_val *text = qwen_parse_get_text(v, "prompt_string");

	if (yyjson_is_arr(v) && count_texts(v) > 0)
		return add_mixed(r, v);
	if (yyjson_is_obj(v) && text == NULL)
		return qwen_wrong(r, "prompt", "an object has no "
		    "prompt_string");
	if (yyjson_arr_size(yyjson_obj_get(v, "multimodal_data")) > 0)
		return qwen_wrong(r, "prompt", "multimodal_data is not "
		    "supported (text only)");
	qwen_json_put(&r->out, ",%p", text != NULL ? text : v);
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

/* Adds the prompt, or a list of prompts. */
static int
add_prompt(struct qwen_parser *r)
{
	yyjson_val *prompt = qwen_parse_get(r->body, "prompt");

	if (prompt == NULL)
		return qwen_invalid(r, "prompt", "prompt is missing");
	qwen_json_put(&r->out, ",'prompt':");
	return is_many(prompt) ? qwen_parse_each(r, "[", prompt, add_one, "]") :
	    add_one(r, prompt);
}

/* ------------------------------------------------------------- other fields */

/* Reads the limit of tokens; negative: no limit; 0: only read the prompt. */
static int
add_limit(struct qwen_parser *r)
{
	char buf[QWEN_NUMBER_SIZE];
	int rc = qwen_read_number_of(r, "n_predict", buf);

	if (rc == 0)
		rc = qwen_read_number_of(r, "max_tokens", buf);
	if (rc <= 0)
		return rc;
	if (strcmp(buf, "0") == 0)
		r->only_reads = 1;
	else if (buf[0] != '-')
		qwen_json_put(&r->out, ",'max_tokens':%s", buf);
	return 0;
}

/* Adds a pair of a token id, or string, and its bias; false: never choose. */
static int
add_pair(struct qwen_parser *r, yyjson_val *pair)
{
	yyjson_val *what = yyjson_arr_get(pair, 0);
	yyjson_val *bias = yyjson_arr_get(pair, 1);
	char id[QWEN_NUMBER_SIZE], after[QWEN_NUMBER_SIZE + 1] = ":-1e30";

	if (yyjson_arr_size(pair) != 2)
		return qwen_wrong(r, "logit_bias", "entry %zu is not a pair",
		    r->nth);
	if (!yyjson_is_false(bias) && qwen_parse_number(r->refusal,
	    "logit_bias", bias, after + 1) < 0)
		return -1;
	if (yyjson_is_str(what))
		return add_ids(r, "logit_bias", what, "\"", after);
	if (qwen_parse_number(r->refusal, "logit_bias", what, id) < 0)
		return -1;
	qwen_json_put(&r->out, ",'%s'%s", id, after);
	return 0;
}

static int
add_bias(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "logit_bias");

	if (!yyjson_is_arr(v)) {
		qwen_parse_copy(&r->out, r->body, "logit_bias", "logit_bias");
		return 0;
	}
	return qwen_parse_each(r, ",'logit_bias':{", v, add_pair, "}");
}

/* Adds fields that get another name, and fields copied unchanged. */
static int
add_others(struct qwen_parser *r)
{
	char buf[QWEN_NUMBER_SIZE];
	int rc;

	qwen_parse_copy_known(r, &known_fields);
	rc = qwen_read_number_of(r, "n_probs", buf);
	if (rc > 0 && strcmp(buf, "0") != 0)
		qwen_json_put(&r->out, ",'logprobs':%s", buf);
	if (rc >= 0)
		rc = qwen_read_number_of(r, "n_cmpl", buf);
	if (rc > 0)
		qwen_json_put(&r->out, ",'n':%s", buf);
	return rc;
}

int
qwen_parse_llama(struct qwen_parser *r)
{
	int streams = yyjson_is_true(qwen_parse_get(r->body, "stream")), tokens;

	if (qwen_parse_check_fields(r, &known_fields) < 0)
		return -1;
	tokens = qwen_read_truth(r, "return_tokens", 0);
	if (tokens < 0)
		return -1;
	r->q->keep_ids = streams || tokens;
	qwen_json_put(&r->out, "{'add_generation_prompt':true");
	if (add_prompt(r) < 0 || add_limit(r) < 0 || add_bias(r) < 0 ||
	    add_others(r) < 0)
		return -1;
	qwen_text_str(&r->out, "}");
	return qwen_parse_replace_body(r);
}
