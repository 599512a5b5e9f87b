/* SPDX-License-Identifier: ISC */
/* confine.c - takes from a process what a decoder does not need. */
#define _GNU_SOURCE
#include <sys/resource.h>
#ifdef __linux__
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "image/child.h"

/* Sanitizers need address space, stderr and more system calls. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* --------------------------------------------------------------- resources */

static int
limit(int resource, rlim_t n)
{
	struct rlimit r;

	if (getrlimit(resource, &r) == -1)
		return -1;
	if (r.rlim_max == RLIM_INFINITY || r.rlim_max > n)
		r.rlim_max = n;
	r.rlim_cur = r.rlim_max;
	return setrlimit(resource, &r);
}

/* Return the bytes of address space in use; 0 if unknown. */
static size_t
address_space(void)
{
	char line[128];
	const char *s = line;
	uint64_t pages = 0;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd != -1 ? read(fd, line, sizeof line - 1) : -1;

	if (fd != -1)
		close(fd);
	if (n <= 0)
		return 0;
	line[n] = '\0';
	return qwen_digits(&s, &pages) < 0 ? 0 :
	    (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static int
limit_all(size_t memory, unsigned seconds)
{
	size_t used = address_space();

	if (!SANITIZED && (limit(RLIMIT_FSIZE, 0) == -1 ||
	    (used > 0 && limit(RLIMIT_AS, used + memory) == -1)))
		return -1;
	return limit(RLIMIT_CORE, 0) == -1 || limit(RLIMIT_NOFILE, 0) == -1 ||
	    limit(RLIMIT_NPROC, 0) == -1 ||
	    limit(RLIMIT_CPU, seconds) == -1 ? -1 : 0;
}

/* ----------------------------------------------------------------- seccomp */

#if defined(__linux__) && defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__linux__) && defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef ARCH
/* Load a word of struct seccomp_data: of an argument, the lower half. */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
	offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define DENY SECCOMP_RET_ERRNO | EPERM
/*
 * Skip n instructions if the loaded value is not v; if it is v; if it has one of
 * the bits.
 */
#define IF(v, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, 0, n)
#define IF_NOT(v, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, n, 0)
#define IF_NONE(bits, n) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, n, 0)
#define ALLOW(call) IF(call, 1), RETURN(SECCOMP_RET_ALLOW)
#define ALLOW_IF(call, field, condition) IF(call, 4), LOAD(field), condition, \
	RETURN(SECCOMP_RET_ALLOW), RETURN(DENY)

/*
 * Other calls fail and do not kill, since libraries ask for more than they need,
 * such as the names of the processors.
 */
static int
filter(int fd)
{
	struct sock_filter code[] = {
		LOAD(arch), IF_NOT(ARCH, 1), RETURN(DENY), LOAD(nr),
		ALLOW(__NR_brk), ALLOW(__NR_munmap), ALLOW(__NR_mremap),
		ALLOW(__NR_madvise), ALLOW(__NR_exit), ALLOW(__NR_exit_group),
		ALLOW_IF(__NR_write, args[0], IF((uint32_t)fd, 1)),
		ALLOW_IF(__NR_mmap, args[2], IF_NONE(PROT_EXEC, 1)),
		ALLOW_IF(__NR_mprotect, args[2], IF_NONE(PROT_EXEC, 1)),
		RETURN(DENY),
	};
	struct sock_fprog program = { sizeof code / sizeof code[0], code };

	if (SANITIZED)
		return 0;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1)
		return -1;
	/* some kernels and emulators have no filters */
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1 &&
	    errno != EINVAL && errno != ENOSYS ? -1 : 0;
}
#else
static int
filter(int fd)
{
	(void)fd;
	return 0;
}
#endif

/* -------------------------------------------------------------------- both */

/* Close the descriptors from..to. */
static void
close_all(unsigned from, unsigned to)
{
	if (from > to)
		return;
#ifdef SYS_close_range
	if (syscall(SYS_close_range, from, to, 0) == 0)
		return;
#endif
	if (to > (unsigned)sysconf(_SC_OPEN_MAX))
		to = (unsigned)sysconf(_SC_OPEN_MAX);
	for (; from <= to; from++)
		close((int)from);
}

int
qwen_image_confine(int fd, size_t memory, unsigned seconds)
{
	int sig;

	/* a handler of this process would act for it, as on its files */
	for (sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
#ifdef __linux__
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_DUMPABLE, 0);
#endif
	if (limit_all(memory, seconds) == -1)
		return -1;
	if (!SANITIZED && fd > 0)
		close_all(0, (unsigned)fd - 1);
	close_all((unsigned)fd + 1, ~0u >> 1);
	return filter(fd);
}
