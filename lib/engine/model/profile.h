/* SPDX-License-Identifier: ISC */
/*
 * profile.h - where the time goes: calls, time, bytes and multiply-adds of each
 * stage, counted by each thread for itself.
 */
#ifndef QWEN_MODEL_PROFILE_H
#define QWEN_MODEL_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/quant/quant.h"

enum qwen_stage {
	QWEN_STAGE_EMBED,
	QWEN_STAGE_NORM,	/* residual, norm, 8-bit activations */
	QWEN_STAGE_ATTN_PREPARE,
	QWEN_STAGE_ATTN,
	QWEN_STAGE_CONV,
	QWEN_STAGE_DELTA_PREPARE,
	QWEN_STAGE_DELTA,
	QWEN_STAGE_DELTA_FINISH,
	QWEN_STAGE_ROUTE,
	QWEN_STAGE_ACTIVATE,
	QWEN_STAGE_COMBINE,	/* experts' outputs into the sum */
	QWEN_STAGE_PACK,	/* 8-bit activations as kernels want them */
	QWEN_STAGE_LORA,	/* adapters' products */
	QWEN_STAGE_MATMUL,	/* + type */
	QWEN_STAGE_GEMM = QWEN_STAGE_MATMUL + QT_N,
	QWEN_STAGE_N = QWEN_STAGE_GEMM + QT_N
};

struct qwen_stat {
	uint64_t	calls, ns, bytes, macs;
};

struct qwen_profile {
	int			 on;
	int			 n_threads;
	struct qwen_stat	*stat;	/* [n_threads][QWEN_STAGE_N] */
};

/* The time, or 0 while profiling is off. */
uint64_t qwen_profile_begin(const struct qwen_profile *p);

/* Add what was done since begin. */
void qwen_profile_end(struct qwen_profile *p, int thread,
    enum qwen_stage stage, uint64_t begin, uint64_t bytes, uint64_t macs);

/* Start (with zeros) or stop; -1 if memory is short. */
int qwen_profile_set(struct qwen_profile *p, int on, int n_threads);

#endif
