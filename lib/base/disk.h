/* SPDX-License-Identifier: ISC */
/* disk.h - how much of a disk a cache takes without a limit by the user. */
#ifndef QWEN_DISK_H
#define QWEN_DISK_H

#include <stdint.h>

/*
 * Sets *most to a tenth of the file system of a folder, at least 1, and *room to
 * its free bytes.  Returns -1 if they are unknown.
 */
int qwen_disk_share(const char *dir, uint64_t *most, uint64_t *room);

/*
 * Returns the limit in bytes of a cache in this folder, which takes `total'
 * bytes now: a tenth of the file system, or half of what the cache and free
 * space have together if that is less; 0: unknown.
 */
uint64_t qwen_disk_limit(const char *dir, uint64_t total);

#endif
