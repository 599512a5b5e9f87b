/* SPDX-License-Identifier: ISC */
/* qserve.c - serve a model over HTTP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sys/stat.h>

#include "qserve/qserve.h"
#include "tool/foreign.h"

enum {
	BODY_MAX = 16 << 20,
	BODY_IMAGES_MAX = 64 << 20,	/* with images */
	BODIES = 32,	/* times the limit of one body: limit of all */
};

static struct qserve server = {
	.with.service = { .max = SIZE_MAX, .streams = 1,
	    .echoes = 1 },
	.max_waiting = 256, .max_body = BODY_MAX, .max_unread = 8 << 20,
	.max_connections = 1000, .stall_s = 30, .idle_s = 75,
	.socket_mode = 0600,
};

/* Append a string to a list, which owns it. */
static void
push(struct cli_list *l, char *s)
{
	cli_grow(&l->v, &l->cap, l->n + 1, sizeof *l->v);
	l->v[l->n++] = s;
}

/* Options of the built-in engine; qserve only checks their values. */
static struct tool_work engine_work = { .draft = { .mode = QWEN_DRAFT_AUTO } };
static const struct cli_opt engine_options[] = {
	TOOL_OPT_COMPUTE(&engine_work),
	TOOL_OPT_PASSES(&engine_work),
	TOOL_OPT_TURNS(&engine_work),
	TOOL_OPT_FORCE(TOOL_FORCE_MEMORY),
	CLI_END,
};

/* Check an option of the engine and add it to the engine's arguments. */
static void
pass_to_engine(const struct cli_opt *o, const char *arg)
{
	cli_set(o->to, arg);
	push(&server.engine_args, arg != NULL ?
	    cli_format("--%s=%s", o->name, arg) : cli_format("--%s", o->name));
}

static const struct cli_opt *
engine_rows(void *to)
{
	static struct cli_opt rows[sizeof engine_options /
	    sizeof engine_options[0]];
	size_t i;

	(void)to;
	for (i = 0; engine_options[i].kind != CLI_KIND_END; i++) {
		rows[i] = engine_options[i];
		rows[i].kind = CLI_KIND_CALL;
		rows[i].call = pass_to_engine;
		rows[i].to = (void *)(uintptr_t)&engine_options[i];
	}
	return rows;
}

static void
set_mode(const struct cli_opt *o, const char *arg)
{
	unsigned *mode = o->to;
	char *end;
	unsigned long v = strtoul(arg, &end, 8);

	if (arg[0] < '0' || arg[0] > '7' || *end != '\0' || v > 0777)
		cli_usage("--socket-mode: '%s' is not an octal mode like "
		    "660", arg);
	*mode = (unsigned)v;
}

static const struct cli_opt options[] = {
	CLI_GROUP("clients:"),
	CLI_LIST(0, "listen", "where", &server.listen, NULL,
	    "address to listen on: host:port or unix:path; repeatable (default "
	    "127.0.0.1:8080)"),
	CLI_CALL(0, "socket-mode", "mode", &server.socket_mode, set_mode, NULL,
	    "mode of unix sockets (default 600)"),
	CLI_FILE(0, "api-key-file", "file", &server.key_file, "file",
	    "clients must send one of the keys in this file (one per line)"),
	CLI_LIST(0, "host", "name", &server.hosts, NULL,
	    "name of this server that clients may use; * allows any; "
	    "repeatable"),
	CLI_LIST(0, "cors", "origin", &server.cors, NULL,
	    "allow web pages of this origin; * allows any; repeatable"),
	CLI_INT(0, "max-connections", "n", &server.max_connections, 1, 1 << 20,
	    "at most N clients at the same time (default 1000)"),
	CLI_INT(0, "max-waiting", "n", &server.max_waiting, 1, 1 << 20,
	    "at most N requests wait (default 256)"),
	CLI_BYTES(0, "max-body", "size", &server.max_body, 1024,
	    "largest size of a request (default 16M; 64M with images)"),
	CLI_BYTES(0, "max-unread", "size", &server.max_unread, 1 << 16,
	    "drop a client that leaves more than this unread (default 8M)"),
	CLI_INT(0, "stall", "seconds", &server.stall_s, 1, 1 << 20,
	    "drop a client that is stuck for this long (default 30)"),
	CLI_INT(0, "idle", "seconds", &server.idle_s, 1, 1 << 20,
	    "close a connection that is idle for this long (default 75)"),
	CLI_REAL(0, "timeout", "seconds", &server.timeout_s, 1e-3, 1e9,
	    "end a request that takes longer than this"),
	TOOL_OPT_STRICT(&server.unknown.strict),

	CLI_GROUP("model and prompts:"),
	TOOL_OPT_MODEL(&server.model_path),
	CLI_TEXT(0, "name", "name", &server.name,
	    "name of the model in answers (default that of -m or its file)"),
	CLI_LIST(0, "alias", "name", &server.aliases, NULL,
	    "another name of the model in lists; repeatable"),
	TOOL_OPT_SERVICE(&server.with),
	TOOL_OPT_IMAGE_ENCODER(&server.images.how),
	TOOL_OPT_IMAGE_FOLDER(&server.images.how),
	TOOL_OPT_IMAGE_DIR(&server.images.dir),
	CLI_WORD(0, "image-url", "public | any", &server.images.urls,
	    "none public any", "get images from the URLs of requests: of public "
	    "addresses, or of any"),
	CLI_LIST(0, "ignore-line", "regex", &server.ignore, NULL,
	    "remove lines that match this from system messages; repeatable"),
	CLI_FLAG(0, "retokenize", &server.retokenize,
	    "always tokenize earlier answers anew"),

	CLI_GROUP("engines:"),
	CLI_LIST(0, "engine", "command", &server.commands, NULL,
	    "start this engine instead of the built-in one; repeatable"),
	TOOL_OPT_LORA,
	CLI_ROWS(&server, engine_rows),
	TOOL_OPT_STORE(&server.store),
	TOOL_OPT_SAMPLING(&server.with.sampler),
	CLI_END,
};

