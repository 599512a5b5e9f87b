/* SPDX-License-Identifier: ISC */
/*
 * chat_render.c - prompts of the published templates (see chat/README): the
 * exact text, or the expected refusal.
 */
#include "text/chat/chat.h"
#include "../tap.h"
#include "chat_util.h"

struct tally {
	int	n, exact, other, refused, bad;
};

/* What came out is not what is wanted, and not what may be instead. */
static void
wrong(yyjson_val *c, const char *got, const char *err)
{
	printf("# %s: %s%s\n", chat_str(c, "id"), got != NULL ? "wrong" :
	    "refused: ", got != NULL ? "" : err);
	if (got != NULL)
		fprintf(stderr, "-- wanted\n%s\n-- got\n%s\n",
		    chat_str(c, "expect"), got);
}

static int
same(yyjson_val *c, const char *key, struct qwen_str s)
{
	yyjson_val *v = yyjson_obj_get(c, key);

	return v != NULL && yyjson_get_len(v) == s.len &&
	    memcmp(yyjson_get_str(v), s.s, s.len) == 0;
}

static void
one(const struct qwen_template *t, yyjson_val *c, struct tally *sum)
{
	struct qwen_prompt *p;
	struct qwen_str text = { NULL, 0 };
	struct qwen_err err;
	size_t n;
	char *json = chat_request(c, &n);
	int rc = qwen_template_render(t, json, n, &p, &err);

	sum->n++;
	if (rc == 0)
		text = qwen_prompt_text(p);
	if (rc == 0 && same(c, "expect", text))
		sum->exact++;
	else if (rc == 0 && same(c, "or_expect", text))
		sum->other++;
	else if (rc < 0 && (yyjson_obj_get(c, "error") != NULL ||
	    yyjson_get_bool(yyjson_obj_get(c, "may_refuse"))))
		sum->refused++;
	else if (rc == 0 && strcmp(chat_str(c, "error_kind"), "type") == 0 &&
	    yyjson_obj_get(c, "or_expect") == NULL)
		sum->other++;	/* put right: looked at by tests/unit/chat.c */
	else {
		sum->bad++;
		wrong(c, rc == 0 ? text.s : NULL, err.msg);
	}
	qwen_prompt_free(p);
	free(json);
}

static void
all(const char *name)
{
	struct tally sum = { 0, 0, 0, 0, 0 };
	struct qwen_template *t;
	struct bytes b;
	char file[64], *line;
	yyjson_doc *doc;

	snprintf(file, sizeof file, "render-%s", name);
	b = chat_load(file);
	if (qwen_template_open(&t, name, NULL) < 0)
		exit(1);
	/* the cases are what the template alone makes of the messages */
	qwen_template_set_systems(t, QWEN_SYSTEMS_TEMPLATE);
	for (line = (char *)b.p; (doc = chat_case(&line)) != NULL; ) {
		one(t, yyjson_doc_get_root(doc), &sum);
		yyjson_doc_free(doc);
	}
	ok(sum.n > 100 && sum.bad == 0, "%s: %d cases: %d exact, %d put right, "
	    "%d refused, %d wrong", name, sum.n, sum.exact, sum.other,
	    sum.refused, sum.bad);
	qwen_template_close(t);
	free(b.p);
}

int
main(void)
{
	size_t i;

	for (i = 0; qwen_template_name(i) != NULL; i++)
		all(qwen_template_name(i));
	ok(i == 6, "%zu templates", i);
	return done_testing();
}
