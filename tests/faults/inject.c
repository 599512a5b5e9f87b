/* SPDX-License-Identifier: ISC */
/*
 * inject.c - makes tools run out of memory.
 *
 *	inject PRELOAD.so COMMANDS
 *
 * The head of tests/faults/commands describes COMMANDS.  Each command runs once
 * to record its result and the places where it allocates, then once per place,
 * with the allocation there failing.  Then it must exit with status 1, print
 * one line on stderr that says "out of memory", and leave nothing half-done;
 * or, if it can do without the allocation, have the recorded result.
 *
 * FAULTS=N		try N places of each command, drawn from SEED, fewer of a slow
 *			one; by default all of them, in several ways
 * FAULT_SECONDS=N	try as many places, drawn from SEED, as time allows
 */
#define _GNU_SOURCE
#include <sys/wait.h>

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

#define MOST	8192
#define LIMIT	60	/* seconds that a run may take */
#define SLOW	0.3	/* seconds above which it is run less often */

static struct place {
	char	name[20], trace[240];
	long	met;
} place[MOST];

static const char *preload;
static char top[4096];
static double each = 1e9;	/* seconds for a command */

/* What the child is told by its environment. */
struct told {
	char	*at, *log;
};

static void
set(void *arg)
{
	const struct told *t = arg;
	char path[4200];

	setenv("LD_PRELOAD", preload, 1);
	if (t->at != NULL)
		setenv("FAULT_AT", t->at, 1);
	snprintf(path, sizeof path, "%s/%s", top, t->log != NULL ? t->log : "");
	if (t->log != NULL)
		setenv("FAULT_LOG", path, 1);
	alarm(LIMIT);
}

/* The status of a run in the folder run. */
static int
run(const struct command *c, const char *out, const char *err, char *at,
    char *log)
{
	struct told t = { at, log };

	command_folder(c);
	return command_wait(command_start(c, out, err, set, &t), NULL);
}

static size_t
read_places(const char *file)
{
	char line[400];
	size_t n = 0;
	int at;
	FILE *f = fopen(file, "r");

	while (f != NULL && n < MOST && fgets(line, sizeof line, f) != NULL) {
		if (sscanf(line, "%19s %ld %n", place[n].name, &place[n].met,
		    &at) != 2)
			continue;
		snprintf(place[n].trace, sizeof place[n].trace, "%s",
		    line + at);
		n++;
	}
	if (f != NULL)
		fclose(f);
	return n;
}

/* Every line does, and there is one. */
static int
says_so(const char *s)
{
	const char *end, *at;

	if (*s == '\0')
		return 0;
	for (; (end = strchr(s, '\n')) != NULL; s = end + 1) {
		at = strstr(s, "out of memory");
		if (at == NULL || at > end)
			return 0;
	}
	return *s == '\0';
}

/*
 * What is wrong with what came of a failure, or NULL; many: of many failures,
 * each of which may be told.
 */
static const char *
judge(const struct command *c, int status, int many)
{
	size_t n, m;
	char *all = contents("err", &n), *notes = contents("err.want", &m);
	const char *wrong = NULL, *said = all, *end;

	/* what is said in any case */
	if (strncmp(all, notes, m) == 0)
		said += m;
	end = strchr(said, '\n');
	if (WIFSIGNALED(status))
		wrong = WTERMSIG(status) == SIGALRM ? "it hangs" : "a crash";
	else if (WEXITSTATUS(status) == 0) {
		if (!c->varies && !same("out", "out.want", 0))
			wrong = "status 0 and another output";
		else if (files_there("want", 1) != 0)
			wrong = "status 0 and a file that is missing";
	} else if (WEXITSTATUS(status) != 1 && WEXITSTATUS(status) != 3)
		wrong = "neither status 0 nor 1, nor 3 for one result";
	else if (!says_so(said))
		wrong = "a line on stderr, or none, that is not: out of memory";
	else if (!many && (end == NULL || end[1] != '\0'))
		wrong = "not one line on stderr";
	else if (!c->varies && !same("out", "out.want", 1))
		wrong = "output that is no part of the right one";
	if (wrong == NULL && !c->varies && files_right("want", 1) != 0)
		wrong = "a wrong file";
	if (wrong != NULL)
		printf("# %s; status %#x, stderr: %.300s%s", wrong, status, said,
		    n > 0 && all[n - 1] == '\n' ? "" : "\n");
	free(all);
	free(notes);
	return wrong;
}

