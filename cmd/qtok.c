/* SPDX-License-Identifier: ISC */
/* qtok.c - text and chats to tokens, and back; and what replies say. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "qwen.h"
#include "qwentext.h"
#include "qwentext.h"
#include <yyjson.h>

static const char usage[] =
    "qtok [-0qv] [--special] [--mark name] [-f format] [-m model]\n"
    "            [file ...]\n"
    "       qtok -c [-0qv] [--special] [-m model] [file ...]\n"
    "       qtok -d [-0qv] [--bytes] [--show-special] [--stop text] [-m model]\n"
    "            [file ...]\n"
    "       qtok --chat [-cqv] [--template name] [--tools file] [--think on | off]\n"
    "            [--mark name] [-f format] [-m model] [file]\n"
    "       qtok --chat [-cqv] [--template name] [--tools file] [--think on | off]\n"
    "            [--mark name] [-f format] [-m model] [--system text]\n"
    "            [--user text] [--data file] [--assistant text] ...\n"
    "       qtok --parse [-qv] [--template name] [--thinking open | closed | none]\n"
    "            [--think on | off] [--tools file] [--stream] [-m model] [file ...]\n";

enum {
	OPT_SPECIAL = 256, OPT_SHOW_SPECIAL, OPT_BYTES, OPT_MARK, OPT_CHAT,
	OPT_TEMPLATE, OPT_TOOLS, OPT_THINK, OPT_SYSTEM, OPT_USER, OPT_DATA,
	OPT_ASSISTANT, OPT_PARSE, OPT_THINKING, OPT_STREAM, OPT_STOP,
};

static const struct cli_option options[] = {
	{ '0', "null", 0 },
	{ 'c', "number", 0 },
	{ 'd', "decode", 0 },
	{ 'f', "format", 1 },
	{ 'm', "model", 1 },
	{ OPT_SPECIAL, "special", 0 },
	{ OPT_SHOW_SPECIAL, "show-special", 0 },
	{ OPT_BYTES, "bytes", 0 },
	{ OPT_STOP, "stop", 1 },
	{ OPT_MARK, "mark", 1 },
	{ OPT_CHAT, "chat", 0 },
	{ OPT_TEMPLATE, "template", 1 },
	{ OPT_TOOLS, "tools", 1 },
	{ OPT_THINK, "think", 1 },
	{ OPT_SYSTEM, "system", 1 },
	{ OPT_USER, "user", 1 },
	{ OPT_DATA, "data", 1 },
	{ OPT_ASSISTANT, "assistant", 1 },
	{ OPT_PARSE, "parse", 0 },
	{ OPT_THINKING, "thinking", 1 },
	{ OPT_STREAM, "stream", 0 },
	{ 0, NULL, 0 },
};

/* A part of a chat, in the order of the command line. */
struct part {
	int		 option;	/* OPT_SYSTEM and so on */
	const char	*arg;
};

struct opts {
	int		 documents;	/* -0 */
	int		 count;		/* -c */
	int		 decode;	/* -d */
	const char	*form;		/* -f, or NULL */
	enum qwen_format format;
	const char	*model;
	const char	*mark;		/* --mark, or NULL */
	unsigned	 encode_flags, decode_flags;
	int		 chat;		/* --chat */
	int		 parse;		/* --parse */
	int		 stream;	/* --stream */
	const char	*thinking;	/* --thinking, or NULL */
	int		 prompt;	/* -f prompt */
	const char	*template;	/* --template, or NULL */
	const char	*tools;		/* --tools, or NULL */
	const char	*think;		/* --think: true, false, or NULL */
	struct cli_cut	*cut;		/* --stop, or NULL */
	struct part	*parts;
	size_t		 n_parts;
};

/* What goes with --parse alone, and what does not. */
static void
check_parse(const struct opts *o)
{
	if (!o->parse && (o->stream || o->thinking != NULL))
		cli_usage("--stream and --thinking go with --parse");
	if (!o->parse)
		return;
	if (o->chat || o->documents || o->count || o->decode ||
	    o->form != NULL || o->mark != NULL || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--parse reads the text of a reply: not with "
		    "--chat, -0, -c, -d, -f, --mark or --special");
	if (o->thinking != NULL && strcmp(o->thinking, "open") != 0 &&
	    strcmp(o->thinking, "closed") != 0 &&
	    strcmp(o->thinking, "none") != 0)
		cli_usage("--thinking: '%s' is none of open, closed and none",
		    o->thinking);
}

