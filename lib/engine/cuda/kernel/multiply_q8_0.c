/* SPDX-License-Identifier: ISC */
/* multiply_q8_0.c - products with weights in the layout F_Q8_0. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q8_0, struct dev_product) { multiply_few(F_Q8_0, &a); }
KERNEL(many16_q8_0, struct dev_product) { multiply_many(F_Q8_0, &a, 1); }
KERNEL(many32_q8_0, struct dev_product) { multiply_many(F_Q8_0, &a, 2); }
KERNEL(many64_q8_0, struct dev_product) { multiply_many(F_Q8_0, &a, 4); }
