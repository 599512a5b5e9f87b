/* SPDX-License-Identifier: ISC */
/*
 * schema.c - which texts the grammars of JSON Schemas take, and which schemas
 * are refused.  With -p, print the grammar of a schema on stdin; with -g SEED N,
 * texts by it at random.
 */
#include <stdlib.h>
#include <string.h>

#include "text/grammar/grammar.h"
#include "../tap.h"

enum { N = 256 };

static struct qwen_pieces pieces;
static struct qwen_trie *trie;

/* A token for each byte. */
static void
make_pieces(void)
{
	static uint32_t at[N + 1];
	static char bytes[N];
	int i;

	for (i = 0; i < N; i++) {
		bytes[i] = (char)i;
		at[i + 1] = (uint32_t)i + 1;
	}
	pieces = (struct qwen_pieces){ .n = N, .at = at, .bytes = bytes,
	    .think = -1, .unthink = -1 };
}

static struct qwen_match *
match_of(const char *schema, size_t n, struct qwen_grammar **g)
{
	struct qwen_match *m;
	struct qwen_err err;

	if (qwen_grammar_open_schema(g, schema, n, &err) < 0) {
		printf("# %.*s: %s\n", (int)n, schema, err.msg);
		return NULL;
	}
	if (qwen_match_new(&m, *g, trie, &err) < 0) {
		printf("# %.*s: %s\n", (int)n, schema, err.msg);
		abort();
	}
	return m;
}

/* Texts end with a line; those behind NO are not of it. */
static void
check(const char *schema, const char *texts)
{
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(schema, strlen(schema), &g);
	struct qwen_err err;
	int want = 1, got, bad = m == NULL;
	size_t n;

	for (; *texts != '\0' && m != NULL; texts += n + 1) {
		n = strcspn(texts, "\n");
		if (n == 2 && memcmp(texts, "NO", 2) == 0) {
			want = 0;
			continue;
		}
		if (qwen_match_begin(m, &err) < 0)
			abort();
		got = qwen_match_feed(m, texts, n, &err) > 0 &&
		    qwen_match_may_end(m);
		if (got != want)
			printf("# %s: %.*s\n", got ? "took" : "refused",
			    (int)n, texts);
		bad += got != want;
	}
	if (m != NULL) {
		qwen_match_free(m);
		qwen_grammar_close(g);
	}
	ok(bad == 0, "%.150s", schema);
}

static void
refuse(const char *schema, const char *why)
{
	struct qwen_grammar *g;
	struct qwen_err err = { 0 };

	ok(qwen_grammar_open_schema(&g, schema, strlen(schema), &err) < 0 &&
	    g == NULL && strstr(err.msg, why) != NULL, "%s", err.msg);
}

static void
test_scalars(void)
{
	check("true", "1\n\"a\"\n{\"a\":[1,{}]}\nnull\nNO\n{\"a\": 1}\n[1, 2]\n\n"
	    " 1\n");
	check("{}", "-1.5e+7\n[]\nfalse\nNO\n01\n1.\n.5\nnul\n\"\n\"\\u00zz\"\n");
	check("{\"type\":\"string\"}", "\"\"\n\"\xc3\xbc\xf0\x9f\x98\x80\"\n"
	    "\"\\n\\\\\\\"\\/\\u001f\"\nNO\n1\n\"\n\"a\n\"\t\"\n\"\\x\"\n"
	    "\"\\ud800\"\n\"\xff\"\n");
	check("{\"type\":\"integer\"}", "0\n-1\n120\nNO\n-0\n1.0\n01\n1e3\n\n");
	check("{\"type\":\"number\"}", "0\n-1.25\n1e5\n3.0E-10\nNO\n1.\n+1\n"
	    "1e\nNaN\n");
	check("{\"type\":\"boolean\"}", "true\nfalse\nNO\nTrue\n0\n");
	check("{\"type\":\"null\"}", "null\nNO\nnil\n");
	check("{\"type\":[\"string\",\"null\"]}", "null\n\"a\"\nNO\n1\ntrue\n");
	check("{\"type\":[\"integer\",\"number\"]}", "1\n1.5\nNO\n\"1\"\n");
	check("{\"enum\":[\"a\\\"b\",1.50,null,[1,{\"x\":true}]]}",
	    "\"a\\\"b\"\n1.50\nnull\n[1,{\"x\":true}]\nNO\n1.5\n[1]\n");
	check("{\"type\":\"string\",\"enum\":[\"a\",1,\"\xc3\xbc/\"]}",
	    "\"a\"\n\"\xc3\xbc/\"\nNO\n1\n");
	check("{\"const\":{\"a\":12345678901234567890}}",
	    "{\"a\":12345678901234567890}\nNO\n{}\n");
	check("{\"enum\":[1,2,3],\"allOf\":[{\"enum\":[3.0,2,7]},"
	    "{\"exclusiveMaximum\":3}]}", "2\nNO\n1\n3\n7\n");
	check("{\"enum\":[\"a\",\"abc\",\"abcd\"],\"minLength\":2,"
	    "\"maxLength\":3}", "\"abc\"\nNO\n\"a\"\n\"abcd\"\n");
}

