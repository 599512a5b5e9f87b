/* SPDX-License-Identifier: ISC */
/* kv.h - names of KV cache types. */
#ifndef QWEN_BASE_KV_H
#define QWEN_BASE_KV_H

#include <stddef.h>

#include "qwen/base.h"

/* Parses the n bytes at s; returns 0, or -1 for an unknown name. */
int qwen_kv_parse(enum qwen_kv *out, const void *s, size_t n);

#endif
