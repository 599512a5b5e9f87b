/* SPDX-License-Identifier: ISC */
/* hammer.h - inside of the hammer: what can be wrong. */
#ifndef TESTS_FAULTS_HAMMER_H
#define TESTS_FAULTS_HAMMER_H

#include "run.h"

enum hammer_kind {
	HAMMER_MODEL, HAMMER_WIRE, HAMMER_TEXT, HAMMER_STORE, HAMMER_SIGNAL,
	HAMMER_CALL, HAMMER_NONE
};

/* What is put before each command; bounds of a run; the most that was seen. */
extern char *hammer_wrap[8];
extern long hammer_limit_mb, hammer_limit_s, hammer_most_kb;
extern double hammer_slowest;

int hammer_has(const struct command *c, const char *word);

/* The files of a folder that are not empty, in order. */
extern char hammer_found[512][256];
extern size_t hammer_n_found;
void hammer_find(const char *folder);

/* Temporaries in the folder run, each of them told. */
int hammer_litter(void);

/* As command_start, within bounds. */
pid_t hammer_start(const struct command *c, const char *out, const char *err);

/*
 * What is wrong with how it ended and what it used, or with what it said alone;
 * NULL if nothing.  Of a failure there may be warnings as well.
 */
const char *hammer_judge(const struct command *c, int status,
    const struct rusage *u, const char *err, int may_warn);
const char *hammer_judge_words(const char *file, int status, int may_warn);

/*
 * hammer_break.c: the command, whose number is this, ended by a signal; with a
 * system call that fails.  What is wrong with what came of it, or NULL.
 */
const char *hammer_signal(const struct command *c, size_t number);
const char *hammer_call(const struct command *c, size_t number);

/* Inputs of a command that are no words of it. */
enum { INPUT_IN = -1, INPUT_MODEL = -2 };

#endif
