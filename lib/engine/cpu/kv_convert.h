/* SPDX-License-Identifier: ISC */
/* kv_convert.h - keys and values of one type as those of another. */
#ifndef QWEN_CPU_KV_CONVERT_H
#define QWEN_CPU_KV_CONVERT_H

#include "engine/quant/kv.h"
#include "qwen.h"

struct qwen_vec;

/*
 * Converts keys and values to another type (kv_convert.c), not a more precise
 * one. dst is a block of type `to'; all its 16 positions are written.
 */
struct qwen_kv_convert {
	struct qwen_kv_shape	 from, to;
	const struct qwen_vec	*vec;
	struct qwen_kv_loss {
		double	lost, all;	/* sums of squares: of errors, of
					   numbers */
	}			 loss[2];	/* of keys, of values */
};

void qwen_kv_convert_init(struct qwen_kv_convert *c);
int qwen_kv_convert(struct qwen_kv_convert *c, void *dst, const void *src,
    struct qwen_err *err);

#endif
