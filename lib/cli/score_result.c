/* SPDX-License-Identifier: ISC */
/*
 * score_result.c - what came of a text, in figures: nothing in it depends on
 * the other texts, the threads or the time.
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

/* ,"tokens":[...], all that are scored */
static void
add_tokens(const struct cli_score *r, const struct cli_scored *q,
    struct cli_text *t)
{
	struct qwen_str s;
	size_t i;

	cli_text_str(t, ",\"tokens\":[");
	for (i = 0; i + q->from < q->n; i++) {
		s = spell(r, q->tokens[q->from + i]);
		cli_text_fmt(t, "%s{\"position\":%zu,\"id\":%ld,\"text\":",
		    i > 0 ? "," : "", q->from + i - q->front,
		    (long)q->tokens[q->from + i]);
		cli_text_json(t, s.s, s.len);
		cli_text_fmt(t, ",\"logprob\":%.12g,\"rank\":%lu}",
		    q->logprob[i], (unsigned long)q->rank[i]);
	}
	cli_text_str(t, "]");
}

static void
add_figures(const struct cli_score_sums *s, struct cli_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;

	cli_text_fmt(t, "\"tokens_total\":%zu,\"tokens_scored\":%zu,"
	    "\"bytes\":%llu,\"logprob\":%.12g,\"nats_per_token\":%.12g,"
	    "\"perplexity\":%.12g,\"perplexity_error\":%.12g,"
	    "\"bits_per_byte\":%.12g,\"greedy_share\":%.12g", s->n_tokens, s->n,
	    (unsigned long long)s->bytes, s->logprob, mean, exp(mean),
	    exp(mean) * error_of_mean(s), bits_per_byte(s),
	    s->n > 0 ? (double)s->greedy / (double)s->n : 0);
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

/* position, id, logprob, rank, text: a line a token */
static void
table(const struct cli_score *r, const struct cli_scored *q,
    struct cli_text *t)
{
	struct qwen_str s;
	size_t i;

	for (i = 0; i + q->from < q->n; i++) {
		s = spell(r, q->tokens[q->from + i]);
		cli_text_fmt(t, "%zu\t%ld\t%.6f\t%lu\t",
		    q->from + i - q->front, (long)q->tokens[q->from + i],
		    q->logprob[i], (unsigned long)q->rank[i]);
		cli_text_json(t, s.s, s.len);
		cli_text_str(t, "\n");
	}
}

void
cli_score_line(const struct cli_score *r, const char *name,
    const struct cli_score_sums *s, struct cli_text *t)
{
	double mean = s->n > 0 ? -s->logprob / (double)s->n : 0;

	if (r->json) {
		cli_text_str(t, "{\"file\":");
		cli_text_json(t, name, strlen(name));
		cli_text_str(t, ",");
		add_figures(s, t);
		return;
	}
	cli_text_fmt(t, "%10zu %10zu %10.4f %12.4f %9.4f %9.4f  %s\n",
	    s->n_tokens, s->n, mean, exp(mean), exp(mean) * error_of_mean(s),
	    bits_per_byte(s), name);
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
