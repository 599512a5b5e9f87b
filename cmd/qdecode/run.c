/* SPDX-License-Identifier: ISC */
/*
 * run.c - find out whether a state file holds an earlier part of this run.
 *
 * If -s and -o name the same file, that state also has the tokens which the run
 * generated, after those from stdin.  Otherwise the run's start is known, from
 * -s or stdin alone, and -o may hold a run with the same start.
 */
#include <sys/stat.h>

#include <stdlib.h>
#include <string.h>

#include "qdecode.h"

/*
 * Accept a newer state than the one announced by the ready record, if the run
 * began with the announced one and saved over it.
 */
static void
accept_newer_base(struct qdecode_run *run, struct tool_intake *in)
{
	struct qwen_state_extra x;
	struct qwen_header h;
	struct qwen_fp fp;
	int32_t *tokens;
	size_t n;

	if (qwen_state_load_tokens(&tokens, &n, &x, &h, in->state, &fp,
	    NULL) < 0)
		return;		/* tool_intake_state reports the error */
	if (x.run.options != NULL && x.run.has_base &&
	    memcmp(&x.run.base, &in->fp, sizeof fp) == 0 &&
	    memcmp(&fp, &in->fp, sizeof fp) != 0) {
		run->base_replaced = 1;
		in->fp = fp;
	}
	free(tokens);
	qwen_state_extra_fini(&x);
}

void
qdecode_run_open(struct qdecode_run *run, struct tool_intake *in)
{
	tool_saves_check(run->output);
	run->in_place = in->state != NULL && cli_same_file(run->output,
	    in->state);
	run->announced = in->ready;
	run->base = in->fp;
	if (run->in_place && in->ready)
		accept_newer_base(run, in);
}

/*
 * Return 1 if the old run has the options of this one; does not compare the
 * tokens before it.
 */
static int
same_options(const struct qdecode_run *run, const struct qwen_run *old)
{
	return old->options != NULL &&
	    strcmp(old->options, run->options) == 0 &&
	    (!run->new_run || (old->again && !old->finished));
}

/* ------------------------------------------------ -s and -o the same file */

static void
die_unfinished(const struct qdecode_run *run, const struct tool_intake *in)
{
	const struct qwen_run *old = &in->extra.run;

	if (strcmp(old->options, run->options) == 0)
		die("%s: holds an unfinished run of %s that began after %s%llu "
		    "on stdin, now there are %zu: give the same input, or "
		    "--new-run",
		    run->output, cli_count(old->count, "token"),
		    old->input == in->n ? "another " : "",
		    cli_llu(old->input), in->n);
	die("%s: holds an unfinished run of %s with the options '%s', now they "
	    "are '%s': give the same options, or --new-run", run->output,
	    cli_count(old->count, "token"), old->options, run->options);
}

static int
find_in_place(const struct qdecode_run *run, const struct tool_intake *in)
{
	const struct qwen_run *old = &in->extra.run;
	char a[33], b[33];

	/* stdin has the tokens that the old run began with */
	if (same_options(run, old) && old->input == in->n && (in->n == 0 ||
	    memcmp(in->tokens, qwen_session_tokens(in->session) + old->from -
	    old->input, in->n * sizeof *in->tokens) == 0))
		return 1;
	if (run->base_replaced)
		die("%s: the file holds state %s, but %s was announced",
		    in->state, qwen_fp_hex(&in->fp, a),
		    qwen_fp_hex(&run->base, b));
	if (old->options != NULL && !old->finished && !run->new_run)
		die_unfinished(run, in);
	return 0;
}

/* ---------------------------------------------------------- -o another file */

