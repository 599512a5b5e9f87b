/* SPDX-License-Identifier: ISC */
/*
 * chat_parse.c - replies with known messages (see chat/README), parsed at once,
 * in every listed division and byte by byte; the events add up to the message.
 */
#include "../tap.h"
#include "text/chat/chat.h"
#include "chat_util.h"

/* What the events said. */
struct heard {
	struct bytes	text[4];	/* by kind; calls: name, LF, arguments */
	int		n_calls;
};

static int
hear(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct heard *h = arg;
	struct bytes *b = &h->text[e->kind];

	(void)err;
	if (e->text.len == 0)
		abort();
	if (e->kind == QWEN_REPLY_CALL) {
		h->n_calls++;
		add_bytes(b, e->name.s, e->name.len);
		add_bytes(b, "\n", 1);
	}
	add_bytes(b, e->text.s, e->text.len);
	return 0;
}

static void
forget(struct heard *h)
{
	int i;

	for (i = 0; i < 4; i++)
		free(h->text[i].p);
	memset(h, 0, sizeof *h);
}

/* ---------------------------------------------------------------- comparing */

static int equal(yyjson_val *a, yyjson_val *b);

static int
equal_members(yyjson_val *a, yyjson_val *b)
{
	yyjson_val *key, *v;
	size_t i, n;

	yyjson_obj_foreach(a, i, n, key, v) {
		if (!equal(v, yyjson_obj_getn(b, yyjson_get_str(key),
		    yyjson_get_len(key))))
			return 0;
	}
	return yyjson_obj_size(a) == yyjson_obj_size(b);
}

/* As JSON: order of members free, 1 equals 1.0. */
static int
equal(yyjson_val *a, yyjson_val *b)
{
	size_t i, n;
	yyjson_val *v;

	if (a == NULL || b == NULL || yyjson_get_type(a) != yyjson_get_type(b))
		return 0;
	if (yyjson_is_raw(a))
		return strtod(yyjson_get_raw(a), NULL) ==
		    strtod(yyjson_get_raw(b), NULL);
	if (yyjson_is_obj(a))
		return equal_members(a, b);
	if (!yyjson_is_arr(a))
		return yyjson_equals(a, b);
	yyjson_arr_foreach(a, i, n, v) {
		if (!equal(v, yyjson_arr_get(b, i)))
			return 0;
	}
	return yyjson_arr_size(a) == yyjson_arr_size(b);
}

/* Without white space at the ends; with loose, each run of it as one space. */
static int
same_text(yyjson_val *a, yyjson_val *b, int loose)
{
	struct chat_text t[2] = { { "", 0, NULL }, { "", 0, NULL } };
	yyjson_val *v[2] = { a, b };
	size_t i, k, n[2];
	char *s[2];
	int same;

	for (k = 0; k < 2; k++) {
		if (yyjson_is_str(v[k])) {
			t[k].s = yyjson_get_str(v[k]);
			t[k].n = yyjson_get_len(v[k]);
		}
		t[k] = qwen_chat_strip(NULL, &t[k], NULL, 3);
		s[k] = malloc(t[k].n + 1);
		for (i = n[k] = 0; i < t[k].n; i++) {
			s[k][n[k]] = loose && strchr(" \n\t", t[k].s[i]) ?
			    ' ' : t[k].s[i];
			n[k] += !(s[k][n[k]] == ' ' && loose && n[k] > 0 &&
			    s[k][n[k] - 1] == ' ');
		}
	}
	same = n[0] == n[1] && memcmp(s[0], s[1], n[0]) == 0;
	free(s[0]);
	free(s[1]);
	return same;
}

static int
same_list(yyjson_val *want, yyjson_val *got)
{
	return yyjson_arr_size(want) == 0 ? yyjson_arr_size(got) == 0 :
	    equal(want, got);
}

