/* SPDX-License-Identifier: ISC */
/* multiply_iq4_xs.c - products with weights in the layout F_IQ4_XS. */
#include "engine/cuda/kernel/multiply.h"

KERNEL(few_iq4_xs, struct dev_product) { multiply_few(F_IQ4_XS, &a); }
KERNEL(many16_iq4_xs, struct dev_product) { multiply_many(F_IQ4_XS, &a, 1); }
KERNEL(many32_iq4_xs, struct dev_product) { multiply_many(F_IQ4_XS, &a, 2); }
KERNEL(many64_iq4_xs, struct dev_product) { multiply_many(F_IQ4_XS, &a, 4); }
