/* SPDX-License-Identifier: ISC */
/* table.c - memory for the hash tables. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "text/token/tok.h"

unsigned
qwen_table_bits(size_t n)
{
	unsigned bits = 6;

	while (((size_t)1 << bits) / 2 < n)
		bits++;
	return bits;
}

void *
qwen_table_alloc(size_t n, size_t size)
{
	const size_t huge = (size_t)2 << 20;
	size_t bytes;
	void *p;

	if (qwen_mul(n, size, &bytes) < 0)
		return NULL;
	if (bytes < huge)
		return calloc(n, size);
	if (posix_memalign(&p, huge, bytes) != 0)
		return NULL;
#ifdef MADV_HUGEPAGE
	(void)madvise(p, bytes, MADV_HUGEPAGE);
#endif
	memset(p, 0, bytes);
	return p;
}
