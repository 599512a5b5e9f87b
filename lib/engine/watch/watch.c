/* SPDX-License-Identifier: ISC */
/*
 * watch.c - the hook of a pass: passes the results of each operation to traces
 * and to the sums of importance.
 */
#include "engine/watch/watch.h"

void
qwen_watch_see(const struct qwen_pass *p, const struct qwen_seen *s)
{
	const struct qwen_watch *w = p->watch;

	if (s->w != NULL) {
		if (w->inputs != NULL)
			qwen_inputs_see(w->inputs, w->pool, s);
		return;
	}
	if (!w->trace)
		return;
	if (s->kind == QWEN_TRACE_SCORES)
		qwen_probs_see(p, w, s);
	else
		qwen_trace_see(p, &w->net->hp, s);
}
