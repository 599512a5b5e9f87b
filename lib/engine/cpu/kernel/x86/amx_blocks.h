/* SPDX-License-Identifier: ISC */
/*
 * amx_blocks.h - AMX for formats with one d per 32 weights.
 *
 * Their definition has a float step every 32 columns.  So a product is half a
 * tile deep, and is folded two products later.  A factor of activations times d
 * is exact in f32, so the step is one multiply-add.  Products in bf16 would save
 * a conversion, but to unpack weights as bf16 takes longer than that.
 *
 * Tile 0 has sums, 1 weights, 2 tokens.  For few tokens, weights of Q8_0 are
 * loaded directly from the file.  A load whose rows cross cache lines takes 22
 * cycles instead of 8, so for many tokens a copy is faster; panels of other
 * formats are copies anyway.
 */
#ifndef QWEN_KERNEL_AMX_BLOCKS_H
#define QWEN_KERNEL_AMX_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#define PANELS 2		/* if they overlap, see overlaps() */
#define COPY_FROM 48		/* minimum tokens for copying */
#define BEHIND 2		/* products that begin before a sum is used */

struct pack {
	int8_t	q[8][8][64];	/* 32 columns, quad, token*4 */
	float	a[8][16], asum[8][16];
	float	d[16];
};

struct panel {
	uint8_t	w[16][8][32];	/* row, 32 columns */
	float	d[16][8], m[16][8];
	const unsigned char *from;	/* the first row's weights, if they are
					   loaded directly; or NULL */
	size_t	row_bytes;	/* from there to the next row's */
} __attribute__((aligned(64)));

/* Of a block, up to BEHIND products are in it that are not folded yet. */
struct sums {
	int32_t	s[4][16][16];
} __attribute__((aligned(64)));

#include "engine/cpu/kernel/x86/amx_panel.h"

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

/* Unpacks d, and minimums, of a row. */
KERNEL_INLINE void
unpack_d(uint32_t type, const unsigned char *w, struct panel *p, size_t r)
{
	const struct qwen_traits *f = &qwen_traits[type];
	const int bytes = (int)f->bytes;
	__m256i v;
	size_t i;

	if (type == QT_MXFP4) {
		for (i = 0; i < 8; i += 4) {
			const unsigned char *b = w + i * f->bytes;
			const unsigned char *rows[4] = { b, b + f->bytes,
			    b + 2 * f->bytes, b + 3 * f->bytes };

			_mm_storeu_ps(p->d[r] + i, load_d4(type, rows, 0));
		}
		return;
	}
	v = _mm256_i32gather_epi32((const int *)(const void *)(w + f->d_at),
	    _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
	    _mm256_set1_epi32(bytes)), 1);
	_mm256_store_ps(p->d[r], _mm256_cvtph_ps(_mm256_cvtepi32_epi16(v)));
	if (f->has_min)
		_mm256_store_ps(p->m[r], _mm256_cvtph_ps(
		    _mm256_cvtepi32_epi16(_mm256_srli_epi32(v, 16))));
}

KERNEL_INLINE void
unpack_panel(uint32_t type, const struct qwen_matmul *m,
    const unsigned char *const *row, struct panel *p)
{
	const struct qwen_traits *f = &qwen_traits[type];
	__m512i v;
	size_t r;
	int i;

	p->from = type == QT_Q8_0 && m->n_tok < COPY_FROM ? row[0] + 2 : NULL;
	p->row_bytes = m->row_bytes;
	for (r = 0; r < 16; r++) {
		unpack_d(type, row[r], p, r);
		if (p->from != NULL)
			continue;
		UNROLL
		for (i = 0; i < 4; i++) {
			v = block_weights(type, row[r], i);
			if (f->bias > 0 && f->bias < 128)
				v = _mm512_sub_epi8(v, set8(f->bias));
			_mm512_store_si512(p->w[r][2 * i], v);
		}
	}
}

/* ---- products */

/*
 * Measured on an Emerald Rapids: if panels overlap, Q8_0 is 15 % slower with up
 * to 16 tokens and 2 % faster with 64 and more, Q4_0, Q4_1 and Q5_1 are mostly
 * 1 to 4 % faster, and the others 1 to 12 % slower.
 */
KERNEL_INLINE int
overlaps(uint32_t type, const struct qwen_matmul *m)
{
	return type == QT_Q8_0 ? m->n_tok >= COPY_FROM : type == QT_Q4_0 ||
	    type == QT_Q4_1 || type == QT_Q5_1;
}

KERNEL_INLINE void
configure(struct amx_config *c)
{
	tile_shape(c, 0, 16, 64);
	tile_shape(c, 1, 16, 32);
	tile_shape(c, 2, 8, 64);
}

/* Multiplies columns 32j .. 32j + 31 of a block. */
KERNEL_INLINE void
multiply_32(uint32_t type, const struct block *b, size_t j, struct sums *to)
{
	const struct panel *p = b->p;

	amx_zero(0);
	if (type == QT_Q8_0 && p->from != NULL)
		amx_load(1, p->from + qwen_traits[type].bytes * j,
		    p->row_bytes);
	else
		amx_load(1, p->w[0][j], sizeof p->w[0]);
	amx_load(2, b->x->q[j], 64);
	amx_dpbssd(0, 1, 2);
	amx_store(0, to->s[j % 4], 64);
}

/* Adds the complete sums of a block to its acc. */
KERNEL_INLINE void
add_parts(uint32_t type, const struct block *b, const __m512 *part)
{
	__m512 d = _mm512_load_ps(b->x->d), y, min;
	int r, j;

	UNROLL16
	for (r = 0; r < TILE; r++) {
		y = _mm512_fmadd_ps(d, part[r], _mm512_load_ps(b->acc[r]));
		if (qwen_traits[type].has_min) {
			min = _mm512_setzero_ps();
			UNROLL
			for (j = 0; j < 8; j++)
				min = _mm512_fmadd_ps(_mm512_set1_ps(
				    b->p->m[r][j]), _mm512_load_ps(
				    b->x->asum[j]), min);
			y = _mm512_fmadd_ps(d, min, y);
		}
		_mm512_store_ps(b->acc[r], y);
	}
}

KERNEL_INLINE void
next_block(uint32_t type, int plain, struct work *k, const struct block *next,
    struct fetching *ahead)
{
	const struct block *b = &k->now;
	__m512 part[16], a, d;
	size_t j;
	int r;

	if (b->x == NULL) {
		for (j = 0; j < BEHIND; j++)
			multiply_32(type, next, j, &k->s);
		return;
	}
	UNROLL16
	for (r = 0; r < TILE; r++)
		part[r] = _mm512_setzero_ps();
	ROLLED
	for (j = 0; j < 8; j++) {
		multiply_32(type, j < 8 - BEHIND ? b : next, (j + BEHIND) % 8,
		    &k->s);
		a = _mm512_load_ps(b->x->a[j]);
		UNROLL16
		for (r = 0; r < TILE; r++) {
			d = _mm512_set1_ps(b->p->d[r][j]);
			part[r] = _mm512_fmadd_ps(plain ? d :
			    _mm512_mul_ps(a, d), _mm512_cvtepi32_ps(
			    _mm512_load_si512(k->s.s[j % 4][r])), part[r]);
		}
		fetch(ahead);
	}
	add_parts(type, b, part);
}

/* The products that next_block() begins here are not used. */
KERNEL_INLINE void
finish(uint32_t type, int plain, struct work *k)
{
	next_block(type, plain, k, &k->now, &(struct fetching){ 0 });
}

#endif
