/* SPDX-License-Identifier: ISC */
/* cli_progress.c - the progress line: where, when and what. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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

/*
 * What came out at the other end.  The kernel carries it there in its own
 * time: a while without anything is the end.
 */
static const char *
seen(int m)
{
	static char buf[4096];
	struct pollfd p = { .fd = m, .events = POLLIN };
	size_t n = 0;
	ssize_t got;

	while (n < sizeof buf - 1 && poll(&p, 1, 100) > 0 &&
	    (got = read(m, buf + n, sizeof buf - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
	return buf;
}

static void
wait_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

/* How many lines two calls in a row show; again, should they be stopped. */
static int
twice(int m)
{
	double t;
	int n;

	do {
		const char *s;

		wait_ms(250);
		t = cli_now();
		cli_progress(400);
		cli_progress(400);
		t = cli_now() - t;
		for (n = 0, s = seen(m); (s = strstr(s, "400/1000")); s++)
			n++;
	} while (t > 0.1);
	return n;
}

int
main(void)
{
	int m = open_tty();

	if (m == -1) {
		skip("the progress line", "no pseudo-terminals");
		return done_testing();
	}
	cli_init("tool", "tool\n");
	cli_progress_start("tokens", 1000);
	cli_progress(10);
	ok(seen(m)[0] == '\0', "nothing at first");
	wait_ms(2050);
	ok(twice(m) == 1, "not too often");
	wait_ms(250);
	cli_progress(500);
	{
		const char *s = seen(m);

		ok(strstr(s, "tool: 500/1000 tokens, ") != NULL &&
		    strstr(s, " tok/s, 0:0") != NULL && strstr(s, " left") != NULL,
		    "%s", s[0] != '\0' ? s + 1 : "nothing");
	}
	cli_note("hello");
	ok(strstr(seen(m), "\rtool: hello\r\n") != NULL,
	    "a message takes the line's place");
	cli_progress_end();
	wait_ms(250);
	cli_progress(600);
	ok(seen(m)[0] == '\0', "nothing after the end");

	cli_quiet = 1;
	cli_progress_start("tokens", 0);
	wait_ms(2050);
	cli_progress(10);
	ok(seen(m)[0] == '\0', "nothing with -q");
	return done_testing();
}
