/* SPDX-License-Identifier: ISC */
/*
 * header.c - the header of a model's streams.  By itself, so that who only
 * computes needs nothing of lib/wire.
 */
#include "engine/net/lora.h"
#include "engine/timeline/timeline.h"
#include "wire/record.h"

static int
add_adapters(struct qwen_header *h, const struct qwen_model *m,
    struct qwen_err *err)
{
	const struct qwen_fp *fp;
	size_t i;

	if (qwen_loras_n(&m->net) == 0)
		return 0;
	if (qwen_loras_fingerprints(&m->net, qwen_adapter_fingerprint, &fp, err) < 0)
		return -1;
	for (i = 0; i < qwen_loras_n(&m->net); i++)
		qwen_header_add_adapter(h, &fp[i],
		    qwen_loras_get(&m->net, i)->scale);
	return 0;
}

int
qwen_model_header(struct qwen_header *h, const struct qwen_model *m,
    enum qwen_stream_kind kind, struct qwen_err *err)
{
	if (qwen_header_init(h, kind, m->net.gguf, err) < 0)
		return -1;
	h->numerics = m->net.numerics;
	h->k = m->net.hp.k;
	h->v = m->net.hp.v;
	h->rope = m->net.hp.rope;
	return add_adapters(h, m, err);
}

int
qwen_model_mtp_fp(const struct qwen_model *m, struct qwen_fp *out,
    struct qwen_err *err)
{
	struct qwen_header h;

	if (qwen_header_init(&h, QWEN_STREAM_STATE, m->net.mtp.side != NULL ?
	    m->net.mtp.side : m->net.gguf, err) < 0)
		return -1;
	*out = h.model;
	return 0;
}
