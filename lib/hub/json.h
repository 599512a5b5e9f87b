/* SPDX-License-Identifier: ISC */
/* json.h - numbers of the JSON files of a hub, which stay as they are written. */
#ifndef QWEN_HUB_JSON_H
#define QWEN_HUB_JSON_H

#include <stdint.h>
#include <yyjson.h>

/* 0, or -1 if v (may be NULL) is no such number; f64: or is too large for f32. */
int qwen_hub_u64(yyjson_val *v, uint64_t *out);
int qwen_hub_f64(yyjson_val *v, double *out);

#endif
