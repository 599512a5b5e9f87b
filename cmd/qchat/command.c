/* SPDX-License-Identifier: ISC */
/* command.c - commands: lines that begin with a slash. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qchat.h"

enum {
	FILE_LIMIT = 1 << 28,	/* bytes of a document or a saved
				   conversation */
	PATHS_MAX = 64,		/* images that are dropped at a time */
};

/* Read a file: its *n bytes, to be freed, or NULL after a warning. */
static char *
read_file(const char *path, size_t *n)
{
	char *p = cli_try_file(path, FILE_LIMIT, n);

	if (p == NULL)
		warn("%s: %s", path, strerror(errno));
	return p;
}

static void
data(struct qchat *c, const char *path)
{
	size_t n;
	char *p;

	if (*path == '\0') {
		if (qchat_n_waiting(c) == 0)
			warn("/data: no file given");
		while (qchat_drop_document(c))
			;
	} else if ((p = read_file(path, &n)) != NULL &&
	    qchat_add_document(c, path, p, n) == 0)
		cli_protect_input(path, "a document of this conversation");
}

static int
add_image(struct qchat *c, const char *path)
{
	size_t n;
	char *p = read_file(path, &n);

	if (p == NULL || qchat_add_image(c, path, p, n) < 0)
		return -1;
	cli_protect_input(path, "an image of this conversation");
	return 0;
}

static size_t
add_images(struct qchat *c, const char *line, const char *note)
{
	char *copy = cli_format("%s", line), *path[PATHS_MAX];
	size_t n = qchat_image_paths(copy, path, PATHS_MAX), i;

	for (i = 0; i < n; i++) {
		if (add_image(c, path[i]) == 0 && note != NULL)
			cli_note("%s: %s", path[i], note);
	}
	free(copy);
	return n;
}

static void
image(struct qchat *c, const char *arg)
{
	/* a file is dropped with quotes here, too */
	if (add_images(c, arg, NULL) == 0)
		add_image(c, arg);
}

size_t
qchat_take_paths(struct qchat *c, const char *line)
{
	/* a terminal shows its note of every image */
	return add_images(c, line, isatty(STDIN_FILENO) ? NULL : "an image for "
	    "the next message");
}

static void
load(struct qchat *c, const char *path)
{
	struct qwen_messages *m;
	size_t n;
	char *p = read_file(path, &n);

	if (p == NULL)
		return;
	if (qwen_messages_read_with(&m, qchat_opt.placeholder,
	    qchat_reads_images(c), p, n, &cli_err) < 0) {
		if (cli_err.code == QWEN_ENOMEM)
			cli_die_err(path, &cli_err);
		warn("%s: %s", path, cli_err.msg);
	} else if (!qwen_messages_has_list(m)) {
		warn("%s: there is no list of messages", path);
		qwen_messages_free(m);
	} else if (qchat_load_images(c, m) < 0) {
		warn("%s: %s", path, cli_err.msg);
		qwen_messages_free(m);
	} else {
		if (qwen_messages_note(m) != NULL)
			cli_note("%s", qwen_messages_note(m));
		qwen_messages_free(c->messages);
		c->messages = m;
	}
	free(p);
}

static void
save(struct qchat *c, const char *path)
{
	struct qwen_text t = { 0 };
	struct qwen_image_source *src = qchat_image_sources(c);
	char *json;
	size_t n, said = qchat_say_documents(c);

	cli_must(NULL, qwen_messages_set_images(c->messages, src, &cli_err));
	cli_must(NULL, qwen_messages_json(c->messages, 1, &json, &n, &cli_err));
	cli_must(NULL, qwen_messages_set_images(c->messages, NULL, &cli_err));
	free(src);
	if (said > 0)
		qwen_messages_drop_last(c->messages);
	qwen_text_add(&t, json, n);
	qwen_text_add(&t, "\n", 1);
	if (cli_replace_file(path, &t, &cli_err) < 0)
		warn("%s: %s", path, cli_err.msg);
	qwen_text_fini(&t);
	free(json);
	/* a chat that loads the file then finds the state */
	if (qwen_session_n_tokens(c->session) > 0)
		tool_store_save(c->store, c->session);
}

