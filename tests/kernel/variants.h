/* SPDX-License-Identifier: ISC */
/*
 * variants.h - the kernels to test: all that are compiled in, and those that
 * exist for the tests alone, AMX on a software model of its tiles.
 */
#ifndef VARIANTS_H
#define VARIANTS_H

#include "kernel/kernel.h"

#if defined(__x86_64__)
#define MODELLED(k) extern const struct qwen_kernel k;
#include "modelled.inc"
#undef MODELLED
#endif

static const struct qwen_kernel *const modelled[] = {
#if defined(__x86_64__)
#define MODELLED(k) &k,
#include "modelled.inc"
#undef MODELLED
#endif
	NULL
};

#define N_MODELLED (sizeof modelled / sizeof modelled[0] - 1)

static inline size_t
variant_count(void)
{
	return qwen_kernel_count() + N_MODELLED;
}

static inline const struct qwen_kernel *
variant_get(size_t i)
{
	return i < qwen_kernel_count() ? qwen_kernel_get(i) :
	    modelled[i - qwen_kernel_count()];
}

#endif
