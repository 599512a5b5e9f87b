/* SPDX-License-Identifier: ISC */
/* probe_dotprod.c - what the machine can do with SDOT. */
#define INT8_OP "SDOT"
#define INT8_MACS 16
#include "engine/cpu/kernel/arm/probe.h"

AI int32x4_t
step(int32x4_t s, int8x16_t a, int8x16_t b)
{
	return vdotq_s32(s, a, b);
}

const struct qwen_kernel qwen_probe_dotprod_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_DOTPROD,
	    .run.probe = &probe },
	{ 0 }
};
