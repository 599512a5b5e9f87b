/* SPDX-License-Identifier: ISC */
/* quant.c - the list of formats, and functions based on unpacking. */
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/quant/operand.h"

#define QUANT(q) extern const struct qwen_quant q;
#include "quants.inc"
#undef QUANT

static const struct qwen_quant *const quants[] = {
#define QUANT(q) &q,
#include "quants.inc"
#undef QUANT
};

#define N_QUANTS (sizeof quants / sizeof quants[0])

const struct qwen_quant *
qwen_quant_find(uint32_t type)
{
	size_t i;

	for (i = 0; i < N_QUANTS; i++) {
		if (quants[i]->type == type)
			return quants[i];
	}
	return NULL;
}

int
qwen_quant_supported(uint32_t type)
{
	return qwen_quant_find(type) != NULL;
}

size_t
qwen_quant_row_bytes(uint32_t type, uint64_t n)
{
	size_t len = qwen_ggml_block_len(type), bytes;

	if (len == 0 || n % len != 0 || n > SIZE_MAX ||
	    qwen_mul((size_t)n / len, qwen_ggml_block_bytes(type), &bytes) < 0)
		return 0;
	return bytes;
}

void
qwen_quant_unpack(const struct qwen_quant *q, const unsigned char *src,
    size_t n, struct qwen_unpacked *u)
{
	size_t span = q->kind == QWEN_QUANT_SUPER ? QWEN_GROUP : q->span;
	size_t i, k;

	if (!q->has_min) {
		memset(u->min, 0, sizeof u->min);
		memset(u->m, 0, sizeof u->m);
	}
	for (i = 0; i < n; i += q->block_len, src += q->block_bytes) {
		for (k = 0; k < q->block_len / span; k++)
			u->d[i / span + k] = q->number(src + q->d_at + k);
		if (q->has_min)
			u->m[i / span] = q->number(src + q->d_at + 2);
		q->unpack(src, u->w + i, u);
	}
}

int
qwen_quant_finite(const struct qwen_quant *q, const unsigned char *block)
{
	size_t k = 1;

	if (q->kind == QWEN_QUANT_BLOCK)
		k = q->block_len / q->span;
	while (k > 0) {
		if (!isfinite(q->number(block + q->d_at + --k)))
			return 0;
	}
	return !q->has_min || isfinite(q->number(block + q->d_at + 2));
}

static void
expand(const struct qwen_quant *q, const struct qwen_unpacked *u, size_t n,
    float *dst)
{
	size_t i;

	if (q->kind == QWEN_QUANT_BLOCK) {
		for (i = 0; i < n; i++) {
			dst[i] = u->d[i / q->span] * (float)u->w[i];
			if (q->has_min)		/* + 0 would turn -0 into 0 */
				dst[i] += u->m[i / q->span];
		}
		return;
	}
	for (i = 0; i < n; i++) {
		float dl = u->d[0] * (float)u->scale[i / 16];
		float ml = u->m[0] * (float)u->min[i / 16];

		dst[i] = dl * (float)u->w[i] - ml;
	}
}

void
qwen_quant_values(const struct qwen_quant *q, const unsigned char *src,
    size_t n, float *dst)
{
	struct qwen_unpacked u;
	size_t i, m;

	if (q->kind == QWEN_QUANT_FLOAT) {
		for (i = 0; i < n; i++)
			dst[i] = q->number(src + i * q->block_bytes);
		return;
	}
	for (i = 0; i < n; i += m) {
		m = n - i < QWEN_GROUP ? n - i : QWEN_GROUP;
		qwen_quant_unpack(q, src, m, &u);
		expand(q, &u, m, dst + i);
		src += m / q->block_len * q->block_bytes;
	}
}

int
qwen_quant_dequantize(uint32_t type, const void *src, float *dst, size_t n,
    struct qwen_err *err)
{
	const struct qwen_quant *q = qwen_quant_find(type);
	const char *name = qwen_ggml_name(type);

	if (q == NULL)
		return qwen_fail(err, QWEN_EUNSUP,
		    "cannot dequantise type %s (%u)",
		    name != NULL ? name : "unknown", (unsigned)type);
	if (n % q->block_len != 0)
		return qwen_fail(err, QWEN_ERANGE,
		    "%zu elements are not whole blocks of %s", n, name);
	qwen_quant_values(q, src, n, dst);
	return 0;
}

int64_t
qwen_quant_find_nonfinite(uint32_t type, const void *src, size_t n)
{
	const struct qwen_quant *q = qwen_quant_find(type);
	const unsigned char *p = src;
	size_t i;

	if (q == NULL)
		return -1;
	for (i = 0; i < n / q->block_len; i++, p += q->block_bytes) {
		if (!qwen_quant_finite(q, p))
			return (int64_t)i;
	}
	return -1;
}

enum qwen_operand
qwen_operand_of(const struct qwen_quant *q, size_t n_in, unsigned numerics)
{
	if (q->kind != QWEN_QUANT_FLOAT)
		return numerics == 4 ? QWEN_AS_TWO_Q8 : QWEN_AS_Q8;
	return numerics == 3 && q->type != QT_F32 && n_in % 32 == 0 ?
	    QWEN_AS_BF16 : QWEN_AS_F32;
}
