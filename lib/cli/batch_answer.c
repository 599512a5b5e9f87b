/* SPDX-License-Identifier: ISC */
/* batch_answer.c - the text of an answer as it comes, and where it ends. */
#include <stdlib.h>
#include <string.h>

#include "cli/batch.h"
#include "cli/internal.h"

/* Where a stop string is that ends behind from; SIZE_MAX: nowhere. */
static size_t
find_stop(const struct cli_answer *a, size_t from)
{
	const struct cli_item *item = a->item;
	const char *p, *end = a->text.s + a->text.n;
	size_t i, best = SIZE_MAX;

	for (i = 0; i < item->n_stop; i++) {
		const struct qwen_str *s = &item->stop[i];

		p = a->text.s + (from < s->len ? 0 : from - s->len + 1);
		for (; (size_t)(end - p) >= s->len; p++) {
			p = memchr(p, s->s[0], (size_t)(end - p));
			if (p == NULL || (size_t)(end - p) < s->len)
				break;
			if (memcmp(p, s->s, s->len) != 0)
				continue;
			if ((size_t)(p - a->text.s) < best)
				best = (size_t)(p - a->text.s);
			break;
		}
	}
	return best;
}

/* More text: 1 if it has a stop string, which may have begun before. */
static int
add_text(struct cli_answer *a, const struct qwen_str *piece)
{
	size_t at, from = a->text.n;

	cli_text_add(&a->text, piece->s, piece->len);
	if (a->item->n_stop == 0 || a->n < a->item->min)
		return 0;
	at = find_stop(a, from);
	if (at == SIZE_MAX)
		return 0;
	a->text.n = at;
	a->text.s[at] = '\0';
	return 1;
}

/* ------------------------------------------------------------ probabilities */

/* The bytes of a token. */
static struct qwen_str
spell(struct qwen_tok_decoder *d, int32_t id)
{
	struct qwen_str s = { "", 0 };

	qwen_tok_decoder_put(d, id, &s, NULL);
	return s;
}

/* "token": "...", "logprob": ..., "bytes": [...] */
static void
chat_token(struct cli_text *t, struct qwen_tok_decoder *d, int32_t id,
    double logprob)
{
	struct qwen_str s = spell(d, id);
	size_t i;

	cli_text_str(t, "\"token\":");
	cli_text_json(t, s.s, s.len);
	cli_text_fmt(t, ",\"logprob\":%.8g,\"bytes\":[", logprob);
	for (i = 0; i < s.len; i++)
		cli_text_fmt(t, "%s%u", i > 0 ? "," : "",
		    (unsigned)(unsigned char)s.s[i]);
	cli_text_str(t, "]");
}

static void
chat_logprobs(struct cli_answer *a, const struct qwen_choice *c,
    struct qwen_tok_decoder *d)
{
	struct cli_text *t = &a->logprobs;
	size_t i;

	cli_text_str(t, t->n > 0 ? ",{" : "{");
	chat_token(t, d, c->id, c->logprob);
	cli_text_str(t, ",\"top_logprobs\":[");
	for (i = 0; i < c->n_top; i++) {
		cli_text_str(t, i > 0 ? ",{" : "{");
		chat_token(t, d, c->top[i].id, c->top[i].logprob);
		cli_text_str(t, "}");
	}
	cli_text_str(t, "]}");
}

static void
plain_logprobs(struct cli_answer *a, const struct qwen_choice *c,
    struct qwen_tok_decoder *d)
{
	struct cli_text *t = &a->logprobs;
	struct qwen_str s = spell(d, c->id);
	size_t i;

	cli_text_fmt(t, "%s{\"id\":%ld,\"token\":", t->n > 0 ? "," : "",
	    (long)c->id);
	cli_text_json(t, s.s, s.len);
	cli_text_fmt(t, ",\"logprob\":%.8g,\"top\":[", c->logprob);
	for (i = 0; i < c->n_top; i++) {
		cli_text_fmt(t, "%s{\"id\":%ld,\"token\":", i > 0 ? "," : "",
		    (long)c->top[i].id);
		s = spell(d, c->top[i].id);
		cli_text_json(t, s.s, s.len);
		cli_text_fmt(t, ",\"logprob\":%.8g}", c->top[i].logprob);
	}
	cli_text_str(t, "]}");
}

/* Four lists side by side. */
static void
completion_logprobs(struct cli_answer *a, const struct qwen_choice *c,
    struct qwen_tok_decoder *d)
{
	const char *comma = a->n > 1 ? "," : "";
	struct qwen_str s = spell(d, c->id);
	size_t i;

	cli_text_str(&a->lp_tokens, comma);
	cli_text_json(&a->lp_tokens, s.s, s.len);
	cli_text_fmt(&a->logprobs, "%s%.8g", comma, c->logprob);
	cli_text_fmt(&a->lp_offset, "%s%zu", comma, a->n_chars);
	cli_text_fmt(&a->lp_top, "%s{", comma);
	for (i = 0; i < c->n_top; i++) {
		s = spell(d, c->top[i].id);
		cli_text_str(&a->lp_top, i > 0 ? "," : "");
		cli_text_json(&a->lp_top, s.s, s.len);
		cli_text_fmt(&a->lp_top, ":%.8g", c->top[i].logprob);
	}
	cli_text_str(&a->lp_top, "}");
}

static size_t
characters(const char *s, size_t n)
{
	size_t i, count = 0;

	for (i = 0; i < n; i++)
		count += ((unsigned char)s[i] & 0xc0) != 0x80;
	return count;
}

/* -------------------------------------------------------------------------- */

int
cli_answer_put(struct cli_answer *a, const struct qwen_choice *c,
    struct qwen_tok_decoder *bytes)
{
	struct qwen_str piece;
	struct qwen_err err;

	a->n++;
	if (a->item->logprobs && a->item->form == CLI_CHAT)
		chat_logprobs(a, c, bytes);
	else if (a->item->logprobs && a->item->form == CLI_COMPLETION)
		completion_logprobs(a, c, bytes);
	else if (a->item->logprobs)
		plain_logprobs(a, c, bytes);
	if (qwen_tok_decoder_put(a->decoder, c->id, &piece, &err) < 0)
		cli_die_err(NULL, &err);
	if (a->item->logprobs)
		a->n_chars += characters(piece.s, piece.len);
	return add_text(a, &piece);
}

void
cli_answer_end(struct cli_answer *a, const char *finish)
{
	struct qwen_str piece;

	/* a text that was cut has no rest */
	qwen_tok_decoder_finish(a->decoder, &piece);
	if (strcmp(finish, "cut") == 0)
		finish = "stop";
	else if (add_text(a, &piece))
		finish = "stop";
	a->finish = finish;
	qwen_tok_decoder_free(a->decoder);
	a->decoder = NULL;
	a->item->n_left--;
}
