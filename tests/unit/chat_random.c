/* SPDX-License-Identifier: ISC */
/*
 * chat_random.c - random requests and replies made of meaningful parts: marked
 * words in them are never lost, nothing crashes, and requests make no control
 * tokens.  10,000 of each, 100,000 in make check-long; $SEED chooses others.
 */
#include <inttypes.h>

#include "text/chat/chat.h"
#include "../tap.h"
#include "tok_util.h"
#include <yyjson.h>

/* Pieces of text; a marked word is put between some of them. */
static const char *const piece[] = {
	"<think>", "</think>", "<tool_call>", "</tool_call>",
	"<tool_response>", "</tool_response>", "<|im_start|>", "<|im_end|>",
	"<|endoftext|>", "<function=f>", "<function=", "</function>",
	"<parameter=a>", "<parameter=n>", "</parameter>", "<parameter=",
	"{\"name\": \"f\", \"arguments\": {}}", "{\"name\": \"f\"", "{", "}",
	"\"", "\\", "\n", "\n\n", " ", "\t", "<", ">", "</", "<|", "|>",
	"{{ 1 }}", "{% raw %}", "caf\xc3\xa9", "\xe4\xb8\xad", "\xe2\x80\xa8",
	"\xf0\x9f\x98\x80", "1e400", "-0", "null", "True", "a", "b c", "=",
	"\n<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n"
	"</function>\n</tool_call>",
	"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, \"}\"]}}\n"
	"</tool_call>",
	"{{", "}}", "[", "]", ",", "\r\n", "```json\n", "\n```", "  </parameter>\n",
	"\n</parameter>\n</function>", "<function=f>\n<parameter=n>\n['x', None]",
	"{\"name\": \"f\", \"parameters\": {\"a\": \"x\ny\"}}",
	"\n  <parameter=a>\n    x\n  </parameter>\n", "\n</tool_call>\n<tool_call>",
};

enum { N_PIECE = sizeof piece / sizeof *piece };

/* Some pieces with marked words from number *mark on. */
static void
random_text(struct bytes *b, uint64_t *seed, int *mark)
{
	size_t n = rnd(seed) % 12;
	char word[32];

	while (n-- > 0) {
		if (rnd(seed) % 3 == 0) {
			snprintf(word, sizeof word, "mark%dx", (*mark)++);
			add_bytes(b, word, strlen(word));
		}
		const char *s = piece[rnd(seed) % N_PIECE];

		add_bytes(b, s, strlen(s));
	}
}

/* Are the marked words there that are not left out? */
static int
all_there(const char *s, size_t n, int from, int to)
{
	char word[32], *copy = malloc(n + 1);
	int i, there = 1;

	memcpy(copy, s, n);
	copy[n] = '\0';
	for (i = from; i < to && there; i++) {
		snprintf(word, sizeof word, "mark%dx", i);
		there = strstr(copy, word) != NULL;
	}
	free(copy);
	return there;
}

/* ---------------------------------------------------------------- replies */

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": "
    "{\"properties\": {\"a\": {\"type\": \"string\"}, \"n\": {\"type\": "
    "[\"number\", \"object\"]}}}}}]";

static char *
parse(const struct qwen_template *t, struct qwen_reply_opts *o,
    const struct bytes *b, size_t part, int cut, size_t *n)
{
	struct qwen_reply *r;
	char *json;
	size_t i;

	if (qwen_reply_new(&r, t, o, NULL) < 0)
		exit(1);
	for (i = 0; i < b->n; i += part)
		qwen_reply_feed(r, b->p + i, part < b->n - i ? part :
		    b->n - i, NULL);
	if ((cut ? qwen_reply_cut(r, NULL) : qwen_reply_finish(r, NULL)) < 0 ||
	    qwen_reply_message(r, &json, n, NULL) < 0)
		exit(1);
	qwen_reply_free(r);
	return json;
}

static int
one_reply(const struct qwen_template *t, uint64_t *seed)
{
	struct qwen_reply_opts o = {
		.thinking = (enum qwen_thinking)(rnd(seed) % 3),
		.tools = rnd(seed) % 4 ? tools : NULL,
		.n_tools = sizeof tools - 1,
		.strict = rnd(seed) % 4 == 0,
	};
	int cut = rnd(seed) % 4 == 0;
	struct bytes b = { NULL, 0, 0 };
	char *json, *again;
	size_t n, k;
	int mark = 0, good;

	random_text(&b, seed, &mark);
	json = parse(t, &o, &b, b.n + 1, cut, &n);
	again = parse(t, &o, &b, 1 + rnd(seed) % 5, cut, &k);
	good = strcmp(json, again) == 0 && all_there(json, n, 0, mark);
	if (!good)
		fprintf(stderr, "-- thinking %d, tools %d, strict %d, cut %d\n"
		    "%.*s\n%s\n%s\n", o.thinking, o.tools != NULL, o.strict,
		    cut, (int)b.n, b.p, json, again);
	free(json);
	free(again);
	free(b.p);
	return good;
}

