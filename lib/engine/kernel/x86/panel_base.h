/* SPDX-License-Identifier: ISC */
/* panel_base.h - what panels of any width need. */
#ifndef QWEN_KERNEL_PANEL_BASE_H
#define QWEN_KERNEL_PANEL_BASE_H

#include <immintrin.h>
#include <string.h>

#include "engine/kernel/ahead.h"
#include "engine/kernel/kernel.h"

#define PI static inline __attribute__((always_inline, unused))

/* For loops that index arrays of registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* gcc would make a tree of a chain of sums, which takes more registers. */
#define IN_ORDER(sum) __asm__("" : "+x"(sum))

#endif
