/* SPDX-License-Identifier: ISC */
/* convert.c - converts the KV blocks of a file to other types. */
#include <string.h>

#include "base/err.h"
#include "engine/state/save.h"

/* Sets the shapes of a layer's blocks before and after conversion. */
static void
shapes(const struct qwen_save *v, int64_t layer,
    const struct qwen_state_layer **from, const struct qwen_state_layer **to)
{
	*from = layer < 0 ? &v->convert->mtp : &v->convert->layer[layer];
	*to = layer < 0 ? &v->mtp.layer : &v->layer[layer];
}

/* Returns the number of blocks of a layer for the first v->to tokens. */
static uint64_t
wanted(const struct qwen_save *v, int64_t layer)
{
	uint64_t first;

	return layer < 0 ? qwen_state_mtp_blocks(&v->mtp, 0, v->to, &first) :
	    (v->to + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK;
}

int
qwen_convert_record(struct qwen_save *v, size_t i)
{
	const struct qwen_state_entry *e = &v->f->list.entry[i];
	const struct qwen_state_layer *from, *to;
	uint64_t size, first, n, all;
	struct qwen_save_piece *t;

	shapes(v, e->layer, &from, &to);
	size = qwen_state_kv_block(from);
	if (e->off % size != 0 || e->len % size != 0)
		return qwen_fail(v->err, QWEN_EUNSUP, "its KV blocks of %llu "
		    "bytes are split", (unsigned long long)size);
	first = e->off / size;
	n = e->len / size;
	all = wanted(v, e->layer);
	if (first >= all)
		return 0;
	n = n < all - first ? n : all - first;
	size = qwen_state_kv_block(to);
	if ((t = qwen_save_add_piece(v, e->kind, e->layer, e->at, first * size,
	    (size_t)(n * size))) == NULL)
		return -1;
	t->file = v->f;
	t->record = i;
	return 0;
}

int
qwen_convert_blocks(const struct qwen_save *v, const struct qwen_save_piece *t,
    const unsigned char *raw, unsigned char *out, struct qwen_kv_loss loss[2],
    struct qwen_err *err)
{
	struct qwen_kv_convert c = { .vec = v->convert->c.vec };
	const struct qwen_state_layer *from, *to;
	size_t size, i, n;

	shapes(v, t->layer, &from, &to);
	c.from = qwen_state_kv_shape(from);
	c.to = qwen_state_kv_shape(to);
	size = (size_t)qwen_state_kv_block(to);
	n = (size_t)qwen_state_kv_block(from);
	for (i = 0; i < t->n / size; i++) {
		if (qwen_kv_convert(&c, out + i * size, raw + i * n, err) < 0)
			return -1;
	}
	memcpy(loss, c.loss, sizeof c.loss);
	return 0;
}

void
qwen_convert_done(struct qwen_save *v, const struct qwen_kv_loss loss[2])
{
	int i;

	for (i = 0; i < 2; i++) {
		v->convert->c.loss[i].lost += loss[i].lost;
		v->convert->c.loss[i].all += loss[i].all;
	}
}
