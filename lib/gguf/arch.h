/* SPDX-License-Identifier: ISC */
/*
 * arch.h - the architectures: what their layers are made of, and their names in
 * files.
 */
#ifndef QWEN_GGUF_ARCH_H
#define QWEN_GGUF_ARCH_H

#include "qwen/base.h"
#include "qwen/gguf.h"

struct qwen_arch {
	const char	*name;		/* general.architecture */
	const char	*ffn_norm;	/* name of the FFN norm's tensor */
	const char	*pre;		/* the usual pre-tokenizer */
	const char	*hf_class;	/* beginning of its classes in
					   config.json, */
	const char	*hf_type;	/* and its model_type there */
	int		 hybrid;	/* DeltaNet in most layers, attention is
					   gated */
	int		 grouped;	/* value heads of DeltaNet that share a
					   key head are neighbours, if the file
					   has no key for it; else they are
					   tiled */
	int		 no_qk_norm;	/* q and k have biases, but no norms */
	int		 sections;	/* RoPE in sections */
	int		 moe;		/* experts instead of one MLP */
	int		 shared;	/* plus a shared expert */
	int		 share_of_all;	/* weights of experts: softmax over all
					   experts, not only the chosen ones */
	int		 vision;	/* text part of a vision model */
	int		 ranks;		/* some of its models are rerankers */
};

/* Returns row i, or NULL after the last; or the row of a name, or NULL. */
const struct qwen_arch *qwen_arch_row(size_t i);
const struct qwen_arch *qwen_arch_find(struct qwen_str name);

/*
 * Returns the architecture of a file; NULL with *err if the file names none, or
 * one that is not supported.
 */
const struct qwen_arch *qwen_arch_of(const struct qwen_gguf *g,
    struct qwen_err *err);

#endif
