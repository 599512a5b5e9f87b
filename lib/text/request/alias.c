/* SPDX-License-Identifier: ISC */
/* alias.c - calls of tools that are not functions for the client. */
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
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

/*
 * Returns the field "input"; or, since models rename it, the only field of the
 * object if it is a string; else NULL.
 */
static yyjson_val *
input_of(yyjson_doc *doc)
{
	yyjson_val *root = yyjson_doc_get_root(doc);
	yyjson_val *v = qwen_parse_get_text(root, "input"), *key;
	size_t i, n;

	if (v != NULL || yyjson_obj_size(root) != 1)
		return v;
	yyjson_obj_foreach(root, i, n, key, v)
		return yyjson_is_str(v) ? v : NULL;
	return NULL;
}

/*
 * Parses a call truncated inside its text, dropping an incomplete escape at its
 * end.  NULL if the call was truncated earlier, or out of memory.
 */
static yyjson_doc *
open_cut(struct qwen_str s, struct qwen_err *err)
{
	enum { ESCAPE = 12 };	/* bytes of two \uXXXX escapes */
	struct qwen_text t = { 0 };
	yyjson_doc *doc = NULL;
	size_t i;

	for (i = 0; doc == NULL && err->code != QWEN_ENOMEM && i < ESCAPE &&
	    i < s.len; i++) {
		t.n = 0;
		qwen_text_add(&t, s.s, s.len - i);
		qwen_json_put(&t, "'}");
		if (t.failed)
			qwen_oom(err);
		else
			doc = qwen_json_open(t.s, t.n, err);
	}
	qwen_text_fini(&t);
	return doc;
}

void
qwen_block_input(struct qwen_text *t, const struct qwen_answer *a,
    const struct qwen_block *b)
{
	struct qwen_str s = qwen_block_text(a, b, b->n_name);
	struct qwen_err err = { .code = 0 };
	yyjson_doc *doc = qwen_json_open(s.s, s.len, &err);
	int is_cut = doc == NULL;
	yyjson_val *v;

	if (is_cut && err.code != QWEN_ENOMEM)
		doc = open_cut(s, &err);
	v = input_of(doc);
	if (v != NULL)
		qwen_text_json(t, yyjson_get_str(v), yyjson_get_len(v));
	else
		qwen_text_json(t, s.s, is_cut ? 0 : s.len);
	t->failed |= err.code == QWEN_ENOMEM;
	yyjson_doc_free(doc);
}
