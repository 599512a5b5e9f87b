/* SPDX-License-Identifier: ISC */
/*
 * drafts.c - --draft: compare decoding with drafts to decoding without.
 *
 * The drafts are those that the tools make.  With --accept they are random, and
 * this share of them is right: so the cost of passes can be measured with
 * random weights, which predict nothing.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/json/json.h"
#include "qbench.h"

/* A method of drafting, with its results of all rounds. */
struct method {
	const struct qbench_draft *draft;	/* NULL: no drafts */
	const double		*accept;	/* NULL: real drafts */
	struct qwen_model	*m;
	struct qwen_drafts	*drafts;
	uint64_t		 guessed, passes;
	size_t			 n_marked;
	double			 tok_s[QBENCH_MAX_ROUNDS],
	    times[QBENCH_MAX_ROUNDS];
};

/* The measurements with one number of threads at one depth. */
struct trial {
	struct qwen_model	*plain, *block;	/* without and with the MTP
						   block; or NULL */
	struct qwen_sampler	*best;
	struct method		*method;	/* the first one makes no
						   drafts */
	size_t			 n_methods, depth;
	int32_t			*ids;		/* tokens to decode, and one
						   more */
	int32_t			*want;		/* the same tokens without
						   drafts */
	float			*row;		/* logits after the last
						   token */
	double			*chance;	/* per token: a draft of it is
						   right if this is below
						   --accept */
};

static int32_t
choose(struct trial *t, const struct qwen_session *s)
{
	int32_t id;

	cli_must(NULL, qwen_sampler_sample(t->best, qwen_session_logits(s),
	    NULL, qwen_model_n_vocab(t->plain), qwen_session_n_tokens(s), &id,
	    &cli_err));
	return id;
}

/*
 * Give the tokens evenly spaced numbers from 0 to 1 in random order.  Then
 * exactly the share of --accept can be drafted, and the same tokens in all
 * methods: so a comparison needs few tokens.
 */
static void
draw_chances(struct trial *t)
{
	size_t i, k, n = qbench_opt.n;
	uint64_t rng = 1;

	t->chance = cli_check_alloc(calloc(n, sizeof *t->chance));
	for (i = 0; i < n; i++) {
		k = qwen_gguf_random_u64(&rng) % (i + 1);
		t->chance[i] = t->chance[k];
		t->chance[k] = ((double)i + 0.5) / (double)n;
	}
}

/*
 * Make n drafts of the tokens after token i.  Each is right if its chance is
 * below accept and the draft before it is right; wrong ones are other tokens of
 * the text.
 */
static void
draw(struct trial *t, double accept, size_t i, size_t n, int32_t *guess)
{
	int32_t n_vocab = (int32_t)qwen_model_n_vocab(t->plain), right;
	uint64_t rng;
	size_t k;
	int ok = 1;

	for (k = 0; k < n; k++) {
		rng = i + 1 + k;
		right = t->ids[i + 1 + k];
		ok = ok && t->chance[i + 1 + k] < accept;
		guess[k] = ok ? right : qbench_ids[
		    qwen_gguf_random_u64(&rng) % (t->depth + qbench_opt.n)];
		if (!ok && guess[k] == right)
			guess[k] = (right + 1) % n_vocab;
	}
}

/*
 * Evaluate token i with random drafts.  In mode mtp the MTP block drafts too,
 * for its cost; its drafts are ignored.
 */
static void
eval_drawn(struct trial *t, struct method *w, struct qwen_session *s, size_t i)
{
	int32_t guess[QWEN_GUESS_MAX], unread[QWEN_GUESS_MAX];
	float prob[QWEN_GUESS_MAX];
	size_t n = w->draft->how.n, left = qbench_opt.n - 1 - i, none;
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST, .guess = guess };

	if (qwen_session_n_guessed(s) == 0 ||
	    qwen_session_guessed(s)[0] != t->ids[i]) {
		how.n_guess = n < left ? n : left;
		draw(t, *w->accept, i, how.n_guess, guess);
		if (w->draft->how.mode == QWEN_DRAFT_MTP)
			cli_must(qbench_model_name, qwen_session_draft(s,
			    t->ids[i], how.n_guess, unread, prob, &none,
			    &cli_err));
		w->passes++;
		w->guessed += how.n_guess;
	}
	tool_eval(s, &t->ids[i], 1, &how);
}

/*
 * Decode the tokens after the depth: with --accept those of the text, else each
 * the most likely one.
 */
static void
decode(struct trial *t, struct method *w, struct qwen_session *s,
    struct qwen_drafter *d)
{
	size_t i, n = qbench_opt.n;

	for (i = 0; i < n; i++) {
		if (w->draft == NULL)
			tool_eval(s, &t->ids[i], 1, NULL);
		else if (w->accept != NULL)
			eval_drawn(t, w, s, i);
		else
			tool_drafter_eval(d, s, t->ids[i], n - 1 - i);
		if (qbench_opt.accept.n == 0)
			t->ids[i + 1] = choose(t, s);
	}
}

