/* SPDX-License-Identifier: ISC */
/*
 * result.c - format the result of a text.  It does not depend on other texts,
 * threads, the machine or the time.
 */
#include <math.h>
#include <string.h>

#include "qscore.h"

struct qwen_str
qscore_spell(const struct qscore_run *r, int32_t id)
{
	struct qwen_str s;

	cli_must(NULL, qwen_tok_decoder_put(r->work.spell, id, &s, &cli_err));
	return s;
}

static void
add_up(const struct qscore_run *r, const struct qscore_text *x,
    struct qscore_sums *s)
{
	size_t i;

	s->n_tokens = x->q.text.n - x->q.n_front;
	for (i = 0; i + x->q.from < x->q.text.n; i++) {
		if (x->q.text.id[x->q.from + i] < 0)
			continue;
		s->n++;
		s->logprob += x->logprob[i];
		s->square += x->logprob[i] * x->logprob[i];
		s->greedy += x->rank[i] == 0;
		s->bytes += qscore_spell(r, x->q.text.id[x->q.from + i]).len;
	}
}

static void
add_sums(struct qscore_sums *to, const struct qscore_sums *s)
{
	to->n_tokens += s->n_tokens;
	to->n += s->n;
	to->logprob += s->logprob;
	to->square += s->square;
	to->greedy += s->greedy;
	to->bytes += s->bytes;
}

/* Return the standard error of the mean, assuming independent tokens. */
static double
error_of_mean(const struct qscore_sums *s)
{
	double n = (double)s->n, mean = s->logprob / n, var;

	var = s->square / n - mean * mean;
	return s->n > 1 && var > 0 ? sqrt(var / (n - 1)) : 0;
}

static double
bits_per_byte(const struct qscore_sums *s)
{
	return s->bytes > 0 ? -s->logprob / M_LN2 / (double)s->bytes : 0;
}

/* Return the n_top best tokens at the i-th scored token. */
static const struct qwen_sample_top *
top_of(const struct qscore_run *r, const struct qscore_text *x, size_t i)
{
	return x->top + i * r->n_top;
}

/* Add "id":7,"text":"a","logprob":-1. */
static void
add_token(const struct qscore_run *r, int32_t id, double logprob,
    struct qwen_text *t)
{
	struct qwen_str s = qscore_spell(r, id);

	qwen_text_fmt(t, "\"id\":%ld,\"text\":", (long)id);
	qwen_text_json(t, s.s, s.len);
	qwen_text_fmt(t, ",\"logprob\":%.12g", logprob);
}

/* Add ,"top":[...]. */
static void
add_top(const struct qscore_run *r, const struct qwen_sample_top *top,
    struct qwen_text *t)
{
	size_t i;

	qwen_text_str(t, ",\"top\":[");
	for (i = 0; i < r->n_top; i++) {
		qwen_text_str(t, i > 0 ? ",{" : "{");
		add_token(r, top[i].id, top[i].logprob, t);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]");
}

/* Add ,"tokens":[...] with all scored tokens. */
static void
add_tokens(const struct qscore_run *r, const struct qscore_text *x,
    struct qwen_text *t)
{
	size_t i;

	qwen_text_str(t, ",\"tokens\":[");
	for (i = 0; i + x->q.from < x->q.text.n; i++) {
		if (x->q.text.id[x->q.from + i] < 0)
			continue;
		qwen_text_fmt(t, "%s{\"position\":%zu,", i > 0 ? "," : "",
		    x->q.from + i - x->q.n_front);
		add_token(r, x->q.text.id[x->q.from + i], x->logprob[i], t);
		qwen_text_fmt(t, ",\"rank\":%lu", (unsigned long)x->rank[i]);
		if (r->n_top > 0)
			add_top(r, top_of(r, x, i), t);
		qwen_text_str(t, "}");
	}
	qwen_text_str(t, "]");
}

void
qscore_number(struct qwen_text *t, const char *key, double x)
{
	qwen_text_fmt(t, isfinite(x) ? ",\"%s\":%.12g" : ",\"%s\":null", key, x);
}

