/* SPDX-License-Identifier: ISC */
/* multiply_block.c - products with weights in the layout F_BLOCK. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_block, struct dev_product) { multiply_few(F_BLOCK, &a); }
KERNEL(many16_block, struct dev_product) { multiply_many(F_BLOCK, &a, 1); }
KERNEL(many32_block, struct dev_product) { multiply_many(F_BLOCK, &a, 2); }
KERNEL(many64_block, struct dev_product) { multiply_many(F_BLOCK, &a, 4); }
