/* SPDX-License-Identifier: ISC */
/* lines.c - read messages and commands from a terminal, a pipe or a file. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qchat.h"

#define QUOTES "\"\"\""

enum { PATHS_LINE = 1 << 16 };	/* bytes of a line that may be only paths */

static struct tool_lines input = { .fd = STDIN_FILENO, .name = "stdin" };
static int editing;

/*
 * Read a line from a file or pipe, to be freed; NULL at the end.  A line that
 * is too long or contains a NUL becomes empty, with a warning.
 */
static char *
read_line(void)
{
	struct tool_line line;

	if (!tool_lines_next(&input, &line))
		return NULL;
	if (line.s == NULL)
		warn("a line of more than %d bytes was ignored", TOOL_LINE_MAX);
	else if (memchr(line.s, '\0', line.n) != NULL)
		warn("a line with a NUL was ignored");
	else
		return cli_format("%.*s", (int)line.n, line.s);
	return cli_format("%s", "");
}

/*
 * Read a line without its line feed, to be freed; NULL at the end or after
 * Ctrl-C.
 */
static char *
next_line(const char *prompt)
{
	if (editing)
		return qchat_edit_line(prompt);
	if (isatty(STDIN_FILENO))
		fputs(prompt, stderr);
	return read_line();
}

/*
 * Add a line with its pasted text to t, and free the line.  If the typed line
 * ends with the text `end', cut that off and return 1, else 0.
 */
static int
add_line(struct qwen_text *t, char *line, const char *end)
{
	size_t n = strlen(line), k = strlen(end);
	int ends = n >= k && strcmp(line + n - k, end) == 0;

	if (ends)
		line[n - k] = '\0';
	line = qchat_edit_unmark(line);
	qwen_text_str(t, line);
	free(line);
	if (t->failed)
		cli_check_alloc(NULL);
	return ends;
}

/*
 * Read the lines of a block after the first one, up to the closing quotes: 1,
 * or 0 after Ctrl-C.
 */
static int
read_block(struct qwen_text *t)
{
	size_t from = 0;
	char *line;
	int ends;

	do {
		if ((line = next_line("... ")) == NULL)
			return !qchat_interrupted;
		if (t->n > 0)
			qwen_text_str(t, "\n");
		from = t->n;
		ends = add_line(t, line, QUOTES);
	} while (!ends);
	if (from > 0 && t->n == from)	/* the last line has only the quotes */
		t->s[--t->n] = '\0';
	return 1;
}

/*
 * Read a message or a command: a line, lines that end in a backslash, or a
 * block between quotes; each may contain pasted lines.  1, or 0 at the end or
 * after Ctrl-C.
 */
static int
read_entry(struct qwen_text *t, int *is_command)
{
	char *line = next_line("> ");
	int more;

	if (line == NULL)
		return 0;
	*is_command = line[0] == '/';
	if (strncmp(line, QUOTES, 3) == 0) {
		memmove(line, line + 3, strlen(line + 3) + 1);
		return add_line(t, line, QUOTES) || read_block(t);
	}
	for (more = add_line(t, line, "\\"); more; ) {
		if ((line = next_line("... ")) == NULL)
			return !qchat_interrupted;
		qwen_text_str(t, "\n");
		more = add_line(t, line, "\\");
	}
	return 1;
}

void
qchat_talk(struct qchat *c)
{
	struct qwen_text t = { 0 };
	int more = 1, command;

	editing = qchat_edit_begin();
	while (more) {
		qchat_interrupted = 0;
		t.n = 0;
		if (!read_entry(&t, &command)) {
			/* Ctrl-C discards the input and continues */
			more = qchat_interrupted;
			if (more && isatty(STDIN_FILENO))
				putc('\n', stderr);
			continue;
		}
		/* a path may look like a command */
		if (t.n < PATHS_LINE && memchr(t.s, '\n', t.n) == NULL &&
		    qchat_take_paths(c, t.s) > 0)
			continue;
		if (command)
			more = qchat_command(c, t.s);
		else if (t.n > 0)
			qchat_turn(c, t.s, t.n);
	}
	if (editing)
		qchat_edit_end();
	qwen_text_fini(&t);
	tool_lines_fini(&input);
}
