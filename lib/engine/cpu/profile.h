/* SPDX-License-Identifier: ISC */
/*
 * profile.h - where the time goes: calls, time, bytes and multiply-adds of each
 * stage and purpose.  Each thread counts for itself.
 */
#ifndef QWEN_CPU_PROFILE_H
#define QWEN_CPU_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/quant/quant.h"
#include "engine/net/purpose.h"

enum qwen_stage {
	QWEN_STAGE_EMBED,
	QWEN_STAGE_NORM,	/* residual, norm, quantized activations */
	QWEN_STAGE_ATTN_PREPARE,
	QWEN_STAGE_KV_APPEND,	/* writing keys and values to the cache */
	QWEN_STAGE_ATTN,
	QWEN_STAGE_CONV,
	QWEN_STAGE_DELTA_PREPARE,
	QWEN_STAGE_DELTA,
	QWEN_STAGE_DELTA_FINISH,
	QWEN_STAGE_ROUTE,
	QWEN_STAGE_ACTIVATE,
	QWEN_STAGE_COMBINE,	/* summing the outputs of experts */
	QWEN_STAGE_PACK,	/* packing quantized activations for kernels */
	QWEN_STAGE_LORA,	/* products of adapters */
	QWEN_STAGE_MATMUL,	/* + type of the weights */
	QWEN_STAGE_GEMM = QWEN_STAGE_MATMUL + QT_N,
	QWEN_STAGE_N = QWEN_STAGE_GEMM + QT_N
};

struct qwen_stat {
	uint64_t	calls, ns, bytes, macs;
};

struct qwen_profile {
	int			 on;
	int			 n_threads;
	struct qwen_stat	*stat;	/* [n_threads][QWEN_STAGE_N][QWEN_FOR_N] */
};

/* Returns the time in ns, or 0 while profiling is off. */
uint64_t qwen_profile_begin(const struct qwen_profile *p);

/* Counts the work since begin for the stage's default purpose. */
void qwen_profile_end(struct qwen_profile *p, int thread,
    enum qwen_stage stage, uint64_t begin, uint64_t bytes, uint64_t macs);

/* The same for another purpose, for stages that several blocks use. */
void qwen_profile_end_for(struct qwen_profile *p, int thread,
    enum qwen_stage stage, enum qwen_purpose purpose, uint64_t begin,
    uint64_t bytes, uint64_t macs);

/*
 * Moves n calls and ns of time from one stage to another, both with their
 * default purposes.  Call it when no thread is counting.
 */
void qwen_profile_move(struct qwen_profile *p, enum qwen_stage from,
    enum qwen_stage to, uint64_t n, uint64_t ns, uint64_t bytes);

/* Starts (from zero) or stops profiling; -1 without memory. */
int qwen_profile_set(struct qwen_profile *p, int on, int n_threads);

/*
 * Adds up all threads, for a range of stages and purposes; sets out but its names.
 * Returns 0 if there were no calls.
 */
int qwen_profile_sum(const struct qwen_profile *p, size_t stage,
    size_t n_stages, size_t purpose, size_t n_purposes,
    struct qwen_kernel_stat *out);

#endif