static void
add_figures(const struct qscore_sums *s, struct qwen_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;
	double perplexity = qwen_perplexity(mean);

	qwen_text_fmt(t, "\"tokens_total\":%zu,\"tokens_scored\":%zu,"
	    "\"bytes\":%llu", s->n_tokens, s->n,
	    (unsigned long long)s->bytes);
	qscore_number(t, "logprob", s->logprob);
	qscore_number(t, "nats_per_token", mean);
	qscore_number(t, "perplexity", perplexity);
	qscore_number(t, "perplexity_error", perplexity * error_of_mean(s));
	qscore_number(t, "bits_per_byte", bits_per_byte(s));
	qscore_number(t, "greedy_share", s->n > 0 ?
	    (double)s->greedy / (double)s->n : 0);
}

/* Add the answer to a request. */
static void
add_request(const struct qscore_run *r, const struct qscore_text *x,
    const struct qscore_sums *s, struct qwen_text *t)
{
	if (!tool_begin_result(t, x->line, x->q.id, &x->q.refusal))
		return;
	/* tokens_context does not count a token put in front of the text */
	qwen_text_fmt(t, ",\"logprob\":%.12g,\"is_greedy\":%s,"
	    "\"tokens_context\":%zu,\"tokens_scored\":%zu,\"bytes\":%llu",
	    s->logprob, s->greedy == s->n ? "true" : "false",
	    x->q.from - x->q.n_front, s->n, (unsigned long long)s->bytes);
	if (r->per_token)
		add_tokens(r, x, t);
	qwen_text_str(t, "}\n");
}

/* Add a line per token: position, id, logprob, rank, text, best tokens. */
static void
add_table(const struct qscore_run *r, const struct qscore_text *x,
    struct qwen_text *t)
{
	const struct qwen_sample_top *top;
	struct qwen_str s;
	size_t i, k;

	for (i = 0; i + x->q.from < x->q.text.n; i++) {
		if (x->q.text.id[x->q.from + i] < 0)
			continue;	/* a row of an image */
		s = qscore_spell(r, x->q.text.id[x->q.from + i]);
		qwen_text_fmt(t, "%zu\t%ld\t%.6f\t%lu\t", x->q.from + i -
		    x->q.n_front, (long)x->q.text.id[x->q.from + i],
		    x->logprob[i], (unsigned long)x->rank[i]);
		qwen_text_json(t, s.s, s.len);
		for (k = 0; k < r->n_top; k++) {
			top = top_of(r, x, i) + k;
			s = qscore_spell(r, top->id);
			qwen_text_fmt(t, "\t%ld\t%.6f\t", (long)top->id,
			    top->logprob);
			qwen_text_json(t, s.s, s.len);
		}
		qwen_text_str(t, "\n");
	}
}

void
qscore_line(const struct qscore_run *r, const char *name,
    const struct qscore_sums *s, struct qwen_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;
	double perplexity = qwen_perplexity(mean);

	if (r->json) {
		qwen_text_str(t, "{\"file\":");
		qwen_text_json(t, name, strlen(name));
		qwen_text_str(t, ",");
		add_figures(s, t);
		return;
	}
	qwen_text_fmt(t, "%10zu %10zu %10.4f %12.4f %9.4f %9.4f  %s\n",
	    s->n_tokens, s->n, mean, perplexity,
	    perplexity * error_of_mean(s), bits_per_byte(s), name);
}

void
qscore_result(const struct qscore_run *r, const struct qscore_text *x,
    struct qscore_sums *sums, struct qwen_text *t)
{
	struct qscore_sums s = { 0 };

	if (x->q.refusal.err.code == 0) {
		add_up(r, x, &s);
		add_sums(sums, &s);
	}
	if (x->name == NULL) {
		add_request(r, x, &s, t);
		return;
	}
	if (x->q.refusal.err.code != 0) {
		warn("%s: %s", x->name, x->q.refusal.err.msg);
		return;
	}
	if (r->per_token && !r->json) {
		add_table(r, x, t);
		return;
	}
	qscore_line(r, x->name, &s, t);
	if (r->json && r->per_token)
		add_tokens(r, x, t);
	if (r->json)
		qwen_text_str(t, "}\n");
}