/* Hints for options of llama.cpp, vLLM and Ollama. */
static const struct cli_foreign foreign[] = {
	TOOL_FOREIGN,
	{ "addr", "--listen HOST:PORT" }, { "address", "--listen HOST:PORT" },
	{ "bind", "--listen HOST:PORT" }, { "port", "--listen HOST:PORT" },
	{ "uds", "--listen unix:PATH" }, { "max-ctx", TOOL_HINT_CONTEXT },
	{ "max-model-len", TOOL_HINT_CONTEXT }, { "np", "--max-sequences" },
	{ "num-parallel", "--max-sequences" },
	{ "max-num-seqs", "--max-sequences" }, { "slots", "--max-sequences" },
	{ "gpu-memory-utilization", "--device cuda:0=20G takes so much" },
	{ "tensor-parallel-size", "--device cuda:0,cuda:1 shares out layers" },
	{ "embedding", TOOL_HINT_ALWAYS }, { "embeddings", TOOL_HINT_ALWAYS },
	{ "reranking", TOOL_HINT_ALWAYS }, { "metrics", TOOL_HINT_ALWAYS },
	{ "cb", TOOL_HINT_ALWAYS }, { "cont-batching", TOOL_HINT_ALWAYS },
	{ "enable-prefix-caching", TOOL_HINT_ALWAYS }, { "a", "--name" },
	{ "served-model-name", "--name" }, { "b", "--batch" },
	{ "batch-size", "--batch" }, { "max-num-batched-tokens", "--batch" },
	{ "kv-cache-dtype", "--kv" }, { "slot-save-path", "--store" },
	{ NULL, NULL },
};

static const struct cli_tool tool = {
	.name = "qserve",
	.about = "serve a model to programs over HTTP",
	.usage = "[options]",
	.options = options, .max = 0, .foreign = foreign,
};

/* Exit with an error unless this is a readable file; the engine opens it. */
static void
check_readable(const char *path)
{
	struct stat st;

	if (path == NULL)
		return;
	if (access(path, R_OK) == 0 && stat(path, &st) == 0) {
		if (!S_ISDIR(st.st_mode))
			return;
		errno = EISDIR;
	}
	die("%s: %s", path, strerror(errno));
}

