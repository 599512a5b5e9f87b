/* SPDX-License-Identifier: ISC */
/* matmul_avx2.c - y = Wx, x in 8 bits, AVX2. */
#include "engine/cpu/kernel/x86/rows4.h"

/* ---- Q4_K and Q5_K */

/*
 * The headers of four rows are taken apart together, one row in each 128-bit
 * lane of two registers: rows 0 and 2, rows 1 and 3.
 *
 * Products go by VPMADDUBSW (at most 7874), four of these added up in 16 bits,
 * then by VPMADDWD with scale times sub-scale.  Two sub-blocks are taken in
 * turns of two weights, activations likewise, so that a dword of products holds
 * a sum of each, and one VPMADDWD does both; rows are paired before it.  That
 * takes fewer instructions than a VPMADDWD for each 32 weights, and unpacking
 * ones instead of VPSHUFB, of which processors do fewer at once.
 *
 * AVX-VNNI has none of its own: there is little for VPDPWSSD to add up, and
 * more tokens go to a panel soon.
 */

/*
 * Four rows' headers, eight int16 in each lane: minimums, and the scales of
 * sub-blocks 0 2 1 3 4 6 5 7.
 */
struct row_heads {
	__m256i	scale[2], min[2];
	__m128	d, dmin;
};

/* A vector from two rows, one in each lane. */
KERNEL_INLINE __m256i
two_rows(const unsigned char *a, const unsigned char *b)
{
	return _mm256_inserti128_si256(_mm256_castsi128_si256(
	    _mm_loadu_si128((const __m128i *)a)),
	    _mm_loadu_si128((const __m128i *)b), 1);
}

/* The 6-bit scales and minimums of two rows' headers. */
KERNEL_INLINE void
read_scales(__m256i v, __m256i *scale, __m256i *min)
{
	/* dwords of scales 0-3, 4-7, minimums 0-3, 4-7 of every row */
	const __m256i lo = _mm256_broadcastsi128_si256(_mm_setr_epi8(4, 5, 6,
	    7, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
	const __m256i hi = _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, -1,
	    -1, -1, 4, 5, 6, 7, -1, -1, -1, -1, 8, 9, 10, 11));
	const __m256i shift = _mm256_broadcastsi128_si256(_mm_setr_epi32(0, 0,
	    0, 4));
	const __m256i mask = _mm256_broadcastsi128_si256(_mm_setr_epi32(
	    0x3f3f3f3f, 0x0f0f0f0f, 0x3f3f3f3f, 0x0f0f0f0f));
	const __m256i first = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1,
	    2, -1, 1, -1, 3, -1, 4, -1, 6, -1, 5, -1, 7, -1));
	__m256i s;

	s = _mm256_and_si256(_mm256_srlv_epi32(_mm256_shuffle_epi8(v, lo),
	    shift), mask);
	s = _mm256_or_si256(s, _mm256_and_si256(_mm256_srli_epi32(
	    _mm256_shuffle_epi8(v, hi), 2), _mm256_set1_epi32(0x30303030)));
	*scale = _mm256_shuffle_epi8(s, first);
	*min = _mm256_unpackhi_epi8(s, _mm256_setzero_si256());
}

KERNEL_INLINE void
read_heads(const unsigned char *const *w, struct row_heads *h)
{
	const __m128i halves = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6,
	    7, 10, 11, 14, 15);
	__m256i a = two_rows(w[0], w[2]), b = two_rows(w[1], w[3]), both;
	__m256 d;

	read_scales(a, &h->scale[0], &h->min[0]);
	read_scales(b, &h->scale[1], &h->min[1]);
	both = _mm256_unpacklo_epi32(a, b);
	d = _mm256_cvtph_ps(_mm_shuffle_epi8(_mm_unpacklo_epi64(
	    _mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)),
	    halves));
	h->d = _mm256_castps256_ps128(d);
	h->dmin = _mm256_extractf128_ps(d, 1);
}

/*
 * Activations of half c of a block, sub-blocks 4c to 4c + 3: 0 and 2, then 1
 * and 3, in turns of two.
 */
KERNEL_INLINE void
order_acts(const struct qwen_q8 *x, int c, __m256i *q)
{
	const __m256i *p = (const __m256i *)x->q + 4 * c;

	q[0] = _mm256_unpacklo_epi16(p[0], p[2]);
	q[1] = _mm256_unpackhi_epi16(p[0], p[2]);
	q[2] = _mm256_unpacklo_epi16(p[1], p[3]);
	q[3] = _mm256_unpackhi_epi16(p[1], p[3]);
}

