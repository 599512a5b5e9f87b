/* SPDX-License-Identifier: ISC */
/* one_q8_0.c - one row by weights in the layout F_Q8_0. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q8_0, struct dev_product) { multiply_one(F_Q8_0, &a); }
