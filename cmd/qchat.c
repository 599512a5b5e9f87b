/* SPDX-License-Identifier: ISC */
/* qchat.c - a conversation: a thin shell over templates, sessions, replies. */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<editline/readline.h>)
#define EDITING 1
#include <editline/readline.h>
#else
#define EDITING 0
#endif

#include "cli/cli.h"
#include "text/request/request.h"
#include "qwen.h"
#include "qwentext.h"

static const char help[] =
    "/data FILE     a document, as part of what you say next\n"
    "/help          this\n"
    "/load FILE     go on with a conversation that was saved\n"
    "/quit          leave, as the end of the input does\n"
    "/reset         begin anew; the system's text stays\n"
    "/save FILE     the conversation, a request in JSON for qtok --chat\n"
    "/system TEXT   begin anew, with this text of the system\n"
    "/think on|off  whether to think, if the model can be told\n";

enum {
	PART = 512,		/* tokens read between two looks at Ctrl-C */
	FILE_LIMIT = 1 << 28,	/* bytes of a document, of a conversation */
};

static struct {
	const char	*model, *template, *system;
	int		 think;		/* 0: on; 1: off; -1: as the model likes */
	int64_t		 n;
	int		 n_threads, mask_unused;
	unsigned	 numerics;
} opt = { .n = INT64_MAX, .think = -1 };

struct chat {
	struct qwen_model	*model;
	struct qwen_tok		*tok;
	struct qwen_template	*template;
	struct qwen_session	*session;
	struct qwen_sampler	*sampler;
	struct qwen_pieces	*pieces;	/* what it needs; or NULL */
	struct qwen_cut		*cut;		/* answers end there */
	struct qwen_header	 header;	/* has the endings */
	struct qwen_messages	*messages;
	char			*document;	/* /data, or NULL */
	size_t			 n_document;
	int			 thought;	/* the line on stderr is open */
	int			 said;		/* there is something of a reply */
};

static volatile sig_atomic_t interrupted;

static void
on_interrupt(int sig)
{
	(void)sig;
	interrupted = 1;
}

/* ------------------------------------------------------------------- options */

static struct chat chat;

static const struct cli_opt options[] = {
	CLI_GROUP("the conversation:"),
	CLI_OPT_MODEL(&opt.model),
	CLI_OPT_TEMPLATE(&opt.template),
	CLI_TEXT(0, "system", "text", &opt.system, "begin with this system text"),
	CLI_OPT_THINK(&opt.think),
	CLI_INT('n', "count", "count", &opt.n, 0, INT64_MAX,
	    "answers of at most so many tokens"),
	CLI_OPT_MASK_UNUSED(&opt.mask_unused),
	CLI_OPT_THREADS(&opt.n_threads),
	CLI_OPT_NUMERICS(&opt.numerics),
	CLI_OPT_SAMPLING(&chat.sampler),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qchat", .about = "talk with a model", .usage = "[options]",
	.options = options,
};

/* ---------------------------------------------------------- the conversation */

static void *
got(void *p)
{
	if (p == NULL)
		die("out of memory");
	return p;
}

/* What a user or the system says; join: on top of what was said. */
static void
add_message(struct chat *c, const char *role, const char *text, size_t n,
    int join)
{
	struct qwen_err err;

	if (qwen_messages_say(c->messages, role, text, n, join, &err) < 0)
		cli_die_err(NULL, &err);
}

static void
set_thinking(struct chat *c)
{
	const char *value = opt.think == 0 ? "true" : "false";
	struct qwen_err err;

	if (opt.think >= 0 && qwen_messages_set(c->messages,
	    "enable_thinking", value, strlen(value), &err) < 0)
		cli_die_err(NULL, &err);
}

/* Begin anew; system may be NULL. */
static void
reset(struct chat *c, const char *system)
{
	struct qwen_messages *old = c->messages;
	struct qwen_err err;

	if (qwen_messages_new(&c->messages, &err) < 0)
		cli_die_err(NULL, &err);
	set_thinking(c);
	if (system != NULL)
		add_message(c, "system", system, strlen(system), 0);
	qwen_messages_free(old);
}

/* ------------------------------------------------------------- reading on */

/* Where the ids and the session part. */
static size_t
common(const struct chat *c, const int32_t *ids, size_t n)
{
	const int32_t *old = qwen_session_tokens(c->session);
	size_t have = qwen_session_n_tokens(c->session), i;

	for (i = 0; i < have && i < n && old[i] == ids[i]; i++)
		;
	return i;
}

