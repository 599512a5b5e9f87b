/* SPDX-License-Identifier: ISC */
/* json.h - numbers of the JSON files of a hub, which stay as they are written. */
#ifndef QWEN_HUB_JSON_H
#define QWEN_HUB_JSON_H

#include <stdint.h>
#include <yyjson.h>

/* 0, or -1 if v (which may be NULL) is no such number; f64: none that f32 has. */
int qwen_hub_u64(yyjson_val *v, uint64_t *out);
int qwen_hub_f64(yyjson_val *v, double *out);

#endif
