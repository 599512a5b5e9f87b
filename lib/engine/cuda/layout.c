/* SPDX-License-Identifier: ISC */
/* layout.c - rows of weights, from the file's layout to that of the kernels. */
#include <string.h>

#include "base/half.h"
#include "engine/cuda/kernel/product.h"
#include "engine/cuda/layout.h"
#include "engine/quant/layout.h"

enum qwen_cuda_layout
qwen_cuda_layout_of(const struct qwen_weight *w)
{
	switch (w->quant->type) {
	case QT_Q4_K:
		return QWEN_CUDA_Q4_K;
	case QT_Q5_K:
		return QWEN_CUDA_Q5_K;
	case QT_Q6_K:
		return QWEN_CUDA_Q6_K;
	case QT_Q8_0:
	case QT_Q5_0:
		return QWEN_CUDA_Q8_0;
	case QT_Q4_0:
	case QT_IQ4_NL:
	case QT_MXFP4:
		return QWEN_CUDA_Q4;
	case QT_IQ4_XS:
		return QWEN_CUDA_IQ4_XS;
	case QT_Q3_K:
		return QWEN_CUDA_Q3_K;
	case QT_Q2_K:
		return QWEN_CUDA_Q2_K;
	default:
		return w->quant->kind == QWEN_QUANT_FLOAT ? QWEN_CUDA_FLOATS :
		    w->quant->kind == QWEN_QUANT_SUPER ? QWEN_CUDA_SUPER :
		    QWEN_CUDA_BLOCK;
	}
}

/* Bytes of 256 weights. */
static size_t
group_bytes(const struct qwen_weight *w)
{
	switch (qwen_cuda_layout_of(w)) {
	case QWEN_CUDA_Q6_K:
		return DEV_Q6_K_BYTES;
	case QWEN_CUDA_Q8_0:
		return DEV_Q8_0_BYTES;
	case QWEN_CUDA_Q4:
	case QWEN_CUDA_IQ4_XS:
	case QWEN_CUDA_Q3_K:
		return DEV_NIBBLE_BYTES;
	case QWEN_CUDA_Q2_K:
		return DEV_Q2_K_BYTES;
	case QWEN_CUDA_SUPER:
		return sizeof(struct dev_super);
	case QWEN_CUDA_BLOCK:
		return DEV_BLOCK_BYTES(w->quant->span, w->quant->has_min);
	default:
		return QWEN_GROUP / w->quant->block_len * w->quant->block_bytes;
	}
}

uint64_t
qwen_cuda_row_bytes(const struct qwen_weight *w)
{
	uint64_t n = (w->n_in + QWEN_GROUP - 1) / QWEN_GROUP;

	switch (qwen_cuda_layout_of(w)) {
	case QWEN_CUDA_FLOATS:
		return (w->n_in * w->quant->block_bytes + 15) / 16 * 16;
	case QWEN_CUDA_Q6_K:
	case QWEN_CUDA_Q3_K:	/* d of all blocks are last */
		return n * group_bytes(w) + (n + 7) / 8 * 16;
	default:
		return n * group_bytes(w);
	}
}

/* Scales and minimums of all formats fit in a byte (quant/formats.h). */
static void
lay_super(const struct qwen_unpacked *u, unsigned char *to)
{
	struct dev_super s = { .d = u->d[0], .m = u->m[0] };
	int i;

	memcpy(s.w, u->w, sizeof s.w);
	for (i = 0; i < 16; i++) {
		s.scale[i] = (s8)u->scale[i];
		s.min[i] = (u8)u->min[i];
	}
	memcpy(to, &s, sizeof s);
}

static void
lay_block(const struct qwen_quant *q, const struct qwen_unpacked *u,
    unsigned char *to)
{
	size_t n = QWEN_GROUP / q->span * sizeof(float);

	memcpy(to, u->w, QWEN_GROUP);
	memcpy(to + QWEN_GROUP, u->d, n);
	if (q->has_min)
		memcpy(to + QWEN_GROUP + n, u->m, n);
}

static void
lay_q6_k(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to)
{
	size_t n = w->n_in / QWEN_GROUP, i;
	unsigned char *d = to + n * DEV_Q6_K_BYTES;

	for (i = 0; i < n; i++, from += w->quant->block_bytes) {
		memcpy(to + i * DEV_Q6_K_BYTES, from, DEV_Q6_K_BYTES);
		memcpy(d + 2 * i, from + w->quant->d_at, 2);
	}
	memset(d + 2 * n, 0, (n + 7) / 8 * 16 - 2 * n);
}

static void
lay_q8_0(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to)
{
	size_t n = w->n_in / 32, i;
	unsigned char *block;

	if (n % 8 != 0)
		memset(to + n / 8 * DEV_Q8_0_BYTES, 0, DEV_Q8_0_BYTES);
	for (i = 0; i < n; i++, from += 34) {
		block = to + i / 8 * DEV_Q8_0_BYTES;
		memcpy(block + i % 8 * 32, from + 2, 32);
		memcpy(block + 256 + i % 8 * 2, from, 2);
	}
}

