/* SPDX-License-Identifier: ISC */
/*
 * operand.h - the forms of activations and of adapters in products, as far as
 * the numerics version and the size of memory depend on them.
 */
#ifndef QWEN_QUANT_OPERAND_H
#define QWEN_QUANT_OPERAND_H

#include "engine/quant/quant.h"

#define QWEN_NUMERICS_MAX 4	/* the highest numerics version */

/*
 * The form of a row of activations in a product.  TWO_Q8 (two 8-bit terms) is
 * two rows, whose products are added.
 */
enum qwen_operand {
	QWEN_AS_F32, QWEN_AS_Q8, QWEN_AS_BF16, QWEN_AS_TWO_Q8, QWEN_OPERANDS
};

/*
 * Returns the form for a weight format in a numerics version.  Version 3 uses
 * bf16 for rows of F16 and BF16 whose length is a multiple of 32, and f32 for
 * others.
 */
enum qwen_operand qwen_operand_of(const struct qwen_quant *q, size_t n_in,
    unsigned numerics);

/*
 * The matrix B of an adapter is stored transposed, so that its rows are in
 * lanes: in blocks of QWEN_LOW_ROWS rows, the last padded; in a block, the
 * numbers of column 0, then column 1, and so on.
 */
#define QWEN_LOW_ROWS 64

/* Return the size of B, in numbers, and the index of row r's first number. */
static inline size_t
qwen_low_size(size_t rank, size_t n_rows)
{
	return (n_rows + QWEN_LOW_ROWS - 1) / QWEN_LOW_ROWS * QWEN_LOW_ROWS *
	    rank;
}

static inline size_t
qwen_low_at(size_t rank, size_t r)
{
	return r / QWEN_LOW_ROWS * QWEN_LOW_ROWS * rank + r % QWEN_LOW_ROWS;
}

#endif
