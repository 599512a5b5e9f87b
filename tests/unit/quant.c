/* SPDX-License-Identifier: ISC */
/* quant.c - number formats: sizes, values, and scales that are not finite. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/quant/quant.h"
#include "../kernel/random.h"
#include "../tap.h"

#define FOLDER "tests/golden/quants"

/* Every type that a file may name; the offsets of f16 scales where computed. */
static const struct format {
	uint32_t	 type;
	const char	*name;
	size_t		 len, bytes;
	int		 supported;
	int		 n_scale, scale[2];
} formats[] = {
	{ 0, "F32", 1, 4, 1, 0, { 0 } },
	{ 1, "F16", 1, 2, 1, 1, { 0 } },
	{ 2, "Q4_0", 32, 18, 1, 1, { 0 } },
	{ 3, "Q4_1", 32, 20, 1, 2, { 0, 2 } },
	{ 6, "Q5_0", 32, 22, 1, 1, { 0 } },
	{ 7, "Q5_1", 32, 24, 1, 2, { 0, 2 } },
	{ 8, "Q8_0", 32, 34, 1, 1, { 0 } },
	{ 9, "Q8_1", 32, 36, 0, 0, { 0 } },
	{ 10, "Q2_K", 256, 84, 1, 2, { 80, 82 } },
	{ 11, "Q3_K", 256, 110, 1, 1, { 108 } },
	{ 12, "Q4_K", 256, 144, 1, 2, { 0, 2 } },
	{ 13, "Q5_K", 256, 176, 1, 2, { 0, 2 } },
	{ 14, "Q6_K", 256, 210, 1, 1, { 208 } },
	{ 15, "Q8_K", 256, 292, 0, 0, { 0 } },
	{ 16, "IQ2_XXS", 256, 66, 1, 1, { 0 } },
	{ 17, "IQ2_XS", 256, 74, 1, 1, { 0 } },
	{ 18, "IQ3_XXS", 256, 98, 1, 1, { 0 } },
	{ 19, "IQ1_S", 256, 50, 1, 1, { 0 } },
	{ 20, "IQ4_NL", 32, 18, 1, 1, { 0 } },
	{ 21, "IQ3_S", 256, 110, 1, 1, { 0 } },
	{ 22, "IQ2_S", 256, 82, 1, 1, { 0 } },
	{ 23, "IQ4_XS", 256, 136, 1, 1, { 0 } },
	{ 24, "I8", 1, 1, 0, 0, { 0 } },
	{ 25, "I16", 1, 2, 0, 0, { 0 } },
	{ 26, "I32", 1, 4, 0, 0, { 0 } },
	{ 27, "I64", 1, 8, 0, 0, { 0 } },
	{ 28, "F64", 1, 8, 0, 0, { 0 } },
	{ 29, "IQ1_M", 256, 56, 1, 0, { 0 } },
	{ 30, "BF16", 1, 2, 1, 0, { 0 } },
	{ 34, "TQ1_0", 256, 54, 1, 1, { 52 } },
	{ 35, "TQ2_0", 256, 66, 1, 1, { 64 } },
	{ 39, "MXFP4", 32, 17, 1, 0, { 0 } },
	{ 40, "NVFP4", 64, 36, 1, 0, { 0 } },
	{ 41, "Q1_0", 128, 18, 1, 1, { 0 } },
	{ 42, "Q2_0", 64, 18, 1, 1, { 0 } },
};

#define N_FORMATS (sizeof formats / sizeof formats[0])

static const struct format *
find(uint32_t type)
{
	size_t i;

	for (i = 0; i < N_FORMATS; i++) {
		if (formats[i].type == type)
			return &formats[i];
	}
	return NULL;
}

static const struct format *
find_name(const char *name)
{
	size_t i;

	for (i = 0; i < N_FORMATS; i++) {
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	}
	return NULL;
}

/* ---- names and sizes */

static void
check_sizes(void)
{
	size_t i;

	for (i = 0; i < N_FORMATS; i++) {
		const struct format *f = &formats[i];
		const struct qwen_quant *q = qwen_quant_find(f->type);
		const char *name = qwen_ggml_name(f->type);

		ok(name != NULL && strcmp(name, f->name) == 0 &&
		    qwen_ggml_block_len(f->type) == f->len &&
		    qwen_ggml_block_bytes(f->type) == f->bytes &&
		    qwen_quant_supported(f->type) == f->supported &&
		    qwen_quant_row_bytes(f->type, 7 * f->len) == 7 * f->bytes,
		    "%s: name and sizes", f->name);
		if (q != NULL)
			ok(q->block_len == f->len && q->block_bytes == f->bytes,
			    "%s: as its own file has them", f->name);
	}
}

/* Retired numbers, those of forks, and what no one uses. */
static void
check_unknown(void)
{
	uint32_t type;
	int known = 0, bad = 0;

	for (type = 0; type < 4096; type++) {
		if (find(type) != NULL) {
			known++;
			continue;
		}
		bad += qwen_ggml_name(type) != NULL ||
		    qwen_ggml_block_len(type) != 0 ||
		    qwen_ggml_block_bytes(type) != 0 ||
		    qwen_quant_supported(type) ||
		    qwen_quant_row_bytes(type, 256) != 0;
	}
	ok(known == N_FORMATS && bad == 0, "no other type below 4096");
	ok(qwen_ggml_name(UINT32_MAX) == NULL &&
	    qwen_ggml_block_len(UINT32_MAX) == 0, "type %u", UINT32_MAX);
}

