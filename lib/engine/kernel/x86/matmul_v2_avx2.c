/* SPDX-License-Identifier: ISC */
/*
 * matmul_v2_avx2.c - products of numerics version 2, AVX2.  Weights of 8 rows
 * become bf16 as dequant512.h says.
 */
#include "engine/kernel/matmul_v2.inc"
#include "engine/kernel/x86/base.h"

/* A group under way. */
struct panel {
	struct panel_v2	*to;
	/* as unpack256.h wants them, for the one group */
	int32_t	scale[1][16][16];
	int32_t	min[1][8][16];
	float	d[1][8][16];
	float	dmin[1][16];
	/* of the 32-blocks under way */
	float	mul[8][16];
	float	add[8][16];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack256.h"

/* To nearest even in the upper 16 bits: see dequant512.h. */
PI __m256
round_bf16(__m256 x)
{
	const __m256 k = _mm256_set1_ps(0x1.8p16f);
	__m256 m = _mm256_and_ps(x, _mm256_castsi256_ps(
	    _mm256_set1_epi32((int)0xff800000)));

	return _mm256_fnmadd_ps(m, k, _mm256_fmadd_ps(m, k, x));
}

/* Byte i of the dwords of v, as f32. */
PI __m256
byte_f32(__m256i v, int i)
{
	return _mm256_cvtepi32_ps(_mm256_and_si256(_mm256_srli_epi32(v,
	    8 * i), _mm256_set1_epi32(255)));
}

/* The scales of 8 rows, which are in both halves of their dwords. */
PI __m256
scales_f32(const int32_t *p)
{
	return _mm256_cvtepi32_ps(_mm256_srai_epi32(load8(p), 16));
}

/*
 * mul and add of 32-block j: of all of it, or of one part of two where a scale
 * is for 16 columns.
 */
PI void
prepare_k4(struct panel *p, size_t j, int half)
{
	__m256i min = _mm256_srl_epi32(load8(p->min[0][j / 2] + 8 * half),
	    _mm_cvtsi32_si128(j % 2 ? 16 : 0));
	__m256 m = _mm256_cvtepi32_ps(_mm256_and_si256(min,
	    _mm256_set1_epi32(0xffff)));

	_mm256_store_ps(p->mul[j] + 8 * half, _mm256_mul_ps(
	    _mm256_load_ps(p->d[0][0] + 8 * half),
	    scales_f32(p->scale[0][j] + 8 * half)));
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_fnmadd_ps(
	    _mm256_load_ps(p->dmin[0] + 8 * half), m, _mm256_setzero_ps()));
}

/* Weights come 32 too large. */
PI void
prepare_q6_k(struct panel *p, size_t j, int part, int half)
{
	__m256 mul = _mm256_mul_ps(_mm256_load_ps(p->d[0][0] + 8 * half),
	    scales_f32(p->scale[0][2 * j + (size_t)part] + 8 * half));

	_mm256_store_ps(p->mul[j] + 8 * half, mul);
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_mul_ps(mul,
	    _mm256_set1_ps(-32.0f)));
}

/* Weights are signed bytes, turned to 0 .. 255: 128 too large. */
PI void
prepare_q8_0(struct panel *p, size_t j, int half)
{
	__m256 mul = _mm256_load_ps(p->d[0][j] + 8 * half);

	_mm256_store_ps(p->mul[j] + 8 * half, mul);
	_mm256_store_ps(p->add[j] + 8 * half, _mm256_mul_ps(mul,
	    _mm256_set1_ps(-128.0f)));
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m256i v)
{
	float (*to)[PARTS][16] = p->to->w + 32 * j + 4 * (size_t)quad;
	__m256 mul, add;
	int i;

	(void)g;
	if (type == QT_Q8_0)
		v = _mm256_xor_si256(v, _mm256_set1_epi8((char)0x80));
	if (type == QT_Q6_K && quad % 4 == 0)
		prepare_q6_k(p, j, quad / 4, half);
	else if (type == QT_Q8_0 && quad == 0)
		prepare_q8_0(p, j, half);
	else if (quad == 0)
		prepare_k4(p, j, half);
	mul = _mm256_load_ps(p->mul[j] + 8 * half);
	add = _mm256_load_ps(p->add[j] + 8 * half);
	UNROLL
	for (i = 0; i < 4; i++)
		_mm256_store_ps(to[i][0] + 8 * half, round_bf16(
		    _mm256_fmadd_ps(mul, byte_f32(v, i), add)));
}

PI void
fill_group(uint32_t type, const unsigned char *const *row,
    struct panel_v2 *to)
{
	const unsigned char *r[2 * 8];	/* that no store can change */
	struct panel p;

	memcpy(r, row, sizeof r);
	p.to = to;
	unpack8(type, r, &p, 0, 0);
	unpack8(type, r + 8, &p, 0, 1);
}

FORMAT_V2(q4_k, QT_Q4_K)
FORMAT_V2(q5_k, QT_Q5_K)
FORMAT_V2(q6_k, QT_Q6_K)
FORMAT_V2(q8_0, QT_Q8_0)

const struct qwen_kernel qwen_matmul_v2_avx2_kernels[] = {
	ENTRY_V2(QWEN_ANY_TYPE, any, QWEN_AVX2),
	ENTRY_V2(QT_Q4_K, q4_k, QWEN_AVX2),
	ENTRY_V2(QT_Q5_K, q5_k, QWEN_AVX2),
	ENTRY_V2(QT_Q6_K, q6_k, QWEN_AVX2),
	ENTRY_V2(QT_Q8_0, q8_0, QWEN_AVX2),
	{ 0 }
};
