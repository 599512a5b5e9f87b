/* SPDX-License-Identifier: ISC */
/*
 * llama_in.c - rewrites requests to llama.cpp's /completion as completions of
 * OpenAI's form.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"

static const struct qwen_member rows[] = {
	{ "cache_prompt", QWEN_MEMBER_IDLE, NULL },
	{ "id_slot", QWEN_MEMBER_IDLE, NULL },
	{ "logit_bias", QWEN_MEMBER_HEEDED, NULL },
	{ "lora", QWEN_MEMBER_REFUSED, NULL },
	{ "max_tokens", QWEN_MEMBER_HEEDED, NULL },
	{ "messages", QWEN_MEMBER_FOREIGN, "prompt" },
	{ "min_keep", QWEN_MEMBER_REFUSED, "0" },
	{ "n_cache_reuse", QWEN_MEMBER_IDLE, NULL },
	{ "n_cmpl", QWEN_MEMBER_HEEDED, NULL },
	{ "n_discard", QWEN_MEMBER_IDLE, NULL },
	{ "n_indent", QWEN_MEMBER_REFUSED, "0" },
	{ "n_keep", QWEN_MEMBER_IDLE, NULL },
	{ "n_predict", QWEN_MEMBER_HEEDED, NULL },
	{ "n_probs", QWEN_MEMBER_HEEDED, NULL },
	{ "post_sampling_probs", QWEN_MEMBER_REFUSED, NULL },
	{ "prompt", QWEN_MEMBER_HEEDED, NULL },
	{ "response_fields", QWEN_MEMBER_IDLE, NULL },
	{ "return_progress", QWEN_MEMBER_HEEDED, NULL },
	{ "return_tokens", QWEN_MEMBER_HEEDED, NULL },
	{ "sse_ping_interval", QWEN_MEMBER_IDLE, NULL },
	{ "stop", QWEN_MEMBER_HEEDED, NULL },
	{ "t_max_predict_ms", QWEN_MEMBER_IDLE, NULL },
	{ "timings_per_token", QWEN_MEMBER_IDLE, NULL },
};
static const struct qwen_members members = {
	rows, sizeof rows / sizeof rows[0]
};

/* Fields with another name in this API: ours, theirs. */
static const char *const names[][2] = {
	{ "max_tokens", "n_predict" }, { "logprobs", "n_probs" },
	{ "n", "n_cmpl" },
};

void
qwen_ask_rename_llama(struct qwen_refusal *no)
{
	qwen_ask_rename(no, names, sizeof names / sizeof names[0]);
}

struct in {
	struct qwen_ask		*r;
	struct qwen_refusal	*no;
	struct qwen_text	 t;	/* the completion */
};

/* Reads a number into buf.  Returns 1; 0 if it is absent; -1. */
static int
number(struct in *in, const char *key, char buf[QWEN_ASK_NUMBER])
{
	yyjson_val *v = qwen_ask_get(in->r->body, key);

	if (v == NULL)
		return 0;
	return qwen_ask_number(in->no, key, v, buf) < 0 ? -1 : 1;
}

/* ------------------------------------------------------------------ prompts */

