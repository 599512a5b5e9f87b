/* SPDX-License-Identifier: ISC */
/* map.h - a regular file as memory. */
#ifndef QWEN_BASE_MAP_H
#define QWEN_BASE_MAP_H

#include <stddef.h>

#include "qwen/base.h"

/*
 * Map the file at path to read it: *p and *bytes, until
 * qwen_unmap_file(*p, *bytes).
 * An empty file is NULL and 0.
 */
int qwen_map_file(const void **p, size_t *bytes, const char *path,
    struct qwen_err *err);
void qwen_unmap_file(const void *p, size_t bytes);

#endif