/* What goes with --chat alone, and what does not. */
static void
check_chat(const struct opts *o)
{
	if (!o->chat && o->n_parts > 0)
		cli_usage("the parts of a chat go with --chat");
	if (!o->chat && !o->parse && (o->template != NULL ||
	    o->tools != NULL || o->think != NULL))
		cli_usage("--template, --tools and --think go with --chat or "
		    "--parse");
	if (!o->chat && o->prompt)
		cli_usage("-f prompt goes with --chat");
	if (!o->chat)
		return;
	if (o->documents || o->decode || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--chat makes tokens of one request: not with -0, "
		    "-d or --special");
	if (o->prompt && (o->count || o->mark != NULL))
		cli_usage("-f prompt gives text: not with -c or --mark");
}

static void
check(struct opts *o)
{
	struct qwen_err err;

	o->prompt = o->form != NULL && strcmp(o->form, "prompt") == 0;
	check_parse(o);
	check_chat(o);
	if (o->count && o->decode)
		cli_usage("-c counts what is encoded: not with -d");
	if (o->form != NULL && (o->count || o->decode))
		cli_usage("-f is the form of tokens: not with -%c",
		    o->count ? 'c' : 'd');
	if (o->decode && o->encode_flags != 0)
		cli_usage("--special is about text that is read; "
		    "with -d, use --show-special");
	if (!o->decode && o->decode_flags != 0)
		cli_usage("--%s goes with -d",
		    o->decode_flags & QWEN_TOK_BYTES ? "bytes" :
		    "show-special");
	if (!o->decode && o->cut != NULL)
		cli_usage("--stop goes with -d");
	if (o->form != NULL && !o->prompt)
		o->format = cli_format(o->form, 1u << QWEN_FORMAT_CBOR |
		    1u << QWEN_FORMAT_TEXT | 1u << QWEN_FORMAT_JSON);
	if (o->mark == NULL)
		return;
	if (o->count || o->decode)
		cli_usage("--mark is about tokens that are written: not with "
		    "-%c", o->count ? 'c' : 'd');
	if (o->format == QWEN_FORMAT_TEXT)
		cli_usage("--mark: -f text has no place for a mark");
	if (qwen_mark_check(o->mark, strlen(o->mark), &err) < 0)
		cli_usage("--mark: %s", err.msg);
}

/* true or false for on or off. */
static const char *
on_off(const char *option, const char *arg)
{
	if (strcmp(arg, "on") == 0)
		return "true";
	if (strcmp(arg, "off") != 0)
		cli_usage("%s: '%s' is neither on nor off", option, arg);
	return "false";
}

static void
add_stop(struct opts *o, const char *text)
{
	if (text[0] == '\0')
		cli_usage("--stop: an empty text is everywhere");
	if (o->cut == NULL)
		o->cut = cli_cut_new();
	cli_cut_add(o->cut, text);
}

/* Returns the index of the first operand. */
static int
parse(struct opts *o, int argc, char *argv[])
{
	const char *arg;
	int c, operand;

	o->parts = calloc((size_t)argc, sizeof *o->parts);
	if (o->parts == NULL)
		die("out of memory");
	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1) {
		switch (c) {
		case '0': o->documents = 1; break;
		case 'c': o->count = 1; break;
		case 'd': o->decode = 1; break;
		case 'f': o->form = arg; break;
		case 'm': o->model = arg; break;
		case OPT_SPECIAL: o->encode_flags |= QWEN_TOK_SPECIAL; break;
		case OPT_SHOW_SPECIAL:
			o->decode_flags |= QWEN_TOK_SHOW_SPECIAL;
			break;
		case OPT_BYTES: o->decode_flags |= QWEN_TOK_BYTES; break;
		case OPT_STOP: add_stop(o, arg); break;
		case OPT_MARK: o->mark = arg; break;
		case OPT_CHAT: o->chat = 1; break;
		case OPT_TEMPLATE: o->template = arg; break;
		case OPT_TOOLS: o->tools = arg; break;
		case OPT_THINK: o->think = on_off("--think", arg); break;
		case OPT_PARSE: o->parse = 1; break;
		case OPT_THINKING: o->thinking = arg; break;
		case OPT_STREAM: o->stream = 1; break;
		case OPT_SYSTEM: case OPT_USER: case OPT_DATA:
		case OPT_ASSISTANT:
			o->parts[o->n_parts].option = c;
			o->parts[o->n_parts++].arg = arg;
			break;
		}
	}
	check(o);
	return operand;
}

