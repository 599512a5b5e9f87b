/* SPDX-License-Identifier: ISC */
/* forward.h - layers of a batch. */
#ifndef QWEN_CPU_FORWARD_H
#define QWEN_CPU_FORWARD_H

#include "engine/cpu/cpu.h"

/*
 * Adds out to x, if that is pending, and norms x to xn with weights w. place is
 * that of x, as in qwen_note_bad.
 */
void qwen_batch_norm(struct qwen_batch *b, const float *w, size_t place);

/* Takes the rows of p, which is b's, through layers first .. first + n - 1. */
void qwen_batch_layers(struct qwen_batch *b, struct qwen_pass *p, size_t first,
    size_t n);

#endif
