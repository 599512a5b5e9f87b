/* SPDX-License-Identifier: ISC */
/*
 * probe.h - how fast registers of 256 or 512 bits read and multiply: twelve
 * independent chains, more than any multiplier needs.
 *
 * The including file defines INT8_OP and int8_step(), as many products of bytes
 * as a register has, added to s; or takes read_all() and f32() alone.
 */
#ifndef QWEN_KERNEL_X86_PROBE_H
#define QWEN_KERNEL_X86_PROBE_H

#include "engine/kernel/x86/base.h"

enum { CHAINS = 12, ROUNDS = 8 };

#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) \
	DO(9) DO(10) DO(11)
/* What the compiler must take for unknown, though no instruction changes it. */
#define UNKNOWN(x) __asm__ volatile("" : "+v"(x))

#ifdef __AVX512F__
typedef __m512i vec_i;
typedef __m512 vec_f;
#define OP(name) _mm512_##name
#define LOAD_I(p) _mm512_loadu_si512(p)
#define ZERO_I() _mm512_setzero_si512()
#else
typedef __m256i vec_i;
typedef __m256 vec_f;
#define OP(name) _mm256_##name
#define LOAD_I(p) _mm256_loadu_si256(p)
#define ZERO_I() _mm256_setzero_si256()
#endif

PI uint64_t
sum_lanes(vec_i v)
{
	uint64_t x[sizeof v / 8], sum = 0;
	size_t i;

	memcpy(x, &v, sizeof x);
	for (i = 0; i < sizeof v / 8; i++)
		sum += x[i];
	return sum;
}

static uint64_t
read_all(const void *p, size_t n)
{
	const vec_i *w = p, *end = w + n / sizeof *w;
	vec_i s[4];
	int i;

	for (i = 0; i < 4; i++)
		s[i] = ZERO_I();
	for (; w < end; w += 4) {
		s[0] = OP(add_epi64)(s[0], LOAD_I(w));
		s[1] = OP(add_epi64)(s[1], LOAD_I(w + 1));
		s[2] = OP(add_epi64)(s[2], LOAD_I(w + 2));
		s[3] = OP(add_epi64)(s[3], LOAD_I(w + 3));
	}
	return sum_lanes(OP(add_epi64)(OP(add_epi64)(s[0], s[1]),
	    OP(add_epi64)(s[2], s[3])));
}

static uint64_t
f32(size_t n)
{
	vec_f s[CHAINS], a = OP(set1_ps)(0.5f), b = OP(set1_ps)(0.5f);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = OP(setzero_ps)();
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = OP(fmadd_ps)(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = OP(add_ps)(s[0], s[i]);
	return (uint64_t)((const float *)&s[0])[0];
}

#ifdef INT8_OP
PI vec_i int8_step(vec_i s, vec_i a, vec_i b);

static uint64_t
int8(size_t n)
{
	vec_i s[CHAINS], a = OP(set1_epi8)(1), b = OP(set1_epi8)(-1);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = ZERO_I();
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) \
		UNKNOWN(a); \
		s[i] = int8_step(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = OP(add_epi32)(s[0], s[i]);
	return sum_lanes(s[0]);
}

static const struct qwen_probe probe = {
	.int8_op = INT8_OP, .read = read_all,
	.int8 = int8, .int8_macs = sizeof(vec_i) * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = sizeof(vec_f) / 4 * CHAINS * ROUNDS,
};
#endif

#endif