/*
 * Die unless tokens and logits are those of the first round, which has no
 * drafts.
 */
static void
compare(struct trial *t, const struct method *w, const struct qwen_session *s)
{
	size_t row = qwen_model_n_vocab(t->plain) * sizeof *t->row;
	size_t ids = (qbench_opt.n + 1) * sizeof *t->ids;

	if (t->row == NULL) {
		t->row = cli_check_alloc(malloc(row));
		memcpy(t->row, qwen_session_logits(s), row);
		memcpy(t->want, t->ids, ids);
	}
	if (memcmp(t->row, qwen_session_logits(s), row) != 0 ||
	    memcmp(t->want, t->ids, ids) != 0)
		die("%s: other tokens or logits with --draft %s",
		    qbench_model_name, w->draft->word);
}

static void
one_round(struct trial *t, struct method *w, struct qbench_round *r)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_NONE };
	struct qwen_draft_stats before, after;
	struct qwen_drafter *d = NULL;
	struct qwen_session *s;
	struct qbench_counts a, b;

	cli_must(qbench_model_name, qwen_session_new(&s, w->m, &cli_err));
	if (t->depth > 0)
		tool_eval(s, qbench_ids, t->depth, &how);
	if (w->drafts != NULL) {
		cli_must(NULL, qwen_drafter_new(&d, w->drafts, &cli_err));
		qwen_drafts_stats(w->drafts, &before);
	}
	qbench_read_counts(&a);
	decode(t, w, s, d);
	qbench_read_counts(&b);
	qbench_round_of(r, &a, &b, qbench_opt.n);
	if (w->draft == NULL)
		w->passes += qbench_opt.n;
	if (w->drafts != NULL) {
		qwen_drafts_stats(w->drafts, &after);
		w->passes += after.n_passes - before.n_passes;
		w->guessed += after.mtp + after.looked_up - before.mtp -
		    before.looked_up;
	}
	compare(t, w, s);
	qwen_drafter_free(d);
	qwen_session_free(s);
}

/*
 * Run all methods in turn, so that each round has its own speed without drafts
 * to compare with.
 */
static void
measure(struct trial *t)
{
	struct qbench_round r;
	struct method *w;
	size_t i;

	/* warms up; the drafters learn the times of passes */
	for (w = t->method; w < t->method + t->n_methods; w++) {
		one_round(t, w, &r);
		w->passes = w->guessed = 0;
	}
	for (i = 0; i < qbench_opt.rounds; i++)
		for (w = t->method; w < t->method + t->n_methods; w++) {
			one_round(t, w, &r);
			w->tok_s[i] = r.tok_s;
			w->times[i] = r.tok_s / t->method[0].tok_s[i];
			w->n_marked += (size_t)r.marked;
		}
}

/* ------------------------------------------------------------------- output */

static void
text_head(struct qwen_text *t, const struct trial *tr)
{
	qbench_text_model(t, tr->plain);
	qwen_text_fmt(t, "\nsetting  decode of %zu at depth %zu, in turn; %s; "
	    "numerics %u\n%s\n", qbench_opt.n, tr->depth,
	    cli_count(qbench_opt.rounds, "round"),
	    qwen_model_numerics(tr->plain), qbench_opt.accept.n == 0 ? "" :
	    "guesses  made: simulated acceptance, not what a model reaches\n");
}

static void
show_method(struct qwen_text *t, const struct trial *tr, struct method *w,
    int first)
{
	double tokens = (double)(qbench_opt.n * qbench_opt.rounds);
	double right = tokens - (double)w->passes;
	double a_pass = tokens / (double)w->passes;
	int n_threads = qwen_model_n_threads(tr->plain);
	const struct qbench_cell cell[] = {
		/* of CSV only */
		QBENCH_TEXT("model", NULL, 0, qbench_model_name),
		QBENCH_VALUE("threads", n_threads),
		QBENCH_VALUE("depth", (double)tr->depth),
		QBENCH_VALUE("n", (double)qbench_opt.n),
		QBENCH_TEXT("draft", "draft", -10, w->draft != NULL ?
		    w->draft->word : "none"),
		QBENCH_REAL("simulated_acceptance", "simulated", 9, 2,
		    w->accept != NULL ? *w->accept : NAN),
		QBENCH_VALUE("guessed", (double)w->guessed),
		QBENCH_VALUE("right", right),
		QBENCH_VALUE("passes", (double)w->passes),
		QBENCH_REAL(NULL, "right", 6, 2, right / (double)w->guessed),
		QBENCH_REAL(NULL, "a_pass", 7, 2, a_pass),
		QBENCH_RANGE("tok_s", "tok/s", 9, 2,
		    qbench_spread_of(w->tok_s, qbench_opt.rounds)),
		QBENCH_RANGE("times", "times", 6, 2,
		    qbench_spread_of(w->times, qbench_opt.rounds)),
		QBENCH_REAL("marked", "marked", 6, 0, (double)w->n_marked),
	};
	const size_t n = sizeof cell / sizeof cell[0];

	if (!qbench_opt.json) {
		qbench_row(t, cell, n, first);
		return;
	}
	qwen_text_str(t, "{");
	qbench_json_cells(t, cell + 4, n - 4);
	qbench_json_number(t, "tokens_a_pass", a_pass);
	qbench_json_model(t, tr->plain);
	qwen_json_put(t, ",'setting':{'threads':%d,'depth':%zu,'n':%zu,"
	    "'rounds':%zu,'numerics':%u}}", n_threads, tr->depth, qbench_opt.n,
	    qbench_opt.rounds, qwen_model_numerics(tr->plain));
	qwen_text_str(t, "\n");
}

