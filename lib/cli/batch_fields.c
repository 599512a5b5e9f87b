/* SPDX-License-Identifier: ISC */
/* batch_fields.c - what a request says beside its prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/batch_ask.h"

/* ----------------------------------------------------------------- numbers */

int
cli_ask_number(struct cli_ask *r, const char *key, yyjson_val *v,
    char buf[CLI_NUMBER_MAX])
{
	if (!yyjson_is_raw(v) || yyjson_get_len(v) >= CLI_NUMBER_MAX)
		return bad(r, "%s: is not a number", key);
	memcpy(buf, yyjson_get_raw(v), yyjson_get_len(v));
	buf[yyjson_get_len(v)] = '\0';
	return 0;
}

/* A whole number from min to max: 1, 0 if there is none, -1. */
static int
whole(struct cli_ask *r, const char *key, int64_t min, int64_t max,
    int64_t *out)
{
	yyjson_val *v = cli_ask_get(r, key);
	char buf[CLI_NUMBER_MAX];
	size_t i, digits;
	int64_t n = 0;

	if (v == NULL)
		return 0;
	if (cli_ask_number(r, key, v, buf) < 0)
		return -1;
	digits = strspn(buf, "0123456789");
	if (buf[digits] != '\0' || digits > 18)
		return bad(r, "%s: %s is not a whole number from %lld to "
		    "%lld", key, buf, (long long)min, (long long)max);
	for (i = 0; i < digits; i++)
		n = n * 10 + (buf[i] - '0');
	if (n < min || n > max)
		return bad(r, "%s: %s is not in %lld..%lld", key, buf,
		    (long long)min, (long long)max);
	*out = n;
	return 1;
}

/* ---------------------------------------------------------------- sampling */

/* "seed=5 temp=0.7", what differs from the defaults; free it. */
static char *
describe(const struct qwen_sampler *s)
{
	size_t n = qwen_sampler_describe(s, NULL, 0);
	char *text = cli_ask_alloc(n + 1, 1);

	qwen_sampler_describe(s, text, n + 1);
	return text;
}

/* An option that is a whole number, 0 by default. */
static uint64_t
number(const struct qwen_sampler *s, const char *name)
{
	char *text = describe(s), *word, *save = NULL;
	size_t n = strlen(name);
	uint64_t x = 0;

	for (word = strtok_r(text, " ", &save); word != NULL;
	    word = strtok_r(NULL, " ", &save)) {
		if (strncmp(word, name, n) == 0 && word[n] == '=')
			x = strtoull(word + n + 1, NULL, 10);
	}
	free(text);
	return x;
}

uint64_t
cli_sampler_seed(const struct qwen_sampler *s)
{
	return number(s, "seed");
}

/* Leave out the words that begin so, in place. */
static void
leave_out(char *text, const char *begin)
{
	size_t n = strlen(begin), len;
	char *to = text;

	for (; *text != '\0'; text += len) {
		len = strcspn(text, " ");
		len += text[len] == ' ';
		if (strncmp(text, begin, n) != 0) {
			memmove(to, text, len);
			to += len;
		}
	}
	*to = '\0';
}

struct qwen_sampler *
cli_ask_sampler(const struct cli_batch *b, const struct qwen_sampler *from,
    uint64_t add)
{
	char *text = describe(from), seed[32];
	struct qwen_sampler *s;
	struct qwen_err err;

	/* where an answer is to stop, we see by ourselves */
	leave_out(text, "stop=");
	snprintf(seed, sizeof seed, "%llu",
	    (unsigned long long)(cli_sampler_seed(from) + add));
	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_cpu(s, cli_cpu(), &err) < 0 ||
	    qwen_sampler_read(s, text, &err) < 0 ||
	    qwen_sampler_set(s, "seed", seed, &err) < 0 ||
	    qwen_sampler_eog(s, b->eog, b->n_eog, &err) < 0 ||
	    (b->n_masked > 0 && qwen_sampler_mask(s, b->masked, b->n_masked,
	    &err) < 0))
		cli_die_err(NULL, &err);
	qwen_sampler_pieces(s, b->pieces);
	free(text);
	return s;
}

