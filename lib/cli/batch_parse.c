/* SPDX-License-Identifier: ISC */
/*
 * batch_parse.c - what a line asks for: an OpenAI batch line, whose request is
 * in its body, or a request alone.  Whatever is wrong with it is the item's
 * error, and no other item's.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/batch_ask.h"

void
cli_item_fail(struct cli_item *item, const char *code, const char *fmt, ...)
{
	va_list ap;

	if (item->err.code != 0)
		return;
	va_start(ap, fmt);
	vsnprintf(item->err.msg, sizeof item->err.msg, fmt, ap);
	va_end(ap);
	item->err.code = QWEN_EFORMAT;
	item->code = code;
}

void *
cli_ask_alloc(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size);

	if (p == NULL)
		die("out of memory");
	return p;
}

int
cli_ask_bad(struct cli_ask *r, const char *fmt, ...)
{
	char msg[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof msg, fmt, ap);
	va_end(ap);
	cli_item_fail(r->item, "invalid_request", "%s", msg);
	return -1;
}

yyjson_val *
cli_ask_get(const struct cli_ask *r, const char *key)
{
	yyjson_val *v = yyjson_obj_get(r->body, key);

	return yyjson_is_null(v) ? NULL : v;
}

char *
cli_ask_json(yyjson_val *v)
{
	struct cli_text t = { 0 };

	if (yyjson_is_str(v))
		cli_text_json(&t, yyjson_get_str(v), yyjson_get_len(v));
	else
		cli_text_add(&t, yyjson_get_raw(v), yyjson_get_len(v));
	return t.s;
}

/* ---------------------------------------------------------------- the line */

/* custom_id of a batch line, id of another one. */
static int
read_id(struct cli_ask *r)
{
	int plain = r->item->form == CLI_PLAIN;
	yyjson_val *v = yyjson_obj_get(r->root, plain ? "id" : "custom_id");

	if (v == NULL || yyjson_is_null(v))
		return plain ? 0 : bad(r, "custom_id is missing");
	if (!yyjson_is_str(v) && (!plain || !yyjson_is_raw(v)))
		return bad(r, plain ? "id: is not a string or a number" :
		    "custom_id: is not a string");
	if (yyjson_get_len(v) > 1024)
		return bad(r, "%s: more than 1024 bytes", plain ? "id" :
		    "custom_id");
	r->item->id = cli_ask_json(v);
	return 0;
}

/* Which kind of request it is. */
static int
read_form(struct cli_ask *r)
{
	yyjson_val *url = yyjson_obj_get(r->root, "url");
	yyjson_val *method = yyjson_obj_get(r->root, "method");

	r->body = r->root;
	if (yyjson_obj_get(r->root, "body") == NULL &&
	    yyjson_obj_get(r->root, "custom_id") == NULL)
		return 0;
	r->item->form = CLI_COMPLETION;
	r->body = yyjson_obj_get(r->root, "body");
	if (cli_ask_get(r, "messages") != NULL)
		r->item->form = CLI_CHAT;
	if (yyjson_equals_str(url, "/v1/chat/completions"))
		r->item->form = CLI_CHAT;
	else if (yyjson_equals_str(url, "/v1/completions"))
		r->item->form = CLI_COMPLETION;
	else if (url != NULL)
		return bad(r, "url: only /v1/completions and "
		    "/v1/chat/completions are served");
	if (method != NULL && !yyjson_equals_str(method, "POST"))
		return bad(r, "method: only POST is known");
	return 0;
}

static void
make_answers(struct cli_ask *r)
{
	struct cli_item *item = r->item;
	size_t i, k;

	item->n_answers = item->n_left = item->n_prompts * item->n;
	item->answer = cli_ask_alloc(item->n_answers, sizeof *item->answer);
	for (i = 0; i < item->n_answers; i++) {
		struct cli_answer *a = &item->answer[i];

		k = i / item->n;
		a->item = item;
		a->prompt = item->prompt[k];
		a->n_prompt = item->n_prompt_tokens[k];
		if (cli_ask_is_greedy(r->b, r->sampler) &&
		    !cli_item_has_grammar(r->b, item))
			continue;
		a->sampler = cli_ask_sampler(r->b, r->sampler, i % item->n);
		cli_item_put_grammar(r->b, item, a->sampler);
	}
}

