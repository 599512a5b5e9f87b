/* SPDX-License-Identifier: ISC */
/* mem.c - checked sizes and aligned allocation. */
#include <string.h>

#include "base/mem.h"

void *
qwen_alloc(size_t n, size_t size)
{
	size_t bytes;
	void *p;

	if (qwen_mul(n, size, &bytes) < 0 || bytes > SIZE_MAX - 64)
		return NULL;
	bytes = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
	if (posix_memalign(&p, 64, bytes) != 0)
		return NULL;
	memset(p, 0, bytes);
	return p;
}
