/* SPDX-License-Identifier: ISC */
/* rank.c - reranking: how well documents answer a query. */
#include <stdlib.h>
#include <string.h>

#include "qserve.h"

/* The state of a call: the request and its results. */
struct ranking {
	struct qwen_rerank_request q;
	double			*score;		/* per document */
};

/* How the model expresses relevance, if it can. */
struct qserve_ranker {
	struct qwen_reranker	*how;
	struct qwen_ranking	 with;
	size_t			 n_classes;	/* 0: by words */
	size_t			 yes;		/* index of the class or word
						   that means yes */
	int32_t			 word[2];
	struct qwen_err		 err;		/* why it cannot; code 0: it
						   can */
	int			 untrained;	/* note that it is not a
						   reranker; once */
};

static void
put_body(struct qserve_call *c)
{
	struct ranking *r = c->state;
	struct qwen_err err;

	if (qwen_rerank_body(&r->q, c->number, c->server->with.service.model,
	    r->score, &c->out, &err) < 0)
		qserve_error(c, 500, "out_of_memory", "%s", err.msg);
	else
		qserve_done(c, qwen_refusal_status(&r->q.rank.refusal));
}

static void
fail(struct qserve_call *c, const char *code, const char *message)
{
	struct ranking *r = c->state;

	qwen_refuse(&r->q.rank.refusal, code, NULL, "%s", message);
	put_body(c);
}

static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	struct qserve_ranker *k = c->server->ranker;
	struct ranking *r = c->state;
	const struct qwen_ids *p = &r->q.rank.prompt[i];

	*o = (struct qwen_engine_request){ .kind = QWEN_ENGINE_HIDDEN,
	    .tokens = p->id, .n = p->n, .from = p->n - 1, .logits = k->word,
	    .n_logits = k->n_classes > 0 ? 0 : 2 };
	return 0;
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	const struct qserve_ranker *k = c->server->ranker;
	size_t n = k->n_classes > 0 ? k->n_classes : 2;
	struct ranking *r = c->state;

	if (ev->kind == QWEN_EVENT_STARTED)
		c->use.n_prompt += r->q.rank.prompt[i].n;
	else if (ev->kind == QWEN_EVENT_HIDDEN && ev->n_row == n)
		r->score[i] = qwen_softmax_share(ev->row, n, k->yes);
	else if (ev->kind == QWEN_EVENT_HIDDEN)
		fail(c, "failed", "the engine's logits do not fit");
	else if (ev->kind == QWEN_EVENT_END && strcmp(ev->why, "done") != 0)
		fail(c, qserve_error_code(ev), qserve_error_message(ev));
	else if (ev->kind == QWEN_EVENT_END && c->n_left == 0)
		put_body(c);
}

static const struct qserve_handler handler = { make_request, on_event, fail };

static void
begin(struct qserve_call *c)
{
	struct qserve_ranker *k = c->server->ranker;
	struct ranking *r = c->state;
	struct qwen_err err;

	if (k->err.code != 0) {
		qserve_error(c, 400, "invalid_request", "this model cannot "
		    "rank: %s", k->err.msg);
		return;
	}
	k->with.n_ctx = (size_t)qserve_n_ctx(c->server);
	if (qwen_rerank_parse(&r->q, &k->with, c->body.s,
	    c->body.n, &err) < 0) {
		qserve_error(c, 500, "out_of_memory", "out of memory");
		return;
	}
	if (r->q.rank.refusal.err.code != 0) {
		put_body(c);
		return;
	}
	if (k->untrained)
		cli_note("/v1/rerank: this model is not a reranker; asking it "
		    "for yes or no, which says little");
	k->untrained = 0;
	r->score = calloc(r->q.rank.n + 1, sizeof *r->score);
	if (r->score == NULL)
		fail(c, "out_of_memory", "out of memory");
	else
		qserve_jobs_new(c, r->q.rank.n, &handler);
}

static void
end(struct qserve_call *c)
{
	struct ranking *r = c->state;

	qwen_rerank_fini(&r->q);
	free(r->score);
}

const struct qserve_kind qserve_ranks = { begin, sizeof(struct ranking), end };

/* ---------------------------------------------------------------- the model */

void
qserve_rank_open(struct qserve *s)
{
	struct qserve_ranker *k = s->ranker = cli_check_alloc(calloc(1,
	    sizeof *k));
	const struct qwen_gguf_tensor *t = qwen_gguf_find_tensor(s->gguf,
	    "cls.output.weight");

	k->n_classes = t != NULL ? (size_t)t->ne[1] : 0;
	k->untrained = k->n_classes == 0 &&
	    s->embedding.how.pooling != QWEN_POOLING_RANK &&
	    !qserve_is_named(s, "rerank");
	if (qwen_reranker_open(&k->how, s->gguf, NULL, &k->err) < 0 ||
	    qwen_reranker_yes(k->how, k->n_classes, &k->yes, k->word,
	    &k->err) < 0) {
		cli_die_oom(&k->err);
		return;
	}
	k->err.code = 0;
	k->with.tok = s->with.service.tok;
	k->with.how = k->how;
	k->with.encode = s->with.service.encode;
	k->with.unknown = &s->unknown;
}
