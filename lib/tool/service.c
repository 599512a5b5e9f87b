/* SPDX-License-Identifier: ISC */
/* service.c - template, stop strings and sampling of requests. */
#include <stdlib.h>
#include <string.h>

#include "tool/service.h"

/* Opens a template by name, from a file, or from the model, if it has one. */
static void
open_template(struct tool_service *t)
{
	static struct qwen_err err;

	if (t->template != NULL)
		t->chat = tool_template(t->template);
	else if (qwen_template_open_gguf(&t->chat, t->gguf, &err) < 0) {
		cli_die_oom(&err);
		t->service.no_template = err.msg;
	}
	if (t->chat != NULL) {
		tool_template_set(t->chat, t->gguf);
		qwen_template_set_systems(t->chat, t->systems);
	}
	t->service.template = t->chat;
}

/* Takes the default stop strings from the sampling options. */
static void
list_stops(struct tool_service *t)
{
	struct qwen_service *s = &t->service;
	const char *text;
	size_t cap = 0;

	while ((text = qwen_sampler_text(t->sampler, "stop",
	    s->n_stop)) != NULL) {
		cli_grow(&t->stop, &cap, s->n_stop + 1, sizeof *t->stop);
		t->stop[s->n_stop++] = (struct qwen_str){ text, strlen(text) };
	}
	s->stop = t->stop;
}

/*
 * Reports the default settings of requests, or that the recommended ones are
 * unusable.
 */
static void
tell_sampling(struct tool_service *t)
{
	static const char *const when[] = { "", " with thinking" };
	const struct qwen_template *chat = t->service.template;
	const char *source;
	int thinks = chat != NULL && qwen_request_can_think(chat);

	for (; thinks >= 0; thinks--) {
		source = tool_sampling_advise(t->base, t->gguf, 1, thinks);
		if (source != NULL || thinks == 0)
			tool_report_sampling(t->base, source, when[thinks]);
	}
}

/*
 * Creates the sampler that all requests copy.  It has no stop strings: the
 * request code searches the text for them.
 */
static void
open_sampler(struct tool_service *t, const struct qwen_header *h)
{
	struct qwen_grammars *all = &t->grammars;

	cli_must(NULL, qwen_sampler_copy(&t->base, t->sampler, &cli_err));
	cli_must(NULL, qwen_sampler_eog(t->base, h->eog, h->n_eog, &cli_err));
	qwen_sampler_reset(t->base, "stop");
	tell_sampling(t);
	if (t->mask_unused)
		tool_mask_unused(t->base, t->gguf);
	all->gguf = t->gguf;
	all->pieces = t->pieces = tool_sampling_pieces(t->base, t->gguf);
	if (t->grammar.grammar == NULL)
		return;
	cli_must(qwen_gguf_path(t->gguf, 0), qwen_grammars_prepare(all,
	    &cli_err));
	qwen_sampler_constrain(t->base, qwen_grammar_constraint(
	    t->grammar.grammar, all->trie));
}

void
tool_service_open(struct tool_service *t, const struct qwen_gguf *g,
    const struct qwen_header *h)
{
	struct qwen_service *s = &t->service;

	t->gguf = g;
	t->header = h;
	s->n_vocab = h->n_vocab;
	s->model = tool_model_name(qwen_gguf_path(g, 0));
	s->min = (size_t)qwen_sampler_number(t->sampler, "min-tokens");
	s->grammars = &t->grammars;
	s->sample_opt = qwen_sample_opt;
	s->has_grammar = t->grammar.grammar != NULL;
	list_stops(t);
	open_template(t);
	open_sampler(t, h);
}

/* ---------------------------------------------------------------- a request */

/* Refuses this request because of err; dies if out of memory. */
static int
refuse(struct qwen_request *q, const char *param, const struct qwen_err *err)
{
	cli_die_oom(err);
	return param != NULL ? qwen_refuse(&q->refusal, "invalid_request",
	    param, "%s: %s", param, err->msg) : tool_refuse(&q->refusal,
	    "invalid_request", err);
}

/* Sets dynatemp_range: temperatures from temp - range to temp + range. */
static int
set_range(const struct qwen_request *q, struct qwen_sampler *s,
    struct qwen_err *err)
{
	double temp = qwen_sampler_number(s, "temp");
	double low = temp - q->temp_range < 0.001 ? 0.001 :
	    temp - q->temp_range;
	char text[2][40];

