/* SPDX-License-Identifier: ISC */
/* attention.h - the part of attention between its products. */
#ifndef QWEN_CUDA_ATTENTION_H
#define QWEN_CUDA_ATTENTION_H

#include "engine/cuda/cuda.h"

/*
 * Appends the keys and values of all rows, which are in IN, and sets O to what
 * the wanted rows' queries attend to; numbers of IN change.  block is where the
 * layer's part of a slot begins, in bytes.
 */
void qwen_cuda_attend(struct qwen_cuda_work *w,
    const struct qwen_cuda_layer *l, size_t block);

#endif
