/* SPDX-License-Identifier: ISC */
/* qtok.c - text and chats to tokens, and back; and what replies say. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "text/request/request.h"
#include "qwen.h"
#include "qwentext.h"

enum { PROMPT = 3 };	/* of -f: no format of tokens */

/* A part of a chat, in the order of the command line. */
struct part {
	const char	*role;		/* "data": of the user, from a file */
	const char	*arg;
};

static struct opts {
	int		 documents;	/* -0 */
	int		 count;		/* -c */
	int		 decode;	/* -d */
	int		 form;		/* -f */
	enum qwen_format format;	/* the same, where it is not PROMPT */
	const char	*model;
	const char	*mark;		/* --mark, or NULL */
	unsigned	 encode_flags, decode_flags;
	int		 chat;		/* --chat */
	int		 parse;		/* --parse */
	int		 stream;	/* --stream */
	int		 thinking;	/* enum qwen_thinking, or -1 */
	const char	*template;	/* --template, or NULL */
	const char	*tools;		/* --tools, or NULL */
	int		 think;		/* --think: 0 on, 1 off, or -1 */
	struct cli_list	 stops;		/* --stop */
	struct qwen_cut	*cut;		/* the same, or NULL */
	struct part	*parts;
	size_t		 n_parts, cap_parts;
} opt = { .thinking = -1, .think = -1 };

static const char *const truth[] = { "true", "false" };	/* of --think */

static void
add_part(const struct cli_opt *row, const char *arg)
{
	struct opts *o = row->to;

	if (qwen_grow(&o->parts, &o->cap_parts, o->n_parts + 1,
	    sizeof *o->parts) < 0)
		die("out of memory");
	o->parts[o->n_parts].role = row->name;
	o->parts[o->n_parts++].arg = arg;
}

