/* SPDX-License-Identifier: ISC */
/* tune.h - which of two variants is faster here: measured once, then known. */
#ifndef QWEN_KERNEL_TUNE_H
#define QWEN_KERNEL_TUNE_H

#include "base/text.h"
#include "engine/kernel/kernel.h"
#include "qwen/machine.h"

/*
 * All products of many tokens in 8 bits that serve so many of them, the higher
 * rank first; how many.
 */
size_t qwen_kernel_rivals(const struct qwen_quant *q, unsigned features,
    size_t n_tok, const struct qwen_kernel **out, size_t max);

struct qwen_tuning {
	struct qwen_kernels	*k;	/* to be changed */
	unsigned		 features;
	const unsigned char	*used;	/* [QT_N] formats, or NULL: all */
	const char		*path;	/* of what was found before; or NULL */
	int			 anew;	/* all variants are measured */
	void	(*row)(void *arg, const struct qwen_tune_row *r);	/* or NULL */
	void			*arg;
};

/*
 * Take the variants for many tokens that are fastest, by the file.  What it does
 * not have is measured, some milliseconds a format, where variants by AMX and
 * others both serve, and added to the file.  -1 if memory is short: then some may
 * be as they were.
 */
int qwen_tune(const struct qwen_tuning *t);

/*
 * n_cores or n_all threads, by the same file, where n_all processors share fewer
 * cores; measured, in a tenth of a second, where the file does not say.
 */
int qwen_tune_threads(const char *path, unsigned features, int n_cores,
    int n_all);

/* Seconds of the best of three rounds; one before them fills the caches. */
double qwen_tune_best(void (*fn)(void *arg), void *arg);

/*
 * All of the file, if it is one of ours; else just what it begins with.  And to
 * write it: if it cannot be, the next process measures again.
 */
void qwen_tune_load(const char *path, struct qwen_text *t);
void qwen_tune_save(const char *path, const struct qwen_text *t);

#endif
