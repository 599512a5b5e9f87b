/* SPDX-License-Identifier: ISC */
/*
 * formats.c - the constants of weight formats compiled into kernels agree with
 * lib/engine/quant, and no weight is outside the range that they state.
 */
#include <stdlib.h>
#include <string.h>

#include "../tap.h"
#include "engine/cpu/kernel/formats.h"
#include "random.h"

static int
same_layout(const struct qwen_traits *f, const struct qwen_quant *q)
{
	if (f->len != q->block_len || f->bytes != q->block_bytes ||
	    f->d_at != q->d_at || f->has_min != q->has_min ||
	    f->by_block != (q->kind == QWEN_QUANT_BLOCK))
		return 0;
	return f->by_block ? f->span == q->span : f->span == 16 ||
	    f->span == 32;
}

/* Random blocks: are weights, with the bias, within 0 .. most? */
static int
within(const struct qwen_traits *f, const struct qwen_quant *q, int *highest)
{
	unsigned char w[QWEN_GROUP * 2];
	struct qwen_unpacked u;
	size_t i, n, bytes = QWEN_GROUP / f->len * f->bytes;

	for (n = 0; n < 2000; n++) {
		for (i = 0; i < bytes; i++)
			w[i] = (unsigned char)random_u32();
		qwen_quant_unpack(q, w, QWEN_GROUP, &u);
		for (i = 0; i < QWEN_GROUP; i++) {
			int v = u.w[i] + f->bias;

			if (v < 0 || v > f->most)
				return 0;
			*highest = v > *highest ? v : *highest;
		}
		for (i = 0; i < 16 && !f->by_block; i++) {
			if ((u.scale[i] < 0 && !f->signed_scale) ||
			    (f->span == 32 && u.scale[i] != u.scale[i ^ 1]))
				return 0;
		}
	}
	return 1;
}

int
main(void)
{
	uint32_t type;

	for (type = 0; type < QT_N; type++) {
		const struct qwen_quant *q = qwen_quant_find(type);
		const struct qwen_traits *f = &qwen_traits[type];
		int highest = 0;

		if (q == NULL || q->kind == QWEN_QUANT_FLOAT) {
			ok(f->len == 0, "type %u: nothing known", type);
			continue;
		}
		ok(same_layout(f, q), "%s: layout as that of the format",
		    qwen_ggml_name(type));
		ok(within(f, q, &highest), "%s: weights are 0 .. %d",
		    qwen_ggml_name(type), f->most);
		ok(highest == f->most, "%s: up to the last",
		    qwen_ggml_name(type));
	}
	return done_testing();
}
