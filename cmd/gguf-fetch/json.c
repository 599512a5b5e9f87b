/* SPDX-License-Identifier: ISC */
/* json.c - replies as JSON. */
#include <string.h>

#include "json.h"

yyjson_doc *
fetch_json(const struct http_ask *a, struct http_reply *r)
{
	struct qwen_text t = { 0 };
	yyjson_doc *doc = NULL;

	if (fetch_text(&t, a, r) == 0 &&
	    (doc = qwen_json_open(t.s, t.n, &cli_err)) == NULL)
		qwen_fail_in(&cli_err, "the server's answer");
	qwen_text_fini(&t);
	return doc;
}

const char *
fetch_member(yyjson_val *object, const char *key)
{
	yyjson_val *v = yyjson_obj_get(object, key);
	const char *s = yyjson_get_str(v);

	return s != NULL && strlen(s) == yyjson_get_len(v) ? s : NULL;
}

int
fetch_number(yyjson_val *object, const char *key, uint64_t *out)
{
	const char *s = yyjson_get_raw(yyjson_obj_get(object, key));
	uint64_t n;

	if (s == NULL || qwen_digits(&s, &n) < 0 || *s != '\0' || n > INT64_MAX)
		return 0;
	*out = n;
	return 1;
}