static void
check_row_bytes(void)
{
	ok(qwen_quant_row_bytes(QT_Q8_0, 33) == 0 &&
	    qwen_quant_row_bytes(QT_Q4_K, 128) == 0 &&
	    qwen_quant_row_bytes(QT_Q4_K, 255) == 0, "half a block");
	ok(qwen_quant_row_bytes(QT_F32, 0) == 0, "an empty row");
	ok(qwen_quant_row_bytes(QT_F32, (uint64_t)1 << 62) == 0 &&
	    qwen_quant_row_bytes(28, (uint64_t)1 << 61) == 0 &&
	    qwen_quant_row_bytes(QT_F16, (uint64_t)1 << 63) == 0 &&
	    qwen_quant_row_bytes(QT_Q8_0, UINT64_MAX - 31) == 0,
	    "bytes that need more than 64 bits");
	ok(qwen_quant_row_bytes(QT_F32, ((uint64_t)1 << 62) - 1) ==
	    SIZE_MAX - 3 && qwen_quant_row_bytes(24, UINT64_MAX) == SIZE_MAX,
	    "the last that do not");
}

/* ---- values */

static void *
read_all(const char *name, const char *suffix, size_t want)
{
	char path[256];
	unsigned char *p = malloc(want + 1);
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof path, FOLDER "/%s.%s", name, suffix);
	f = fopen(path, "rb");
	if (f != NULL && p != NULL)
		n = fread(p, 1, want + 1, f);
	if (f != NULL)
		fclose(f);
	if (n == want)
		return p;
	free(p);
	return NULL;
}

static int
same_bits(const float *a, const float *b, size_t n)
{
	return memcmp(a, b, n * sizeof *a) == 0;
}

/* In parts, and from an address that nothing is aligned to. */
static int
same_in_parts(const struct format *f, const unsigned char *src,
    size_t n_block, const float *want)
{
	unsigned char *odd = malloc(n_block * f->bytes + 1);
	float *got = malloc(n_block * f->len * sizeof *got);
	size_t b, n;
	int good = odd != NULL && got != NULL;

	if (good)
		memcpy(odd + 1, src, n_block * f->bytes);
	for (b = 0; good && b < n_block; b += n) {
		n = 1 + random_u32() % 11;
		n = n < n_block - b ? n : n_block - b;
		good = qwen_quant_dequantize(f->type, odd + 1 + b * f->bytes,
		    got + b * f->len, n * f->len, NULL) == 0;
	}
	good = good && same_bits(got, want, n_block * f->len);
	free(odd);
	free(got);
	return good;
}

static void
check_values(const struct format *f, size_t n_block)
{
	size_t n = n_block * f->len;
	unsigned char *src = read_all(f->name, "bin", n_block * f->bytes);
	float *want = read_all(f->name, "f32", n * sizeof *want);
	float *got = malloc(n * sizeof *got);

	if (!ok(src != NULL && want != NULL && got != NULL &&
	    qwen_quant_dequantize(f->type, src, got, n, NULL) == 0,
	    "%s: decodes", f->name))
		goto out;
	ok(same_bits(got, want, n), "%s: %zu values are exact", f->name, n);
	ok(same_in_parts(f, src, n_block, got),
	    "%s: the same in parts, at any address", f->name);
out:
	free(src);
	free(want);
	free(got);
}

static void
check_fixtures(void)
{
	FILE *f = fopen(FOLDER "/INDEX.tsv", "r");
	char line[256], name[32];
	size_t n_block, len, bytes, i;
	int n = 0, want = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL) {
		const struct format *fmt;

		if (sscanf(line, "%31s %zu %zu %zu", name, &n_block, &len,
		    &bytes) != 4)
			continue;
		fmt = find_name(name);
		if (ok(fmt != NULL && fmt->len == len && fmt->bytes == bytes,
		    "%s is known", name))
			check_values(fmt, n_block);
		n++;
	}
	if (f != NULL)
		fclose(f);
	/* of F32, whose values are what the file has, there are none */
	for (i = 0; i < N_FORMATS; i++)
		want += formats[i].supported && formats[i].type != QT_F32;
	ok(n == want, "values of %d formats, supported are %d", n, want);
}

static void
check_refusals(void)
{
	struct qwen_err err = { 0 };
	unsigned char b[256] = { 0 };
	float v[256];

	ok(qwen_quant_dequantize(15, b, v, 256, &err) == -1 &&
	    err.code == QWEN_EUNSUP && strstr(err.msg, "Q8_K") != NULL,
	    "a type that is only sized: %s", err.msg);
	ok(qwen_quant_dequantize(4, b, v, 32, &err) == -1 &&
	    err.code == QWEN_EUNSUP, "a retired type: %s", err.msg);
	ok(qwen_quant_dequantize(QT_Q4_K, b, v, 128, &err) == -1 &&
	    err.code == QWEN_ERANGE, "half a block: %s", err.msg);
	ok(qwen_quant_find_nonfinite(15, b, 256) == -1,
	    "no opinion on a type that is only sized");
}

