/* SPDX-License-Identifier: ISC */
/* read.c - read the new tokens of a prompt. */
#include "qchat.h"

/* Tokens per part; Ctrl-C is checked between parts: first, least and most. */
enum { PART = 64, PART_MIN = 32, PART_MAX = 512 };

/* Restore from the store only if it may save at least this many tokens. */
enum { GAIN = 64 };

/* Seconds; longer reading is announced, and its states are stored. */
static const double long_s = 2;

/* Progress of reading a prompt. */
struct reading {
	size_t	 total;		/* tokens of the prompt to read */
	size_t	 before;	/* of them, read in earlier parts */
	size_t	 part;		/* tokens of the next part */
	int	 is_long;
};

static void
progress(void *arg, size_t done, size_t total)
{
	const struct reading *r = arg;

	(void)total;
	cli_progress(r->before + done);
}

/* Estimate the total time by the first k tokens; announce it if it is long. */
static void
announce_time(const struct qchat *c, struct reading *r, size_t k)
{
	double all = cli_progress_expect(k);

	r->is_long = all > long_s;
	if (r->is_long)
		tool_report_reading(r->total, all, qchat_opt.question != NULL ?
		    "" : c->n_document_tokens > 0 ? "; Ctrl-C takes the "
		    "message and its document back" :
		    "; Ctrl-C takes the message back");
}

/*
 * Return how many of n tokens to read next.  With a store, a part ends at each
 * multiple of TOOL_STORE_STEP.
 */
static size_t
part_len(const struct qchat *c, const struct reading *r, size_t n)
{
	size_t step = TOOL_STORE_STEP - qwen_session_n_tokens(c->session) %
	    TOOL_STORE_STEP;

	n = n < r->part ? n : r->part;
	return c->store != NULL && step < n ? step : n;
}

/* Read ids in parts of about two seconds: 0, or -1 after Ctrl-C. */
static int
read_ids(struct qchat *c, const int32_t *ids, size_t n, struct reading *r)
{
	struct qwen_eval how = { .progress = progress, .within = progress,
	    .arg = r, .spans = c->spans, .n_spans = c->n_spans };
	double start, rate;
	size_t i, k;

	for (i = 0; i < n; i += k, r->before += k) {
		if (qchat_interrupted)
			return -1;
		k = part_len(c, r, n - i);
		start = cli_now();
		tool_eval(c->session, ids + i, k, &how);
		rate = (double)k / (cli_now() - start);
		if (r->before == 0 && r->total > PART)
			announce_time(c, r, k);
		r->part = rate < PART_MIN / 2 ? PART_MIN :
		    rate > PART_MAX / 2 ? PART_MAX : (size_t)(2 * rate);
		if (r->is_long && qwen_session_n_tokens(c->session) %
		    TOOL_STORE_STEP == 0)
			tool_store_save(c->store, c->session);
	}
	return 0;
}

/*
 * Replace the session by the longest stored prefix of the ids, if that is
 * longer than *at, and update *at.  The new session has its own cache without a
 * limit: c->n_ctx bounds each session.
 */
static void
ask_store(struct qchat *c, const int32_t *ids, size_t n, size_t *at)
{
	double start = cli_now();
	struct qwen_session *s;

	if (c->store == NULL || n < *at + GAIN)
		return;
	s = tool_store_restore(c->store, c->model, ids, n, *at);
	if (s == NULL)
		return;
	*at = qwen_session_n_tokens(s);
	qwen_session_free(c->session);
	c->session = s;
	qwen_cache_free(c->cache);
	c->cache = NULL;
	if (cli_verbose)
		cli_note("%s from store %s in %.3f s", cli_count(*at, "token"),
		    qchat_opt.store.dir, cli_now() - start);
}

/*
 * Recurrent states can be cut only at checkpoints.  So keep one after the
 * documents, and one at turn, where the answer's turn begins: the next prompt
 * differs from there on, since it omits the thought.
 */
int
qchat_read(struct qchat *c, const int32_t *ids, size_t n, size_t turn)
{
	const size_t stops[] = { c->n_document_tokens < turn ?
	    c->n_document_tokens : 0, turn, n };
	struct reading r = { .part = PART };
	size_t at = qwen_ids_common(qwen_session_tokens(c->session),
	    qwen_session_n_tokens(c->session), ids, n), i, new;
	int rc = 0;

	cli_must(NULL, qwen_session_rewind(c->session, at, at == n, &at,
	    &cli_err));
	ask_store(c, ids, turn, &at);
	if (qchat_encode_images(c, at) < 0)
		return -1;
	if (cli_verbose)
		cli_note("%zu tokens to read, %zu were read before", n - at,
		    at);
	r.total = n - at;
	tool_progress_start(c->session, r.total);
	for (i = 0; i < 3 && rc == 0; i++) {
		if (stops[i] < at || stops[i] == 0)
			continue;
		new = stops[i] - at;
		rc = read_ids(c, ids + at, new, &r);
		at = stops[i];
		if (i < 2 && rc == 0)
			cli_must(NULL, qwen_session_keep(c->session, i == 0,
			    &cli_err));
		/* after Ctrl-C too, with the tokens read so far */
		if (new > 0 && (i == 0 || (i == 1 && r.is_long)))
			tool_store_save(c->store, c->session);
	}
	cli_progress_end();
	return rc;
}
