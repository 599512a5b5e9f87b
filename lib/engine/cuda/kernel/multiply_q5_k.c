/* SPDX-License-Identifier: ISC */
/* multiply_q5_k.c - products with weights in the layout F_Q5_K. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_q5_k, struct dev_product) { multiply_few(F_Q5_K, &a); }
KERNEL(many16_q5_k, struct dev_product) { multiply_many(F_Q5_K, &a, 1); }
KERNEL(many32_q5_k, struct dev_product) { multiply_many(F_Q5_K, &a, 2); }
KERNEL(many64_q5_k, struct dev_product) { multiply_many(F_Q5_K, &a, 4); }
