/* SPDX-License-Identifier: ISC */
/*
 * random.c - random weights in the formats of GGUF files.
 *
 * Blocks are made directly, not quantised: the scales give the values the
 * wanted standard deviation, all other bits are random.  So 20 GiB take
 * seconds.
 */
#include <math.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "gguf/gguf.h"
#include "gguf/type.h"
#include "synth/synth.h"

/* SplitMix64; any state is a good seed. */
uint64_t
qwen_gguf_random_u64(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

double
qwen_gguf_random_uniform(uint64_t *rng)
{
	return (double)(qwen_gguf_random_u64(rng) >> 11) * 0x1p-53;
}

/* Returns a sum of four uniform numbers: close to a normal distribution. */
double
qwen_gguf_random_normal(uint64_t *rng)
{
	uint64_t u = qwen_gguf_random_u64(rng);
	double sum = (double)(u & 0xffff) + (double)(u >> 16 & 0xffff) +
	    (double)(u >> 32 & 0xffff) + (double)(u >> 48);

	return (sum * 0x1p-16 - 2.0 + 2 * 0x1p-16) * 1.7320508075688772;
}

static void
fill_bits(unsigned char *p, size_t n, uint64_t *rng)
{
	uint64_t u;

	for (; n >= 8; n -= 8, p += 8)
		qwen_put_le64(p, qwen_gguf_random_u64(rng));
	for (u = n > 0 ? qwen_gguf_random_u64(rng) : 0; n > 0; n--, u >>= 8)
		*p++ = (unsigned char)u;
}

static void
put_f16(unsigned char *p, double v)
{
	qwen_put_le16(p, qwen_f32_f16((float)v));
}

static void
fill_f32(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	for (; n-- > 0; p += 4)
		qwen_put_le32(p, qwen_f32_bits(
		    (float)(sd * qwen_gguf_random_normal(rng))));
}

static void
fill_f16(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	for (; n-- > 0; p += 2)
		put_f16(p, sd * qwen_gguf_random_normal(rng));
}

/* Truncates, which is as random as rounding. */
static void
fill_bf16(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	for (; n-- > 0; p += 2)
		qwen_put_le16(p, (uint16_t)(qwen_f32_bits((float)
		    (sd * qwen_gguf_random_normal(rng))) >> 16));
}

/* Bytes are -127 to 127: encoders do not make -128. */
static void
fill_q8_0(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	unsigned char d[2];
	int i;

	put_f16(d, sd / 73.47);		/* standard deviation of the bytes */
	for (; n > 0; n -= 32, p += 34) {
		memcpy(p, d, 2);
		fill_bits(p + 2, 32, rng);
		for (i = 2; i < 34; i++)
			p[i] = p[i] == 0x80 ? 0 : p[i];
	}
}

/*
 * Fills the scales of a Q4_K or Q5_K block: eight scales from 32 to 63, and
 * equal minimums, so that dmin = d * middle centres the values on 0.
 */
static void
fill_k_head(unsigned char *p, double d, double middle, uint64_t *rng)
{
	uint64_t u = qwen_gguf_random_u64(rng);
	unsigned sc[8], j;

	put_f16(p, d);
	put_f16(p + 2, d * middle);
	for (j = 0; j < 8; j++)
		sc[j] = 32 + (unsigned)(u >> 5 * j & 31);
	for (j = 0; j < 4; j++) {
		p[4 + j] = (unsigned char)(sc[j] | sc[j + 4] >> 4 << 6);
		p[8 + j] = p[4 + j];
		p[12 + j] = (unsigned char)((sc[j + 4] & 15) * 17);
	}
}

static void
fill_q4_k(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	double d = sd / (48.4 * 4.61);	/* rms of scales; sd of 0..15 */

	for (; n > 0; n -= 256, p += 144) {
		fill_k_head(p, d, 7.5, rng);
		fill_bits(p + 16, 128, rng);
	}
}

static void
fill_q5_k(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	double d = sd / (48.4 * 9.233);

	for (; n > 0; n -= 256, p += 176) {
		fill_k_head(p, d, 15.5, rng);
		fill_bits(p + 16, 160, rng);
	}
}

/* Scales are 64 to 127 with either sign, which centres -32 .. 31 on 0. */
static void
fill_q6_k(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	unsigned char d[2];
	int i;

	put_f16(d, sd / (97.3 * 18.48));
	for (; n > 0; n -= 256, p += 210) {
		fill_bits(p, 208, rng);
		for (i = 192; i < 208; i++)
			p[i] = (unsigned char)(p[i] & 0x80 ?
			    -(64 + (p[i] & 63)) : 64 + (p[i] & 63));
		memcpy(p + 208, d, 2);
	}
}

/* ------------------------------------------- formats with random bits */

/*
 * Returns the exponent of one of the powers of two around v, at random: their
 * mean square is v's.
 */
static int
either_power(double v, uint64_t *rng)
{
	int e;
	double m = 2.0 * frexp(v, &e);	/* 1 <= m < 2 */

	return e - 1 + (qwen_gguf_random_uniform(rng) < (m * m - 1.0) / 3.0);
}

/* Sets scales of 8 to 15, and equal minimums. */
static void
mend_q2_k(unsigned char *p, double d, uint64_t *rng)
{
	int i;

	(void)d;
	(void)rng;
	for (i = 0; i < 16; i++)
		p[i] = (unsigned char)((8 | (p[i] & 7)) * 17);
}

/*
 * Makes codes means of two random codes, as small weights are more frequent.
 * Other engines add pairs of products in 16 bits, and would saturate if all
 * codes were equally likely.
 */
static void
mend_iq4_xs(unsigned char *p, double d, uint64_t *rng)
{
	unsigned char other[128];
	unsigned lo, hi;
	int i;

	(void)d;
	fill_bits(other, sizeof other, rng);
	for (i = 0; i < 128; i++) {
		lo = (p[8 + i] & 15u) + (other[i] & 15u) + (i & 1u);
		hi = (p[8 + i] >> 4) + (other[i] >> 4) + (i & 1u);
		p[8 + i] = (unsigned char)(lo / 2 | hi / 2 << 4);
	}
}

/* Stores d in the upper halves of four bytes. */
static void
mend_iq1_m(unsigned char *p, double d, uint64_t *rng)
{
	uint32_t h = qwen_f32_f16((float)d);
	int i;

	(void)rng;
	for (i = 49; i < 57; i += 2, h >>= 4)
		p[i] = (unsigned char)((p[i] & 15) | (h & 15) << 4);
}

/* Makes each byte five base-3 digits, or four, in the form of encoders. */
static void
mend_tq1_0(unsigned char *p, double d, uint64_t *rng)
{
	unsigned v;
	int i;

	(void)d;
	(void)rng;
	for (i = 0; i < 52; i++) {
		v = i < 48 ? p[i] * 243u >> 8 : (p[i] * 81u >> 8) * 3;
		p[i] = (unsigned char)((v * 256 + 242) / 243);
	}
}

/* Makes each code 0 to 2: encoders do not make 3. */
static void
mend_tq2_0(unsigned char *p, double d, uint64_t *rng)
{
	unsigned v;
	int i;

	(void)d;
	(void)rng;
	for (i = 0; i < 64; i++) {
		v = p[i] * 81u >> 8;
		p[i] = (unsigned char)(v % 3 | v / 3 % 3 << 2 |
		    v / 9 % 3 << 4 | v / 27 << 6);
	}
}

static void
mend_mxfp4(unsigned char *p, double d, uint64_t *rng)
{
	int x = 128 + either_power(d, rng);

	p[0] = (unsigned char)(x < 2 ? 2 : x > 250 ? 250 : x);
}

/* Scales are (8 + m) 2^(x-11); 11.73 is the rms of 8 + m. */
static void
mend_nvfp4(unsigned char *p, double d, uint64_t *rng)
{
	int i, x;

	for (i = 0; i < 4; i++) {
		x = 11 + either_power(d / 11.726, rng);
		p[i] = (unsigned char)((x < 1 ? 1 : x > 14 ? 14 : x) << 3 |
		    (p[i] & 7));
	}
}

/*
 * How to fill blocks of a format: by its own function, or with random bits,
 * apart from d and the parts that mend() sets.  If codes lean to one side, d
 * has a random sign, so that sums stay small.
 */
struct format {
	void		(*fill)(unsigned char *, size_t n, double sd,
			    uint64_t *rng);
	double		 rms;		/* of the numbers that d multiplies */
	int		 d_at;		/* offset of the f16 d; -1: mend() sets
					   it */
	int		 leans;
	int		 min_at;	/* offset of an f16 minimum, or 0: min
					   times d */
	double		 min;
	void		(*mend)(unsigned char *, double d, uint64_t *rng);
};

static const struct format formats[QT_N] = {
	[QT_F32] = { .fill = fill_f32 },
	[QT_F16] = { .fill = fill_f16 },
	[QT_BF16] = { .fill = fill_bf16 },
	[QT_Q8_0] = { .fill = fill_q8_0 },
	[QT_Q4_K] = { .fill = fill_q4_k },
	[QT_Q5_K] = { .fill = fill_q5_k },
	[QT_Q6_K] = { .fill = fill_q6_k },
	[QT_Q4_0] = { NULL, 4.637, 0, 1, 0, 0, NULL },
	[QT_Q4_1] = { NULL, 4.610, 0, 0, 2, -7.5, NULL },
	[QT_Q5_0] = { NULL, 9.247, 0, 1, 0, 0, NULL },
	[QT_Q5_1] = { NULL, 9.233, 0, 0, 2, -15.5, NULL },
	[QT_Q2_K] = { NULL, 13.110, 80, 0, 82, 1.5, mend_q2_k },
	[QT_Q3_K] = { NULL, 43.339, 108, 1, 0, 0, NULL },
	[QT_IQ4_NL] = { NULL, 67.439, 0, 1, 0, 0, NULL },
	[QT_IQ4_XS] = { NULL, 828.95, 0, 1, 0, 0, mend_iq4_xs },
	[QT_IQ3_S] = { NULL, 140.24, 0, 0, 0, 0, NULL },
	[QT_IQ3_XXS] = { NULL, 142.41, 0, 0, 0, 0, NULL },
	[QT_IQ2_S] = { NULL, 56.392, 0, 0, 0, 0, NULL },
	[QT_IQ2_XS] = { NULL, 55.900, 0, 0, 0, 0, NULL },
	[QT_IQ2_XXS] = { NULL, 53.362, 0, 0, 0, 0, NULL },
	[QT_IQ1_S] = { NULL, 7.1995, 0, 1, 0, 0, NULL },
	[QT_IQ1_M] = { NULL, 7.1995, -1, 1, 0, 0, mend_iq1_m },
	[QT_TQ1_0] = { NULL, 0.8165, 52, 0, 0, 0, mend_tq1_0 },
	[QT_TQ2_0] = { NULL, 0.8165, 64, 0, 0, 0, mend_tq2_0 },
	[QT_Q2_0] = { NULL, 1.2247, 0, 1, 0, 0, NULL },
	[QT_Q1_0] = { NULL, 1.0, 0, 0, 0, 0, NULL },
	[QT_MXFP4] = { NULL, 5.8523, -1, 0, 0, 0, mend_mxfp4 },
	[QT_NVFP4] = { NULL, 5.8523, -1, 0, 0, 0, mend_nvfp4 },
};

static void
fill_blocks(const struct format *f, unsigned char *p, size_t n_block,
    size_t bytes, double sd, uint64_t *rng)
{
	double d = sd / f->rms, one;

	for (; n_block > 0; n_block--, p += bytes) {
		fill_bits(p, bytes, rng);
		/* the sign is a random bit that d or mend() overwrites */
		one = f->leans && p[f->d_at < 0 ? bytes - 1 : (size_t)f->d_at] &
		    0x80 ? -d : d;
		if (f->d_at >= 0)
			put_f16(p + f->d_at, one);
		if (f->min_at > 0)
			put_f16(p + f->min_at, f->min * one);
		if (f->mend != NULL)
			f->mend(p, one, rng);
	}
}

int
qwen_gguf_random(uint32_t type, void *dst, size_t n, double sd, uint64_t *rng,
    struct qwen_err *err)
{
	const char *name = qwen_ggml_name(type);
	size_t len = qwen_ggml_block_len(type);

	if (name == NULL || n % len != 0)
		return qwen_fail(err, QWEN_ERANGE, "%zu elements are not a "
		    "multiple of the block length of type %u", n, type);
	if (formats[type].fill != NULL)
		formats[type].fill(dst, n, sd, rng);
	else if (formats[type].rms > 0)
		fill_blocks(&formats[type], dst, n / len,
		    qwen_ggml_block_bytes(type), sd, rng);
	else
		return qwen_fail(err, QWEN_EUNSUP, "cannot make random weights "
		    "of type %s", name);
	return 0;
}
