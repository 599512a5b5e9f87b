/* SPDX-License-Identifier: ISC */
/* deltanet.h - the parts of DeltaNet: deltanet.c, delta_rule.c. */
#ifndef QWEN_CPU_DELTANET_H
#define QWEN_CPU_DELTANET_H

#include "engine/cpu/cpu.h"

struct qwen_deltanet_pass {
	struct qwen_batch	*b;
	const struct qwen_layer	*l;
	struct qwen_delta_row	 row;	/* of mix.in */
	size_t			 per_share;	/* items of one session */
};

/* Finds alpha (later the decay) and beta of a value head in a row. */
void qwen_find_gates(const struct qwen_hparams *h, const struct qwen_layer *l,
    const struct qwen_delta_row *row, size_t head, size_t *alpha,
    size_t *beta);

/*
 * The convolution, in place in mix.in, and the delta rule, from there to mix.o:
 * both update the states.  qwen_delta_note notes the row of a
 * draft in the journal, after the rule.
 */
void qwen_delta_conv(struct qwen_deltanet_pass *p);
void qwen_delta_rule(struct qwen_deltanet_pass *p);
void qwen_delta_note(const struct qwen_deltanet_pass *p, size_t t);

#endif
