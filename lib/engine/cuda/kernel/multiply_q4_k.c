/* SPDX-License-Identifier: ISC */
/* multiply_q4_k.c - products with weights in the layout F_Q4_K. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q4_k, struct dev_product) { multiply_few(F_Q4_K, &a); }
KERNEL(many16_q4_k, struct dev_product) { multiply_many(F_Q4_K, &a, 1); }
KERNEL(many32_q4_k, struct dev_product) { multiply_many(F_Q4_K, &a, 2); }
KERNEL(many64_q4_k, struct dev_product) { multiply_many(F_Q4_K, &a, 4); }