/* Where the nibbles of a block begin: Q5_K has its fifth bits before them. */
KERNEL_INLINE size_t
nibbles_at(uint32_t type)
{
	return type == QT_Q5_K ? 48 : 16;
}

/* The nibbles of half c, two chunks of 32 bytes, in that order. */
KERNEL_INLINE void
chunks(uint32_t type, const unsigned char *w, int c, __m256i *n)
{
	const __m256i *p = (const __m256i *)(w + nibbles_at(type)) + 2 * c;
	__m256i a = _mm256_loadu_si256(p), b = _mm256_loadu_si256(p + 1);

	n[0] = _mm256_unpacklo_epi16(a, b);
	n[1] = _mm256_unpackhi_epi16(a, b);
}

/* Bit 4c + j of every byte as its bit 4. */
KERNEL_INLINE __m256i
fifth_bit(__m256i bits, int c, int j)
{
	bits = c == 0 ? _mm256_slli_epi16(bits, 4 - j) :
	    _mm256_srli_epi16(bits, j);
	return _mm256_and_si256(bits, _mm256_set1_epi8(16));
}

/* The fifth bits of Q5_K, to half c, sub-blocks s and s + 2 of it. */
KERNEL_INLINE void
add_fifth(const unsigned char *w, int c, int s, __m256i *n)
{
	/* bits 4c, 4c + 1: sub-blocks 0, 1 of a half; the next two: 2, 3 */
	__m256i bits = _mm256_loadu_si256((const __m256i *)(w + 16));
	__m256i next = _mm256_srli_epi16(bits, 2);

	n[0] = _mm256_or_si256(n[0],
	    fifth_bit(_mm256_unpacklo_epi16(bits, next), c, s));
	n[1] = _mm256_or_si256(n[1],
	    fifth_bit(_mm256_unpackhi_epi16(bits, next), c, s));
}

/* The weights of the lower (s = 0) or upper nibbles. */
KERNEL_INLINE void
weights(uint32_t type, const unsigned char *w, int c, int s,
    const __m256i *from, __m256i *n)
{
	const __m256i m4 = _mm256_set1_epi8(15);

	n[0] = _mm256_and_si256(_mm256_srli_epi16(from[0], 4 * s), m4);
	n[1] = _mm256_and_si256(_mm256_srli_epi16(from[1], 4 * s), m4);
	if (type == QT_Q5_K)
		add_fifth(w, c, s, n);
}

/* Eight pairs of sums, each of four products. */
KERNEL_INLINE __m256i
dot(const __m256i *n, const __m256i *q)
{
	return _mm256_add_epi16(_mm256_maddubs_epi16(n[0], q[0]),
	    _mm256_maddubs_epi16(n[1], q[1]));
}

/*
 * Scale times sub-scale, in pairs of sub-blocks 0 and 2, 1 and 3, 4 and 6, 5
 * and 7: of rows 0 and 1 in turn in o[][0], of rows 2 and 3 in o[][1].
 */
KERNEL_INLINE void
scales(const struct row_heads *h, const struct qwen_q8 *x, __m256i (*o)[2])
{
	const __m256i pairs = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1,
	    4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
	__m256i s = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(
	    _mm_load_si128((const __m128i *)x->a)), pairs);
	__m256i a = _mm256_mullo_epi16(h->scale[0], s);
	__m256i b = _mm256_mullo_epi16(h->scale[1], s);
	__m256i lo = _mm256_unpacklo_epi32(a, b);
	__m256i hi = _mm256_unpackhi_epi32(a, b);

	o[0][0] = _mm256_permute4x64_epi64(lo, 0x00);
	o[0][1] = _mm256_permute4x64_epi64(lo, 0xaa);
	o[1][0] = _mm256_permute4x64_epi64(lo, 0x55);
	o[1][1] = _mm256_permute4x64_epi64(lo, 0xff);
	o[2][0] = _mm256_permute4x64_epi64(hi, 0x00);
	o[2][1] = _mm256_permute4x64_epi64(hi, 0xaa);
	o[3][0] = _mm256_permute4x64_epi64(hi, 0x55);
	o[3][1] = _mm256_permute4x64_epi64(hi, 0xff);
}

/*
 * Add two rows' sums times scales; 16 bits hold those of eight products (31496
 * at most, of Q5_K).
 */
KERNEL_INLINE void
add_scaled(__m256i *sum, __m256i a, __m256i b, __m256i scale)
{
	__m256i v = _mm256_add_epi16(_mm256_unpacklo_epi32(a, b),
	    _mm256_unpackhi_epi32(a, b));

	*sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(v, scale));
	IN_ORDER(*sum);
}