/* Append ids in parts; 0, or -1 if Ctrl-C came in between. */
static int
read_part(struct chat *c, const int32_t *ids, size_t n)
{
	struct qwen_err err;
	size_t i, k;

	for (i = 0; i < n; i += k) {
		if (interrupted)
			return -1;
		k = n - i < PART ? n - i : PART;
		if (qwen_session_eval(c->session, ids + i, k, NULL,
		    &err) < 0)
			cli_die_eval(c->session, &err);
	}
	return 0;
}

/*
 * Bring the session to the prompt: what it has read already is not read again.
 * A recurrent state can be cut at checkpoints alone, so there is one at turn,
 * where the answer's turn begins: the next prompt has another text from there,
 * since it leaves out what was thought.
 */
static int
read_prompt(struct chat *c, const int32_t *ids, size_t n, size_t turn)
{
	size_t at = common(c, ids, n);
	struct qwen_err err;

	if (qwen_session_rewind(c->session, at, at == n, &at, &err) < 0)
		cli_die_err(NULL, &err);
	if (cli_verbose)
		cli_note("%zu tokens to read, %zu were read before", n - at,
		    at);
	if (at < turn) {
		if (read_part(c, ids + at, turn - at) < 0)
			return -1;
		at = turn;
		if (qwen_session_keep(c->session, 0, &err) < 0)
			cli_die_err(NULL, &err);
	}
	return read_part(c, ids + at, n - at);
}

/* The ids of a prompt, free(), and how many come before its last turn. */
static int32_t *
encode(struct chat *c, const struct qwen_prompt *p, size_t *n, size_t *turn)
{
	size_t len = qwen_prompt_text(p).len, last = 0, next, n_head;
	struct qwen_err err;
	int32_t *ids, *head;

	while ((next = qwen_prompt_turn(p, last + 1)) < len)
		last = next;
	if (qwen_prompt_encode(p, c->tok, 0, last, &head, &n_head, &err) < 0 ||
	    qwen_prompt_encode(p, c->tok, 0, len, &ids, n, &err) < 0)
		cli_die_err(NULL, &err);
	*turn = n_head;
	free(head);
	return ids;
}

/* ---------------------------------------------------------------- answering */

/* Thoughts are commentary, and go to stderr; the answer to stdout. */
static int
put_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	struct chat *c = arg;
	int thought = e->kind == QWEN_REPLY_REASONING;

	(void)err;
	if (c->thought && !thought && !cli_quiet)
		fputs("\n\n", stderr);
	c->thought = thought;
	c->said |= e->text.len > 0;
	if (!thought) {
		fwrite(e->text.s, 1, e->text.len, stdout);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	} else if (!cli_quiet)
		fwrite(e->text.s, 1, e->text.len, stderr);
	return 0;
}

static int
is_ending(const struct chat *c, int32_t id)
{
	size_t i;

	for (i = 0; i < c->header.n_eog; i++) {
		if (c->header.eog[i] == id)
			return 1;
	}
	return 0;
}

static int32_t
choose(struct chat *c)
{
	const struct qwen_session *s = c->session;
	struct qwen_err err;
	int32_t id;

	if (qwen_sampler_sample(c->sampler, qwen_session_logits(s), NULL,
	    qwen_model_n_vocab(c->model), qwen_session_n_tokens(s), &id,
	    &err) < 0 || qwen_sampler_accept(c->sampler, &id, 1, 1, &err) < 0)
		cli_die_err(NULL, &err);
	return id;
}

static void
begin_sampling(struct chat *c)
{
	const struct qwen_session *s = c->session;
	struct qwen_err err;

	if (qwen_sampler_begin(c->sampler, qwen_model_n_vocab(c->model),
	    &err) < 0 || qwen_sampler_accept(c->sampler,
	    qwen_session_tokens(s), qwen_session_n_tokens(s), 0, &err) < 0)
		cli_die_err(NULL, &err);
}

static void
feed(struct qwen_reply *r, struct qwen_str s)
{
	struct qwen_err err;

	if (qwen_reply_feed(r, s.s, s.len, &err) < 0)
		cli_die_err(NULL, &err);
}

