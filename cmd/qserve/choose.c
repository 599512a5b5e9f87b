/* SPDX-License-Identifier: ISC */
/*
 * choose.c - choose one of several engines for a call: the one with the fewest
 * tokens left to read, unless its other work outweighs that.  An engine needs no
 * rows of images that are among the tokens that it has.
 */
#include <stdlib.h>

#include "qserve.h"

enum { JOB_TOKENS = 256 };	/* a running job counts as this many tokens to
				   read */

#define UNKNOWN UINT64_MAX	/* the engine did not answer in time */

/*
 * How long to wait for the answers of engines: WAIT_S, plus WAIT_TOKEN_S per
 * prompt token, since an engine in the middle of a pass may save reading them
 * all.  WAIT_TOKEN_S is at most a tenth of the time to read a token on the
 * fastest machines.
 */
#define WAIT_S 0.05
#define WAIT_TOKEN_S 1e-4
#define WAIT_MAX_S 2.0

/* What the engines have answered so far. */
struct qserve_choice {
	const struct qserve_handler *handler;	/* of the call's own jobs */
	size_t			 n_jobs;
	uint64_t		 n_cached[];	/* cached tokens per engine */
};

/* Ask how many tokens of the call's first job are cached. */
static int
make_request(struct qserve_call *c, size_t i, struct qwen_engine_request *o)
{
	struct qwen_engine_request first = { 0 };

	(void)i;
	if (c->choice->handler->make_request(c, 0, &first) < 0)
		return -1;
	o->kind = QWEN_ENGINE_CACHED;
	o->tokens = first.tokens;
	o->n = first.n;
	return 0;
}

/* Return the engine with the lowest cost, or NULL if none has answered. */
static struct qserve_engine *
best_engine(const struct qserve_call *c)
{
	const uint64_t *n = c->choice->n_cached;
	struct qserve_engine *e, *found = NULL;
	uint64_t most = 0, cost, least = 0;
	size_t i;

	for (i = 0; i < c->server->n_engines; i++)
		most = n[i] > most && n[i] != UNKNOWN ? n[i] : most;
	for (i = 0, e = c->server->engines; e != NULL; e = e->next, i++) {
		cost = most - n[i] + (uint64_t)e->n_jobs * JOB_TOKENS;
		if (e->ready && n[i] != UNKNOWN && (found == NULL || cost <
		    least)) {
			found = e;
			least = cost;
		}
	}
	return found;
}

/* Return how many tokens the best engine has cached; 0 if that is not known. */
static size_t
cached(const struct qserve_call *c, const struct qserve_choice *x)
{
	const struct qserve_engine *e = c->server->engines;
	size_t i;

	for (i = 0; e != NULL && e != c->preferred; e = e->next)
		i++;
	return e != NULL ? (size_t)x->n_cached[i] : 0;
}

static void
on_event(struct qserve_call *c, size_t i, const struct qwen_event *ev)
{
	struct qserve_choice *x = c->choice;

	if (ev->kind == QWEN_EVENT_CACHED)
		x->n_cached[i] = ev->n_cached > ev->n_stored ? ev->n_cached :
		    ev->n_stored;
	if (c->n_left > 0)
		return;
	c->preferred = best_engine(c);
	c->choice = NULL;
	qserve_jobs_cancel(c);
	qserve_images_jobs(c, cached(c, x), x->n_jobs, x->handler);
	free(x);
}

static void
fail(struct qserve_call *c, const char *code, const char *message)
{
	c->choice->handler->fail(c, code, message);
}

static const struct qserve_handler questions = { make_request, on_event, fail };

int
qserve_choose_engine(struct qserve_call *c, size_t n,
    const struct qserve_handler *handler)
{
	const struct qserve_engine *e;
	struct qwen_engine_request first = { 0 };
	size_t i, n_ready = 0;
	double wait;

	for (e = c->server->engines; e != NULL; e = e->next)
		n_ready += (size_t)e->ready;
	/* the answer says too which images need no rows */
	if (n_ready < 2 && c->images.n == 0)
		return 0;
	free(c->choice);
	c->choice = malloc(sizeof *c->choice + c->server->n_engines *
	    sizeof c->choice->n_cached[0]);
	if (c->choice == NULL || handler->make_request(c, 0, &first) < 0)
		return 0;
	wait = WAIT_S + WAIT_TOKEN_S * (double)first.n;
	c->choice->handler = handler;
	c->choice->n_jobs = n;
	for (i = 0; i < c->server->n_engines; i++)
		c->choice->n_cached[i] = UNKNOWN;
	return qserve_ask_all(c, &questions, wait < WAIT_MAX_S ? wait :
	    WAIT_MAX_S) > 0;
}