/* Half c of the blocks of rows 2i and 2i + 1, nt tokens. */
KERNEL_INLINE void
half(uint32_t type, const unsigned char *const *w, int i, int c,
    __m256i (*q)[4], __m256i (*sa)[4][2], int nt, __m256i (*sum)[2])
{
	__m256i a[2], b[2], n[2], m[2];
	int j, s;

	chunks(type, w[2 * i], c, a);
	chunks(type, w[2 * i + 1], c, b);
	UNROLL
	for (s = 0; s < 2; s++) {
		weights(type, w[2 * i], c, s, a, n);
		weights(type, w[2 * i + 1], c, s, b, m);
		UNROLL
		for (j = 0; j < nt; j++)
			add_scaled(&sum[j][i], dot(n, q[j] + 2 * s),
			    dot(m, q[j] + 2 * s), sa[j][2 * c + s][i]);
	}
}

/* The sums of four rows, of 0 and 1 in turn in a, of 2 and 3 in b. */
KERNEL_INLINE __m128i
sum_rows(__m256i a, __m256i b)
{
	__m256i v = _mm256_add_epi32(_mm256_unpacklo_epi64(a, b),
	    _mm256_unpackhi_epi64(a, b));

	return _mm_add_epi32(_mm256_castsi256_si128(v),
	    _mm256_extracti128_si256(v, 1));
}

/* The sums of four lanes, of rows 0 and 2 in a, 1 and 3 in b. */
KERNEL_INLINE __m128i
sum_lanes(__m256i a, __m256i b)
{
	__m256i v = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b),
	    _mm256_unpackhi_epi32(a, b));
	__m128i lo = _mm256_castsi256_si128(v);
	__m128i hi = _mm256_extracti128_si256(v, 1);

	return _mm_add_epi32(_mm_unpacklo_epi64(lo, hi),
	    _mm_unpackhi_epi64(lo, hi));
}

KERNEL_INLINE __m128
add_block(__m128 acc, const struct row_heads *h, const __m256i *sum,
    const struct qwen_q8 *x)
{
	__m128 d = _mm_set1_ps(x->d);
	__m256i asum = _mm256_broadcastsi128_si256(_mm_load_si128(
	    (const __m128i *)x->asum));

	acc = _mm_fmadd_ps(_mm_mul_ps(h->d, d), _mm_cvtepi32_ps(
	    sum_rows(sum[0], sum[1])), acc);
	return _mm_fnmadd_ps(_mm_mul_ps(h->dmin, d),
	    _mm_cvtepi32_ps(sum_lanes(_mm256_madd_epi16(h->min[0], asum),
	    _mm256_madd_epi16(h->min[1], asum))), acc);
}

KERNEL_INLINE void
sums_k4(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n, int nt, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = type == QT_Q5_K ? 176 : 144;	/* of a block */
	size_t b, i;
	int c, j;

	for (b = 0; b < n; b++) {
		__m256i sum[4][2], sa[4][4][2], q[4][4];
		struct row_heads h;

		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		read_heads(w, &h);
		UNROLL
		for (j = 0; j < nt; j++) {
			scales(&h, x[j] + b, sa[j]);
			sum[j][0] = sum[j][1] = _mm256_setzero_si256();
		}
		UNROLL
		for (c = 0; c < 2; c++) {
			UNROLL
			for (j = 0; j < nt; j++)
				order_acts(x[j] + b, c, q[j]);
			half(type, w, 0, c, q, sa, nt, sum);
			half(type, w, 1, c, q, sa, nt, sum);
		}
		UNROLL
		for (j = 0; j < nt; j++)
			acc[j] = add_block(acc[j], &h, sum[j], x[j] + b);
		for (i = 0; i < 4; i++)
			w[i] += bytes;
	}
}

KERNEL_INLINE void
sums(uint32_t type, const unsigned char **w, const struct qwen_q8 **x,
    size_t n_in, int nt, const unsigned char *ahead, __m128 *acc)
{
	if (type == QT_Q4_K || type == QT_Q5_K)
		sums_k4(type, w, x, n_in / QWEN_GROUP, nt, ahead, acc);
	else
		sums_any(type, w, x, n_in, nt, ahead, acc);
}

#define ROW_SUMS sums
#define ROW_FORMATS QWEN_FORMATS
#include "engine/cpu/kernel/x86/row_tile.h"

const struct qwen_kernel qwen_matmul_avx2_kernels[] = {
	ROW_KERNELS(QWEN_AVX2)
	{ 0 }
};
