/* SPDX-License-Identifier: ISC */
/* profile.c - where the time goes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/cpu/cpu.h"

static const enum qwen_purpose purposes[QWEN_STAGE_MATMUL] = {
	[QWEN_STAGE_EMBED] = QWEN_FOR_EMBEDDING,
	[QWEN_STAGE_NORM] = QWEN_FOR_NORM,
	[QWEN_STAGE_ATTN_PREPARE] = QWEN_FOR_ATTN_PREPARE,
	[QWEN_STAGE_KV_APPEND] = QWEN_FOR_KV_APPEND,
	[QWEN_STAGE_ATTN] = QWEN_FOR_ATTENTION,
	[QWEN_STAGE_CONV] = QWEN_FOR_DELTA_CONV,
	[QWEN_STAGE_DELTA_PREPARE] = QWEN_FOR_DELTA_PREPARE,
	[QWEN_STAGE_DELTA] = QWEN_FOR_DELTA_RULE,
	[QWEN_STAGE_DELTA_FINISH] = QWEN_FOR_DELTA_FINISH,
	[QWEN_STAGE_ROUTE] = QWEN_FOR_ROUTER,
	[QWEN_STAGE_ACTIVATE] = QWEN_FOR_MLP,
	[QWEN_STAGE_COMBINE] = QWEN_FOR_ROUTED_EXPERTS,
	[QWEN_STAGE_LORA] = QWEN_FOR_ADAPTERS,
};

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t
qwen_profile_begin(const struct qwen_profile *p)
{
	return p->on ? now_ns() : 0;
}

static struct qwen_stat *
stat_of(const struct qwen_profile *p, int thread, size_t stage, size_t purpose)
{
	return &p->stat[((size_t)thread * QWEN_STAGE_N + stage) * QWEN_FOR_N +
	    purpose];
}

void
qwen_profile_end_for(struct qwen_profile *p, int thread, enum qwen_stage stage,
    enum qwen_purpose purpose, uint64_t begin, uint64_t bytes, uint64_t macs)
{
	struct qwen_stat *s;

	if (!p->on)
		return;
	s = stat_of(p, thread, stage, purpose);
	s->calls++;
	s->ns += now_ns() - begin;
	s->bytes += bytes;
	s->macs += macs;
}

void
qwen_profile_end(struct qwen_profile *p, int thread, enum qwen_stage stage,
    uint64_t begin, uint64_t bytes, uint64_t macs)
{
	if (p->on)
		qwen_profile_end_for(p, thread, stage, purposes[stage], begin,
		    bytes, macs);
}

void
qwen_profile_move(struct qwen_profile *p, enum qwen_stage from,
    enum qwen_stage to, uint64_t n, uint64_t ns, uint64_t bytes)
{
	struct qwen_stat *s;

	if (!p->on)
		return;
	/* may wrap below 0 in this thread, but not in the sum */
	stat_of(p, 0, from, purposes[from])->ns -= ns;
	s = stat_of(p, 0, to, purposes[to]);
	s->calls += n;
	s->ns += ns;
	s->bytes += bytes;
}

int
qwen_profile_set(struct qwen_profile *p, int on, int n_threads)
{
	p->on = 0;
	free(p->stat);
	p->stat = NULL;
	if (!on)
		return 0;
	p->n_threads = n_threads;
	p->stat = qwen_alloc((size_t)n_threads * QWEN_STAGE_N * QWEN_FOR_N,
	    sizeof *p->stat);
	if (p->stat == NULL)
		return -1;
	p->on = 1;
	return 0;
}

int
qwen_profile_sum(const struct qwen_profile *p, size_t stage, size_t n_stages,
    size_t purpose, size_t n_purposes, struct qwen_kernel_stat *out)
{
	const struct qwen_stat *q;
	size_t i, k;
	uint64_t ns = 0;
	int t;

	memset(out, 0, sizeof *out);
	for (t = 0; t < p->n_threads; t++) {
		for (i = stage; i < stage + n_stages; i++) {
			for (k = purpose; k < purpose + n_purposes; k++) {
				q = stat_of(p, t, i, k);
				out->calls += q->calls;
				ns += q->ns;
				out->bytes += q->bytes;
				out->macs += q->macs;
			}
		}
	}
	out->ms = (double)ns * 1e-6;
	return out->calls > 0;
}
