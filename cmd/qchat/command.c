/* SPDX-License-Identifier: ISC */
/* command.c - lines that begin with a slash. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void
save(const struct chat *c, const char *path)
{
	struct qwen_text t = { 0 };
	char *json;
	size_t n;

	cli_must(NULL, qwen_messages_json(c->messages, 1, &json, &n, &cli_err));
	qwen_text_add(&t, json, n);
	qwen_text_add(&t, "\n", 1);
	if (cli_replace_file(path, &t, &cli_err) < 0)
		warn("%s: %s", path, cli_err.msg);
	qwen_text_fini(&t);
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
