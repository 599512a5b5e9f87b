/* SPDX-License-Identifier: ISC */
/* json.h - numbers in JSON files, which keep their text form. */
#ifndef QWEN_HUB_JSON_H
#define QWEN_HUB_JSON_H

#include <stdint.h>
#include <yyjson.h>

#include "base/text.h"

/*
 * Parse a number.  Return 0, or -1 if v (may be NULL) is not such a number;
 * f64: also if it is too large for f32.
 */
int qwen_hub_u64(yyjson_val *v, uint64_t *out);
int qwen_hub_f64(yyjson_val *v, double *out);

/* Returns a JSON field that is a string, or NULL. */
static inline const char *
qwen_hub_str(yyjson_val *object, const char *key)
{
	return yyjson_get_str(yyjson_obj_get(object, key));
}

#endif
