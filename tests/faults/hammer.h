/* SPDX-License-Identifier: ISC */
/* hammer.h - shared by the files of the hammer. */
#ifndef TESTS_FAULTS_HAMMER_H
#define TESTS_FAULTS_HAMMER_H

#include "run.h"

enum hammer_kind {
	HAMMER_MODEL, HAMMER_WIRE, HAMMER_TEXT, HAMMER_STORE, HAMMER_SIGNAL,
	HAMMER_CALL, HAMMER_NONE
};

/* Words put before each command; limits of a run; the maxima seen. */
extern char *hammer_wrap[8];
extern long hammer_limit_mb, hammer_limit_s, hammer_most_kb;
extern double hammer_slowest;

int hammer_has(const struct command *c, const char *word);

/* The non-empty files of a folder, sorted. */
extern char hammer_found[512][256];
extern size_t hammer_n_found;
void hammer_find(const char *folder);

/* Print the temporary files in the folder run; return their number. */
int hammer_litter(void);

/* The same as command_start, with the limits. */
pid_t hammer_start(const struct command *c, const char *out, const char *err);

/*
 * Return what is wrong with the exit status, the resources used, or the
 * messages; NULL if nothing is.  may_warn: a failing command may print
 * warnings, too.
 */
const char *hammer_judge(const struct command *c, int status,
    const struct rusage *u, const char *err, int may_warn);
const char *hammer_judge_words(const char *file, int status, int may_warn);

/*
 * Run command `number' and kill it with a signal, or make one of its system
 * calls fail.  Return what is wrong with the result, or NULL.
 */
const char *hammer_signal(const struct command *c, size_t number);
const char *hammer_call(const struct command *c, size_t number);

/* Inputs of a command that are not among its words. */
enum { INPUT_IN = -1, INPUT_MODEL = -2 };

#endif
