/* SPDX-License-Identifier: ISC */
/* probe_amx.c - how fast tiles multiply; the rest is that of AVX-512. */
#include "engine/cpu/kernel/x86/amx.h"
#include "engine/cpu/kernel/x86/probe.h"

enum { TILES = 8 };

/* Four sums, of two tiles by two; all tiles 16 by 64. */
static uint64_t
int8(size_t n)
{
	struct amx_config c;
	int32_t ones[16][16] __attribute__((aligned(64)));
	int i;

	memset(&c, 0, sizeof c);
	c.palette = 1;
	for (i = 0; i < TILES; i++) {
		c.rows[i] = 16;
		c.colsb[i] = 64;
	}
	memset(ones, 1, sizeof ones);
	amx_config(&c);
	amx_load(4, ones, 64);
	amx_load(5, ones, 64);
	amx_load(6, ones, 64);
	amx_load(7, ones, 64);
	while (n-- > 0) {
		for (i = 0; i < ROUNDS; i++) {
			amx_dpbssd(0, 4, 6);
			amx_dpbssd(1, 4, 7);
			amx_dpbssd(2, 5, 6);
			amx_dpbssd(3, 5, 7);
		}
	}
	amx_store(0, ones, 64);
	amx_release();
	return (uint64_t)ones[0][0];
}

static const struct qwen_probe probe = {
	.int8_op = "TDPBSSD", .read = read_all,
	.int8 = int8, .int8_macs = (size_t)4 * ROUNDS * 16 * 16 * 64,
	.f32 = f32, .f32_macs = 16 * CHAINS * ROUNDS,
};

const struct qwen_kernel AMX_KERNELS(probe_amx)[] = {
	{ .op = QWEN_OP_PROBE, .type = QWEN_ANY_TYPE, AMX_SET,
	    .run.probe = &probe },
	{ 0 }
};
