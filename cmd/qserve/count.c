/* SPDX-License-Identifier: ISC */
/* count.c - count calls that have ended, for the metrics. */
#include "qserve.h"

const double qserve_bounds[QSERVE_BOUNDS] = { 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120 };

static void
add_time(struct qserve_times *t, double s)
{
	size_t i;

	for (i = 0; i < QSERVE_BOUNDS; i++)
		t->at_most[i] += s <= qserve_bounds[i];
	t->n++;
	t->sum += s;
}

void
qserve_count(struct qserve_call *c)
{
	struct qserve_totals *all = &c->server->totals;
	const struct qserve_use *u = &c->use;
	double now = cli_now();

	all->status[c->status < 600 ? c->status : 0]++;
	/* only jobs that an engine has begun */
	all->prompt += u->n_prompt;
	all->cached += u->n_cached;
	all->chosen += u->n_chosen;
	if (c->first_at <= 0)
		return;
	add_time(&all->ttft, c->first_at - c->since);
	add_time(&all->e2e, now - c->since);
	if (u->n_answers == 1 && u->n_chosen > 1)
		add_time(&all->tpot, (now - c->first_at) /
		    (double)(u->n_chosen - 1));
}
