/* SPDX-License-Identifier: ISC */
/* plan.h - internal: a planned quantised file. */
#ifndef QWEN_QUANTIZE_PLAN_H
#define QWEN_QUANTIZE_PLAN_H

#include "base/pool.h"
#include "base/text.h"
#include "gguf/write.h"
#include "quantize/merge.h"
#include "quantize/quantize.h"

/* A tensor of the file. */
struct quantize_item {
	const struct qwen_gguf_tensor *t;
	uint32_t	 type;		/* its new type */
	int		 weighted;	/* it has importance values */
	int		 open;		/* no pattern decides its type */
	int		 changed;	/* adapters change it */
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
	struct qwen_gguf_writer	*w;
	struct quantize_merge	*merge;		/* of adapters, or NULL */
	struct qwen_gguf_tensor	 head;		/* the tied output head */
};

/* Returns 1 if all tensors keep their formats. */
static inline int
qwen_quantize_keeps(const struct qwen_quantize *p)
{
	return p->opts.recipe == NULL && p->opts.size == 0;
}

/* Decides the format of each tensor. */
int qwen_quantize_plan(struct qwen_quantize *p, struct qwen_err *err);

/*
 * Decides the formats of open tensors so that the file has at most opts.size
 * bytes.
 */
int qwen_quantize_fit(struct qwen_quantize *p, struct qwen_err *err);

/*
 * Converts or copies tensors, a few rows at a time: into n bytes of memory at
 * `to', or if that is NULL into the file fd, as its next tensor.  The buffers of
 * a pass are reused from tensor to tensor.
 */
struct quantize_pass;
struct quantize_pass *qwen_quantize_pass_new(struct qwen_quantize *p, int fd,
    struct qwen_err *err);
int qwen_quantize_tensor(struct quantize_pass *s,
    const struct quantize_item *it, uint32_t type, void *to, size_t n,
    struct qwen_err *err);
void qwen_quantize_pass_free(struct quantize_pass *s);

#endif
