/* SPDX-License-Identifier: ISC */
/* json.h - numbers in JSON files, which keep their text form. */
#ifndef QWEN_HUB_JSON_H
#define QWEN_HUB_JSON_H

#include <stdint.h>
#include <yyjson.h>

/*
 * Parse a number.  Return 0, or -1 if v (may be NULL) is not such a number;
 * f64: also if it is too large for f32.
 */
int qwen_hub_u64(yyjson_val *v, uint64_t *out);
int qwen_hub_f64(yyjson_val *v, double *out);

#endif