const int8_t *
qwen_cuda_values(const struct qwen_weight *w)
{
	static const int8_t plain[16] = { -8, -7, -6, -5, -4, -3, -2, -1, 0, 1,
	    2, 3, 4, 5, 6, 7 };

	switch (w->quant->type) {
	case QT_Q4_0:
	case QT_Q3_K:
	case QT_Q2_K:
		return plain;
	case QT_IQ4_NL:
	case QT_IQ4_XS:
		return qwen_iq4_values;
	case QT_MXFP4:
		return qwen_fp4_values;
	default:
		return NULL;
	}
}

/* A group of Q5_0 as one of Q8_0. */
static void
lay_bytes(const struct qwen_unpacked *u, unsigned char *to)
{
	uint16_t d;
	size_t i;

	memcpy(to, u->w, QWEN_GROUP);
	for (i = 0; i < QWEN_GROUP / 32; i++) {
		d = qwen_f32_f16(u->d[i]);
		memcpy(to + QWEN_GROUP + 2 * i, &d, sizeof d);
	}
}

/* The number of each weight's value. */
static void
lay_nibbles(const struct qwen_weight *w, const struct qwen_unpacked *u,
    unsigned char *to)
{
	const int8_t *values = qwen_cuda_values(w);
	unsigned char number[256] = { 0 };
	size_t i;

	for (i = 0; i < 16; i++)
		number[(unsigned char)values[i]] = (unsigned char)i;
	for (i = 0; i < QWEN_GROUP / 2; i++)
		to[i] = (unsigned char)(number[(unsigned char)u->w[2 * i]] |
		    number[(unsigned char)u->w[2 * i + 1]] << 4);
}

/* A group of a layout of nibbles, number g of n; row is where the row begins. */
static void
lay_values(const struct qwen_weight *w, const struct qwen_unpacked *u,
    unsigned char *row, size_t g, size_t n)
{
	unsigned char *to = row + g * group_bytes(w);
	enum qwen_cuda_layout l = qwen_cuda_layout_of(w);
	uint16_t d = qwen_f32_f16(u->d[0]);
	size_t i;

	lay_nibbles(w, u, to);
	to += QWEN_GROUP / 2;
	for (i = 0; i < 8 && l == QWEN_CUDA_Q4; i++) {
		d = w->quant->type == QT_MXFP4 ? qwen_f32_bf16(u->d[i]) :
		    qwen_f32_f16(u->d[i]);
		memcpy(to + 2 * i, &d, sizeof d);
	}
	for (i = 0; i < 8 && l == QWEN_CUDA_IQ4_XS; i++)
		to[i] = (unsigned char)u->scale[2 * i];
	for (i = 0; i < 16 && (l == QWEN_CUDA_Q3_K || l == QWEN_CUDA_Q2_K); i++)
		to[i] = (unsigned char)u->scale[i];
	for (i = 0; i < 16 && l == QWEN_CUDA_Q2_K; i++)
		to[16 + i] = (unsigned char)u->min[i];
	if (l == QWEN_CUDA_Q2_K) {
		memcpy(to + 32, u->d, sizeof u->d[0]);
		memcpy(to + 36, u->m, sizeof u->m[0]);
	}
	if (l == QWEN_CUDA_IQ4_XS)
		memcpy(to + 8, &d, sizeof d);
	if (l == QWEN_CUDA_Q3_K)
		memcpy(row + n * DEV_NIBBLE_BYTES + g * sizeof d, &d, sizeof d);
}

/* Any format of integers whose layout in the file is not that of the card. */
static void
lay_any(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to)
{
	const struct qwen_quant *q = w->quant;
	struct qwen_unpacked u;
	size_t i, n, groups = (w->n_in + QWEN_GROUP - 1) / QWEN_GROUP;
	unsigned char *row = to;

	memset(to, 0, (size_t)qwen_cuda_row_bytes(w));
	for (i = 0; i < w->n_in; i += n, to += group_bytes(w)) {
		n = w->n_in - i < QWEN_GROUP ? w->n_in - i : QWEN_GROUP;
		if (n < QWEN_GROUP)
			memset(&u, 0, sizeof u);
		qwen_quant_unpack(q, from, n, &u);
		if (qwen_cuda_values(w) != NULL)
			lay_values(w, &u, row, i / QWEN_GROUP, groups);
		else if (qwen_cuda_layout_of(w) == QWEN_CUDA_Q8_0)
			lay_bytes(&u, to);
		else if (q->kind == QWEN_QUANT_SUPER)
			lay_super(&u, to);
		else
			lay_block(q, &u, to);
		from += n / q->block_len * q->block_bytes;
	}
}

void
qwen_cuda_lay(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to)
{
	switch (qwen_cuda_layout_of(w)) {
	case QWEN_CUDA_FLOATS:
		memset(to, 0, (size_t)qwen_cuda_row_bytes(w));
		memcpy(to, from, w->n_in * w->quant->block_bytes);
		break;
	case QWEN_CUDA_Q4_K:
	case QWEN_CUDA_Q5_K:
		memcpy(to, from, (size_t)qwen_cuda_row_bytes(w));
		break;
	case QWEN_CUDA_Q6_K:
		lay_q6_k(w, from, to);
		break;
	default:
		if (w->quant->type == QT_Q8_0)
			lay_q8_0(w, from, to);
		else
			lay_any(w, from, to);
	}
}
