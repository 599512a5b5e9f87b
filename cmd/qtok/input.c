/* SPDX-License-Identifier: ISC */
/* input.c - open the operands of qtok. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "qtok.h"

void
qtok_each(char *paths[], void (*f)(const struct qtok_input *, void *),
    void *arg)
{
	static char dash[] = "-", *stdin_only[] = { dash, NULL };
	struct qtok_input in;
	int i;

	if (paths[0] == NULL) {
		cli_need_stdin();
		paths = stdin_only;
	}
	for (i = 0; paths[i] != NULL; i++) {
		if (strcmp(paths[i], "-") != 0 && access(paths[i], R_OK) == -1)
			die("%s: %s", paths[i], strerror(errno));
	}
	for (i = 0; paths[i] != NULL; i++) {
		if ((in.fd = cli_open(paths[i], &in.name)) < 0)
			die("%s: %s", paths[i], strerror(errno));
		f(&in, arg);
		if (in.fd != STDIN_FILENO)
			close(in.fd);
	}
}
