/* SPDX-License-Identifier: ISC */
/*
 * few_avx512vnni.c - rows as the file has them times activations of 11 bits:
 * version 1's kernels with a second product for the lower bits.
 */
#define qwen_matmul_avx512vnni_kernels version_1_kernels
#include "engine/kernel/x86/matmul_avx512vnni.c"
#include "eleven.h"

/* The activations of a block in the order of the nibbles of Q4_K and Q5_K. */
PI void
order_plane(const int8_t *plane, __m512i *q)
{
#define PAIR(lo, hi) _mm512_inserti64x4(_mm512_castsi256_si512(		\
	load32(plane + 32 * (lo))), load32(plane + 32 * (hi)), 1)
	q[0] = PAIR(0, 2);
	q[1] = PAIR(1, 3);
	q[2] = PAIR(4, 6);
	q[3] = PAIR(5, 7);
#undef PAIR
}

PI __m512i
dot_k4(const __m512i *w, const __m512i *hi, const __m512i *lo,
    const __m512i *scale)
{
	__m512i a = _mm512_setzero_si512(), b = a;
	int k;

	UNROLL
	for (k = 0; k < 4; k++) {
		a = _mm512_dpwssd_epi32(a, _mm512_maddubs_epi16(w[k], hi[k]),
		    scale[k]);
		b = _mm512_dpwssd_epi32(b, _mm512_maddubs_epi16(w[k], lo[k]),
		    scale[k]);
	}
	return _mm512_add_epi32(_mm512_slli_epi32(a, 5), b);
}

PI __m128
end_k4(__m128 acc, const struct heads *h, const __m512i *sum,
    const struct eleven_act *x)
{
	__m128 d = _mm_set1_ps(x->d);
	__m512i min = _mm512_madd_epi16(h->min, _mm512_broadcast_i32x4(
	    load16(x->half32)));

	acc = _mm_fmadd_ps(_mm_mul_ps(h->d, d),
	    _mm_cvtepi32_ps(sum16x4(sum)), acc);
	return _mm_fnmadd_ps(_mm_mul_ps(h->dmin, d),
	    _mm_cvtepi32_ps(sum_lanes(min)), acc);
}

PI void
few_k4(uint32_t type, const unsigned char **w, const struct eleven_act **x,
    size_t n, int nt, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[type].bytes;
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m512i sum[4][4], hi[4][4], lo[4][4], w4[4], s[4], one;
		struct heads h;

		read_heads(w, &h);
		for (j = 0; j < nt; j++) {
			order_plane(x[j][b].hi, hi[j]);
			order_plane(x[j][b].lo, lo[j]);
		}
#define ROW(i, lane) do {						\
	prefetch(ahead + (4 * b + (i)) * bytes, bytes);		\
	weights_k4(type, w[i], w4);					\
	one = _mm512_shuffle_i32x4(h.scale, h.scale, lane);		\
	s[0] = pick(one, 0, 2);						\
	s[1] = pick(one, 1, 3);						\
	s[2] = pick(one, 4, 6);						\
	s[3] = pick(one, 5, 7);						\
	for (j = 0; j < nt; j++)					\
		sum[j][i] = dot_k4(w4, hi[j], lo[j], s);		\
} while (0)
		ROW(0, 0x00);
		ROW(1, 0x55);
		ROW(2, 0xaa);
		ROW(3, 0xff);
#undef ROW
		for (j = 0; j < nt; j++)
			acc[j] = end_k4(acc[j], &h, sum[j], x[j] + b);
		for (i = 0; i < 4; i++)
			w[i] += bytes;
	}
}

PI __m512i
both_planes(__m512i w, const struct eleven_act *x, size_t at)
{
	__m512i v = _mm512_dpbusd_epi32(_mm512_setzero_si512(), w,
	    _mm512_loadu_si512(x->hi + at));

	return _mm512_dpbusd_epi32(_mm512_slli_epi32(v, 5), w,
	    _mm512_loadu_si512(x->lo + at));
}

/* As dot_super() of version 1, but for the sub-scales. */
PI __m256i
dot_wide(uint32_t type, const struct group *u, const struct eleven_act *x)
{
	const __m256i at16 = _mm256_setr_epi16(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
	    10, 14, 3, 7, 11, 15);
	const __m512i at32 = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6,
	    10, 14, 3, 7, 11, 15);
	const int bias = qwen_traits[type].bias;
	__m512i v[4];
	size_t k;

	UNROLL
	for (k = 0; k < 4; k++)
		v[k] = both_planes(unsigned_weights(type, u->w[k]), x, 64 * k);
	v[0] = sums_by_lane(v);
	if (bias != 0)
		v[0] = _mm512_sub_epi32(v[0], _mm512_slli_epi32(
		    _mm512_permutexvar_epi32(at32,
		    _mm512_loadu_si512(x->sum16)),
		    (unsigned)__builtin_ctz((unsigned)bias)));
	v[0] = _mm512_mullo_epi32(v[0], _mm512_cvtepi16_epi32(
	    _mm256_permutexvar_epi16(at16, u->scale)));
	return _mm256_add_epi32(_mm512_castsi512_si256(v[0]),
	    _mm512_extracti64x4_epi64(v[0], 1));
}

