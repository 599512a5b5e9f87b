/* SPDX-License-Identifier: ISC */
/* child.h - a decoder in a process of its own, which can do nothing else. */
#ifndef QWEN_IMAGE_CHILD_H
#define QWEN_IMAGE_CHILD_H

#include "image/image.h"

/* What runs in the child; as all functions, it fails with -1 and *err. */
typedef int qwen_image_job(struct qwen_pixels *out, void *arg,
    struct qwen_err *err);

struct qwen_image_child {
	size_t		 memory;	/* bytes that the child may add to what
					   this process has */
	unsigned	 timeout_ms;	/* then it is killed */
};

/*
 * Runs a job in a child process and returns its result.  The child reads this
 * process's memory as it was when the child began.  The child has no open files
 * except a pipe to this process, to which it writes the result.  It gets no
 * signal handlers, and few resources (setrlimit(2)).  On Linux, x86-64 and
 * arm64, a seccomp filter fails all system calls except those for memory, for
 * writing to the pipe and for exiting.
 *
 * Besides the job's own errors: the child crashed, took too long, or there is
 * no process for it.
 */
int qwen_image_in_child(struct qwen_pixels *out, qwen_image_job *job, void *arg,
    const struct qwen_image_child *limits, struct qwen_err *err);

/*
 * For the child: gives up everything except memory and writing to fd.  Fails
 * with -1 and errno.
 */
int qwen_image_confine(int fd, size_t memory, unsigned seconds);

#endif