/* Set the arguments of the built-in engine, except those that pass() added. */
static void
set_engine(struct qserve *s)
{
	struct cli_list *l = &s->engine_args;
	size_t i;

	if (s->commands.n > 0 && (l->n > 0 || s->store.dir != NULL))
		cli_usage("%s is for the built-in engine: put it into the "
		    "command of --engine", l->n > 0 ? l->v[0] : "--store");
	/* one server, whose engine is several processes */
	if (tool_device != NULL && strncmp(tool_device, "mpi", 3) == 0)
		cli_usage("--device %s: mpirun starts engines, not qserve: "
		    "--engine 'mpirun -n 4 qengine --device mpi -m MODEL'",
		    tool_device);
	tool_draft_check(&engine_work.draft);
	check_readable(engine_work.draft.file);
	check_readable(engine_work.draft.text);
	s->quantizes = tool_quantize != NULL;
	tool_quantize = NULL;	/* only the engine quantises */
	tool_store_from_env(&s->store);
	tool_image_folder(&s->images.how, &s->store);
	s->images.how.n_threads = engine_work.n_threads;
	/* a copy: the next call, for qimage, returns the same buffer */
	s->program = cli_format("%s", tool_sibling_path("qengine"));
	push(l, cli_format("--model=%s", s->model_path));
	for (i = 0; i < tool_lora.n; i++)
		push(l, cli_format("--lora=%s=%.17g", tool_lora.v[i].path,
		    tool_lora.v[i].scale));
	/*
	 * more than qserve sends at once, so the engine never blocks: qserve
	 * has the queue
	 */
	push(l, cli_format("--max-waiting=%zu", s->max_waiting +
	    QWEN_CHOICES_MAX));
	if (s->store.dir != NULL)
		push(l, cli_format("--store=%s", s->store.dir));
	else
		push(l, cli_format("--no-store"));
	if (s->store.max == TOOL_STORE_UNLIMITED)
		push(l, cli_format("--store-max=none"));
	else if (s->store.max > 0)
		push(l, cli_format("--store-max=%llu", cli_llu(s->store.max)));
	if (cli_quiet)
		push(l, cli_format("-q"));
}

static void
note_model(const struct qserve *s)
{
	struct qwen_str name = { "", 0 };

	if (qwen_gguf_get_str(s->gguf, "general.name", &name, NULL) > 0 &&
	    name.len > 0)
		cli_note("model: %s (%.*s)", s->model_path, (int)(name.len <
		    128 ? name.len : 128), name.s);
	else
		cli_note("model: %s", s->model_path);
}

/* Open the vocabulary, the chat template and the settings; no weights. */
static void
open_model(struct qserve *s)
{
	struct qwen_service *v = &s->with.service;
	struct qwen_gguf *g = tool_gguf_open(s->model_path);
	struct qwen_tok *tok;
	struct stat st;

	cli_must(s->model_path, qwen_header_init(&s->header,
	    QWEN_STREAM_LOGITS, g, &cli_err));
	cli_must(NULL, qwen_header_adapt(&s->header, tool_lora.v, tool_lora.n,
	    &cli_err));
	cli_must(s->model_path, qwen_tok_open(&tok, g, QWEN_TOK_ENCODE |
	    QWEN_TOK_DECODE, &cli_err));
	cli_must(s->model_path, qwen_tok_set_bos(tok, g, tool_bos(), &cli_err));
	if (tool_nfc)
		cli_must(NULL, qwen_tok_set_nfc(tok, 1, &cli_err));
	cli_must(s->model_path, qwen_tok_decoder_new(&v->spell, tok,
	    QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, &cli_err));
	s->gguf = g;
	s->modified = stat(qwen_gguf_path(g, 0), &st) == 0 ? st.st_mtime :
	    (time_t)s->started;
	v->tok = tok;
	v->unknown = &s->unknown;
	tool_service_open(&s->with, g, &s->header);
	if (s->name != NULL)
		v->model = s->name;
	if (!s->retokenize)
		qserve_history_open(&s->history, s->store.dir, tok, v->spell,
		    &s->header.vocab);
	qserve_recall_open(s);
	qserve_vectors_open(s);
	qserve_rank_open(s);
	qserve_images_open(s);
	s->max_bodies = s->max_body * BODIES;
	if (v->reads_images && !cli_given(&s->max_body))
		s->max_body = BODY_IMAGES_MAX;
}

int
main(int argc, char *argv[])
{
	struct qserve *s = &server;

	tool_seed_draws = 1;
	cli_begin(&tool, argc, argv);
	tool_sampling_check(s->with.sampler);
	s->with.draws_seeds = tool_seed != TOOL_SEED_NUMBER;
	s->model_path = tool_model_path(s->model_path);
	set_engine(s);
	qserve_guard_open(s);
	s->started = (uint64_t)time(NULL);
	open_model(s);
	qserve_http_open(s);
	qserve_listen(s);
	note_model(s);
	qserve_listeners_print(s);
	qserve_engines_open(s);
	qserve_run(s);
	qserve_engines_close(s);
	qserve_images_close(s);
	return cli_finish();
}
