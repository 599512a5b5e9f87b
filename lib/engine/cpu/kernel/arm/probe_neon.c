/* SPDX-License-Identifier: ISC */
/* probe_neon.c - what the machine can do with SMLAL, SADALP. */
#define INT8_OP "SMLAL, SADALP"
#define INT8_MACS 16
#include "engine/cpu/kernel/arm/probe.h"

AI int32x4_t
step(int32x4_t s, int8x16_t a, int8x16_t b)
{
	return dot16(s, a, b);
}

const struct qwen_kernel qwen_probe_neon_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_NEON,
	    .run.probe = &probe },
	{ 0 }
};
