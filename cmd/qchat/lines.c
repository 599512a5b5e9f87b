/* SPDX-License-Identifier: ISC */
/* lines.c - what the user types, or a program writes. */
#include <sys/stat.h>

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<editline/readline.h>)
#define EDITING 1
#include <editline/readline.h>
#else
#define EDITING 0
#endif

#include "qchat.h"

#if EDITING
static void
begin_editing(const char *path)
{
	setlocale(LC_CTYPE, "");	/* so that UTF-8 can be typed */
	rl_outstream = stderr;
	using_history();
	if (path != NULL)
		read_history(path);
}

static char *
edit_line(void)
{
	char *line = readline("> ");

	if (line != NULL && *line != '\0')
		add_history(line);
	return line;
}

static void
end_editing(const char *path)
{
	if (path == NULL)
		return;
	umask(077);
	stifle_history(1000);
	write_history(path);
}
#else
static void
begin_editing(const char *path)
{
	(void)path;
}

static char *
edit_line(void)
{
	char *line = NULL;
	size_t cap = 0;

	fputs("> ", stderr);
	if (getline(&line, &cap, stdin) >= 0)
		return line;
	free(line);
	return NULL;
}

static void
end_editing(const char *path)
{
	(void)path;
}
#endif

/* What lines of C are cut at would be lost. */
static char *
whole(char *line, ssize_t n)
{
	if (n >= 0 && strlen(line) == (size_t)n)
		return line;
	if (n >= 0) {
		warn("a line with a NUL in it is passed over");
		line[0] = '\0';
		return line;
	}
	free(line);
	return NULL;
}

/* A line without its end; free().  NULL at the end of the input. */
static char *
read_line(int tty)
{
	char *line;
	size_t cap, n;
	ssize_t len;

	for (;;) {
		qchat_interrupted = 0;
		line = NULL;
		cap = 0;
		if (tty)
			line = edit_line();
		else {
			len = getline(&line, &cap, stdin);
			line = whole(line, len);
		}
		if (line != NULL || !qchat_interrupted)
			break;
		/* Ctrl-C takes back what was typed, no more. */
		clearerr(stdin);
		if (tty)
			putc('\n', stderr);
	}
	n = line != NULL ? strlen(line) : 0;
	if (n > 0 && line[n - 1] == '\n')
		line[n - 1] = '\0';
	return line;
}

/* Where lines are remembered, or NULL. */
static const char *
history_path(void)
{
	static char path[4096];
	const char *home = getenv("HOME");

	if (home == NULL || *home == '\0' || (size_t)snprintf(path,
	    sizeof path, "%s/.qchat_history", home) >= sizeof path)
		return NULL;
	return path;
}

void
qchat_talk(struct chat *c)
{
	int tty = isatty(STDIN_FILENO), more = 1;
	const char *path = tty ? history_path() : NULL;
	char *line;

	if (tty)
		begin_editing(path);
	while (more && (line = read_line(tty)) != NULL) {
		if (*line == '/')
			more = qchat_command(c, line);
		else if (*line != '\0')
			qchat_turn(c, line);
		free(line);
	}
	if (tty && more)	/* Ctrl-D leaves the prompt as it is */
		putc('\n', stderr);
	if (ferror(stdin))
		warn("stdin: %s", strerror(errno));
	if (tty)
		end_editing(path);
}
