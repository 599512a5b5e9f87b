/* SPDX-License-Identifier: ISC */
/* profile.c - where the time goes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"

static const char *const names[QWEN_STAGE_MATMUL] = {
	[QWEN_STAGE_EMBED] = "embed", [QWEN_STAGE_NORM] = "norm",
	[QWEN_STAGE_ATTN_PREPARE] = "attn.prepare",
	[QWEN_STAGE_KV_APPEND] = "kv.append",
	[QWEN_STAGE_ATTN] = "attn", [QWEN_STAGE_CONV] = "conv",
	[QWEN_STAGE_DELTA_PREPARE] = "delta.prepare",
	[QWEN_STAGE_DELTA] = "delta",
	[QWEN_STAGE_DELTA_FINISH] = "delta.finish",
	[QWEN_STAGE_ROUTE] = "route", [QWEN_STAGE_ACTIVATE] = "activate",
	[QWEN_STAGE_COMBINE] = "combine", [QWEN_STAGE_PACK] = "pack",
	[QWEN_STAGE_LORA] = "lora",
};

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

static const char *const purpose_names[QWEN_FOR_N] = {
	[QWEN_FOR_EMBEDDING] = "embedding", [QWEN_FOR_NORM] = "norm",
	[QWEN_FOR_ATTN_PROJECTIONS] = "attn_projections",
	[QWEN_FOR_ATTN_PREPARE] = "attn_prepare",
	[QWEN_FOR_KV_APPEND] = "kv_append",
	[QWEN_FOR_ATTENTION] = "attention",
	[QWEN_FOR_DELTA_PROJECTIONS] = "delta_projections",
	[QWEN_FOR_DELTA_CONV] = "delta_conv",
	[QWEN_FOR_DELTA_PREPARE] = "delta_prepare",
	[QWEN_FOR_DELTA_RULE] = "delta_rule",
	[QWEN_FOR_DELTA_FINISH] = "delta_finish",
	[QWEN_FOR_ROUTER] = "router",
	[QWEN_FOR_ROUTED_EXPERTS] = "routed_experts",
	[QWEN_FOR_SHARED_EXPERT] = "shared_expert",
	[QWEN_FOR_MLP] = "mlp", [QWEN_FOR_HEAD] = "head",
	[QWEN_FOR_MTP_PROJECTION] = "mtp_projection",
	[QWEN_FOR_ADAPTERS] = "adapters",
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
qwen_model_profile(struct qwen_model *m, int on, struct qwen_err *err)
{
	if (qwen_profile_set(&m->profile, on, qwen_model_n_threads(m)) < 0)
		return qwen_oom(err);
	return 0;
}

static void
name_stage(struct qwen_kernel_stat *out, const struct qwen_model *m,
    size_t stage)
{
	const struct qwen_kernels *k = &m->kernels;
	const struct qwen_kernel *used = k->vec;
	uint32_t type;

	if (stage < QWEN_STAGE_MATMUL) {
		snprintf(out->name, sizeof out->name, "%s", names[stage]);
		if (stage == QWEN_STAGE_ATTN)
			used = k->attn;
		else if (stage == QWEN_STAGE_DELTA)
			used = k->delta;
	} else {
		int gemm = stage >= QWEN_STAGE_GEMM;

		type = (uint32_t)(stage - (gemm ? QWEN_STAGE_GEMM :
		    QWEN_STAGE_MATMUL));
		snprintf(out->name, sizeof out->name, "%s.%s", gemm ? "gemm" :
		    "matmul", qwen_ggml_name(type));
		/* of all GEMMs, that of the most tokens */
		used = gemm ? k->gemm[type].by[QWEN_TOKEN_CLASSES - 1] :
		    k->matmul[type];
	}
	snprintf(out->variant, sizeof out->variant, "%s", used->name);
}

/* Add up all threads, for a range of stages and purposes; 0: no calls. */
static int
add_up(const struct qwen_profile *p, size_t stage, size_t n_stages,
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

size_t
qwen_model_stats(const struct qwen_model *m, struct qwen_kernel_stat *out,
    size_t max)
{
	const struct qwen_profile *p = &m->profile;
	struct qwen_kernel_stat s;
	size_t stage, n = 0;

	for (stage = 0; p->on && stage < QWEN_STAGE_N; stage++) {
		if (!add_up(p, stage, 1, 0, QWEN_FOR_N, &s))
			continue;
		name_stage(&s, m, stage);
		if (n < max)
			out[n] = s;
		n++;
	}
	return n;
}

size_t
qwen_model_stats_by_purpose(const struct qwen_model *m,
    struct qwen_kernel_stat *out, size_t max)
{
	const struct qwen_profile *p = &m->profile;
	struct qwen_kernel_stat s;
	size_t i, n = 0;

	for (i = 0; p->on && i < QWEN_FOR_N; i++) {
		if (!add_up(p, 0, QWEN_STAGE_N, i, 1, &s))
			continue;
		snprintf(s.name, sizeof s.name, "%s", purpose_names[i]);
		if (n < max)
			out[n] = s;
		n++;
	}
	return n;
}
