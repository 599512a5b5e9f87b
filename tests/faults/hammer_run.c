/* SPDX-License-Identifier: ISC */
/* hammer_run.c - a single run within limits, and the check of its results. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hammer.h"


char *hammer_wrap[8];
long hammer_limit_mb, hammer_limit_s, hammer_most_kb;
double hammer_slowest;

int
hammer_has(const struct command *c, const char *word)
{
	size_t i;

	for (i = 0; c->word[i] != NULL; i++) {
		if (strcmp(c->word[i], word) == 0)
			return 1;
	}
	return 0;
}

/* -------------------------------------------------------- files to be found */

char hammer_found[512][256];
size_t hammer_n_found;

static int
note_file(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)f;
	if (type == FTW_F && st->st_size > 0 && hammer_n_found < 512 &&
	    strlen(path) < sizeof hammer_found[0])
		strcpy(hammer_found[hammer_n_found++], path);
	return 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

void
hammer_find(const char *folder)
{
	hammer_n_found = 0;
	nftw(folder, note_file, 16, FTW_PHYS);
	qsort(hammer_found, hammer_n_found, sizeof hammer_found[0], by_name);
}

int
hammer_litter(void)
{
	size_t i;
	int n = 0;

	hammer_find("run");
	for (i = 0; i < hammer_n_found; i++) {
		if (is_temporary(hammer_found[i])) {
			printf("# left: %s\n", hammer_found[i]);
			n++;
		}
	}
	return n;
}

/* ----------------------------------------------------------------- running */

/* A request may ask for thousands of tokens, so what computes has longer. */
static rlim_t
patience(const char *tool)
{
	static const char *const parse[] = { "qtok", "qstate", "gguf-inspect",
	    "gguf-synth", "gguf-pin", "qsample", NULL };
	size_t i;

	for (i = 0; parse[i] != NULL; i++) {
		if (strcmp(tool, parse[i]) == 0)
			return (rlim_t)hammer_limit_s;
	}
	return 6 * (rlim_t)hammer_limit_s;
}

static void
set_limits(void *arg)
{
	const rlim_t s = patience(arg);
	const struct rlimit cpu = { s, s + 2 };
	const struct rlimit size = { 64 << 20, 64 << 20 };

	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_FSIZE, &size);
	alarm(4 * (unsigned)s);
}

pid_t
hammer_start(const struct command *c, const char *out, const char *err)
{
	struct command w = *c;
	size_t i, n;

	for (n = 0; hammer_wrap[n] != NULL; n++)
		w.word[n] = hammer_wrap[n];
	for (i = 0; c->word[i] != NULL && n < WORDS - 1; i++)
		w.word[n++] = c->word[i];
	w.word[n] = NULL;
	return command_start(&w, out, err, set_limits,
	    c->word[0]);
}

/* ----------------------------------------------------------------- judging */

/* Control characters; UTF-8 is as good as any. */
static int
is_raw(const char *s, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		if (((unsigned char)s[i] < ' ' && s[i] != '\n' &&
		    s[i] != '\t') || s[i] == 127)
			return 1;
		if (s[i] == '\xc2' && i + 1 < n &&
		    (unsigned char)s[i + 1] < 0xa0)
			return 1;
	}
	return 0;
}

const char *
hammer_judge_words(const char *file, int status, int may_warn)
{
	size_t n, lines = 0, i;
	char *s = contents(file, &n);
	const char *wrong = NULL;

	for (i = 0; s != NULL && i < n; i++)
		lines += s[i] == '\n';
	if (s == NULL)
		wrong = "no stderr";
	else if (strstr(s, "Sanitizer") != NULL ||
	    strstr(s, "runtime error:") != NULL || strstr(s, "==ERROR") != NULL)
		wrong = "a sanitizer's report";
	else if (is_raw(s, n))
		wrong = "control characters on stderr";
	else if (n > 0 && s[n - 1] != '\n')
		wrong = "half a line on stderr";
	else if (WEXITSTATUS(status) != 0 && lines == 0)
		wrong = "a failure without a word";
	else if (WEXITSTATUS(status) != 0 && lines != 1 && !may_warn)
		wrong = "not one line on stderr";
	free(s);
	return wrong;
}

/* Whether status 1 is an answer of it, which is on stdout. */
static int
answers(const struct command *c)
{
	return hammer_has(c, "--diff") || hammer_has(c, "diff") ||
	    hammer_has(c, "--check");
}

const char *
hammer_judge(const struct command *c, int status, const struct rusage *u,
    const char *err, int may_warn)
{
	double used = (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	    (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
	/* a line for each request, command or tensor that is wrong */
	int lines = strcmp(c->word[0], "qbatch") == 0 ||
	    strcmp(c->word[0], "qchat") == 0 ||
	    hammer_has(c, "--requests") || hammer_has(c, "--check");

	if (used > hammer_slowest)
		hammer_slowest = used;
	if (u->ru_maxrss > hammer_most_kb)
		hammer_most_kb = u->ru_maxrss;
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ||
		    WTERMSIG(status) == SIGXCPU ? "it hangs" :
		    WTERMSIG(status) == SIGXFSZ ? "output without end" :
		    "a crash";
	if (WEXITSTATUS(status) == 99)
		return "a sanitizer's report";
	if (WEXITSTATUS(status) > 1 && !(lines && WEXITSTATUS(status) == 3))
		return "a status other than 0 and 1";
	if (u->ru_maxrss > hammer_limit_mb << 10)
		return "too much memory";
	if (WEXITSTATUS(status) == 1 && answers(c) && is_empty(err) &&
	    !is_empty("out"))
		status = 0;
	return hammer_judge_words(err, status, may_warn || lines);
}
