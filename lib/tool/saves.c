/* SPDX-License-Identifier: ISC */
/*
 * saves.c - periodic saves of a state to one file (--save-every).
 *
 * The first save replaces the target.  Later saves append only new data, and
 * the file stays valid up to the last complete save.  A new file replaces it
 * when more than half of it is no longer in use, or when the path no longer
 * names it.
 */
#include <sys/stat.h>

#include <signal.h>
#include <unistd.h>

#include "base/err.h"
#include "tool/tool.h"

/* ------------------------------------------------------------------ signals */

static volatile sig_atomic_t asked;	/* the first signal, or 0 */

/* The second signal ends the process. */
static void
on_signal(int sig)
{
	if (asked == 0) {
		asked = sig;
		return;
	}
	cli_output_abandon();
	signal(sig, SIG_DFL);
	raise(sig);
}

void
tool_saves_on_signal(void)
{
	cli_on_signals(on_signal, SA_RESTART);
}

/* ------------------------------------------------------------------- saving */

void
tool_saves_check(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		die("%s: not a regular file, so that --save-every cannot "
		    "replace it", path);
}

void
tool_saves_begin(struct tool_saves *p)
{
	p->fd = -1;
	p->due = cli_now() + p->every;
	cli_must(NULL, qwen_state_steps_new(&p->steps, &cli_err));
	p->opts.steps = p->steps;
}

/* Replaces the file by a new one. */
static int
save_whole(struct tool_saves *p, struct tool_intake *in, struct qwen_err *err)
{
	int r;

	qwen_state_steps_forget(p->steps);
	r = tool_save_to(in, cli_output_fd(p->out), &p->opts, NULL, err);
	if (r == 0 && cli_output_replace(p->out, &p->fd) < 0)
		r = qwen_fail_errno(err, "%s", "");
	if (r < 0) {
		qwen_state_steps_forget(p->steps);
		cli_output_rewind(p->out);
	}
	return r;
}

/* Appends only new data to the file. */
static int
save_more(struct tool_saves *p, struct tool_intake *in, struct qwen_err *err)
{
	off_t end = (off_t)qwen_state_steps_bytes(p->steps);
	int r = 0;

	if (lseek(p->fd, end, SEEK_SET) == -1)
		r = qwen_fail_errno(err, "%s", "");
	else if ((r = tool_save_to(in, p->fd, &p->opts, NULL, err)) == 0 &&
	    fsync(p->fd) == -1)
		r = qwen_fail_errno(err, "%s", "");
	if (r < 0 && ftruncate(p->fd, end) == 0 &&
	    qwen_state_steps_bytes(p->steps) != (uint64_t)end)
		qwen_state_steps_forget(p->steps);
	return r;
}

/* Does the path still name our file, unchanged since our last save? */
static int
is_ours(const struct tool_saves *p)
{
	struct stat a, b;

	return p->fd != -1 && qwen_state_steps_bytes(p->steps) > 0 &&
	    fstat(p->fd, &a) == 0 && stat(cli_output_name(p->out), &b) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino &&
	    (uint64_t)a.st_size == qwen_state_steps_bytes(p->steps);
}

static int
save(struct tool_saves *p, struct tool_intake *in)
{
	double start = cli_now();
	uint64_t bytes;
	int r;

	if (is_ours(p) && !qwen_state_steps_worn(p->steps)) {
		bytes = qwen_state_steps_bytes(p->steps);
		r = save_more(p, in, &cli_err);
	} else {
		bytes = 0;
		r = save_whole(p, in, &cli_err);
	}
	if (r == 0) {
		p->n++;
		p->bytes += qwen_state_steps_bytes(p->steps) - bytes;
		p->s += cli_now() - start;
	}
	return r;
}

/* A signal came: saves, then ends the process by that signal. */
static void
finish(struct tool_saves *p, struct tool_intake *in)
{
	int sig = asked;
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	cli_progress_end();
	if (save(p, in) == 0)
		cli_note("%s: the state of %s is saved; --reuse %s resumes",
		    cli_output_name(p->out), cli_count(qwen_session_n_tokens(
		    in->session), "token"), cli_output_name(p->out));
	else
		cli_note("%s: not saved: %s", cli_output_name(p->out),
		    cli_err.msg);
	cli_output_cancel(p->out);
	sigaction(sig, &dfl, NULL);
	raise(sig);
}

void
tool_saves_now(struct tool_saves *p, struct tool_intake *in)
{
	double start = cli_now(), end, next;

	if (asked != 0)
		finish(p, in);
	if (start < p->due)
		return;
	if (save(p, in) == 0)
		p->failed = 0;
	else if (!p->failed) {
		cli_note("%s: not saved: %s; continuing",
		    cli_output_name(p->out), cli_err.msg);
		p->failed = 1;
	}
	end = cli_now();
	next = start + p->every;
	p->due = next > 2 * end - start ? next : 2 * end - start;
}

void
tool_saves_end(struct tool_saves *p)
{
	if (cli_verbose && p->n > 0)
		cli_note("saved %s during the run, in %.3f s, %.1f MB",
		    cli_count(p->n, "time"), p->s, (double)p->bytes * 1e-6);
	qwen_state_steps_free(p->steps);
	if (p->fd != -1)
		close(p->fd);
	p->steps = NULL;
	p->fd = -1;
}
