/* SPDX-License-Identifier: ISC */
/* layout.c - rows of weights, from the file's layout to that of the kernels. */
#include <string.h>

#include "engine/cuda/kernel/product.h"
#include "engine/cuda/layout.h"

enum qwen_cuda_layout
qwen_cuda_layout_of(const struct qwen_weight *w)
{
	switch (w->quant->kind) {
	case QWEN_QUANT_FLOAT:
		return QWEN_CUDA_FLOATS;
	case QWEN_QUANT_SUPER:
		return QWEN_CUDA_SUPER;
	default:
		return QWEN_CUDA_BLOCK;
	}
}

static size_t
block_bytes(const struct qwen_weight *w)
{
	return qwen_cuda_layout_of(w) == QWEN_CUDA_SUPER ?
	    sizeof(struct dev_super) :
	    DEV_BLOCK_BYTES(w->quant->span, w->quant->has_min);
}

uint64_t
qwen_cuda_row_bytes(const struct qwen_weight *w)
{
	uint64_t n = w->n_in;

	if (qwen_cuda_layout_of(w) == QWEN_CUDA_FLOATS)
		return (n * w->quant->block_bytes + 15) / 16 * 16;
	return (n + QWEN_GROUP - 1) / QWEN_GROUP * block_bytes(w);
}

/* Scales and minimums of all formats fit in a byte (quant/formats.h). */
static void
lay_super(const struct qwen_unpacked *u, unsigned char *to)
{
	struct dev_super s = { .d = u->d[0], .m = u->m[0] };
	int i;

	memcpy(s.w, u->w, sizeof s.w);
	for (i = 0; i < 16; i++) {
		s.scale[i] = (s8)u->scale[i];
		s.min[i] = (u8)u->min[i];
	}
	memcpy(to, &s, sizeof s);
}

static void
lay_block(const struct qwen_quant *q, const struct qwen_unpacked *u,
    unsigned char *to)
{
	size_t n = QWEN_GROUP / q->span * sizeof(float);

	memcpy(to, u->w, QWEN_GROUP);
	memcpy(to + QWEN_GROUP, u->d, n);
	if (q->has_min)
		memcpy(to + QWEN_GROUP + n, u->m, n);
}

void
qwen_cuda_lay(const struct qwen_weight *w, const unsigned char *from,
    unsigned char *to)
{
	const struct qwen_quant *q = w->quant;
	size_t bytes = (size_t)qwen_cuda_row_bytes(w), i, n;
	struct qwen_unpacked u;

	memset(to, 0, bytes);
	if (q->kind == QWEN_QUANT_FLOAT) {
		memcpy(to, from, w->n_in * q->block_bytes);
		return;
	}
	for (i = 0; i < w->n_in; i += n) {
		n = w->n_in - i < QWEN_GROUP ? w->n_in - i : QWEN_GROUP;
		memset(&u, 0, sizeof u);
		qwen_quant_unpack(q, from, n, &u);
		if (q->kind == QWEN_QUANT_SUPER)
			lay_super(&u, to);
		else
			lay_block(q, &u, to);
		from += n / q->block_len * q->block_bytes;
		to += block_bytes(w);
	}
}
