/* SPDX-License-Identifier: ISC */
/* internal.h - declarations that only the files of lib/cli share. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "cli/cli.h"

extern const char *cli_name;	/* of the tool */
extern int cli_status;		/* what cli_finish returns */
extern const char *cli_default_from;	/* origin of the default that cli_default() is setting, or NULL */

/* Sets the name for messages, and opens closed standard descriptors. */
void cli_start(const char *name);

/* Returns the i-th row of the tool's options; NULL after the last. */
const struct cli_opt *cli_opt_row(size_t i);
const struct cli_tool *cli_this_tool(void);

/*
 * Returns the row of the i-th option given on the command line, with its argument
 * or NULL in *arg; NULL after the last.
 */
const struct cli_opt *cli_opt_given(size_t i, const char **arg);

/* Returns the kind of the operands: completes of struct cli_tool, or the default. */
const char *cli_operands(const struct cli_tool *t);

/*
 * Protects the files that the command line names for reading; dies if it names one
 * of them as an output.  The operands end with NULL.
 */
void cli_inputs(const struct cli_tool *t, char *operands[]);

/* Returns -1 with *err if an output to this file would replace an input. */
struct stat;
int cli_check_replace(const struct stat *st, struct qwen_err *err);

/* Prints --help, or the list that completion reads. */
void cli_help(int list);

/*
 * Returns a hint for an unknown option, given without dashes: the nearest option,
 * or a sentence (struct cli_foreign); or NULL.
 */
const char *cli_hint(const char *word);

/* Returns the hint of the tool's own table for the n letters at name, or NULL. */
const char *cli_foreign(const char *name, size_t n);

/* Wipes the progress line off the terminal, before a message. */
void cli_progress_wipe(void);

/* From now on, a mapped file that is cut short ends the tool with one line, status 1. */
void cli_guard_maps(void);

#endif
