/* SPDX-License-Identifier: ISC */
/* edit.c - lines that are edited at a terminal, by libedit where it is. */
#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "qchat.h"

#if __has_include(<histedit.h>)
#include <histedit.h>

enum { HISTORY = 1000, MARK = 48 };

static struct {
	EditLine	*el;
	History		*history;
	FILE		*out;
	const char	*prompt;
	int		 pastes;	/* the terminal tells what is pasted */
	struct qwen_text *pasted;	/* of this line: what marks stand for */
	size_t		 n, cap;
} edit;

static char *
prompt(EditLine *el)
{
	(void)el;
	return (char *)(uintptr_t)edit.prompt;
}

/* ------------------------------------------------------------------- pasting */

#define PASTE_END "\033[201~"

/* What was pasted, up to the end of it; 0 if the input ended. */
static int
read_paste(struct qwen_text *t)
{
	const size_t n = sizeof PASTE_END - 1;
	char out[4];
	wchar_t c;

	while (t->n < n || memcmp(t->s + t->n - n, PASTE_END, n) != 0) {
		if (el_wgetc(edit.el, &c) != 1)
			return 0;
		/* terminals send the ends of lines as Return does */
		if (c == L'\r')
			c = L'\n';
		if (c != 0)
			qwen_text_add(t, out, qwen_utf8_write((uint32_t)c, out));
		if (t->failed)
			cli_got(NULL);
	}
	t->n -= n;
	t->s[t->n] = '\0';
	return 1;
}

static void
mark_of(size_t i, char out[MARK])
{
	const char *s = edit.pasted[i].s;
	size_t lines = 1;

	for (; (s = strchr(s, '\n')) != NULL && s[1] != '\0'; s++)
		lines++;
	snprintf(out, MARK, "[paste %zu: %zu lines]", i + 1, lines);
}

/* Several lines are shown as a mark, and are what they are when all is said. */
static unsigned char
paste(EditLine *el, int ch)
{
	struct qwen_text t = { 0 };
	char mark[MARK];

	(void)ch;
	if (!read_paste(&t)) {
		qwen_text_fini(&t);
		return CC_EOF;
	}
	if (strchr(t.s, '\n') == NULL) {
		el_insertstr(el, t.s);
		qwen_text_fini(&t);
		return CC_REFRESH;
	}
	cli_grow(&edit.pasted, &edit.cap, edit.n + 1, sizeof *edit.pasted);
	edit.pasted[edit.n] = t;
	mark_of(edit.n++, mark);
	el_insertstr(el, mark);
	return CC_REFRESH;
}

/* The line with what was pasted in the places of its marks. */
static char *
unmark(char *line)
{
	char mark[MARK], *at, *more;
	size_t i;

	for (i = 0; i < edit.n; i++) {
		mark_of(i, mark);
		if ((at = strstr(line, mark)) != NULL) {
			more = cli_format("%.*s%s%s", (int)(at - line), line,
			    edit.pasted[i].s, at + strlen(mark));
			free(line);
			line = more;
		}
		qwen_text_fini(&edit.pasted[i]);
	}
	edit.n = 0;
	return line;
}

/* ---------------------------------------------------------------- completion */

/* Bytes that all commands that begin so have in common; how many there are. */
static size_t
match(const char *s, size_t n, const char **first, size_t *common)
{
	const char *name, *arg;
	size_t i, k, found = 0;

	for (i = 0; (name = qchat_command_name(i, &arg)) != NULL; i++) {
		if (strncmp(name, s, n) != 0)
			continue;
		for (k = n; found > 0 && k < *common &&
		    name[k] == (*first)[k]; k++)
			;
		*common = found++ > 0 ? k : strlen(name);
		if (found == 1)
			*first = name;
	}
	return found;
}

static void
list_matches(const char *s, size_t n)
{
	const char *name, *arg;
	size_t i;

	for (i = 0; (name = qchat_command_name(i, &arg)) != NULL; i++) {
		if (strncmp(name, s, n) == 0)
			fprintf(edit.out, "%s%s", i == 0 || n > 1 ? "\n" :
			    "  ", name);
	}
	putc('\n', edit.out);
}

/* The argument of the command that the line begins with is a file. */
static int
wants_file(const char *s, size_t n)
{
	const char *name, *arg;
	size_t i;

	for (i = 0; (name = qchat_command_name(i, &arg)) != NULL; i++) {
		if (arg != NULL && strcmp(arg, "FILE") == 0 &&
		    strlen(name) < n && strncmp(name, s, strlen(name)) == 0 &&
		    s[strlen(name)] == ' ')
			return 1;
	}
	return 0;
}

static unsigned char
complete(EditLine *el, int ch)
{
	const LineInfo *l = el_line(el);
	size_t n = (size_t)(l->cursor - l->buffer), common = 0, found;
	const char *s = l->buffer, *first = NULL;
	char add[64];

	if (n == 0 || s[0] != '/') {
		el_insertstr(el, "\t");
		return CC_REFRESH;
	}
	if (memchr(s, ' ', n) != NULL)
		return wants_file(s, n) ? _el_fn_complete(el, ch) : CC_ERROR;
	found = match(s, n, &first, &common);
	if (found == 0)
		return CC_ERROR;
	if (common == n && found > 1) {
		list_matches(s, n);
		return CC_REDISPLAY;
	}
	snprintf(add, sizeof add, "%.*s%s", (int)(common - n), first + n,
	    found == 1 ? " " : "");
	el_insertstr(el, add);
	return CC_REFRESH;
}

