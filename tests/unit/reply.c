/* SPDX-License-Identifier: ISC */
/*
 * reply.c - truncated replies, and replies made to take long.  Wherever a reply
 * is cut and however it is divided, its calls are the first calls of the whole
 * reply, with the same arguments; a partial call has the name of a tool and the
 * beginning of its arguments.  A megabyte of text that looks like calls takes
 * no more time than other text.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tap.h"
#include "base/text.h"
#include "text/chat/reply.h"
#include "text/chat/tools.h"

static const char tools[] = "[{\"type\":\"function\",\"function\":{\"name\":"
    "\"write\",\"parameters\":{\"type\":\"object\",\"properties\":{\"path\":{"
    "\"type\":\"string\"},\"text\":{\"type\":\"string\"},\"n\":{\"type\":"
    "\"integer\"},\"tags\":{\"type\":\"array\"}},\"required\":[\"path\"]}}},"
    "{\"name\":\"now\"}]";

/* What the events were: names and arguments, each call in a line of its own. */
struct heard {
	struct qwen_text calls, part, text;
	int		n_calls, n_parts;
};

static int
hear(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct heard *h = arg;
	struct qwen_text *t = e->kind != QWEN_REPLY_CALL ? &h->text :
	    e->cut ? &h->part : &h->calls;

	(void)err;
	if (e->kind == QWEN_REPLY_CALL) {
		*(e->cut ? &h->n_parts : &h->n_calls) += 1;
		qwen_text_add(t, e->name.s, e->name.len);
		qwen_text_str(t, " ");
	}
	qwen_text_add(t, e->text.s, e->text.len);
	if (e->kind == QWEN_REPLY_CALL)
		qwen_text_str(t, "\n");
	return 0;
}

static void
forget(struct heard *h)
{
	qwen_text_fini(&h->calls);
	qwen_text_fini(&h->part);
	qwen_text_fini(&h->text);
	memset(h, 0, sizeof *h);
}

static const char *
of(const struct qwen_text *t)
{
	return t->n > 0 ? t->s : "";
}

/* n bytes of a reply, in pieces. */
static void
run(struct heard *h, const char *name, enum qwen_thinking thinking,
    const char *s, size_t n, size_t piece, int cut)
{
	struct qwen_reply_opts o = { .thinking = thinking, .tools = tools,
	    .n_tools = sizeof tools - 1, .event = hear, .arg = h };
	struct qwen_template *t;
	struct qwen_reply *r;
	size_t i;

	memset(h, 0, sizeof *h);
	if (qwen_template_open(&t, name, NULL) < 0 ||
	    qwen_reply_new(&r, t, &o, NULL) < 0)
		abort();
	for (i = 0; i < n; i += piece) {
		if (qwen_reply_feed(r, s + i, piece < n - i ? piece : n - i,
		    NULL) < 0)
			abort();
	}
	if ((cut ? qwen_reply_cut(r, NULL) : qwen_reply_finish(r, NULL)) < 0)
		abort();
	qwen_reply_free(r);
	qwen_template_close(t);
}

/* ------------------------------------------------------------------- parts */

#define PATH "<parameter=path>\na.py\n</parameter>\n"

