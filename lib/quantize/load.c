/* SPDX-License-Identifier: ISC */
/* load.c - converts the matrices of a file in memory. */
#include <stdlib.h>

#include "base/err.h"
#include "engine/quant/quant.h"
#include "gguf/gguf.h"
#include "quantize/plan.h"

/*
 * Allows only F32, F16 and BF16 to be converted: smaller formats have lost
 * precision.
 */
static int
check_plain(const struct qwen_quantize *p, struct qwen_err *err)
{
	const struct quantize_item *it;
	size_t i;

	for (i = 0; i < p->n; i++) {
		it = &p->item[i];
		if (it->type == it->t->type || it->t->type == QT_F32 ||
		    it->t->type == QT_F16 || it->t->type == QT_BF16)
			continue;
		return qwen_fail(err, QWEN_EUNSUP, "%s is %s; only F32, F16 "
		    "and BF16 weights can become %s at load time: use this "
		    "file as it is", it->t->name, qwen_ggml_name(it->t->type),
		    p->opts.recipe);
	}
	return 0;
}

/* Sets *made to the bytes to be made; -1 with *err if more than `most'. */
static int
add_up(const struct qwen_quantize *p, const struct qwen_gguf *out,
    uint64_t most, uint64_t *made, struct qwen_err *err)
{
	size_t i;

	*made = 0;
	for (i = 0; i < p->n; i++) {
		if (p->item[i].type != p->item[i].t->type)
			*made += out->dir.v[i].t.bytes;
	}
	if (*made > most)
		return qwen_fail(err, QWEN_ENOMEM, "out of memory: the weights "
		    "need %.1f GiB, %.1f GiB are free", (double)*made / 0x1p30,
		    (double)most / 0x1p30);
	return 0;
}

/* Makes the tensors that change; the others stay in the file. */
static int
make_tensors(struct qwen_quantize *p, struct qwen_gguf *out,
    struct qwen_err *err)
{
	struct quantize_pass *s = qwen_quantize_pass_new(p, -1, err);
	void *to;
	size_t i;
	int rc = s == NULL ? -1 : 0;

	for (i = 0; i < p->n && rc == 0; i++) {
		const struct quantize_item *it = &p->item[i];
		struct qwen_gguf_tensor *t = &out->dir.v[i].t;

		if (it->type == it->t->type) {
			t->data = it->t->data;
			t->part = it->t->part;
			continue;
		}
		to = qwen_gguf_room(out, i, (size_t)t->bytes, err);
		rc = to == NULL ? -1 : qwen_quantize_tensor(s, it, it->type,
		    to, (size_t)t->bytes, err);
	}
	qwen_quantize_pass_free(s);
	return rc;
}

static void
release(void *arg)
{
	qwen_gguf_close(arg);
}

int
qwen_quantize_load(struct qwen_gguf **out, struct qwen_gguf *in,
    const struct qwen_quantize_opts *opts, uint64_t most, uint64_t *made,
    struct qwen_err *err)
{
	struct qwen_quantize *p;
	int rc;

	*out = NULL;
	*made = 0;
	if (qwen_quantize_new(&p, in, opts, err) < 0)
		return -1;
	rc = check_plain(p, err) < 0 || qwen_gguf_open_head(out,
	    qwen_gguf_path(in, 0), p->w, err) < 0 ||
	    add_up(p, *out, most, made, err) < 0 ? -1 :
	    make_tensors(p, *out, err);
	qwen_quantize_free(p);
	if (rc < 0) {
		qwen_gguf_close(*out);
		*out = NULL;
		return -1;
	}
	(*out)->release = release;
	(*out)->arg = in;
	return 0;
}
