/* SPDX-License-Identifier: ISC */
/*
 * image_child.c - what a decoder does that crashes, hangs, takes all memory or
 * was taken over, and that it costs its process only.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "image/child.h"

#include "../tap.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

enum { MEMORY = 64 << 20, TIMEOUT_MS = 5000 };

static volatile int here;	/* changed in the child only */

static int
give(struct qwen_pixels *out, size_t width, size_t height, uint8_t value)
{
	*out = (struct qwen_pixels){ malloc(width * height * 3), width, height };
	memset(out->rgb, value, width * height * 3);
	return 0;
}

static int
works(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	(void)err;
	here = 1;
	return give(out, 1000, 700, *(uint8_t *)arg);
}

static int
fails(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	(void)out;
	(void)arg;
	return qwen_fail(err, QWEN_EUNSUP, "this is why");
}

static int
crashes(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	static char *volatile nowhere;

	(void)out;
	(void)arg;
	(void)err;
	*nowhere = 0;
	return 0;
}

static int
exits(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	(void)out;
	(void)arg;
	(void)err;
	_exit(0);
}

static int
hangs(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	(void)out;
	(void)arg;
	(void)err;
	for (here = 1; here != 0; here = 1)
		;
	return 0;
}

/* Not even a part of what it asks for is there. */
static int
eats(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	size_t n, step = 1 << 20;
	char *p;

	(void)out;
	(void)arg;
	for (n = 0; n < 2 * MEMORY && (p = malloc(step)) != NULL; n += step)
		memset(p, 1, step);
	return n < MEMORY - 8 * step ? qwen_fail(err, QWEN_EIO, "too few") :
	    n > MEMORY ? qwen_fail(err, QWEN_EIO, "too many") : qwen_oom(err);
}

/* Fails with what it could do. */
static int
reaches(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	const char *what = NULL;
	char c = 0;
	int fd;

	(void)out;
	for (fd = 0; fd < 64; fd++) {
		if (fcntl(fd, F_GETFD) != -1)
			what = "see descriptors";
		if (read(fd, &c, 1) != -1)
			what = "read";
	}
	if (write(*(int *)arg, &c, 1) != -1)
		what = "write to another pipe";
	if (open("/dev/null", O_RDONLY) != -1)
		what = "open a file";
	if (socket(AF_UNIX, SOCK_STREAM, 0) != -1)
		what = "open a socket";
	if (kill(getppid(), 0) != -1)
		what = "send signals";
	if (fork() != -1)
		what = "fork";
	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		what = "map code";
	return what == NULL ? give(out, 1, 1, 7) :
	    qwen_fail(err, QWEN_EIO, "it can %s", what);
}

/* Writes an answer of its own to wherever it can. */
static int
forges(struct qwen_pixels *out, void *arg, struct qwen_err *err)
{
	static struct {
		struct qwen_err	err;
		size_t		size[2];
	} answer;
	int fd;

	(void)out;
	(void)err;
	memset(&answer.err, *(unsigned char *)arg, sizeof answer.err);
	memset(answer.size, 0x7f, sizeof answer.size);
	for (fd = SANITIZED ? 3 : 0; fd < 64; fd++)
		(void)!write(fd, &answer, sizeof answer);
	_exit(0);
}

static int
run(struct qwen_pixels *p, qwen_image_job *job, void *arg, unsigned timeout_ms,
    struct qwen_err *err)
{
	struct qwen_image_child limits = { MEMORY, timeout_ms };

	*err = (struct qwen_err){ 0 };
	return qwen_image_in_child(p, job, arg, &limits, err);
}

static void
check_faults(void)
{
	static const struct {
		const char	*what;
		qwen_image_job	*job;
		unsigned	 timeout_ms;
		int		 arg;
		const char	*message;
	} t[] = {
		{ "an error", fails, TIMEOUT_MS, 0, "this is why" },
		{ "a crash", crashes, TIMEOUT_MS, 0, SANITIZED ?
		    "ended without a result" : "crashed (signal 11)" },
		{ "an exit", exits, TIMEOUT_MS, 0, "ended without a result" },
		{ "a loop", hangs, 1000, 0, "not decoded after 1 s" },
		{ "a message of any bytes", forges, TIMEOUT_MS, 0xff, "?" },
		{ "an impossible size", forges, TIMEOUT_MS, 0,
		    "gave an impossible size" },
	};
	struct qwen_pixels p;
	struct qwen_err err;
	size_t i, j;
	int arg, printable;

	for (i = 0; i < sizeof t / sizeof t[0]; i++) {
		arg = t[i].arg;
		ok(run(&p, t[i].job, &arg, t[i].timeout_ms, &err) == -1 &&
		    p.rgb == NULL, "%s", t[i].what);
		printable = 1;
		for (j = 0; err.msg[j] != '\0'; j++)
			printable &= err.msg[j] >= ' ' && err.msg[j] < 127;
		ok(printable && err.code != 0 &&
		    strstr(err.msg, t[i].message) != NULL,
		    "%s: %.100s", t[i].what, err.msg);
	}
}

int
main(void)
{
	struct qwen_pixels p;
	struct qwen_err err;
	uint8_t value = 200;
	int fd[2];

	if (pipe(fd) == -1)
		return 1;
	ok(run(&p, works, &value, TIMEOUT_MS, &err) == 0 && p.width == 1000 &&
	    p.height == 700 && p.rgb[0] == 200 &&
	    p.rgb[1000 * 700 * 3 - 1] == 200, "pixels come back: %s", err.msg);
	qwen_pixels_fini(&p);
	ok(here == 0, "and nothing else changes here");
	check_faults();
	if (SANITIZED) {
		skip("memory", "a sanitizer needs address space");
		skip("reach", "a sanitizer needs system calls");
	} else {
		ok(run(&p, eats, NULL, TIMEOUT_MS, &err) == -1 &&
		    err.code == QWEN_ENOMEM, "memory: %s", err.msg);
		ok(run(&p, reaches, &fd[1], TIMEOUT_MS, &err) == 0,
		    "it reaches nothing: %s", err.msg);
		qwen_pixels_fini(&p);
	}
	ok(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD,
	    "no process is left");
	ok(dup(fd[0]) == fd[1] + 1, "and no descriptor");
	return done_testing();
}
