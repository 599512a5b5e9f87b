/* SPDX-License-Identifier: ISC */
/* sized.h - structs of callers built for older or newer library versions. */
#ifndef QWEN_BASE_SIZED_H
#define QWEN_BASE_SIZED_H

#include "qwen/base.h"

/*
 * Copies the caller's struct of size bytes to own, a struct of known bytes;
 * missing members become zero.  Returns 0; -1 with QWEN_ERANGE if size is 0,
 * with QWEN_EUNSUP if the struct is longer and the extra bytes are not zero.
 * function is named in the message.
 */
int qwen_sized(void *own, size_t known, const void *from, size_t size,
    const char *function, struct qwen_err *err);

/*
 * The same for an argument x, a pointer: makes it point to the copy own, unless
 * it is NULL.
 */
#define QWEN_SIZED(x, own, size, err) \
	((x) == NULL ? 0 : qwen_sized(&(own), sizeof(own), x, size, \
	    __func__, err) < 0 ? -1 : ((x) = &(own), 0))

#endif