int
cli_ask_is_greedy(const struct cli_batch *b, const struct qwen_sampler *s)
{
	char *text = describe(s);
	int greedy = b->n_masked == 0 && (text[0] == '\0' ||
	    (strncmp(text, "seed=", 5) == 0 && strchr(text, ' ') == NULL));

	free(text);
	return greedy;
}

/* What the fields of a request are called here. */
static const struct {
	const char	*key, *option;
} fields[] = {
	{ "temperature", "temp" },
	{ "top_p", "top-p" },
	{ "top_k", "top-k" },
	{ "min_p", "min-p" },
	{ "seed", "seed" },
	{ "presence_penalty", "presence-penalty" },
	{ "frequency_penalty", "frequency-penalty" },
	{ "repetition_penalty", "repeat-penalty" },
	{ "min_tokens", "min-tokens" },
};

/* {"1234": -5, ...} */
static int
read_bias(struct cli_ask *r)
{
	yyjson_val *v = cli_ask_get(r, "logit_bias"), *key, *one;
	char pair[2 * CLI_NUMBER_MAX], buf[CLI_NUMBER_MAX];
	const char *id;
	struct qwen_err err;
	yyjson_obj_iter it;

	if (v == NULL)
		return 0;
	if (!yyjson_is_obj(v))
		return bad(r, "logit_bias: is not an object");
	yyjson_obj_iter_init(v, &it);
	while ((key = yyjson_obj_iter_next(&it)) != NULL) {
		one = yyjson_obj_iter_get_val(key);
		id = yyjson_get_str(key);
		if (id == NULL || yyjson_get_len(key) >= CLI_NUMBER_MAX ||
		    strlen(id) != yyjson_get_len(key))
			return bad(r, "logit_bias: a key is no token");
		if (cli_ask_number(r, "logit_bias", one, buf) < 0)
			return -1;
		snprintf(pair, sizeof pair, "%s=%s", id, buf);
		if (qwen_sampler_set(r->sampler, "logit-bias", pair, &err) < 0)
			return bad(r, "logit_bias: %s", err.msg);
	}
	return 0;
}

static int
read_sampling(struct cli_ask *r)
{
	char buf[CLI_NUMBER_MAX];
	struct qwen_err err;
	yyjson_val *v;
	size_t i;

	r->sampler = cli_ask_sampler(r->b, r->b->sampler, 0);
	for (i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		if ((v = cli_ask_get(r, fields[i].key)) == NULL)
			continue;
		if (cli_ask_number(r, fields[i].key, v, buf) < 0)
			return -1;
		if (qwen_sampler_set(r->sampler, fields[i].option, buf,
		    &err) < 0)
			return bad(r, "%s: %s", fields[i].key, err.msg);
	}
	if (read_bias(r) < 0)
		return -1;
	return qwen_sampler_check(r->sampler, &err) < 0 ?
	    bad(r, "%s", err.msg) : 0;
}

/* --------------------------------------------------------- other parameters */

static void
add_stop(struct cli_item *item, const char *s, size_t n)
{
	char *text;

	/* an empty one would end every text before it begins */
	if (n == 0)
		return;
	text = cli_ask_alloc(n, 1);
	memcpy(text, s, n);
	item->stop[item->n_stop].s = text;
	item->stop[item->n_stop++].len = n;
}

static int
read_one_stop(struct cli_ask *r, yyjson_val *v)
{
	if (!yyjson_is_str(v))
		return bad(r, "stop: is not a string or a list of them");
	add_stop(r->item, yyjson_get_str(v), yyjson_get_len(v));
	return 0;
}

/* Those of the command line. */
static void
usual_stops(struct cli_ask *r)
{
	const char *text;
	size_t n;

	for (n = 0; qwen_sampler_text(r->b->sampler, "stop", n) != NULL; n++)
		;
	r->item->stop = cli_ask_alloc(n, sizeof *r->item->stop);
	for (n = 0; (text = qwen_sampler_text(r->b->sampler, "stop",
	    n)) != NULL; n++)
		add_stop(r->item, text, strlen(text));
}