static void
test_strings(void)
{
	check("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
	    "\"ab\"\n\"\xe2\x82\xac\\n\xf0\x9f\x98\x80\"\nNO\n\"a\"\n\"abcd\"\n");
	check("{\"minLength\":1}", "\"a\"\nNO\n\"\"\n1\n");
	check("{\"maxLength\":0,\"type\":\"string\"}", "\"\"\nNO\n\"a\"\n");
	check("{\"pattern\":\"^[a-c]+$\"}", "\"a\"\n\"abccba\"\nNO\n\"\"\n\"d\"\n"
	    "1\n");
	check("{\"pattern\":\"b\"}", "\"b\"\n\"abc\"\n\"\\\"b\"\nNO\n\"a\"\n");
	check("{\"pattern\":\"^b|c$|^d$\"}", "\"bx\"\n\"xc\"\n\"d\"\nNO\n\"dx\"\n"
	    "\"xb\"\n");
	check("{\"pattern\":\"^(a|bc){2}?x*?$\"}", "\"abcxx\"\n\"aa\"\nNO\n\"a\"\n"
	    "\"aaa\"\n");
	check("{\"pattern\":\"^\\\\d{3}-\\\\w\\\\S\\\\.$\"}", "\"123-a\xc3\xbc.\"\n"
	    "\"123-_-.\"\nNO\n\"123-a .\"\n\"123-a\xc2\xa0.\"\n\"12-aa.\"\n");
	check("{\"pattern\":\"^[^\\\\s\\\"]$\"}", "\"a\"\n\"\\\\\"\n\"\xe2\x82\xac\"\n"
	    "NO\n\"\\\"\"\n\" \"\n\"\\t\"\n\"\xe2\x80\xa8\"\n\"\\/\"\n");
	check("{\"pattern\":\"^[\\\"\\\\\\\\/\\t]$\"}", "\"\\\"\"\n\"\\\\\"\n"
	    "\"/\"\n\"\\t\"\nNO\n\"\\/\"\n\"\"\"\n");
	check("{\"pattern\":\"^\\\\u00e4\\\\x41\\\\u{1F600}[\\\\]\\\\-^]$\"}",
	    "\"\xc3\xa4" "A\xf0\x9f\x98\x80]\"\n\"\xc3\xa4" "A\xf0\x9f\x98\x80^\"\n"
	    "NO\n\"aA\"\n");
	check("{\"pattern\":\"^(?:a(?<n>b)?|)$\"}", "\"a\"\n\"ab\"\n\"\"\nNO\n"
	    "\"b\"\n");
	check("{\"pattern\":\"^a{,2}b{x$\"}", "\"a{,2}b{x\"\nNO\n\"aab\"\n");
	check("{\"pattern\":\"\"}", "\"\"\n\"a\"\nNO\n1\n");
	check("{\"pattern\":\"^[a-z][a-z0-9]*$\",\"maxLength\":3}", "\"a\"\n"
	    "\"a12\"\nNO\n\"\"\n\"abcd\"\n");
	check("{\"pattern\":\"^(?:(?:ab)+|c)$\",\"minLength\":3,"
	    "\"maxLength\":7}", "\"abab\"\n\"ababab\"\nNO\n\"ab\"\n\"c\"\n"
	    "\"abababab\"\n");
	check("{\"format\":\"date\"}", "\"2024-02-29\"\n\"1999-12-31\"\n"
	    "\"2000-02-29\"\n\"0004-02-29\"\nNO\n\"2023-02-29\"\n"
	    "\"1900-02-29\"\n\"2024-04-31\"\n\"2024-13-01\"\n\"0000-01-01\"\n"
	    "\"2024-1-1\"\n");
	check("{\"format\":\"time\"}", "\"23:59:59Z\"\n\"00:00:00.125+01:30\"\n"
	    "NO\n\"24:00:00Z\"\n\"12:00Z\"\n\"12:00:00\"\n");
	check("{\"type\":\"string\",\"format\":\"date-time\"}",
	    "\"2024-02-29T12:30:00Z\"\nNO\n\"2024-02-30T12:30:00Z\"\n"
	    "\"2024-02-29 12:30:00Z\"\n");
	check("{\"format\":\"uuid\"}",
	    "\"01234567-89ab-cdef-0123-456789abcdef\"\nNO\n"
	    "\"01234567-89ab-cdef-0123-456789abcde\"\n");
	check("{\"format\":\"email\",\"maxLength\":254}", "\"a.b@c.de\"\nNO\n"
	    "\"a@b\"\n\"@c.de\"\n");
	check("{\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083}",
	    "\"https://a.org/b/c?d=e#f\"\nNO\n\"a.org\"\n");
	check("{\"format\":\"ipv4\"}", "\"255.1.20.0\"\nNO\n\"256.1.1.1\"\n"
	    "\"1.1.1\"\n\"01.1.1.1\"\n");
}

