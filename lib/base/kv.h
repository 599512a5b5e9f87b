/* SPDX-License-Identifier: ISC */
/* kv.h - the kinds of keys and values by what they are called. */
#ifndef QWEN_BASE_KV_H
#define QWEN_BASE_KV_H

#include <stddef.h>

#include "qwen/base.h"

/* What the n bytes at s name; -1: nothing. */
int qwen_kv_parse(enum qwen_kv *out, const void *s, size_t n);

#endif
