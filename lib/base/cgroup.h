/* SPDX-License-Identifier: ISC */
/* cgroup.h - the control groups of Linux that this process is in. */
#ifndef QWEN_BASE_CGROUP_H
#define QWEN_BASE_CGROUP_H

#include <stdint.h>

/*
 * Call fn with the folder of each group that limits what the controller shares
 * out ("memory", "cpu"): the process's own, and those that it is in.  v1 says
 * that its files are those of the first version of control groups.  Where there
 * are no control groups, or it cannot be read of them, fn is not called.
 */
void qwen_cgroup_each(const char *controller,
    void (*fn)(void *arg, const char *folder, int v1), void *arg);

/*
 * The number after a word at the beginning of a line of a file, whose path is
 * folder and file put together; other without such a file or line, and where no
 * number is there, as for "max".
 */
uint64_t qwen_number_in(const char *folder, const char *file,
    const char *word, uint64_t other);

#endif
