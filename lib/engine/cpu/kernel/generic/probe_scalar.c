/* SPDX-License-Identifier: ISC */
/* probe_scalar.c - how fast plain C reads and multiplies. */
#include "engine/cpu/kernel/kernel.h"

enum { LANES = 16, ROUNDS = 16 };

/* What the compiler must take for unknown, though no instruction changes it. */
#define UNKNOWN() __asm__ volatile("" ::: "memory")

static uint64_t
read_all(const void *p, size_t n)
{
	const uint64_t *w = p;
	uint64_t s[4] = { 0 };
	size_t i;

	for (i = 0; i < n / sizeof *w; i += 4) {
		s[0] += w[i];
		s[1] += w[i + 1];
		s[2] += w[i + 2];
		s[3] += w[i + 3];
	}
	return s[0] + s[1] + s[2] + s[3];
}

static uint64_t
int8(size_t n)
{
	uint8_t a[LANES * ROUNDS];
	int8_t b[LANES * ROUNDS];
	int32_t sum = 0;
	size_t i;

	for (i = 0; i < LANES * ROUNDS; i++) {
		a[i] = (uint8_t)(i % 3);
		b[i] = (int8_t)(i % 5 - 2);
	}
	while (n-- > 0) {
		UNKNOWN();
		for (i = 0; i < LANES * ROUNDS; i++)
			sum += (int32_t)a[i] * b[i];
		sum &= 0xffff;
	}
	return (uint64_t)sum;
}

/* Without a fused instruction: a multiplication and an addition. */
static uint64_t
f32(size_t n)
{
	float s[LANES] = { 0 }, x = 0.5f, y = 0.5f, sum = 0;
	size_t i, k;

	while (n-- > 0) {
		for (k = 0; k < ROUNDS; k++)
			for (i = 0; i < LANES; i++)
				s[i] = s[i] * x + y;
		UNKNOWN();
	}
	for (i = 0; i < LANES; i++)
		sum += s[i];
	return (uint64_t)sum;
}

static const struct qwen_probe probe = {
	.int8_op = "C", .read = read_all,
	.int8 = int8, .int8_macs = LANES * ROUNDS,
	.f32 = f32, .f32_macs = LANES * ROUNDS,
};

const struct qwen_kernel qwen_probe_scalar_kernels[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, QWEN_SCALAR,
	    .run.probe = &probe },
	{ 0 }
};
