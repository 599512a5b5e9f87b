/* SPDX-License-Identifier: ISC */
/* stdio.c - the kind of stdin, and text on stdout. */
#include <sys/stat.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"
#include "cli/cli.h"

enum cli_stdin
cli_stdin_kind(void)
{
	struct stat in, null;

	if (fstat(STDIN_FILENO, &in) == -1 && errno != EBADF)
		die("stdin: %s", strerror(errno));
	if (isatty(STDIN_FILENO) || errno == EBADF)	/* closed */
		return CLI_STDIN_NONE;
	if (S_ISREG(in.st_mode))
		return CLI_STDIN_FILE;
	if (S_ISCHR(in.st_mode) && stat("/dev/null", &null) == 0 &&
	    in.st_rdev == null.st_rdev)
		return CLI_STDIN_NONE;
	return CLI_STDIN_PIPE;
}

void
cli_need_stdin(void)
{
	if (isatty(STDIN_FILENO))
		cli_usage("no input: stdin is a terminal");
}

void
cli_no_binary_tty(void)
{
	/* Open MPI gives its processes a pseudo-terminal in place of a pipe */
	if (isatty(STDOUT_FILENO) && cli_env("OMPI_COMM_WORLD_RANK") == NULL)
		die("stdout is a terminal: not writing binary there; redirect "
		    "it, or see -f");
}

void
cli_json_string(const char *text)
{
	struct qwen_text t = { 0 };

	qwen_text_json(&t, text, strlen(text));
	fputs(cli_check_alloc(t.failed ? NULL : t.s), stdout);
	qwen_text_fini(&t);
}

void
cli_show(const char *s, size_t n)
{
	char out[QWEN_SHOWN_CHAR];
	size_t i, used;

	for (i = 0; i < n; i += used)
		fwrite(out, 1, qwen_shown_char(s + i, n - i, &used, out),
		    stdout);
}

/* May the character at s go to a terminal unchanged? *used is its length. */
static int
is_harmless(const char *s, size_t n, size_t *used)
{
	uint32_t c;
	int len = qwen_utf8_read((const unsigned char *)s, n, &c);

	*used = len > 0 ? (size_t)len : 1;
	/* some scripts and emoji need zero width joiners */
	return len > 0 && (!qwen_utf8_steers(c) || c == '\n' || c == '\t' ||
	    c == 0x200c || c == 0x200d);
}

void
cli_show_text(FILE *f, const char *s, size_t n)
{
	int tty = isatty(fileno(f));
	char out[QWEN_SHOWN_CHAR];
	size_t i, used, from = 0;

	for (i = tty ? 0 : n; i < n; i += used) {
		if (is_harmless(s + i, n - i, &used))
			continue;
		fwrite(s + from, 1, i - from, f);
		from = i + used;
		fwrite(out, 1, qwen_shown_char(s + i, n - i, &used, out), f);
	}
	fwrite(s + from, 1, n - from, f);
}

size_t
cli_write(int fd, const struct qwen_text *t)
{
	size_t at = 0;
	ssize_t n;

	if (t->failed)
		cli_must(NULL, qwen_oom(&cli_err));
	while (at < t->n) {
		n = write(fd, t->s + at, t->n - at);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EPIPE)
			exit(1);
		if (n == -1)
			break;
		at += (size_t)n;
	}
	return at;
}

void
cli_write_all(int fd, const char *name, const struct qwen_text *t)
{
	if (cli_write(fd, t) < t->n)
		die("%s: %s", name, strerror(errno));
}
