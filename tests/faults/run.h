/* SPDX-License-Identifier: ISC */
/* run.h - runs commands from a list in a folder, and checks the results. */
#ifndef TESTS_FAULTS_RUN_H
#define TESTS_FAULTS_RUN_H

#include <sys/resource.h>
#include <sys/types.h>

#include <stddef.h>
#include <stdint.h>

#include "../tree.h"

#define WORDS	64

struct command {
	char	*word[WORDS], *in;
	int	 init;		/* "+": start with a copy of the folder init */
	int	 varies;	/* "~": its output differs from run to run */
	int	 slow;
};

/* Return a random number below `below'; equal seeds give equal numbers. */
extern uint64_t draw_seed;
unsigned draw(unsigned below);

double now(void);

/* Parse a line of the list, which is changed; -1 if it has no command. */
int command_parse(struct command *c, char *line);

/*
 * Parse all lines of a list, in memory that is never freed; exit if the file
 * cannot be read.
 */
size_t command_list(struct command **out, const char *path);

/* Make a new folder run, empty or a copy of init. */
void command_folder(const struct command *c);

/*
 * command_start starts a command in the folder run, and calls set(arg) in the
 * child before.  command_wait returns its exit status, and sets *u (may be
 * NULL) to the resources that it used.
 */
pid_t command_start(const struct command *c, const char *out, const char *err,
    void (*set)(void *), void *arg);
int command_wait(pid_t pid, struct rusage *u);

/* Return the bytes of a regular file, with a NUL; NULL if there is none. */
char *contents(const char *path, size_t *n);

/* Return 1 if file a equals file b or, with part_of, begins it. */
int same(const char *a, const char *b, int part_of);

/* Return 1 if the name is one that the tools give to incomplete files. */
int is_temporary(const char *path);

int is_empty(const char *path);

/*
 * Return 0 if every file in run equals the one in want, or the one in init, or
 * is a temporary or empty, or is empty in want.  Otherwise say which file
 * differs, if tell is set.
 */
int files_right(const char *want, int tell);
/*
 * Set if the state S, and states in a store, may have other checkpoints than
 * those in want, as after the store could not be used once.  Then qstate
 * compares them.
 */
extern int files_as_states;
/*
 * Return 0 if run has all files of want.  Otherwise say which is missing, if
 * tell is set.
 */
int files_there(const char *want, int tell);

#endif
