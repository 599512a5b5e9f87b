/* SPDX-License-Identifier: ISC */
/* probe_avx512vnni.c - how fast 512-bit registers read and multiply. */
#include <immintrin.h>

#include "engine/kernel/kernel.h"
#include "engine/kernel/x86/probe.h"

static uint64_t
read_all(const void *p, size_t n)
{
	const char *w = p, *end = w + n;
	__m512i s[4];
	int i;

	for (i = 0; i < 4; i++)
		s[i] = _mm512_setzero_si512();
	for (; w < end; w += 256) {
		s[0] = _mm512_add_epi64(s[0], _mm512_loadu_si512(w));
		s[1] = _mm512_add_epi64(s[1], _mm512_loadu_si512(w + 64));
		s[2] = _mm512_add_epi64(s[2], _mm512_loadu_si512(w + 128));
		s[3] = _mm512_add_epi64(s[3], _mm512_loadu_si512(w + 192));
	}
	s[0] = _mm512_add_epi64(_mm512_add_epi64(s[0], s[1]),
	    _mm512_add_epi64(s[2], s[3]));
	return (uint64_t)_mm512_reduce_add_epi64(s[0]);
}

static uint64_t
int8(size_t n)
{
	__m512i s[CHAINS], a = _mm512_set1_epi8(1), b = _mm512_set1_epi8(-1);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = _mm512_setzero_si512();
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = _mm512_dpbusd_epi32(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = _mm512_add_epi32(s[0], s[i]);
	return (uint64_t)_mm512_reduce_add_epi64(s[0]);
}

static uint64_t
f32(size_t n)
{
	__m512 s[CHAINS], a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.5f);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = _mm512_setzero_ps();
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = _mm512_fmadd_ps(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = _mm512_add_ps(s[0], s[i]);
	return (uint64_t)_mm512_cvtss_f32(s[0]);
}

static const struct qwen_probe probe = {
	.int8_op = "VPDPBUSD zmm", .read = read_all,
	.int8 = int8, .int8_macs = 64 * CHAINS * ROUNDS,
	.f32 = f32, .f32_macs = 16 * CHAINS * ROUNDS,
};

const struct qwen_kernel qwen_probe_avx512vnni = {
	.op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, .name = "avx512vnni",
	.rank = 40, .need = QWEN_CPU_AVX512VNNI, .run.probe = &probe,
};
