/* SPDX-License-Identifier: ISC */
/* json.c - numbers in JSON files of a Hugging Face folder. */
#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "hub/json.h"

int
qwen_hub_u64(yyjson_val *v, uint64_t *out)
{
	const char *s = yyjson_get_raw(v);
	uint64_t n;

	if (s == NULL || qwen_digits(&s, &n) < 0)
		return -1;
	/* a whole number may be written as 10000000.0 */
	if (*s == '.') {
		while (*++s == '0')
			;
	}
	if (*s != '\0')
		return -1;
	*out = n;
	return 0;
}

int
qwen_hub_f64(yyjson_val *v, double *out)
{
	const char *s = yyjson_get_raw(v);
	char *end;

	if (s == NULL)
		return -1;
	*out = strtod(s, &end);
	return *end == '\0' && isfinite((float)*out) ? 0 : -1;
}
