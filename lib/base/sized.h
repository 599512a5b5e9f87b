/* SPDX-License-Identifier: ISC */
/* sized.h - structs of callers, which may know fewer members, or more. */
#ifndef QWEN_BASE_SIZED_H
#define QWEN_BASE_SIZED_H

#include "qwen/base.h"

/*
 * Copy the caller's struct of size bytes to one of known bytes, with zeroes for
 * what it lacks.  -1 with QWEN_ERANGE if size is 0, or with QWEN_EUNSUP if it
 * is longer and something is set there; function is for the message.
 */
int qwen_sized(void *own, size_t known, const void *from, size_t size,
    const char *function, struct qwen_err *err);

/*
 * The same for the pointer x, an argument: afterwards it points to the copy own,
 * unless it is NULL.
 */
#define QWEN_SIZED(x, own, size, err) \
	((x) == NULL ? 0 : qwen_sized(&(own), sizeof(own), x, size, \
	    __func__, err) < 0 ? -1 : ((x) = &(own), 0))

#endif
