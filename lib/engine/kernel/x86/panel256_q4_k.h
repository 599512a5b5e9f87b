/* SPDX-License-Identifier: ISC */
/* panel256_q4_k.h - panels of Q4_K in 256-bit registers. */
#define BLOCK_BYTES 144
#define MOST 8			/* 16 * 15 * 127 = 30480 */
#include "engine/kernel/x86/panel256_k4.h"
#include "engine/kernel/x86/unpack256_q4_k.h"
