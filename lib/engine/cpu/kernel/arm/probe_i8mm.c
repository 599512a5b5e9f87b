/* SPDX-License-Identifier: ISC */
/* probe_i8mm.c - what the machine can do with SMMLA. */
#define INT8_OP "SMMLA"
#define INT8_MACS 32
#include "engine/cpu/kernel/arm/probe.h"

AI int32x4_t
step(int32x4_t s, int8x16_t a, int8x16_t b)
{
	return vmmlaq_s32(s, a, b);
}

const struct qwen_kernel qwen_probe_i8mm_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_I8MM,
	    .run.probe = &probe },
	{ 0 }
};
