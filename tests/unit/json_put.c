/* SPDX-License-Identifier: ISC */
/* json_put.c - JSON written by formats. */
#include <string.h>

#include "../tap.h"
#include "text/json/json.h"

/* Compares what t has with want, then empties t. */
static void
check(struct qwen_text *t, const char *want, const char *what)
{
	ok(!t->failed && t->s != NULL && strcmp(t->s, want) == 0, "%s: %s",
	    what, t->s != NULL ? t->s : "nothing");
	qwen_text_fini(t);
}

static void
test_strings(void)
{
	struct qwen_text t = { 0 }, text = { 0 };
	struct qwen_str s = { "a\0\"", 3 };
	const char *volatile none = NULL;

	qwen_json_put(&t, "{'a':'%s','b':%pS,'c':%pT,'d':'x_%s'}", "\"\n\xff",
	    &s, &text, "y");
	check(&t, "{\"a\":\"\\\"\\n\xef\xbf\xbd\",\"b\":\"a\\u0000\\\"\","
	    "\"c\":\"\",\"d\":\"x_y\"}", "strings have escapes");
	qwen_json_put(&t, "{'a':'%s','b':%p,%s}", none, (void *)NULL,
	    "\"c\":[]");
	check(&t, "{\"a\":null,\"b\":null,\"c\":[]}",
	    "NULL is null; other text stays as it is");
	text.failed = 1;
	qwen_json_put(&t, "%pT", &text);
	ok(t.failed, "a text that failed lets the other one fail");
	qwen_text_fini(&t);
}

static void
test_numbers(void)
{
	struct qwen_text t = { 0 };

	qwen_json_put(&t, "[%d,%u,%ld,%zu,%lld,%llu,%.9g,%.3f]", -1, 4000000000u,
	    -2L, SIZE_MAX, (long long)INT64_MIN,
	    (unsigned long long)UINT64_MAX, 0.1, 2.0);
	check(&t, "[-1,4000000000,-2,18446744073709551615,"
	    "-9223372036854775808,18446744073709551615,0.1,2.000]", "numbers");
}

static void
test_values(void)
{
	static const char json[] = "{\"a\":[1.50,true,null],\"\\u00e9\":\"\\/\"}";
	struct qwen_text t = { 0 };
	struct qwen_err err;
	yyjson_doc *doc = qwen_json_open(json, sizeof json - 1, &err);

	qwen_json_put(&t, "[%p]", yyjson_doc_get_root(doc));
	check(&t, "[{\"a\":[1.50,true,null],\"\xc3\xa9\":\"/\"}]", "values");
	yyjson_doc_free(doc);
}

static void
test_commas(void)
{
	struct qwen_text t = { 0 };
	int i;

	for (i = 0; i < 2; i++)
		qwen_json_put(&t, ",{'i':%d", i);
	qwen_json_put(&t, ",'list':[");
	for (i = 0; i < 3; i++)
		qwen_json_put(&t, ",%d", i);
	qwen_json_put(&t, "]");
	qwen_json_put(&t, ",'object':{");
	for (i = 0; i < 2; i++)
		qwen_json_put(&t, ",'%d':[]", i);
	qwen_json_put(&t, "}");
	check(&t, "{\"i\":0,{\"i\":1,\"list\":[0,1,2],\"object\":{\"0\":[],"
	    "\"1\":[]}", "a first element has no comma");
}

int
main(void)
{
	test_strings();
	test_numbers();
	test_values();
	test_commas();
	return done_testing();
}