static const struct {
	const char		*template;
	enum qwen_thinking	 thinking;
	const char		*reply;
	int			 n_calls;
	int			 parts;	/* a call that is cut off has one */
} replies[] = {
	{ "qwen3", QWEN_THINKING_NONE, "<think>\nhm\n</think>\n\nSo:\n"
	    "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"path\": "
	    "\"a \\\"b\\\"\", \"n\": 12, \"tags\": [1, {\"x\": null}]}}\n"
	    "</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}"
	    "\n</tool_call>", 2, 1 },
	{ "qwen3", QWEN_THINKING_NONE, "<tool_call>\n[{\"name\": \"now\", "
	    "\"arguments\": {}}, {\"name\": \"write\", \"parameters\": {"
	    "\"path\": \"x\ny\"}}]\n</tool_call>", 2, 0 },
	{ "qwen3", QWEN_THINKING_NONE, "<tool_call>\n{{\"name\": \"write\", "
	    "\"arguments\": {{\"path\": \"a\", \"text\": \"b\tc\"}}}}\n"
	    "{\"name\": \"write\", \"arguments\": \"{\\\"path\\\": 1}\"}\n"
	    "</tool_call>", 2, 1 },
	{ "qwen3", QWEN_THINKING_NONE, "```json\n{\"name\": \"write\", "
	    "\"arguments\": {\"path\": \"a\"}}\n```\n", 1, 0 },
	{ "qwen3.6", QWEN_THINKING_OPEN, "hm\n</think>\n\nSo:\n\n<tool_call>\n"
	    "<function=write>\n" PATH "<parameter=text>\nx </parameter> y\n"
	    "</function> z\n</parameter>\n<parameter=n>\n12\n</parameter>\n"
	    "<parameter=tags>\n['a', None]\n</parameter>\n</function>\n"
	    "</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
	    "</tool_call>", 2, 1 },
	{ "qwen3.6", QWEN_THINKING_CLOSED, "<tool_call>\n<function=write>\n"
	    "<parameter=path>\na.py\n<parameter=text>\n\"x\"\ny\n</parameter>\n"
	    "</function>\n<function=now></function>\n</tool_call>", 2, 1 },
	{ "qwen3.6", QWEN_THINKING_CLOSED, "<tool_call>\n<function=write>\n"
	    "<parameter=path>a.py\n<parameter=text>x\n</function>\n"
	    "</tool_call>\n<tool_call>\n<function=now>\n</tool_call>\n", 2, 1 },
	{ "qwen3.6", QWEN_THINKING_CLOSED, "<tool_call>\n  <function=write>\n"
	    "    <parameter=path>\n      a.py\n    </parameter>\n"
	    "    <parameter=text>\n      if x:\n          y\n    </parameter>\n"
	    "  </function>\n</tool_call>\n", 1, 1 },
	{ "qwen3.6", QWEN_THINKING_OPEN, "<tool_call>\n<function=write>\n" PATH
	    "</function>\n</tool_call>\nno.\n</think>\n\nDone.", 0, 0 },
	{ "qwen3-coder", QWEN_THINKING_NONE, "So:\n<function=write>\n" PATH
	    "</function>\n<function=now>\n</function>\n</tool_call>", 2, 1 },
};

/* The part of a call has the name of a tool; its arguments are to be JSON. */
static int
part_is_good(const char *part)
{
	struct qwen_text closed = { 0 };
	yyjson_doc *d = NULL;
	const char *args = part + strcspn(part, " ");
	size_t n = strlen(args) - 2;	/* a blank, a line feed */
	int good = strncmp(part, "write ", 6) == 0 ||
	    strncmp(part, "now ", 4) == 0;

	if (n > 0) {
		qwen_chat_close_json(&closed, args + 1, n);
		d = yyjson_read(of(&closed), closed.n,
		    YYJSON_READ_NUMBER_AS_RAW);
		good = good && yyjson_is_obj(yyjson_doc_get_root(d));
		yyjson_doc_free(d);
		qwen_text_fini(&closed);
	}
	return good;
}

static void
test_cuts(void)
{
	struct heard all, a, b;
	size_t i, n, len;
	int bad, parts;

	for (i = 0; i < sizeof replies / sizeof *replies; i++) {
		len = strlen(replies[i].reply);
		run(&all, replies[i].template, replies[i].thinking,
		    replies[i].reply, len, len, 0);
		for (n = 0, bad = parts = 0; n <= len; n++) {
			run(&a, replies[i].template, replies[i].thinking,
			    replies[i].reply, n, n + 1, 1);
			run(&b, replies[i].template, replies[i].thinking,
			    replies[i].reply, n, 1, 1);
			parts += a.n_parts;
			if (strcmp(of(&a.calls), of(&b.calls)) != 0 ||
			    strcmp(of(&a.part), of(&b.part)) != 0 ||
			    strcmp(of(&a.text), of(&b.text)) != 0 ||
			    strncmp(of(&all.calls), of(&a.calls),
			    a.calls.n) != 0 || a.n_parts > 1 ||
			    (a.n_parts > 0 && !part_is_good(of(&a.part)))) {
				printf("# cut at %zu: %s# part %s# or %s",
				    n, of(&a.calls), of(&a.part),
				    of(&b.part));
				bad++;
			}
			forget(&a);
			forget(&b);
		}
		ok(bad == 0 && all.n_calls == replies[i].n_calls &&
		    (parts > 0) == replies[i].parts, "reply %zu, %s: %d calls, cut at %zu "
		    "bytes, %d parts, %d wrong", i, replies[i].template,
		    all.n_calls, len + 1, parts, bad);
		forget(&all);
	}
}

