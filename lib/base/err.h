/* SPDX-License-Identifier: ISC */
/* err.h - how a library function reports what went wrong. */
#ifndef QWEN_BASE_ERR_H
#define QWEN_BASE_ERR_H

#include "qwen/base.h"

/*
 * Fill *err (which may be NULL) and return -1.  fmt says what and where: no
 * program name, no newline.  Bytes that do not print are masked, since names
 * come from files.
 */
int qwen_fail(struct qwen_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* qwen_fail with QWEN_ENOMEM, "out of memory". */
int qwen_oom(struct qwen_err *err);

/* qwen_fail with ": " and the text of errno at the end; code QWEN_EIO. */
int qwen_fail_errno(struct qwen_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Put "prefix: " in front of a message already there. Returns -1. */
int qwen_fail_in(struct qwen_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
