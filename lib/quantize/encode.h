/* SPDX-License-Identifier: ISC */
/* encode.h - internal: encoders, one per format and instruction set. */
#ifndef QWEN_QUANTIZE_ENCODE_H
#define QWEN_QUANTIZE_ENCODE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Encodes n blocks of consecutive finite numbers.  w[0], w[1], ... weigh the
 * errors of a row's numbers, and repeat after n_row numbers, a multiple of the
 * block length.
 */
typedef void qwen_encode_fn(const float *x, const float *w, size_t n_row,
    size_t n, unsigned char *out);

struct qwen_encoder {
	uint32_t	 type;
	qwen_encode_fn	*fn;
};

/* The encoders of each instruction set, ended by one without a function. */
extern const struct qwen_encoder qwen_encoders_scalar[],
    qwen_encoders_avx2[], qwen_encoders_avx512vnni[];

#endif
