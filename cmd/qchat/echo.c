/* SPDX-License-Identifier: ISC */
/*
 * echo.c - turn off the terminal's echo during an answer.  What the user types
 * meanwhile is read by the next prompt.
 *
 * The old settings are restored when the program ends or is stopped.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "qchat.h"

static struct termios shown;		/* settings with echo */
static volatile sig_atomic_t is_off;

static const int leaving[] = { SIGHUP, SIGQUIT, SIGTERM, SIGTSTP };

static void on_signal(int sig);

/*
 * Return 1 for the foreground job.  A background job that changes the
 * terminal's settings would be stopped.
 */
static int
is_ours(void)
{
	return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

static void
set_handler(int sig, void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_NODEFER };

	sigaction(sig, &sa, NULL);
}

/* Signal handlers call this, so it makes only async-signal-safe calls. */
void
qchat_echo_on(void)
{
	if (is_off && is_ours())
		tcsetattr(STDIN_FILENO, TCSANOW, &shown);
	is_off = 0;
}

void
qchat_echo_off(void)
{
	struct termios t;

	if (!is_ours() || tcgetattr(STDIN_FILENO, &shown) == -1)
		return;
	t = shown;
	t.c_lflag &= ~(tcflag_t)ECHO;
	is_off = tcsetattr(STDIN_FILENO, TCSANOW, &t) == 0;
}

static void
on_signal(int sig)
{
	int was_off = is_off;

	qchat_echo_on();
	if (sig != SIGTSTP)
		cli_output_abandon();
	set_handler(sig, SIG_DFL);
	raise(sig);
	/* continued after SIGTSTP */
	set_handler(sig, on_signal);
	if (was_off)
		qchat_echo_off();
}

void
qchat_echo_begin(void)
{
	struct sigaction old;
	size_t i;

	for (i = 0; i < sizeof leaving / sizeof *leaving; i++) {
		/* SIGHUP stays ignored under nohup(1) */
		if (sigaction(leaving[i], NULL, &old) == 0 &&
		    old.sa_handler != SIG_IGN)
			set_handler(leaving[i], on_signal);
	}
	if (atexit(qchat_echo_on) != 0)
		cli_check_alloc(NULL);
}