	if (q->temp_range <= 0 || temp <= 0 ||
	    qwen_sampler_number(s, "greedy") > 0)
		return 0;
	snprintf(text[0], sizeof text[0], "%.17g", low);
	snprintf(text[1], sizeof text[1], "%.17g", temp + q->temp_range);
	return qwen_sampler_set(s, "dyntemp-min", text[0], err) < 0 ||
	    qwen_sampler_set(s, "dyntemp-max", text[1], err) < 0 ||
	    qwen_sampler_set(s, "temp", "0", err) < 0 ? -1 : 0;
}

static void
draw_seed(const struct tool_service *t, struct qwen_request *q,
    struct qwen_sampler *s)
{
	char seed[TOOL_SEED_ROOM];

	if ((q->seed_from != QWEN_SEED_RANDOM && !(t->draws_seeds &&
	    q->seed_from == QWEN_SEED_UNSAID)) || !qwen_sampler_draws(s))
		return;
	tool_seed_draw(seed);
	cli_must(NULL, qwen_sampler_set(s, "seed", seed, &cli_err));
	q->seed = qwen_sampler_seed(s);
	q->seed_drawn = 1;
}

/* Lists the tokens that end the answers, if the request names any. */
static void
list_endings(const struct tool_service *t, struct qwen_request *q)
{
	size_t n = t->ignore_eos ? 0 : t->header->n_eog;

	free(q->end_id);
	q->end_id = NULL;
	q->n_end_ids = n + q->n_stop_ids;
	if (q->n_stop_ids == 0)
		return;
	q->end_id = cli_check_alloc(calloc(q->n_end_ids, sizeof *q->end_id));
	memcpy(q->end_id, t->header->eog, n * sizeof *q->end_id);
	memcpy(q->end_id + n, q->stop_id, q->n_stop_ids * sizeof *q->end_id);
}

/* Gives the sampler the grammar and the texts of tokens, if it needs them. */
static void
give_pieces(struct tool_service *t, const struct qwen_request *q,
    struct qwen_sampler *s)
{
	if (q->grammar != NULL)
		qwen_sampler_constrain(s, qwen_grammar_constraint(q->grammar,
		    t->grammars.trie));
	if (!qwen_sampler_needs_pieces(s))
		return;
	cli_must(qwen_gguf_path(t->gguf, 0), qwen_grammars_prepare(
	    &t->grammars, &cli_err));
	qwen_sampler_pieces(s, t->grammars.pieces);
}

static int
set(struct tool_service *t, struct qwen_request *q, struct qwen_sampler *s)
{
	struct qwen_err err;
	const char *option;
	size_t i;

	for (i = 0; i < q->n_settings; i++) {
		option = q->setting[i].option;
		/* a list in the request replaces that of the command line */
		if (i == 0 || strcmp(q->setting[i - 1].option, option) != 0)
			qwen_sampler_reset(s, option);
		if (qwen_sampler_set(s, option, q->setting[i].value, &err) < 0)
			return refuse(q, q->setting[i].key, &err);
	}
	qwen_sampler_bias(s, q->bias_id, q->bias, q->n_bias);
	tool_sampling_advise(s, t->gguf, 1, q->thinks);
	if (set_range(q, s, &err) < 0)
		return refuse(q, "dynatemp_range", &err);
	if (qwen_sampler_check(s, &err) < 0)
		return refuse(q, NULL, &err);
	draw_seed(t, q, s);
	list_endings(t, q);
	give_pieces(t, q, s);
	return 0;
}

int
tool_service_sampler(struct tool_service *t, struct qwen_request *q,
    struct qwen_sampler **out)
{
	struct qwen_str s = { "", 0 };

	cli_must(NULL, qwen_sampler_copy(out, t->base, &cli_err));
	/* some editors do that */
	if (q->has_control && !t->told_names++) {
		qwen_tok_decoder_put(t->service.spell, q->control_id, &s, NULL);
		cli_note("a prompt contains %.*s, the name of a control token: "
		    "read as plain text; --special reads such names as tokens",
		    (int)(s.len < 64 ? s.len : 64), s.s);
	}
	if (set(t, q, *out) == 0)
		return 0;
	qwen_sampler_free(*out);
	*out = NULL;
	return -1;
}

struct qwen_sampler *
tool_service_nth(const struct qwen_sampler *from, size_t i)
{
	struct qwen_sampler *s;
	char seed[32];

	if (qwen_sampler_is_greedy(from))
		return NULL;
	snprintf(seed, sizeof seed, "%llu",
	    cli_llu(qwen_sampler_seed(from) + i));
	cli_must(NULL, qwen_sampler_copy(&s, from, &cli_err));
	cli_must(NULL, qwen_sampler_set(s, "seed", seed, &cli_err));
	return s;
}
