/* SPDX-License-Identifier: ISC */
/*
 * batch_result.c - the line that answers a line.  Nothing in it depends on the
 * time, the machine or the other lines, so that it has the same bytes wherever
 * and however often it is made.
 */
#include <string.h>

#include "cli/batch.h"
#include <yyjson.h>

#define BATCH_ID "batch_req_"

static void
add_usage(struct cli_text *t, const struct cli_item *item)
{
	size_t i, prompt = 0, out = 0;

	for (i = 0; i < item->n_prompts; i++)
		prompt += item->n_prompt_tokens[i];
	for (i = 0; i < item->n_answers; i++)
		out += item->answer[i].n;
	cli_text_fmt(t, "\"usage\":{\"prompt_tokens\":%zu,"
	    "\"completion_tokens\":%zu,\"total_tokens\":%zu}", prompt, out,
	    prompt + out);
}

static void
add_logprobs(struct cli_text *t, const struct cli_answer *a)
{
	const struct cli_item *item = a->item;

	if (!item->logprobs) {
		if (item->form != CLI_PLAIN)
			cli_text_str(t, ",\"logprobs\":null");
		return;
	}
	cli_text_str(t, ",\"logprobs\":");
	if (item->form != CLI_COMPLETION) {
		cli_text_str(t, item->form == CLI_CHAT ? "{\"content\":[" :
		    "[");
		cli_text_add(t, a->logprobs.s, a->logprobs.n);
		cli_text_str(t, item->form == CLI_CHAT ? "]}" : "]");
		return;
	}
	cli_text_str(t, "{\"tokens\":[");
	cli_text_add(t, a->lp_tokens.s, a->lp_tokens.n);
	cli_text_str(t, "],\"token_logprobs\":[");
	cli_text_add(t, a->logprobs.s, a->logprobs.n);
	cli_text_str(t, "],\"top_logprobs\":[");
	cli_text_add(t, a->lp_top.s, a->lp_top.n);
	cli_text_str(t, "],\"text_offset\":[");
	cli_text_add(t, a->lp_offset.s, a->lp_offset.n);
	cli_text_str(t, "]}");
}

/* "text": ..., "finish_reason": ... */
static void
add_text(struct cli_text *t, const struct cli_answer *a)
{
	if (a->item->form == CLI_CHAT)
		cli_text_str(t, "\"message\":{\"role\":\"assistant\","
		    "\"content\":");
	else
		cli_text_str(t, "\"text\":");
	cli_text_json(t, a->text.s != NULL ? a->text.s : "", a->text.n);
	if (a->reasoning.n > 0) {
		cli_text_str(t, ",\"reasoning_content\":");
		cli_text_json(t, a->reasoning.s, a->reasoning.n);
	}
	if (a->n_calls > 0) {
		cli_text_str(t, ",\"tool_calls\":[");
		cli_text_add(t, a->calls.s, a->calls.n);
		cli_text_str(t, "]");
	}
	if (a->item->form == CLI_CHAT)
		cli_text_str(t, "}");
	add_logprobs(t, a);
	cli_text_fmt(t, ",\"finish_reason\":\"%s\"", a->n_calls > 0 &&
	    strcmp(a->finish, "stop") == 0 ? "tool_calls" : a->finish);
}

static void
add_choices(struct cli_text *t, const struct cli_item *item)
{
	size_t i;

	cli_text_str(t, "\"choices\":[");
	for (i = 0; i < item->n_answers; i++) {
		cli_text_fmt(t, "%s{\"index\":%zu,", i > 0 ? "," : "", i);
		add_text(t, &item->answer[i]);
		cli_text_str(t, "}");
	}
	cli_text_str(t, "],");
}

static void
add_error(struct cli_text *t, const struct cli_item *item)
{
	cli_text_fmt(t, "\"error\":{\"code\":\"%s\",\"message\":",
	    item->code);
	cli_text_json(t, item->err.msg, strlen(item->err.msg));
	cli_text_str(t, "}");
}

