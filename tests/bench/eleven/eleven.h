/* SPDX-License-Identifier: ISC */
/*
 * eleven.h - activations in whole numbers of 11 bits, of which a version of the
 * arithmetic could be made: what tests/bench/eleven measures.
 *
 * 256 activations have one scale; x[i] is about d q[i].  A sum of scale times
 * weight times q over a group stays within 32 bits up to 2047: scale times
 * weight is 4096 at most (Q6_K), and 4096 * 2047 * 256 < 2^31.  With 1023 sums
 * of 32 fit 16 bits, too.
 */
#ifndef BENCH_ELEVEN_H
#define BENCH_ELEVEN_H

#include "engine/kernel/kernel.h"

#define ELEVEN_MOST 1023

struct eleven_act {
	int16_t	pair[QWEN_GROUP];	/* q, in fours: 0 2 1 3 */
	int8_t	hi[QWEN_GROUP];		/* q = 32 hi + lo */
	int8_t	lo[QWEN_GROUP];		/* -16 .. 15 */
	int32_t	sum16[16];		/* of 16 q, and of 32 */
	int32_t	sum32[8];
	int16_t	half32[8];		/* sum32 */
	float	d;
} __attribute__((aligned(64)));

typedef void eleven_product(const struct qwen_matmul *m);

/* As QWEN_OP_MATMUL and QWEN_OP_GEMM, x being struct eleven_act; whole groups. */
eleven_product eleven_few_q4_k, eleven_few_q5_k, eleven_few_q6_k,
    eleven_few_q8_0;
eleven_product eleven_many_q4_k, eleven_many_q5_k, eleven_many_q6_k,
    eleven_many_q8_0;

#endif
