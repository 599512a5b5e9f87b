/* SPDX-License-Identifier: ISC */
/* cgroup.h - the control groups of Linux that this process is in. */
#ifndef QWEN_BASE_CGROUP_H
#define QWEN_BASE_CGROUP_H

#include <stdint.h>

/*
 * Calls fn with the folder of each control group that limits a controller
 * ("memory", "cpu"): the process's own group and its ancestors. v1 is 1 if the
 * files are those of version 1 of control groups.  Calls nothing if there are
 * no control groups or they cannot be read.
 */
void qwen_cgroup_each(const char *controller,
    void (*fn)(void *arg, const char *folder, int v1), void *arg);

/*
 * Returns the number after word at the beginning of a line of the file
 * folder/file; other if there is no such file, line or number ("max").
 */
uint64_t qwen_number_in(const char *folder, const char *file,
    const char *word, uint64_t other);

#endif
