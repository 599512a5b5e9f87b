/* SPDX-License-Identifier: ISC */
/* panel256_q5_k.h - panels of Q5_K in 256-bit registers. */
#define BLOCK_BYTES 176
#define MOST 4			/* 8 * 31 * 127 = 31496 */
#include "engine/kernel/x86/panel256_k4.h"
#include "engine/kernel/x86/unpack256_q5_k.h"
