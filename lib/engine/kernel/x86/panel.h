/* SPDX-License-Identifier: ISC */
/*
 * panel.h - many tokens: 32 rows unpacked into a panel in cache, then tiles of
 * 32 rows by up to six tokens with VPDPBUSD.
 *
 * The panel holds, for every 32 weights of a row, eight quads; a quad is two
 * registers of 16 rows with four weights a lane, so one dword of a token,
 * broadcast once, is multiplied with 32 rows.  K is cut into slices, which
 * keeps the panel in L1; sums go on in y from one slice to the next, and the
 * order of float steps stays that of the scalar definition.
 *
 * Of a Zen 5's four vector ports two multiply: VPDPBUSD, and what its sums over
 * 32 columns or 16 are multiplied with.  Additions, shifts and conversions go
 * to the other two and cost nothing, so multiplications are what is saved:
 * many tokens share a table of scale times sub-scale, which is 1 to 7.
 *
 * A file that includes this has defined
 *	BLOCK_BYTES	of 256 weights (eight blocks for Q8_0)
 *	SCALES		registers of scales for 32 columns of 32 rows
 *	unpack16()	16 rows of a group into half a panel
 *	tables()	scales times 1 to 7
 *	fold()		a group's tile: see panel_loop.h
 * and gets gemm().
 */
#include "engine/kernel/x86/unpack.h"

#define SLICE 2			/* groups of 256 in a panel: K = 512 */
#define MAX_TILE 6
#define TABLES_FROM 32		/* tokens that pay for making the tables */

struct panel {
	uint8_t	w[SLICE][8][8][2][64];	/* group, 32, quad, half, rows*4 */
	uint8_t	scale[SLICE][8][SCALES][64];	/* pairs of int16 */
	uint8_t	by_a[SLICE][8][7][SCALES][64];	/* times 1 .. 7 */
	int32_t	min[SLICE][4][32];	/* pairs of int16 */
	float	d[SLICE][8][32];	/* of the group, or each 32 */
	float	dmin[SLICE][32];
} __attribute__((aligned(64)));

PI void
store_quad(struct panel *p, size_t g, size_t j, int half, int quad, __m512i v)
{
	_mm512_store_si512(p->w[g][j][quad][half], v);
}

/* 4 bytes at p in all lanes, kept in a register for both halves. */
PI __m512i
broadcast(const void *p)
{
	int32_t x;
	__m512i v;

	memcpy(&x, p, 4);
	v = _mm512_set1_epi32(x);
	__asm__("" : "+v"(v));
	return v;
}

/* x[t][0], x[t][1]: 32 rows' sums over quads q0 .. q1-1 of a 32-block. */
#define QUADS(x, panel_w, q0, q1, act, n) do {				\
	UNROLL								\
	for (int q_ = (q0); q_ < (q1); q_++) {				\
		__m512i w0_ = _mm512_load_si512((panel_w)[q_][0]);	\
		__m512i w1_ = _mm512_load_si512((panel_w)[q_][1]);	\
		UNROLL							\
		for (int t_ = 0; t_ < (n); t_++) {			\
			__m512i a_ = broadcast((act)[t_] + 4 * q_);	\
			x[t_][0] = _mm512_dpbusd_epi32(x[t_][0], w0_, a_); \
			x[t_][1] = _mm512_dpbusd_epi32(x[t_][1], w1_, a_); \
		}							\
	}								\
} while (0)

/* gcc would add two sums to each other first, and run out of registers. */
#define HOLD(sum) __asm__("" : "+v"(sum))

#define VEC __m512
#define LANES 16
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define ZERO _mm512_setzero_ps
#define UNPACK unpack32
#include "engine/kernel/x86/panel_loop.h"
