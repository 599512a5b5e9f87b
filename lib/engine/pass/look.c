/* SPDX-License-Identifier: ISC */
/* look.c - sessions whose stages are traced. */
#include "base/err.h"
#include "base/sized.h"
#include "engine/pass/pass.h"

int
qwen_session_trace_sized(size_t size, struct qwen_session *s,
    const struct qwen_trace *t, struct qwen_err *err)
{
	struct qwen_tracing *tr = NULL;
	struct qwen_trace own;

	if (QWEN_SIZED(t, own, size, err) < 0 || (t != NULL &&
	    qwen_tracing_new(&tr, &s->model->net, qwen_mtp_whole(s), t,
	    err) < 0))
		return -1;
	qwen_ahead_cut(s, 0);
	qwen_tracing_free(s->tracing);
	s->tracing = tr;
	return 0;
}

void
qwen_session_stages(const struct qwen_session *s,
    int (*each)(void *arg, const struct qwen_trace_stage *stage), void *arg)
{
	qwen_stages_plain(s->model->net.arch, &s->model->net.hp,
	    qwen_mtp_whole(s), each, arg);
}
