/* SPDX-License-Identifier: ISC */
/* ptx.h - the kernels, as text for the driver. */
#ifndef QWEN_CUDA_PTX_H
#define QWEN_CUDA_PTX_H

#include <stddef.h>

#include "qwen.h"

/*
 * The PTX of all files of kernel/: the name of each, without its suffix, and its
 * text, each ended by a zero.
 */
struct qwen_cuda_ptx {
	char	*text;		/* NULL: not unpacked so far */
	size_t	 bytes;
};

/*
 * Unpacks the PTX, unless it is.  -1 without memory, or if the library was built
 * without kernels.  The caller frees p->text.
 */
int qwen_cuda_ptx_unpack(struct qwen_cuda_ptx *p, struct qwen_err *err);

/*
 * Makes of the PTX that of cards of compute capability 9.0 and newer, whose launches
 * can begin before the one before has ended.
 */
void qwen_cuda_ptx_overlap(struct qwen_cuda_ptx *p);

/* Returns the PTX of a file of kernel/, or NULL. */
const char *qwen_cuda_ptx_find(const struct qwen_cuda_ptx *p,
    const char *module);

#endif
