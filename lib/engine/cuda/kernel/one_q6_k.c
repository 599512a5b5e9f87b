/* SPDX-License-Identifier: ISC */
/* one_q6_k.c - one row by weights in the layout F_Q6_K. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q6_k, struct dev_product) { multiply_one(F_Q6_K, &a); }
