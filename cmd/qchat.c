/* SPDX-License-Identifier: ISC */
/* qchat.c - hold a conversation with a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qchat/qchat.h"
#include "tool/foreign.h"

enum { DOCUMENT_MAX = 1 << 28 };	/* bytes */

static struct qchat chat = { .draft = { .mode = QWEN_DRAFT_AUTO } };

static const struct cli_opt options[] = {
	CLI_GROUP("the conversation:"),
	TOOL_OPT_MODEL(&qchat_opt.model),
	CLI_OPT_TEMPLATE(&qchat_opt.template),
	TOOL_OPT_BOS,
	TOOL_OPT_SYSTEMS(&qchat_opt.systems),
	TOOL_OPT_PLACEHOLDER(&qchat_opt.placeholder),
	CLI_TEXT(0, "system", "text", &qchat_opt.system,
	    "start with this system message"),
	CLI_LIST(0, "data", "file", &qchat_opt.data, "file",
	    "start with this document or image; repeatable"),
	TOOL_OPT_IMAGE_ENCODER(&qchat_opt.images),
	TOOL_OPT_IMAGE_FOLDER(&qchat_opt.images),
	CLI_OPT_THINK(&qchat_opt.think),
	TOOL_OPT_EFFORT,
	TOOL_OPT_NFC,
	CLI_FLAG(0, "hide-thinking", &qchat_opt.hide_thinking,
	    "do not print the model's thinking"),
	CLI_INT('n', "count", "count", &qchat_opt.n, 0, INT64_MAX,
	    "at most COUNT tokens per answer"),
	CLI_FLAG(0, "shift", &qchat_opt.shift,
	    "when the context is full, drop the oldest messages"),
	TOOL_OPT_MASK_UNUSED(&qchat_opt.mask_unused),
	CLI_OPT_THREADS(&qchat_opt.n_threads),
	TOOL_OPT_DEVICE,
	TOOL_OPT_NUMERICS(&qchat_opt.numerics),
	TOOL_OPT_QUANTIZE,
	TOOL_OPT_KV,
	TOOL_OPT_LORA,
	TOOL_OPT_ROPE,
	TOOL_OPT_DRAFT(&chat.draft),
	CLI_BYTES(0, "mem", "size", &qchat_opt.mem, 1,
	    "limit of memory for cache and state, as in 20G"),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	TOOL_OPT_STORE(&qchat_opt.store),
	TOOL_OPT_SAMPLING(&chat.options),
	CLI_END,
};

/* Hints for options of llama.cpp, Ollama and llm. */
static const char question[] = "the question is an argument: qchat 'question'";
static const char server[] = "qchat is not a server: use qserve --listen";

static const struct cli_foreign foreign[] = {
	TOOL_FOREIGN,
	{ "context", TOOL_HINT_CONTEXT }, { "p", question },
	{ "prompt", question }, { "e", question }, { "i", TOOL_HINT_ALWAYS },
	{ "cnv", TOOL_HINT_ALWAYS }, { "conversation", TOOL_HINT_ALWAYS },
	{ "interactive", TOOL_HINT_ALWAYS },
	{ "color", "thoughts are dim at a terminal, unless NO_COLOR is set" },
	{ "nowordwrap", TOOL_HINT_ALWAYS }, { "port", server },
	{ "host", server }, { "listen", server }, { "f", "--data FILE" },
	{ "file", "--data FILE" }, { "a", "--data FILE" },
	{ "attachment", "--data FILE" }, { "image", "--data FILE" },
	{ "s", "--system" }, { "sys", "--system" }, { "no-think", "--think off" },
	{ "nothink", "--think off" }, { "hidethinking", "--hide-thinking" },
	{ "prompt-cache", "--store FOLDER" },
	{ NULL, NULL },
};

static const struct cli_tool tool = {
	.name = "qchat", .about = "chat with a model",
	.usage = "[options] [image ...]\n"
	    "[options] [image ...] question [<document]",
	.options = options, .max = -1, .completes = "file",
	.foreign = foreign,
};

/*
 * Handle Ctrl-C: the first one stops the answer, a second one before that took
 * effect ends the program.
 */
