/* SPDX-License-Identifier: ISC */
/* one_q4_k.c - one row by weights in the layout F_Q4_K. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q4_k, struct dev_product) { multiply_one(F_Q4_K, &a); }