static void
read_line(struct cli_ask *r)
{
	int failed;

	/* so that an error bears the id, which may be wrong as well */
	failed = read_form(r);
	if (read_id(r) < 0 || failed)
		return;
	if (!yyjson_is_obj(r->body)) {
		bad(r, "body: is not an object");
		return;
	}
	if (cli_ask_parameters(r) == 0 && cli_ask_input(r) == 0)
		make_answers(r);
	qwen_sampler_free(r->sampler);
}

static yyjson_doc *
read_json(const struct cli_line *line, yyjson_read_err *err)
{
	/* without INSITU it is only read */
	yyjson_doc *doc = yyjson_read_opts((char *)(uintptr_t)line->s, line->n,
	    YYJSON_READ_NUMBER_AS_RAW | YYJSON_READ_ALLOW_BOM, NULL, err);

	if (doc == NULL && err->code == YYJSON_READ_ERROR_MEMORY_ALLOCATION)
		die("out of memory");
	return doc;
}

char *
cli_line_id(const struct cli_line *line, int *unique)
{
	struct cli_item *item = cli_ask_alloc(1, sizeof *item);
	struct cli_ask r = { .item = item };
	yyjson_read_err err;
	yyjson_doc *doc = line->s != NULL ? read_json(line, &err) : NULL;
	char *id = NULL;

	r.root = yyjson_doc_get_root(doc);
	if (yyjson_is_obj(r.root)) {
		read_form(&r);
		read_id(&r);
		id = item->id;
		item->id = NULL;
	}
	*unique = item->form != CLI_PLAIN;
	yyjson_doc_free(doc);
	cli_item_free(item);
	return id;
}

struct cli_item *
cli_item_parse(const struct cli_batch *b, const struct cli_line *line,
    uint64_t n)
{
	struct cli_ask r = { .b = b };
	yyjson_read_err err;
	yyjson_doc *doc;

	r.item = cli_ask_alloc(1, sizeof *r.item);
	r.item->line = n;
	r.item->bytes = sizeof *r.item + line->n;
	if (line->s == NULL) {
		cli_item_fail(r.item, "line_too_long",
		    "the line has more than %d bytes", CLI_LINE_MAX);
		return r.item;
	}
	doc = read_json(line, &err);
	if (doc == NULL)
		cli_item_fail(r.item, "invalid_json", "byte %zu: %s",
		    err.pos + 1, err.msg);
	else if (!yyjson_is_obj(r.root = yyjson_doc_get_root(doc)))
		cli_item_fail(r.item, "invalid_request",
		    "the line is not a JSON object");
	else
		read_line(&r);
	yyjson_doc_free(doc);
	return r.item;
}

void
cli_item_free(struct cli_item *item)
{
	size_t i;

	cli_item_drop_grammar(item);
	for (i = 0; i < item->n_answers; i++) {
		struct cli_answer *a = &item->answer[i];

		qwen_sampler_free(a->sampler);
		qwen_tok_decoder_free(a->decoder);
		cli_text_fini(&a->text);
		cli_text_fini(&a->reasoning);
		cli_text_fini(&a->calls);
		cli_text_fini(&a->logprobs);
		cli_text_fini(&a->lp_tokens);
		cli_text_fini(&a->lp_top);
		cli_text_fini(&a->lp_offset);
	}
	for (i = 0; i < item->n_prompts; i++)
		free(item->prompt[i]);
	for (i = 0; i < item->n_stop; i++)
		free((char *)(uintptr_t)item->stop[i].s);
	cli_text_fini(&item->result);
	free(item->stop);
	free(item->answer);
	free(item->prompt);
	free(item->n_prompt_tokens);
	free(item->model);
	free(item->tools);
	free(item->id);
	free(item);
}
