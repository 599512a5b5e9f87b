/* SPDX-License-Identifier: ISC */
/* alloc.h - allocations that fail where a test wants them to. */
#ifndef TESTS_FAULTS_ALLOC_H
#define TESTS_FAULTS_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/*
 * From now on each allocation is noted by its place, the chain of calls that
 * led to it, and the n-th at the place of this name fails; none for n = 0.
 */
void fault_watch(uint64_t name, unsigned long n, int and_all_after);

/* No longer.  How many allocations are there that were not freed. */
long fault_stop(void);

/* The places met, and how often each was. */
size_t fault_places(uint64_t *name, unsigned long *met, size_t most);

/* A comment line with the addresses of a place, for addr2line(1). */
void fault_print(uint64_t name);

#endif
