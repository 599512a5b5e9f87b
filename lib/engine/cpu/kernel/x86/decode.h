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
	switch (type) {
	case QT_Q2_K:
		decode_q2_k(p, u);
		break;
	case QT_Q3_K:
		decode_q3_k(p, u);
		break;
	case QT_Q6_K:
		decode_q6_k(p, u);
		break;
	case QT_IQ4_XS:
		decode_iq4_xs(p, u);
		break;
	case QT_TQ1_0:
		decode_tq1_0(p, u);
		break;
	case QT_TQ2_0:
		decode_tq2_0(p, u);
		break;
	default:
		decode_grid(type, p, u);
	}
}

#endif
