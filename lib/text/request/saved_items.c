/* SPDX-License-Identifier: ISC */
/*
 * saved_items.c - items kept from earlier requests to /v1/responses: those of a
 * whole response, or a single one; and saving the items of this request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"

enum { STEPS_MAX = 8 << 20 };	/* work per request: items visited */

/* *items gets a JSON list, with its brackets. */
int
qwen_parse_load_items(struct qwen_parser *r, yyjson_val *id,
    struct qwen_text *items)
{
	const struct qwen_service *s = r->s;
	struct qwen_err err;
	int got;

	if (s->recall == NULL)
		return qwen_invalid(r, "previous_response_id",
		    "previous_response_id is not supported");
	if (!yyjson_is_str(id) || strlen(yyjson_get_str(id)) !=
	    yyjson_get_len(id))
		return qwen_wrong(r, "previous_response_id", "is not an id");
	if ((r->q->previous = strdup(yyjson_get_str(id))) == NULL)
		return qwen_oom(&r->refusal->err);
	got = s->recall(s->recall_arg, yyjson_get_str(id), items, &err);
	if (got < 0)
		return qwen_refuse_error(r->refusal, "previous_response_id",
		    &err);
	if (items->failed)
		return qwen_oom(&r->refusal->err);
	return got > 0 ? 0 : qwen_refuse(r->refusal,
	    "previous_response_not_found", "previous_response_id", "response "
	    "%.60s is not known", yyjson_get_str(id));
}

/* Saves the items before, then those of this request, without brackets. */
int
qwen_parse_save_items(struct qwen_parser *r, const struct qwen_text *before,
    yyjson_val *input)
{
	struct qwen_text t = { 0 };
	yyjson_val *v;
	size_t i, n;

	/* without the brackets */
	if (before->n > 2)
		qwen_text_add(&t, before->s + 1, before->n - 2);
	if (yyjson_is_str(input))
		qwen_json_put(&t, ",{'role':'user','content':%p}", input);
	yyjson_arr_foreach(input, i, n, v)
		qwen_json_put(&t, ",%p", v);
	return qwen_parse_keep_text(r, &t, &r->q->items);
}

/*
 * Loads the items of the response with this number; -1 if it is unknown, or
 * after a refusal.
 */
static int
open_kept(struct qwen_parser *r, struct qwen_saved_items *k, const char *digits)
{
	const struct qwen_service *s = r->s;
	struct qwen_text items = { 0 };
	struct qwen_err err;
	char id[32], *end;
	uint64_t number = strtoull(digits, &end, 10);
	int got;

	if (s->recall == NULL || digits[0] < '0' || digits[0] > '9')
		return -1;
	if (k->doc != NULL && k->number == number)
		return 0;
	snprintf(id, sizeof id, "resp_%llu", (unsigned long long)number);
	got = s->recall(s->recall_arg, id, &items, &err);
	yyjson_doc_free(k->doc);
	k->doc = NULL;
	k->number = number;
	k->steps += items.n / 16;
	if (items.failed || (got < 0 && err.code == QWEN_ENOMEM))
		qwen_oom(&r->refusal->err);
	else if (got > 0 && (k->doc = qwen_json_open(items.s, items.n,
	    &err)) == NULL)
		qwen_refuse_error(r->refusal, "input", &err);
	qwen_text_fini(&items);
	return k->doc != NULL ? 0 : -1;
}

/* Searches the response whose number is in the id. */
yyjson_val *
qwen_parse_find_item(struct qwen_parser *r, struct qwen_saved_items *k,
    const char *id)
{
	const char *digits = strchr(id, '_');
	yyjson_val *list, *v;
	size_t i, n;

	if (k->steps > STEPS_MAX) {
		qwen_invalid(r, "input", "too many references to items: send "
		    "the items themselves");
		return NULL;
	}
	if (digits == NULL || open_kept(r, k, digits + 1) < 0)
		return NULL;
	list = yyjson_doc_get_root(k->doc);
	k->steps += yyjson_arr_size(list);
	yyjson_arr_foreach(list, i, n, v) {
		if (yyjson_equals_str(yyjson_obj_get(v, "id"), id) &&
		    !qwen_parse_has_type(v, "item_reference") &&
		    yyjson_obj_size(v) > 1)
			return v;
	}
	return NULL;
}
