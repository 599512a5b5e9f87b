/* SPDX-License-Identifier: ISC */
/*
 * score.c - reports the scores of given tokens: computes log-probabilities from
 * rows of logits as they come out of a pass, row after row, each on all
 * threads.  Reports hidden states likewise.
 */
#include "base/err.h"
#include "base/pool.h"
#include "engine/batch/batch.h"
#include "engine/quant/logprob.h"
#include "engine/timeline/session.h"

struct scored_row {
	struct qwen_work	*w;
	const float		*logits;
	int32_t			 id;
};

static void
sum_part(void *arg, size_t item, int thread)
{
	struct scored_row *r = arg;

	(void)thread;
	qwen_logprob_part(&r->w->row_part[item], r->logits, r->w->n_vocab,
	    item, r->id);
}

static void
report_score(struct qwen_batch_job *t, size_t pos, const float *logits)
{
	struct qwen_work *w = t->work;
	size_t n = qwen_logprob_n_parts(w->n_vocab);
	struct scored_row r = { w, logits, t->text[pos + 1] };
	struct qwen_score s = { .at = pos + 1, .logits = logits,
	    .top = t->top };
	double sum;

	qwen_pool_run(qwen_model_pool(w->o.model), sum_part, &r, n);
	sum = qwen_logprob_join(w->row_part, n, &s.rank);
	s.logprob = (double)logits[r.id] - sum;
	s.n_top = qwen_logprob_top(logits, w->n_vocab, sum, t->top,
	    t->job.n_top);
	w->stats.scored++;
	t->job.score(t->job.arg, &s);
}

int
qwen_batch_job_row(void *arg, size_t pos, const float *row,
    struct qwen_err *err)
{
	struct qwen_batch_job *t = arg;

	(void)err;
	/*
	 * other rows were not requested, or were reported before the job was
	 * preempted
	 */
	if (t->job.hidden != NULL && pos == t->next) {
		t->next++;
		t->job.hidden(t->job.arg, pos, row);
	} else if (t->job.score != NULL && pos + 1 == t->next) {
		/* rows of a span are no tokens, and have no score */
		if (t->text[t->next++] >= 0)
			report_score(t, pos, row);
	}
	return 0;
}

int
qwen_batch_job_row_at_end(struct qwen_batch_job *t, struct qwen_err *err)
{
	const float *logits = qwen_session_logits(t->s);
	size_t done = qwen_batch_job_done(t);

	if (t->job.score == NULL || done != t->next || done > t->n)
		return 0;
	if (logits == NULL)
		return qwen_fail(err, QWEN_ENUMERIC, "no logits to score");
	return qwen_batch_job_row(t, done - 1, logits, err);
}