static void
test_numbers(void)
{
	check("{\"type\":\"integer\",\"minimum\":-3,\"maximum\":12}", "-3\n-1\n0\n"
	    "9\n10\n12\nNO\n-4\n13\n20\n-10\n1.0\n-0\n");
	check("{\"type\":\"integer\",\"minimum\":95,\"maximum\":1203}", "95\n99\n"
	    "100\n999\n1000\n1199\n1200\n1203\nNO\n94\n9\n1204\n1210\n2000\n"
	    "0100\n");
	check("{\"type\":\"integer\",\"exclusiveMinimum\":0}", "1\n10\n"
	    "1234567890\nNO\n0\n-1\n");
	check("{\"type\":\"integer\",\"exclusiveMaximum\":-9}", "-10\n-99\n-12345\n"
	    "NO\n-9\n0\n5\n");
	check("{\"type\":\"integer\",\"minimum\":1.5,\"maximum\":3.999}", "2\n3\nNO\n"
	    "1\n4\n");
	check("{\"type\":\"integer\",\"minimum\":1e1,\"maximum\":250e-1}",
	    "10\n25\nNO\n9\n26\n");
	check("{\"type\":\"integer\",\"minimum\":0,\"exclusiveMinimum\":true,"
	    "\"maximum\":2}", "1\n2\nNO\n0\n");
	check("{\"type\":\"integer\",\"format\":\"int32\",\"minimum\":2147483640}",
	    "2147483647\nNO\n2147483648\n2147483639\n");
	check("{\"type\":\"number\",\"minimum\":0,\"maximum\":1}", "0\n1\n0.5\n1.0\n"
	    "0.0\n0.999\n1.000\nNO\n-0\n1.001\n2\n-0.5\n5e-1\n1.\n");
	check("{\"type\":\"number\",\"exclusiveMinimum\":0,"
	    "\"exclusiveMaximum\":1}", "0.5\n0.001\n0.999\nNO\n0\n1\n0.0\n1.0\n");
	check("{\"type\":\"number\",\"minimum\":-1.25,\"maximum\":12.5}", "-1.25\n"
	    "-1.2\n-1\n-0.5\n0\n3.75\n12\n12.49\n12.500\nNO\n-1.26\n-1.3\n-2\n"
	    "12.51\n12.6\n13\n");
	check("{\"type\":\"number\",\"minimum\":2.25,\"maximum\":2.75}", "2.25\n"
	    "2.5\n2.749\n2.75\n2.750\nNO\n2\n2.2\n2.249\n2.76\n2.8\n3\n2.\n");
	check("{\"type\":\"number\",\"minimum\":2.25,\"exclusiveMaximum\":2.3}",
	    "2.25\n2.29\n2.2999\nNO\n2.3\n2.30\n2.24\n2.2\n");
	check("{\"type\":\"number\",\"maximum\":-0.5}", "-0.5\n-0.51\n-1\n-100.5\nNO\n"
	    "-0.4\n0\n-0.499\n");
	check("{\"minimum\":100,\"maximum\":100}", "100\n100.0\nNO\n100.1\n99\n");
	check("{\"type\":\"number\",\"multipleOf\":1}", "3\n-3\nNO\n1.5\n");
}

