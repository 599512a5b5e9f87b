/* SPDX-License-Identifier: ISC */
/*
 * hammer_break.c - runs that a signal kills, or in which a system call fails.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hammer.h"

enum { COMMANDS = 256, CALLS = 8192 };

/* ------------------------------------------- what comes of it if all is well */

static struct clean {
	int	known, varies;
	double	took;		/* seconds by the clock */
	char	want[24], out[24], log[24];
} clean[COMMANDS];

/* What is another thing each time is empty in want: it may be anything. */
static void
empty_what_varies(const char *want)
{
	char path[300];
	size_t i;

	hammer_find("run");
	for (i = 0; i < hammer_n_found; i++) {
		snprintf(path, sizeof path, "%s%s", want, hammer_found[i] + 3);
		if (!same(path, hammer_found[i], 0) && truncate(path, 0) == -1)
			perror(path);
	}
}

/* Run it twice; NULL, or what is wrong even so. */
static const char *
learn(const struct command *c, size_t number)
{
	struct clean *w = &clean[number];
	struct rusage u;
	const char *wrong;
	double begun;
	int i, status;

	if (w->known)
		return NULL;
	snprintf(w->want, sizeof w->want, "want.%zu", number);
	snprintf(w->out, sizeof w->out, "out.%zu", number);
	snprintf(w->log, sizeof w->log, "log.%zu", number);
	for (i = 0; i < 2; i++) {
		command_folder(c);
		begun = now();
		status = command_wait(hammer_start(c, i == 0 ? w->out : "out",
		    "err"), &u);
		w->took = now() - begun;
		if ((wrong = hammer_judge(c, status, &u, "err", 0)) != NULL ||
		    status != 0)
			return wrong != NULL ? wrong : "it fails anyway";
		if (i == 0) {
			remove_tree(w->want);
			if (rename("run", w->want) == -1)
				return "it left nothing";
		}
	}
	empty_what_varies(w->want);
	remove(w->log);
	w->varies = c->varies || !same("out", w->out, 0);
	w->known = 1;
	return NULL;
}

/* ----------------------------------------------------------------- signals */

/* A command that looks at what is there, in the folder run. */
static int
succeeds(const char *command)
{
	char line[300];

	snprintf(line, sizeof line, "cd run && %s >/dev/null 2>&1", command);
	return system(line) == 0;
}

/*
 * Whether what it leaves on the way is whole, and not yet what it wants.  What is
 * to be answered again is taken out of the results first.
 */
static int
goes_on(const struct command *c)
{
	return hammer_has(c, "--resume") || hammer_has(c, "--save-every") ||
	    hammer_has(c, "--retry-failed") || hammer_has(c, "--retry-cut");
}

static int
has_line(const char *all, const char *line)
{
	size_t n = strlen(line);

	for (; all != NULL; all = strchr(all, '\n')) {
		all += *all == '\n';
		if (strncmp(all, line, n) == 0 && all[n] == '\n')
			return 1;
	}
	return 0;
}

/*
 * Whether each whole line of the results, if there are any, is one that they had
 * before or are to have.
 */
static int
lines_known(const struct clean *w)
{
	char path[60];
	size_t n;
	char *s = contents("run/old.results", &n), *line, *end;
	char *before, *want;
	int known = 1;

	snprintf(path, sizeof path, "%s/old.results", w->want);
	want = contents(path, &n);
	if (s == NULL || is_empty(path)) {
		free(s);
		free(want);
		return 1;
	}
	before = contents("init/old.results", &n);
	for (line = s; known && (end = strchr(line, '\n')) != NULL;
	    line = end + 1) {
		*end = '\0';
		known = has_line(before, line) || has_line(want, line);
	}
	free(s);
	free(want);
	free(before);
	return known;
}

/* Is all that there is whole? */
static const char *
judge_left(const struct command *c, const struct clean *w)
{
	if (!goes_on(c) && files_right(w->want, 1) != 0)
		return "a file that is not whole";
	if (!lines_known(w))
		return "a result that is not right";
	if (hammer_has(c, "--save-every") && access("run/S", F_OK) == 0 &&
	    !succeeds("qstate verify S"))
		return "a state that is not whole";
	if (hammer_has(c, "--store") &&
	    !succeeds("test ! -d store || qstate verify --store store"))
		return "a store that is not whole";
	return NULL;
}

