/* SPDX-License-Identifier: ISC */
/*
 * panel_amx_fold.h - AMX panels whose sums are folded every 32 columns.
 *
 * All eight products of a group are stored first and folded after that: the
 * processor then has the next group's tiles under way while it folds.  A file
 * that includes this defines fold() and pack_scales().
 */
#include "engine/kernel/x86/panel_amx.h"

/*
 * Sums s[32-block][token][row] of one half, n tokens, into acc[token]; a are
 * the sub-scales as pack_scales() left them.
 */
PI void fold(const struct panel *p, size_t g, int half,
    int32_t (*s)[TILE_TOKENS][16], const struct qwen_q8 *const *x,
    const int32_t (*a)[8], size_t n, __m512 (*acc)[2]);

/* Eight sub-scales into eight dwords. */
PI __m256i pack_scales(__m256i a);

PI void
pack_group(const struct qwen_q8 *x, struct tokens *to, size_t tile, size_t g,
    size_t row)
{
	int8_t *q = to->q[tile][g][0][row];
	size_t i;

	for (i = 0; i < 256; i += 64)
		_mm512_store_si512(q + i, _mm512_load_si512(x->q + i));
	_mm256_store_si256((__m256i *)to->a[tile][g][row],
	    pack_scales(_mm256_cvtepi16_epi32(_mm_loadu_si128(
	    (const __m128i *)x->a))));
}

/* Two sets of tiles in turn: tokens 0 and 4, weights 1 and 5, sums the rest. */
PI void
configure(struct amx_config *c, size_t rows)
{
	int i;

	for (i = 0; i < 8; i += 4) {
		shape(c, i, rows, 32);
		shape(c, i + 1, 8, 64);
		shape(c, i + 2, rows, 64);
		shape(c, i + 3, rows, 64);
	}
}

/* Products of 32 columns, both halves of the panel. */
#define STEP(tok, wei, sum0, sum1, j) do {				\
	amx_load(tok, q + 32 * (j), 256);				\
	amx_load(wei, w[8 * (j)][0], 128);				\
	amx_zero(sum0);							\
	amx_dpbssd(sum0, tok, wei);					\
	amx_store(sum0, s[0][j], 64);					\
	amx_load(wei, w[8 * (j)][1], 128);				\
	amx_zero(sum1);							\
	amx_dpbssd(sum1, tok, wei);					\
	amx_store(sum1, s[1][j], 64);					\
} while (0)

PI void
multiply(const struct panel *p, const struct tokens *to, size_t tile, size_t g,
    const struct qwen_q8 *const *x, size_t n, __m512 (*acc)[2])
{
	int32_t s[2][8][TILE_TOKENS][16] __attribute__((aligned(64)));
	const int8_t *q = to->q[tile][g][0][0];
	const int8_t (*w)[2][64] = p->w[g][0];
	int j;

	for (j = 0; j < 8; j += 2) {
		STEP(0, 1, 2, 3, j);
		STEP(4, 5, 6, 7, j + 1);
	}
	for (j = 0; j < 2; j++)
		fold(p, g, j, s[j], x, to->a[tile][g], n, acc);
}
