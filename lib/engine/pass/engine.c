/* SPDX-License-Identifier: ISC */
/* engine.c - threads and processors, apart from any model. */
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/cpu/tune.h"
#include "engine/pass/open.h"

int
qwen_cpu_check(const char *level)
{
	unsigned want;

	if (qwen_cpu_level(level, &want) < 0)
		return -1;
	return (want & ~qwen_cpu_detect()) == 0;
}

static int
threads_here(const struct qwen_engine *e)
{
	return e->tuning == NULL ? qwen_cpu_count() : qwen_tune_threads(
	    e->tuning, e->features, qwen_cpu_cores(QWEN_CPU_TREE),
	    qwen_cpu_count());
}

static int
set_up(struct qwen_engine *e, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	int n_threads = opts != NULL ? opts->n_threads : 0;
	const char *level = opts != NULL ? opts->cpu : NULL;

	if (qwen_cpu_limit(&e->features, level, err) < 0)
		return -1;
	if (level == NULL && opts != NULL && opts->tuning != NULL &&
	    (e->tuning = strdup(opts->tuning)) == NULL)
		return qwen_oom(err);
	return qwen_pool_new(&e->pool, n_threads > 0 ? n_threads :
	    threads_here(e), err);
}

int
qwen_engine_new(struct qwen_engine **out, const struct qwen_model_opts *opts,
    struct qwen_err *err)
{
	struct qwen_engine *e;

	*out = NULL;
	if (opts != NULL && opts->share != NULL) {
		*out = opts->share->engine;
		(*out)->refs++;
		return 0;
	}
	if ((e = qwen_alloc(1, sizeof *e)) == NULL)
		return qwen_oom(err);
	e->refs = 1;
	if (set_up(e, opts, err) < 0) {
		qwen_engine_free(e);
		return -1;
	}
	*out = e;
	return 0;
}

void
qwen_engine_free(struct qwen_engine *e)
{
	if (e == NULL || --e->refs > 0)
		return;
	qwen_pool_free(e->pool);
	free(e->tuning);
	free(e);
}
