/* SPDX-License-Identifier: ISC */
/* batch_prompt.c - the prompts of a request, as tokens. */
#include <stdlib.h>
#include <string.h>

#include "cli/batch_ask.h"

/* The ids of the next prompt; they are the item's. */
static int
add_prompt(struct cli_ask *r, int32_t *ids, size_t n)
{
	struct cli_item *item = r->item;

	item->prompt[item->n_prompts] = ids;
	item->n_prompt_tokens[item->n_prompts++] = n;
	return n > 0 ? 0 : bad(r, "prompt: has no token");
}

static int
add_text(struct cli_ask *r, yyjson_val *v)
{
	struct qwen_err err;
	int32_t *ids;
	size_t n;

	if (qwen_tok_encode(r->b->tok, yyjson_get_str(v), yyjson_get_len(v),
	    r->b->encode, &ids, &n, &err) < 0)
		return bad(r, "prompt: %s", err.msg);
	return add_prompt(r, ids, n);
}

static int
add_ids(struct cli_ask *r, yyjson_val *v)
{
	int32_t *ids = cli_ask_alloc(yyjson_arr_size(v), sizeof *ids);
	char buf[CLI_NUMBER_MAX];
	yyjson_arr_iter it;
	yyjson_val *one;
	size_t n = 0, digits;
	unsigned long long id;

	yyjson_arr_iter_init(v, &it);
	while ((one = yyjson_arr_iter_next(&it)) != NULL) {
		if (cli_ask_number(r, "prompt", one, buf) < 0)
			goto out;
		digits = strspn(buf, "0123456789");
		id = strtoull(buf, NULL, 10);
		if (buf[digits] != '\0' || digits > 18 ||
		    id >= r->b->n_vocab) {
			bad(r, "prompt: %s is not a token of this model", buf);
			goto out;
		}
		ids[n++] = (int32_t)id;
	}
	return add_prompt(r, ids, n);
out:
	free(ids);
	return -1;
}

/* One prompt: text or ids. */
static int
add_one(struct cli_ask *r, yyjson_val *v)
{
	if (yyjson_is_str(v))
		return add_text(r, v);
	if (yyjson_is_arr(v))
		return add_ids(r, v);
	return bad(r, "prompt: is not a text, a list of token "
	    "ids, or a list of these");
}

static int
read_prompt(struct cli_ask *r, yyjson_val *v)
{
	yyjson_val *first = yyjson_arr_get_first(v), *one;
	int many = yyjson_is_str(first) || yyjson_is_arr(first);
	size_t n = many ? yyjson_arr_size(v) : 1;
	struct cli_item *item = r->item;
	yyjson_arr_iter it;

	if (n > CLI_CHOICES_MAX / item->n)
		return bad(r, "more than %d answers", CLI_CHOICES_MAX);
	item->prompt = cli_ask_alloc(n, sizeof *item->prompt);
	item->n_prompt_tokens = cli_ask_alloc(n,
	    sizeof *item->n_prompt_tokens);
	if (!many)
		return add_one(r, v);
	yyjson_arr_iter_init(v, &it);
	while ((one = yyjson_arr_iter_next(&it)) != NULL) {
		if (add_one(r, one) < 0)
			return -1;
	}
	return 0;
}

/* What the chat template makes of the request. */
static int
read_messages(struct cli_ask *r)
{
	yyjson_val *tools = cli_ask_get(r, "tools");
	struct cli_item *item = r->item;
	struct qwen_prompt *p = NULL;
	int32_t *ids = NULL;
	struct qwen_err err;
	size_t len, n = 0;
	char *text;
	int rc;

	if (r->b->template == NULL)
		return bad(r, "messages: the model has no chat template (%s)",
		    r->b->no_template);
	if ((text = yyjson_val_write(r->body, 0, &len)) == NULL)
		die("out of memory");
	rc = qwen_template_render(r->b->template, text, len, &p, &err);
	free(text);
	if (rc == 0)
		rc = qwen_prompt_encode(p, r->b->tok, 0,
		    qwen_prompt_text(p).len, &ids, &n, &err);
	if (rc == 0)
		item->thinking = qwen_prompt_thinking(p);
	qwen_prompt_free(p);
	if (rc < 0)
		return bad(r, "messages: %s", err.msg);
	if (tools != NULL && (item->tools = yyjson_val_write(tools, 0,
	    &item->n_tools)) == NULL)
		die("out of memory");
	item->prompt = cli_ask_alloc(1, sizeof *item->prompt);
	item->n_prompt_tokens = cli_ask_alloc(1, sizeof *item->n_prompt_tokens);
	return add_prompt(r, ids, n);
}

int
cli_ask_input(struct cli_ask *r)
{
	yyjson_val *prompt = cli_ask_get(r, "prompt");
	yyjson_val *messages = cli_ask_get(r, "messages");

	if (prompt != NULL && messages != NULL)
		return bad(r, "prompt and messages: one of them");
	if (messages != NULL && r->item->form != CLI_COMPLETION)
		return read_messages(r);
	if (prompt == NULL || r->item->form == CLI_CHAT)
		return bad(r, "%s is missing", r->item->form == CLI_CHAT ?
		    "messages" : "prompt");
	return read_prompt(r, prompt);
}
