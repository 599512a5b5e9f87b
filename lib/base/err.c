/* SPDX-License-Identifier: ISC */
/* err.c - error messages. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* Names come from hostile files: keep control bytes off the terminal. */
static void
mask(char *s)
{
	for (; *s != '\0'; s++) {
		if ((unsigned char)*s < 0x20 || *s == 0x7f)
			*s = '?';
	}
}

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
	mask(err->msg);
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
	mask(err->msg);
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
	mask(err->msg);
	return -1;
}