static void
plain(struct cli_text *t, const struct cli_item *item)
{
	cli_text_fmt(t, "{\"line\":%llu,", (unsigned long long)item->line);
	if (item->id != NULL)
		cli_text_fmt(t, "\"id\":%s,", item->id);
	if (item->err.code != 0) {
		add_error(t, item);
	} else {
		if (item->n_answers == 1) {
			add_text(t, &item->answer[0]);
			cli_text_str(t, ",");
		} else
			add_choices(t, item);
		add_usage(t, item);
	}
	cli_text_str(t, "}\n");
}

static void
openai(struct cli_text *t, const struct cli_item *item,
    const struct cli_batch *b)
{
	unsigned long long line = item->line;
	int chat = item->form == CLI_CHAT;

	cli_text_fmt(t, "{\"id\":\"" BATCH_ID "%llu\",\"custom_id\":%s,",
	    line, item->id != NULL ? item->id : "null");
	if (item->err.code != 0) {
		cli_text_str(t, "\"response\":null,");
		add_error(t, item);
		cli_text_str(t, "}\n");
		return;
	}
	cli_text_fmt(t, "\"response\":{\"status_code\":200,\"request_id\":"
	    "\"req_%llu\",\"body\":{\"id\":\"%s-%llu\",\"object\":\"%s\","
	    "\"created\":0,\"model\":", line, chat ? "chatcmpl" : "cmpl",
	    line, chat ? "chat.completion" : "text_completion");
	if (item->model != NULL)
		cli_text_str(t, item->model);
	else
		cli_text_json(t, b->model, strlen(b->model));
	cli_text_str(t, ",");
	add_choices(t, item);
	add_usage(t, item);
	cli_text_str(t, "}},\"error\":null}\n");
}

void
cli_item_result(struct cli_item *item, const struct cli_batch *b)
{
	if (item->form == CLI_PLAIN)
		plain(&item->result, item);
	else
		openai(&item->result, item, b);
}

/* ---------------------------------------------------------- reading results */

/* The digits of a number of a line. */
static int
read_digits(const char *s, size_t n, uint64_t *number)
{
	size_t i;

	*number = 0;
	if (n == 0 || n > 18 || s[0] == '0')
		return -1;
	for (i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		*number = *number * 10 + (uint64_t)(s[i] - '0');
	}
	return 0;
}

/* "line" of a plain result, or what is behind the fixed part of "id". */
static int
read_number(yyjson_val *root, uint64_t *number)
{
	yyjson_val *v = yyjson_obj_get(root, "line");
	size_t n = strlen(BATCH_ID);

	if (yyjson_is_raw(v))
		return read_digits(yyjson_get_raw(v), yyjson_get_len(v),
		    number);
	v = yyjson_obj_get(root, "id");
	if (!yyjson_is_str(v) || yyjson_get_len(v) < n ||
	    memcmp(yyjson_get_str(v), BATCH_ID, n) != 0)
		return -1;
	return read_digits(yyjson_get_str(v) + n, yyjson_get_len(v) - n,
	    number);
}

int
cli_result_parse(const struct cli_line *line, uint64_t *number, char **id,
    int *is_error)
{
	struct cli_text t = { 0 };
	yyjson_read_err err = { 0 };
	/* without INSITU it is only read */
	yyjson_doc *doc = line->s == NULL ? NULL : yyjson_read_opts(
	    (char *)(uintptr_t)line->s, line->n, YYJSON_READ_NUMBER_AS_RAW,
	    NULL, &err);
	yyjson_val *root = yyjson_doc_get_root(doc), *v;
	int rc = -1;

	*id = NULL;
	if (err.code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		die("out of memory");
	if (!yyjson_is_obj(root) || read_number(root, number) < 0)
		goto out;
	v = yyjson_obj_get(root, "error");
	*is_error = v != NULL && !yyjson_is_null(v);
	v = yyjson_obj_get(root, yyjson_obj_get(root, "line") != NULL ? "id" :
	    "custom_id");
	if (yyjson_is_str(v)) {
		cli_text_json(&t, yyjson_get_str(v), yyjson_get_len(v));
		*id = t.s;
	} else if (yyjson_is_raw(v)) {
		cli_text_add(&t, yyjson_get_raw(v), yyjson_get_len(v));
		*id = t.s;
	}
	rc = 0;
out:
	yyjson_doc_free(doc);
	return rc;
}
