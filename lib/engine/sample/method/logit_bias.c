/* SPDX-License-Identifier: ISC */
/*
 * logit_bias.c - adds to the logits of given tokens, or forbids them.
 *
 * Like the request field logit_bias of common HTTP APIs, with ids and numbers.
 * Here any finite number is allowed, and -inf forbids the token.
 */
#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/sample/sample.h"

struct bias {
	int32_t	id;
	float	x;
};

struct memory {
	struct bias	*bias;
	size_t		 n;
	int32_t		*ban;		/* forbidden tokens, ascending */
	size_t		 n_ban;
};

/* Parses "15=-2.5"; sets *ban instead of b->x for -inf. */
static int
parse(const char *text, struct bias *b, int *ban)
{
	char *tail;
	long id;
	double x;

	errno = 0;
	if (text[0] < '0' || text[0] > '9')
		return -1;
	id = strtol(text, &tail, 10);
	if (errno != 0 || id >= QWEN_VOCAB_MAX || *tail != '=')
		return -1;
	b->id = (int32_t)id;
	*ban = strcmp(++tail, "-inf") == 0;
	if (*ban)
		return 0;
	if (tail[0] == '\0' || tail[strspn(tail, "+-.0123456789eE")] != '\0')
		return -1;
	x = strtod(tail, &tail);
	if (*tail != '\0' || !(x >= -FLT_MAX && x <= FLT_MAX))
		return -1;
	b->x = (float)x;
	return 0;
}

static int
check(const char *text, struct qwen_err *err)
{
	struct bias b;
	int ban;

	return parse(text, &b, &ban) == 0 ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "\"%.40s\" is not ID=NUMBER or ID=-inf", text);
}

static void
end(struct qwen_chain_method *s)
{
	struct memory *m = s->memory;

	free(m->bias);
	free(m->ban);
}

static int
check_one(int32_t id, float x, const struct qwen_sample_context *w,
    struct qwen_err *err)
{
	if (id < 0 || (size_t)id >= w->n_vocab)
		return qwen_fail(err, QWEN_ERANGE, "logit-bias: token %ld is "
		    "outside the vocabulary of %zu", (long)id, w->n_vocab);
	return x >= -FLT_MAX && x <= FLT_MAX ? 0 : qwen_fail(err, QWEN_ERANGE,
	    "logit-bias of token %ld is not finite", (long)id);
}

static int
begin(struct qwen_chain_method *s, struct qwen_err *err)
{
	const struct qwen_sample_context *w = s->w;
	struct memory *m = s->memory;
	size_t i;

	m->bias = qwen_alloc(s->v[0].list.n, sizeof *m->bias);
	m->ban = qwen_alloc(s->v[0].list.n, sizeof *m->ban);
	if (m->bias == NULL || m->ban == NULL)
		return qwen_oom(err);
	for (i = 0; i < s->v[0].list.n; i++) {
		struct bias b = { 0, 0 };
		int ban;

		parse(s->v[0].list.v[i], &b, &ban);
		if (check_one(b.id, b.x, w, err) < 0)
			return -1;
		if (ban)
			m->ban[m->n_ban++] = b.id;
		else
			m->bias[m->n++] = b;
	}
	qsort(m->ban, m->n_ban, sizeof *m->ban,
	    qwen_sample_compare_ids);
	for (i = 0; i < w->n_biased; i++) {
		if (check_one(w->biased[i], w->bias[i], w, err) < 0)
			return -1;
	}
	return 0;
}

static void
add_bias(struct qwen_cands *l, int32_t id, float x)
{
	size_t at = qwen_cands_find(l, id);

	if (at < l->n)
		qwen_cands_set(l, at, (double)l->logit[at] + (double)x);
}

static void
apply(struct qwen_chain_method *s, struct qwen_cands *l)
{
	const struct qwen_sample_context *w = s->w;
	const struct memory *m = s->memory;
	size_t i;

	for (i = 0; i < m->n; i++)
		add_bias(l, m->bias[i].id, m->bias[i].x);
	for (i = 0; i < w->n_biased; i++)
		add_bias(l, w->biased[i], w->bias[i]);
	if (m->n_ban > 0)
		qwen_cands_drop(l, m->ban, m->n_ban);
}

const struct qwen_sampler_method qwen_sampler_logit_bias = {
	.name = "logit-bias", .rank = QWEN_RANK_LOGIT_BIAS,
	.memory = sizeof(struct memory),
	.check = check,
	.apply = apply, .begin = begin, .end = end,
	.n_opts = 1, .opts = &(const struct qwen_sample_opt){
	  .name = "logit-bias", .type = QWEN_SAMPLE_LIST, .arg = "ID=X",
	  .help = "add X to the logit of token ID; repeatable" },
};