/* Parts as the interfaces have them: the text of the arguments so far. */
static void
test_parts(void)
{
	static const struct {
		const char *template, *reply, *part;
	} row[] = {
		{ "qwen3", "<tool_call>\n{\"name\": \"write\"", "write \n" },
		{ "qwen3", "<tool_call>\n{\"name\": \"writ", "" },
		{ "qwen3", "<tool_call>\n{\"name\": \"erase\", \"arguments\": {",
		    "" },
		{ "qwen3", "<tool_call>\n{\"arguments\": {\"path\": 1}, \"nam",
		    "" },
		{ "qwen3", "<tool_call>\n{\"name\": \"write\", \"arguments\": "
		    "{\"path\": \"a", "write {\"path\":\"a\n" },
		{ "qwen3", "<tool_call>\n{\"name\": \"write\", \"arguments\": "
		    "{\"path\": \"a\"}", "write {\"path\":\"a\"}\n" },
		{ "qwen3", "<tool_call>\n{{\"name\": \"write\", \"arguments\": "
		    "{{\"path\": \"a\nb\\", "write {\"path\":\"a\\u000ab\n" },
		{ "qwen3", "<tool_call>\n{\"name\": \"write\", \"arguments\": "
		    "\"{\\\"pa", "" },
		{ "qwen3.6", "<tool_call>\n<function=write", "" },
		{ "qwen3.6", "<tool_call>\n<function=erase>\n", "" },
		{ "qwen3.6", "<tool_call>\n<function=write>\n<para",
		    "write {\n" },
		{ "qwen3.6", "<tool_call>\n<function=write>\n" PATH
		    "<parameter=text>\nx = \"1\"\ny\n</parame",
		    "write {\"path\":\"a.py\",\"text\":\"x = \\\"1\\\"\\ny\n" },
		{ "qwen3.6", "<tool_call>\n<function=write>\n" PATH
		    "<parameter=n>\n12", "write {\"path\":\"a.py\"\n" },
		{ "qwen3.6", "{\"name\": \"write\", \"arguments\": {\"path\"",
		    "" },
	};
	struct heard h;
	size_t i;

	for (i = 0; i < sizeof row / sizeof *row; i++) {
		run(&h, row[i].template, QWEN_THINKING_CLOSED, row[i].reply,
		    strlen(row[i].reply), 3, 1);
		ok(strcmp(of(&h.part), row[i].part) == 0 && h.n_calls == 0,
		    "part %zu: %.*s", i, (int)(h.part.n - (h.part.n > 0)),
		    of(&h.part));
		forget(&h);
	}
}

/* A call that is cut off before its name ends is nothing that users see. */
static void
test_nameless(void)
{
	static const struct {
		const char *reply, *text;
	} row[] = {
		{ "So:\n<tool_call>", "So:" },
		{ "So:\n\n<tool_call>\n", "So:" },
		{ "<tool_call>\n{\"na", "" },
		{ "<tool_call>\n{\"name\": \"wri", "" },
		{ "<tool_call>\n{{\"name\":", "" },
		{ "<tool_call>\n<func", "" },
		{ "<tool_call>\n<function=wri", "" },
		{ "<tool_call>\n<function=now></function>\n</tool_call>\n"
		    "<tool_call>\n<fu", "" },
		{ "<tool_call> is a tag", "<tool_call> is a tag" },
		{ "<tool_call>\n{\"other", "<tool_call>\n{\"other" },
		{ "<tool_call>\n<function=erase>", "<tool_call>\n"
		    "<function=erase>" },
	};
	struct heard h;
	size_t i;

	for (i = 0; i < sizeof row / sizeof *row; i++) {
		run(&h, "qwen3.6", QWEN_THINKING_CLOSED, row[i].reply,
		    strlen(row[i].reply), 3, 1);
		ok(strcmp(of(&h.text), row[i].text) == 0 && h.n_parts == 0,
		    "cut off: %s", row[i].reply + strlen(row[i].reply) / 2);
		forget(&h);
	}
}

/*
 * As the library jiter reads it with partial_mode, with which Anthropic's client
 * does that; but a number that more digits may follow is left out.
 */
static void
test_close(void)
{
	static const char *const row[][2] = {
		{ "{\"a\": \"x", "{}" }, { "{", "{}" }, { "", "" },
		{ "{\"a\": {\"b\": 1, \"c\": [1, 2, ",
		    "{\"a\": {\"b\": 1, \"c\": [1, 2]}}" },
		{ "{\"a\": 1, \"b", "{\"a\": 1}" }, { "{\"a\":1,", "{\"a\":1}" },
		{ "{\"a\": tr", "{}" }, { "{\"a\": {\"b\"", "{\"a\": {}}" },
		{ "{\"a\": \"x\", \"b\": \"", "{\"a\": \"x\"}" },
		{ "[1, \"x", "[1]" }, { "{\"a\": \"}\\\"", "{}" },
		{ "{\"a\": 12", "{}" }, { "{\"a\": []", "{\"a\": []}" },
	};
	struct qwen_text t = { 0 };
	size_t i;

	for (i = 0; i < sizeof row / sizeof *row; i++) {
		t.n = 0;
		qwen_chat_close_json(&t, row[i][0], strlen(row[i][0]));
		ok(strcmp(of(&t), row[i][1]) == 0, "%s: %s", row[i][0],
		    of(&t));
	}
	qwen_text_fini(&t);
}

