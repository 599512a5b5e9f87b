/* SPDX-License-Identifier: ISC */
/* template.c - the chat template of --template; what is said of chats. */
#include <stdlib.h>
#include <string.h>

#include "text/request/request.h"
#include "tool/tool.h"

void
tool_placeholder(const struct cli_opt *o, const char *text)
{
	*(const char **)o->to = text != NULL ? text : "";
}

void
tool_tell_notes(unsigned notes)
{
	unsigned note;

	for (note = 1; note < QWEN_NOTES_END; note <<= 1) {
		if ((notes & note) != 0)
			cli_note("%s", qwen_unknown_note(note));
	}
}

struct qwen_template *
tool_template(const char *name)
{
	struct qwen_template *t;
	char *source;
	size_t n;

	if (strchr(name, '/') == NULL) {
		cli_must("--template", qwen_template_open(&t, name, &cli_err));
		return t;
	}
	source = cli_read_file(name, CLI_FILE_MAX, &n);
	cli_must(name, qwen_template_open_text(&t, source, n, &cli_err));
	free(source);
	return t;
}

struct tool_effort tool_effort;

void
tool_template_set(struct qwen_template *t, const struct qwen_gguf *g)
{
	const char *high = tool_effort.high;

	if (g != NULL)
		cli_must(qwen_gguf_path(g, 0), qwen_template_set_tokens(t, g,
		    tool_bos(), &cli_err));
	if (high != NULL && strcmp(high, "medium") != 0 &&
	    strcmp(high, "xhigh") != 0)
		cli_usage("--effort-high: '%s' is neither medium nor xhigh",
		    high);
	if (qwen_template_set_effort(t, tool_effort.level, high, &cli_err) < 0)
		cli_usage("--effort: %s", cli_err.msg);
}
