/* SPDX-License-Identifier: ISC */
/*
 * amx_blocks.h - AMX for formats with one d per 32 weights.
 *
 * Their definition has a float step every 32 columns.  So a product is half a
 * tile deep, and is folded two products later.  A sub-scale times d is exact in
 * f32, so the step is one multiply-add.
 *
 * Tile 0 has sums, 1 weights, 2 tokens.  For few tokens, weights of Q8_0 are
 * loaded directly from the file.  A load whose rows cross cache lines takes 22
 * cycles instead of 8, so for many tokens a copy is faster; panels of other
 * formats are copies anyway.
 */
#ifndef QWEN_KERNEL_AMX_BLOCKS_H
#define QWEN_KERNEL_AMX_BLOCKS_H

#define PANELS_ALIVE 3		/* a panel is in use until the next one
				   begins */
#include "engine/cpu/kernel/x86/amx_panel.h"

#define COPY_FROM 48		/* minimum tokens for copying */

struct pack {
	int8_t	q[8][8][64];	/* 32 columns, quad, token*4 */
	float	a[8][16], asum[8][16];
	float	d[16];
};

struct panel {
	uint8_t	w[2][8][16][32];	/* half, 32 columns, row */
	float	d[PANEL][8], m[PANEL][8];
} __attribute__((aligned(64)));

struct work {
	int32_t	s[8][16][16];	/* if busy, two products of b are in it */
	struct block b;
	int	busy;
} __attribute__((aligned(64)));

/* ---- packing tokens */

static void
pack(void *to, const void *const *from, size_t n, size_t groups)
{
	static const struct qwen_q8 zero;
	const struct qwen_q8 *x;
	const unsigned char *q[16];
	struct pack *p = to;
	size_t g, t, j;

	for (g = 0; g < groups; g++, p++) {
		for (t = 0; t < 16; t++) {
			x = t < n ? (const struct qwen_q8 *)from[t] + g : &zero;
			q[t] = (const unsigned char *)x->q;
			for (j = 0; j < 8; j++) {
				p->a[j][t] = x->a[j];
				p->asum[j][t] = x->asum[j];
			}
			p->d[t] = x->d;
		}
		for (j = 0; j < 8; j++)
			transpose(q, 32 * j, (__m512i *)(void *)p->q[j]);
	}
}

static const struct qwen_packing packing = {
	.kind = QWEN_PACK_BLOCKS, .bytes = sizeof(struct pack), .pack = pack,
};

/* ---- unpacking weights */

KERNEL_INLINE int
is_direct(uint32_t type, const struct qwen_matmul *m)
{
	return type == QT_Q8_0 && m->n_tok < COPY_FROM;
}

/* Loads eight f16, the first at p, `bytes' bytes apart. */
KERNEL_INLINE __m256
eight_f16(const unsigned char *p, size_t bytes)
{
	uint16_t h[8];
	int i;

	UNROLL
	for (i = 0; i < 8; i++)
		memcpy(&h[i], p + bytes * (size_t)i, 2);
	return _mm256_cvtph_ps(load16(h));
}

KERNEL_INLINE void
unpack_row(uint32_t type, const unsigned char *w, struct panel *p, size_t r,
    int direct)
{
	const struct qwen_traits *f = &qwen_traits[type];
	uint8_t (*to)[16][32] = p->w[r / TILE];
	__m512i v;
	size_t i;

	if (type == QT_MXFP4) {
		for (i = 0; i < 8; i += 4) {
			const unsigned char *b = w + i * f->bytes;
			const unsigned char *rows[4] = { b, b + f->bytes,
			    b + 2 * f->bytes, b + 3 * f->bytes };

			_mm_storeu_ps(p->d[r] + i, load_d4(type, rows, 0));
		}
	} else {
		_mm256_storeu_ps(p->d[r], eight_f16(w + f->d_at, f->bytes));
	}
	if (f->has_min)
		_mm256_storeu_ps(p->m[r], eight_f16(w + f->d_at + 2,
		    f->bytes));
	if (direct)
		return;
	UNROLL
	for (i = 0; i < 4; i++) {
		v = block_weights(type, w, (int)i);
		if (f->bias > 0 && f->bias < 128)
			v = _mm512_sub_epi8(v, set8(f->bias));
		_mm256_store_si256((__m256i *)to[2 * i][r % TILE],
		    _mm512_castsi512_si256(v));
		_mm256_store_si256((__m256i *)to[2 * i + 1][r % TILE],
		    _mm512_extracti64x4_epi64(v, 1));
	}
}

