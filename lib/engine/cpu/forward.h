/* SPDX-License-Identifier: ISC */
/* forward.h - layers of a batch. */
#ifndef QWEN_CPU_FORWARD_H
#define QWEN_CPU_FORWARD_H

#include "engine/cpu/cpu.h"

/* x += out, if that is pending; xn = norm(x) with weights w; see qwen_note_bad. */
void qwen_batch_norm(struct qwen_batch *b, const float *w, size_t place);

/* Takes the rows of p, which is b's, through layers first .. first + n - 1. */
void qwen_batch_layers(struct qwen_batch *b, struct qwen_pass *p, size_t first,
    size_t n);

#endif
