/* SPDX-License-Identifier: ISC */
/* fields.c - the fields of a request except its prompt. */
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "qwen/sample.h"
#include "text/request/parser.h"

/* ---------------------------------------------------------------- sampling */

enum {
	TEXTS_MAX = 128,	/* strings of one field */
	TEXT_MAX = 256,		/* bytes of one */
};

/* Adds a pair of token and bias.  Each token may occur once. */
static int
add_bias(struct qwen_parser *r, yyjson_val *key, yyjson_val *v,
    unsigned char *seen)
{
	struct qwen_request *q = r->q;
	const char *id = yyjson_get_str(key);
	char buf[QWEN_NUMBER_SIZE];
	uint64_t k;
	double x;

	if (qwen_parse_digits(id, yyjson_get_len(key), &k) < 0 ||
	    k >= r->s->n_vocab)
		return qwen_wrong(r, "logit_bias", "\"%.40s\" is not a token "
		    "of this model", id);
	if (seen[k / 8] & 1 << k % 8)
		return qwen_wrong(r, "logit_bias", "token %llu is given twice",
		    (unsigned long long)k);
	seen[k / 8] |= (unsigned char)(1 << k % 8);
	if (qwen_parse_number(r->refusal, "logit_bias", v, buf) < 0)
		return -1;
	x = strtod(buf, NULL);
	if (!(x >= -FLT_MAX && x <= FLT_MAX))
		return qwen_wrong(r, "logit_bias", "%s is too large", buf);
	q->bias_id[q->n_bias] = (int32_t)k;
	q->bias[q->n_bias++] = (float)x;
	return 0;
}

/* {"1234": -5, ...} */
static int
read_bias(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "logit_bias"), *key, *x;
	size_t i, n = yyjson_obj_size(v);
	unsigned char *seen;
	int rc = 0;

	if (v == NULL)
		return 0;
	if (!yyjson_is_obj(v))
		return qwen_wrong(r, "logit_bias", "is not an object");
	if (n > r->s->n_vocab)
		return qwen_wrong(r, "logit_bias", "has %zu entries, but the "
		    "model has %zu tokens", n, r->s->n_vocab);
	seen = calloc(r->s->n_vocab / 8 + 1, 1);
	r->q->bias_id = calloc(n + 1, sizeof *r->q->bias_id);
	r->q->bias = calloc(n + 1, sizeof *r->q->bias);
	if (seen == NULL || r->q->bias_id == NULL || r->q->bias == NULL)
		rc = qwen_oom(&r->refusal->err);
	yyjson_obj_foreach(v, i, n, key, x) {
		if (rc == 0)
			rc = add_bias(r, key, x, seen);
	}
	free(seen);
	return rc;
}

/*
 * Reads the seed -1 as a wish for a drawn seed, as llama.cpp, Ollama and vLLM
 * do: returns 1.  Other negative seeds are taken modulo 2^64, so that any 64
 * bits are a seed.
 */
static int
read_seed(char buf[QWEN_NUMBER_SIZE])
{
	long long n;
	char *end;

	errno = 0;
	n = strtoll(buf, &end, 10);
	if (errno != 0 || *end != '\0')
		return 0;
	if (n < 0)
		snprintf(buf, QWEN_NUMBER_SIZE, "%llu", (unsigned long long)n);
	return n == -1;
}

/* Sets an option from a number. */
static int
read_number(struct qwen_parser *r, const struct qwen_sample_opt *o,
    const char *key, yyjson_val *v)
{
	char buf[QWEN_NUMBER_SIZE];
	int best;

	if (qwen_parse_number(r->refusal, key, v, buf) < 0)
		return -1;
	best = strcmp(key, "temperature") == 0 && strtod(buf, NULL) == 0;
	if (o->below_off && strtod(buf, NULL) < 0)
		snprintf(buf, QWEN_NUMBER_SIZE, "0");
	if (strcmp(key, "seed") == 0) {
		r->q->seed_from = QWEN_SEED_GIVEN;
		if (read_seed(buf)) {
			r->q->seed_from = QWEN_SEED_RANDOM;
			return 0;
		}
	}
	if (qwen_parse_add_setting(r, key, o->name, buf) < 0 ||
	    (best && qwen_parse_add_setting(r, key, "greedy", "1") < 0))
		return -1;
	/* the sampler checks that it is a whole number */
	if (strcmp(key, "min_tokens") == 0)
		r->q->min = (size_t)strtoull(buf, NULL, 10);
	return 0;
}

