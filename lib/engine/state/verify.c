/* SPDX-License-Identifier: ISC */
/*
 * verify.c - checks whether a file is complete and valid.  A valid file is
 * checked on several threads; errors are reported by reading the file as a
 * stream, so that the message always names the first bad block.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/err.h"
#include "base/pool.h"
#include "engine/state/read.h"

/* Bytes that make another thread worthwhile. */
enum { THREAD_BYTES = 1 << 20 };

int
qwen_state_threads(int n_threads, uint64_t bytes)
{
	uint64_t most = bytes / THREAD_BYTES + 1;

	if (n_threads <= 0)
		n_threads = qwen_cpu_count();
	return (uint64_t)n_threads < most ? n_threads : (int)most;
}

/* Checks a seekable file: 0 if it is complete and valid. */
static int
check(int fd, int n_threads, struct qwen_err *err)
{
	struct qwen_state_file *f;
	struct qwen_pool *pool;
	int own = dup(fd), r;

	if (own < 0)
		return qwen_fail_errno(err, "cannot open it");
	if (qwen_state_open_fd(&f, own, err) < 0)
		return -1;
	if (qwen_pool_new(&pool, n_threads, err) < 0) {
		qwen_state_close(f);
		return -1;
	}
	r = qwen_state_check_blocks(f, pool, err);
	qwen_pool_free(pool);
	qwen_state_close(f);
	return r;
}

/*
 * Reads block after block up to a bad one. bytes is the file's length, 0 for a
 * pipe.
 */
static int
read_all(int fd, uint64_t bytes, struct qwen_err *err)
{
	struct qwen_state_reader v = { .decode_all = 1, .bytes = bytes };
	int r = qwen_state_read_through(&v, NULL, fd, err);

	qwen_state_reader_fini(&v);
	return r;
}

int
qwen_state_verify_fd(int fd, int n_threads, struct qwen_err *err)
{
	int r = -1;
	struct qwen_err first = { .code = QWEN_EIO }, second;
	uint64_t bytes = 0;
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		bytes = (uint64_t)st.st_size;
		r = check(fd, qwen_state_threads(n_threads, bytes), &first);
	}
	if (r < 0)
		r = read_all(fd, bytes, &second);
	/*
	 * of a file saved in steps, only the index knows which blocks are the
	 * state's
	 */
	if (r < 0 && err != NULL)
		*err = second.code == QWEN_EUNSUP && first.code != QWEN_EIO ?
		    first : second;
	/* only the index, which a stream reader does not use, is bad */
	if (r == 0 && first.code != QWEN_EIO && first.code != QWEN_ENOMEM) {
		if (err != NULL)
			*err = first;
		r = -1;
	}
	return r;
}

int
qwen_state_verify(const char *path, int n_threads, struct qwen_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return qwen_fail_errno(err, "cannot open it");
	r = qwen_state_verify_fd(fd, n_threads, err);
	close(fd);
	return r;
}