static void
test_arrays(void)
{
	check("{\"type\":\"array\"}", "[]\n[1,\"a\"]\nNO\n[1,]\n{}\n[1 ]\n");
	check("{\"items\":{\"type\":\"integer\"}}", "[]\n[1]\n[1,2,3]\nNO\n[\"a\"]\n"
	    "[,1]\n");
	check("{\"items\":{\"const\":1},\"minItems\":2,\"maxItems\":3}",
	    "[1,1]\n[1,1,1]\nNO\n[1]\n[]\n[1,1,1,1]\n");
	check("{\"type\":\"array\",\"maxItems\":0}", "[]\nNO\n[1]\n");
	check("{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"minItems\":1}",
	    "[1]\n[1,2]\nNO\n[]\n[2]\n[1,2,3]\n");
	check("{\"prefixItems\":[{\"const\":1}],\"items\":{\"const\":2},"
	    "\"minItems\":2,\"maxItems\":3}", "[1,2]\n[1,2,2]\nNO\n[1]\n"
	    "[1,2,2,2]\n[1,1]\n");
	check("{\"prefixItems\":[{\"const\":1},{\"const\":2}],\"items\":false,"
	    "\"maxItems\":1}", "[]\n[1]\nNO\n[1,2]\n");
	check("{\"items\":[{\"const\":1}],\"additionalItems\":{\"const\":2}}",
	    "[]\n[1]\n[1,2,2]\nNO\n[2]\n");
	check("{\"prefixItems\":[{\"const\":1}],\"minItems\":3}", "[1,2,{}]\nNO\n"
	    "[1,2]\n[1]\n");
	check("{\"items\":false}", "[]\nNO\n[1]\n");
}

static void
test_objects(void)
{
	check("{\"type\":\"object\"}", "{}\n{\"a\":1,\"b\":{}}\nNO\n{\"a\":}\n"
	    "{\"a\" :1}\n[]\n");
	check("{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}},"
	    "\"required\":[\"a\",\"b\"]}", "{\"a\":1,\"b\":2}\nNO\n{\"a\":1}\n"
	    "{\"b\":2,\"a\":1}\n{}\n{\"a\":1,\"b\":2,\"c\":3}\n");
	check("{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2},"
	    "\"c\":{\"const\":3},\"d\":{\"const\":4}},\"required\":[\"c\"]}",
	    "{\"c\":3}\n{\"a\":1,\"c\":3}\n{\"b\":2,\"c\":3,\"d\":4}\n"
	    "{\"a\":1,\"b\":2,\"c\":3,\"d\":4}\nNO\n{\"a\":1}\n{}\n{\"d\":4}\n"
	    "{,\"c\":3}\n{\"b\":2,\"a\":1,\"c\":3}\n");
	check("{\"properties\":{\"a\":{\"const\":1},\"b\":{\"const\":2}}}",
	    "{}\n{\"a\":1}\n{\"b\":2}\n{\"a\":1,\"b\":2}\nNO\n{\"c\":1}\n"
	    "{\"a\":1,}\n");
	check("{\"additionalProperties\":{\"type\":\"integer\"}}",
	    "{}\n{\"x\":1,\"\\n\":2}\nNO\n{\"x\":\"a\"}\n");
	check("{\"properties\":{\"ab\":{\"const\":1},\"ac\":{\"const\":2}},"
	    "\"additionalProperties\":{\"const\":3}}", "{}\n{\"a\":3}\n"
	    "{\"ab\":1,\"abc\":3,\"\":3}\n{\"ac\":2,\"ad\":3,\"x\":3}\n{\"x\":3}\n"
	    "NO\n{\"ab\":3}\n{\"ac\":3}\n{\"x\":3,\"ab\":1}\n{\"\\u0061b\":3}\n"
	    "{\"ab\":1,\"ab\":3}\n");
	check("{\"properties\":{\"\xc3\xbc\":{\"const\":1}},\"required\":[\"\xc3\xbc\"],"
	    "\"additionalProperties\":true}", "{\"\xc3\xbc\":1}\n"
	    "{\"\xc3\xbc\":1,\"\xc3\xbb\":[2]}\nNO\n{}\n{\"\xc3\xbc\":1,\"\xc3\xbc\":2}\n");
	check("{\"required\":[\"a\"]}", "{\"a\":1}\n{\"a\":[],\"b\":2}\nNO\n{}\n"
	    "{\"b\":1}\n");
	check("{\"properties\":{\"a\\\"\\n\":{\"const\":1}}}",
	    "{\"a\\\"\\n\":1}\nNO\n{\"a\":1}\n");
	check("{\"properties\":{\"a\":false,\"b\":{\"const\":1}}}",
	    "{}\n{\"b\":1}\nNO\n{\"a\":1}\n");
	check("{\"properties\":{\"a\":false},\"additionalProperties\":true}",
	    "{}\n{\"b\":1}\nNO\n{\"a\":1}\n");
	check("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
	    "{\"a\":1}\n{\"a\":1,\"b\":2}\nNO\n{}\n{\"a\":1,\"b\":2,\"c\":3}\n");
	check("{\"patternProperties\":{\"^x-\":{\"const\":1}},"
	    "\"additionalProperties\":false}", "{}\n{\"x-\":1,\"x-y\":1}\nNO\n"
	    "{\"y\":1}\n{\"x-\":2}\n");
	check("{\"propertyNames\":{\"enum\":[\"a\",\"b\"]},"
	    "\"additionalProperties\":{\"const\":1}}", "{}\n{\"a\":1,\"b\":1}\n"
	    "NO\n{\"c\":1}\n");
	check("{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\"},"
	    "\"unevaluatedProperties\":{\"const\":1}}", "{\"ab\":1}\nNO\n"
	    "{\"A\":1}\n{\"a\":2}\n");
	check("{\"properties\":{\"a\":true},\"unevaluatedProperties\":false}",
	    "{}\n{\"a\":[]}\nNO\n{\"b\":1}\n");
}