static int
read_stop(struct cli_ask *r)
{
	yyjson_val *v = cli_ask_get(r, "stop"), *one;
	yyjson_arr_iter it;

	r->item->min = number(r->sampler, "min-tokens");
	if (v == NULL) {
		usual_stops(r);
		return 0;
	}
	if (yyjson_arr_size(v) > CLI_STOPS_MAX)
		return bad(r, "stop: more than %d strings", CLI_STOPS_MAX);
	r->item->stop = cli_ask_alloc(CLI_STOPS_MAX, sizeof *r->item->stop);
	if (!yyjson_is_arr(v))
		return read_one_stop(r, v);
	yyjson_arr_iter_init(v, &it);
	while ((one = yyjson_arr_iter_next(&it)) != NULL) {
		if (read_one_stop(r, one) < 0)
			return -1;
	}
	return 0;
}

static int
read_logprobs(struct cli_ask *r)
{
	yyjson_val *v = cli_ask_get(r, "logprobs");
	struct cli_item *item = r->item;
	int64_t n = 0;
	int got;

	if (v == NULL)
		return 0;
	if (yyjson_is_bool(v)) {
		item->logprobs = yyjson_get_bool(v);
		got = whole(r, "top_logprobs", 0, 20, &n);
		if (got > 0 && !item->logprobs)
			return bad(r, "top_logprobs needs logprobs: true");
	} else {
		got = whole(r, "logprobs", 0, 20, &n);
		item->logprobs = 1;
	}
	item->n_top = (size_t)n;
	return got < 0 ? -1 : 0;
}

/* Nothing that would ask for something. */
static int
is_nothing(yyjson_val *v)
{
	return v == NULL || yyjson_is_null(v) || yyjson_is_false(v) ||
	    (yyjson_is_ctn(v) && unsafe_yyjson_get_len(v) == 0) ||
	    (yyjson_is_str(v) && yyjson_get_len(v) == 0);
}

/* What would change the answer, and is not done, must not be passed over. */
static int
refuse_others(struct cli_ask *r)
{
	static const char *const keys[] = {
		"stream", "echo", "suffix", "functions",
		"function_call", "audio", "prediction",
	};
	yyjson_val *v;
	int64_t n = 1;
	size_t i;

	for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		if (!is_nothing(cli_ask_get(r, keys[i])))
			return bad(r, "%s is not supported", keys[i]);
	}
	if (whole(r, "best_of", 1, CLI_CHOICES_MAX, &n) < 0)
		return -1;
	if (n > 1 && (size_t)n != r->item->n)
		return bad(r, "best_of is not supported");
	v = cli_ask_get(r, "tool_choice");
	if (v != NULL && !yyjson_equals_str(v, "auto"))
		return bad(r, "tool_choice: only auto is supported");
	return 0;
}

int
cli_ask_parameters(struct cli_ask *r)
{
	struct cli_item *item = r->item;
	yyjson_val *model = cli_ask_get(r, "model");
	int64_t n = 1, max = 0;
	int got;

	if (model != NULL && !yyjson_is_str(model))
		return bad(r, "model: is not a string");
	if (model != NULL)
		item->model = cli_ask_json(model);
	if (whole(r, "n", 1, CLI_CHOICES_MAX, &n) < 0)
		return -1;
	item->n = (size_t)n;
	if ((got = whole(r, "max_completion_tokens", 1, INT64_MAX,
	    &max)) < 0 || (got == 0 && whole(r, "max_tokens", 1, INT64_MAX,
	    &max) < 0))
		return -1;
	item->max = max > 0 ? (size_t)max : r->b->max;
	return read_sampling(r) < 0 || read_stop(r) < 0 ||
	    read_logprobs(r) < 0 || refuse_others(r) < 0 ||
	    cli_ask_grammar(r) < 0 ? -1 : 0;
}