/* ---- products */

KERNEL_INLINE void
configure(uint32_t type, struct amx_config *c)
{
	(void)type;
	tile_shape(c, 0, 16, 64);
	tile_shape(c, 1, 16, 32);
	tile_shape(c, 2, 8, 64);
}

/* Multiplies columns 32j .. 32j + 31 of a block. */
KERNEL_INLINE void
multiply(uint32_t type, struct work *k, const struct block *b, size_t j)
{
	const unsigned char *w = b->p->w[b->half][j][0];
	size_t stride = 32;

	if (b->direct) {
		w = b->w + qwen_traits[type].bytes * j + 2;
		stride = b->stride;
	}
	amx_zero(0);
	amx_load(1, w, stride);
	amx_load(2, b->x->q[j], 64);
	amx_dpbssd(0, 1, 2);
	amx_store(0, k->s[j], 64);
}

/* Adds the complete sums of a block to its acc. */
KERNEL_INLINE void
add_parts(uint32_t type, const struct block *b, const __m512 *part)
{
	const float (*m)[8] = b->p->m + TILE * b->half;
	__m512 d = _mm512_load_ps(b->x->d), y, min;
	int r, j;

	UNROLL16
	for (r = 0; r < 16; r++) {
		y = b->first ? _mm512_setzero_ps() :
		    _mm512_load_ps(b->acc[r]);
		y = _mm512_fmadd_ps(d, part[r], y);
		if (qwen_traits[type].has_min) {
			min = _mm512_setzero_ps();
			UNROLL
			for (j = 0; j < 8; j++)
				min = _mm512_fmadd_ps(_mm512_set1_ps(m[r][j]),
				    _mm512_load_ps(b->x->asum[j]), min);
			y = _mm512_fmadd_ps(d, min, y);
		}
		_mm512_store_ps(b->acc[r], y);
	}
}

/* Finishes the current block, and begins the products of the next. */
KERNEL_INLINE void
next_block(uint32_t type, struct work *k, const struct block *next,
    struct unpacking *u)
{
	const struct block *b = &k->b;
	const float (*d)[8] = b->p->d + TILE * b->half;
	__m512 part[16], a;
	size_t j;
	int r;

	UNROLL16
	for (r = 0; r < 16; r++)
		part[r] = _mm512_setzero_ps();
	ROLLED
	for (j = 0; j < 8; j++) {
		multiply(type, k, j < 6 ? b : next, (j + 2) % 8);
		a = _mm512_load_ps(b->x->a[j]);
		UNROLL16
		for (r = 0; r < 16; r++)
			part[r] = _mm512_fmadd_ps(_mm512_mul_ps(a,
			    _mm512_set1_ps(d[r][j])), _mm512_cvtepi32_ps(
			    _mm512_load_si512(k->s[j][r])), part[r]);
		unpack_some(type, u);
	}
	add_parts(type, b, part);
}

KERNEL_INLINE void
get_ready(struct work *k, const struct qwen_matmul *m)
{
	(void)m;
	k->busy = 0;
}

KERNEL_INLINE void
begin_panel(uint32_t type, struct work *k, const struct block *b,
    struct unpacking *u)
{
	size_t j;

	if (k->busy) {
		next_block(type, k, b, u);
	} else {
		multiply(type, k, b, 0);
		multiply(type, k, b, 1);
		for (j = 0; j < 8; j++)
			unpack_some(type, u);
	}
	k->b = *b;
	k->busy = 1;
}

/* Finishes the last block; the products that next_block begins are not used. */
KERNEL_INLINE void
end_panel(uint32_t type, struct work *k, struct unpacking *u)
{
	next_block(type, k, &k->b, u);
}

#include "engine/cpu/kernel/x86/amx_rows.h"

#endif