#define NODE "{\"$defs\":{\"n\":{\"type\":\"object\",\"properties\":{" \
    "\"v\":{\"type\":\"integer\"},\"next\":"

static void
test_together(void)
{
	check("{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"array\",\"items\":"
	    "{\"type\":\"string\"}},false]}", "1\n[]\n[\"a\"]\nNO\n[1]\n\"a\"\n");
	check("{\"minimum\":3,\"anyOf\":[{\"type\":\"integer\"},{\"type\":"
	    "\"null\"}]}", "3\nnull\nNO\n2\n");
	check("{\"type\":\"object\",\"properties\":{\"k\":{\"type\":\"string\"}},"
	    "\"oneOf\":[{\"properties\":{\"k\":{\"const\":\"a\"},\"x\":{\"const\":1}},"
	    "\"required\":[\"k\",\"x\"]},{\"properties\":{\"k\":{\"const\":\"b\"}},"
	    "\"required\":[\"k\"]}]}", "{\"k\":\"a\",\"x\":1}\n{\"k\":\"b\"}\nNO\n"
	    "{\"k\":\"a\"}\n{\"k\":\"c\"}\n{\"k\":\"b\",\"x\":1}\n");
	check("{\"oneOf\":[{\"type\":\"string\"},{\"const\":3},{\"enum\":[4,5]}]}",
	    "\"a\"\n3\n4\nNO\n6\n");
	check("{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"a\":{}},"
	    "\"required\":[\"a\"],\"additionalProperties\":false},{\"type\":"
	    "\"object\",\"properties\":{\"b\":{}},\"required\":[\"b\"],"
	    "\"additionalProperties\":false}]}", "{\"a\":1}\n{\"b\":1}\nNO\n{}\n");
	check("{\"allOf\":[{\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":true}},"
	    "{\"properties\":{\"a\":{\"minimum\":5}},\"required\":[\"a\"]}]}",
	    "{\"a\":5}\n{\"a\":17,\"b\":null}\nNO\n{\"a\":4}\n{}\n");
	check("{\"allOf\":[{\"properties\":{\"a\":{}},\"additionalProperties\":false},"
	    "{\"properties\":{\"b\":{}}}]}", "{}\n{\"a\":1}\nNO\n{\"b\":1}\n");
	check("{\"allOf\":[{\"type\":[\"string\",\"integer\"]},{\"type\":[\"number\","
	    "\"null\"]}]}", "1\nNO\n1.5\nnull\n\"a\"\n");
	check(NODE "{\"$ref\":\"#/$defs/n\"}},\"required\":[\"v\"]}},"
	    "\"$ref\":\"#/$defs/n\"}", "{\"v\":1}\n"
	    "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}\nNO\n{}\n"
	    "{\"v\":1,\"next\":{}}\n");
	check(NODE "{\"anyOf\":[{\"$ref\":\"#/$defs/n\"},{\"type\":\"null\"}]}},"
	    "\"required\":[\"v\",\"next\"]}},\"$ref\":\"#/$defs/n\"}",
	    "{\"v\":1,\"next\":null}\n{\"v\":1,\"next\":{\"v\":2,\"next\":null}}\n"
	    "NO\n{\"v\":1}\n");
	check("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}", "[]\n[[],[[]]]\nNO\n"
	    "[1]\n");
	check("{\"definitions\":{\"a/b\":{\"const\":1}},\"properties\":{\"x\":"
	    "{\"$ref\":\"#/definitions/a~1%62\",\"description\":\"y\"}}}",
	    "{}\n{\"x\":1}\nNO\n{\"x\":2}\n");
	/* an optional member that would never end is left out */
	check(NODE "{\"$ref\":\"#/$defs/m\"}}},\"m\":{\"items\":{\"$ref\":\"#/$defs/m\"},"
	    "\"minItems\":1}},\"$ref\":\"#/$defs/n\"}", "{}\n{\"v\":1}\nNO\n"
	    "{\"next\":[[]]}\n");
	check("{\"title\":\"t\",\"description\":\"d\",\"default\":1,\"examples\":[],"
	    "\"$schema\":\"s\",\"$id\":\"i\",\"$comment\":\"c\",\"x-y\":1,"
	    "\"readOnly\":true,\"deprecated\":false,\"const\":1}", "1\nNO\n2\n");
}

