/* SPDX-License-Identifier: ISC */
/* cli_show.c - untrusted text on a terminal, and elsewhere. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "../tap.h"
#include "cli/cli.h"

static const struct {
	const char	*text, *shown;
} cases[] = {
	{ "plain", "plain" },
	{ "a\tb\nc \\n d", "a\tb\nc \\n d" },
	{ "gr\303\274\303\237 \344\275\240 \360\237\231\202",
	  "gr\303\274\303\237 \344\275\240 \360\237\231\202" },
	{ "\360\237\221\250\342\200\215\360\237\222\273",
	  "\360\237\221\250\342\200\215\360\237\222\273" },
	{ "\033[31mred", "\\x1b[31mred" },
	{ "\033]0;title\007", "\\x1b]0;title\\x07" },
	{ "\302\2332J", "\\xc2\\x9b2J" },
	{ "back\b\r\177", "back\\x08\\r\\x7f" },
	{ "over\342\200\256ride", "over\\xe2\\x80\\xaeride" },
	{ "no \377 UTF-8 \344\275", "no \\xff UTF-8 \\xe4\\xbd" },
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* What comes out of a stream's other end is this, and in good time. */
static int
gives(FILE *f, int from, const char *text, size_t n, const char *want)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	size_t have = 0, len = strlen(want);
	char buf[256];
	ssize_t got;

	cli_show_text(f, text, n);
	fflush(f);
	while (have < len && poll(&p, 1, 10000) == 1 &&
	    (got = read(from, buf + have, sizeof buf - have)) > 0)
		have += (size_t)got;
	return have == len && memcmp(buf, want, len) == 0;
}

static FILE *
open_tty(int *m)
{
	struct termios t;
	int s;

	*m = posix_openpt(O_RDWR | O_NOCTTY);
	if (*m == -1 || grantpt(*m) == -1 || unlockpt(*m) == -1 ||
	    (s = open(ptsname(*m), O_RDWR | O_NOCTTY)) == -1 ||
	    tcgetattr(s, &t) == -1)
		return NULL;
	t.c_oflag &= ~(tcflag_t)OPOST;
	return tcsetattr(s, TCSANOW, &t) == 0 ? fdopen(s, "w") : NULL;
}

int
main(void)
{
	int m, p[2], i;
	FILE *tty = open_tty(&m), *out;

	if (pipe(p) == -1 || (out = fdopen(p[1], "w")) == NULL)
		abort();
	for (i = 0; i < N_CASES; i++) {
		const char *text = cases[i].text;

		ok(gives(out, p[0], text, strlen(text), text),
		    "case %d: a pipe gets the bytes", i);
		if (tty == NULL)
			skip("a terminal", "there is none here");
		else
			ok(gives(tty, m, text, strlen(text), cases[i].shown),
			    "case %d: what a terminal gets", i);
	}
	if (tty != NULL)
		ok(gives(tty, m, "a\0b", 3, "a\\x00b"), "a NUL");
	return done_testing();
}
