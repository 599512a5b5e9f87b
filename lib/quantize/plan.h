/* SPDX-License-Identifier: ISC */
/* plan.h - inside of a file that is planned. */
#ifndef QWEN_QUANTIZE_PLAN_H
#define QWEN_QUANTIZE_PLAN_H

#include "base/pool.h"
#include "base/text.h"
#include "gguf/write.h"
#include "quantize/merge.h"
#include "quantize/quantize.h"

struct quantize_item {
	const struct qwen_gguf_tensor *t;
	uint32_t	 type;		/* that it gets */
	int		 weighted;	/* by the importance matrix */
	int		 open;		/* no pattern says its type */
	int		 changed;	/* adapters add to it */
};

struct qwen_quantize {
	const struct qwen_gguf	*in;
	struct qwen_quantize_opts opts;
	size_t			 recipe;
	uint32_t		 file_type;	/* general.file_type */
	unsigned		 cpu;
	struct qwen_pool	*pool;
	struct quantize_item	*item;
	size_t			 n;
	struct qwen_text	*note;
	size_t			 n_notes, cap_notes;
	struct qwen_gguf_writer	*w;
	struct quantize_merge	*merge;		/* of adapters, or NULL */
	struct qwen_gguf_tensor	 head;		/* that was tied */
};

/* Do all tensors keep their formats? */
static inline int
qwen_quantize_keeps(const struct qwen_quantize *p)
{
	return p->opts.recipe == NULL && p->opts.size == 0;
}

/* The format of each tensor. */
int qwen_quantize_plan(struct qwen_quantize *p, struct qwen_err *err);

/* The same of those that are open, so that the file has opts.size bytes. */
int qwen_quantize_fit(struct qwen_quantize *p, struct qwen_err *err);

/*
 * Tensors in other formats, or as they are, a few rows at a time: put is called
 * with the bytes in order.  The memory is kept from one to the next.
 */
struct quantize_pass;
typedef int quantize_put(void *arg, const void *data, size_t n,
    struct qwen_err *err);
struct quantize_pass *qwen_quantize_pass_new(struct qwen_quantize *p,
    quantize_put *put, void *arg, struct qwen_err *err);
int qwen_quantize_tensor(struct quantize_pass *s,
    const struct quantize_item *it, uint32_t type, struct qwen_err *err);
void qwen_quantize_pass_free(struct quantize_pass *s);

/* One more note. */
int qwen_quantize_add_note(struct qwen_quantize *p, struct qwen_err *err,
    const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