static void
test_refused(void)
{
	refuse("", "not JSON");
	refuse("{\"type\":\"string\"", "not JSON, line 1");
	refuse("[]", "not a schema");
	refuse("1", "not a schema");
	refuse("false", "no text fits");
	refuse("{\"type\":\"strin\"}", "#/type: strin is not a type");
	refuse("{\"type\":[]}", "no text fits");
	refuse("{\"requird\":[]}", "requird is not known");
	refuse("{\"type\":\"string\",\"type\":\"null\"}", "type is there twice");
	refuse("{\"properties\":{\"a\":{\"not\":{}}}}",
	    "#/properties/a: not is not supported");
	refuse("{\"if\":true,\"then\":false}", "if is not supported");
	refuse("{\"uniqueItems\":true}", "uniqueItems is not supported");
	refuse("{\"contains\":{},\"items\":true}", "contains is not supported");
	refuse("{\"type\":\"object\",\"dependentRequired\":{}}",
	    "dependentRequired is not supported");
	refuse("{\"type\":\"number\",\"multipleOf\":0.01}", "multipleOf");
	refuse("{\"format\":\"regex\"}", "the format regex");
	refuse("{\"properties\":{\"a\":{}},\"patternProperties\":{\"b\":{}}}",
	    "patternProperties");
	refuse("{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\"}]}",
	    "may fit both 0 and 1");
	refuse("{\"oneOf\":[{\"properties\":{\"k\":{\"const\":1}}},{\"properties\":"
	    "{\"k\":{\"const\":2}}}]}", "may fit both");
	refuse("{\"enum\":[]}", "#/enum: not a list");
	refuse("{\"enum\":[\"a\"],\"pattern\":\"a\"}", "pattern beside const");
	refuse("{\"required\":true}", "required is not a list");
	refuse("{\"properties\":{\"a\":{},\"a\":{}}}", "a is there twice");
	refuse("{\"items\":1}", "#/items: not a schema");
	refuse("{\"anyOf\":[]}", "#/anyOf: not a list");
	refuse("{\"minLength\":-1}", "#/minLength: -1");
	refuse("{\"minLength\":1.5}", "1.5 is not a whole");
	refuse("{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", "no text");
	refuse("{\"minimum\":2,\"maximum\":1}", "no text fits");
	refuse("{\"minimum\":\"a\"}", "not a number");
	refuse("{\"minimum\":1e999}", "too many digits");
	refuse("{\"maxItems\":1000000000}", "more than 100000");
	refuse("{\"maxLength\":1000000000000000000000}", "too large");
	refuse("{\"pattern\":\"a(\"}", "character 3: a group is not closed");
	refuse("{\"pattern\":\"a)\"}", "nothing opens");
	refuse("{\"pattern\":\"(?=a)\"}", "looking ahead");
	refuse("{\"pattern\":\"\\\\bword\"}", "this escape");
	refuse("{\"pattern\":\"(a)\\\\1\"}", "this escape");
	refuse("{\"pattern\":\"\\\\p{L}\"}", "this escape");
	refuse("{\"pattern\":\"a^b\"}", "an anchor");
	refuse("{\"pattern\":\"a$b\"}", "an anchor");
	refuse("{\"pattern\":\"(^a$)\"}", "an anchor");
	refuse("{\"pattern\":\"*a\"}", "nothing to repeat");
	refuse("{\"pattern\":\"[b-a]\"}", "before it begins");
	refuse("{\"pattern\":\"[a\"}", "not closed");
	refuse("{\"pattern\":\"a{99999}\"}", "too large");
	refuse("{\"pattern\":\"a\\\\\"}", "at the end");
	refuse("{\"pattern\":\"^a*b*$\",\"maxLength\":3}", "in the pattern");
	refuse("{\"pattern\":\"((a{1000}){1000}){1000}\"}", "nodes");
	refuse("{\"$ref\":\"#/$defs/x\"}", "there is no #/$defs/x");
	refuse("{\"$ref\":\"http://a.b/c\"}", "within the schema");
	refuse("{\"$ref\":\"#\"}", "refers to itself");
	refuse("{\"anyOf\":[{\"$ref\":\"#\"},{\"type\":\"null\"}]}",
	    "refers to itself");
	refuse("{\"$defs\":{\"a\":{\"$ref\":\"#/$defs/b\"},\"b\":{\"allOf\":[{\"$ref\":"
	    "\"#/$defs/a\"}]}},\"$ref\":\"#/$defs/a\"}", "refers to itself");
	refuse("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},"
	    "\"required\":[\"a\"]}", "none that ends");
	refuse("{\"items\":{\"$ref\":\"#\"},\"minItems\":1}", "none that ends");
}