/* Where it is in the source, for who has to mend it. */
static void
print_place(const struct command *c, const char *at, const char *trace)
{
	char cmd[4096];

	printf("# place %s %s", at, trace);
	snprintf(cmd, sizeof cmd, "addr2line -s -f -p -e \"$(command -v %s)\" %s"
	    " 2>/dev/null | sed 's/^/#     /; /[?]/d'", c->word[0], trace);
	cmd[strcspn(cmd, "\n")] = ' ';
	fflush(stdout);
	if (system(cmd) == -1)
		perror("addr2line");
}

/* One place that fails: 1 if what comes of it is not what is wanted. */
static int
try(const struct command *c, const struct place *p, long n, int and_all_after)
{
	char at[64];

	snprintf(at, sizeof at, "%s:%ld%s", p->name, n, and_all_after ? "+" : "");
	if (judge(c, run(c, "out", "err", at, NULL), and_all_after) == NULL)
		return 0;
	print_place(c, at, p->trace);
	return 1;
}

static int
try_all(const struct command *c, size_t n, size_t most, size_t *tried)
{
	double until = now() + each;
	struct place swap;
	size_t i, j;
	int bad = 0;

	for (i = 0; i < n && i < most && now() < until; i++) {
		if (most < n || each < 1e9) {	/* a part of a shuffle */
			j = i + draw((unsigned)(n - i));
			swap = place[i];
			place[i] = place[j];
			place[j] = swap;
			bad += try(c, &place[i],
			    1 + draw((unsigned)place[i].met), (int)draw(2));
			continue;
		}
		bad += try(c, &place[i], 1, 0);
		if (!c->slow)
			bad += try(c, &place[i], 1, 1);
		if (!c->slow && place[i].met > 1)
			bad += try(c, &place[i], place[i].met, 0);
	}
	*tried = i;
	return bad;
}

static int
command(struct command *c, int number, size_t most)
{
	double begun = now();
	char name[200] = "";
	size_t i, n, tried, size;
	char *said;
	int bad, status;

	for (i = 0; c->word[i] != NULL; i++)
		snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s",
		    i > 0 ? " " : "", c->word[i]);
	status = run(c, "out.want", "err.want", NULL, "places");
	c->slow = now() - begun > SLOW;
	remove_tree("want");
	n = read_places("places");
	if (status != 0 || n == 0 || rename("run", "want") == -1) {
		said = contents("err.want", &size);
		printf("# status %#x, %zu places, %.300s\n", status, n,
		    said != NULL ? said : "");
		printf("not ok %d - %s\n", number, name);
		free(said);
		return 1;
	}
	unlink("places");
	bad = try_all(c, n, c->slow && most < MOST ? most / 4 + 1 : most,
	    &tried);
	printf("%sok %d - %s: %zu of %zu places%s\n", bad > 0 ? "not " : "",
	    number, name, tried, n, bad > 0 ? ", see above" : "");
	return bad > 0;
}

int
main(int argc, char *argv[])
{
	const char *s = getenv("FAULTS"), *seed = getenv("SEED");
	size_t most = s != NULL ? strtoul(s, NULL, 10) : MOST;
	size_t i, n;
	struct command *c;
	int failed = 0;

	if (argc != 3 || getcwd(top, sizeof top) == NULL) {
		fprintf(stderr, "usage: inject PRELOAD.so COMMANDS\n");
		return 2;
	}
	preload = argv[1];
	if (seed != NULL)
		draw_seed = strtoul(seed, NULL, 10);
	n = command_list(&c, argv[2]);
	if ((s = getenv("FAULT_SECONDS")) != NULL)
		each = strtod(s, NULL) / (double)n;
	for (i = 0; i < n; i++) {
		failed |= command(&c[i], (int)i + 1, most);
		fflush(stdout);
	}
	free(c);
	printf("1..%zu\n", n);
	return failed;
}
