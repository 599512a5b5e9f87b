/* SPDX-License-Identifier: ISC */
/* probe.h - twelve independent chains, more than any multiplier needs. */
#ifndef QWEN_KERNEL_X86_PROBE_H
#define QWEN_KERNEL_X86_PROBE_H

enum { CHAINS = 12, ROUNDS = 8 };

#define TWELVE(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) \
	DO(9) DO(10) DO(11)
/* What the compiler must take for unknown, though no instruction changes it. */
#define UNKNOWN(x) __asm__ volatile("" : "+v"(x))

#endif