/* ------------------------------------------------------------------- history */

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

static void
remember(const char *line)
{
	HistEvent ev;

	if (line[0] != '\0' && edit.n == 0)	/* not what was pasted */
		history(edit.history, &ev, H_ENTER, line);
}

/* All or nothing, for its owner alone; libedit wants a file to write to. */
static void
save_history(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	FILE *f = tmpfile();
	struct qwen_text t = { 0 };
	char part[4096];
	HistEvent ev;
	size_t n;

	if (fd != -1 && f != NULL &&
	    history(edit.history, &ev, H_SAVE_FP, f) != -1) {
		rewind(f);
		while ((n = fread(part, 1, sizeof part, f)) > 0)
			qwen_text_add(&t, part, n);
		if (!ferror(f) && cli_replace_file(path, &t, &cli_err) < 0)
			cli_note("%s: %s", path, cli_err.msg);
	} else
		cli_note("%s: what was typed could not be kept", path);
	if (f != NULL)
		fclose(f);
	if (fd != -1)
		close(fd);
	qwen_text_fini(&t);
}

/* --------------------------------------------------------- beginning and end */

/* Characters are UTF-8, whatever the locale has. */
static void
set_locale(void)
{
	static const char *const names[] = { "", "C.UTF-8", "en_US.UTF-8" };
	size_t i;

	for (i = 0; i < sizeof names / sizeof *names; i++) {
		if (setlocale(LC_CTYPE, names[i]) != NULL &&
		    strcmp(nl_langinfo(CODESET), "UTF-8") == 0)
			return;
	}
}

static void
bind(const char *keys, const char *function)
{
	el_set(edit.el, EL_BIND, keys, function, NULL);
}

static void
set_keys(void)
{
	el_set(edit.el, EL_EDITOR, "emacs");
	el_set(edit.el, EL_ADDFN, "qchat-paste", "what is pasted", paste);
	el_set(edit.el, EL_ADDFN, "qchat-complete", "commands", complete);
	bind("^R", "em-inc-search-prev");
	bind("\\e[H", "ed-move-to-beg");
	bind("\\e[F", "ed-move-to-end");
	bind("\\e[1~", "ed-move-to-beg");
	bind("\\e[4~", "ed-move-to-end");
	bind("\\e[3~", "ed-delete-next-char");
	bind("\\e[1;5C", "em-next-word");
	bind("\\e[1;5D", "ed-prev-word");
	el_source(edit.el, NULL);
	bind("^I", "qchat-complete");
	bind("\\e[200~", "qchat-paste");
}

int
qchat_edit_begin(void)
{
	const char *term = getenv("TERM"), *path = history_path();
	HistEvent ev;

	if (!isatty(STDIN_FILENO))
		return 0;
	edit.out = isatty(STDERR_FILENO) ? stderr : fopen("/dev/tty", "w");
	if (edit.out == NULL)
		return 0;
	set_locale();
	edit.el = cli_got(el_init("qchat", stdin, edit.out, edit.out));
	edit.history = cli_got(history_init());
	edit.pastes = term != NULL && strcmp(term, "dumb") != 0;
	history(edit.history, &ev, H_SETSIZE, HISTORY);
	history(edit.history, &ev, H_SETUNIQUE, 1);
	if (path != NULL)
		history(edit.history, &ev, H_LOAD, path);
	el_set(edit.el, EL_HIST, history, edit.history);
	el_set(edit.el, EL_PROMPT, prompt);
	el_set(edit.el, EL_SIGNAL, 1);
	set_keys();
	return 1;
}

char *
qchat_edit_line(const char *text)
{
	const char *got;
	char *line;
	int n = 0, why;

	edit.prompt = text;
	if (edit.pastes)
		fputs("\033[?2004h", edit.out);
	fflush(edit.out);
	errno = 0;
	got = el_gets(edit.el, &n);
	why = errno;
	if (edit.pastes)
		fputs("\033[?2004l", edit.out);
	fflush(edit.out);
	if (got == NULL || n <= 0) {
		if (n < 0 && !qchat_interrupted)
			warn("stdin: %s", strerror(why));
		free(unmark(cli_format("%s", "")));
		if (!qchat_interrupted)
			putc('\n', edit.out);
		return NULL;
	}
	line = cli_format("%.*s", n - (got[n - 1] == '\n'), got);
	remember(line);
	return unmark(line);
}

void
qchat_edit_end(void)
{
	if (history_path() != NULL)
		save_history(history_path());
	el_end(edit.el);
	history_end(edit.history);
	free(edit.pasted);
}

#else

int
qchat_edit_begin(void)
{
	return 0;
}

char *
qchat_edit_line(const char *prompt)
{
	(void)prompt;
	return NULL;
}

void
qchat_edit_end(void)
{
}
#endif
