/* SPDX-License-Identifier: ISC */
/*
 * fault.c - a mapped file that is cut short, or whose disk fails: where a byte
 * of it is needed there is none, and the system says so by SIGBUS.  All that is
 * called here is async-signal-safe.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/internal.h"

/* Add s to the n bytes of line, as far as there is room; the new n. */
static size_t
add(char *line, size_t n, size_t room, const char *s)
{
	while (*s != '\0' && n + 1 < room)
		line[n++] = *s++;
	line[n] = '\0';
	return n;
}

/* The hexadecimal number at *s, and past it. */
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

/* A line of maps: "from-to perms offset device inode   /path". */
static const char *
path_of(const char *line, uintptr_t at)
{
	uintptr_t from = take_hex(&line), to;

	if (*line++ != '-' || at < from)
		return NULL;
	to = take_hex(&line);
	return at < to ? strchr(line, '/') : NULL;
}

/* Where Linux says which file is at an address; NULL: it cannot be told. */
static const char *
find_path(uintptr_t at)
{
	static char line[4096 + 128];
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const char *path = NULL;
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
	static char line[4096 + 512];
	const char *path = NULL;
	size_t n;

	(void)context;
	while (atomic_flag_test_and_set(&told))	/* another thread is at it */
		pause();
	cli_output_abandon();
	if (info->si_code == BUS_ADRERR)
		path = find_path((uintptr_t)info->si_addr);
	if (path == NULL) {	/* something else: die of it */
		signal(sig, SIG_DFL);
		raise(sig);
		return;
	}
	n = add(line, 0, sizeof line, cli_name);
	n = add(line, n, sizeof line, ": ");
	n = add(line, n, sizeof line - 128, path);
	n = add(line, n, sizeof line, ": it was cut while it was in use, or "
	    "its disk failed");
	qwen_utf8_mask(line);
	n = add(line, n, sizeof line, "\n");
	while (write(STDERR_FILENO, line, n) == -1 && errno == EINTR)
		;
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
