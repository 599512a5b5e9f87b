/* SPDX-License-Identifier: ISC */
/* internal.h - what the files of lib/cli know about each other. */
#ifndef CLI_INTERNAL_H
#define CLI_INTERNAL_H

#include "cli/cli.h"

extern const char *cli_name;	/* of the tool */
extern int cli_status;		/* what cli_finish returns */
extern const char *cli_default_from;	/* of cli_default(), which is under way */

/* The name is what messages begin with; the standard descriptors are open. */
void cli_start(const char *name);

/* The rows of the command line by number, NULL after the last; and the tool. */
const struct cli_opt *cli_opt_row(size_t i);
const struct cli_tool *cli_this_tool(void);

/*
 * The i-th option of the command line, in its order, and its argument or NULL;
 * NULL after the last.
 */
const struct cli_opt *cli_opt_given(size_t i, const char **arg);

/* What the operands are: completes of struct cli_tool, or its default. */
const char *cli_operands(const struct cli_tool *t);

/*
 * Note the files that the command line names for reading as inputs; die if it names
 * one of them as an output.  Operands end with NULL.
 */
void cli_inputs(const struct cli_tool *t, char *operands[]);

/* -1 and *err if an output would replace an input. */
struct stat;
int cli_check_replace(const struct stat *st, struct qwen_err *err);

/* What --help shows, or the list of it that completion reads. */
void cli_help(int list);

/*
 * A hint for an unknown option, a word without dashes: the option that may have been
 * meant, or a sentence (struct cli_foreign); or NULL.
 */
const char *cli_hint(const char *word);

/* The hint that the tool's own table has for the n letters at name, or NULL. */
const char *cli_foreign(const char *name, size_t n);

/* Take the progress line off the terminal, before a message. */
void cli_progress_wipe(void);

/* From here a mapped file that is cut is one line and status 1. */
void cli_guard_maps(void);

#endif
