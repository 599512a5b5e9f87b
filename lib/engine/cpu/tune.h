/* SPDX-License-Identifier: ISC */
/*
 * tune.h - which of two variants is faster on this machine: measured once, then
 * stored.
 */
#ifndef QWEN_CPU_TUNE_H
#define QWEN_CPU_TUNE_H

#include "base/text.h"
#include "engine/cpu/kernel/kernel.h"
#include "qwen/machine.h"

/*
 * Fills out with all variants for 8-bit products of n_tok tokens, the highest
 * rank first; returns their number.
 */
size_t qwen_kernel_rivals(const struct qwen_quant *q, unsigned features,
    size_t n_tok, const struct qwen_kernel **out, size_t max);

struct qwen_tuning {
	struct qwen_kernels	*k;	/* to be changed */
	unsigned		 features;
	const unsigned char	*used;	/* [QT_N] formats, or NULL: all */
	const char		*path;	/* file of earlier results; or NULL */
	int			 anew;	/* measure all variants again */
	/* reports a result; may be NULL */
	void	(*row)(void *arg, const struct qwen_tune_row *r);
	void			*arg;
};

/*
 * Selects the fastest variants for many tokens, by the file.  If AMX and other
 * variants serve a format and the file has no result, measures them, which
 * takes some milliseconds per format, and adds the result to the file.  Returns
 * -1 without memory; then some variants may be unchanged.
 */
int qwen_tune(const struct qwen_tuning *t);

/*
 * Returns n_cores or n_all threads, whichever is faster by the same file; n_all
 * processors share n_cores cores.  Measures for a tenth of a second if the file
 * has no result.
 */
int qwen_tune_threads(const char *path, unsigned features, int n_cores,
    int n_all);

/*
 * Returns the seconds of the best of three rounds, after one that fills the
 * caches.
 */
double qwen_tune_best(void (*fn)(void *arg), void *arg);

/*
 * load reads the whole file, if it is a tuning file; else *t gets only the file
 * header. save writes it; errors are ignored, since the next process then
 * measures again.
 */
void qwen_tune_load(const char *path, struct qwen_text *t);
void qwen_tune_save(const char *path, const struct qwen_text *t);

#endif
