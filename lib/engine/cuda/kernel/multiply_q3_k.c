/* SPDX-License-Identifier: ISC */
/* multiply_q3_k.c - products with weights in the layout F_Q3_K. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q3_k, struct dev_product) { multiply_few(F_Q3_K, &a); }
KERNEL(many16_q3_k, struct dev_product) { multiply_many(F_Q3_K, &a, 1); }
KERNEL(many32_q3_k, struct dev_product) { multiply_many(F_Q3_K, &a, 2); }
KERNEL(many64_q3_k, struct dev_product) { multiply_many(F_Q3_K, &a, 4); }
