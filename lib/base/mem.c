/* SPDX-License-Identifier: ISC */
/* mem.c - checked sizes and aligned allocation. */
#include <sys/mman.h>

#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#define HUGE_PAGE ((size_t)2 << 20)
#define ANY_PAGE ((size_t)1 << 16)	/* a multiple of every page size */

int
qwen_grow(void *array, size_t *cap, size_t n, size_t size)
{
	size_t more, bytes;
	void *p;

	if (n <= *cap)
		return 0;
	if (qwen_add(n, n / 2 + 8, &more) < 0 || qwen_mul(more, size, &bytes) < 0)
		return -1;
	/* the pointer may be of any type: its bytes are copied */
	memcpy(&p, array, sizeof p);
	if ((p = realloc(p, bytes)) == NULL)
		return -1;
	memcpy(array, &p, sizeof p);
	*cap = more;
	return 0;
}

void *
qwen_push(void *array, size_t *cap, size_t *n, size_t size,
    struct qwen_err *err)
{
	char *p;

	if (qwen_grow(array, cap, *n + 1, size) < 0) {
		qwen_oom(err);
		return NULL;
	}
	memcpy(&p, array, sizeof p);
	p += size * (*n)++;
	return memset(p, 0, size);
}

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

/* A hint: if the system ignores it, the pages are small. */
static void
want_huge(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	(void)madvise(p, bytes, MADV_HUGEPAGE);
#else
	(void)p;
	(void)bytes;
#endif
}

void *
qwen_alloc_large(size_t n, size_t size)
{
	size_t bytes, align = 64;
	void *p;

	if (qwen_mul(n, size, &bytes) < 0 || bytes > SIZE_MAX - HUGE_PAGE)
		return NULL;
	bytes = bytes == 0 ? 64 : bytes;
	/* a mostly unused last huge page would cost more than it saves */
	if (bytes >= 2 * HUGE_PAGE)
		align = HUGE_PAGE;
	if (posix_memalign(&p, align, bytes) != 0)
		return NULL;
	if (align == HUGE_PAGE)
		want_huge(p, bytes - bytes % HUGE_PAGE);
	return p;
}

/*
 * Maps more than needed, so that the first byte can be at a huge page border,
 * and unmaps the rest.
 */
void *
qwen_map_zero(size_t bytes)
{
	size_t room = bytes < HUGE_PAGE ? 0 : HUGE_PAGE, skip;
	char *p;

	if (bytes == 0 || bytes > SIZE_MAX - 2 * HUGE_PAGE)
		return NULL;
	bytes = (bytes + ANY_PAGE - 1) / ANY_PAGE * ANY_PAGE;
	p = mmap(NULL, bytes + room, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	if (room == 0)
		return p;
	skip = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
	if (skip > 0)
		munmap(p, skip);
	if (room > skip)
		munmap(p + skip + bytes, room - skip);
	want_huge(p + skip, bytes);
	return p + skip;
}

void
qwen_unmap(void *p, size_t bytes)
{
	if (p != NULL)
		munmap(p, (bytes + ANY_PAGE - 1) / ANY_PAGE * ANY_PAGE);
}

void
qwen_give_back(void *p, size_t bytes)
{
#ifdef MADV_DONTNEED
	size_t skip = (ANY_PAGE - (uintptr_t)p % ANY_PAGE) % ANY_PAGE;

	if (bytes < skip + ANY_PAGE)
		return;
	bytes -= skip;
	(void)madvise((char *)p + skip, bytes - bytes % ANY_PAGE,
	    MADV_DONTNEED);
#else
	(void)p;
	(void)bytes;
#endif
}