static void
think(struct qchat *c, const char *arg)
{
	if (strcmp(arg, "on") != 0 && strcmp(arg, "off") != 0) {
		warn("/think: on or off?");
		return;
	}
	qchat_opt.think = strcmp(arg, "off") == 0;
	qchat_think(c);
	if (!qchat_model_thinks(c))
		cli_note("this model does not think: /think has no effect");
}

static void
begin_anew(struct qchat *c, const char *arg)
{
	(void)arg;
	qchat_reset(c, qwen_messages_system(c->messages));
}

static void
set_system(struct qchat *c, const char *arg)
{
	qchat_reset(c, *arg != '\0' ? arg : NULL);
}

static void
show(struct qchat *c, const char *arg)
{
	(void)arg;
	qchat_show(c);
}

static void
count(struct qchat *c, const char *arg)
{
	size_t n = 0, said = qchat_say_documents(c);

	(void)arg;
	if (qwen_messages_last_role(c->messages) != NULL &&
	    qchat_prompt(c, &n, NULL) < 0)
		warn("%s", cli_err.msg);
	else
		fprintf(stderr, "%zu of %zu tokens%s%s\n", n, c->n_ctx,
		    said > 0 ? ", with " : "", said == 0 ? "" :
		    said == 1 ? "the document for your next message" :
		    "the documents for your next message");
	if (said > 0)
		qwen_messages_drop_last(c->messages);
}

/*
 * Drop the messages after the last one of the user; 0 after a warning if there
 * is no message of the user.
 */
static int
back_to_user(struct qchat *c)
{
	const char *role;

	while ((role = qwen_messages_last_role(c->messages)) != NULL &&
	    strcmp(role, "user") != 0 && strcmp(role, "system") != 0)
		qwen_messages_drop_last(c->messages);
	if (role != NULL && strcmp(role, "user") == 0)
		return 1;
	warn("there is no message yet");
	return 0;
}

static void
undo(struct qchat *c, const char *arg)
{
	(void)arg;
	if (qchat_drop_document(c) || !back_to_user(c))
		return;
	qchat_take_back(c);
	if (qchat_n_waiting(c) > 0)
		cli_note("its document is kept for your next message; /undo "
		    "again drops it");
}

static void
retry(struct qchat *c, const char *arg)
{
	(void)arg;
	if (back_to_user(c)) {
		c->n_retries++;
		c->n_document_tokens = 0;
		qchat_reply(c);
	}
}

static void help(struct qchat *c, const char *arg);

