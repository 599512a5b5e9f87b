/* SPDX-License-Identifier: ISC */
/* qwen/machine.h - what this machine can do. */
#ifndef QWEN_QWEN_MACHINE_H
#define QWEN_QWEN_MACHINE_H

#include "qwen/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the machine does at best with so many threads, each a second. */
struct qwen_machine {
	int	n_threads;
	size_t	bytes;		/* of the buffer read */
	double	read;		/* bytes loaded from memory */
	double	copy;		/* bytes copied by memcpy, each counted once */
	double	int8;		/* multiply-adds of 8 bits into 32 */
	double	f32;		/* fused multiply-adds in f32 */
	char	variant[16];	/* instruction set, "avx512vnni" */
	char	int8_op[24];	/* its instruction, "VPDPBUSD zmm" */
};

/*
 * Measure it, for so many seconds for each figure (0: a tenth of one), the best
 * round of each.  n_threads 0: one for each processor; cpu: a level not to
 * exceed, or NULL.  QWEN_ERANGE if the seconds are not 0 to 3600.  Uses 256 MiB,
 * or four times the last cache if that is more, for as long as it runs.
 */
int qwen_machine_measure(struct qwen_machine *out, int n_threads,
    const char *cpu, double seconds, struct qwen_err *err);

/* How fast a variant multiplies so many tokens by weights of a format. */
struct qwen_tune_row {
	uint32_t	 type;		/* see qwen_ggml_name() */
	size_t		 tokens;
	const char	*variant;	/* instruction set, "avx512vnni" */
	double		 macs;		/* multiply-adds a second, of one thread */
	int		 chosen;
};

/*
 * Measure all variants of this processor for all formats, in version 1, and note
 * in the file which to choose from then on (struct qwen_model_opts); path may be
 * NULL.  row is called for each.  QWEN_ENOMEM.
 */
int qwen_tune_measure(const char *path, void (*row)(void *arg,
    const struct qwen_tune_row *r), void *arg, struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
