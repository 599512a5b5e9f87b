/* SPDX-License-Identifier: ISC */
/* cli_progress.c - the progress line: where, when and what. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"
#include "cli/cli.h"

/* A terminal as stderr; returns its other end, or -1. */
static int
open_tty(void)
{
	int m = posix_openpt(O_RDWR | O_NOCTTY), s;

	if (m == -1 || grantpt(m) == -1 || unlockpt(m) == -1 ||
	    (s = open(ptsname(m), O_RDWR | O_NOCTTY)) == -1 ||
	    dup2(s, STDERR_FILENO) == -1)
		return -1;
	fcntl(m, F_SETFL, O_NONBLOCK);
	return m;
}

/* No machine is too slow for a clock that stands still. */
static double clock_s = 1000;

double
cli_now(void)
{
	return clock_s;
}

/* What came out at the other end, up to a mark that is sent after it. */
static const char *
seen(int m)
{
	static char buf[4096];
	struct pollfd p = { .fd = m, .events = POLLIN };
	size_t n = 0;
	ssize_t got;

	dprintf(STDERR_FILENO, "$");
	while (n < sizeof buf - 1 && (n == 0 || buf[n - 1] != '$') &&
	    poll(&p, 1, 60000) > 0 &&
	    (got = read(m, buf + n, sizeof buf - 1 - n)) > 0)
		n += (size_t)got;
	if (n == 0 || buf[n - 1] != '$') {
		printf("Bail out! nothing comes out of the terminal\n");
		exit(1);
	}
	buf[n - 1] = '\0';
	return buf;
}

/* Of a file that is written, where stderr is no terminal: a line a minute. */
static void
test_log(void)
{
	static const uint64_t total = (uint64_t)300 << 20;
	char buf[256] = "";
	int started = 0, fd[2];
	ssize_t n;

	if (pipe(fd) == -1 || dup2(fd[1], STDERR_FILENO) == -1)
		abort();
	cli_progress_bytes(&started, 0, total);
	clock_s += 59;
	cli_progress_bytes(&started, (uint64_t)50 << 20, total);
	clock_s += 1;
	cli_progress_bytes(&started, (uint64_t)60 << 20, total);
	clock_s += 30;
	cli_progress_bytes(&started, (uint64_t)90 << 20, total);
	cli_progress_end();
	close(fd[1]);
	close(STDERR_FILENO);
	n = read(fd[0], buf, sizeof buf - 1);
	buf[n > 0 ? n : 0] = '\0';
	ok(strcmp(buf, "tool: 60/300 MiB, 1.0 MiB/s, 4:00 left\n") == 0,
	    "in a log: %s", buf);
}

static const struct cli_opt options[] = { CLI_END };
static const struct cli_tool tool = { .name = "tool", .about = "a test",
	.usage = "", .options = options };

int
main(void)
{
	char name[] = "tool", *argv[] = { name, NULL };
	int m = open_tty();
	const char *s;

	if (m == -1) {
		skip("the progress line", "no pseudo-terminals");
		return done_testing();
	}
	cli_begin(&tool, 1, argv);
	cli_progress_start("tokens", 1000);
	clock_s += 1.9;
	cli_progress(10);
	ok(seen(m)[0] == '\0', "nothing at first");
	clock_s += 0.2;
	cli_progress(400);
	ok(strcmp(seen(m), "\rtool: 400/1000 tokens, 190.5 tok/s, 0:03 left") ==
	    0, "the line after two seconds");
	clock_s += 0.1;
	cli_progress(401);
	ok(seen(m)[0] == '\0', "not too often");
	clock_s += 0.2;
	cli_progress(500);
	s = seen(m);
	ok(strncmp(s, "\rtool: 500/1000 tokens, 208.3 tok/s, 0:02 left", 47) ==
	    0, "%s", s[0] != '\0' ? s + 1 : "nothing");
	cli_note("hello");
	ok(strstr(seen(m), "\rtool: hello\r\n") != NULL,
	    "a message takes the line's place");
	cli_progress_end();
	clock_s += 0.3;
	cli_progress(600);
	ok(seen(m)[0] == '\0', "nothing after the end");

	cli_progress_start("items", 10);
	clock_s += 5;
	cli_progress_also(50, "tok");
	cli_progress(5);
	ok(strcmp(seen(m), "\rtool: 5/10 items, 1.0 items/s, 10.0 tok/s, "
	    "0:05 left") == 0, "two things counted");
	cli_progress_end();
	seen(m);

	/* the 1000 cost 1000 + 1000^2 / 2 / 100, a tenth of them 100 + 50 */
	cli_progress_start("tokens", 1000);
	cli_progress_grows(0.01);
	clock_s += 3;
	cli_progress(100);
	ok(strcmp(seen(m), "\rtool: 100/1000 tokens, 33.3 tok/s, 1:57 left") ==
	    0, "units that take longer and longer");
	cli_progress_end();
	seen(m);

	cli_quiet = 1;
	cli_progress_start("tokens", 0);
	clock_s += 3;
	cli_progress(10);
	ok(seen(m)[0] == '\0', "nothing with -q");
	cli_quiet = 0;
	test_log();
	return done_testing();
}
