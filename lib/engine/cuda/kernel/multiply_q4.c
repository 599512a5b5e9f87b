/* SPDX-License-Identifier: ISC */
/* multiply_q4.c - products with weights in the layout F_Q4. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q4, struct dev_product) { multiply_few(F_Q4, &a); }
KERNEL(many16_q4, struct dev_product) { multiply_many(F_Q4, &a, 1); }
KERNEL(many32_q4, struct dev_product) { multiply_many(F_Q4, &a, 2); }
KERNEL(many64_q4, struct dev_product) { multiply_many(F_Q4, &a, 4); }
