/* SPDX-License-Identifier: ISC */
/*
 * compute.c - prefill, saving states, and reports, for all commands that
 * compute.
 */
#include <string.h>

#include "tool/tool.h"

/* tokens between two checks of --save-every: one or two passes */
enum { SAVE_STEP = 512 };

/* tokens to decode for an incomplete character, which has at most 3 bytes */
enum { LOOK_BACK = 4 };

/*
 * The total time is estimated after rate_s seconds; noted if at least long_s.
 */
static const double rate_s = 2, long_s = 30;

/* A prompt, read in parts by tool_prefill. */
struct prompt_slice {
	struct tool_intake	*in;
	struct qwen_eval	 how;
	size_t			 done;		/* tokens read so far */
	double			 start;		/* time when the first part
						   began */
	int			 told;		/* the time estimate was made */
};

/*
 * Returns "; the state will take about 465 MB", or "" if no state will be
 * saved.
 */
static const char *
state_size(const struct tool_intake *in, char buf[96])
{
	const struct qwen_model *m = qwen_session_model(in->session);
	size_t n = qwen_session_n_tokens(in->session);
	struct qwen_plan p;
	double bytes;

	buf[0] = '\0';
	if (!in->saved)
		return buf;
	/* ignores checkpoints, which are few */
	qwen_plan_make(&p, m, n > in->n_end ? n : in->n_end, 1, 1, 0, NULL);
	bytes = (double)p.kv + (double)p.state +
	    (double)qwen_model_n_vocab(m) * sizeof(float);
	snprintf(buf, 96, "; the state will take about %.0f MB%s", bytes * 1e-6,
	    bytes > 1e8 && p.kv > p.state && qwen_model_k(m) == QWEN_KV_F16 ?
	    " (--kv q8_0: half)" : "");
	return buf;
}

void
tool_report_reading(uint64_t n, double seconds, const char *more)
{
	uint64_t s = (uint64_t)(seconds + 0.5);

	cli_note("reading %s takes about %llu:%02u%s", cli_count(n, "token"),
	    cli_llu(s / 60), (unsigned)(s % 60), more);
}

static void
progress(void *arg, size_t done, size_t total)
{
	struct prompt_slice *p = arg;
	char size[96];
	double all;

	(void)total;
	done += p->done;
	/* estimate the whole time once, and note it if it is long */
	if (!p->told && cli_now() - p->start >= rate_s && done > 0) {
		p->told = 1;
		all = cli_progress_expect(done);
		if (all >= long_s)
			tool_report_reading(p->in->n, all, state_size(p->in,
			    size));
	}
	cli_progress(done);
}

/* Calls the caller's row callback: the arg of qwen_eval is our prompt_slice. */
static int
row(void *arg, size_t pos, const float *logits, struct qwen_err *err)
{
	const struct prompt_slice *p = arg;

	return p->how.row(p->how.arg, pos, logits, err);
}

/* Dies if an evaluation failed. */
static void
check(const struct qwen_session *s, int rc)
{
	const struct qwen_gguf *g = qwen_model_gguf(qwen_session_model(s));

	/* NaN and infinity come from the model: name its file */
	cli_must(rc < 0 && cli_err.code == QWEN_ENUMERIC ?
	    qwen_gguf_path(g, 0) : NULL, rc);
}

void
tool_eval(struct qwen_session *s, const int32_t *ids, size_t n,
    const struct qwen_eval *how)
{
	check(s, qwen_session_eval(s, ids, n, how, &cli_err));
}

void
tool_drafter_eval(struct qwen_drafter *d, struct qwen_session *s, int32_t id,
    size_t room)
{
	check(s, qwen_drafter_eval(d, s, id, room, &cli_err));
}

/* Returns the tokens to read before store and saves are visited again. */
static size_t
part_len(struct prompt_slice *p)
{
	const struct qwen_checkpoints *keep = p->how.keep;
	struct tool_intake *in = p->in;
	size_t left = in->n - p->done, step = TOOL_STORE_STEP, n;

	if (in->store == NULL && in->saves == NULL)
		return left;
	if (in->saves != NULL)
		step = SAVE_STEP;
	else if (keep != NULL && keep->every > 0)
		step = keep->every > TOOL_STORE_STEP ? (size_t)keep->every :
		    TOOL_STORE_STEP / (size_t)keep->every * (size_t)keep->every;
	n = step - qwen_session_n_tokens(in->session) % step;
	/* to the next checkpoint for the store */
	while (in->n_places > 0 && in->places[in->n_places - 1] <= p->done)
		in->n_places--;
	if (in->n_places > 0)
		left = in->places[in->n_places - 1] - p->done;
	return n < left ? n : left;
}

static void
read_part(struct prompt_slice *p)
{
	struct tool_intake *in = p->in;
	struct qwen_eval e = p->how;
	size_t n = part_len(p);

	e.progress = e.within = progress;
	e.arg = p;
	e.spans = in->spans.v;
	e.n_spans = in->spans.n;
	/* QWEN_LOGITS_LAST: only the last part has the last row */
	if (e.row != NULL)
		e.row = e.logits == QWEN_LOGITS_ALL || p->done + n == in->n ?
		    row : NULL;
	tool_eval(in->session, in->tokens + p->done, n, &e);
	p->done += n;
}

