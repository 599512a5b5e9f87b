/* SPDX-License-Identifier: ISC */
/* template.c - opening and configuring the chat template. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/tool.h"

void
tool_placeholder(const struct cli_opt *o, const char *text)
{
	*(const char **)o->to = text != NULL ? text : "";
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

/* Parses "2026-01-31" or "2026-01-31T12:30:00"; -1 if invalid. */
static int
read_date(const char *s, struct tm *tm)
{
	int n = 0, day = 0;
	struct tm t = { .tm_isdst = 0 };
	time_t sec;

	if (sscanf(s, "%4d-%2d-%2d%n", &t.tm_year, &t.tm_mon, &t.tm_mday,
	    &n) != 3)
		return -1;
	if (s[n] == 'T' && sscanf(s + n, "T%2d:%2d:%2d%n", &t.tm_hour,
	    &t.tm_min, &t.tm_sec, &day) == 3)
		n += day;
	day = t.tm_mday;
	t.tm_year -= 1900;
	t.tm_mon--;
	sec = timegm(&t);
	*tm = t;
	return s[n] == '\0' && sec != -1 && t.tm_mday == day ? 0 : -1;
}

/* --date, else $SOURCE_DATE_EPOCH in UTC, else the local time. */
int
tool_template_now(void *arg, struct tm *out)
{
	const char *epoch = cli_env("SOURCE_DATE_EPOCH");
	time_t t = time(NULL);
	char *end;

	(void)arg;
	if (tool_effort.date != NULL)
		return read_date(tool_effort.date, out);
	if (epoch == NULL)
		return localtime_r(&t, out) != NULL ? 0 : -1;
	t = (time_t)strtoll(epoch, &end, 10);
	return *end == '\0' && gmtime_r(&t, out) != NULL ? 0 : -1;
}

void
tool_template_set(struct qwen_template *t, const struct qwen_gguf *g)
{
	const char *high = tool_effort.high;
	struct tm tm;

	qwen_template_set_clock(t, tool_template_now, NULL);
	if (tool_effort.date != NULL && read_date(tool_effort.date, &tm) < 0)
		cli_usage("--date: '%s' is not like 2026-01-31 or "
		    "2026-01-31T12:30:00", tool_effort.date);
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
