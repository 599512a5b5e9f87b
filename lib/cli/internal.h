/* SPDX-License-Identifier: ISC */
/* internal.h - declarations that the files of lib/cli share. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "cli/cli.h"

extern const char *cli_name;	/* of the tool */
extern int cli_status;		/* for cli_finish */
extern const char *cli_default_from;	/* the source of the default that
					   cli_default() is setting, or NULL */

/* Sets the tool's name for messages, and opens missing standard descriptors. */
void cli_start(const char *name);

/* Return the i-th row of all options, NULL after the last; and the tool. */
const struct cli_opt *cli_opt_row(size_t i);
const struct cli_tool *cli_this_tool(void);

/*
 * Returns the kind of the operands: completes of struct cli_tool, or its
 * default.
 */
const char *cli_operands(const struct cli_tool *t);

/*
 * Protects the file, which may be NULL, if this kind of argument is read. what
 * is for the message; NULL: the row says it.
 */
void cli_add_input(const char *completes, const char *path, const char *what,
    const struct cli_opt *row);

/* Dies if the option, with this argument or NULL, would replace an input. */
void cli_check_output(const struct cli_opt *o, const char *path);

/*
 * Protects the file on stdin; dies if stdout is an input, except with appends
 * that file.
 */
void cli_check_stdio(int appends);

/* Returns -1 with *err set if an output to this file would replace an input. */
struct stat;
int cli_check_replace(const struct stat *st, struct qwen_err *err);

/* Prints --help, or with list the tables for completion. */
void cli_help(int list);

/*
 * Returns a hint for an unknown option, given without dashes: the option that
 * may be meant, or a sentence (struct cli_foreign); or NULL.
 */
const char *cli_hint(const char *word);

/* Returns the hint for an option in the tool's own table, n bytes; or NULL. */
const char *cli_foreign(const char *name, size_t n);

/* Erases the progress line from the terminal, before a message. */
void cli_progress_wipe(void);

/*
 * From now on, a mapped file that is truncated is an error of one line and exit
 * status 1.
 */
void cli_guard_maps(void);

#endif