/* ---- what is not finite */

static void
put16(unsigned char *p, unsigned v)
{
	p[0] = (unsigned char)v;
	p[1] = (unsigned char)(v >> 8);
}

/* An f16 in the high bits of four words. */
static void
put_spread(unsigned char *p, unsigned v)
{
	int i;

	for (i = 0; i < 4; i++, p += 2, v >>= 4)
		p[1] = (unsigned char)((p[1] & 15) | (v & 15) << 4);
}

/* The number at a block's scale: f16, or what the format has instead. */
static void
put_bad(const struct format *f, unsigned char *block, int at, int kind)
{
	static const unsigned half[] = { 0x7e00, 0x7c00, 0xfc00, 0x7c01,
	    0xffff };
	static const unsigned bf[] = { 0x7fc0, 0x7f80, 0xff80, 0x7f81,
	    0xffff };

	if (f->type == QT_BF16)
		put16(block, bf[kind]);
	else if (f->type == QT_F32)
		put16(block + 2, bf[kind]);
	else if (f->type == QT_MXFP4)
		block[0] = (unsigned char)(kind < 3 ? 253 + kind : 255);
	else if (f->type == QT_IQ1_M)
		put_spread(block + 48, half[kind]);
	else
		put16(block + at, half[kind]);
}

/* Random blocks whose scales are the largest there are. */
static void
fill(const struct format *f, unsigned char *p, size_t n_block)
{
	size_t b, i;
	int s;

	for (b = 0; b < n_block; b++, p += f->bytes) {
		for (i = 0; i < f->bytes; i++)
			p[i] = (unsigned char)random_u32();
		for (s = 0; s < f->n_scale; s++)
			put16(p + f->scale[s], b % 2 ? 0x7bff : 0xfbff);
		if (f->type == QT_BF16)
			put16(p, 0x7f7f);
		if (f->type == QT_F32)
			put16(p + 2, 0xff7f);
		if (f->type == QT_MXFP4)
			p[0] = 252;
		if (f->type == QT_IQ1_M)
			put_spread(p + 48, b % 2 ? 0x7bff : 0xfbff);
	}
}

#define BLOCKS 9

static void
check_nonfinite(const struct format *f)
{
	unsigned char p[BLOCKS * 256], keep[256];
	int s, kind, n_scale = f->n_scale > 0 ? f->n_scale : 1, bad = 0;
	size_t b, n = BLOCKS * f->len;

	fill(f, p, BLOCKS);
	bad += qwen_quant_find_nonfinite(f->type, p, n) != -1;
	for (s = 0; s < n_scale; s++) {
		for (kind = 0; kind < 5; kind++) {
			for (b = 0; b < BLOCKS; b++) {
				unsigned char *block = p + b * f->bytes;

				memcpy(keep, block, f->bytes);
				put_bad(f, block, f->scale[s], kind);
				bad += qwen_quant_find_nonfinite(f->type, p,
				    n) != (int64_t)b;
				memcpy(block, keep, f->bytes);
			}
		}
	}
	put_bad(f, p + 5 * f->bytes, f->scale[0], 0);
	put_bad(f, p + 3 * f->bytes, f->scale[0], 1);
	bad += qwen_quant_find_nonfinite(f->type, p, n) != 3;
	bad += qwen_quant_find_nonfinite(f->type, p, 3 * f->len) != -1;
	ok(bad == 0, "%s: NaN and infinity in any scale of any block",
	    f->name);
}

/* On any bytes: found if and only if a value is not finite. */
static void
check_agreement(const struct format *f)
{
	unsigned char p[256];
	float v[256];
	int round, found = 0, bad = 0, any;
	size_t i;

	for (round = 0; round < 20000; round++) {
		for (i = 0; i < f->bytes; i++)
			p[i] = (unsigned char)random_u32();
		if (qwen_quant_dequantize(f->type, p, v, f->len, NULL) < 0)
			bad++;
		for (any = 0, i = 0; i < f->len; i++)
			any |= !isfinite(v[i]);
		found += any;
		bad += (qwen_quant_find_nonfinite(f->type, p, f->len) == 0) !=
		    any;
	}
	/* NVFP4 has no scale that is none */
	ok(bad == 0 && (f->type == QT_NVFP4 ? found == 0 : found > 10),
	    "%s: found just where a value is not "
	    "finite, %d of %d random blocks", f->name, found, round);
}

int
main(void)
{
	size_t i;

	check_sizes();
	check_unknown();
	check_row_bytes();
	check_fixtures();
	check_refusals();
	for (i = 0; i < N_FORMATS; i++) {
		if (!formats[i].supported)
			continue;
		if (formats[i].type != QT_NVFP4)
			check_nonfinite(&formats[i]);
		check_agreement(&formats[i]);
	}
	return done_testing();
}