/* Each of these is refused, or made, at once. */
static void
hostile(const char *begin, const char *each, const char *end, size_t n,
    const char *why)
{
	size_t cap = strlen(begin) + strlen(end) + n * (strlen(each) + 12) + 1;
	char *text = malloc(cap);
	struct qwen_grammar *g;
	struct qwen_err err = { 0 };
	size_t len, i;
	int rc;

	if (text == NULL)
		abort();
	len = (size_t)snprintf(text, cap, "%s", begin);
	for (i = 0; i < n; i++) {
		/* what is written has a %zu or not */
		const char *mark = strchr(each, '@');
		int head = mark ? (int)(mark - each) : (int)strlen(each);

		len += (size_t)snprintf(text + len, cap - len, "%.*s", head,
		    each);
		if (mark != NULL)
			len += (size_t)snprintf(text + len, cap - len, "%zu%s",
			    i, mark + 1);
	}
	len += (size_t)snprintf(text + len, cap - len, "%s", end);
	rc = qwen_grammar_open_schema(&g, text, len, &err);
	ok(why[0] == '\0' ? rc == 0 : rc < 0 && strstr(err.msg, why) != NULL,
	    "%zu times %s: %s", n, each, rc == 0 ? "done" : err.msg);
	qwen_grammar_close(g);
	free(text);
}

static void
test_hostile(void)
{
	hostile("", "{\"items\":", "", 100000, "nested more than");
	hostile("{\"const\":", "[", "", 500000, "nested more than");
	hostile("{\"enum\":[", "@,", "0]}", 20000, "");
	hostile("{\"enum\":[", "\"abcdefghijklmnopqrst@\",", "0]}", 30000, "bytes");
	hostile("{\"allOf\":[", "{\"enum\":[1]},", "true]}", 20000, "more than");
	hostile("{\"anyOf\":[", "{\"const\":@},", "true]}", 20000, "");
	hostile("{\"oneOf\":[", "{\"const\":@},", "false]}", 10000, "alternatives");
	hostile("{\"allOf\":[", "{\"anyOf\":[{\"minimum\":@},{\"maximum\":9}]},",
	    "{}]}", 40, "more than");
	hostile("{\"allOf\":[", "{\"anyOf\":[{\"minimum\":@},true]},", "{}]}", 22,
	    "alternatives");
	hostile("{\"properties\":{", "\"a@\":{\"type\":\"string\"},",
	    "\"b\":{\"type\":\"object\"}}}", 900, "");
	hostile("{\"properties\":{", "\"a@\":{},", "\"b\":{}}}", 50000,
	    "more than 1000 members");
	hostile("{\"required\":[", "\"a@\",", "\"b\"]}", 50000,
	    "more than 1000 members");
	hostile("{\"prefixItems\":[", "{},", "{}]}", 50000, "by place");
	hostile("{\"pattern\":\"", "(", "\"}", 50000, "too deeply");
	hostile("{\"pattern\":\"", "(a|b)*", "\"}", 5000, "");
	hostile("{\"pattern\":\"[", "\\\\u@000", "]\"}", 5000, "");
	hostile("{\"pattern\":\"", "a|", "b\"}", 50000, "bytes");
	hostile("{\"properties\":{\"", "longname", "\":{}},"
	    "\"additionalProperties\":true}", 100, "too long");
	hostile("{\"$defs\":{", "\"d@\":{\"items\":{\"$ref\":\"#/$defs/d0\"}},",
	    "\"e\":{}},\"$ref\":\"#/$defs/d7\"}", 10000, "");
	hostile("{\"items\":{\"anyOf\":[", "{\"items\":{\"const\":@}},", "{}]}}",
	    5000, "");
	hostile("{\"title\":\"", "x", "\"}", 1100000, "more than 1048576 bytes");
	hostile("{\"minimum\":", "1", "}", 1000, "too many digits");
	hostile("{\"type\":[", "\"null\",", "\"null\"]}", 50000, "");
	hostile("{\"type\":\"array\",\"items\":{\"type\":\"array\",\"minItems\":"
	    "100000,\"items\":{", "\"x-@\":1,", "\"minLength\":100000}}}", 1000,
	    "nodes");
}

