/* SPDX-License-Identifier: ISC */
/*
 * amx_panel.h - many tokens with AMX in version 1: code shared by the formats
 * with planes (amx_planes.h) and with blocks (amx_blocks.h). amx_rows.h has the
 * loops.
 *
 * A *block* is the work of 16 rows, 16 tokens and 256 columns.  Weights are the
 * first operand, with rows as in the file, so unpacking transposes nothing.
 * Tokens are the second operand, transposed once for all rows (struct
 * qwen_packing).  A row of a product has one row's sums with 16 tokens.
 *
 * While a block is multiplied, another one is folded, and a few rows of the
 * next panel are unpacked.  At most four tiles are in use: processors rename
 * tiles with few physical ones, so that with eight tiles each instruction may
 * take three times as long.
 */
#ifndef QWEN_KERNEL_AMX_PANEL_H
#define QWEN_KERNEL_AMX_PANEL_H

#include "engine/cpu/kernel/x86/amx.h"
#include "engine/cpu/kernel/x86/decode.h"
#include "engine/cpu/kernel/x86/turn.h"

#define TILE QWEN_PACK_TOKENS	/* rows, and tokens, of a tile */
#define PANEL (2 * TILE)	/* rows of a panel */

/* For long loops that contain tile instructions. */
#ifdef __clang__
#define ROLLED _Pragma("clang loop unroll(disable)")
#define UNROLL16 UNROLL
#else
#define ROLLED _Pragma("GCC unroll 1")
#define UNROLL16 _Pragma("GCC unroll 16")
#endif

/* Defined by the including file: a group of 16 tokens, and of 32 rows. */
struct pack;
struct panel;

struct block {
	const struct panel *p;
	const struct pack *x;
	const unsigned char *w;	/* first row in the file */
	size_t	 stride;	/* bytes between rows in the file */
	float	(*acc)[TILE];	/* [row][token] */
	int	 half;		/* half of the panel, 0 or 1 */
	int	 first;		/* acc is new */
	int	 direct;	/* is_direct(): weights are read from the
				   file */
};

/* The rows that are unpacked next, some at each step of a block. */
struct unpacking {
	struct panel *p;
	const unsigned char *w;
	const unsigned char *ahead;	/* rows of the panel after it, to
					   prefetch; or NULL */
	size_t	 row_bytes, r, end, per_step;
	int	 direct;
};

/*
 * unpack_row unpacks row r of a panel. is_direct returns 1 if weights are
 * multiplied directly from the file.  The type is a constant at each call.
 */
KERNEL_INLINE void unpack_row(uint32_t type, const unsigned char *w,
    struct panel *p,
    size_t r, int direct);
KERNEL_INLINE int is_direct(uint32_t type, const struct qwen_matmul *m);

/*
 * get_ready prepares for the first block of m. begin_panel begins block b,
 * finishes the block before it and unpacks rows. end_panel finishes the last
 * block.
 */
struct work;
KERNEL_INLINE void get_ready(struct work *k, const struct qwen_matmul *m);
KERNEL_INLINE void begin_panel(uint32_t type, struct work *k,
    const struct block *b,
    struct unpacking *u);
KERNEL_INLINE void end_panel(uint32_t type, struct work *k,
    struct unpacking *u);

/* Sets the shapes of the tiles. */
KERNEL_INLINE void configure(uint32_t type, struct amx_config *c);

KERNEL_INLINE void
tile_shape(struct amx_config *c, int tile, size_t rows, size_t colsb)
{
	c->rows[tile] = (uint8_t)rows;
	c->colsb[tile] = (uint16_t)colsb;
}

/* Returns the bytes of a group of a row. */
KERNEL_INLINE size_t
bytes_of(uint32_t type)
{
	return QWEN_GROUP / qwen_traits[type].len * qwen_traits[type].bytes;
}

KERNEL_INLINE void
unpack_some(uint32_t type, struct unpacking *u)
{
	size_t n = u->end - u->r < u->per_step ? u->end - u->r : u->per_step;
	size_t i;

	for (; n > 0; n--, u->r++) {
		if (u->ahead != NULL) {
			for (i = 0; i < bytes_of(type) + 63; i += 64)
				_mm_prefetch((const char *)u->ahead +
				    u->r * u->row_bytes + i, _MM_HINT_T0);
		}
		unpack_row(type, u->w + u->r * u->row_bytes, u->p, u->r,
		    u->direct);
	}
}

/*
 * Transposes the sums of 16 rows by 16 tokens, and stores those of n tokens to
 * y[t] + r.
 */
KERNEL_INLINE void
put_sums(float (*acc)[TILE], float *const *y, size_t r, size_t n)
{
	__m512 a[16], b[16];
	size_t t;
	int i;

	UNROLL16
	for (i = 0; i < 16; i++)
		a[i] = _mm512_load_ps(acc[i]);
	UNROLL
	for (i = 0; i < 8; i++) {
		b[2 * i] = _mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]);
		b[2 * i + 1] = _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]);
	}
#define AS_PD(x) _mm512_castps_pd(x)
#define LOW(x, y) _mm512_castpd_ps(_mm512_unpacklo_pd(AS_PD(x), AS_PD(y)))
#define HIGH(x, y) _mm512_castpd_ps(_mm512_unpackhi_pd(AS_PD(x), AS_PD(y)))
	UNROLL
	for (i = 0; i < 4; i++) {	/* a[4i+c]: rows from 4i, tokens c, 4+c,
					   .. */
		a[4 * i] = LOW(b[4 * i], b[4 * i + 2]);
		a[4 * i + 1] = HIGH(b[4 * i], b[4 * i + 2]);
		a[4 * i + 2] = LOW(b[4 * i + 1], b[4 * i + 3]);
		a[4 * i + 3] = HIGH(b[4 * i + 1], b[4 * i + 3]);
	}
#undef PD
#undef LOW
#undef HIGH
	UNROLL
	for (i = 0; i < 4; i++) {
		__m512 u = _mm512_shuffle_f32x4(a[i], a[4 + i], 0x88);
		__m512 v = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0x88);
		__m512 x = _mm512_shuffle_f32x4(a[i], a[4 + i], 0xdd);
		__m512 w = _mm512_shuffle_f32x4(a[8 + i], a[12 + i], 0xdd);

		b[i] = _mm512_shuffle_f32x4(u, v, 0x88);
		b[8 + i] = _mm512_shuffle_f32x4(u, v, 0xdd);
		b[4 + i] = _mm512_shuffle_f32x4(x, w, 0x88);
		b[12 + i] = _mm512_shuffle_f32x4(x, w, 0xdd);
	}
	UNROLL16
	for (t = 0; t < 16; t++)
		if (t < n)
			_mm512_storeu_ps(y[t] + r, b[t]);
}

#endif
