/* SPDX-License-Identifier: ISC */
/* map.c - regular files mapped into memory. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/err.h"
#include "base/map.h"

/* O_NONBLOCK: opening a FIFO must not wait for a writer. */
int
qwen_map_file(const void **p, size_t *bytes, const char *path, struct qwen_err *err)
{
	struct stat st;
	void *map = NULL;
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), rc = -1;

	*p = NULL;
	*bytes = 0;
	if (fd < 0)
		return qwen_fail_errno(err, "%s", "cannot open");
	if (fstat(fd, &st) < 0)
		qwen_fail_errno(err, "%s", "cannot stat");
	else if (!S_ISREG(st.st_mode))
		qwen_fail(err, QWEN_EIO, "not a regular file");
	else if ((uintmax_t)st.st_size > SIZE_MAX)
		qwen_fail(err, QWEN_EUNSUP, "too large for this machine's "
		    "addresses: %jd bytes", (intmax_t)st.st_size);
	else if (st.st_size > 0 && (map = mmap(NULL, (size_t)st.st_size,
	    PROT_READ, MAP_SHARED, fd, 0)) == MAP_FAILED)
		qwen_fail_errno(err, "%s", "cannot map");
	else {
		*p = map;
		*bytes = (size_t)st.st_size;
		rc = 0;
	}
	close(fd);
	return rc;
}

void
qwen_unmap_file(const void *p, size_t bytes)
{
	if (bytes > 0)
		munmap((void *)(uintptr_t)p, bytes);
}
