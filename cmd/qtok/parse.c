/* SPDX-License-Identifier: ISC */
/* parse.c - parse the text of a reply to JSON. */
#include <stdlib.h>
#include <string.h>

#include "qtok.h"

/* Return the state of thinking at the end of a prompt of this template. */
static enum qwen_thinking
thinking(const struct qtok_opts *o, const struct qwen_template *t)
{
	enum qwen_thinking how = QWEN_THINKING_NONE;
	struct qwen_prompt *p;
	char json[120];

	snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", "
	    "\"content\": \"\"}], \"enable_thinking\": %s}", qtok_think(o));
	if (qwen_template_render(t, json, strlen(json), &p, &cli_err) == 0) {
		how = qwen_prompt_thinking(p);
		qwen_prompt_free(p);
	} else
		cli_die_oom(&cli_err);
	return how;
}

static void
put_line(char *json)
{
	puts(json);
	free(json);
	if (fflush(stdout) == EOF)
		exit(cli_finish());
}

/* --stream: print one line per event. */
static int
put_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	static const char *const key[] = {
		"reasoning", "content", "tool_call", "unparsed",
	};
	struct qwen_text t = { 0 };

	(void)arg;
	(void)err;
	qwen_text_fmt(&t, "{\"%s\":", key[e->kind]);
	if (e->kind == QWEN_REPLY_CALL) {
		qwen_text_str(&t, "{\"name\":");
		qwen_text_json(&t, e->name.s, e->name.len);
		qwen_text_str(&t, ",\"arguments\":");
		qwen_text_add(&t, e->text.s, e->text.len);
		qwen_text_str(&t, "}");
	} else
		qwen_text_json(&t, e->text.s, e->text.len);
	qwen_text_str(&t, "}");
	put_line(cli_check_alloc(t.failed ? NULL : t.s));
	return 0;
}

static void
parse_input(const struct qtok_input *in, void *arg)
{
	static char buf[1 << 16];
	struct qwen_reply *r = arg;
	const char *other;
	size_t n, done = 0;

	for (; (n = cli_read(in->fd, in->name, buf, sizeof buf)) > 0; done += n) {
		other = done == 0 ? tool_not_text(buf, n, 1) : NULL;
		if (other != NULL)
			die("%s: this is %s, not text; --parse reads the "
			    "text of a reply: decode tokens with qtok -d first",
			    in->name, other);
		cli_must(in->name, qwen_reply_feed(r, buf, n, &cli_err));
	}
}

void
qtok_parse(const struct qtok_opts *o, char *paths[])
{
	struct qwen_template *t = qtok_template(o);
	struct qwen_reply_opts ro = {
		.thinking = (enum qwen_thinking)o->thinking,
		.event = o->stream ? put_event : NULL,
		.strict = o->strict_calls,
	};
	struct qwen_reply *r;
	char *tools = NULL, *json;
	size_t n;

	tool_template_set(t, NULL);
	if (o->thinking < 0)
		ro.thinking = thinking(o, t);
	if (o->tools != NULL)
		tools = cli_read_file(o->tools, CLI_FILE_MAX, &ro.n_tools);
	ro.tools = tools;
	cli_must(o->tools, qwen_reply_new(&r, t, &ro, &cli_err));
	qtok_each(paths, parse_input, r);
	if (qwen_reply_finish(r, &cli_err) < 0 || (!o->stream &&
	    qwen_reply_message(r, &json, &n, &cli_err) < 0))
		cli_die_err(NULL, &cli_err);
	if (!o->stream)
		put_line(json);
	qwen_reply_free(r);
	qwen_template_close(t);
	free(tools);
}