static struct qwen_gguf *
open_model(const char *opt)
{
	const char *path = cli_model_path(opt);
	struct qwen_gguf *g;
	struct qwen_err err;

	if (qwen_gguf_open(&g, path, &err) < 0)
		cli_die_err(path, &err);
	return g;
}

static struct qwen_tok *
open_tok(const struct qwen_gguf *g, unsigned what)
{
	struct qwen_tok *t;
	struct qwen_err err;

	if (qwen_tok_open(&t, g, what, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	return t;
}

static void
report(uint64_t n_bytes, uint64_t n_tokens, double begin)
{
	if (cli_verbose)
		cli_note("%" PRIu64 " bytes, %" PRIu64 " tokens, %.3f s",
		    n_bytes, n_tokens, cli_now() - begin);
}

/* -------------------------------------------------------------- operands */

struct input {
	const char	*name;
	int		 fd;
};

/* An operand, or stdin for "-". */
static struct input
open_input(const char *path)
{
	struct input in = { "stdin", STDIN_FILENO };

	if (strcmp(path, "-") == 0)
		return in;
	in.name = path;
	in.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (in.fd < 0)
		die("%s: %s", path, strerror(errno));
	return in;
}

static void
close_input(const struct input *in)
{
	if (in->fd != STDIN_FILENO)
		close(in->fd);
}

/* Some of its bytes; 0 at the end. */
static size_t
read_some(const struct input *in, char *buf, size_t size)
{
	ssize_t n;

	do
		n = read(in->fd, buf, size);
	while (n == -1 && errno == EINTR);
	if (n == -1)
		die("%s: %s", in->name, strerror(errno));
	return (size_t)n;
}

/*
 * Each operand in turn to f.  That all are there is asked first: a stream
 * without the part in the middle would be taken for whole.
 */
static void
each(char *paths[], void (*f)(const struct input *, void *), void *arg)
{
	static char dash[] = "-", *stdin_only[] = { dash, NULL };
	struct input in;
	int i;

	if (paths[0] == NULL) {
		cli_need_stdin();
		paths = stdin_only;
	}
	for (i = 0; paths[i] != NULL; i++) {
		if (strcmp(paths[i], "-") != 0 &&
		    access(paths[i], R_OK) == -1)
			die("%s: %s", paths[i], strerror(errno));
	}
	for (i = 0; paths[i] != NULL; i++) {
		in = open_input(paths[i]);
		f(&in, arg);
		close_input(&in);
	}
}

/* ---------------------------------------------------------------- encoding */

struct encoding {
	const struct opts	*o;
	struct qwen_tok_encoder	*e;
	struct qwen_writer	*w;	/* NULL: only count */
	int			 open;	/* a document has begun */
	uint64_t		 n;	/* tokens of the document */
	uint64_t		 n_bytes, n_tokens;
};

static void
put_ids(struct encoding *c, const int32_t *ids, size_t n)
{
	struct qwen_err err;

	c->n += n;
	c->n_tokens += n;
	if (c->w != NULL && n > 0 &&
	    qwen_write_tokens(c->w, ids, n, &err) < 0)
		cli_die_err("stdout", &err);
}

static void
put_mark(struct encoding *c)
{
	struct qwen_err err;

	if (qwen_write_mark(c->w, c->o->mark, &err) < 0)
		cli_die_err("stdout", &err);
}

static void
end_document(struct encoding *c)
{
	const int32_t *ids;
	struct qwen_err err;
	size_t n;

	if (qwen_tok_encoder_finish(c->e, &ids, &n, &err) < 0)
		cli_die_err(NULL, &err);
	put_ids(c, ids, n);
	if (c->o->mark != NULL)
		put_mark(c);
	if (c->w == NULL)
		printf("%" PRIu64 "\n", c->n);
	else if (c->o->documents && qwen_write_end(c->w, &err) < 0)
		cli_die_err("stdout", &err);
	c->open = 0;
	c->n = 0;
}

static void
put_text(struct encoding *c, const char *p, size_t n)
{
	const int32_t *ids;
	struct qwen_err err;
	size_t n_ids;

	if (n == 0)
		return;
	if (qwen_tok_encoder_feed(c->e, p, n, &ids, &n_ids, &err) < 0)
		cli_die_err(NULL, &err);
	put_ids(c, ids, n_ids);
	c->open = 1;
}

/* Text in which a NUL ends a document. */
static void
put_documents(struct encoding *c, const char *p, size_t n)
{
	const char *nul;

	while (n > 0 && (nul = memchr(p, '\0', n)) != NULL) {
		put_text(c, p, (size_t)(nul - p));
		end_document(c);
		n -= (size_t)(nul - p) + 1;
		p = nul + 1;
	}
	put_text(c, p, n);
}

/* Whoever waits for what is known so far gets it before we wait. */
static void
flush(struct encoding *c)
{
	struct qwen_err err;

	if (c->w == NULL) {
		if (fflush(stdout) == EOF)
			exit(cli_finish());
	} else if (qwen_writer_flush(c->w, &err) < 0)
		cli_die_err("stdout", &err);
}

static void
encode_input(const struct input *in, void *arg)
{
	static char buf[1 << 16];
	struct encoding *c = arg;
	size_t n;

	/* what there is goes on its way before more is waited for */
	while (flush(c), (n = read_some(in, buf, sizeof buf)) > 0) {
		c->n_bytes += n;
		if (c->o->documents)
			put_documents(c, buf, n);
		else
			put_text(c, buf, n);
	}
}

/* The stream begins with its header at once, so that the reader can, too. */
static struct qwen_writer *
start_stream(const struct opts *o, const struct qwen_gguf *g)
{
	struct qwen_writer_opts wo = {
		.format = o->format, .lines = o->documents, .buffered = 1,
	};
	struct qwen_header h;
	struct qwen_writer *w;
	struct qwen_err err;

	if (o->form == NULL)
		cli_no_binary_tty();
	if (qwen_header_init(&h, QWEN_STREAM_TOKENS, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	if (qwen_writer_open(&w, STDOUT_FILENO, &wo, &err) < 0 ||
	    qwen_write_header(w, &h, &err) < 0)
		cli_die_err("stdout", &err);
	return w;
}

static void
encode(const struct opts *o, char *paths[])
{
	struct qwen_gguf *g = open_model(o->model);
	struct qwen_tok *t = open_tok(g, QWEN_TOK_ENCODE);
	struct encoding c = { .o = o };
	struct qwen_err err;
	double begin = cli_now();

	if (qwen_tok_encoder_new(&c.e, t, o->encode_flags, &err) < 0)
		cli_die_err(NULL, &err);
	if (!o->count)
		c.w = start_stream(o, g);
	each(paths, encode_input, &c);
	if (c.open || !o->documents)
		end_document(&c);
	if (qwen_writer_close(c.w, &err) < 0)
		cli_die_err("stdout", &err);
	report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_encoder_free(c.e);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}

/* ---------------------------------------------------------------- decoding */

struct decoding {
	const struct opts	*o;
	struct qwen_tok_decoder	*d;
	struct qwen_header	 self;
	int			 open;	/* a document has begun */
	int			 cut;	/* and has ended at a text of --stop */
	uint64_t		 n_bytes, n_tokens;
};

static void
put_str(struct decoding *c, struct qwen_str s)
{
	if (c->o->cut != NULL && !c->cut)
		s = cli_cut_feed(c->o->cut, &s, 1, &c->cut);
	else if (c->cut)
		return;
	if (s.len > 0)
		fwrite(s.s, 1, s.len, stdout);
	c->n_bytes += s.len;
}

static void
finish_text(struct decoding *c)
{
	struct qwen_str s;

	qwen_tok_decoder_finish(c->d, &s);
	put_str(c, s);
	if (c->o->cut != NULL) {
		s = cli_cut_end(c->o->cut);
		if (!c->cut && s.len > 0)
			fwrite(s.s, 1, s.len, stdout);
	}
	if (c->o->documents)
		putchar('\0');
	c->open = c->cut = 0;
}

static void
put_tokens(struct decoding *c, const struct input *in,
    const struct qwen_record *rec)
{
	struct qwen_str s;
	struct qwen_err err;
	size_t i;

	for (i = 0; i < rec->n; i++) {
		if (qwen_tok_decoder_put(c->d, rec->ids[i], &s, &err) < 0) {
			fflush(stdout);
			cli_die_err(in->name, &err);
		}
		put_str(c, s);
	}
	c->n_tokens += rec->n;
	c->open = 1;
}

static void
decode_input(const struct input *in, void *arg)
{
	struct decoding *c = arg;
	struct qwen_reader_opts ro = {
		.kinds = QWEN_STREAM_TOKENS, .self = &c->self,
		.lines = c->o->documents,
	};
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_err err;
	int got;

	if (qwen_reader_open(&r, in->fd, &ro, &err) < 0)
		cli_die_err(in->name, &err);
	while ((got = qwen_reader_next(r, &rec, &err)) > 0) {
		if (rec.kind == QWEN_REC_TOKENS)
			put_tokens(c, in, &rec);
		else if (rec.kind == QWEN_REC_END)
			finish_text(c);
		if (fflush(stdout) == EOF)
			exit(cli_finish());
		/* nothing that comes can be a part of the text any more */
		if (c->cut && !c->o->documents)
			break;
	}
	if (got < 0)
		cli_die_err(in->name, &err);
	qwen_reader_close(r);
}

static void
decode(const struct opts *o, char *paths[])
{
	struct qwen_gguf *g = open_model(o->model);
	struct qwen_tok *t = open_tok(g, QWEN_TOK_DECODE);
	struct decoding c = { .o = o };
	double begin = cli_now();
	struct qwen_err err;

	if (qwen_header_init(&c.self, QWEN_STREAM_TOKENS, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	if (qwen_tok_decoder_new(&c.d, t, o->decode_flags, &err) < 0)
		cli_die_err(NULL, &err);
	each(paths, decode_input, &c);
	if (c.open || !o->documents)
		finish_text(&c);
	report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_decoder_free(c.d);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}

/* -------------------------------------------------------------------- chat */

/* By name, from a file if the name has a slash, else the model's own. */
static struct qwen_template *
open_template(const struct opts *o)
{
	struct qwen_template *t;
	struct qwen_gguf *g;
	struct qwen_err err;

	if (o->template != NULL)
		return cli_template(o->template);
	g = open_model(o->model);
	if (qwen_template_open_gguf(&t, g, &err) < 0)
		cli_die_err(qwen_gguf_path(g, 0), &err);
	qwen_gguf_close(g);
	return t;
}

/* Tools that the template has no word for would be lost without one, too. */
static void
check_tools(const struct opts *o, const struct qwen_template *t)
{
	if (o->tools != NULL && !qwen_template_calls(t))
		cli_note("the template does not say how tools are called");
}

static void
add_part(struct cli_request *q, const struct part *p)
{
	const char *role = p->option == OPT_SYSTEM ? "system" :
	    p->option == OPT_ASSISTANT ? "assistant" : "user";
	char *text;
	size_t n;

	if (p->option != OPT_DATA) {
		cli_request_add(q, role, p->arg, strlen(p->arg), "an argument");
		return;
	}
	text = cli_read_file(p->arg, &n);
	cli_request_add(q, role, text, n, p->arg);
	free(text);
}

/* The request as JSON, from options or from a file. */
static char *
request(const struct opts *o, char *paths[], size_t *n)
{
	struct cli_request *q;
	struct input in;
	char *tools, *json;
	size_t i;

	if (o->n_parts > 0) {
		if (paths[0] != NULL)
			cli_usage("a request by options: %s is not read",
			    paths[0]);
		q = cli_request_new();
		for (i = 0; i < o->n_parts; i++)
			add_part(q, &o->parts[i]);
	} else {
		if (paths[0] != NULL && paths[1] != NULL)
			cli_usage("--chat reads one request");
		if (paths[0] == NULL || strcmp(paths[0], "-") == 0)
			cli_need_stdin();
		in = open_input(paths[0] != NULL ? paths[0] : "-");
		q = cli_request_read(in.fd, in.name);
		close_input(&in);
	}
	if (o->tools != NULL) {
		tools = cli_read_file(o->tools, n);
		cli_request_set(q, "tools", tools, *n, o->tools);
		free(tools);
	}
	if (o->think != NULL)
		cli_request_set(q, "enable_thinking", o->think,
		    strlen(o->think), "--think");
	json = cli_request_json(q, n);
	cli_request_free(q);
	return json;
}

/*
 * Where those who go back will go back to: behind the system's turn, which
 * other chats share, and before the last turn, where the next request for this
 * chat may first differ.  Returns how many, in order.
 */
static size_t
places(const struct qwen_prompt *p, size_t at[2])
{
	struct qwen_str s = qwen_prompt_text(p);
	size_t first = qwen_prompt_turn(p, 0), last = first, next, n = 0;
	static const char system[] = "<|im_start|>system";

	if (first == 0 && s.len >= sizeof system &&
	    memcmp(s.s, system, sizeof system - 1) == 0)
		at[n++] = qwen_prompt_turn(p, 1);
	while (last < s.len && (next = qwen_prompt_turn(p, last + 1)) < s.len)
		last = next;
	if (last > 0 && (n == 0 || last > at[0]))
		at[n++] = last;
	return n > 0 && at[n - 1] == s.len ? n - 1 : n;
}

/* The tokens, with marks if they are wanted. */
static void
put_prompt(struct encoding *c, const struct qwen_prompt *p,
    const struct qwen_tok *t)
{
	size_t at[3], n = c->o->mark != NULL ? places(p, at) : 0, i, n_ids;
	size_t from = 0;
	struct qwen_err err;
	int32_t *ids;

	at[n] = qwen_prompt_text(p).len;
	for (i = 0; i <= n; from = at[i++]) {
		if (qwen_prompt_encode(p, t, from, at[i], &ids, &n_ids,
		    &err) < 0)
			cli_die_err(NULL, &err);
		put_ids(c, ids, n_ids);
		free(ids);
		if (i < n)
			put_mark(c);
	}
}

static void
encode_prompt(const struct opts *o, const struct qwen_prompt *p)
{
	struct qwen_gguf *g = open_model(o->model);
	struct qwen_tok *t = open_tok(g, QWEN_TOK_ENCODE);
	struct encoding c = { .o = o, .n_bytes = qwen_prompt_text(p).len };
	double begin = cli_now();
	struct qwen_err err;

	if (!o->count)
		c.w = start_stream(o, g);
	put_prompt(&c, p, t);
	if (o->count)
		printf("%" PRIu64 "\n", c.n);
	if (qwen_writer_close(c.w, &err) < 0)
		cli_die_err("stdout", &err);
	report(c.n_bytes, c.n_tokens, begin);
	qwen_tok_close(t);
	qwen_gguf_close(g);
}

static void
chat(const struct opts *o, char *paths[])
{
	struct qwen_template *t = open_template(o);
	struct qwen_prompt *p;
	struct qwen_err err;
	struct qwen_str s;
	size_t n;
	char *json = request(o, paths, &n);

	check_tools(o, t);
	if (qwen_template_render(t, json, n, &p, &err) < 0)
		cli_die_err(NULL, &err);
	free(json);
	qwen_template_close(t);
	s = qwen_prompt_text(p);
	if (o->prompt)
		fwrite(s.s, 1, s.len, stdout);
	else
		encode_prompt(o, p);
	qwen_prompt_free(p);
}

/* ------------------------------------------------------------------- replies */

/* As --thinking says; else as the prompt of a chat with the template ends. */
static enum qwen_thinking
thinking(const struct opts *o, const struct qwen_template *t)
{
	enum qwen_thinking how = QWEN_THINKING_NONE;
	struct qwen_prompt *p;
	char json[120];

	if (o->thinking != NULL)
		return strcmp(o->thinking, "open") == 0 ?
		    QWEN_THINKING_OPEN : strcmp(o->thinking, "closed") == 0 ?
		    QWEN_THINKING_CLOSED : QWEN_THINKING_NONE;
	snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", "
	    "\"content\": \"\"}], \"enable_thinking\": %s}",
	    o->think != NULL ? o->think : "null");
	if (qwen_template_render(t, json, strlen(json), &p, NULL) == 0) {
		how = qwen_prompt_thinking(p);
		qwen_prompt_free(p);
	}
	return how;
}

static void
put_line(char *json)
{
	if (json == NULL)
		die("out of memory");
	puts(json);
	free(json);
	if (fflush(stdout) == EOF)
		exit(cli_finish());
}

/* --stream: a line for each piece. */
static int
put_event(void *arg, const struct qwen_reply_event *e, struct qwen_err *err)
{
	static const char *const key[] = {
		"reasoning", "content", "tool_call", "unparsed",
	};
	yyjson_mut_doc *doc = yyjson_mut_doc_new(NULL);
	yyjson_mut_val *root = yyjson_mut_obj(doc), *call;

	(void)arg;
	(void)err;
	yyjson_mut_doc_set_root(doc, root);
	if (e->kind == QWEN_REPLY_CALL) {
		call = yyjson_mut_obj_add_obj(doc, root, key[e->kind]);
		yyjson_mut_obj_add_strncpy(doc, call, "name", e->name.s,
		    e->name.len);
		yyjson_mut_obj_add_val(doc, call, "arguments",
		    yyjson_mut_rawncpy(doc, e->text.s, e->text.len));
	} else
		yyjson_mut_obj_add_strncpy(doc, root, key[e->kind],
		    e->text.s, e->text.len);
	put_line(yyjson_mut_write(doc, 0, NULL));
	yyjson_mut_doc_free(doc);
	return 0;
}

static void
parse_input(const struct input *in, void *arg)
{
	static char buf[1 << 16];
	struct qwen_reply *r = arg;
	struct qwen_err err;
	size_t n;

	while ((n = read_some(in, buf, sizeof buf)) > 0) {
		if (qwen_reply_feed(r, buf, n, &err) < 0)
			cli_die_err(in->name, &err);
	}
}

static void
parse_reply(const struct opts *o, char *paths[])
{
	struct qwen_template *t = open_template(o);
	struct qwen_reply_opts ro = {
		.thinking = thinking(o, t),
		.event = o->stream ? put_event : NULL,
	};
	struct qwen_reply *r;
	struct qwen_err err;
	char *tools = NULL, *json;
	size_t n;

	check_tools(o, t);
	if (o->tools != NULL)
		tools = cli_read_file(o->tools, &ro.n_tools);
	ro.tools = tools;
	if (qwen_reply_new(&r, t, &ro, &err) < 0)
		cli_die_err(o->tools, &err);
	each(paths, parse_input, r);
	if (qwen_reply_finish(r, &err) < 0 || (!o->stream &&
	    qwen_reply_message(r, &json, &n, &err) < 0))
		cli_die_err(NULL, &err);
	if (!o->stream)
		put_line(json);
	qwen_reply_free(r);
	qwen_template_close(t);
	free(tools);
}

int
main(int argc, char *argv[])
{
	struct opts o = { 0 };
	int operand;

	cli_init("qtok", usage);
	operand = parse(&o, argc, argv);
	if (o.chat)
		chat(&o, argv + operand);
	else if (o.parse)
		parse_reply(&o, argv + operand);
	else if (o.decode)
		decode(&o, argv + operand);
	else
		encode(&o, argv + operand);
	free(o.parts);
	return cli_finish();
}
