/* SPDX-License-Identifier: ISC */
/* qengine.c - read requests of token ids, write events, for many at a time. */
#include <unistd.h>

#include "qengine/qengine.h"

static struct qengine engine = {
	.work = { .n_sequences = TOOL_SEQUENCES, .n_keep = 64,
	    .pause_ms = 500, .draft = { .mode = QWEN_DRAFT_AUTO } },
	.max_waiting = 256, .max_unread = 8 << 20, .stall_s = 30,
	.listener = -1,
};

static const struct cli_opt options[] = {
	CLI_GROUP("clients:"),
	CLI_FILE(0, "socket", "path", &engine.socket, "output",
	    "listen on this path instead of stdin"),
	CLI_INT(0, "max-waiting", "n", &engine.max_waiting, 1, 1 << 20,
	    "at most N requests wait (default 256)"),
	CLI_BYTES(0, "max-unread", "size", &engine.max_unread, 1 << 16,
	    "drop a client that leaves more than this unread (default 8M)"),
	CLI_INT(0, "stall", "seconds", &engine.stall_s, 1, 1 << 20,
	    "drop a client that reads nothing for this long (default 30)"),

	CLI_GROUP("how it runs:"),
	TOOL_OPT_MODEL(&engine.work.path),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	TOOL_OPT_TURNS(&engine.work),
	TOOL_OPT_WORK(&engine.work),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "qengine",
	.about = "answer many requests of token ids at the same time",
	.usage = "[options]",
	.options = options, .max = 0,
};

static void
open_model(struct qengine *e)
{
	tool_work_open_model(&e->work);
	tool_header_init(&e->header, QWEN_STREAM_LOGITS, e->work.model);
	if (e->work.mem == 0)
		e->work.mem = tool_memory_share(e->work.model, 4);
	tool_draft_open(&e->work.draft, e->work.model);
	tool_work_open(&e->work);
	e->grammars.gguf = e->work.gguf;
}

/* -v: summarize the run on stderr. */
static void
report_run(const struct qengine *e)
{
	struct qwen_work_stats st;

	if (!cli_verbose)
		return;
	qwen_work_stats(e->work.work, &st);
	cli_note("%s, %llu cancelled; %llu tokens generated, %llu of prompts "
	    "read, %llu shared, %llu from the store; %llu clients dropped",
	    cli_count(e->n_requests, "request"), cli_llu(st.cancelled),
	    cli_llu(st.chosen), cli_llu(st.read), cli_llu(st.shared),
	    cli_llu(st.stored), cli_llu(e->n_dropped));
	tool_report_draft(&e->work.draft);
	tool_report_stats(e->work.model);
}

int
main(int argc, char *argv[])
{
	struct qengine *e = &engine;

	cli_begin(&tool, argc, argv);
	tool_store_from_env(&e->work.at);
	tool_draft_check(&e->work.draft);
	if (e->socket == NULL)
		cli_need_stdin();
	open_model(e);
	if (e->socket != NULL)
		e->listener = tool_socket_listen(e->socket, 0600);
	else
		qengine_client_new(e, STDIN_FILENO, STDOUT_FILENO);
	if (e->socket != NULL && !cli_quiet)
		cli_note("listening at %s", e->socket);
	qengine_run(e);
	if (e->socket != NULL)
		tool_socket_close(e->listener, e->socket);
	report_run(e);
	tool_work_close(&e->work);
	return cli_finish();
}
