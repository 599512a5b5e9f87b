/* SPDX-License-Identifier: ISC */
/* command.c - lines that begin with a slash. */
#include <sys/stat.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qchat.h"

static const char help[] =
    "/data FILE     a document, as part of what you say next\n"
    "/help          this\n"
    "/load FILE     go on with a conversation that was saved\n"
    "/quit          leave, as the end of the input does\n"
    "/reset         begin anew; the system's text stays\n"
    "/save FILE     the conversation, a request in JSON for qtok --chat\n"
    "/system TEXT   begin anew, with this text of the system\n"
    "/think on|off  whether to think, if the model can be told\n";

enum { FILE_LIMIT = 1 << 28 };	/* bytes of a document, of a conversation */

/* All of a file, or NULL with a warning. */
static char *
read_file(const char *path, size_t *n)
{
	char *p = cli_try_file(path, FILE_LIMIT, n);

	if (p == NULL)
		warn("%s: %s", path, strerror(errno));
	return p;
}

static void
load_document(struct chat *c, const char *path)
{
	size_t n;
	char *p = read_file(path, &n);

	if (p == NULL)
		return;
	if (qwen_utf8_check(p, n) < n) {
		warn("%s: not UTF-8 at byte %zu", path, qwen_utf8_check(p, n));
		free(p);
		return;
	}
	free(c->document);
	c->document = p;
	c->n_document = n;
}

static void
load(struct chat *c, const char *path)
{
	struct qwen_messages *m;
	size_t n;
	char *p = read_file(path, &n);

	if (p == NULL)
		return;
	if (qwen_messages_read(&m, p, n, &cli_err) < 0) {
		if (cli_err.code == QWEN_ENOMEM)
			cli_die_err(path, &cli_err);
		warn("%s: %s", path, cli_err.msg);
	} else if (!qwen_messages_are_there(m)) {
		warn("%s: there is no list of messages", path);
		qwen_messages_free(m);
	} else {
		qwen_messages_free(c->messages);
		c->messages = m;
	}
	free(p);
}

/* The whole text and a line feed to a file; -1 and errno. */
static int
write_file(const char *path, const char *s, size_t n)
{
	FILE *f = fopen(path, "wb");
	int bad, why;

	if (f == NULL)
		return -1;
	bad = fwrite(s, 1, n, f) < n || putc('\n', f) == EOF ||
	    fflush(f) == EOF;
	why = errno;
	if (fclose(f) == EOF && !bad)
		return -1;
	errno = why;
	return bad ? -1 : 0;
}

/* Likewise, and what was there stays until all of it is written. */
static int
replace_file(const char *path, const char *s, size_t n)
{
	char *real = realpath(path, NULL), *temp;
	struct stat st;
	int rc, why;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		free(real);
		return write_file(path, s, n);
	}
	if (real == NULL)	/* not there yet */
		real = cli_got(strdup(path));
	temp = cli_format("%s.qpipe-tmp", real);
	rc = write_file(temp, s, n);
	if (rc == 0)
		rc = rename(temp, real);
	if (rc < 0) {
		why = errno;
		unlink(temp);
		errno = why;
	}
	free(temp);
	free(real);
	return rc;
}

static void
save(const struct chat *c, const char *path)
{
	char *json;
	size_t n;

	cli_must(NULL, qwen_messages_json(c->messages, 1, &json, &n, &cli_err));
	if (replace_file(path, json, n) < 0)
		warn("%s: %s", path, strerror(errno));
	free(json);
}

static void
think(struct chat *c, const char *arg)
{
	if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0) {
		warn("/think: on or off?");
		return;
	}
	qchat_opt.think = strcmp(arg, "off") == 0;
	qchat_think(c);
}

int
qchat_command(struct chat *c, char *line)
{
	char *arg = line + strcspn(line, " ");

	if (*arg != '\0')
		*arg++ = '\0';
	arg += strspn(arg, " ");
	if (strcmp(line, "/quit") == 0)
		return 0;
	if (*arg == '\0' && (strcmp(line, "/save") == 0 ||
	    strcmp(line, "/load") == 0 || strcmp(line, "/data") == 0))
		warn("%s: which file?", line);
	else if (strcmp(line, "/help") == 0)
		fputs(help, stderr);
	else if (strcmp(line, "/reset") == 0)
		qchat_reset(c, qwen_messages_system(c->messages));
	else if (strcmp(line, "/system") == 0)
		qchat_reset(c, *arg != '\0' ? arg : NULL);
	else if (strcmp(line, "/think") == 0)
		think(c, arg);
	else if (strcmp(line, "/save") == 0)
		save(c, arg);
	else if (strcmp(line, "/load") == 0)
		load(c, arg);
	else if (strcmp(line, "/data") == 0)
		load_document(c, arg);
	else
		warn("there is no %.40s; see /help", line);
	return 1;
}