static const struct command {
	const char	*name, *arg, *help;
	void		(*run)(struct qchat *c, const char *arg);	/* NULL:
							   leave the chat */
	int		 needs;		/* the argument is required */
} commands[] = {
	{ "/bye", NULL, "leave the chat, as Ctrl-D does", NULL, 0 },
	{ "/data", "FILE", "put a document before your next message; no file: drop them",
	  data, 0 },
	{ "/exit", NULL, "leave", NULL, 0 },
	{ "/help", NULL, "this", help, 0 },
	{ "/image", "FILE", "put an image before your next message", image, 1 },
	{ "/load", "FILE", "continue a saved conversation", load, 1 },
	{ "/quit", NULL, "leave", NULL, 0 },
	{ "/reset", NULL, "start a new conversation; the system message stays",
	    begin_anew, 0 },
	{ "/retry", NULL, "get another answer to your last message", retry, 0 },
	{ "/save", "FILE", "save the conversation, as a request for qtok "
	    "--chat", save,
	  1 },
	{ "/set", "NAME VALUE", "set a sampling option, or n; without VALUE "
	    "reset it",
	  qchat_set, 0 },
	{ "/show", NULL, "show the model and the settings", show, 0 },
	{ "/system", "TEXT", "start a new conversation with this system "
	    "message",
	  set_system, 0 },
	{ "/think", "on|off", "turn thinking on or off, if the template can",
	  think, 0 },
	{ "/tokens", NULL, "show how many tokens the conversation "
	    "has", count, 0 },
	{ "/undo", NULL, "take back a document, or your message and its answer", undo,
	  0 },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void
help(struct qchat *c, const char *arg)
{
	size_t i;

	(void)c;
	(void)arg;
	for (i = 0; i < N_COMMANDS; i++)
		fprintf(stderr, "%-8s %-10s  %s\n", commands[i].name,
		    commands[i].arg != NULL ? commands[i].arg : "",
		    commands[i].help);
	fputs("Lines between lines of \"\"\", and lines that end in \\, are "
	    "one message.\n", stderr);
}

static const char *
command_name(size_t i)
{
	return i < N_COMMANDS ? commands[i].name : NULL;
}

/* Return 1 if the line begins with this command and a blank. */
static int
begins(const char *line, size_t n, const char *command)
{
	size_t len = strlen(command);

	return n > len && memcmp(line, command, len) == 0 && line[len] == ' ';
}

int
qchat_wants_file(const char *line, size_t n)
{
	size_t i;

	for (i = 0; i < N_COMMANDS; i++) {
		if (commands[i].arg != NULL && begins(line, n,
		    commands[i].name))
			return strcmp(commands[i].arg, "FILE") == 0;
	}
	return 0;
}

const char *
qchat_word(const char *line, size_t n, size_t i, size_t *from)
{
	static const char *const onoff[] = { "on", "off", NULL };
	const char *s;

	*from = 0;
	if (memchr(line, ' ', n) == NULL)
		return command_name(i);
	*from = strlen("/think ");
	if (begins(line, n, "/think"))
		return i < 2 ? onoff[i] : NULL;
	if (!begins(line, n, "/set"))
		return NULL;
	*from = strlen("/set ");
	if ((s = memchr(line + *from, ' ', n - *from)) == NULL)
		return i == 0 ? "n" : i <= qwen_sample_n_opts() ?
		    qwen_sample_opt(i - 1)->name : NULL;
	*from = (size_t)(s - line) + 1;
	return i == 0 && begins(line + strlen("/set "), n - strlen("/set "),
	    "seed") ? "random" : NULL;
}

/* Commands of other programs, and those to use here. */
static const char *const foreign[][2] = {
	{ "/?", "/help" }, { "/h", "/help" }, { "/q", "/quit" },
	{ "/clear", "/reset" }, { "/new", "/reset" }, { "/restart", "/reset" },
	{ "/regen", "/retry" }, { "/regenerate", "/retry" },
	{ "/redo", "/retry" }, { "/pop", "/undo" }, { "/back", "/undo" },
	{ "/read", "/data FILE" }, { "/file", "/data FILE" },
	{ "/add", "/data FILE" }, { "/attach", "/data FILE" },
	{ "/context", "/tokens" }, { "/stats", "/tokens" },
	{ "/info", "/show" }, { "/settings", "/show" },
	{ "/options", "/set" }, { "/parameter", "/set NAME VALUE" },
	{ "/temp", "/set temp VALUE" }, { "/nothink", "/think off" },
	{ "/no_think", "/think off" }, { "/export", "/save FILE" },
	{ "/import", "/load FILE" }, { "/history", "/save FILE" },
	{ "/model", "qchat -m FILE: a chat has one model" },
	{ "/models", "qchat -m FILE: a chat has one model" },
	{ "/list", "qchat -m FILE: a chat has one model" },
	{ "/picture", "/image FILE" },
	{ "/multi", "lines between \"\"\" and \"\"\"" },
	{ "/multiline", "lines between \"\"\" and \"\"\"" },
};

static void
warn_unknown(const char *word)
{
	const char *see = NULL;
	size_t i;

	for (i = 0; see == NULL && i < sizeof foreign / sizeof *foreign; i++) {
		if (strcmp(word, foreign[i][0]) == 0)
			see = foreign[i][1];
	}
	if (see == NULL)
		see = cli_nearest(word, command_name);
	if (see == NULL)
		see = "/help, or begin the line with a space";
	warn("unknown command %.40s; see %s", word, see);
}

int
qchat_command(struct qchat *c, char *line)
{
	char *arg = line + strcspn(line, " ");
	size_t i, n;

	if (*arg != '\0')
		*arg++ = '\0';
	arg += strspn(arg, " ");
	for (n = strlen(arg); n > 0 && arg[n - 1] == ' '; )
		arg[--n] = '\0';
	for (i = 0; i < N_COMMANDS; i++) {
		if (strcmp(line, commands[i].name) != 0)
			continue;
		if (commands[i].run == NULL)
			return 0;
		if (*arg != '\0' || !commands[i].needs)
			commands[i].run(c, arg);
		else
			warn("%s: no file given", line);
		return 1;
	}
	warn_unknown(line);
	return 1;
}
