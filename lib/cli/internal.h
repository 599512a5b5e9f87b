/* SPDX-License-Identifier: ISC */
/* internal.h - what the files of lib/cli know about each other. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include <sys/types.h>

#include <stdio.h>

#include "cli/cli.h"

extern const char *cli_name;	/* of the tool */
extern int cli_status;		/* what cli_finish returns */
extern mode_t cli_umask;	/* as it was at the start */

/* Length of the UTF-8 character at s, of n bytes; 0 if it is none. */
size_t cli_utf8(const unsigned char *s, size_t n);

/* Likewise of a printable one; s ends in a NUL. */
size_t cli_printable(const unsigned char *s);

/* Print the synopsis. */
void cli_print_usage(int to_stderr);

/* What --help says after the synopsis, or NULL. */
extern void (*cli_print_more)(FILE *f);

/* Set in->extra.pending to what the session's last tokens leave incomplete. */
void cli_note_pending(struct cli_intake *in);

/* Take the progress line off the terminal, before a message. */
void cli_progress_wipe(void);

#endif
