/* SPDX-License-Identifier: ISC */
/* multiply_q6_k.c - products with weights in the layout F_Q6_K. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q6_k, struct dev_product) { multiply_few(F_Q6_K, &a); }
KERNEL(many16_q6_k, struct dev_product) { multiply_many(F_Q6_K, &a, 1); }
KERNEL(many32_q6_k, struct dev_product) { multiply_many(F_Q6_K, &a, 2); }
KERNEL(many64_q6_k, struct dev_product) { multiply_many(F_Q6_K, &a, 4); }
