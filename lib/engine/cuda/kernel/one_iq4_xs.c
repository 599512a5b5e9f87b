/* SPDX-License-Identifier: ISC */
/* one_iq4_xs.c - one row by weights in the layout F_IQ4_XS. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_iq4_xs, struct dev_product) { multiply_one(F_IQ4_XS, &a); }