/* Tokens until the turn ends, or Ctrl-C; their text goes to the reply. */
static void
generate(struct chat *c, struct qwen_reply *r)
{
	struct qwen_tok_decoder *d;
	struct qwen_err err;
	struct qwen_str s;
	int64_t n;
	int32_t id;
	int stopped = 0, cut = 0;

	begin_sampling(c);
	if (qwen_tok_decoder_new(&d, c->tok, 0, &err) < 0)
		cli_die_err(NULL, &err);
	for (n = 0; n < opt.n && !interrupted; n++) {
		id = choose(c);
		if (is_ending(c, id))
			break;
		stopped = qwen_sampler_stopped(c->sampler);
		if (qwen_tok_decoder_put(d, id, &s, &err) < 0)
			cli_die_err(NULL, &err);
		if (qwen_cut_feed(c->cut, &s, stopped, &cut, &err) < 0)
			cli_die_err(NULL, &err);
		feed(r, s);
		if (stopped)
			break;
		if (qwen_session_n_tokens(c->session) ==
		    qwen_model_n_ctx(c->model)) {
			warn("the model's context is full");
			break;
		}
		if (qwen_session_eval(c->session, &id, 1, NULL, &err) < 0)
			cli_die_eval(c->session, &err);
	}
	qwen_tok_decoder_finish(d, &s);
	if (!cut) {
		if (qwen_cut_feed(c->cut, &s, 0, &stopped, &err) < 0)
			cli_die_err(NULL, &err);
		feed(r, s);
	}
	s = qwen_cut_end(c->cut);
	if (!cut)
		feed(r, s);
	if (qwen_reply_finish(r, &err) < 0)
		cli_die_err(NULL, &err);
	qwen_tok_decoder_free(d);
}

/* The reply as the next message. */
static void
keep_reply(struct chat *c, const struct qwen_reply *r)
{
	struct qwen_err err;
	char *json;
	size_t n;

	if (qwen_reply_message(r, &json, &n, &err) < 0 ||
	    qwen_messages_add(c->messages, json, n, &err) < 0)
		cli_die_err(NULL, &err);
	free(json);
}

static int
answer(struct chat *c, enum qwen_thinking thinking)
{
	struct qwen_reply_opts o = {
		.thinking = thinking, .event = put_event, .arg = c,
	};
	struct qwen_reply *r;
	struct qwen_err err;

	c->thought = c->said = 0;
	if (qwen_reply_new(&r, c->template, &o, &err) < 0)
		cli_die_err(NULL, &err);
	generate(c, r);
	if (c->thought && !cli_quiet)
		fputs("\n", stderr);
	putchar('\n');
	if (fflush(stdout) == EOF)
		exit(cli_finish());
	if (c->said)
		keep_reply(c, r);
	qwen_reply_free(r);
	return c->said;
}

/* ------------------------------------------------------------------ one turn */

/* What is said, behind the document if there is one. */
static void
say(struct chat *c, const char *line)
{
	if (c->document != NULL)
		add_message(c, "user", c->document, c->n_document, 0);
	add_message(c, "user", line, strlen(line), c->document != NULL);
	free(c->document);
	c->document = NULL;
}

/* The prompt for the conversation, or NULL with a warning. */
static struct qwen_prompt *
render(struct chat *c)
{
	struct qwen_prompt *p;
	struct qwen_err err;
	char *json;
	size_t n;

	if (qwen_messages_json(c->messages, 0, &json, &n, &err) < 0)
		cli_die_err(NULL, &err);
	if (qwen_template_render(c->template, json, n, &p, &err) < 0)
		warn("%s", err.msg);
	free(json);
	return p;
}

static void
turn(struct chat *c, const char *line)
{
	enum qwen_thinking thinking;
	struct qwen_prompt *p;
	size_t n, at;
	int32_t *ids;

	if (qwen_utf8_check(line, strlen(line)) < strlen(line)) {
		warn("that is not UTF-8");
		return;
	}
	say(c, line);
	interrupted = 0;
	p = render(c);
	if (p == NULL) {
		qwen_messages_drop(c->messages);
		return;
	}
	thinking = qwen_prompt_thinking(p);
	ids = encode(c, p, &n, &at);
	qwen_prompt_free(p);
	if (n >= qwen_model_n_ctx(c->model)) {
		warn("the conversation has %zu tokens, the model's context "
		    "%zu; see /reset", n, qwen_model_n_ctx(c->model));
		qwen_messages_drop(c->messages);
	} else if (read_prompt(c, ids, n, at) < 0 || !answer(c, thinking))
		qwen_messages_drop(c->messages);
	free(ids);
}

/* ----------------------------------------------------------------- commands */

