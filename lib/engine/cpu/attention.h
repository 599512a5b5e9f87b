/* SPDX-License-Identifier: ISC */
/* attention.h - the parts of attention: attention.c, kv_append.c, attend.c. */
#ifndef QWEN_CPU_ATTENTION_H
#define QWEN_CPU_ATTENTION_H

#include "engine/cpu/cpu.h"

struct qwen_attention_pass {
	const struct qwen_layer	*l;
	/*
	 * Where things are in a row of mix.in: from one head's query, and gate, to
	 * the next; keys; values.
	 */
	size_t			 q_step, k, v;
	size_t			 rep;	/* queries a key-value head serves */
	_Atomic uint64_t	*append_ns;	/* profiled: all of
						   qwen_kv_append() */
};

/*
 * Appends the keys and values of row t to the cache. Returns 0 if the cache has
 * integers and a number is NaN or infinite.
 */
int qwen_kv_append(const struct qwen_batch *b,
    const struct qwen_attention_pass *p, size_t t);

/* Computes mix.o, with the gates applied, from the queries in mix.in. */
void qwen_attend(struct qwen_batch *b, const struct qwen_attention_pass *p);

#endif
