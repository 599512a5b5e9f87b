/* SPDX-License-Identifier: ISC */
/*
 * decode.h - decodes a row's weights to bytes in the order of columns, and
 * their scales to integers, for each format.
 *
 * Weights have their format's bias added (formats.h), so they are unsigned.
 * Those with a bias of 128 stay signed, since instructions treat them
 * differently.
 */
#ifndef QWEN_KERNEL_DECODE_H
#define QWEN_KERNEL_DECODE_H

#include "engine/cpu/kernel/x86/decode_block.h"
#include "engine/cpu/kernel/x86/decode_grid.h"
#include "engine/cpu/kernel/x86/decode_k.h"

/* Decodes a group of a format with 256 weights per d. */
KERNEL_INLINE void
decode(uint32_t type, const unsigned char *p, struct group *u)
{
#define CASE(name, type_, ...)						\
	case type_:							\
		decode_##name(p, u);					\
		break;
	switch (type) {
	CASE(q6_k, QT_Q6_K)
	QWEN_K_FORMATS(CASE)
	default:
		decode_grid(type, p, u);
	}
#undef CASE
}

#endif