void
tool_progress_start(struct qwen_session *s, size_t n)
{
	size_t at = qwen_session_n_tokens(s);
	struct qwen_plan none, one;
	uint64_t first;

	qwen_plan_make(&none, qwen_session_model(s), at, 1, 0, 0, NULL);
	qwen_plan_make(&one, qwen_session_model(s), at + 1, 1, 0, 0, NULL);
	first = none.sum.macs;
	cli_progress_start("tokens", n);
	if (first > 0)
		cli_progress_grows((double)(one.kv_macs - none.kv_macs) /
		    (double)first);
}

void
tool_prefill(struct tool_intake *in, const struct qwen_eval *how)
{
	struct prompt_slice p = { .in = in, .how = { .logits =
	    QWEN_LOGITS_LAST } };
	double s;

	if (how != NULL)
		p.how = *how;
	if (in->n == 0) {
		tool_store_save(in->store, in->session);
		return;
	}
	tool_spans_check(&in->spans, qwen_session_n_tokens(in->session));
	if (in->store != NULL)
		tool_places(in);
	in->n_end = qwen_session_n_tokens(in->session) + in->n;
	tool_progress_start(in->session, in->n);
	p.start = cli_now();
	while (p.done < in->n) {
		read_part(&p);
		tool_store_save(in->store, in->session);
		if (in->saves != NULL && p.done < in->n)
			tool_saves_now(in->saves, in);
	}
	cli_progress_end();
	s = cli_now() - p.start;
	if (cli_verbose)
		cli_note("%s read in %.3f s, %.1f tok/s",
		    cli_count(in->n, "token"), s, (double)in->n / s);
}

/*
 * Notes in the state the bytes of an incomplete character at the end of the
 * tokens, for the tool that prints the text after it.
 */
static void
note_pending(struct tool_intake *in)
{
	const struct qwen_model *m = qwen_session_model(in->session);
	const int32_t *tokens = qwen_session_tokens(in->session);
	size_t n = qwen_session_n_tokens(in->session), i;
	struct qwen_tok_decoder *d = NULL;
	struct qwen_tok *t;
	struct qwen_str text;

	in->extra.n_pending = 0;
	/* a model without a vocabulary has no bytes */
	if (qwen_tok_open(&t, qwen_model_gguf(m), QWEN_TOK_DECODE, NULL) < 0)
		return;
	if (qwen_tok_decoder_new(&d, t, 0, NULL) == 0) {
		for (i = n > LOOK_BACK ? n - LOOK_BACK : 0; i < n; i++) {
			if (qwen_tok_decoder_put(d, tokens[i], &text, NULL) < 0)
				break;
		}
		in->extra.n_pending = qwen_tok_decoder_pending(d,
		    in->extra.pending);
	}
	qwen_tok_decoder_free(d);
	qwen_tok_close(t);
}

int
tool_save_to(struct tool_intake *in, int fd, const struct qwen_state_opts *opts,
    struct qwen_fp *fp, struct qwen_err *err)
{
	struct qwen_writer *w = tool_writer(fd, QWEN_FORMAT_CBOR);

	note_pending(in);
	if (qwen_state_save(in->session, &in->extra, w, opts, fp, err) < 0) {
		qwen_writer_free(w);
		return -1;
	}
	return qwen_writer_close(w, err);
}

void
tool_save(struct tool_intake *in, int fd, const char *name,
    const struct qwen_state_opts *opts, struct qwen_fp *fp)
{
	double start = cli_now();

	cli_must(name, tool_save_to(in, fd, opts, fp, &cli_err));
	if (cli_verbose)
		cli_note("state of %s saved in %.3f s",
		    cli_count(qwen_session_n_tokens(in->session), "token"),
		    cli_now() - start);
}

void
tool_report_model(struct qwen_model *m)
{
	static char text[16384];
	enum qwen_kv k = qwen_model_k(m), v = qwen_model_v(m);
	char *line, *next, kv[40] = "";

	if (!cli_verbose)
		return;
	if (k != QWEN_KV_F16 || v != QWEN_KV_F16)
		snprintf(kv, sizeof kv, ", keys %s, values %s",
		    qwen_kv_name(k), qwen_kv_name(v));
	cli_must(NULL, qwen_model_profile(m, 1, &cli_err));
	cli_note("%s: %s, %s, %s, numerics %u%s",
	    qwen_gguf_path(qwen_model_gguf(m), 0), qwen_model_arch(m),
	    cli_count(qwen_model_n_layer(m), "layer"),
	    cli_count((uint64_t)qwen_model_n_threads(m), "thread"),
	    qwen_model_numerics(m), kv);
	qwen_model_describe(m, text, sizeof text);
	for (line = text; *line != '\0'; line = next) {
		next = line + strcspn(line, "\n");
		if (*next != '\0')
			*next++ = '\0';
		cli_note("%s", line);
	}
}

/* Prints one line per stage. */
void
tool_report_stats(const struct qwen_model *m)
{
	static struct qwen_kernel_stat stat[256];
	size_t i, n = qwen_model_stats(m, stat, 256);
	double total = 0;

	n = n < 256 ? n : 256;
	for (i = 0; i < n; i++)
		total += stat[i].ms;
	if (n > 0)
		cli_note("%-14s %-10s %9s %10s %6s %8s %8s", "stage", "kernel",
		    "calls", "ms", "share", "GB/s", "GMAC/s");
	for (i = 0; i < n; i++) {
		const struct qwen_kernel_stat *s = &stat[i];

		cli_note("%-14s %-10s %9llu %10.2f %5.1f%% %8.1f %8.1f",
		    s->name, s->variant, cli_llu(s->calls), s->ms,
		    100 * s->ms / total, (double)s->bytes / s->ms * 1e-6,
		    (double)s->macs / s->ms * 1e-6);
	}
}