/* Adds each string of a list as a value of an option. */
static int
read_texts(struct qwen_parser *r, const struct qwen_sample_opt *o,
    const char *key, yyjson_val *list)
{
	yyjson_val *v;
	size_t i, n;

	if (!yyjson_is_arr(list) || yyjson_arr_size(list) == 0)
		return qwen_wrong(r, key, "is not a non-empty list of strings");
	if (yyjson_arr_size(list) > TEXTS_MAX)
		return qwen_wrong(r, key, "more than %d strings", TEXTS_MAX);
	yyjson_arr_foreach(list, i, n, v) {
		if (!yyjson_is_str(v) || yyjson_get_len(v) == 0 ||
		    yyjson_get_len(v) > TEXT_MAX ||
		    strlen(yyjson_get_str(v)) != yyjson_get_len(v))
			return qwen_wrong(r, key, "entry %zu is not a string "
			    "of 1 to %d bytes without a NUL", i, TEXT_MAX);
		if (qwen_parse_add_setting(r, key, o->name,
		    yyjson_get_str(v)) < 0)
			return -1;
	}
	return 0;
}

/* Reads a sampling option, under any of its field names, by its type. */
static int
read_option(struct qwen_parser *r, const struct qwen_sample_opt *o)
{
	const char *const *key;
	yyjson_val *v;
	int rc = 0;

	for (key = o->fields; *key != NULL && rc == 0; key++) {
		if ((v = qwen_parse_get(r->body, *key)) == NULL)
			continue;
		if (o->type == QWEN_SAMPLE_LIST)
			rc = read_texts(r, o, *key, v);
		else if (o->type != QWEN_SAMPLE_FLAG)
			rc = read_number(r, o, *key, v);
		else if ((rc = qwen_read_truth(r, *key, 0)) >= 0)
			rc = qwen_parse_add_setting(r, *key, o->name,
			    rc ? "1" : "0");
	}
	return rc;
}

static int
read_sampling(struct qwen_parser *r)
{
	const struct qwen_sample_opt *o;
	size_t i;

	r->q->min = r->s->min;
	for (i = 0; r->s->sample_opt != NULL &&
	    (o = r->s->sample_opt(i)) != NULL; i++) {
		if (read_option(r, o) < 0)
			return -1;
	}
	return qwen_parse_settings(r) < 0 ? -1 : read_bias(r);
}

/* --------------------------------------------------------- other parameters */

static int
add_stop(struct qwen_parser *r, const char *s, size_t n)
{
	char *text;

	/* an empty stop string would end every answer at once */
	if (n == 0)
		return 0;
	if ((text = malloc(n)) == NULL)
		return qwen_oom(&r->refusal->err);
	memcpy(text, s, n);
	r->q->stop[r->q->n_stop++] = (struct qwen_str){ text, n };
	return 0;
}

static int
read_one_stop(struct qwen_parser *r, yyjson_val *v)
{
	if (!yyjson_is_str(v))
		return qwen_wrong(r, "stop", "is not a string or a list of "
		    "them");
	return add_stop(r, yyjson_get_str(v), yyjson_get_len(v));
}

static int
read_stop(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "stop");
	size_t i, n = yyjson_arr_size(v);

	if (n > QWEN_STOPS_MAX)
		return qwen_wrong(r, "stop", "more than %d strings",
		    QWEN_STOPS_MAX);
	n = v == NULL ? r->s->n_stop : yyjson_is_arr(v) ? n : 1;
	if ((r->q->stop = calloc(n + 1, sizeof *r->q->stop)) == NULL)
		return qwen_oom(&r->refusal->err);
	for (i = 0; v == NULL && i < n; i++) {
		if (add_stop(r, r->s->stop[i].s, r->s->stop[i].len) < 0)
			return -1;
	}
	return v != NULL && !yyjson_is_arr(v) ? read_one_stop(r, v) :
	    qwen_parse_each(r, "", v, read_one_stop, "");
}

static int
read_logprobs(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "logprobs");
	int is_number = v != NULL && !yyjson_is_bool(v), got;
	int64_t n = 0;

	r->q->logprobs = is_number || yyjson_is_true(v);
	got = qwen_read_whole(r, is_number ? "logprobs" : "top_logprobs", 0,
	    QWEN_LOGPROBS_MAX, &n);
	if (n > 0 && !r->q->logprobs)
		return qwen_invalid(r, "top_logprobs", "top_logprobs needs "
		    "logprobs: true");
	r->q->n_top = (size_t)n;
	return got < 0 ? -1 : 0;
}

static int
read_stream(struct qwen_parser *r)
{
	yyjson_val *options = qwen_parse_get(r->body, "stream_options");
	int stream = qwen_read_truth(r, "stream", 0), usage;

	if (stream < 0)
		return -1;
	if (stream && !r->s->streams)
		return qwen_invalid(r, "stream", "stream is not supported");
	r->q->stream = stream && r->q->form != QWEN_FORM_COMPACT;
	if (!stream)
		return 0;
	r->q->tells_progress = qwen_read_truth(r, "return_progress", 0);
	if (r->q->tells_progress < 0)
		return -1;
	if (options != NULL && !yyjson_is_obj(options))
		return qwen_wrong(r, "stream_options", "is not an object");
	usage = qwen_parse_truth(r->refusal, options, "include_usage", 0);
	r->q->include_usage = usage > 0;
	return usage < 0 ? -1 : 0;
}

