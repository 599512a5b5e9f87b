/* SPDX-License-Identifier: ISC */
/*
 * many_avx512vnni.c - many tokens of 11 bits, by panels of 32 rows.
 *
 * Where 256 weights are under one d, a panel has scale times weight in 16 bits:
 * products are VPDPWSSD's, and nothing is to be done until the group ends.
 * Else it has bytes, as version 1's, for two VPDPBUSD.
 */
#include "eleven.h"
#include "engine/kernel/x86/decode.h"

#define SLICE 4
#define MAX_TILE 6

struct panel {
	union {
		/* group, 32, pair, half */
		int16_t	h[SLICE][8][16][2][32];
		uint8_t	w[SLICE][8][8][2][64];
	};
	int16_t	scale[SLICE * 16][2][32];
	int32_t	min[SLICE][8][32];
	float	d[SLICE][16][32];
	float	dmin[SLICE][32];
	float	m[SLICE][8][32];
} __attribute__((aligned(64)));

#include "engine/kernel/x86/unpack.h"

/* gcc would add two sums to each other first, and run out of registers. */
#define HOLD(sum) __asm__("" : "+v"(sum))

PI size_t
scale_at(uint32_t type, size_t g, size_t j, size_t k)
{
	return qwen_traits[type].span == 16 ? (g * 8 + j) * 2 + k : g * 8 + j;
}

PI void
store_scale(uint32_t type, struct panel *p, size_t g, size_t j, size_t k,
    int half, __m512i v)
{
	_mm512_store_si512(p->scale[scale_at(type, g, j, k)][half],
	    (v & _mm512_set1_epi32(0xffff)) | _mm512_slli_epi32(v, 16));
}

PI void
store_quad(uint32_t type, struct panel *p, size_t g, size_t j, int half,
    int quad, __m512i v)
{
	const __m512i bias = _mm512_set1_epi16(
	    (short)qwen_traits[type].bias);
	__m512i s;

	if (qwen_traits[type].by_block) {
		if (qwen_traits[type].bias == 128)
			v ^= set8(0x80);
		_mm512_store_si512(p->w[g][j][quad][half], v);
		return;
	}
	s = _mm512_load_si512(p->scale[scale_at(type, g, j,
	    (size_t)quad / 4)][half]);
	_mm512_store_si512(p->h[g][j][2 * quad][half],
	    _mm512_mullo_epi16(_mm512_sub_epi16(v & _mm512_set1_epi16(255),
	    bias), s));
	_mm512_store_si512(p->h[g][j][2 * quad + 1][half],
	    _mm512_mullo_epi16(_mm512_sub_epi16(_mm512_srli_epi16(v, 8), bias),
	    s));
}

/* Kept in a register for both halves. */
PI __m512i
broadcast(const void *p)
{
	__m512i v = _mm512_set1_epi32(dword_at(p));

	HOLD(v);
	return v;
}

PI void
add_wide(uint32_t type, const struct panel *p, size_t g,
    const struct eleven_act *x, const __m512i *sum, __m512 *acc)
{
	__m512 by = _mm512_set1_ps(x->d);
	int h, j;

	UNROLL
	for (h = 0; h < 2; h++) {
		__m512i min = _mm512_setzero_si512();

		acc[h] = _mm512_fmadd_ps(_mm512_load_ps(p->d[g][0] + 16 * h) *
		    by, _mm512_cvtepi32_ps(sum[h]), acc[h]);
		if (!qwen_traits[type].has_min)
			continue;
		UNROLL
		for (j = 0; j < 4; j++)
			min = _mm512_dpwssd_epi32(min, _mm512_load_si512(
			    p->min[g][j] + 16 * h),
			    broadcast(x->half32 + 2 * j));
		acc[h] = _mm512_fnmadd_ps(_mm512_load_ps(p->dmin[g] + 16 * h) *
		    by, _mm512_cvtepi32_ps(min), acc[h]);
	}
}

PI void
fold_super(uint32_t type, const struct panel *p, size_t g,
    const struct eleven_act *const *x, int n, __m512 (*acc)[2],
    struct ahead *ahead)
{
	__m512i sum[MAX_TILE][2];
	int j, k, t;

	UNROLL
	for (t = 0; t < n; t++)
		sum[t][0] = sum[t][1] = _mm512_setzero_si512();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		_Pragma("GCC unroll 16")
		for (k = 0; k < 16; k++) {
			__m512i a = _mm512_load_si512(p->h[g][j][k][0]);
			__m512i b = _mm512_load_si512(p->h[g][j][k][1]);

			UNROLL
			for (t = 0; t < n; t++) {
				__m512i q = broadcast(x[t]->pair + 32 * j +
				    2 * k);

				sum[t][0] = _mm512_dpwssd_epi32(sum[t][0], a,
				    q);
				sum[t][1] = _mm512_dpwssd_epi32(sum[t][1], b,
				    q);
			}
		}
	}
	UNROLL
	for (t = 0; t < n; t++)
		add_wide(type, p, g, x[t], sum[t], acc[t]);
}

