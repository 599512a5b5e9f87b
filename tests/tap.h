/* SPDX-License-Identifier: ISC */
/* tap.h - Test Anything Protocol for the C tests: ok(cond, "what %d", x). */
#ifndef TAP_H
#define TAP_H

#include <stdarg.h>
#include <stdio.h>

static int tap_n, tap_failed;

static inline int __attribute__((format(printf, 2, 3), unused))
ok(int cond, const char *fmt, ...)
{
	va_list ap;

	printf("%sok %d - ", cond ? "" : "not ", ++tap_n);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
	tap_failed += !cond;
	return cond;
}

static inline void __attribute__((unused))
skip(const char *what, const char *why)
{
	printf("ok %d - %s # SKIP %s\n", ++tap_n, what, why);
}

static inline int
done_testing(void)
{
	printf("1..%d\n", tap_n);
	fflush(stdout);
	return tap_failed != 0;
}

#endif
