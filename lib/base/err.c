/* SPDX-License-Identifier: ISC */
/* err.c - error messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

int
qwen_fail(struct qwen_err *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return -1;
	err->code = code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	qwen_utf8_mask(err->msg);
	return -1;
}

int
qwen_oom(struct qwen_err *err)
{
	return qwen_fail(err, QWEN_ENOMEM, "out of memory");
}

int
qwen_fail_errno(struct qwen_err *err, const char *fmt, ...)
{
	int saved = errno;
	size_t n;
	va_list ap;

	if (err == NULL)
		return -1;
	err->code = saved == EPIPE ? QWEN_EPIPE :
	    saved == ENOMEM ? QWEN_ENOMEM : QWEN_EIO;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof err->msg - n, "%s%s", n > 0 ? ": " : "",
	    saved == ENOMEM ? "out of memory" : strerror(saved));
	qwen_utf8_mask(err->msg);
	return -1;
}

int
qwen_fail_in(struct qwen_err *err, const char *fmt, ...)
{
	char old[sizeof err->msg];
	size_t n;
	va_list ap;

	if (err == NULL)
		return -1;
	memcpy(old, err->msg, sizeof old);
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof err->msg, fmt, ap);
	va_end(ap);
	n = strlen(err->msg);
	snprintf(err->msg + n, sizeof err->msg - n, ": %s", old);
	qwen_utf8_mask(err->msg);
	return -1;
}