/* Adds a list of token ids and strings as token ids. */
static int
add_mixed(struct in *in, yyjson_val *list)
{
	const struct qwen_service *s = in->r->s;
	struct qwen_ids ids = { 0 };
	size_t i, n, k, n_all = 0;
	yyjson_val *v;

	qwen_text_str(&in->t, "[");
	yyjson_arr_foreach(list, i, n, v) {
		if (!yyjson_is_str(v)) {
			qwen_text_str(&in->t, n_all++ > 0 ? "," : "");
			qwen_ask_write(&in->t, v);
			continue;
		}
		if (qwen_ask_encode(in->no, "prompt", s->tok, s->encode,
		    yyjson_get_str(v), yyjson_get_len(v), &ids) < 0)
			return -1;
		for (k = 0; k < ids.n; k++)
			qwen_text_fmt(&in->t, "%s%ld", n_all++ > 0 ? "," : "",
			    (long)ids.id[k]);
		free(ids.id);
		ids = (struct qwen_ids){ 0 };
	}
	qwen_text_str(&in->t, "]");
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
add_one(struct in *in, yyjson_val *v)
{
	yyjson_val *text = text_of(v, "prompt_string");

	if (!yyjson_is_obj(v)) {
		if (yyjson_is_arr(v) && count_texts(v) > 0)
			return add_mixed(in, v);
		qwen_ask_write(&in->t, v);
		return 0;
	}
	if (text == NULL)
		return wrong(in->no, "prompt", "an object has no "
		    "prompt_string");
	if (yyjson_arr_size(yyjson_obj_get(v, "multimodal_data")) > 0)
		return wrong(in->no, "prompt", "multimodal_data is not "
		    "supported (text only)");
	qwen_ask_write(&in->t, text);
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
add_prompt(struct in *in)
{
	yyjson_val *prompt = qwen_ask_get(in->r->body, "prompt"), *v;
	size_t i, n;

	if (prompt == NULL)
		return bad(in->no, "prompt", "prompt is missing");
	qwen_text_str(&in->t, ",\"prompt\":");
	if (!is_many(prompt))
		return add_one(in, prompt);
	qwen_text_str(&in->t, "[");
	yyjson_arr_foreach(prompt, i, n, v) {
		qwen_text_str(&in->t, i > 0 ? "," : "");
		if (add_one(in, v) < 0)
			return -1;
	}
	qwen_text_str(&in->t, "]");
	return 0;
}

/* ------------------------------------------------------------- other fields */

/* Reads the limit of tokens; negative: no limit; 0: only read the prompt. */
static int
add_limit(struct in *in)
{
	char buf[QWEN_ASK_NUMBER];
	int rc = number(in, "n_predict", buf);

	if (rc == 0)
		rc = number(in, "max_tokens", buf);
	if (rc <= 0)
		return rc;
	if (strcmp(buf, "0") == 0)
		in->r->only_reads = 1;
	else if (buf[0] != '-')
		qwen_text_fmt(&in->t, ",\"max_tokens\":%s", buf);
	return 0;
}

/*
 * Adds a pair of a token id, or string, and its bias; false: never choose it.
 */
static int
add_pair(struct in *in, yyjson_val *pair, size_t *n_all)
{
	yyjson_val *what = yyjson_arr_get(pair, 0);
	yyjson_val *bias = yyjson_arr_get(pair, 1);
	const struct qwen_service *s = in->r->s;
	struct qwen_ids ids = { 0 };
	char buf[QWEN_ASK_NUMBER];
	size_t i;
	int rc;

	if (yyjson_arr_size(pair) != 2)
		return wrong(in->no, "logit_bias", "entry %zu is not a pair",
		    *n_all);
	if (yyjson_is_false(bias))
		snprintf(buf, sizeof buf, "-1e30");
	else if (qwen_ask_number(in->no, "logit_bias", bias, buf) < 0)
		return -1;
	if (yyjson_is_str(what))
		rc = qwen_ask_encode(in->no, "logit_bias", s->tok, s->encode,
		    yyjson_get_str(what), yyjson_get_len(what), &ids);
	else {
		char id[QWEN_ASK_NUMBER];

		if (qwen_ask_number(in->no, "logit_bias", what, id) < 0)
			return -1;
		qwen_text_fmt(&in->t, "%s\"%s\":%s", (*n_all)++ > 0 ? "," : "",
		    id, buf);
		return 0;
	}
	for (i = 0; rc == 0 && i < ids.n; i++)
		qwen_text_fmt(&in->t, "%s\"%ld\":%s", (*n_all)++ > 0 ? "," :
		    "", (long)ids.id[i], buf);
	free(ids.id);
	return rc;
}

static int
add_bias(struct in *in)
{
	yyjson_val *v = qwen_ask_get(in->r->body, "logit_bias"), *pair;
	size_t i, n, n_all = 0;

	if (v == NULL)
		return 0;
	qwen_text_str(&in->t, ",\"logit_bias\":");
	if (!yyjson_is_arr(v)) {
		qwen_ask_write(&in->t, v);
		return 0;
	}
	qwen_text_str(&in->t, "{");
	yyjson_arr_foreach(v, i, n, pair) {
		if (add_pair(in, pair, &n_all) < 0)
			return -1;
	}
	qwen_text_str(&in->t, "}");
	return 0;
}

/* Adds fields that get another name, and fields copied unchanged. */
static int
add_others(struct in *in)
{
	yyjson_val *key, *v, *body = in->r->body;
	char buf[QWEN_ASK_NUMBER];
	size_t i, n;
	int rc;

	yyjson_obj_foreach(body, i, n, key, v) {
		if (!qwen_ask_passes(in->r, &members, key) &&
		    !yyjson_equals_str(key, "stop") &&
		    !yyjson_equals_str(key, "return_progress"))
			continue;
		qwen_ask_write_key(&in->t, 1, yyjson_get_str(key),
		    yyjson_get_len(key));
		qwen_ask_write(&in->t, v);
	}
	if ((rc = number(in, "n_probs", buf)) > 0 && strcmp(buf, "0") != 0)
		qwen_text_fmt(&in->t, ",\"logprobs\":%s", buf);
	if (rc >= 0 && (rc = number(in, "n_cmpl", buf)) > 0)
		qwen_text_fmt(&in->t, ",\"n\":%s", buf);
	return rc;
}

int
qwen_ask_llama(struct qwen_ask *r)
{
	struct in in = { .r = r, .no = r->no };
	yyjson_val *tokens = qwen_ask_get(r->body, "return_tokens");
	int streams = yyjson_is_true(qwen_ask_get(r->body, "stream"));

	if (qwen_ask_members(r, &members) < 0)
		return -1;
	if (tokens != NULL && !yyjson_is_bool(tokens))
		return wrong(r->no, "return_tokens", "is not true or false");
	r->q->keep_ids = streams || yyjson_is_true(tokens);
	/* a first field, so that each other field begins with a comma */
	qwen_text_str(&in.t, "{\"add_generation_prompt\":true");
	if (add_prompt(&in) < 0 || add_limit(&in) < 0 || add_bias(&in) < 0 ||
	    add_others(&in) < 0) {
		qwen_text_fini(&in.t);
		return -1;
	}
	qwen_text_str(&in.t, "}");
	return qwen_ask_rewrite(r, &in.t);
}
