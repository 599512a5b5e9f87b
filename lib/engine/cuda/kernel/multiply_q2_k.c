/* SPDX-License-Identifier: ISC */
/* multiply_q2_k.c - products with weights in the layout F_Q2_K. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q2_k, struct dev_product) { multiply_few(F_Q2_K, &a); }
KERNEL(many16_q2_k, struct dev_product) { multiply_many(F_Q2_K, &a, 1); }
KERNEL(many32_q2_k, struct dev_product) { multiply_many(F_Q2_K, &a, 2); }
KERNEL(many64_q2_k, struct dev_product) { multiply_many(F_Q2_K, &a, 4); }
