/* SPDX-License-Identifier: ISC */
/*
 * fault.c - SIGBUS, which the system sends when another program truncates a
 * mapped file or its disk fails.  All functions called here are
 * async-signal-safe.
 */
#include <sys/uio.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/internal.h"

/* Reads the hexadecimal number at *s and moves *s past it. */
static uintptr_t
take_hex(const char **s)
{
	uint32_t digit;
	uintptr_t v = 0;

	while (qwen_hex_read(*s, 1, &digit) == 0) {
		v = v << 4 | digit;
		++*s;
	}
	return v;
}

/*
 * Returns the path in a line of maps, "from-to perms offset device inode
 * /path", if the address is in from .. to - 1; else NULL.
 */
static char *
path_of(char *line, uintptr_t at)
{
	const char *s = line;
	uintptr_t from = take_hex(&s), to;

	if (*s++ != '-' || at < from)
		return NULL;
	to = take_hex(&s);
	return at < to ? strchr(line, '/') : NULL;
}

/*
 * Returns the path of the file mapped at an address, from /proc; NULL if
 * unknown.
 */
static char *
find_path(uintptr_t at)
{
	static char line[4096 + 128];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	char *path = NULL;
	size_t n = 0;

	while (fd != -1 && path == NULL && read(fd, line + n, 1) == 1) {
		if (line[n] != '\n' && n + 2 < sizeof line) {
			n++;
			continue;
		}
		line[n] = '\0';
		path = path_of(line, at);
		n = 0;
	}
	if (fd != -1)
		close(fd);
	return path;
}

static void
on_fault(int sig, siginfo_t *info, void *context)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	static char end[] = ": the file was truncated while it was in use, or "
	    "its disk failed\n", colon[] = ": ";
	char *path = NULL;

	(void)context;
	while (atomic_flag_test_and_set(&told))	/* another thread handles it */
		pause();
	cli_output_abandon();
	if (info->si_code == BUS_ADRERR)
		path = find_path((uintptr_t)info->si_addr);
	if (path == NULL) {	/* not a mapped file: die of the signal */
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	qwen_utf8_mask(path);
	(void)!writev(STDERR_FILENO, (struct iovec[]){
	    { (char *)(uintptr_t)cli_name, strlen(cli_name) },
	    { colon, sizeof colon - 1 }, { path, strlen(path) },
	    { end, sizeof end - 1 } }, 4);
	_exit(1);
}

void
cli_guard_maps(void)
{
	struct sigaction sa = { .sa_flags = SA_SIGINFO };

	sa.sa_sigaction = on_fault;
	sigfillset(&sa.sa_mask);
	sigaction(SIGBUS, &sa, NULL);
}