/* 32 columns of one plane. */
#define PLANE(plane) do {						\
	UNROLL								\
	for (k = 0; k < 8; k++) {					\
		__m512i a_ = _mm512_load_si512(p->w[g][j][k][0]);	\
		__m512i b_ = _mm512_load_si512(p->w[g][j][k][1]);	\
		UNROLL							\
		for (t = 0; t < n; t++) {				\
			__m512i q_ = broadcast(x[t]->plane + 32 * j +	\
			    4 * k);					\
			v[t][0] = _mm512_dpbusd_epi32(v[t][0], a_, q_);	\
			v[t][1] = _mm512_dpbusd_epi32(v[t][1], b_, q_);	\
		}							\
	}								\
} while (0)

/* Sums begin at what the bias of 128 makes them too large by, over 32. */
PI void
fold_block(const struct panel *p, size_t g, const struct eleven_act *const *x,
    int n, __m512 (*acc)[2], struct ahead *ahead)
{
	__m512i v[MAX_TILE][2];
	__m512 part[MAX_TILE][2];
	int j, k, t, h;

	UNROLL
	for (t = 0; t < n; t++)
		part[t][0] = part[t][1] = _mm512_setzero_ps();
	for (j = 0; j < 8; j++) {
		fetch_ahead(ahead);
		UNROLL
		for (t = 0; t < n; t++)
			v[t][0] = v[t][1] = _mm512_set1_epi32(-4 *
			    x[t]->sum32[j]);
		PLANE(hi);
		UNROLL
		for (t = 0; t < n; t++) {
			v[t][0] = _mm512_slli_epi32(v[t][0], 5);
			v[t][1] = _mm512_slli_epi32(v[t][1], 5);
		}
		PLANE(lo);
		UNROLL
		for (t = 0; t < n; t++) {
			UNROLL
			for (h = 0; h < 2; h++) {
				part[t][h] = _mm512_fmadd_ps(_mm512_load_ps(
				    p->d[g][j] + 16 * h),
				    _mm512_cvtepi32_ps(v[t][h]), part[t][h]);
				HOLD(part[t][h]);
			}
		}
	}
	UNROLL
	for (t = 0; t < n; t++) {
		UNROLL
		for (h = 0; h < 2; h++)
			acc[t][h] = _mm512_fmadd_ps(_mm512_set1_ps(x[t]->d),
			    part[t][h], acc[t][h]);
	}
}

PI void
many_tile(uint32_t type, const struct qwen_matmul *m, const struct panel *p,
    size_t r, size_t g0, size_t ng, size_t t, int n, struct ahead *ahead)
{
	const struct eleven_act *x[MAX_TILE];
	__m512 acc[MAX_TILE][2];
	size_t g;
	int i;

	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		x[i] = (const struct eleven_act *)m->x[t + (size_t)i] + g0;
		acc[i][0] = g0 == 0 ? _mm512_setzero_ps() :
		    _mm512_loadu_ps(y);
		acc[i][1] = g0 == 0 ? _mm512_setzero_ps() :
		    _mm512_loadu_ps(y + 16);
	}
	for (g = 0; g < ng; g++) {
		if (qwen_traits[type].by_block)
			fold_block(p, g, x, n, acc, ahead);
		else
			fold_super(type, p, g, x, n, acc, ahead);
		UNROLL
		for (i = 0; i < n; i++)
			x[i]++;
	}
	UNROLL
	for (i = 0; i < n; i++) {
		float *y = m->y[t + (size_t)i] + r;

		_mm512_storeu_ps(y, acc[i][0]);
		_mm512_storeu_ps(y + 16, acc[i][1]);
	}
}

PI void
many_tokens(uint32_t type, const struct qwen_matmul *m, const struct panel *p,
    size_t r, size_t g, size_t ng, struct ahead *ahead)
{
	size_t t, n, tiles = (m->n_tok + MAX_TILE - 1) / MAX_TILE;

	ahead->per_step = (ahead->n_row * ((ahead->bytes + 63) / 64) +
	    8 * tiles * ng - 1) / (8 * tiles * ng);
	for (t = 0; t < m->n_tok; t += n, tiles--) {
		n = (m->n_tok - t + tiles - 1) / tiles;
		switch (n) {
#define CASE(k)								\
		case k:							\
			many_tile(type, m, p, r, g, ng, t, k, ahead);	\
			break
		CASE(6);
		CASE(5);
		CASE(4);
		CASE(3);
		CASE(2);
		CASE(1);
#undef CASE
		}
	}
}

/* Slice by slice, over all rows. */
PI void
many(uint32_t type, const struct qwen_matmul *m)
{
	const size_t groups = m->n_in / QWEN_GROUP, bytes = group_bytes(m);
	struct panel p;
	size_t r, g, n;

	for (g = 0; g < groups; g += n) {
		n = groups - g < SLICE ? groups - g : SLICE;
		for (r = m->r0; r < m->r1; r += 32) {
			struct ahead a = { .n_row = 32,
			    .row_bytes = m->row_bytes, .bytes = n * bytes };

			a.row = (const char *)m->w + (r + 32 < m->r1 ?
			    (r + 32) * m->row_bytes + g * bytes :
			    m->r0 * m->row_bytes + (g + n) * bytes);
			unpack_panel(type, m, &p, r, g, n);
			many_tokens(type, m, &p, r, g, n, &a);
		}
	}
}

#define MANY(name, type, ...)						\
void									\
eleven_many_##name(const struct qwen_matmul *m)				\
{									\
	many(type, m);							\
}
QWEN_FORMATS(MANY)
