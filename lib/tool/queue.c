/* SPDX-License-Identifier: ISC */
/*
 * queue.c - reads inputs, runs one or more jobs for each, and writes the
 * results in input order, or as they are ready.
 *
 * Reads only enough input to keep the scheduler busy, so that memory does not
 * grow with the input.  A pass mixes tokens of all jobs: sorting by length
 * gains nothing.
 */
#include "tool/tool.h"

enum { AHEAD_BYTES = 64 << 20 };

static int
is_done(const struct tool_input *x)
{
	return x->left == 0 && !x->has_more;
}

static void
write_ready(struct tool_queue *o)
{
	struct tool_input **at = &o->head, *before = NULL, *x;

	while ((x = *at) != NULL && (is_done(x) || o->unordered)) {
		if (!is_done(x)) {
			before = x;
			at = &x->next;
			continue;
		}
		*at = x->next;
		if (o->tail == x)
			o->tail = before;
		o->n--;
		o->bytes -= x->bytes;
		o->put(o->arg, x);
		cli_progress(++o->n_done);
	}
}

static int
wants_more(const struct tool_queue *o)
{
	if (o->tail != NULL && o->tail->has_more)
		return qwen_work_n_waiting(o->work->work) < o->work->n_ahead;
	if (o->read || o->n >= o->work->n_ahead || o->bytes >= AHEAD_BYTES)
		return 0;
	return qwen_work_n_jobs(o->work->work) == 0 || o->waiting(o->arg);
}

static void
feed(struct tool_queue *o)
{
	struct tool_input *x;

	while (wants_more(o)) {
		x = NULL;
		if (o->tail != NULL && o->tail->has_more)
			o->more(o->arg, o->tail);
		else if (!o->next(o->arg, &x))
			o->read = 1;
		if (x != NULL) {
			*(o->tail != NULL ? &o->tail->next : &o->head) = x;
			o->tail = x;
			o->n++;
			o->bytes += x->bytes;
		}
		/* jobs of the item may have failed to start: write it now */
		if (qwen_work_n_jobs(o->work->work) == 0)
			write_ready(o);
	}
}

void
tool_queue_run(struct tool_queue *o)
{
	int more;

	do {
		feed(o);
		more = tool_work_step(o->work);
		write_ready(o);
	} while (more || !o->read);
}
