/* SPDX-License-Identifier: ISC */
/* err.h - how library functions report errors. */
#ifndef QWEN_BASE_ERR_H
#define QWEN_BASE_ERR_H

#include "qwen/base.h"

/*
 * Fills *err (which may be NULL) and returns -1. fmt says what is wrong, where,
 * and what to do: no program name, no newline.  Non-printing bytes are masked,
 * since names come from files.
 */
int qwen_fail(struct qwen_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* qwen_fail with QWEN_ENOMEM, "out of memory". */
int qwen_oom(struct qwen_err *err);

/* qwen_fail with code QWEN_EIO; appends ": " and the text of errno. */
int qwen_fail_errno(struct qwen_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Prepends "prefix: " to the message in *err.  Returns -1. */
int qwen_fail_in(struct qwen_err *err, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
