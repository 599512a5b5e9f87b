/* SPDX-License-Identifier: ISC */
/* qwen/machine.h - measured speed of this machine. */
#ifndef QWEN_QWEN_MACHINE_H
#define QWEN_QWEN_MACHINE_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The best rates measured with n_threads threads, each per second. */
struct qwen_machine {
	int	n_threads;
	size_t	bytes;		/* size of the buffer read */
	double	read;		/* bytes loaded from memory */
	double	copy;		/* bytes copied by memcpy, each counted once */
	double	int8;		/* multiply-adds of 8 bits into 32 */
	double	f32;		/* fused multiply-adds in f32 */
	char	variant[16];	/* instruction set, "avx512vnni" */
	char	int8_op[24];	/* its instruction, "VPDPBUSD zmm" */
};

/*
 * Measures all figures: the best of the rounds made in the given seconds per
 * figure (0: a tenth of a second).  n_threads 0: one per processor. cpu:
 * highest level to use, or NULL.  QWEN_ERANGE if seconds is not 0 to 3600.
 * While it runs it uses 256 MiB of memory, or four times the last-level cache
 * if that is more.
 */
int qwen_machine_measure(struct qwen_machine *out, int n_threads,
    const char *cpu, double seconds, struct qwen_err *err);

/*
 * What a card does in a second, each figure as the best of what was tried; 0:
 * unknown.
 */
struct qwen_card_speed {
	char	name[96];
	int	number;
	double	peak;		/* bytes of its memory, by clock and width */
	double	memory;		/* bytes that copies in its memory read and write */
	double	put, get;	/* bytes to the card and from it, in memory that
				   the system does not move ("pinned") */
	double	put_pageable, get_pageable;	/* in other memory */
	double	launches, graph_launches;	/* of kernels, singly and in a
						   graph */
	double	int8;		/* multiply-adds of the product by Q4_K weights */
};

/*
 * Measures the cards of a list of devices, as in struct qwen_model_opts, whose
 * other items do not count; "auto" is all cards.  Writes up to max elements and
 * their number to *n.  It takes about a second a card.  -1: QWEN_ERANGE if the
 * text names no device, and errors of cards.
 */
int qwen_card_measure(struct qwen_card_speed *out, size_t max, size_t *n,
    const char *device, struct qwen_err *err);

/* Speed of one kernel variant for a weight format and a number of tokens. */
struct qwen_tune_row {
	uint32_t	 type;		/* see qwen_ggml_name() */
	size_t		 tokens;
	const char	*variant;	/* instruction set, "avx512vnni" */
	double		 macs;		/* multiply-adds per second of one
					   thread */
	int		 chosen;
};

/*
 * Measures all variants that this processor has, for all formats, in numerics
 * version 1, and writes the best to the tuning file at path (see struct
 * qwen_model_opts); path may be NULL.  Calls row for each measurement.
 * QWEN_ENOMEM.
 */
int qwen_tune_measure(const char *path, void (*row)(void *arg,
    const struct qwen_tune_row *r), void *arg, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
