/* SPDX-License-Identifier: ISC */
/*
 * watch.h - what watches a pass: traces, and the importance of inputs. A device
 * reports each operation to one hook, qwen_watch_see.
 */
#ifndef QWEN_WATCH_WATCH_H
#define QWEN_WATCH_WATCH_H

#include "engine/device.h"
#include "engine/watch/inputs.h"
#include "engine/watch/trace.h"

struct qwen_watch {
	const struct qwen_net	*net;
	struct qwen_pool	*pool;
	struct qwen_input_sums	*inputs;	/* NULL: not measured */
	int			 trace;		/* some rows are traced */
};

/* struct qwen_pass's see; its watch is a struct qwen_watch. */
void qwen_watch_see(const struct qwen_pass *p, const struct qwen_seen *s);

/* Records the scores and probabilities of attention (probs.c). */
void qwen_probs_see(const struct qwen_pass *p, const struct qwen_watch *w,
    const struct qwen_seen *s);

#endif
