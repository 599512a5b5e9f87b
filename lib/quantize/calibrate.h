/* SPDX-License-Identifier: ISC */
/* calibrate.h - measures how sensitive a model is to errors in its tensors. */
#ifndef QWEN_QUANTIZE_CALIBRATE_H
#define QWEN_QUANTIZE_CALIBRATE_H

#include "quantize/plan.h"

/* A tensor in a format with few bits. */
struct quantize_trial {
	const struct quantize_item *it;
	uint32_t	 type;
	uint64_t	 bytes;
	double		 error;		/* error of this format for it */
};

/*
 * Measures with the text in p's options: weight[i] is the growth of the KL
 * divergence per unit of error of trial i.  Runs the model once for each kind
 * of tensor and quarter of the layers.
 */
int qwen_quantize_calibrate(struct qwen_quantize *p,
    const struct quantize_trial *trial, size_t n, double *weight,
    struct qwen_err *err);

#endif
