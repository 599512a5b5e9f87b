/* SPDX-License-Identifier: ISC */
/*
 * score_result.c - what came of a text, in figures: nothing in it depends on
 * the other texts, the threads, the machine or the time.
 */
#include <math.h>
#include <string.h>

#include "cli/score.h"

/* The bytes that a token stands for; until the next call. */
static struct qwen_str
spell(const struct cli_score *r, int32_t id)
{
	struct qwen_str s;
	struct qwen_err err;

	if (qwen_tok_decoder_put(r->spell, id, &s, &err) < 0)
		cli_die_err(NULL, &err);
	return s;
}

static void
add_up(const struct cli_score *r, const struct cli_scored *q,
    struct cli_score_sums *s)
{
	size_t i;

	s->n_tokens = q->n - q->front;
	for (i = 0; i + q->from < q->n; i++) {
		s->n++;
		s->logprob += q->logprob[i];
		s->square += q->logprob[i] * q->logprob[i];
		s->greedy += q->rank[i] == 0;
		s->bytes += spell(r, q->tokens[q->from + i]).len;
	}
}

static void
join(struct cli_score_sums *to, const struct cli_score_sums *s)
{
	to->n_tokens += s->n_tokens;
	to->n += s->n;
	to->logprob += s->logprob;
	to->square += s->square;
	to->greedy += s->greedy;
	to->bytes += s->bytes;
}

/* Of the mean, as far as the tokens are independent of each other. */
static double
error_of_mean(const struct cli_score_sums *s)
{
	double n = (double)s->n, mean = s->logprob / n, var;

	var = s->square / n - mean * mean;
	return s->n > 1 && var > 0 ? sqrt(var / (n - 1)) : 0;
}

static double
bits_per_byte(const struct cli_score_sums *s)
{
	return s->bytes > 0 ? -s->logprob / M_LN2 / (double)s->bytes : 0;
}

/* The best of the i-th that is scored. */
static const struct qwen_sample_top *
top_of(const struct cli_score *r, const struct cli_scored *q, size_t i)
{
	return q->top + i * r->n_top;
}

/* "id":7,"text":"a","logprob":-1 */
static void
add_token(const struct cli_score *r, int32_t id, double logprob,
    struct cli_text *t)
{
	struct qwen_str s = spell(r, id);

	cli_text_fmt(t, "\"id\":%ld,\"text\":", (long)id);
	cli_text_json(t, s.s, s.len);
	cli_text_fmt(t, ",\"logprob\":%.12g", logprob);
}

/* ,"top":[...] */
static void
add_top(const struct cli_score *r, const struct qwen_sample_top *top,
    struct cli_text *t)
{
	size_t i;

	cli_text_str(t, ",\"top\":[");
	for (i = 0; i < r->n_top; i++) {
		cli_text_str(t, i > 0 ? ",{" : "{");
		add_token(r, top[i].id, top[i].logprob, t);
		cli_text_str(t, "}");
	}
	cli_text_str(t, "]");
}

/* ,"tokens":[...], all that are scored */
static void
add_tokens(const struct cli_score *r, const struct cli_scored *q,
    struct cli_text *t)
{
	size_t i;

	cli_text_str(t, ",\"tokens\":[");
	for (i = 0; i + q->from < q->n; i++) {
		cli_text_fmt(t, "%s{\"position\":%zu,", i > 0 ? "," : "",
		    q->from + i - q->front);
		add_token(r, q->tokens[q->from + i], q->logprob[i], t);
		cli_text_fmt(t, ",\"rank\":%lu", (unsigned long)q->rank[i]);
		if (r->n_top > 0)
			add_top(r, top_of(r, q, i), t);
		cli_text_str(t, "}");
	}
	cli_text_str(t, "]");
}

/* ,"key":x; JSON has no infinity */
static void
add_number(const char *key, double x, struct cli_text *t)
{
	cli_text_fmt(t, isfinite(x) ? ",\"%s\":%.12g" : ",\"%s\":null", key, x);
}

