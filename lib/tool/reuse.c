/* SPDX-License-Identifier: ISC */
/*
 * reuse.c - takes the beginning of a text from a state or the prefix store
 * instead of reading it again.  Errors in a state are fatal, since the user
 * named it; errors of the store, a cache, are notes.
 */
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

/* The whole text; the logits at its end are needed. */
struct text {
	const int32_t	*tokens;
	size_t		 n;
	int		 recurrent;	/* the model has recurrent state */
};

/*
 * Returns the tokens of the text that the state can replace; *same: the length
 * of the common prefix.
 */
static size_t
usable(const struct text *t, const struct qwen_state_info *s, size_t *same)
{
	size_t best = 0, i, n = 0;

	while (n < t->n && n < s->n_tokens && t->tokens[n] == s->tokens[n])
		n++;
	*same = n;
	/* a state of the whole text is usable only with its logits */
	if (s->n_tokens == n && (n < t->n || s->logits))
		return n;
	for (i = 0; i < s->n_checkpoints; i++) {
		const struct qwen_checkpoint *c = &s->checkpoints[i];

		if (c->at <= n && (c->at < t->n || c->logits))
			best = (size_t)c->at;
	}
	if (!t->recurrent && n > 0 && best < n)
		best = n < t->n ? n : n - 1;
	return best;
}

static struct qwen_state_file *
open_state(const char *path, const struct qwen_model *m)
{
	struct qwen_state_file *f;
	const struct qwen_state_info *info;
	struct qwen_header self;

	cli_must(path, qwen_state_open(&f, path, &cli_err));
	info = qwen_state_info(f);
	tool_header_init(&self, QWEN_STREAM_STATE, m);
	cli_must(path, qwen_header_match(&info->header, &self, &cli_err));
	if (info->from > 0)
		die("%s: only a part of a state, from token %llu on; name a "
		    "whole state", path, cli_llu(info->from));
	return f;
}

/* Replaces the session by s, which has read the first n tokens of the text. */
static void
take_session(struct tool_intake *in, struct qwen_session *s, size_t n)
{
	size_t i, old = qwen_session_n_tokens(in->session);

	qwen_session_free(in->session);
	in->session = s;
	in->n -= n - old;
	if (in->n > 0)
		memmove(in->tokens, in->tokens + (n - old),
		    in->n * sizeof *in->tokens);
	/* drop marks inside the part that s has read */
	for (i = 0; i < in->n_marks && in->marks[i] < n - old; i++)
		;
	in->n_marks -= i;
	if (in->n_marks > 0)
		memmove(in->marks, in->marks + i,
		    in->n_marks * sizeof *in->marks);
	for (i = 0; i < in->n_marks; i++)
		in->marks[i] -= n - old;
}

/* Restores the state that replaces most of the text; the first among equals. */
static void
use_states(struct tool_intake *in, const struct tool_reuse *u,
    const struct text *t)
{
	struct qwen_model *m = qwen_session_model(in->session);
	struct qwen_state_file *f, *best = NULL;
	size_t i, n, same, best_n = 0, which = 0;
	struct qwen_session *s;

	for (i = 0; i < u->states.n; i++) {
		f = open_state(u->states.v[i], m);
		n = usable(t, qwen_state_info(f), &same);
		if (cli_verbose)
			cli_note("%s: %zu of %s agree, %zu can be used",
			    u->states.v[i], same, cli_count(t->n, "token"), n);
		if (n > best_n) {
			qwen_state_close(best);
			best = f;
			best_n = n;
			which = i;
		} else
			qwen_state_close(f);
	}
	if (best == NULL)
		return;
	qwen_state_extra_fini(&in->extra);
	cli_must(u->states.v[which], qwen_state_restore(&s, &in->extra, m,
	    &best, 1, best_n, best_n == t->n, &cli_err));
	qwen_state_close(best);
	take_session(in, s, qwen_session_n_tokens(s));
	if (cli_verbose)
		cli_note("%s from %s, %zu to read",
		    cli_count(qwen_session_n_tokens(s), "token"),
		    u->states.v[which], in->n);
}

/* -------------------------------------------------------------- the store */

/* Restores the store's prefix if it is longer than the session. */
static void
use_store(struct tool_intake *in, const struct tool_reuse *u,
    const struct text *t)
{
	struct qwen_model *m = qwen_session_model(in->session);
	size_t have = qwen_session_n_tokens(in->session);
	double start = cli_now();
	struct qwen_session *s = tool_store_restore(in->store, m, t->tokens,
	    t->n, have);

	if (s != NULL)
		take_session(in, s, qwen_session_n_tokens(s));
	if (cli_verbose)
		cli_note("%s from store %s in %.3f s, %zu to read",
		    cli_count(s != NULL ? qwen_session_n_tokens(s) : 0,
		    "token"), u->store.dir,
		    cli_now() - start, in->n);
}

void
tool_reuse(struct tool_intake *in, struct tool_reuse *u)
{
	size_t n = qwen_session_n_tokens(in->session);
	struct text t = { .n = n + in->n };
	int32_t *tokens;

	in->store = tool_store_open(&u->store);
	if (u->states.n == 0 && in->store == NULL)
		return;
	/* add_tokens limits n to the context: no overflow */
	tokens = cli_check_alloc(calloc(t.n + 1, sizeof *tokens));
	if (n > 0)
		memcpy(tokens, qwen_session_tokens(in->session),
		    n * sizeof *tokens);
	if (in->n > 0)
		memcpy(tokens + n, in->tokens, in->n * sizeof *tokens);
	t.tokens = tokens;
	t.recurrent = qwen_model_checkpoint_every(qwen_session_model(
	    in->session)) > 0;
	use_states(in, u, &t);
	if (in->store != NULL)
		use_store(in, u, &t);
	free(tokens);
}
