/* SPDX-License-Identifier: ISC */
/* qtok.c - convert text and chats to tokens and back; parse replies. */
#include <string.h>

#include "qtok/qtok.h"

static struct qtok_opts opt = { .thinking = -1, .think = -1 };

static void
add_message(const struct cli_opt *row, const char *arg)
{
	struct qtok_opts *o = row->to;

	cli_grow(&o->messages, &o->cap_messages, o->n_messages + 1,
	    sizeof *o->messages);
	o->messages[o->n_messages++] = (struct qtok_message){ .role = row->name,
	    .arg = arg };
}

static const struct cli_opt options[] = {
	CLI_GROUP("texts:"),
	TOOL_OPT_MODEL(&opt.model),
	CLI_FLAG('d', "decode", &opt.decode, "convert tokens to text"),
	CLI_FLAG('c', "number", &opt.count,
	    "print the number of tokens; with -d, of the tokens read"),
	CLI_FLAG('0', "null", &opt.documents,
	    "input is documents ended by NUL; one line of tokens per document"),
	CLI_OPT_FORMAT(&opt.form, "cbor text json prompt",
	    "format of tokens; prompt prints the text of the chat"),
	CLI_FLAG(0, "fim", &opt.fim,
	    "fill in the middle: make a prompt of the text around a gap"),
	CLI_TEXT(0, "mark", "name", &opt.mark,
	    "write a mark of this name after each document"),
	CLI_OPT_SPECIAL(&opt.encode_flags),
	TOOL_OPT_BOS,
	TOOL_OPT_NFC,
	CLI_FLAG(0, "force", &opt.force,
	    "accept models, streams and archives as text"),
	CLI_SET(0, "show-special", &opt.decode_flags, QWEN_TOK_SHOW_SPECIAL,
	    "with -d: print control tokens by name"),
	CLI_SET(0, "bytes", &opt.decode_flags, QWEN_TOK_BYTES,
	    "with -d: print bytes as they are, even if not UTF-8"),
	CLI_LIST(0, "stop", "text", &opt.stops, NULL,
	    "with -d: end before this text; repeatable"),

	CLI_GROUP("chats:"),
	CLI_FLAG(0, "chat", &opt.chat,
	    "convert a chat, a JSON request or the parts below, to tokens"),
	CLI_OPT_TEMPLATE(&opt.template),
	TOOL_OPT_SYSTEMS(&opt.systems),
	TOOL_OPT_PLACEHOLDER(&opt.placeholder),
	CLI_FILE(0, "tools", "file", &opt.tools, "file json",
	    "JSON list of the tools that the model may call"),
	CLI_OPT_THINK(&opt.think),
	TOOL_OPT_EFFORT,
	CLI_CALL(0, "system", "text", &opt, add_message, NULL,
	    "add a system message to the chat"),
	CLI_CALL(0, "user", "text", &opt, add_message, NULL,
	    "add a user message"),
	CLI_CALL(0, "data", "file", &opt, add_message, "file",
	    "add a document to the user's message"),
	CLI_CALL(0, "image", "file", &opt, add_message, "file",
	    "add an image to the user's message; -: the images that qimage "
	    "wrote"),
	TOOL_OPT_IMAGE_ENCODER(&opt.images),
	TOOL_OPT_IMAGE_DIR(&opt.image_dir),
	CLI_INT('t', "threads", "threads", &opt.images.n_threads, 0, 1024,
	    "threads that encode images; 0: one per processor or core "
	    "(default 0)"),
	CLI_CALL(0, "assistant", "text", &opt, add_message, NULL,
	    "add an earlier answer of the model"),

	CLI_GROUP("replies:"),
	CLI_FLAG(0, "parse", &opt.parse,
	    "convert the text of a reply to a message in JSON"),
	CLI_WORD(0, "thinking", "open | closed | none",
	    CLI_P(int, &opt.thinking), "none open closed",
	    "with --parse: whether the reply begins inside a thinking block"),
	TOOL_OPT_STRICT_CALLS(&opt.strict_calls),
	CLI_FLAG(0, "stream", &opt.stream, "with --parse: print a line for "
	    "each piece as it arrives"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qtok", .about = "convert text and chats to tokens, and back",
	.usage = "[options] [file ...]\n-c [options] [file ...]\n"
	    "-d [options] [file ...]\n--fim [options] prefix suffix [file ...]\n"
	    "--chat [options] [file]\n"
	    "--parse [options] [file ...]",
	.options = options, .max = -1,
};

/* Exit with an error for options that need --parse, or exclude it. */
static void
check_parse(const struct qtok_opts *o)
{
	if (!o->parse && (o->stream || o->thinking >= 0 || o->strict_calls))
		cli_usage("--stream, --thinking and --strict-calls need "
		    "--parse");
	if (!o->parse)
		return;
	if (o->chat || o->documents || o->count || o->decode ||
	    cli_given(&o->form) || o->mark != NULL || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--parse reads the text of a reply: not with "
		    "--chat, -0, -c, -d, -f, --mark or --special");
}

/* Exit with an error for options that need --chat, or exclude it. */
static void
check_chat(const struct qtok_opts *o)
{
	if (!o->chat && o->n_messages > 0)
		cli_usage("parts of a chat (--system, --user, ...) need "
		    "--chat");
	/* alias options that have no effect are no error */
	if (!o->chat && !o->parse && (cli_given(&o->template) > 0 ||
	    o->tools != NULL || cli_given(&o->think) > 0))
		cli_usage("--template, --tools and --think need --chat or "
		    "--parse");
	if (!o->chat && !o->parse && (cli_given(&tool_effort.level) > 0 ||
	    tool_effort.high != NULL))
		cli_usage("--effort and --effort-high need --chat or --parse");
	if (!o->chat && (cli_given(&o->systems) || o->placeholder != NULL))
		cli_usage("--system-messages and --image-placeholder need "
		    "--chat");
	if (!o->chat && tool_effort.date != NULL)
		cli_usage("--date needs --chat");
	if (!o->chat && o->form == QTOK_PROMPT)
		cli_usage("-f prompt needs --chat");
	if (!o->chat && (o->images.mmproj != NULL || o->images.max_tokens > 0 ||
	    o->images.n_threads > 0 || o->image_dir != NULL))
		cli_usage("--mmproj, --image-max-tokens, --image-dir and -t "
		    "need --chat");
	if (!o->chat)
		return;
	if (o->documents || o->decode || o->encode_flags != 0 ||
	    o->decode_flags != 0)
		cli_usage("--chat makes tokens of one request: not with -0, -d "
		    "or --special");
	if (o->form == QTOK_PROMPT && (o->count || o->mark != NULL))
		cli_usage("-f prompt prints text: not with -c or --mark");
}

static void
check_images(const struct qtok_opts *o)
{
	size_t i, n = 0, n_stdin = 0;

	for (i = 0; i < o->n_messages; i++) {
		if (strcmp(o->messages[i].role, "image") != 0)
			continue;
		n++;
		n_stdin += strcmp(o->messages[i].arg, "-") == 0;
	}
	if (n_stdin > 1)
		cli_usage("--image -: stdin has one stream of images; give it "
		    "once");
	if (o->n_messages > 0 && (n == 0 && o->images.mmproj != NULL))
		cli_usage("--mmproj needs --image");
	if (o->n_messages > 0 && o->image_dir != NULL)
		cli_usage("--image-dir is for the images of a request");
	if (n > 0 && !o->count && o->format == QWEN_FORMAT_TEXT)
		cli_usage("--image: -f text cannot hold images; use cbor or "
		    "json");
}

static void
check_fim(const struct qtok_opts *o, char *paths[])
{
	if (!o->fim)
		return;
	if (o->chat || o->parse || o->documents || o->decode ||
	    o->encode_flags != 0)
		cli_usage("--fim makes tokens of one prompt: not with --chat, "
		    "--parse, -0, -d or --special");
	if (paths[0] == NULL || paths[1] == NULL)
		cli_usage("--fim needs two files: the text before the gap, and "
		    "the text after it");
}

static void
check(struct qtok_opts *o)
{
	check_parse(o);
	check_chat(o);
	if (o->force && (o->chat || o->parse || o->decode))
		cli_usage("--force applies to text: not with --chat, --parse "
		    "or -d");
	if (o->count && (o->decode_flags != 0 || o->stops.n > 0))
		cli_usage("-c prints only a number: not with --%s",
		    o->stops.n > 0 ? "stop" : o->decode_flags &
		    QWEN_TOK_BYTES ? "bytes" : "show-special");
	if (tool_bos() != QWEN_BOS_FILE && (o->decode || o->parse))
		cli_usage("--bos and --no-bos apply to new tokens: not with %s",
		    o->decode ? "-d" : "--parse");
	if (cli_given(&o->form) && (o->count || o->decode))
		cli_usage("-f is the format of tokens: not with -%c",
		    o->count ? 'c' : 'd');
	if (o->decode && o->encode_flags != 0)
		cli_usage("--special applies to text: with -d, use "
		    "--show-special");
	if (!o->decode && o->decode_flags != 0)
		cli_usage("--%s needs -d", o->decode_flags & QWEN_TOK_BYTES ?
		    "bytes" : "show-special");
	if (!o->decode && o->stops.n > 0)
		cli_usage("--stop needs -d");
	if (o->form != QTOK_PROMPT)
		o->format = (enum qwen_format)o->form;
	check_images(o);
	if (o->mark == NULL)
		return;
	if (o->count || o->decode)
		cli_usage("--mark applies to written tokens: not with -%c",
		    o->count ? 'c' : 'd');
	if (o->format == QWEN_FORMAT_TEXT)
		cli_usage("--mark: -f text cannot hold marks; use cbor or "
		    "json");
	if (qwen_mark_check(o->mark, strlen(o->mark), &cli_err) < 0)
		cli_usage("--mark: %s", cli_err.msg);
}

int
main(int argc, char *argv[])
{
	size_t i;

	cli_begin(&tool, argc, argv);
	check(&opt);
	check_fim(&opt, argv + 1);
	for (i = 0; i < opt.stops.n; i++)
		tool_stop_at(&opt.cut, opt.stops.v[i]);
	(opt.fim ? qtok_fim : opt.chat ? qtok_chat : opt.parse ? qtok_parse :
	    opt.decode ? qtok_decode : qtok_encode)(&opt, argv + 1);
	return cli_finish();
}
