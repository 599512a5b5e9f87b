/* SPDX-License-Identifier: ISC */
/*
 * mtp.c - the MTP block's part of a state: the record "mtp", its keys and
 * values, and hidden states.  No logit depends on them: readers that do not
 * know these records, or whose model has another MTP block, ignore them.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/save.h"

enum { GROUP_BLOCKS = 16 };	/* KV blocks in a record */

int
qwen_state_mtp_read(struct qwen_state_reader *v,
    const struct qwen_state_rec *rec, const unsigned char *raw,
    struct qwen_err *err)
{
	(void)raw;
	return qwen_state_layout_mtp(&v->lay, rec, err);
}

int
qwen_state_mtp_write(struct qwen_save *v)
{
	const struct qwen_state_mtp *p = &v->mtp;

	if (!p->there)
		return 0;
	if (qwen_save_begin(v, v->kind) < 0)
		return -1;
	qwen_state_put_uint(&v->builder, "heads", p->layer.n[0]);
	qwen_state_put_uint(&v->builder, "size", p->layer.n[1]);
	qwen_state_put_uint(&v->builder, "embd", p->n_embd);
	qwen_state_put_uint(&v->builder, "first", p->first);
	qwen_state_put_bytes(&v->builder, "model", p->model.b,
	    sizeof p->model.b);
	qwen_state_put_bool(&v->builder, "skip", 1);
	return qwen_save_finish(v);
}

/* ---- keys and values */

uint64_t
qwen_state_mtp_kv_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer)
{
	uint64_t first;

	(void)layer;
	return qwen_state_mtp_blocks(&l->mtp, l->from, l->n_tokens, &first) *
	    qwen_state_kv_block(&l->mtp.layer);
}

void
qwen_state_mtp_copy_kv(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw)
{
	qwen_state_copy_blocks(p,
	    qwen_model_n_layer(qwen_session_model(p->s)), e, raw);
}

int
qwen_state_mtp_set_target(struct qwen_state_reader *v,
    const struct qwen_state_entry *e, struct qwen_state_target *p,
    struct qwen_err *err)
{
	size_t size = (size_t)qwen_state_kv_block(&v->lay.mtp.layer);
	uint64_t end;

	if (!qwen_state_mtp_fits(&v->lay.mtp, &v->mtp))
		return 0;
	p->stop = UINT64_MAX;
	qwen_state_mtp_blocks(&v->lay.mtp, 0, v->lay.n_tokens, &p->first);
	end = p->first + (e->off + e->len + size - 1) / size;
	return qwen_state_grow(v, (size_t)end, err) < 0 ? -1 : 1;
}

int
qwen_state_mtp_write_kv(struct qwen_save *v)
{
	size_t size = (size_t)qwen_state_kv_block(&v->mtp.layer);
	size_t group = GROUP_BLOCKS, base, step;
	uint64_t first, end;

	end = qwen_state_mtp_blocks(&v->mtp, v->from, v->to, &first);
	if (end == 0)
		return 0;
	if (v->f != NULL)
		return qwen_save_copy_records(v, QWEN_K_MTP_KV, QWEN_K_MTP_KV);
	while (group > 1 && group * size > QWEN_PIECE_MAX)
		group /= 2;
	end += first;
	for (base = (size_t)first; first < end; first += step) {
		step = group - (size_t)first % group;
		step = end - first < step ? (size_t)(end - first) : step;
		if (qwen_save_add_blocks(v, QWEN_K_MTP_KV, -1, size, base,
		    (size_t)first, step) < 0)
			return -1;
	}
	return 0;
}

/* ---- the hidden state at a position */

uint64_t
qwen_state_mtp_hidden_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer)
{
	(void)layer;
	return l->mtp.n_embd * sizeof(float);
}

void
qwen_state_mtp_copy_hidden(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw)
{
	memcpy((char *)p->hidden + e->off, raw, (size_t)e->len);
}
