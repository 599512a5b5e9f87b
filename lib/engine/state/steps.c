/* SPDX-License-Identifier: ISC */
/*
 * steps.c - saving a session repeatedly to one file: data that never changes
 * (keys and values of complete blocks, and data of positions) stays in the
 * records of earlier saves; everything else is appended.
 */
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/write.h"

struct qwen_state_steps {
	struct qwen_state_list	 list;		/* entries of the last save */
	uint64_t		 n_tokens;	/* tokens of the last save */
	uint64_t		 bytes;		/* length of the file */
	uint64_t		 used;		/* bytes used by the last
						   save */
	uint64_t		 first;		/* first slot of the MTP
						   block */
};

int
qwen_state_steps_new(struct qwen_state_steps **out, struct qwen_err *err)
{
	*out = qwen_alloc(1, sizeof **out);
	return *out != NULL ? 0 : qwen_oom(err);
}

void
qwen_state_steps_forget(struct qwen_state_steps *p)
{
	free(p->list.entry);
	*p = (struct qwen_state_steps){ 0 };
}

void
qwen_state_steps_free(struct qwen_state_steps *p)
{
	if (p != NULL)
		qwen_state_steps_forget(p);
	free(p);
}

uint64_t
qwen_state_steps_bytes(const struct qwen_state_steps *p)
{
	return p->bytes;
}

int
qwen_state_steps_worn(const struct qwen_state_steps *p)
{
	return p->bytes > 2 * p->used;
}

/* Returns the bytes of complete MTP blocks after n tokens. */
static uint64_t
mtp_bytes(const struct qwen_save *v, uint64_t n)
{
	uint64_t first, end = n > 0 ? (n - 1) / QWEN_KV_BLOCK : 0;

	qwen_state_blocks(&v->lay, QWEN_K_MTP_KV, &first);
	return v->steps->first != v->lay.mtp.first || end <= first ? 0 :
	    (end - first) * qwen_state_kv_block(&v->lay.mtp.layer);
}

/* Returns 1 if the data of the piece has not changed since n tokens. */
static int
is_unchanged(const struct qwen_save *v, const struct qwen_save_piece *t,
    uint64_t n)
{
	switch (t->kind) {
	case QWEN_K_TOKENS:
		return t->off + t->n <= n * sizeof(int32_t);
	case QWEN_K_KV:
		return t->off + t->n <= n / QWEN_KV_BLOCK *
		    qwen_state_kv_block(&v->lay.info.layers[t->layer]);
	case QWEN_K_MTP_KV:
		return t->off + t->n <= mtp_bytes(v, n);
	case QWEN_K_DELTA:
	case QWEN_K_CONV:
	case QWEN_K_LOGITS:
	case QWEN_K_HIDDEN:
		return (uint64_t)t->pos <= n;
	default:
		return 0;
	}
}

/* Both lists have the same order, so the next entry is usually the match. */
const struct qwen_state_entry *
qwen_steps_find(struct qwen_save *v, const struct qwen_save_piece *t)
{
	const struct qwen_state_list *l = &v->steps->list;
	const struct qwen_state_entry *e;
	size_t i;

	if (!is_unchanged(v, t, v->steps->n_tokens))
		return NULL;
	for (i = 0; i < l->n; i++) {
		e = &l->entry[(v->at_step + i) % l->n];
		if (e->kind == t->kind && e->layer == t->layer &&
		    e->at == t->pos && e->off == t->off && e->len == t->n) {
			v->at_step = (v->at_step + i + 1) % l->n;
			return e;
		}
	}
	return NULL;
}

void
qwen_steps_done(struct qwen_save *v)
{
	struct qwen_state_steps *p = v->steps;
	size_t i;

	qwen_state_steps_forget(p);
	p->list = v->list;
	v->list = (struct qwen_state_list){ 0 };
	p->n_tokens = v->lay.info.n_tokens;
	p->first = v->lay.mtp.first;
	p->bytes = v->counts.bytes;
	for (i = 0; i < p->list.n; i++)
		p->used += p->list.entry[i].bytes;
}
