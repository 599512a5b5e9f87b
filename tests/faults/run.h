/* SPDX-License-Identifier: ISC */
/* run.h - commands from a list, run in a folder, and what came of them. */
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
	int	 init;		/* "+": in a copy of the folder init */
	int	 varies;	/* "~": something else comes of it each time */
	int	 slow;
};

/* The same choices by the same seed: a number below. */
extern uint64_t draw_seed;
unsigned draw(unsigned below);

double now(void);

/* A line of the list, which is taken apart; -1 if it has no command. */
int command_parse(struct command *c, char *line);

/* All of them, in memory that stays; exits if the file cannot be read. */
size_t command_list(struct command **out, const char *path);

/* A new folder run, empty or a copy of init. */
void command_folder(const struct command *c);

/*
 * Start it in the folder run; set is called in the child with arg before.
 * Then how it ended, what it used in *u unless that is NULL.
 */
pid_t command_start(const struct command *c, const char *out, const char *err,
    void (*set)(void *), void *arg);
int command_wait(pid_t pid, struct rusage *u);

/* The bytes of a regular file, and a NUL; NULL if there is none. */
char *contents(const char *path, size_t *n);

/* Whether a is b, or with part_of, the beginning of b. */
int same(const char *a, const char *b, int part_of);

/* Whether the tools name files so that are not complete. */
int is_temporary(const char *path);

int is_empty(const char *path);

/*
 * 0 if all files in run are what those in want are, or what they were in init,
 * or temporaries or empty, or want has an empty one.  If not, tell which.
 */
int files_right(const char *want, int tell);
/*
 * Set if the state S, and those in a store, may have other checkpoints than those
 * of want, as where the store was not used for once: then qstate tells.
 */
extern int files_as_states;
/* 0 if all files that want has are there; if not, tell which. */
int files_there(const char *want, int tell);

#endif