static void
show(const struct trial *tr)
{
	struct qwen_text t = { 0 };
	size_t i;

	qbench_begin(&t);
	if (!qbench_opt.csv && !qbench_opt.json)
		text_head(&t, tr);
	for (i = 0; i < tr->n_methods; i++)
		show_method(&t, tr, &tr->method[i], i == 0);
	qbench_write(&t);
}

/* ------------------------------------------------------------- all depths */

static void
add_method(struct trial *t, const struct qbench_draft *d, const double *accept)
{
	struct method *w = &t->method[t->n_methods++];
	struct tool_draft how;

	w->draft = d;
	w->accept = accept;
	w->m = d != NULL && d->how.mode >= QWEN_DRAFT_MTP ? t->block :
	    t->plain;
	if (d == NULL)
		return;
	if (d->how.mode == QWEN_DRAFT_MTP && !qwen_model_has_mtp(t->block))
		die("%s: the model has no MTP block; use --draft lookup%s",
		    qbench_model_name, accept != NULL ? ":4" : "");
	if (accept != NULL)
		return;
	how = d->how;
	tool_draft_open(&how, w->m);
	w->drafts = how.drafts;
}

static void
methods_init(struct trial *t)
{
	size_t i, k, n = qbench_opt.accept.n;

	t->method = cli_check_alloc(calloc(1 + qbench_opt.draft.n * (n > 0 ? n :
	    1),
	    sizeof *t->method));
	t->n_methods = 0;
	add_method(t, NULL, NULL);
	for (i = 0; i < qbench_opt.draft.n; i++) {
		if (n == 0)
			add_method(t, &qbench_opt.draft.v[i], NULL);
		for (k = 0; k < n; k++)
			add_method(t, &qbench_opt.draft.v[i],
			    &qbench_opt.accept.v[k]);
	}
}

/* Measure at one depth.  The first token is always that of the text. */
static void
at_depth(struct trial *t, size_t depth)
{
	size_t i, n = qbench_opt.n;

	t->depth = depth;
	t->row = NULL;
	t->ids = cli_check_alloc(calloc(n + 1, sizeof *t->ids));
	t->want = cli_check_alloc(calloc(n + 1, sizeof *t->want));
	memcpy(t->ids, qbench_ids + depth, n * sizeof *t->ids);
	draw_chances(t);
	methods_init(t);
	measure(t);
	show(t);
	for (i = 0; i < t->n_methods; i++)
		qwen_drafts_free(t->method[i].drafts);
	free(t->method);
	free(t->ids);
	free(t->want);
	free(t->chance);
	free(t->row);
}

/*
 * Only methods with the MTP block load it, so that the others do not pay for
 * it.
 */
void
qbench_run_drafts(int n_threads)
{
	const struct tool_draft *with = &qbench_opt.draft.block;
	struct trial t = { 0 };
	size_t i;

	t.plain = tool_model_open(qbench_model_path, n_threads,
	    qbench_opt.numerics);
	qbench_read_pages(qwen_model_gguf(t.plain));
	tool_share = t.plain;
	if (with->mode != QWEN_DRAFT_NONE)
		t.block = tool_model_open_draft(qbench_model_path, n_threads,
		    qbench_opt.numerics, with);
	qbench_prepare_tokens(t.plain);
	cli_must(NULL, qwen_sampler_new(&t.best, &cli_err));
	cli_must(NULL, qwen_sampler_cpu(t.best, tool_cpu(), &cli_err));
	cli_must(NULL, qwen_sampler_begin(t.best, qwen_model_n_vocab(t.plain),
	    &cli_err));
	for (i = 0; i < qbench_opt.depth.n; i++)
		at_depth(&t, qbench_opt.depth.v[i]);
	qwen_sampler_free(t.best);
	tool_share = NULL;
	qwen_model_close(t.block);
	qwen_model_close(t.plain);
}