static void
on_interrupt(int sig)
{
	static const char end[] = "\033[0m\n";

	if (qchat_interrupted++ == 0)
		return;
	qchat_echo_on();
	if (qchat_plain[0] != '\0' &&
	    write(STDERR_FILENO, end, sizeof end - 1) == -1)
		_exit(1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void
open_template(struct qchat *c)
{
	const struct qwen_gguf *g = qwen_model_gguf(c->model);

	if (qchat_opt.template != NULL)
		c->template = tool_template(qchat_opt.template);
	else
		cli_must(qwen_gguf_path(g, 0),
		    qwen_template_open_gguf(&c->template, g, &cli_err));
	tool_template_set(c->template, g);
	qwen_template_set_systems(c->template, qchat_opt.systems);
}

/*
 * Open a cache and a session; set the number of tokens that fit into the cache.
 */
static void
open_session(struct qchat *c)
{
	size_t least = 0, most = qwen_model_n_ctx(c->model), n;

	c->cache = tool_cache_open(c->model, &qchat_opt.mem,
	    (struct tool_need){ .n_tokens = most, .draft = &c->draft });
	while (least < most) {
		n = most - (most - least) / 2;
		if (qchat_opt.mem == 0 ||
		    qwen_cache_need(c->model, n) <= qchat_opt.mem)
			least = n;
		else
			most = n - 1;
	}
	c->n_ctx = least;
	cli_must(NULL, qwen_session_new_in(&c->session, c->cache, &cli_err));
}

static void
open_all(struct qchat *c)
{
	const struct qwen_gguf *g;

	c->model = tool_model_open_draft(qchat_opt.model,
	    qchat_opt.n_threads, qchat_opt.numerics, &c->draft);
	tool_report_model(c->model);
	open_session(c);
	g = qwen_model_gguf(c->model);
	tool_header_init(&c->header, QWEN_STREAM_LOGITS, c->model);
	open_template(c);
	c->tok = tool_tok_open(g, QWEN_TOK_ENCODE | QWEN_TOK_DECODE);
	qchat_image_init(c);
	tool_draft_open(&c->draft, c->model);
	cli_must(NULL, qwen_drafter_new(&c->drafter, c->draft.drafts,
	    &cli_err));
	if (qchat_opt.mask_unused)
		tool_mask_unused(c->options, g);
	c->pieces = tool_sampling_pieces(c->options, g);
	cli_must(NULL, qwen_sampler_eog(c->options, c->header.eog,
	    c->header.n_eog, &cli_err));
	qchat_stops(c);
	c->store = tool_store_open(&qchat_opt.store);
}

/* Print a note if the question is a command of another program. */
static void
note_foreign_command(const char *word)
{
	static const char *const commands[] = {
		"chat", "list", "ls", "models", "ps", "pull", "run", "serve",
	};
	size_t i;

	for (i = 0; word != NULL &&
	    i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(word, commands[i]) == 0)
			cli_note("'%s' is taken as a question, since qchat has "
			    "no commands; -m takes a model file%s", word,
			    strcmp(word, "serve") == 0 ?
			    ", qserve serves it" : "");
	}
}

/* Take the operands: image files, and at most one question. */
static void
take_operands(char *arg[], int n)
{
	struct cli_list *l = &qchat_opt.data;
	int i;

	for (i = 0; i < n; i++) {
		if (qchat_is_image_file(arg[i])) {
			cli_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v);
			l->v[l->n++] = arg[i];
		} else if (qchat_opt.question != NULL)
			cli_usage("two questions, '%.60s' and '%.60s': one of "
			    "them may name an image file that does not exist",
			    qchat_opt.question, arg[i]);
		else
			qchat_opt.question = arg[i];
	}
	note_foreign_command(qchat_opt.question);
}

/* Add the documents of --data, and the images. */
static void
add_documents(struct qchat *c)
{
	size_t i, n;
	char *text;

	for (i = 0; i < qchat_opt.data.n; i++) {
		text = cli_read_file(qchat_opt.data.v[i], DOCUMENT_MAX, &n);
		if (qchat_add_document(c, qchat_opt.data.v[i], text, n) < 0)
			exit(cli_finish());
	}
}

/* Print thoughts dim on a terminal, unless it is dumb or NO_COLOR is set. */
static void
choose_colours(void)
{
	const char *term = getenv("TERM"), *no = getenv("NO_COLOR");

	if (!isatty(STDERR_FILENO) || term == NULL ||
	    strcmp(term, "dumb") == 0 || (no != NULL && *no != '\0'))
		return;
	qchat_dim = "\033[2m";
	qchat_plain = "\033[0m";
}

/* Ask the question of the command line, with stdin, if any, as a document. */
static void
ask(struct qchat *c)
{
	const char *q = qchat_opt.question;
	char *text;
	size_t n;

	if (cli_stdin_kind() != CLI_STDIN_NONE) {
		text = cli_read_fd(STDIN_FILENO, "stdin", DOCUMENT_MAX, &n);
		if (n == 0)
			free(text);
		else if (qchat_add_document(c, "stdin", text, n) < 0)
			return;
	}
	qchat_turn(c, q, strlen(q));
}

static void
talk(struct qchat *c)
{
	struct sigaction sa = { .sa_handler = on_interrupt };

	sigaction(SIGINT, &sa, NULL);	/* without SA_RESTART: system calls end
					   with EINTR */
	if (isatty(STDIN_FILENO) && !cli_quiet) {
		qchat_show(c);
		fputs("/help lists the commands; Ctrl-C ends an answer, Ctrl-D "
		    "the chat\n", stderr);
	}
	qchat_talk(c);
}

int
main(int argc, char *argv[])
{
	struct qchat *c = &chat;

	take_operands(argv + 1, cli_begin(&tool, argc, argv));
	tool_sampling_check(c->options);
	tool_report_seed(c->options);
	tool_draft_check(&c->draft);
	tool_store_from_env(&qchat_opt.store);
	tool_image_folder(&qchat_opt.images, &qchat_opt.store);
	choose_colours();
	open_all(c);
	qchat_reset(c, qchat_opt.system);
	add_documents(c);
	if (qchat_opt.question != NULL)
		ask(c);
	else
		talk(c);
	tool_report_draft(&c->draft);
	tool_report_stats(c->model);
	qwen_drafter_free(c->drafter);
	qwen_drafts_free(c->draft.drafts);
	qwen_messages_free(c->messages);
	qchat_free_documents(c);
	free(c->documents);
	tool_encoded_fini(&c->encoded);
	free(c->spans);
	qwen_store_close(c->store);
	qwen_session_free(c->session);
	qwen_cache_free(c->cache);
	qwen_sampler_free(c->options);
	qwen_sampler_free(c->sampler);
	qwen_pieces_close(c->pieces);
	qwen_stop_finder_free(c->cut);
	qwen_template_close(c->template);
	qwen_tok_close(c->tok);
	qwen_model_close(c->model);
	return cli_finish();
}
