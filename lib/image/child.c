/* SPDX-License-Identifier: ISC */
/* child.c - runs a decoder in a child process. */
#include <sys/types.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/child.h"

/* What the child writes first, if the job succeeds before the pixels. */
struct reply {
	struct qwen_err	err;		/* code 0: none */
	size_t		width, height;
};

/* --------------------------------------------------------------- the child */

static void
put(int fd, const void *p, size_t n)
{
	const char *s = p;
	ssize_t k;

	for (; n > 0; s += k, n -= (size_t)k) {
		if ((k = write(fd, s, n)) <= 0)
			_exit(1);
	}
}

static void __attribute__((noreturn))
run_child(int fd, qwen_image_job *job, void *arg,
    const struct qwen_image_child *limits)
{
	struct qwen_pixels p = { 0 };
	struct reply r = { .err = { 0 } };
	int rc;

	rc = qwen_image_confine(fd, limits->memory,
	    limits->timeout_ms / 1000 + 1) == -1 ? qwen_fail_errno(&r.err,
	    "cannot give up privileges for decoding") : job(&p, arg, &r.err);
	if (rc < 0) {
		put(fd, &r, sizeof r);
		_exit(0);
	}
	r = (struct reply){ .width = p.width, .height = p.height };
	put(fd, &r, sizeof r);
	put(fd, p.rgb, p.width * p.height * 3);
	_exit(0);
}

/* -------------------------------------------------------------- the parent */

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Read n bytes: 1; 0 if the child ended before, -1 after the deadline. */
static int
take(int fd, void *to, size_t n, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char *s = to;
	int64_t left;
	ssize_t k;

	for (; n > 0; s += k, n -= (size_t)k) {
		if ((left = deadline - now_ms()) <= 0)
			return -1;
		k = 0;
		if (poll(&p, 1, (int)left) < 1)
			continue;	/* a signal, or no time is left */
		if ((k = read(fd, s, n)) == 0)
			return 0;
		if (k == -1)
			k = 0;
	}
	return 1;
}

/* Read the child's answer: 1; 0 and -1 as take(); -2 with *err set. */
static int
take_reply(struct qwen_pixels *out, int fd, int64_t deadline,
    struct qwen_err *err)
{
	struct reply r;
	size_t bytes;
	int rc = take(fd, &r, sizeof r, deadline);

	if (rc < 1)
		return rc;
	/* a decoder that was taken over may have written anything */
	r.err.msg[sizeof r.err.msg - 1] = '\0';
	if (r.err.code != 0) {
		qwen_fail(err, r.err.code, "%s", r.err.msg);
		return -2;
	}
	if (r.height == 0 || r.width == 0 ||
	    r.width > QWEN_IMAGE_PIXELS_MAX / r.height ||
	    qwen_mul(r.width * r.height, 3, &bytes) < 0) {
		qwen_fail(err, QWEN_EFORMAT, "its decoder gave an impossible "
		    "size: the file is damaged or hostile");
		return -2;
	}
	if ((out->rgb = malloc(bytes)) == NULL) {
		qwen_oom(err);
		return -2;
	}
	out->width = r.width;
	out->height = r.height;
	return take(fd, out->rgb, bytes, deadline);
}

/* Say why there is no answer. */
static int
fail_child(int rc, int status, unsigned timeout_ms, struct qwen_err *err)
{
	if (rc == -1 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU))
		return qwen_fail(err, QWEN_ERANGE, "not decoded after %u s: the "
		    "image is too large, or made to take long",
		    timeout_ms / 1000);
	if (WIFSIGNALED(status))
		return qwen_fail(err, QWEN_EFORMAT, "its decoder crashed "
		    "(signal %d): the file is damaged or hostile",
		    WTERMSIG(status));
	return qwen_fail(err, QWEN_EFORMAT, "its decoder ended without a "
	    "result: the file is damaged or hostile");
}

static int
await_child(struct qwen_pixels *out, pid_t pid, int fd, unsigned timeout_ms,
    struct qwen_err *err)
{
	int rc = take_reply(out, fd, now_ms() + timeout_ms, err), status = 0;

	/* after all of its answer, the child has nothing left to do; if it has
	   ended, its status stays */
	kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	if (rc == 1)
		return 0;
	qwen_pixels_fini(out);
	return rc == -2 ? -1 : fail_child(rc, status, timeout_ms, err);
}

int
qwen_image_in_child(struct qwen_pixels *out, qwen_image_job *job, void *arg,
    const struct qwen_image_child *limits, struct qwen_err *err)
{
	pid_t pid;
	int fd[2], rc;

	*out = (struct qwen_pixels){ 0 };
	if (pipe(fd) == -1)
		return qwen_fail_errno(err, "no pipe to a process for decoding");
	(void)fcntl(fd[0], F_SETFD, FD_CLOEXEC);
	(void)fcntl(fd[1], F_SETFD, FD_CLOEXEC);
	if ((pid = fork()) == 0)
		run_child(fd[1], job, arg, limits);
	close(fd[1]);
	rc = pid == -1 ? qwen_fail_errno(err, "no process for decoding") :
	    await_child(out, pid, fd[0], limits->timeout_ms, err);
	close(fd[0]);
	return rc;
}