/* ---------------------------------------------------------- unknown names */

/* What is put right has the name of a tool, whatever the way is. */
static void
test_names(void)
{
	static const char *const reply[] = {
		"{\"name\": \"erase\", \"arguments\": {}}",
		"```json\n{\"name\": \"erase\", \"arguments\": {}}\n```",
		"{{\"name\": \"erase\", \"arguments\": {}}}",
		"<tool_call>\n{\"name\": \"erase\", \"parameters\": {}}\n"
		    "</tool_call>",
		"<tool_call>\n{\"name\": \"erase\"}\n</tool_call>",
		"<tool_call>\n[{\"name\": \"erase\", \"arguments\": {}}]\n"
		    "</tool_call>",
		"<function=erase>\n</function>",
		"<tool_call>\n<function=erase>\n<parameter=path>\na\n"
		    "</function>\n</tool_call>",
		"<tool_call>\n<function=erase>\n</tool_call>",
	};
	static const char *const template[] = { "qwen3", "qwen3.6",
	    "qwen3-coder" };
	struct heard h;
	size_t i, k;
	int bad = 0;

	for (i = 0; i < sizeof reply / sizeof *reply; i++) {
		for (k = 0; k < 3; k++) {
			run(&h, template[k], QWEN_THINKING_CLOSED, reply[i],
			    strlen(reply[i]), 5, 0);
			bad += h.n_calls > 0 || strstr(of(&h.text), "erase") ==
			    NULL;
			forget(&h);
		}
	}
	ok(bad == 0, "no call of a tool that is not there, and its text stays: "
	    "%d wrong", bad);
}

/* -------------------------------------------------------------------- time */

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void
test_time(void)
{
	static const char *const unit[] = {
		"<parameter=", "\n<parameter=x>", "\n<parameter=text>",
		"</parameter>", "\n</parameter>\n", "\n</parameter>          ",
		"\n</function>\n</tool_call>", "</function>", "\n<function=now>",
		"<tool_call>", "<tool_call>{\"", "<tool_call>{\"\\\"",
		"<tool_call>{\"name\": \"now\"}</tool_call>", "{", "[", "{{",
		"```json\n", "{\"name\": \"now\", \"arguments\": {}}\n", ",", " ",
		"\n", "\"", "<tool_call>\n<function=now>\n</function>\n",
		"<function=now></function>\n", "</tool_call>", "</think>", "<",
		"`", "\t<", "<parameter=n>1</parameter>\n",
	};
	static const char *const begin[] = { "", "<tool_call>\n",
	    "<tool_call>\n<function=write>\n",
	    "<tool_call>\n<function=write>\n<parameter=text>\n",
	    "<tool_call>\n{\"name\": \"write\", \"arguments\": {\"text\": \"",
	    "{\"name\": \"write\", \"arguments\": {}}", "```\n" };
	const size_t size = 1 << 20;
	struct qwen_text t = { 0 };
	struct heard h;
	double from, took, most = 0;
	size_t i, k;
	int how;

	for (i = 0; i < sizeof unit / sizeof *unit; i++) {
		for (k = 0, how = (int)i; k < sizeof begin / sizeof *begin;
		    k++, how++) {
			t.n = 0;
			qwen_text_str(&t, begin[k]);
			while (t.n < size / 4)
				qwen_text_str(&t, unit[i]);
			from = seconds();
			run(&h, how % 2 ? "qwen3.6" : "qwen3", how % 3 ?
			    QWEN_THINKING_CLOSED : QWEN_THINKING_OPEN, t.s,
			    t.n, how % 4 ? 4 : size, 0);
			took = seconds() - from;
			if (took > 2)
				printf("# %.1f s: %s%s\n", took, begin[k],
				    unit[i]);
			most = took > most ? took : most;
			forget(&h);
		}
	}
	qwen_text_fini(&t);
	ok(most < 5, "hostile replies of 256 KiB take %.2f s at most", most);
}

int
main(void)
{
	test_cuts();
	test_parts();
	test_nameless();
	test_close();
	test_names();
	test_time();
	return done_testing();
}
