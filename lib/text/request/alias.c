/* SPDX-License-Identifier: ISC */
/* alias.c - calls of tools that clients know otherwise than the model does. */
#include <string.h>

#include "base/err.h"
#include "text/json/json.h"
#include "text/request/ask.h"
#include "text/request/form.h"

const struct qwen_tool_alias *
qwen_block_alias(const struct qwen_answer *a, const struct qwen_block *b)
{
	const struct qwen_request *q = a->request;
	const char *name = a->calls.s + b->from;
	size_t i;

	for (i = 0; b->kind == QWEN_BLOCK_CALL && i < q->n_alias; i++) {
		if (strlen(q->alias[i].called) == b->n_name &&
		    memcmp(q->alias[i].called, name, b->n_name) == 0)
			return &q->alias[i];
	}
	return NULL;
}

/* The only text of an object of one member, whatever the model calls it. */
static yyjson_val *
input_of(yyjson_doc *doc)
{
	yyjson_val *root = yyjson_doc_get_root(doc);
	yyjson_val *v = qwen_ask_text(root, "input"), *key;
	size_t i, n;

	if (v != NULL || yyjson_obj_size(root) != 1)
		return v;
	yyjson_obj_foreach(root, i, n, key, v)
		return yyjson_is_str(v) ? v : NULL;
	return NULL;
}

void
qwen_block_input(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	struct qwen_str s = qwen_block_text(a, b, b->n_name);
	struct qwen_text cut = { 0 };
	struct qwen_err err = { .code = 0 };
	yyjson_doc *doc = qwen_json_open(s.s, s.len, &err);
	yyjson_val *v = input_of(doc);

	if (doc == NULL && err.code != QWEN_ENOMEM) {
		/* a call that was cut in its text */
		qwen_text_add(&cut, s.s, s.len);
		qwen_text_str(&cut, "\"}");
		doc = cut.failed ? NULL : qwen_json_open(cut.s, cut.n, &err);
		v = input_of(doc);
	}
	if (v != NULL)
		qwen_text_json(t, yyjson_get_str(v), yyjson_get_len(v));
	else
		qwen_text_json(t, s.s, s.len);
	t->failed |= cut.failed || err.code == QWEN_ENOMEM;
	yyjson_doc_free(doc);
	qwen_text_fini(&cut);
}
