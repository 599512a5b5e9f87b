/* SPDX-License-Identifier: ISC */
/* k4.h - what blocks of Q4_K and Q5_K share: d, dmin, eight 6-bit scales and
 * minimums. */
#include "engine/kernel/arm/dot.h"

#define SUB 32			/* weights under an integer scale */
#define HAS_MIN 1
#define D_AT 0
#define DMIN_AT 2

AI int16x8_t
widen8(uint32_t lo, uint32_t hi)
{
	return vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(lo |
	    (uint64_t)hi << 32)));
}

AI void
scales(const unsigned char *p, int16x8_t *scale, int16x8_t *min)
{
	uint32_t u[3];

	memcpy(u, p + 4, sizeof u);
	scale[0] = widen8(u[0] & 0x3f3f3f3f, (u[2] & 0x0f0f0f0f) |
	    (u[0] >> 2 & 0x30303030));
	*min = widen8(u[1] & 0x3f3f3f3f, (u[2] >> 4 & 0x0f0f0f0f) |
	    (u[1] >> 2 & 0x30303030));
}
