/* SPDX-License-Identifier: ISC */
/* one_q3_k.c - one row by weights in the layout F_Q3_K. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q3_k, struct dev_product) { multiply_one(F_Q3_K, &a); }
