/* SPDX-License-Identifier: ISC */
/* work.c - opens the scheduler and all it needs; reports refused requests. */
#include <string.h>

#include "text/request/request.h"
#include "tool/tool.h"

/* -v: prints the memory per sequence and the limit. */
static void
report_memory(const struct qwen_cache *c, size_t n_sequences)
{
	struct qwen_cache_usage u;

	if (!cli_verbose)
		return;
	qwen_cache_usage(c, &u);
	cli_note("memory: a sequence takes %.2f MiB of recurrent state and "
	    "%.1f KiB for each 16 tokens; %s take %.1f MiB of state",
	    (double)u.state_bytes / 0x1p20, (double)u.block_bytes / 0x1p10,
	    cli_count(n_sequences, "sequence"),
	    (double)n_sequences * (double)u.state_bytes / 0x1p20);
	if (u.limit > 0)
		cli_note("memory: %.1f MiB for all of these",
		    (double)u.limit / 0x1p20);
	else
		cli_note("memory: no limit (--mem)");
}

void
tool_work_open_model(struct tool_work *w)
{
	w->model = tool_model_open_draft(w->path, w->n_threads, w->numerics,
	    &w->draft);
	tool_report_model(w->model);
	w->gguf = qwen_model_gguf(w->model);
	w->tok = tool_tok_open(w->gguf, QWEN_TOK_ENCODE | QWEN_TOK_DECODE);
	cli_must(qwen_gguf_path(w->gguf, 0), qwen_tok_decoder_new(&w->spell,
	    w->tok, QWEN_TOK_BYTES | QWEN_TOK_SHOW_SPECIAL, &cli_err));
}

void
tool_work_open(struct tool_work *w)
{
	struct qwen_work_opts o = {
		.model = w->model, .n_sequences = w->n_sequences,
		.n_pass = w->n_pass, .n_keep = w->n_keep,
		.pause_s = (double)w->pause_ms / 1e3,
	};

	w->cache = tool_cache_open(w->model, &w->mem, (struct tool_need){
	    .batch = w->n_pass, .n_sequences = w->n_sequences,
	    .draft = &w->draft });
	report_memory(w->cache, w->n_sequences);
	w->store = tool_store_open(&w->at);
	o.cache = w->cache;
	o.store = w->store;
	o.drafts = w->draft.drafts;
	cli_must(NULL, qwen_work_new(&w->work, &o, &cli_err));
	/* enough to find common prefixes, and while some jobs are slow */
	w->n_ahead = 16 * w->n_sequences + 64;
}

int
tool_work_step(struct tool_work *w)
{
	return cli_must(NULL, qwen_work_step(w->work, &cli_err));
}

void
tool_work_close(struct tool_work *w)
{
	qwen_work_free(w->work);
	qwen_drafts_free(w->draft.drafts);
	qwen_store_close(w->store);
	qwen_cache_free(w->cache);
	qwen_tok_decoder_free(w->spell);
	qwen_tok_close(w->tok);
	qwen_model_close(w->model);
}

int
tool_refuse(struct qwen_refusal *refusal, const char *code,
    const struct qwen_err *err)
{
	/*
	 * QWEN_ERANGE: a value of the request, such as its grammar, is beyond a
	 * limit
	 */
	return qwen_refuse(refusal, err->code == QWEN_EFULL ? "out_of_memory" :
	    err->code == QWEN_ERANGE ? "invalid_request" : code, NULL, "%s",
	    err->msg);
}

void
tool_note_failed(struct tool_work *w, uint64_t line,
    const struct qwen_refusal *refusal)
{
	if (refusal->err.code != 0 && w->n_failed++ == 0) {
		w->failed_line = line;
		w->failed = refusal->err;
	}
}

void
tool_warn_failed(const struct tool_work *w, uint64_t before, uint64_t n)
{
	if (w->n_failed > 0)
		cli_warn_part("%llu of %s failed; the first, line %llu: %s",
		    cli_llu(w->n_failed + before), cli_count(n,
		    "item"), cli_llu(w->failed_line), w->failed.msg);
}

void
tool_report_unknown(const struct qwen_unknown *u)
{
	struct qwen_text t = { 0 };

	qwen_unknown_list(u, &t);
	if (u->n > 0 && !t.failed)
		cli_note("unknown fields of requests were ignored: %s", t.s);
	qwen_text_fini(&t);
}

void
tool_report_notes(struct qwen_unknown *u)
{
	for (; u->n_shown < u->n_notes; u->n_shown++)
		cli_note("%s", u->note[u->n_shown]);
}

int
tool_begin_result(struct qwen_text *t, uint64_t line, const char *id,
    const struct qwen_refusal *refusal)
{
	qwen_text_fmt(t, "{\"line\":%llu", cli_llu(line));
	if (id != NULL)
		qwen_text_fmt(t, ",\"id\":%s", id);
	if (refusal->err.code == 0)
		return 1;
	qwen_text_fmt(t, ",\"error\":{\"code\":\"%s\",\"message\":",
	    refusal->code);
	qwen_text_json(t, refusal->err.msg, strlen(refusal->err.msg));
	qwen_text_str(t, "}}\n");
	return 0;
}
