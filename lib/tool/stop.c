/* SPDX-License-Identifier: ISC */
/* stop.c - the stop strings of --stop. */
#include <string.h>

#include "text/request/request.h"
#include "tool/tool.h"

void
tool_stop_at(struct qwen_stop_finder **cut, const char *stop)
{
	if (stop[0] == '\0')
		cli_usage("--stop: the text is empty");
	if (*cut == NULL)
		cli_must(NULL, qwen_stop_finder_new(cut, &cli_err));
	cli_must(NULL, qwen_stop_finder_add(*cut, stop, strlen(stop),
	    &cli_err));
}

int
tool_stop_feed(struct qwen_stop_finder *cut, struct qwen_str *s, int look)
{
	int found = 0;

	if (cut != NULL)
		cli_must(NULL, qwen_stop_finder_feed(cut, s, look, &found,
		    &cli_err));
	return found;
}

struct qwen_str
tool_stop_end(struct qwen_stop_finder *cut)
{
	return cut != NULL ? qwen_stop_finder_end(cut) : (struct qwen_str){ "",
	    0 };
}
