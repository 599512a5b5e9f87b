/* SPDX-License-Identifier: ISC */
/* one_q2_k.c - one row by weights in the layout F_Q2_K. */
#include "engine/cuda/kernel/one.h"

KERNEL(one_q2_k, struct dev_product) { multiply_one(F_Q2_K, &a); }
