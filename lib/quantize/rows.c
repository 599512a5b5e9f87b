/* SPDX-License-Identifier: ISC */
/*
 * rows.c - encodes rows with the fastest encoder that this processor can run.
 */
#include <math.h>
#include <stdlib.h>

#include "base/cpu.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/half.h"
#include "engine/quant/quant.h"
#include "quantize/encode.h"
#include "quantize/quantize.h"

static qwen_encode_fn *
find_encoder(const struct qwen_encoder *e, uint32_t type)
{
	for (; e->fn != NULL; e++) {
		if (e->type == type)
			return e->fn;
	}
	return NULL;
}

static qwen_encode_fn *
best(uint32_t type, unsigned cpu)
{
#ifdef __x86_64__
	if (cpu & QWEN_CPU_AVX512VNNI)
		return find_encoder(qwen_encoders_avx512vnni, type);
	if (cpu & QWEN_CPU_AVX2)
		return find_encoder(qwen_encoders_avx2, type);
#endif
	(void)cpu;
	return find_encoder(qwen_encoders_scalar, type);
}

int
qwen_encode_known(uint32_t type)
{
	return type == QT_F32 || type == QT_F16 || type == QT_BF16 ||
	    find_encoder(qwen_encoders_scalar, type) != NULL;
}

/* Stores plain numbers; -1 if one is too large for the format. */
static int
plain(uint32_t type, const float *x, size_t n, unsigned char *out,
    struct qwen_err *err)
{
	uint16_t h;
	size_t i;

	for (i = 0; i < n; i++) {
		if (type == QT_F32) {
			qwen_put_le32(out + 4 * i, qwen_f32_bits(x[i]));
			continue;
		}
		h = type == QT_F16 ? qwen_f32_f16(x[i]) : qwen_f32_bf16(x[i]);
		if (!isfinite(type == QT_F16 ? qwen_f16_f32(h) :
		    qwen_bf16_f32(h)))
			return qwen_fail(err, QWEN_ERANGE, "the value %g is "
			    "too large for %s", (double)x[i],
			    qwen_ggml_name(type));
		qwen_put_le16(out + 2 * i, h);
	}
	return 0;
}

int
qwen_encode_rows(uint32_t type, unsigned cpu, const float *x, const float *w,
    size_t n_row, size_t rows, unsigned char *out, struct qwen_err *err)
{
	qwen_encode_fn *fn = best(type, cpu);
	size_t len = qwen_ggml_block_len(type), i;
	float *ones = NULL;

	if (type == QT_F32 || type == QT_F16 || type == QT_BF16)
		return plain(type, x, n_row * rows, out, err);
	if (fn == NULL || n_row % len != 0)
		return qwen_fail(err, QWEN_EUNSUP, "rows of %zu numbers cannot"
		    " be encoded as %s", n_row, qwen_ggml_name(type));
	if (w == NULL) {
		ones = malloc(n_row * sizeof *ones);
		if (ones == NULL)
			return qwen_oom(err);
		for (i = 0; i < n_row; i++)
			ones[i] = 1.0f;
	}
	fn(x, w != NULL ? w : ones, n_row, n_row / len * rows, out);
	free(ones);
	return 0;
}
