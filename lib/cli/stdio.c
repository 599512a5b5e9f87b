/* SPDX-License-Identifier: ISC */
/* stdio.c - what is behind stdin and stdout. */
#include <sys/stat.h>

#include <unistd.h>

#include "cli/cli.h"

enum cli_stdin
cli_stdin_kind(void)
{
	struct stat in, null;

	if (isatty(STDIN_FILENO) || fstat(STDIN_FILENO, &in) == -1)
		return CLI_STDIN_NONE;
	if (S_ISREG(in.st_mode))
		return CLI_STDIN_FILE;
	if (S_ISCHR(in.st_mode) && stat("/dev/null", &null) == 0 &&
	    in.st_rdev == null.st_rdev)
		return CLI_STDIN_NONE;
	return CLI_STDIN_PIPE;
}

void
cli_need_stdin(void)
{
	if (isatty(STDIN_FILENO))
		cli_usage("no input: stdin is a terminal");
}

void
cli_no_binary_tty(void)
{
	if (isatty(STDOUT_FILENO))
		die("stdout is a terminal: not writing binary there; redirect "
		    "it, or see -f");
}
