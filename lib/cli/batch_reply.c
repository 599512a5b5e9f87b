/* SPDX-License-Identifier: ISC */
/* batch_reply.c - a chat's text: thoughts, calls of tools, and the rest. */
#include "cli/batch.h"

/* As the interface has it: arguments are a string of JSON. */
static void
add_call(struct cli_answer *a, const struct qwen_reply_event *e)
{
	struct cli_text *t = &a->calls;

	/* ids are the same wherever and whenever this is done */
	cli_text_fmt(t, "%s{\"id\":\"call_%llu_%zu_%zu\",\"type\":"
	    "\"function\",\"function\":{\"name\":", t->n > 0 ? "," : "",
	    (unsigned long long)a->item->line,
	    (size_t)(a - a->item->answer), a->n_calls++);
	cli_text_json(t, e->name.s, e->name.len);
	cli_text_str(t, ",\"arguments\":");
	cli_text_json(t, e->text.s, e->text.len);
	cli_text_str(t, "}}");
}

static int
on_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct cli_answer *a = arg;

	(void)err;
	if (e->kind == QWEN_REPLY_CALL)
		add_call(a, e);
	else
		cli_text_add(e->kind == QWEN_REPLY_REASONING ? &a->reasoning :
		    &a->text, e->text.s, e->text.len);
	return 0;
}

void
cli_answer_reply(struct cli_answer *a, const struct qwen_template *t)
{
	struct qwen_reply_opts o = {
		.thinking = a->item->thinking, .tools = a->item->tools,
		.n_tools = a->item->n_tools, .event = on_event, .arg = a,
	};
	struct cli_text whole = a->text;
	struct qwen_reply *r;
	struct qwen_err err;

	if (qwen_reply_new(&r, t, &o, &err) < 0) {
		cli_item_fail(a->item, "failed", "%s", err.msg);
		return;
	}
	a->text = (struct cli_text){ 0 };
	if (qwen_reply_feed(r, whole.s, whole.n, &err) < 0 ||
	    qwen_reply_finish(r, &err) < 0)
		cli_item_fail(a->item, "failed", "%s", err.msg);
	qwen_reply_free(r);
	cli_text_fini(&whole);
}
