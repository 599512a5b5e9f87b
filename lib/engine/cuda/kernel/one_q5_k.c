/* SPDX-License-Identifier: ISC */
/* one_q5_k.c - one row by weights in the layout F_Q5_K. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q5_k, struct dev_product) { multiply_one(F_Q5_K, &a); }
