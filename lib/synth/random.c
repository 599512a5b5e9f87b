/* SPDX-License-Identifier: ISC */
/*
 * random.c - random weights in the formats of GGUF files.
 *
 * Blocks are made directly, not quantised: scales are chosen so that the
 * values have the wanted spread, the rest is random bits.  That is what makes
 * 20 GiB a matter of seconds.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "gguf/gguf.h"
#include "synth/synth.h"

/* SplitMix64: one addition and a mix, any state is good. */
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

/* Four uniform numbers summed: near enough to a normal one, sd 1. */
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
	for (; n >= 8; n -= 8, p += 8)
		qwen_put_le64(p, qwen_gguf_random_u64(rng));
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

/* Truncated, which is as random as rounded. */
static void
fill_bf16(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	for (; n-- > 0; p += 2)
		qwen_put_le16(p, (uint16_t)(qwen_f32_bits((float)
		    (sd * qwen_gguf_random_normal(rng))) >> 16));
}

/* Bytes over -127..127: quantisers do not make -128. */
static void
fill_q8_0(unsigned char *p, size_t n, double sd, uint64_t *rng)
{
	unsigned char d[2];
	int i;

	put_f16(d, sd / 73.47);		/* sd of the bytes */
	for (; n > 0; n -= 32, p += 34) {
		memcpy(p, d, 2);
		fill_bits(p + 2, 32, rng);
		for (i = 2; i < 34; i++)
			p[i] = p[i] == 0x80 ? 0 : p[i];
	}
}

/*
 * The head of a Q4_K or Q5_K block: eight scales over 32..63, and minimums
 * equal to them, so that dmin = d * middle centres the values on 0.
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
	double d = sd / (48.4 * 4.61);	/* rms of scales, sd of 0..15 */

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

/* Scales over 64..127 with either sign, which centres -32..31 on 0. */
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

static const struct {
	const char	*name;
	void		(*fill)(unsigned char *, size_t, double, uint64_t *);
} fillers[] = {
	{ "F32", fill_f32 }, { "F16", fill_f16 }, { "BF16", fill_bf16 },
	{ "Q8_0", fill_q8_0 }, { "Q4_K", fill_q4_k }, { "Q5_K", fill_q5_k },
	{ "Q6_K", fill_q6_k },
};

int
qwen_gguf_random(uint32_t type, void *dst, size_t n, double sd, uint64_t *rng,
    struct qwen_err *err)
{
	const char *name = qwen_ggml_name(type);
	size_t i;

	if (name == NULL || n % qwen_ggml_block_len(type) != 0)
		return qwen_fail(err, QWEN_ERANGE, "%zu elements are not whole"
		    " blocks of type %u", n, type);
	for (i = 0; i < sizeof fillers / sizeof fillers[0]; i++) {
		if (strcmp(name, fillers[i].name) == 0) {
			fillers[i].fill(dst, n, sd, rng);
			return 0;
		}
	}
	return qwen_fail(err, QWEN_EUNSUP, "no random weights in %s", name);
}