PI void
few_super(uint32_t type, const unsigned char **w, const struct eleven_act **x,
    size_t n, int nt, const unsigned char *ahead, __m128 *acc)
{
	const size_t bytes = qwen_traits[type].bytes;
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		__m128 d = load_d4(type, w, 0);
		__m256i sum[4][4];
		struct group u;

		for (i = 0; i < 4; i++) {
			prefetch(ahead + (4 * b + i) * bytes, bytes);
			decode(type, w[i], &u);
			for (j = 0; j < nt; j++)
				sum[j][i] = dot_wide(type, &u, x[j] + b);
			w[i] += bytes;
		}
		for (j = 0; j < nt; j++)
			acc[j] = add_sums(acc[j], _mm_mul_ps(d,
			    _mm_set1_ps(x[j][b].d)), sum[j]);
	}
}

/* Four of eight int32 from place 4k on, each in a lane of its own. */
PI __m512i
lanes4(const int32_t *p, size_t k)
{
	const __m512i at = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
	    2, 3, 3, 3, 3);

	return _mm512_permutexvar_epi32(at,
	    _mm512_castsi128_si512(load16(p + 4 * k)));
}

PI __m128
add_span(uint32_t type, const unsigned char *const *w, __m512i a, __m512i b,
    const struct eleven_act *x, size_t k, __m128 part)
{
	const int bias = qwen_traits[type].bias;
	__m512i s = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88),
	    _mm512_shuffle_i32x4(a, b, 0xdd));
	__m512 f;
	size_t i;

	f = _mm512_cvtepi32_ps(_mm512_sub_epi32(s, _mm512_slli_epi32(
	    lanes4(x->sum32, k), (unsigned)__builtin_ctz((unsigned)bias))));
	UNROLL
	for (i = 0; i < 4; i++)
		part = _mm_fmadd_ps(load_d4(type, w, 4 * k + i), lane_f(f, i),
		    part);
	return part;
}

PI void
few_group(uint32_t type, const unsigned char *const *w,
    const struct eleven_act *const *x, int nt, __m128 *acc)
{
	__m512i v[4][4], sum[4][4];
	__m128 part[4];
	size_t k, i;
	int j;

	for (j = 0; j < nt; j++)
		part[j] = _mm_setzero_ps();
	UNROLL
	for (k = 0; k < 4; k++) {
		for (i = 0; i < 4; i++) {
			__m512i u = unsigned_weights(type,
			    block_weights(type, w[i], (int)k));

			for (j = 0; j < nt; j++)
				v[j][i] = both_planes(u, x[j], 64 * k);
		}
		for (j = 0; j < nt; j++) {
			sum[j][k] = sums_by_lane(v[j]);
			if (k % 2 == 1)
				part[j] = add_span(type, w, sum[j][k - 1],
				    sum[j][k], x[j], k / 2, part[j]);
		}
	}
	for (j = 0; j < nt; j++)
		acc[j] = _mm_fmadd_ps(_mm_set1_ps(x[j]->d), part[j], acc[j]);
}

PI void
few_block(uint32_t type, const unsigned char *const *w,
    const struct eleven_act *const *x, size_t n, int nt,
    const unsigned char *ahead, __m128 *acc)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const size_t bytes = QWEN_GROUP / f->len * f->bytes;
	const struct eleven_act *y[4];
	const unsigned char *p[4];
	size_t b, i;
	int j;

	for (b = 0; b < n; b++) {
		prefetch(ahead + 4 * b * bytes, 4 * bytes);
		for (i = 0; i < 4; i++)
			p[i] = w[i] + b * bytes;
		for (j = 0; j < nt; j++)
			y[j] = x[j] + b;
		few_group(type, p, y, nt, acc);
	}
}

PI void
few_tile(uint32_t type, const struct qwen_matmul *p, size_t r, size_t t,
    int nt)
{
	const unsigned char *w[4], *ahead = ahead_of(p, 4, r);
	const struct eleven_act *x[4];
	size_t i, n = p->n_in / QWEN_GROUP;
	__m128 acc[4];
	int j;

	for (i = 0; i < 4; i++)
		w[i] = p->w + (r + i) * p->row_bytes;
	for (j = 0; j < nt; j++) {
		x[j] = p->x[t + (size_t)j];
		acc[j] = _mm_setzero_ps();
	}
	if (type == QT_Q8_0)
		few_block(type, w, x, n, nt, ahead, acc);
	else if (type == QT_Q6_K)
		few_super(type, w, x, n, nt, ahead, acc);
	else
		few_k4(type, w, x, n, nt, ahead, acc);
	for (j = 0; j < nt; j++)
		_mm_storeu_ps(p->y[t + (size_t)j] + r, acc[j]);
}

PI void
few(uint32_t type, const struct qwen_matmul *p)
{
	size_t r, t, n;

	for (r = p->r0; r < p->r1; r += 4) {
		for (t = 0; t < p->n_tok; t += n) {
			n = p->n_tok - t < 4 ? p->n_tok - t : 4;
			switch (n) {
			case 1:
				few_tile(type, p, r, t, 1);
				break;
			case 2:
				few_tile(type, p, r, t, 2);
				break;
			case 3:
				few_tile(type, p, r, t, 3);
				break;
			default:
				few_tile(type, p, r, t, 4);
			}
		}
	}
}

#define FEW(name, type, ...)						\
void									\
eleven_few_##name(const struct qwen_matmul *m)				\
{									\
	few(type, m);							\
}
QWEN_FORMATS(FEW)
