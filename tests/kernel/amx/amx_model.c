/* SPDX-License-Identifier: ISC */
/*
 * amx_model.c - AMX tiles in software, by the operations of LDTILECFG,
 * TILELOADD, TILESTORED, TILEZERO, TILERELEASE, TDPBSSD and its variants for
 * unsigned bytes, and TDPBF16PS in the instruction set reference: palette 1,
 * with the same checks of rows and bytes.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "engine/cpu/kernel/kernel.h"
#include "engine/cpu/kernel/x86/amx.h"

#define N_TILES 8
#define ROWS 16
#define BYTES 64

static _Thread_local struct {
	int	in_use;
	size_t	products;
	size_t	rows[N_TILES], colsb[N_TILES];
	uint8_t	t[N_TILES][ROWS][BYTES];
} s;

static void
need(int cond, const char *what, int tile)
{
	if (cond)
		return;
	fprintf(stderr, "amx model: %s (tile %d)\n", what, tile);
	abort();
}

static void
check_config(const struct amx_config *c)
{
	size_t i;

	need((uintptr_t)c % 64 == 0, "a config crosses cache lines", -1);
	need(c->palette == 1, "no such palette", -1);
	need(c->start_row == 0, "a start row", -1);
	for (i = 0; i < sizeof c->reserved; i++)
		need(c->reserved[i] == 0, "reserved bytes are set", -1);
	for (i = 0; i < 16; i++) {
		if (i >= N_TILES) {
			need(c->rows[i] == 0 && c->colsb[i] == 0,
			    "there is no such tile", (int)i);
			continue;
		}
		need(c->rows[i] <= ROWS, "too many rows", (int)i);
		need(c->colsb[i] <= BYTES, "too many bytes in a row", (int)i);
		need((c->rows[i] == 0) == (c->colsb[i] == 0),
		    "rows without bytes or bytes without rows", (int)i);
	}
}

void
amx_model_config(const struct amx_config *c)
{
	size_t i;

	check_config(c);
	for (i = 0; i < N_TILES; i++) {
		s.rows[i] = c->rows[i];
		s.colsb[i] = c->colsb[i];
	}
	memset(s.t, 0, sizeof s.t);
	s.in_use = 1;
}

void
amx_model_release(void)
{
	memset(s.rows, 0, sizeof s.rows);
	memset(s.colsb, 0, sizeof s.colsb);
	memset(s.t, 0, sizeof s.t);
	s.in_use = 0;
}

static void
need_tile(int t)
{
	need(t >= 0 && t < N_TILES, "there is no such tile", t);
	need(s.in_use, "tiles are not configured", t);
	need(s.rows[t] > 0, "this tile is not configured", t);
}

void
amx_model_zero(int t)
{
	need_tile(t);
	memset(s.t[t], 0, sizeof s.t[t]);
}

void
amx_model_load(int t, const void *p, size_t stride)
{
	const uint8_t *from = p;
	size_t i;

	need_tile(t);
	memset(s.t[t], 0, sizeof s.t[t]);
	for (i = 0; i < s.rows[t]; i++)
		memcpy(s.t[t][i], from + i * stride, s.colsb[t]);
}

void
amx_model_store(int t, void *p, size_t stride)
{
	uint8_t *to = p;
	size_t i;

	need_tile(t);
	for (i = 0; i < s.rows[t]; i++)
		memcpy(to + i * stride, s.t[t][i], s.colsb[t]);
}

/* What every product of tiles demands of its three. */
static void
need_shapes(int c, int a, int b)
{
	need_tile(c);
	need_tile(a);
	need_tile(b);
	need(c != a && c != b && a != b, "a product of a tile with itself", c);
	need(s.colsb[c] % 4 == 0, "sums that are not whole dwords", c);
	need(s.colsb[a] % 4 == 0, "rows that are not whole dwords", a);
	need(s.colsb[b] % 4 == 0, "rows that are not whole dwords", b);
	need(s.rows[c] == s.rows[a], "rows of sums and of the first differ", a);
	need(s.colsb[c] == s.colsb[b],
	    "bytes of sums and of the second differ", b);
	need(s.colsb[a] / 4 == s.rows[b],
	    "depth of the first and of the second differ", b);
	s.products++;
}