/* Reads fields of which only one value is supported. */
static int
read_fixed_fields(struct qwen_parser *r)
{
	yyjson_val *list = qwen_parse_get(r->body, "modalities"), *one;
	int64_t best = 1;
	size_t i, n;

	if (read_stream(r) < 0)
		return -1;
	if (qwen_read_whole(r, "best_of", 1, QWEN_CHOICES_MAX, &best) < 0)
		return -1;
	if (best > 1 && (size_t)best != r->q->n)
		return qwen_invalid(r, "best_of", "best_of is not supported");
	yyjson_arr_foreach(list, i, n, one) {
		if (!yyjson_equals_str(one, "text"))
			return qwen_wrong(r, "modalities", "only text is "
			    "supported");
	}
	return 0;
}

/* ignore_eos: no ending token before the maximum of tokens. */
static int
read_eos(struct qwen_parser *r)
{
	char buf[QWEN_NUMBER_SIZE];
	int on = qwen_read_truth(r, "ignore_eos", 0);

	if (on <= 0)
		return on;
	snprintf(buf, sizeof buf, "%zu", r->q->max < INT32_MAX ? r->q->max :
	    (size_t)INT32_MAX);
	return qwen_parse_add_setting(r, "ignore_eos", "min-tokens", buf);
}

/* The template checks the value. */
static int
read_effort(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "reasoning_effort");

	return v == NULL || yyjson_is_str(v) ? 0 : qwen_wrong(r,
	    "reasoning_effort", "is not a string");
}

/*
 * Reads a limit of tokens from the field key.  Returns 1; 0 if it is absent;
 * -1.  In other servers -1 means no limit, -2 up to the end of the context.
 */
static int
read_max_named(struct qwen_parser *r, const char *key, int64_t min,
    int64_t *max)
{
	yyjson_val *v = qwen_parse_get(r->body, key);
	char buf[QWEN_NUMBER_SIZE];

	if (v == NULL)
		return 0;
	if (qwen_parse_number(r->refusal, key, v, buf) < 0)
		return -1;
	if (strcmp(buf, "-1") != 0 && strcmp(buf, "-2") != 0)
		return qwen_read_whole(r, key, min, INT64_MAX, max);
	*max = INT64_MAX;
	return 1;
}

/* Reads the limit of tokens; 0 is allowed only if just the prompt is wanted. */
static int
read_max(struct qwen_parser *r)
{
	/*
	 * names of OpenAI, llama.cpp, Ollama and transformers; the first one
	 * counts
	 */
	static const char *const names[] = { "max_completion_tokens",
	    "max_tokens", "n_predict", "num_predict", "max_new_tokens" };
	int64_t max = (int64_t)(r->s->max < INT64_MAX ? r->s->max : INT64_MAX);
	int echo = qwen_read_truth(r, "echo", 0), got = 0;
	/* clients of llama.cpp let it read prompts that they will need later */
	int min = !echo && r->q->form != QWEN_FORM_INFILL;
	size_t i;

	if (echo < 0)
		return -1;
	if (echo && (!r->s->echoes || r->q->form != QWEN_FORM_COMPLETION))
		return qwen_invalid(r, "echo", "echo is not supported");
	r->q->echo = echo;
	for (i = 0; i < sizeof names / sizeof *names && got == 0; i++)
		got = read_max_named(r, names[i], min, &max);
	r->q->max = (size_t)max;
	r->q->max_given = got > 0;
	return got < 0 ? -1 : 0;
}

int
qwen_parse_fields(struct qwen_parser *r)
{
	struct qwen_request *q = r->q;
	int64_t n = 1;

	if (qwen_parse_model(r->refusal, r->body, &q->model) < 0 ||
	    qwen_read_whole(r, "n", 1, QWEN_CHOICES_MAX, &n) < 0 ||
	    (q->form == QWEN_FORM_INFILL &&
	    qwen_read_whole(r, "n_cmpl", 1, QWEN_CHOICES_MAX, &n) < 0))
		return -1;
	q->n = (size_t)n;
	q->keeps_stop = qwen_read_truth(r, "include_stop_str_in_output", 0);
	if (q->keeps_stop < 0)
		return -1;
	return read_max(r) < 0 || read_sampling(r) < 0 || read_stop(r) < 0 ||
	    read_logprobs(r) < 0 || read_fixed_fields(r) < 0 || read_eos(r) <
	    0 || read_effort(r) < 0 || qwen_parse_constraints(r) < 0 ? -1 : 0;
}
