/* SPDX-License-Identifier: ISC */
/* map.h - regular files mapped into memory. */
#ifndef QWEN_BASE_MAP_H
#define QWEN_BASE_MAP_H

#include <stddef.h>

#include "qwen/base.h"

/*
 * Maps the file at path read-only: *p and *bytes, valid until
 * qwen_unmap_file(*p, *bytes).  An empty file gives NULL and 0.
 */
int qwen_map_file(const void **p, size_t *bytes, const char *path,
    struct qwen_err *err);
void qwen_unmap_file(const void *p, size_t bytes);

#endif