/* After what a signal has left. */
static const char *
run_again(const struct command *c, const struct clean *w)
{
	struct rusage u;
	const char *wrong;
	int status;

	if (files_there(w->want, 0) == 0 && files_right(w->want, 0) == 0)
		return NULL;
	status = command_wait(hammer_start(c, "out", "err"), &u);
	if ((wrong = hammer_judge(c, status, &u, "err", 0)) != NULL)
		return wrong;
	if (status != 0)
		return "run again, it fails";
	if (!w->varies && !same("out", w->out, 0))
		return "run again, it prints something else";
	if (files_right(w->want, 1) != 0 || files_there(w->want, 1) != 0)
		return "run again, its files are others";
	if (!hammer_has(c, "--store") && hammer_litter() > 0)
		return "run again, it leaves a temporary";
	return NULL;
}

const char *
hammer_signal(const struct command *c, size_t number)
{
	static const int signals[] = { SIGKILL, SIGTERM, SIGINT, SIGHUP };
	struct clean *w = &clean[number];
	const char *wrong = learn(c, number);
	struct timespec t;
	int sig, status;
	double at;
	pid_t pid;

	if (wrong != NULL)
		return wrong;
	sig = signals[draw(4)];
	at = w->took * draw(1000) / 900;
	t.tv_sec = (time_t)at;
	t.tv_nsec = (long)((at - (double)t.tv_sec) * 1e9);
	command_folder(c);
	pid = hammer_start(c, "out", "err");
	nanosleep(&t, NULL);
	kill(pid, sig);
	status = command_wait(pid, NULL);
	if (status != 0 && !(WIFSIGNALED(status) && WTERMSIG(status) == sig))
		return "neither done nor ended by the signal";
	if ((wrong = hammer_judge_words("err", 0, 1)) != NULL)
		return wrong;
	if (!w->varies && !same("out", w->out, 1))
		return "output that is no part of the right one";
	if (sig != SIGKILL && hammer_litter() > 0)
		return "a temporary is left";
	if ((wrong = judge_left(c, w)) != NULL)
		return wrong;
	return run_again(c, w);
}

/* ------------------------------------------------------------ system calls */

static const struct call {
	const char *name, *errors[3];
} calls[] = {
	{ "openat", { "EMFILE", "EACCES", "EIO" } },
	{ "read", { "EIO" } }, { "pread64", { "EIO" } },
	{ "write", { "ENOSPC", "EIO" } }, { "pwrite64", { "ENOSPC", "EIO" } },
	{ "writev", { "ENOSPC" } }, { "fsync", { "EIO" } },
	{ "rename", { "EIO", "ENOSPC" } }, { "renameat", { "EIO" } },
	{ "ftruncate", { "EIO" } }, { "fchmod", { "EPERM" } },
	{ "mmap", { "ENOMEM" } }, { "mkdir", { "ENOSPC", "EACCES" } },
	{ "link", { "EPERM", "ENOSPC" } }, { "linkat", { "EPERM" } },
	{ "unlink", { "EACCES" } }, { "unlinkat", { "EACCES" } },
	{ "close", { "EIO" } }, { "newfstatat", { "EIO" } },
	{ "lseek", { "EIO" } }, { "fcntl", { "ENOLCK" } },
	{ "getdents64", { "EIO" } }, { "clone3", { "EAGAIN" } },
	{ "madvise", { "EINVAL" } }, { "utimensat", { "EPERM" } },
	{ "getcwd", { "ENOENT" } },
};
enum { N_CALLS = sizeof calls / sizeof calls[0] };

/* Each call of the first thread that can fail: which, and the how manieth. */
static struct { unsigned short call; unsigned n; } met[CALLS];

static int
call_named(const char *s)
{
	size_t i, n = strcspn(s, "(");

	for (i = 0; i < N_CALLS; i++) {
		if (strlen(calls[i].name) == n &&
		    strncmp(s, calls[i].name, n) == 0)
			return (int)i;
	}
	return -1;
}