/* A byte, signed or not. */
static int32_t
byte(uint8_t x, int is_signed)
{
	return is_signed ? (int8_t)x : x;
}

static int32_t
dot4(const uint8_t *x, const uint8_t *y, int sx, int sy)
{
	int32_t v = 0;
	int i;

	for (i = 0; i < 4; i++)
		v += byte(x[i], sx) * byte(y[i], sy);
	return v;
}

static void
dot_bytes(int c, int a, int b, int sa, int sb)
{
	size_t m, n, k;
	uint32_t v;

	need_shapes(c, a, b);
	for (m = 0; m < s.rows[c]; m++) {
		for (n = 0; n < s.colsb[c]; n += 4) {
			memcpy(&v, s.t[c][m] + n, 4);
			for (k = 0; k < s.rows[b]; k++)
				v += (uint32_t)dot4(s.t[a][m] + 4 * k,
				    s.t[b][k] + n, sa, sb);
			memcpy(s.t[c][m] + n, &v, 4);
		}
	}
	/* rows beyond those of the shape are zeroed */
	for (m = s.rows[c]; m < ROWS; m++)
		memset(s.t[c][m], 0, BYTES);
}

void
amx_model_dpbssd(int c, int a, int b)
{
	dot_bytes(c, a, b, 1, 1);
}

void
amx_model_dpbsud(int c, int a, int b)
{
	dot_bytes(c, a, b, 1, 0);
}

void
amx_model_dpbusd(int c, int a, int b)
{
	dot_bytes(c, a, b, 0, 1);
}

void
amx_model_dpbuud(int c, int a, int b)
{
	dot_bytes(c, a, b, 0, 0);
}

/* Subnormal: zero, with its sign. */
static float
flush(float x)
{
	return fabsf(x) < 0x1p-126f ? copysignf(0.0f, x) : x;
}

/*
 * A fused multiply-add that takes subnormals for zero, which a and b are not,
 * and makes none.  Whether a result is one is decided after rounding to 24
 * bits; products of bf16 are short, so that near the limit the sum is exact in
 * double.
 */
static float
fma_flushed(float a, float b, float c)
{
	float r = fmaf(a, b, c = flush(c));
	double sum;

	if (fabsf(r) > 0x1p-120f)
		return r;
	sum = (double)a * b + c;
	return fabs(sum) < 0x1.ffffffp-127 ? (float)copysign(0.0, sum) : r;
}

/* A tile of bf16, widened. */
static void
widen(float to[ROWS][BYTES / 2], const uint8_t from[ROWS][BYTES])
{
	size_t i, k;
	uint16_t h;

	for (i = 0; i < ROWS; i++) {
		for (k = 0; k < BYTES / 2; k++) {
			memcpy(&h, from[i] + 2 * k, sizeof h);
			to[i][k] = flush(qwen_bf16_f32(h));
		}
	}
}

/* Two chains from zero, of the pairs' even and odd halves; then their sum. */
static float
dot_bf16(const float *a, float (*b)[BYTES / 2], size_t n, size_t depth)
{
	float part[2] = { 0.0f, 0.0f };
	size_t k, i;

	for (k = 0; k < depth; k++) {
		for (i = 0; i < 2; i++)
			part[i] = fma_flushed(a[2 * k + i], b[k][2 * n + i],
			    part[i]);
	}
	return flush(part[0] + part[1]);
}

void
amx_model_dpbf16(int c, int a, int b)
{
	float x[ROWS][BYTES / 2], w[ROWS][BYTES / 2], v;
	size_t m, n;

	need_shapes(c, a, b);
	widen(x, s.t[a]);
	widen(w, s.t[b]);
	for (m = 0; m < s.rows[c]; m++) {
		for (n = 0; n < s.colsb[c] / 4; n++) {
			memcpy(&v, s.t[c][m] + 4 * n, 4);
			v = flush(flush(v) + dot_bf16(x[m], w, n, s.rows[b]));
			memcpy(s.t[c][m] + 4 * n, &v, 4);
		}
	}
	for (m = s.rows[c]; m < ROWS; m++)
		memset(s.t[c][m], 0, BYTES);
}

int
amx_model_in_use(void)
{
	return s.in_use;
}

size_t
amx_model_products(void)
{
	return s.products;
}
