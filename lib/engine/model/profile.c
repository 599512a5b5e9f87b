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
	[QWEN_STAGE_ATTN] = "attn", [QWEN_STAGE_CONV] = "conv",
	[QWEN_STAGE_DELTA_PREPARE] = "delta.prepare",
	[QWEN_STAGE_DELTA] = "delta",
	[QWEN_STAGE_DELTA_FINISH] = "delta.finish",
	[QWEN_STAGE_ROUTE] = "route", [QWEN_STAGE_ACTIVATE] = "activate",
	[QWEN_STAGE_COMBINE] = "combine", [QWEN_STAGE_PACK] = "pack",
	[QWEN_STAGE_LORA] = "lora",
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

void
qwen_profile_end(struct qwen_profile *p, int thread, enum qwen_stage stage,
    uint64_t begin, uint64_t bytes, uint64_t macs)
{
	struct qwen_stat *s;

	if (!p->on)
		return;
	s = &p->stat[(size_t)thread * QWEN_STAGE_N + stage];
	s->calls++;
	s->ns += now_ns() - begin;
	s->bytes += bytes;
	s->macs += macs;
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
	p->stat = qwen_alloc((size_t)n_threads * QWEN_STAGE_N,
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

size_t
qwen_model_stats(const struct qwen_model *m, struct qwen_kernel_stat *out,
    size_t max)
{
	const struct qwen_profile *p = &m->profile;
	size_t stage, n = 0;
	int t;

	for (stage = 0; p->on && stage < QWEN_STAGE_N; stage++) {
		struct qwen_kernel_stat s = { .calls = 0 };

		for (t = 0; t < p->n_threads; t++) {
			const struct qwen_stat *q =
			    &p->stat[(size_t)t * QWEN_STAGE_N + stage];

			s.calls += q->calls;
			s.ms += (double)q->ns * 1e-6;
			s.bytes += q->bytes;
			s.macs += q->macs;
		}
		if (s.calls == 0)
			continue;
		name_stage(&s, m, stage);
		if (n < max)
			out[n] = s;
		n++;
	}
	return n;
}
