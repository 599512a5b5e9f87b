/* SPDX-License-Identifier: ISC */
/* slice.c - the first tokens of a state, and what they led to. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qstate.h"

/* Whether the state can be cut at n, logits included, without the model. */
static int
has_cut(const struct qwen_state_info *s, uint64_t n)
{
	size_t i;

	if (n == s->n_tokens)
		return s->recurrent;
	for (i = 0; i < s->n_checkpoints; i++) {
		if (s->checkpoints[i].at == n)
			return s->checkpoints[i].logits;
	}
	return 0;
}

static void
save_slice(struct tool_intake *in)
{
	struct cli_output *out;

	if (qstate_opt.output == NULL) {
		tool_save(in, STDOUT_FILENO, "stdout", &qstate_opt.state, NULL);
		return;
	}
	out = cli_output_open(qstate_opt.output);
	tool_save(in, cli_output_fd(out), qstate_opt.output, &qstate_opt.state,
	    NULL);
	cli_output_commit(out);
}

/*
 * From the last position that can be gone on from, up to the cut, by the
 * arithmetic that the state was made by.
 */
static void
replay(struct state *s, uint64_t n)
{
	struct qwen_model *m = tool_model_open(qstate_opt.model,
	    qstate_opt.n_threads, s->info->header.numerics);
	struct tool_intake in = { 0 };
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST };
	struct qwen_err err;
	size_t at;

	tool_tell_model(m);
	if (qwen_state_restore(&in.session, &in.extra, m, &s->f, 1, (size_t)n,
	    1, &err) < 0)
		cli_die_err(s->name, &err);
	at = qwen_session_n_tokens(in.session);
	if (cli_verbose)
		cli_note("%zu tokens from %s, %zu to read", at, s->name,
		    (size_t)n - at);
	in.n = (size_t)n - at;
	in.tokens = cli_got(calloc(in.n + 1, sizeof *in.tokens));
	if (in.n > 0)
		memcpy(in.tokens, s->info->tokens + at,
		    in.n * sizeof *in.tokens);
	tool_prefill(&in, &how);
	save_slice(&in);
	tool_tell_stats(m);
	tool_intake_fini(&in);
	qwen_model_close(m);
}

void
qstate_slice(char *paths[])
{
	struct state s;

	if (qstate_opt.count == 0)
		cli_usage("slice needs -n: how many tokens to keep");
	if (qstate_opt.output == NULL)
		cli_no_binary_tty();
	qstate_open(&s, paths[0]);
	if (s.info->part)
		die("%s: a part of a state, from position %" PRIu64 " on",
		    s.name, s.info->from);
	if (qstate_opt.count > s.info->n_tokens)
		die("%s: it has %" PRIu64 " tokens, not %" PRIu64, s.name,
		    s.info->n_tokens, qstate_opt.count);
	if (has_cut(s.info, qstate_opt.count)) {
		qstate_opt.state.to = qstate_opt.count < s.info->n_tokens ?
		    qstate_opt.count : 0;
		qstate_write_copy(&s);
	} else
		replay(&s, qstate_opt.count);
	qstate_close(&s);
}
