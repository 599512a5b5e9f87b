/* SPDX-License-Identifier: ISC */
/* json.c - replies as JSON. */
#include <errno.h>
#include <stdlib.h>
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
	yyjson_val *v = yyjson_obj_get(object, key);
	const char *s = yyjson_is_raw(v) ? yyjson_get_raw(v) : "";
	size_t n = yyjson_is_raw(v) ? yyjson_get_len(v) : 0;
	char digits[24], *end;
	unsigned long long x;

	if (n == 0 || n >= sizeof digits || s[0] < '0' || s[0] > '9')
		return 0;
	memcpy(digits, s, n);
	digits[n] = '\0';
	errno = 0;
	x = strtoull(digits, &end, 10);
	if (errno != 0 || *end != '\0' || x > INT64_MAX)
		return 0;
	*out = x;
	return 1;
}
