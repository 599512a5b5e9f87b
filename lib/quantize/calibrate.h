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
	double		 weight;	/* growth of the KL divergence per unit
					   of error */
	size_t		 group;		/* for calibrate.c */
};

/*
 * Measures the weights of n trials with the text in p's options.  Runs the model
 * once for each kind of tensor and quarter of the layers.
 */
int qwen_quantize_calibrate(struct qwen_quantize *p,
    struct quantize_trial *trial, size_t n, struct qwen_err *err);

#endif
