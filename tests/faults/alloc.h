/* SPDX-License-Identifier: ISC */
/* alloc.h - makes chosen allocations fail. */
#ifndef TESTS_FAULTS_ALLOC_H
#define TESTS_FAULTS_ALLOC_H

#include <stddef.h>
#include <stdint.h>

/*
 * Start recording allocations by their place: the chain of calls that led to
 * them.  The n-th allocation at the place `name' fails, and all later ones if
 * and_all_after; n = 0: none fails.
 */
void fault_watch(uint64_t name, unsigned long n, int and_all_after);

/* Stop recording.  Return the number of allocations that were not freed. */
long fault_stop(void);

/*
 * List the recorded places and the number of allocations at each; return the
 * number of places.
 */
size_t fault_places(uint64_t *name, unsigned long *met, size_t most);

/* Print a comment line with the addresses of a place, for addr2line(1). */
void fault_print(uint64_t name);

#endif
