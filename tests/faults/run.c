/* SPDX-License-Identifier: ISC */
/* run.c - runs commands from a list in a folder, and checks the results. */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

uint64_t draw_seed = 1;
static const char *wanted;
static int telling;
int files_as_states;

unsigned
draw(unsigned below)
{
	draw_seed = draw_seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(draw_seed >> 33) % below;
}

double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---------------------------------------------------------------- commands */

int
command_parse(struct command *c, char *line)
{
	int n = 0;
	char *w;

	memset(c, 0, sizeof *c);
	for (; *line == '+' || *line == '~'; line++) {
		c->init |= *line == '+';
		c->varies |= *line == '~';
	}
	if ((c->in = strtok(line, " \n")) == NULL)
		return -1;
	while ((w = strtok(NULL, " \n")) != NULL && n < WORDS - 1)
		c->word[n++] = w;
	return n > 0 ? 0 : -1;
}

size_t
command_list(struct command **out, const char *path)
{
	size_t size, n = 0;
	char *s = contents(path, &size), *next;
	struct command *c = NULL;

	if (s == NULL) {
		perror(path);
		exit(1);
	}
	for (; *s != '\0'; s = next) {
		if ((next = strchr(s, '\n')) != NULL)
			*next++ = '\0';
		else
			next = s + strlen(s);
		if ((c = realloc(c, (n + 1) * sizeof *c)) == NULL)
			abort();
		if (*s != '#' && command_parse(&c[n], s) == 0)
			n++;
	}
	*out = c;
	return n;
}

void
command_folder(const struct command *c)
{
	remove_tree("run");
	if (c->init ? system("cp -Rp init run") != 0 : mkdir("run", 0777) != 0) {
		perror("run");
		exit(1);
	}
}

/* Killed before it opens them, it has said nothing, not what the last one did. */
static void
make_empty(const char *path)
{
	FILE *f = fopen(path, "w");

	if (f != NULL)
		fclose(f);
}

pid_t
command_start(const struct command *c, const char *out, const char *err,
    void (*set)(void *), void *arg)
{
	pid_t pid;

	fflush(stdout);
	make_empty(out);
	make_empty(err);
	if ((pid = fork()) == -1) {
		perror("fork");
		exit(1);
	}
	if (pid != 0)
		return pid;
	if (freopen(out, "w", stdout) == NULL ||
	    freopen(err, "w", stderr) == NULL || chdir("run") == -1 ||
	    freopen(c->in, "r", stdin) == NULL)
		_exit(98);
	if (set != NULL)
		set(arg);
	execvp(c->word[0], c->word);
	_exit(98);
}

int
command_wait(pid_t pid, struct rusage *u)
{
	struct rusage ignore;
	int status;

	if (wait4(pid, &status, 0, u != NULL ? u : &ignore) == -1) {
		perror("wait");
		exit(1);
	}
	return status;
}

/* ------------------------------------------------------------------- files */

char *
contents(const char *path, size_t *n)
{
	char *s = NULL;
	struct stat st;
	int fd = open(path, O_RDONLY);

	*n = 0;
	if (fd == -1 || fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) ||
	    (s = malloc((size_t)st.st_size + 1)) == NULL) {
		if (fd != -1)
			close(fd);
		return NULL;
	}
	if (read(fd, s, (size_t)st.st_size) != st.st_size) {
		perror(path);
		exit(1);
	}
	close(fd);
	*n = (size_t)st.st_size;
	s[*n] = '\0';
	return s;
}

int
same(const char *a, const char *b, int part_of)
{
	size_t n, m;
	char *s = contents(a, &n), *t = contents(b, &m);
	int is = s != NULL && t != NULL && (part_of ? n <= m : n == m) &&
	    memcmp(s, t, n) == 0;

	free(s);
	free(t);
	return is;
}

int
is_temporary(const char *path)
{
	return strstr(path, "qpipe-tmp") != NULL ||
	    strstr(path, "/.tmp") != NULL;
}

int
is_empty(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_size == 0;
}

/* Whether a is b but for some hundred bytes at the ends. */
static int
same_but_ends(const char *a, const char *b)
{
	size_t n, m, i = 0;
	char *s = contents(a, &n), *t = contents(b, &m);
	int both = s != NULL && t != NULL;

	while (both && i < n && i < m && s[i] == t[i])
		i++;
	free(s);
	free(t);
	return both && i + 1000 > n && i + 1000 > m;
}

/*
 * Whether the state, S, is the other but for its checkpoints; or a part of a
 * store, where these and the index come last, and of which diff knows nothing.
 */
static int
same_state(const char *path, const char *other)
{
	const char *dot = strrchr(path, '.');
	char line[8400];

	if (!files_as_states)
		return 0;
	if (strcmp(path, "run/S") == 0)
		snprintf(line, sizeof line, "qstate diff %s %s >/dev/null 2>&1",
		    path, other);
	else if (dot != NULL && strcmp(dot, ".cp") == 0 &&
	    same_but_ends(path, other))
		snprintf(line, sizeof line, "qstate verify %s >/dev/null 2>&1",
		    path);
	else
		return 0;
	return system(line) == 0;
}

/* What a run left is what the first one left, or there before, or absent. */
static int
compare(const char *path, const struct stat *st, int type, struct FTW *f)
{
	char other[4096];

	(void)f;
	/* what gc was removing when it was killed is removed by a later one */
	if (type != FTW_F || st->st_size == 0 || is_temporary(path) ||
	    strstr(path, "/.gone-") != NULL)
		return 0;
	snprintf(other, sizeof other, "%s/%s", wanted, path + 4);
	if (same(path, other, 0) || is_empty(other) || same_state(path, other))
		return 0;
	snprintf(other, sizeof other, "init/%s", path + 4);
	if (same(path, other, 0))
		return 0;
	if (telling)
		printf("# %s is neither what it was nor what it should be\n",
		    path + 4);
	return 1;
}

/* All that the first run left is there. */
static int
present(const char *path, const struct stat *st, int type, struct FTW *f)
{
	char other[4096];

	(void)st;
	(void)f;
	path += strlen(wanted) + 1;
	snprintf(other, sizeof other, "run/%s", path);
	if (type == FTW_F && access(other, F_OK) == -1) {
		if (telling)
			printf("# %s is missing\n", path);
		return 1;
	}
	return 0;
}

int
files_right(const char *want, int tell)
{
	wanted = want;
	telling = tell;
	return nftw("run", compare, 16, FTW_PHYS);
}

int
files_there(const char *want, int tell)
{
	wanted = want;
	telling = tell;
	return nftw(want, present, 16, FTW_PHYS);
}
