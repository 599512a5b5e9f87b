/* SPDX-License-Identifier: ISC */
/* multiply_super.c - products with weights in the layout F_SUPER. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_super, struct dev_product) { multiply_few(F_SUPER, &a); }
KERNEL(many16_super, struct dev_product) { multiply_many(F_SUPER, &a, 1); }
KERNEL(many32_super, struct dev_product) { multiply_many(F_SUPER, &a, 2); }
KERNEL(many64_super, struct dev_product) { multiply_many(F_SUPER, &a, 4); }
