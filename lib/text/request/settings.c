/* SPDX-License-Identifier: ISC */
/*
 * settings.c - sampling fields of llama.cpp and vLLM that are not the value of
 * one option (fields.c reads those).
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "text/request/parser.h"

enum { STOP_IDS_MAX = 128 };

int
qwen_parse_add_setting(struct qwen_parser *r, const char *key,
    const char *option, const char *value)
{
	struct qwen_request *q = r->q;
	char *copy = strdup(value);

	if (copy == NULL || qwen_grow(&q->setting, &q->cap_settings,
	    q->n_settings + 1, sizeof *q->setting) < 0) {
		free(copy);
		return qwen_oom(&r->refusal->err);
	}
	q->setting[q->n_settings++] = (struct qwen_setting){ key, option, copy
	    };
	return 0;
}

/* 0: off; 2: Mirostat 2 with the surprise mirostat_tau. */
static int
read_mirostat(struct qwen_parser *r)
{
	char which[QWEN_NUMBER_SIZE], value[QWEN_NUMBER_SIZE] = "5";
	int got = qwen_read_number_of(r, "mirostat", which);

	if (got <= 0)
		return got;
	if (strcmp(which, "0") == 0)
		return qwen_parse_add_setting(r, "mirostat", "mirostat", "0");
	if (strcmp(which, "2") != 0)
		return qwen_wrong(r, "mirostat", "%s is not supported; use 0, "
		    "or 2 for Mirostat 2", which);
	return qwen_read_number_of(r, "mirostat_tau", value) < 0 ? -1 :
	    qwen_parse_add_setting(r, "mirostat_tau", "mirostat", value);
}

/* The temperature is known later. */
static int
read_range(struct qwen_parser *r)
{
	char buf[QWEN_NUMBER_SIZE];
	int got = qwen_read_number_of(r, "dynatemp_range", buf);
	double range = got > 0 ? strtod(buf, NULL) : 0;

	if (got < 0)
		return -1;
	if (!(range >= 0 && range <= 500))
		return qwen_wrong(r, "dynatemp_range", "%s is not a number "
		    "from 0 to 500", buf);
	r->q->temp_range = range;
	return 0;
}

/* ----------------------------------------------------- order of the methods */

/* llama.cpp's names and letters for the methods, and ours. */
static const struct {
	const char	*name, *also;
	char		 letter;
	const char	*method;	/* NULL: choose the most likely token */
} methods[] = {
	{ "penalties", NULL, 'e', "penalties" },
	{ "dry", NULL, 'd', "dry" },
	{ "top_n_sigma", "top-n-sigma", 's', "top-n-sigma" },
	{ "top_k", "top-k", 'k', "top-k" },
	{ "typ_p", "typical_p", 'y', "typical" },
	{ "top_p", "top-p", 'p', "top-p" },
	{ "min_p", "min-p", 'm', "min-p" },
	{ "xtc", NULL, 'x', "xtc" },
	{ "temperature", "temp", 't', "dyntemp,temp" },
	{ "infill", NULL, 'i', NULL },
};
enum { N_METHODS = sizeof methods / sizeof *methods };

/*
 * Returns the row of a name, or of a letter if it is not 0; N_METHODS if none.
 */
static size_t
find_method(const char *name, char letter)
{
	size_t i;

	for (i = 0; i < N_METHODS; i++) {
		if (letter != '\0' ? methods[i].letter == letter :
		    strcmp(methods[i].name, name) == 0 ||
		    (methods[i].also != NULL &&
		    strcmp(methods[i].also, name) == 0))
			break;
	}
	return i;
}

/*
 * Appends a method to the chain; or sets *best: choose the most likely token.
 */
static int
add_method(struct qwen_parser *r, struct qwen_text *chain, const char *name,
    char letter, int *best)
{
	char one[2] = { letter, '\0' };
	size_t i = find_method(name, letter);

	if (i == N_METHODS)
		return qwen_wrong(r, "samplers", "unknown sampler \"%.40s\"; "
		    "known are penalties, dry, top_n_sigma, top_k, typ_p, "
		    "top_p, min_p, xtc, temperature and infill",
		    letter != '\0' ? one : name);
	if (methods[i].method == NULL)
		*best = 1;
	else
		qwen_text_fmt(chain, "%s%s", chain->n > 0 ? "," : "",
		    methods[i].method);
	return 0;
}

static int
add_methods(struct qwen_parser *r, yyjson_val *v, struct qwen_text *chain,
    int *best)
{
	const char *s = yyjson_get_str(v);
	yyjson_val *one;
	size_t i, n;

	if (yyjson_get_len(v) > 64)
		return qwen_wrong(r, "samplers", "more than 64 samplers");
	for (; yyjson_is_str(v) && *s != '\0'; s++) {
		if (add_method(r, chain, NULL, *s, best) < 0)
			return -1;
	}
	yyjson_arr_foreach(v, i, n, one) {
		if (!yyjson_is_str(one))
			return qwen_wrong(r, "samplers", "entry %zu is not a "
			    "string", i);
		if (add_method(r, chain, yyjson_get_str(one), '\0', best) < 0)
			return -1;
	}
	return 0;
}

/*
 * Reads a list of names or a string of letters; an empty one changes nothing.
 */
static int
read_order(struct qwen_parser *r)
{
	yyjson_val *v = qwen_parse_get(r->body, "samplers");
	struct qwen_text chain = { 0 };
	int rc, best = 0;

	if (v == NULL)
		return 0;
	if (!yyjson_is_arr(v) && !yyjson_is_str(v))
		return qwen_wrong(r, "samplers", "is not a list of names");
	rc = add_methods(r, v, &chain, &best);
	if (rc == 0 && chain.failed)
		rc = qwen_oom(&r->refusal->err);
	if (rc == 0 && chain.n > 0)
		rc = qwen_parse_add_setting(r, "samplers", "chain", chain.s);
	if (rc == 0 && best)
		rc = qwen_parse_add_setting(r, "samplers", "greedy", "1");
	qwen_text_fini(&chain);
	return rc;
}

/* ----------------------------------------------------------------- endings */

/* vLLM's additional tokens that end an answer. */
static int
read_stop_ids(struct qwen_parser *r)
{
	static const char key[] = "stop_token_ids";
	yyjson_val *v = qwen_parse_get(r->body, key);
	struct qwen_ids ids;

	if (v == NULL)
		return 0;
	if (yyjson_arr_size(v) > STOP_IDS_MAX)
		return qwen_wrong(r, key, "more than %d tokens", STOP_IDS_MAX);
	if (!yyjson_is_arr(v))
		return qwen_wrong(r, key, "is not a list of token ids");
	if (qwen_parse_ids(r->refusal, key, v, r->s->n_vocab, &ids) < 0)
		return -1;
	r->q->stop_id = ids.id;
	r->q->n_stop_ids = ids.n;
	return 0;
}

int
qwen_parse_settings(struct qwen_parser *r)
{
	return read_mirostat(r) < 0 || read_range(r) < 0 ||
	    read_order(r) < 0 || read_stop_ids(r) < 0 ? -1 : 0;
}
