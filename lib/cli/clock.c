/* SPDX-License-Identifier: ISC */
/* clock.c - the clock, in its own file, so that a test can replace it. */
#include <time.h>

#include "cli/cli.h"

double
cli_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