/* Return 1 if the same positions below n were generated. */
static int
same_generated(const struct qwen_state_extra *a,
    const struct qwen_state_extra *b, uint64_t n)
{
	const struct qwen_generated *p, *q;
	size_t i;

	for (i = 0; ; i++) {
		p = i < a->n_generated && a->generated[i].pos < n ?
		    &a->generated[i] : NULL;
		q = i < b->n_generated && b->generated[i].pos < n ?
		    &b->generated[i] : NULL;
		if (p == NULL || q == NULL)
			return p == q;
		if (p->pos != q->pos || (p->n < n - p->pos ? p->n :
		    n - p->pos) != (q->n < n - q->pos ? q->n : n - q->pos))
			return 0;
	}
}

/*
 * Return 1 if the state with these tokens and x has a run that began with the
 * same tokens as this one.
 */
static int
same_start(const struct tool_intake *in, const int32_t *tokens, size_t n,
    const struct qwen_state_extra *x)
{
	size_t old = qwen_session_n_tokens(in->session);

	if (x->run.from != old + in->n || x->run.from > n)
		return 0;
	if (old > 0 && memcmp(tokens, qwen_session_tokens(in->session),
	    old * sizeof *tokens) != 0)
		return 0;
	if (in->n > 0 && memcmp(tokens + old, in->tokens,
	    in->n * sizeof *tokens) != 0)
		return 0;
	return same_generated(&in->extra, x, x->run.from);
}

/*
 * Return 1 if -o holds a part of this run.  A file that is not a state is no
 * error: the run will replace it.
 */
static int
output_has_run(const struct qdecode_run *run, const struct tool_intake *in)
{
	struct qwen_state_extra x;
	struct qwen_header h;
	struct stat st;
	int32_t *tokens;
	size_t n;
	int there;

	if (stat(run->output, &st) == -1)
		return 0;
	if (qwen_state_load_tokens(&tokens, &n, &x, &h, run->output, NULL,
	    &cli_err) < 0) {
		cli_note("%s: %s; starting anew", run->output, cli_err.msg);
		return 0;
	}
	there = same_options(run, &x.run) && same_start(in, tokens, n, &x);
	free(tokens);
	qwen_state_extra_fini(&x);
	return there;
}

/*
 * Replace the session by that of -o if it holds a part of this run: return 1,
 * else 0.
 */
static int
find_elsewhere(const struct qdecode_run *run, struct tool_intake *in,
    struct qwen_model *m)
{
	struct qwen_session *s;
	struct qwen_state_extra x;

	if (!output_has_run(run, in))
		return 0;
	if (qwen_state_load_file(&s, &x, m, run->output, NULL, &cli_err) < 0) {
		cli_note("%s: %s; starting anew", run->output, cli_err.msg);
		return 0;
	}
	qwen_session_free(in->session);
	qwen_state_extra_fini(&in->extra);
	in->session = s;
	in->extra = x;
	return 1;
}

/* -------------------------------------------------------------------------- */

int
qdecode_run_find(struct qdecode_run *run, struct tool_intake *in, struct qwen_model *m)
{
	if (!(run->in_place ? find_in_place(run, in) :
	    find_elsewhere(run, in, m)))
		return 0;
	/* without this, each resumption would leave one more checkpoint */
	qwen_session_unkeep(in->session);
	in->restored = 1;
	in->n = 0;
	in->n_marks = 0;
	if (cli_verbose)
		cli_note("%s: %s its %s run of %s", run->output,
		    in->extra.run.finished ? "found" : "resuming",
		    in->extra.run.finished ? "finished" : "unfinished",
		    cli_count(in->extra.run.count, "token"));
	return 1;
}

void
qdecode_run_begin(const struct qdecode_run *run, struct tool_intake *in,
    size_t n_input)
{
	char *options = cli_check_alloc(strdup(run->options));
	struct qwen_run new = {
		.options = options, .again = run->new_run,
		.from = qwen_session_n_tokens(in->session), .input = n_input,
		.has_base = run->announced,
	};

	if (run->announced)
		new.base = run->base;
	cli_must(NULL, qwen_state_extra_run(&in->extra, &new, &cli_err));
	free(options);
}