/* ---------------------------------------------------------------- requests */

static void
add_string(yyjson_mut_doc *doc, yyjson_mut_val *obj, const char *key,
    uint64_t *seed, int *mark)
{
	struct bytes b = { NULL, 0, 0 };

	random_text(&b, seed, mark);
	add_bytes(&b, "", 1);
	yyjson_mut_obj_add_strcpy(doc, obj, key, (char *)b.p);
	free(b.p);
}

static void
add_message(yyjson_mut_doc *doc, yyjson_mut_val *list, const char *role,
    uint64_t *seed, int *mark)
{
	yyjson_mut_val *m = yyjson_mut_arr_add_obj(doc, list), *call;
	int lost = 0;

	yyjson_mut_obj_add_str(doc, m, "role", role);
	if (strcmp(role, "assistant") != 0) {
		add_string(doc, m, "content", seed, mark);
		return;
	}
	/* Thoughts of old turns are dropped: their words do not count. */
	add_string(doc, m, "content", seed, &lost);
	if (rnd(seed) % 2)
		add_string(doc, m, "reasoning", seed, &lost);
	if (rnd(seed) % 2)
		return;
	call = yyjson_mut_arr_add_obj(doc,
	    yyjson_mut_obj_add_arr(doc, m, "tool_calls"));
	add_string(doc, call, "name", seed, mark);
	call = yyjson_mut_obj_add_obj(doc, call, "arguments");
	add_string(doc, call, "a", seed, mark);
	yyjson_mut_obj_add_val(doc, call, "n",
	    yyjson_mut_raw(doc, "12345678901234567890"));
}

static char *
random_request(uint64_t *seed, int *mark, size_t *n)
{
	static const char *const role[] = { "user", "assistant", "tool" };
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *list;
	size_t i, turns = rnd(seed) % 5;
	char *json;

	yyjson_mut_doc_set_root(doc, root);
	list = yyjson_mut_obj_add_arr(doc, root, "messages");
	if (rnd(seed) % 2)
		add_message(doc, list, "system", seed, mark);
	add_message(doc, list, "user", seed, mark);
	for (i = 0; i < turns; i++)
		add_message(doc, list, role[rnd(seed) % 3], seed, mark);
	if (rnd(seed) % 2) {
		list = yyjson_mut_arr_add_obj(doc,
		    yyjson_mut_obj_add_arr(doc, root, "tools"));
		add_string(doc, list, "name", seed, mark);
		add_string(doc, list, "description", seed, mark);
	}
	if (rnd(seed) % 2)
		yyjson_mut_obj_add_bool(doc, root, "enable_thinking",
		    rnd(seed) % 2);
	json = yyjson_mut_write(doc, 0, n);
	yyjson_mut_doc_free(doc);
	return json;
}

/* Each <|im_...|> in the text is all the template's, or not at all. */
static int
own_or_not(const struct qwen_prompt *p)
{
	const unsigned char *own = qwen_prompt_own(p);
	struct qwen_str s = qwen_prompt_text(p);
	size_t at, n = 0, i;

	for (at = 0; (at = qwen_prompt_turn(p, at)) < s.len; at++) {
		n++;
		for (i = 0; i < 12; i++) {
			if (!own[at + i])
				return 0;
		}
	}
	return n > 0;
}

/* 1 right, 0 wrong, and whether it was refused. */
static int
one_request(const struct qwen_template *t, uint64_t *seed, int *refused)
{
	struct qwen_err err = { 0 };
	struct qwen_prompt *p;
	struct qwen_str s;
	size_t n;
	int mark = 0, good;
	char *json = random_request(seed, &mark, &n);

	if (qwen_template_render(t, json, n, &p, &err) < 0) {
		*refused += 1;
		good = strstr(err.msg, "No user query found") != NULL;
	} else {
		s = qwen_prompt_text(p);
		good = all_there(s.s, s.len, 0, mark) && own_or_not(p);
		qwen_prompt_free(p);
	}
	if (!good)
		fprintf(stderr, "%s\n%s\n", json, err.msg);
	free(json);
	return good;
}

int
main(void)
{
	const char *s = getenv("SEED");
	uint64_t seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	int rounds = getenv("QPIPE_LONG") != NULL ? 20000 : 2000, i, bad, refused;
	struct qwen_template *t;
	size_t k;

	for (k = 0; qwen_template_name(k) != NULL; k++) {
		if (qwen_template_open(&t, qwen_template_name(k), NULL) < 0)
			exit(1);
		for (i = bad = 0; i < rounds; i++)
			bad += !one_reply(t, &seed);
		ok(bad == 0, "%s: %d replies, %d wrong",
		    qwen_template_name(k), rounds, bad);
		for (i = bad = refused = 0; i < rounds; i++)
			bad += !one_request(t, &seed, &refused);
		ok(bad == 0 && refused < rounds, "%s: %d requests, %d "
		    "refused, %d wrong", qwen_template_name(k), rounds,
		    refused, bad);
		qwen_template_close(t);
	}
	return done_testing();
}
