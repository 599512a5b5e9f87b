/* SPDX-License-Identifier: ISC */
/*
 * probe.h - how fast 128-bit registers read and multiply: sixteen independent
 * chains, four each for as many pipes.  The including file defines INT8_OP and
 * INT8_MACS of it, and int8_step(): one such instruction or group.
 */
#include "engine/kernel/arm/dot.h"

enum { CHAINS = 16, ROUNDS = 8 };

#define SIXTEEN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) \
	DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
/* What the compiler must take for unknown, though no instruction changes it. */
#define UNKNOWN(x) __asm__ volatile("" : "+w"(x))

static uint64_t
read_all(const void *p, size_t n)
{
	const uint64_t *w = p, *end = w + n / sizeof *w;
	uint64x2_t s[4];
	int i;

	for (i = 0; i < 4; i++)
		s[i] = vdupq_n_u64(0);
	for (; w < end; w += 8) {
		s[0] = vaddq_u64(s[0], vld1q_u64(w));
		s[1] = vaddq_u64(s[1], vld1q_u64(w + 2));
		s[2] = vaddq_u64(s[2], vld1q_u64(w + 4));
		s[3] = vaddq_u64(s[3], vld1q_u64(w + 6));
	}
	return vaddvq_u64(vaddq_u64(vaddq_u64(s[0], s[1]),
	    vaddq_u64(s[2], s[3])));
}

AI int32x4_t int8_step(int32x4_t s, int8x16_t a, int8x16_t b);

static uint64_t
int8(size_t n)
{
	int32x4_t s[CHAINS];
	int8x16_t a = vdupq_n_s8(1), b = vdupq_n_s8(-1);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = vdupq_n_s32(0);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) \
		UNKNOWN(a); \
		s[i] = int8_step(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			SIXTEEN(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = vaddq_s32(s[0], s[i]);
	return (uint64_t)(uint32_t)vaddvq_s32(s[0]);
}

static uint64_t
f32(size_t n)
{
	float32x4_t s[CHAINS], a = vdupq_n_f32(0.5f), b = vdupq_n_f32(0.5f);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = vdupq_n_f32(0.0f);
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = vfmaq_f32(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			SIXTEEN(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = vaddq_f32(s[0], s[i]);
	return (uint64_t)vaddvq_f32(s[0]);
}

static const struct qwen_probe probe = {
	.int8_op = INT8_OP, .read = read_all,
	.int8 = int8, .int8_macs = INT8_MACS * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = 4 * CHAINS * ROUNDS,
};