/* ------------------------------------------------------- texts at random */

static uint64_t rng;

static uint32_t
rnd(void)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rng >> 33);
}

static int
allows(const uint64_t *mask, int c)
{
	return mask[c / 64] >> (c % 64) & 1;
}

/*
 * A byte: what closes, sooner or later, for else a text would be mostly one
 * string; or any, all kinds of them alike.
 */
static int
choose(const uint64_t *mask, size_t n)
{
	static const char close[] = "]}\"";
	int from, i, k, c;

	for (k = 0; k < 3 && (rnd() % 8 == 0 || n > 200); k++) {
		if (allows(mask, close[k]))
			return close[k];
	}
	from = (int)(rnd() % N);
	if (rnd() % 4)
		from = "a0,\"\\zZ-.t"[rnd() % 10];
	for (i = 0; i < N; i++) {
		c = (from + i) % N;
		if (allows(mask, c))
			return c;
	}
	return -1;
}

static int
generate(const char *schema, size_t len, uint64_t seed, int count)
{
	static char text[20000];
	struct qwen_grammar *g;
	struct qwen_match *m = match_of(schema, len, &g);
	const uint64_t *mask;
	struct qwen_err err;
	size_t n;
	int c;
	char byte;

	if (m == NULL)
		return 1;
	rng = seed;
	for (; count > 0; count--) {
		if (qwen_match_begin(m, &err) < 0)
			return 2;
		for (n = 0; n + 1 < sizeof text; n++) {
			if ((mask = qwen_match_mask(m, &err)) == NULL)
				return 2;
			c = choose(mask, n);
			if (c < 0 || (qwen_match_may_end(m) && rnd() % 4 == 0))
				break;
			byte = text[n] = (char)c;
			if (qwen_match_feed(m, &byte, 1, &err) != 1)
				return 2;
		}
		text[n] = '\0';
		if (n + 1 < sizeof text)
			printf("%s\n", text);
	}
	qwen_match_free(m);
	qwen_grammar_close(g);
	return 0;
}

static int
tool(int argc, char *argv[])
{
	static char text[1 << 20];
	size_t n = fread(text, 1, sizeof text, stdin), n_out;
	struct qwen_err err;
	char *out;

	if (argc == 4 && strcmp(argv[1], "-g") == 0)
		return generate(text, n, strtoull(argv[2], NULL, 10),
		    atoi(argv[3]));
	if (qwen_schema_grammar(&out, &n_out, text, n, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	fwrite(out, 1, n_out, stdout);
	free(out);
	return 0;
}

int
main(int argc, char *argv[])
{
	struct qwen_err err;
	int rc;

	make_pieces();
	if (qwen_trie_new(&trie, &pieces, &err) < 0)
		return 1;
	if (argc > 1)
		rc = tool(argc, argv);
	else {
		test_scalars();
		test_strings();
		test_numbers();
		test_arrays();
		test_objects();
		test_together();
		test_refused();
		test_hostile();
		rc = done_testing();
	}
	qwen_trie_free(trie);
	return rc;
}