/* All of a file, or NULL with a warning. */
static char *
read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "rb");
	char *p = NULL;
	size_t cap = 0;

	*n = 0;
	while (f != NULL && !ferror(f) && !feof(f) && *n < FILE_LIMIT) {
		if (cap - *n < 4096)
			p = got(realloc(p, cap = 2 * cap + 65536));
		*n += fread(p + *n, 1, cap - *n, f);
	}
	if (f == NULL || ferror(f) || !feof(f)) {
		warn("%s: %s", path, f == NULL || ferror(f) ?
		    strerror(errno) : "too large");
		free(p);
		p = NULL;
	}
	if (f != NULL)
		fclose(f);
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
	struct qwen_err err;
	size_t n;
	char *p = read_file(path, &n);

	if (p == NULL)
		return;
	if (qwen_messages_read(&m, p, n, &err) < 0) {
		if (err.code == QWEN_ENOMEM)
			cli_die_err(path, &err);
		warn("%s: %s", path, err.msg);
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
		real = got(strdup(path));
	temp = got(malloc(strlen(real) + sizeof ".qpipe-tmp"));
	sprintf(temp, "%s.qpipe-tmp", real);
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
	struct qwen_err err;
	char *json;
	size_t n;

	if (qwen_messages_json(c->messages, 1, &json, &n, &err) < 0)
		cli_die_err(NULL, &err);
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
	opt.think = strcmp(arg, "off") == 0;
	set_thinking(c);
}

/* 0: to leave. */
static int
command(struct chat *c, char *line)
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
		reset(c, qwen_messages_system(c->messages));
	else if (strcmp(line, "/system") == 0)
		reset(c, *arg != '\0' ? arg : NULL);
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

/* -------------------------------------------------------------------- lines */

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
		interrupted = 0;
		line = NULL;
		cap = 0;
		if (tty)
			line = edit_line();
		else {
			len = getline(&line, &cap, stdin);
			line = whole(line, len);
		}
		if (line != NULL || !interrupted)
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

static void
talk(struct chat *c)
{
	int tty = isatty(STDIN_FILENO), more = 1;
	const char *path = tty ? history_path() : NULL;
	char *line;

	if (tty)
		begin_editing(path);
	while (more && (line = read_line(tty)) != NULL) {
		if (*line == '/')
			more = command(c, line);
		else if (*line != '\0')
			turn(c, line);
		free(line);
	}
	if (tty && more)	/* Ctrl-D leaves the prompt as it is */
		putc('\n', stderr);
	if (ferror(stdin))
		warn("stdin: %s", strerror(errno));
	if (tty)
		end_editing(path);
}

/* --------------------------------------------------------------------- main */

static void
open_template(struct chat *c)
{
	const struct qwen_gguf *g = qwen_model_gguf(c->model);
	struct qwen_err err;

	if (opt.template != NULL)
		c->template = cli_template(opt.template);
	else if (qwen_template_open_gguf(&c->template, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
}

static void
open_all(struct chat *c)
{
	const struct qwen_gguf *g;
	struct qwen_err err;
	const char *text;
	size_t i;

	c->model = cli_model_open(opt.model, opt.n_threads, opt.numerics);
	cli_tell_model(c->model);
	g = qwen_model_gguf(c->model);
	cli_header(&c->header, QWEN_STREAM_LOGITS, c->model);
	open_template(c);
	if (qwen_tok_open(&c->tok, g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE,
	    &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	if (qwen_session_new(&c->session, c->model, &err) < 0)
		cli_die_err(NULL, &err);
	if (opt.mask_unused)
		cli_mask_unused(c->sampler, g);
	c->pieces = cli_sampling_pieces(c->sampler, g);
	if (qwen_sampler_eog(c->sampler, c->header.eog, c->header.n_eog,
	    &err) < 0)
		cli_die_err(NULL, &err);
	if (qwen_cut_new(&c->cut, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; (text = qwen_sampler_text(c->sampler, "stop", i)) != NULL;
	    i++) {
		if (qwen_cut_add(c->cut, text, strlen(text), &err) < 0)
			cli_die_err(NULL, &err);
	}
}

int
main(int argc, char *argv[])
{
	struct sigaction sa = { .sa_handler = on_interrupt };
	struct chat *c = &chat;

	cli_begin(&tool, argc, argv);
	cli_sampling_check(c->sampler);
	open_all(c);
	sigaction(SIGINT, &sa, NULL);	/* a system call ends with EINTR */
	reset(c, opt.system);
	talk(c);
	cli_tell_stats(c->model);
	qwen_messages_free(c->messages);
	free(c->document);
	qwen_session_free(c->session);
	qwen_sampler_free(c->sampler);
	qwen_pieces_close(c->pieces);
	qwen_cut_free(c->cut);
	qwen_template_close(c->template);
	qwen_tok_close(c->tok);
	qwen_model_close(c->model);
	return cli_finish();
}
