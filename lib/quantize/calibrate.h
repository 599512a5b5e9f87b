/* SPDX-License-Identifier: ISC */
/* calibrate.h - how much a model minds errors of its tensors, by a text. */
#ifndef QWEN_QUANTIZE_CALIBRATE_H
#define QWEN_QUANTIZE_CALIBRATE_H

#include "quantize/plan.h"

/* A tensor in a format of few bits. */
struct quantize_trial {
	const struct quantize_item *it;
	uint32_t	 type;
	uint64_t	 bytes;
	double		 error;		/* of the format, there */
};

/*
 * By the text in p's options: weight[i] is how much the KL divergence grows with
 * one unit of the error of trial i.  Runs the model once for each kind of tensor
 * and quarter of the layers.
 */
int qwen_quantize_calibrate(struct qwen_quantize *p,
    const struct quantize_trial *trial, size_t n, double *weight,
    struct qwen_err *err);

#endif
