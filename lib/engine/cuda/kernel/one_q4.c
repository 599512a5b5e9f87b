/* SPDX-License-Identifier: ISC */
/* one_q4.c - one row by weights in the layout F_Q4. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q4, struct dev_product) { multiply_one(F_Q4, &a); }
