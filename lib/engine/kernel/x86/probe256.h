/* SPDX-License-Identifier: ISC */
/* probe256.h - how fast 256-bit registers read, and multiply f32. */
#include <immintrin.h>

#include "engine/kernel/kernel.h"
#include "engine/kernel/x86/probe.h"

static uint64_t
read_all(const void *p, size_t n)
{
	const __m256i *w = p, *end = w + n / sizeof *w;
	__m256i s[4];
	int i;

	for (i = 0; i < 4; i++)
		s[i] = _mm256_setzero_si256();
	for (; w < end; w += 4) {
		s[0] = _mm256_add_epi64(s[0], _mm256_loadu_si256(w));
		s[1] = _mm256_add_epi64(s[1], _mm256_loadu_si256(w + 1));
		s[2] = _mm256_add_epi64(s[2], _mm256_loadu_si256(w + 2));
		s[3] = _mm256_add_epi64(s[3], _mm256_loadu_si256(w + 3));
	}
	s[0] = _mm256_add_epi64(_mm256_add_epi64(s[0], s[1]),
	    _mm256_add_epi64(s[2], s[3]));
	return (uint64_t)_mm256_extract_epi64(s[0], 0) +
	    (uint64_t)_mm256_extract_epi64(s[0], 1) +
	    (uint64_t)_mm256_extract_epi64(s[0], 2) +
	    (uint64_t)_mm256_extract_epi64(s[0], 3);
}

static uint64_t
f32(size_t n)
{
	__m256 s[CHAINS], a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.5f);
	int i, k;

	for (i = 0; i < CHAINS; i++)
		s[i] = _mm256_setzero_ps();
	UNKNOWN(a);
	UNKNOWN(b);
	while (n-- > 0) {
#define MAC(i) s[i] = _mm256_fmadd_ps(s[i], a, b);
		for (k = 0; k < ROUNDS; k++) {
			TWELVE(MAC)
		}
#undef MAC
	}
	for (i = 1; i < CHAINS; i++)
		s[0] = _mm256_add_ps(s[0], s[i]);
	return (uint64_t)_mm256_cvtss_f32(s[0]);
}