static void
add_figures(const struct cli_score_sums *s, struct cli_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;
	double perplexity = qwen_perplexity(mean);

	cli_text_fmt(t, "\"tokens_total\":%zu,\"tokens_scored\":%zu,"
	    "\"bytes\":%llu", s->n_tokens, s->n,
	    (unsigned long long)s->bytes);
	add_number("logprob", s->logprob, t);
	add_number("nats_per_token", mean, t);
	add_number("perplexity", perplexity, t);
	add_number("perplexity_error", perplexity * error_of_mean(s), t);
	add_number("bits_per_byte", bits_per_byte(s), t);
	add_number("greedy_share", s->n > 0 ?
	    (double)s->greedy / (double)s->n : 0, t);
}

/* The answer to a line. */
static void
request(const struct cli_score *r, const struct cli_scored *q,
    const struct cli_score_sums *s, struct cli_text *t)
{
	cli_text_fmt(t, "{\"line\":%llu", (unsigned long long)q->line);
	if (q->id != NULL)
		cli_text_fmt(t, ",\"id\":%s", q->id);
	if (q->err.code != 0) {
		cli_text_fmt(t, ",\"error\":{\"code\":\"%s\",\"message\":",
		    q->code);
		cli_text_json(t, q->err.msg, strlen(q->err.msg));
		cli_text_str(t, "}}\n");
		return;
	}
	/* tokens_context: those of the text, not the one in front of it */
	cli_text_fmt(t, ",\"logprob\":%.12g,\"is_greedy\":%s,"
	    "\"tokens_context\":%zu,\"tokens_scored\":%zu,\"bytes\":%llu",
	    s->logprob, s->greedy == s->n ? "true" : "false",
	    q->from - q->front, s->n, (unsigned long long)s->bytes);
	if (r->each)
		add_tokens(r, q, t);
	cli_text_str(t, "}\n");
}

/* position, id, logprob, rank, text, and the best: a line a token */
static void
table(const struct cli_score *r, const struct cli_scored *q,
    struct cli_text *t)
{
	const struct qwen_sample_top *top;
	struct qwen_str s;
	size_t i, k;

	for (i = 0; i + q->from < q->n; i++) {
		s = spell(r, q->tokens[q->from + i]);
		cli_text_fmt(t, "%zu\t%ld\t%.6f\t%lu\t",
		    q->from + i - q->front, (long)q->tokens[q->from + i],
		    q->logprob[i], (unsigned long)q->rank[i]);
		cli_text_json(t, s.s, s.len);
		for (k = 0; k < r->n_top; k++) {
			top = top_of(r, q, i) + k;
			s = spell(r, top->id);
			cli_text_fmt(t, "\t%ld\t%.6f\t", (long)top->id,
			    top->logprob);
			cli_text_json(t, s.s, s.len);
		}
		cli_text_str(t, "\n");
	}
}

void
cli_score_line(const struct cli_score *r, const char *name,
    const struct cli_score_sums *s, struct cli_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;
	double perplexity = qwen_perplexity(mean);

	if (r->json) {
		cli_text_str(t, "{\"file\":");
		cli_text_json(t, name, strlen(name));
		cli_text_str(t, ",");
		add_figures(s, t);
		return;
	}
	cli_text_fmt(t, "%10zu %10zu %10.4f %12.4f %9.4f %9.4f  %s\n",
	    s->n_tokens, s->n, mean, perplexity,
	    perplexity * error_of_mean(s), bits_per_byte(s), name);
}

void
cli_score_result(const struct cli_score *r, const struct cli_scored *q,
    struct cli_score_sums *sums, struct cli_text *t)
{
	struct cli_score_sums s = { 0 };

	if (q->err.code == 0) {
		add_up(r, q, &s);
		join(sums, &s);
	}
	if (q->name == NULL) {
		request(r, q, &s, t);
		return;
	}
	if (q->err.code != 0) {
		cli_warn("%s: %s", q->name, q->err.msg);
		return;
	}
	if (r->each && !r->json) {
		table(r, q, t);
		return;
	}
	cli_score_line(r, q->name, &s, t);
	if (r->json && r->each)
		add_tokens(r, q, t);
	if (r->json)
		cli_text_str(t, "}\n");
}
