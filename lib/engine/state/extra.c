/* SPDX-License-Identifier: ISC */
/* extra.c - what a state holds beside the session: how its text was made. */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/state.h"

void
qwen_state_extra_fini(struct qwen_state_extra *x)
{
	if (x == NULL)
		return;
	free(x->sampler);
	free(x->generated);
	free(x->run.options);
	memset(x, 0, sizeof *x);
}

int
qwen_state_extra_sampler(struct qwen_state_extra *x,
    const struct qwen_sampler *s, struct qwen_err *err)
{
	char *text = qwen_alloc(1, QWEN_SAMPLER_MAX);

	if (text == NULL)
		return qwen_oom(err);
	if (qwen_sampler_describe(s, text, QWEN_SAMPLER_MAX) >=
	    QWEN_SAMPLER_MAX) {
		free(text);
		return qwen_fail(err, QWEN_ERANGE, "the sampling options "
		    "take more than %d bytes", QWEN_SAMPLER_MAX);
	}
	free(x->sampler);
	x->sampler = text;
	return 0;
}

int
qwen_state_extra_generated(struct qwen_state_extra *x, uint64_t pos,
    uint64_t n, struct qwen_err *err)
{
	struct qwen_generated *last = x->generated + x->n_generated, *p;
	size_t cap;

	if (n == 0)
		return 0;
	if (n > UINT64_MAX - pos || (x->n_generated > 0 &&
	    pos < last[-1].pos + last[-1].n))
		return qwen_fail(err, QWEN_ERANGE, "%llu tokens generated at "
		    "%llu, which is not after those before",
		    (unsigned long long)n, (unsigned long long)pos);
	if (x->n_generated > 0 && last[-1].pos + last[-1].n == pos) {
		last[-1].n += n;
		return 0;
	}
	/* room for a power of two of them, so no field has to say how many */
	if ((x->n_generated & (x->n_generated - 1)) == 0) {
		if (qwen_mul(x->n_generated == 0 ? 1 : 2 * x->n_generated,
		    sizeof *p, &cap) < 0 ||
		    (p = realloc(x->generated, cap)) == NULL)
			return qwen_oom(err);
		x->generated = p;
	}
	x->generated[x->n_generated++] = (struct qwen_generated){ pos, n };
	return 0;
}

int
qwen_state_extra_run(struct qwen_state_extra *x, const struct qwen_run *run,
    struct qwen_err *err)
{
	char *text = NULL;

	if (run != NULL && run->options == NULL)
		run = NULL;
	if (run != NULL && strlen(run->options) >= QWEN_OPTIONS_MAX)
		return qwen_fail(err, QWEN_ERANGE, "the options of the run "
		    "take more than %d bytes", QWEN_OPTIONS_MAX);
	if (run != NULL && (text = strdup(run->options)) == NULL)
		return qwen_oom(err);
	free(x->run.options);
	memset(&x->run, 0, sizeof x->run);
	if (run != NULL)
		x->run = *run;
	x->run.options = text;
	return 0;
}

int
qwen_state_extra_copy(struct qwen_state_extra *out,
    const struct qwen_state_extra *x, uint64_t n, int whole,
    struct qwen_err *err)
{
	size_t i;

	memset(out, 0, sizeof *out);
	for (i = 0; i < x->n_generated && x->generated[i].pos < n; i++) {
		const struct qwen_generated *g = &x->generated[i];
		uint64_t left = n - g->pos;

		if (qwen_state_extra_generated(out, g->pos,
		    g->n < left ? g->n : left, err) < 0)
			goto fail;
	}
	if (x->sampler != NULL &&
	    (out->sampler = strdup(x->sampler)) == NULL) {
		qwen_oom(err);
		goto fail;
	}
	if (whole) {
		memcpy(out->memory, x->memory, sizeof out->memory);
		memcpy(out->pending, x->pending, sizeof out->pending);
		out->n_pending = x->n_pending;
	}
	/* a run is of the tokens at the end */
	if (whole && x->run.options != NULL &&
	    qwen_state_extra_run(out, &x->run, err) < 0)
		goto fail;
	return 0;
fail:
	qwen_state_extra_fini(out);
	return -1;
}

int
qwen_state_extra_replay(const struct qwen_state_extra *x,
    struct qwen_sampler *s, const int32_t *tokens, size_t n,
    struct qwen_err *err)
{
	const struct qwen_generated *g = x->generated;
	size_t i, pos = 0;

	for (i = 0; i <= x->n_generated; i++) {
		size_t end = i < x->n_generated && g[i].pos < n ?
		    (size_t)g[i].pos : n;

		if (qwen_sampler_accept(s, tokens + pos, end - pos, 0,
		    err) < 0)
			return -1;
		pos = end;
		if (i == x->n_generated || pos == n)
			break;
		end = g[i].n < n - pos ? pos + (size_t)g[i].n : n;
		if (qwen_sampler_accept(s, tokens + pos, end - pos, 1,
		    err) < 0)
			return -1;
		pos = end;
	}
	return qwen_sampler_restore(s, x->memory, err);
}
