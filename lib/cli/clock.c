/* SPDX-License-Identifier: ISC */
/* clock.c - the time; by itself, so that a test can have one of its own. */
#include <time.h>

#include "cli/cli.h"

double
cli_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