static const struct cli_opt options[] = {
	CLI_GROUP("texts:"),
	CLI_OPT_MODEL(&opt.model),
	CLI_FLAG('d', "decode", &opt.decode, "tokens to text"),
	CLI_FLAG('c', "number", &opt.count, "count the tokens"),
	CLI_FLAG('0', "null", &opt.documents,
	    "documents, each ended by a NUL; a line of tokens each"),
	CLI_OPT_FORMAT(&opt.form, "cbor text json prompt",
	    "the form of tokens; prompt is the text of a chat"),
	CLI_TEXT(0, "mark", "name", &opt.mark,
	    "a mark of this name after each document"),
	CLI_OPT_SPECIAL(&opt.encode_flags),
	CLI_SET(0, "show-special", &opt.decode_flags, QWEN_TOK_SHOW_SPECIAL,
	    "with -d, control tokens by name"),
	CLI_SET(0, "bytes", &opt.decode_flags, QWEN_TOK_BYTES,
	    "with -d, bytes as they are, UTF-8 or not"),
	CLI_LIST(0, "stop", "text", &opt.stops, NULL,
	    "with -d, end before this text; may be given again"),

	CLI_GROUP("chats:"),
	CLI_FLAG(0, "chat", &opt.chat,
	    "a chat, as a request in JSON or in parts, to tokens"),
	CLI_OPT_TEMPLATE(&opt.template),
	CLI_FILE(0, "tools", "file", &opt.tools, "file json",
	    "the tools that may be called, a list in JSON"),
	CLI_OPT_THINK(&opt.think),
	CLI_CALL(0, "system", "text", &opt, add_part, NULL,
	    "a part of the chat: what the system says"),
	CLI_CALL(0, "user", "text", &opt, add_part, NULL,
	    "what the user says"),
	CLI_CALL(0, "data", "file", &opt, add_part, "file",
	    "a document, as part of what the user says"),
	CLI_CALL(0, "assistant", "text", &opt, add_part, NULL,
	    "what the model said"),

	CLI_GROUP("replies:"),
	CLI_FLAG(0, "parse", &opt.parse,
	    "the text of a reply to a message in JSON"),
	CLI_WORD(0, "thinking", "open | closed | none",
	    CLI_P(int, &opt.thinking), "none open closed",
	    "whether the reply begins in a thinking block"),
	CLI_FLAG(0, "stream", &opt.stream, "a line for each piece, as it comes"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qtok", .about = "text and chats to tokens, and back",
	.usage = "[options] [file ...]\n-c [options] [file ...]\n"
	    "-d [options] [file ...]\n--chat [options] [file]\n"
	    "--parse [options] [file ...]",
	.options = options, .max = -1,
};

/* What goes with --parse alone, and what does not. */
static void
check_parse(const struct opts *o)
{
	if (!o->parse && (o->stream || o->thinking >= 0))
		cli_usage("--stream and --thinking go with --parse");
	if (!o->parse)
		return;
	if (o->chat || o->documents || o->count || o->decode ||
	    cli_given(&o->form) || o->mark != NULL || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--parse reads the text of a reply: not with "
		    "--chat, -0, -c, -d, -f, --mark or --special");
}

/* What goes with --chat alone, and what does not. */
static void
check_chat(const struct opts *o)
{
	if (!o->chat && o->n_parts > 0)
		cli_usage("the parts of a chat go with --chat");
	if (!o->chat && !o->parse && (o->template != NULL ||
	    o->tools != NULL || o->think >= 0))
		cli_usage("--template, --tools and --think go with --chat or "
		    "--parse");
	if (!o->chat && o->form == PROMPT)
		cli_usage("-f prompt goes with --chat");
	if (!o->chat)
		return;
	if (o->documents || o->decode || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--chat makes tokens of one request: not with -0, "
		    "-d or --special");
	if (o->form == PROMPT && (o->count || o->mark != NULL))
		cli_usage("-f prompt gives text: not with -c or --mark");
}

static void
check(struct opts *o)
{
	struct qwen_err err;

	check_parse(o);
	check_chat(o);
	if (o->count && o->decode)
		cli_usage("-c counts what is encoded: not with -d");
	if (cli_given(&o->form) && (o->count || o->decode))
		cli_usage("-f is the form of tokens: not with -%c",
		    o->count ? 'c' : 'd');
	if (o->decode && o->encode_flags != 0)
		cli_usage("--special is about text that is read; "
		    "with -d, use --show-special");
	if (!o->decode && o->decode_flags != 0)
		cli_usage("--%s goes with -d",
		    o->decode_flags & QWEN_TOK_BYTES ? "bytes" :
		    "show-special");
	if (!o->decode && o->stops.n > 0)
		cli_usage("--stop goes with -d");
	if (o->form != PROMPT)
		o->format = (enum qwen_format)o->form;
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

static void
add_stops(struct opts *o)
{
	const char *text;
	struct qwen_err err;
	size_t i;

	if (o->stops.n > 0 && qwen_cut_new(&o->cut, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; i < o->stops.n; i++) {
		text = o->stops.v[i];
		if (text[0] == '\0')
			cli_usage("--stop: an empty text is everywhere");
		if (qwen_cut_add(o->cut, text, strlen(text), &err) < 0)
			cli_die_err(NULL, &err);
	}
}

static struct qwen_gguf *
open_model(const char *model)
{
	const char *path = cli_model_path(model);
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

	if (!cli_given(&o->form))
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
	struct qwen_err err;

	if (c->cut)
		return;
	if (c->o->cut != NULL && qwen_cut_feed(c->o->cut, &s, 1, &c->cut,
	    &err) < 0)
		cli_die_err(NULL, &err);
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
		s = qwen_cut_end(c->o->cut);
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
put_part(struct qwen_messages *q, const struct part *p)
{
	int is_data = strcmp(p->role, "data") == 0;
	struct qwen_err err;
	size_t n = strlen(p->arg);
	char *text = is_data ? cli_read_file(p->arg, CLI_FILE_MAX, &n) : NULL;

	if (qwen_messages_say(q, is_data ? "user" : p->role,
	    is_data ? text : p->arg, n, 1, &err) < 0)
		cli_die_err(is_data ? p->arg : "an argument", &err);
	free(text);
}

/* A request in a file, or on stdin. */
static struct qwen_messages *
read_request(const char *path)
{
	struct qwen_messages *q;
	struct qwen_err err;
	struct input in;
	char *json;
	size_t n;

	if (strcmp(path, "-") == 0)
		cli_need_stdin();
	in = open_input(path);
	json = cli_read_fd(in.fd, in.name, CLI_FILE_MAX, &n);
	if (qwen_messages_read(&q, json, n, &err) < 0)
		cli_die_err(in.name, &err);
	free(json);
	close_input(&in);
	return q;
}

static void
set(struct qwen_messages *q, const char *key, const char *json, size_t n,
    const char *what)
{
	struct qwen_err err;

	if (qwen_messages_set(q, key, json, n, &err) < 0)
		cli_die_err(what, &err);
}

/* The request as JSON, from options or from a file. */
static char *
request(const struct opts *o, char *paths[], size_t *n)
{
	struct qwen_messages *q;
	struct qwen_err err;
	char *tools, *json;
	size_t i;

	if (o->n_parts > 0 && paths[0] != NULL)
		cli_usage("a request by options: %s is not read", paths[0]);
	if (paths[0] != NULL && paths[1] != NULL)
		cli_usage("--chat reads one request");
	if (o->n_parts == 0)
		q = read_request(paths[0] != NULL ? paths[0] : "-");
	else if (qwen_messages_new(&q, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; i < o->n_parts; i++)
		put_part(q, &o->parts[i]);
	if (o->tools != NULL) {
		tools = cli_read_file(o->tools, CLI_FILE_MAX, n);
		set(q, "tools", tools, *n, o->tools);
		free(tools);
	}
	if (o->think >= 0)
		set(q, "enable_thinking", truth[o->think],
		    strlen(truth[o->think]), "--think");
	if (qwen_messages_json(q, 0, &json, n, &err) < 0)
		cli_die_err(NULL, &err);
	qwen_messages_free(q);
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
	if (o->form == PROMPT)
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
	struct qwen_err err;
	char json[120];

	if (o->thinking >= 0)
		return (enum qwen_thinking)o->thinking;
	snprintf(json, sizeof json, "{\"messages\": [{\"role\": \"user\", "
	    "\"content\": \"\"}], \"enable_thinking\": %s}",
	    o->think >= 0 ? truth[o->think] : "null");
	if (qwen_template_render(t, json, strlen(json), &p, &err) == 0) {
		how = qwen_prompt_thinking(p);
		qwen_prompt_free(p);
	} else if (err.code == QWEN_ENOMEM)
		cli_die_err(NULL, &err);
	return how;
}

static void
put_line(char *json)
{
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
	struct qwen_text t = { 0 };

	(void)arg;
	(void)err;
	qwen_text_fmt(&t, "{\"%s\":", key[e->kind]);
	if (e->kind == QWEN_REPLY_CALL) {
		qwen_text_str(&t, "{\"name\":");
		qwen_text_json(&t, e->name.s, e->name.len);
		qwen_text_str(&t, ",\"arguments\":");
		qwen_text_add(&t, e->text.s, e->text.len);
		qwen_text_str(&t, "}");
	} else
		qwen_text_json(&t, e->text.s, e->text.len);
	qwen_text_str(&t, "}");
	if (t.failed)
		die("out of memory");
	put_line(t.s);
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
		tools = cli_read_file(o->tools, CLI_FILE_MAX,
		    &ro.n_tools);
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
	cli_begin(&tool, argc, argv);
	check(&opt);
	add_stops(&opt);
	if (opt.chat)
		chat(&opt, argv + 1);
	else if (opt.parse)
		parse_reply(&opt, argv + 1);
	else if (opt.decode)
		decode(&opt, argv + 1);
	else
		encode(&opt, argv + 1);
	free(opt.parts);
	free(opt.stops.v);
	return cli_finish();
}