/* What strace wrote: the calls after those of the loader. */
static size_t
read_log(const char *file)
{
	unsigned count[N_CALLS] = { 0 };
	size_t size, n = 0;
	char *s = contents(file, &size), *line, *rest;
	long first = s != NULL ? strtol(s, NULL, 10) : 0;
	int loading = 1, i;

	for (line = strtok(s, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		if (strtol(line, &rest, 10) != first)
			continue;
		while (*rest == ' ')
			rest++;
		/* the last that the loader does */
		loading = loading && strncmp(rest, "munmap(", 7) != 0;
		if ((i = call_named(rest)) < 0)
			continue;
		count[i]++;
		if (loading || n == CALLS || strncmp(rest, "write(2,", 8) == 0)
			continue;
		met[n].call = (unsigned short)i;
		met[n++].n = count[i];
	}
	free(s);
	return n;
}

/*
 * Whether the call that failed was the one that writes a message: another thread
 * counts its calls from 1 too.  In the log it may be parted in two lines.
 */
static int
is_silenced(const char *file)
{
	size_t size;
	char *s = contents(file, &size), *line, *rest;
	long pid, waits = -1;
	int is = 0;

	for (line = strtok(s, "\n"); line != NULL; line = strtok(NULL, "\n")) {
		pid = strtol(line, &rest, 10);
		while (*rest == ' ')
			rest++;
		if (strncmp(rest, "write(2,", 8) == 0)
			waits = pid;
		if (pid != waits)
			continue;
		is |= strstr(rest, "(INJECTED)") != NULL;
		if (strstr(rest, "<unfinished") == NULL)
			waits = -1;
	}
	free(s);
	return is;
}

/* What stands for a message that was not written. */
static void
add_message(const char *file)
{
	FILE *f = fopen(file, "a");

	if (f == NULL || fputs("hammer: here was a message\n", f) == EOF ||
	    fclose(f) != 0) {
		perror(file);
		exit(1);
	}
}

/* The command, under strace with these arguments. */
static pid_t
trace(const struct command *c, char *const *args, const char *out,
    const char *err)
{
	struct command w = *c;
	size_t i, n = 0;

	w.word[n++] = "strace";
	for (; *args != NULL; args++)
		w.word[n++] = *args;
	for (i = 0; c->word[i] != NULL && n < WORDS - 1; i++)
		w.word[n++] = c->word[i];
	w.word[n] = NULL;
	return hammer_start(&w, out, err);
}

/* A call that was met, of rare names as often as of others. */
static size_t
pick(size_t n)
{
	unsigned there[N_CALLS] = { 0 };
	size_t i, k;

	for (i = 0; i < n; i++)
		there[met[i].call]++;
	do {
		i = draw(N_CALLS);
	} while (there[i] == 0);
	k = draw(there[i]);
	for (n = 0; met[n].call != i || k-- > 0; n++)
		;
	return n;
}

static const char *
judge_call(const struct command *c, const struct clean *w, int status,
    const char *name)
{
	const char *wrong;

	if (status != 0 && (wrong = judge_left(c, w)) != NULL)
		return wrong;
	if (status == 0 && files_right(w->want, 1) != 0)
		return "status 0, and a file that is not right";
	if (strncmp(name, "unlink", 6) != 0 && hammer_litter() > 0)
		return "a temporary is left";
	/* JSON of a failure tells of it; a state's fingerprint of its
	   checkpoints */
	if (!w->varies && !(files_as_states && hammer_has(c, "-o")) && !same("out", w->out, status != 0) &&
	    (status == 0 || !hammer_has(c, "--json")))
		return "output that is not right";
	if (status == 0 && !hammer_has(c, "--store") &&
	    files_there(w->want, 1) != 0)
		return "status 0, and a file is missing";
	return NULL;
}

const char *
hammer_call(const struct command *c, size_t number)
{
	struct clean *w = &clean[number];
	char log[40], inject[100], *args[] = { "-f", "-qq", "-o", log, NULL,
	    NULL, NULL };
	const struct call *call;
	const char *wrong = learn(c, number);
	struct rusage u;
	size_t n, at;
	int status, silenced;

	if (wrong != NULL)
		return wrong;
	command_folder(c);
	snprintf(log, sizeof log, "../%s", w->log);
	if (access(w->log, F_OK) == -1) {
		if (command_wait(trace(c, args, "out", "err"), NULL) != 0)
			return "strace does not run it";
		command_folder(c);
	}
	if ((n = read_log(w->log)) == 0)
		return "no calls in the log of strace";
	at = pick(n);
	call = &calls[met[at].call];
	for (n = 1; n < 3 && call->errors[n] != NULL; n++)
		;
	snprintf(inject, sizeof inject, "inject=%s:error=%s:when=%u",
	    call->name, call->errors[draw((unsigned)n)], met[at].n);
	snprintf(log, sizeof log, "../log");
	args[4] = "-e";
	args[5] = inject;
	files_as_states = hammer_has(c, "--store");
	status = command_wait(trace(c, args, "out", "err"), &u);
	if ((silenced = is_silenced("log")))
		add_message("err");
	/* threads count their calls apart: the store may warn, too, and what
	   could not save at once says so before it fails in the end */
	if ((wrong = hammer_judge(c, status, &u, "err",
	    silenced || hammer_has(c, "--store") || goes_on(c))) == NULL)
		wrong = judge_call(c, w, status, call->name);
	if (wrong != NULL)
		printf("# %s\n", inject);
	return wrong;
}
