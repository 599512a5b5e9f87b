/* SPDX-License-Identifier: ISC */
/* kv.c - names of KV cache types. */
#include <string.h>

#include "base/kv.h"

static const char *const names[QWEN_KV_N] = { "f16", "q8_0", "q4_0",
	"f32" };

const char *
qwen_kv_name(enum qwen_kv kv)
{
	return (unsigned)kv < QWEN_KV_N ? names[kv] : NULL;
}

int
qwen_kv_parse(enum qwen_kv *out, const void *s, size_t n)
{
	int i;

	for (i = 0; i < QWEN_KV_N; i++) {
		if (n == strlen(names[i]) && memcmp(s, names[i], n) == 0) {
			*out = (enum qwen_kv)i;
			return 0;
		}
	}
	return -1;
}