static int
same_message(yyjson_val *c, const char *json, size_t n)
{
	yyjson_doc *doc = yyjson_read(json, n, YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *got = yyjson_doc_get_root(doc);
	yyjson_val *want = yyjson_obj_get(c, "expect");
	int same;

	same = got != NULL && same_text(yyjson_obj_get(want, "reasoning"),
	    yyjson_obj_get(got, "reasoning"), 0) &&
	    same_text(yyjson_obj_get(want, "content"),
	    yyjson_obj_get(got, "content"),
	    yyjson_get_bool(yyjson_obj_get(c, "loose"))) &&
	    same_list(yyjson_obj_get(want, "tool_calls"),
	    yyjson_obj_get(got, "tool_calls")) &&
	    same_list(yyjson_obj_get(want, "unparsed"),
	    yyjson_obj_get(got, "unparsed"));
	yyjson_doc_free(doc);
	return same;
}

static int
says(const struct bytes *b, const char *text, size_t n)
{
	return b->n == n && (n == 0 || memcmp(b->p, text, n) == 0);
}

/* The pieces are the message. */
static int
adds_up(const struct heard *h, const char *json, size_t n)
{
	yyjson_doc *doc = yyjson_read(json, n, YYJSON_READ_NUMBER_AS_RAW);
	yyjson_val *m = yyjson_doc_get_root(doc), *v;
	struct bytes lost = { NULL, 0, 0 };
	size_t i, max;
	int same;

	yyjson_arr_foreach(yyjson_obj_get(m, "unparsed"), i, max, v)
		add_bytes(&lost, yyjson_get_str(v), yyjson_get_len(v));
	same = says(&h->text[QWEN_REPLY_REASONING], chat_str(m, "reasoning"),
	    yyjson_get_len(yyjson_obj_get(m, "reasoning"))) &&
	    says(&h->text[QWEN_REPLY_CONTENT], chat_str(m, "content"),
	    yyjson_get_len(yyjson_obj_get(m, "content"))) &&
	    says(&h->text[QWEN_REPLY_UNPARSED], (char *)lost.p, lost.n) &&
	    (size_t)h->n_calls ==
	    yyjson_arr_size(yyjson_obj_get(m, "tool_calls"));
	free(lost.p);
	yyjson_doc_free(doc);
	return same;
}

/* ---------------------------------------------------------------- one case */

static enum qwen_thinking
thinking(yyjson_val *c)
{
	const char *s = chat_str(c, "thinking");

	return strcmp(s, "open") == 0 ? QWEN_THINKING_OPEN :
	    strcmp(s, "closed") == 0 ? QWEN_THINKING_CLOSED :
	    QWEN_THINKING_NONE;
}

/*
 * The text cut where splits (a list, or NULL: everywhere; an empty list:
 * nowhere) says. *first: the message of another split, to be the same.
 */
static int
one_split(const struct qwen_template *t, yyjson_val *c, yyjson_val *splits,
    char **first)
{
	yyjson_val *text = yyjson_obj_get(c, "text"), *v;
	const char *s = yyjson_get_str(text);
	size_t n = yyjson_get_len(text), from = 0, i, max, len, n_tools;
	struct heard h = { 0 };
	char *tools = yyjson_val_write(yyjson_obj_get(c, "tools"), 0,
	    &n_tools), *json;
	struct qwen_reply_opts o = { .thinking = thinking(c), .tools = tools,
	    .n_tools = n_tools, .event = hear, .arg = &h };
	struct qwen_reply *r;
	int good;

	if (qwen_reply_new(&r, t, &o, NULL) < 0)
		exit(1);
	for (i = 0; splits == NULL && i < n; from = ++i)
		qwen_reply_feed(r, s + i, 1, NULL);
	yyjson_arr_foreach(splits, i, max, v) {
		len = strtoul(yyjson_get_raw(v), NULL, 10) - from;
		qwen_reply_feed(r, s + from, len, NULL);
		from += len;
	}
	if (qwen_reply_feed(r, s + from, n - from, NULL) < 0 ||
	    qwen_reply_finish(r, NULL) < 0 ||
	    qwen_reply_message(r, &json, &len, NULL) < 0)
		exit(1);
	good = same_message(c, json, len) && adds_up(&h, json, len) &&
	    (*first == NULL || strcmp(*first, json) == 0);
	if (!good)
		printf("# %s: %s\n", chat_str(c, "id"), json);
	if (*first == NULL)
		*first = json;
	else
		free(json);
	free(tools);
	forget(&h);
	qwen_reply_free(r);
	return good;
}

/*
 * Whether the message, in the next request, makes the text of the reply again:
 * so it is where the model wrote as the template asks.
 */
static int
comes_back(const struct qwen_template *t, yyjson_val *c, const char *json)
{
	static const char *const head[] = {
		"<|im_start|>assistant\n", "<|im_start|>assistant\n<think>\n",
		"<|im_start|>assistant\n<think>\n\n</think>\n\n",
	};
	yyjson_doc *doc = yyjson_read(json, strlen(json),
	    YYJSON_READ_NUMBER_AS_RAW);
	yyjson_mut_doc *mut = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(mut), *list, *m;
	const char *text = chat_str(c, "text");
	struct qwen_prompt *p;
	struct qwen_str s;
	char *request, want[8192];
	size_t n, i;
	int back = 0;

	yyjson_mut_doc_set_root(mut, root);
	list = yyjson_mut_obj_add_arr(mut, root, "messages");
	m = yyjson_mut_arr_add_obj(mut, list);
	yyjson_mut_obj_add_str(mut, m, "role", "user");
	yyjson_mut_obj_add_str(mut, m, "content", "x");
	yyjson_mut_arr_append(list, yyjson_val_mut_copy(mut,
	    yyjson_doc_get_root(doc)));
	yyjson_mut_obj_add_bool(mut, root, "add_generation_prompt", 0);
	request = yyjson_mut_write(mut, 0, &n);
	if (qwen_template_render(t, request, n, &p, NULL) == 0) {
		s = qwen_prompt_text(p);
		/* where nothing was said of thinking, it may be an empty one */
		for (i = 0; i < 3; i++) {
			n = (size_t)snprintf(want, sizeof want,
			    "%s%s<|im_end|>\n", head[i], text);
			back |= (thinking(c) == (enum qwen_thinking)i ||
			    thinking(c) == QWEN_THINKING_NONE) && n <= s.len &&
			    memcmp(s.s + s.len - n, want, n) == 0;
		}
		qwen_prompt_free(p);
	}
	free(request);
	yyjson_mut_doc_free(mut);
	yyjson_doc_free(doc);
	return back;
}

struct tally {
	int	n, n_splits, bad, back;
};

static void
one(const struct qwen_template *t, yyjson_val *c, struct tally *sum)
{
	yyjson_val *splits = yyjson_obj_get(c, "splits"), *v;
	yyjson_doc *none = yyjson_read("[]", 2, 0);
	char *first = NULL;
	size_t i, max;
	int good;

	good = one_split(t, c, yyjson_doc_get_root(none), &first);
	good = one_split(t, c, NULL, &first) && good;
	yyjson_arr_foreach(splits, i, max, v) {
		good = one_split(t, c, v, &first) && good;
		sum->n_splits++;
	}
	sum->n++;
	sum->n_splits += 2;
	sum->bad += !good;
	sum->back += comes_back(t, c, first);
	free(first);
	yyjson_doc_free(none);
}

static void
all(const char *family, const char *template, int back)
{
	struct tally sum = { 0, 0, 0, 0 };
	struct qwen_template *t;
	struct bytes b;
	char file[64], *line;
	yyjson_doc *doc;

	snprintf(file, sizeof file, "parse-%s", family);
	b = chat_load(file);
	if (qwen_template_open(&t, template, NULL) < 0)
		exit(1);
	for (line = (char *)b.p; (doc = chat_case(&line)) != NULL; ) {
		one(t, yyjson_doc_get_root(doc), &sum);
		yyjson_doc_free(doc);
	}
	ok(sum.n > 30 && sum.bad == 0, "%s with %s: %d replies in %d splits, "
	    "%d wrong", family, template, sum.n, sum.n_splits, sum.bad);
	ok(sum.back >= back, "%d of them come back as they were", sum.back);
	qwen_template_close(t);
	free(b.p);
}

int
main(void)
{
	all("qwen3", "qwen3", 23);
	all("qwen3.5", "qwen3.5", 30);
	all("qwen3.5", "qwen3.6", 32);
	all("qwen3.5", "qwen3.6-ud", 30);
	all("qwen3-coder", "qwen3-coder", 21);
	return done_testing();
}
