/* SPDX-License-Identifier: ISC */
/* probe.h - registers of 256 or 512 bits for ../probe.h. */
#include "engine/cpu/kernel/x86/wide.h"

enum { CHAINS = 12 };

#define INT8_MACS sizeof(wide_i)
#define EACH_CHAIN TWELVE
#define UNKNOWN(x) __asm__ volatile("" : "+v"(x))

typedef wide_i vec_i;
typedef wide_f vec_f;

#ifdef INT8_OP
KERNEL_INLINE vec_i int8_step(vec_i s, vec_i a, vec_i b);
#endif

KERNEL_INLINE vec_f
f32_step(vec_f s, vec_f a, vec_f b)
{
	return MM(fmadd_ps)(s, a, b);
}

#include "engine/cpu/kernel/probe.h"
