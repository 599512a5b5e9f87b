/* SPDX-License-Identifier: ISC */
/*
 * hammer.c - runs tools with one fault each, again and again.
 *
 *	hammer KIND COMMANDS
 *
 * Each run draws a command from the list (whose head explains its form) and
 * applies a fault of this kind:
 *	model, wire, text	changes a file that the command reads: GGUF;
 *				streams and states; all others
 *				(tests/fuzz/mutate.h)
 *	store	changes a file of the store in its copy of init, while qstate gc
 *		runs there
 *	signal	kills it with a signal at some moment; then runs it again
 *	call	makes a system call fail, by strace(1)
 *	none	changes nothing; for sanitizers
 * A correct command exits with status 0, or with 1 and one line on stderr
 * without control characters; it leaves nothing half-written and no temporary
 * files, and stays within the limits of time and memory.  Except for time, the
 * result of a run depends only on SEED and the run's number.
 *
 * SEED=N FIRST=N STEP=N	do the runs FIRST, FIRST + STEP, ...
 * FAULT_SECONDS=N	run for N seconds; default 10
 * FOUND=FOLDER		keep failures there, each with a script that repeats it
 * WRAP=WORDS		put these words before each command, as in valgrind -q
 * LIMIT_MB=N LIMIT_S=N	limits of memory and processor time of a run; six times
 *			as much time for commands that compute
 *
 * Prints a line for the table of tests/faults/audit.sh.
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../fuzz/mutate.h"
#include "hammer.h"
#include "run.h"

enum { FILE_MAX = 1 << 25, KEPT_MAX = 20 };

static const char *const kinds[] = { "model", "wire", "text", "store", "signal",
    "call", "none", NULL };

static struct command *list;
static size_t n_list;
static const char *kind_name, *model;
static enum hammer_kind kind;
static long first, step = 1;
static uint64_t seed = 1;

static long n_runs, n_failed;

/* ------------------------------------------------------ what may be changed */

/* By its name, which may be followed by a scale, adapter.gguf=0.5. */
static enum mutate_kind
form_of(const char *name)
{
	size_t n = strcspn(name, "=");

	if (strcmp(name, "model") == 0 ||
	    (n > 5 && strncmp(name + n - 5, ".gguf", 5) == 0))
		return MUTATE_GGUF;
	if (n > 5 && strncmp(name + n - 5, ".cbor", 5) == 0)
		return MUTATE_CBOR;
	return MUTATE_TEXT;
}

/* Whether it names a file, not a folder, above the one where commands run. */
static int
is_file(const char *word)
{
	char path[200];
	struct stat st;

	if (strncmp(word, "../", 3) != 0)
		return 0;
	snprintf(path, sizeof path, "%.*s", (int)strcspn(word + 3, "="),
	    word + 3);
	return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether the command opens the model that the environment names. */
static int
takes_model(const struct command *c)
{
	static const char *const without[] = { "qstate", "gguf-synth",
	    "gguf-pin", NULL };
	size_t i;

	for (i = 0; without[i] != NULL; i++) {
		if (strcmp(c->word[0], without[i]) == 0)
			return 0;
	}
	return 1;
}

/*
 * The places of a command's inputs of the kind that is to be changed: the words
 * by number, INPUT_IN or INPUT_MODEL.  How many.
 */
static size_t
inputs(const struct command *c, int *place)
{
	static const enum mutate_kind form[] = { MUTATE_GGUF, MUTATE_CBOR,
	    MUTATE_TEXT };
	size_t n = 0;
	int i;

	if (is_file(c->in) && form_of(c->in + 3) == form[kind])
		place[n++] = INPUT_IN;
	for (i = 1; c->word[i] != NULL; i++) {
		if (is_file(c->word[i]) &&
		    form_of(c->word[i] + 3) == form[kind])
			place[n++] = i;
	}
	if (kind == HAMMER_MODEL && takes_model(c))
		place[n++] = INPUT_MODEL;
	return n;
}

/* Whether there is anything wrong that can be done with it. */
static int
is_fit(const struct command *c)
{
	int place[WORDS + 2];

	/* it starts itself, as /proc/self/exe; that is valgrind then */
	if (hammer_wrap[0] != NULL && strcmp(c->word[0], "qbench") == 0)
		return 0;
	switch (kind) {
	case HAMMER_MODEL:
	case HAMMER_WIRE:
	case HAMMER_TEXT:
		return inputs(c, place) > 0;
	case HAMMER_STORE:
		return c->init;
	case HAMMER_SIGNAL:
		return c->init || hammer_has(c, "-o");
	default:
		return 1;
	}
}

/* -------------------------------------------------------------- the change */

static unsigned char bytes[FILE_MAX];

static void
write_file(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (f == NULL || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

/*
 * How many bytes of text: a megabyte of what is only parsed, and few of what is
 * computed, which takes its time rightly.
 */
static size_t
most_text(const char *name)
{
	static const char *const parsed[] = { ".json", ".gbnf", ".jinja", NULL };
	const char *dot = strrchr(name, '.');
	size_t i;

	for (i = 0; dot != NULL && parsed[i] != NULL; i++) {
		if (strcmp(dot, parsed[i]) == 0)
			return 1 << 20;
	}
	return 1 << 11;
}

/* The file at from, or another of its sort from the folder more, changed. */
static void
change(const char *from, const char *name, const char *to)
{
	char folder[300];
	size_t n, k, max;
	char *s;

	snprintf(folder, sizeof folder, "more/%s", name);
	hammer_find(folder);
	if (hammer_n_found > 0 && draw(2) == 0)
		from = hammer_found[draw((unsigned)hammer_n_found)];
	if ((s = contents(from, &n)) == NULL || n > FILE_MAX / 2) {
		fprintf(stderr, "hammer: %s: cannot be read\n", from);
		exit(1);
	}
	memcpy(bytes, s, n);
	free(s);
	max = form_of(name) == MUTATE_TEXT ? most_text(name) : n + 4096;
	for (k = 1 + draw(3) / 2; k > 0; k--)
		n = mutate(form_of(name), bytes, n, max, &draw_seed);
	write_file(to, bytes, n);
}

/* Change an input: it is another file, whose name is put into the command. */
static void
change_input(struct command *c)
{
	static char path[300], env[5000];
	int place[WORDS + 2], at;
	char cwd[4096], name[200];
	const char *word;

	at = place[draw((unsigned)inputs(c, place))];
	word = at == INPUT_MODEL ? "model" : at == INPUT_IN ? c->in + 3 :
	    c->word[at] + 3;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
	snprintf(path, sizeof path, "../in/%s", name);
	change(at == INPUT_MODEL ? model : name, name, path + 3);
	/* and the scale */
	strcat(path, word + strlen(name));
	if (at == INPUT_IN)
		c->in = path;
	else if (at != INPUT_MODEL)
		c->word[at] = path;
	else {
		if (getcwd(cwd, sizeof cwd) == NULL)
			abort();
		snprintf(env, sizeof env, "%s/in/model", cwd);
		setenv("QWEN_MODEL", env, 1);
	}
}

/* Make all that run number i is, in the folders run and in; of which command. */
static size_t
prepare(long i, struct command *c)
{
	size_t k, number;

	draw_seed = seed * 6364136223846793005u + (uint64_t)i * 2654435761u +
	    (uint64_t)kind;
	draw(2);
	setenv("QWEN_MODEL", model, 1);
	do {
		number = draw((unsigned)n_list);
	} while (!is_fit(&list[number]));
	*c = list[number];
	command_folder(c);
	remove_tree("in");
	if (mkdir("in", 0777) == -1) {
		perror("in");
		exit(1);
	}
	if (kind <= HAMMER_TEXT)
		change_input(c);
	if (kind == HAMMER_STORE && draw(8) != 0) {
		hammer_find("run");
		k = draw((unsigned)hammer_n_found);
		change(hammer_found[k], "state.cbor", hammer_found[k]);
	}
	return number;
}

/* ------------------------------------------------------------------- runs */

/* The words of the command, as a shell takes them. */
static void
print_command(FILE *f, const struct command *c)
{
	size_t n;

	for (n = 0; hammer_wrap[n] != NULL; n++)
		fprintf(f, "%s ", hammer_wrap[n]);
	for (n = 0; c->word[n] != NULL; n++)
		fprintf(f, "%s ", c->word[n]);
	fprintf(f, "<%s\n", c->in);
}

/* Keep what made it fail: what it left, and what it began with once more. */
static void
keep(long i, const char *why, const struct command *c)
{
	const char *folder = getenv("FOUND"), *named;
	char cmd[2048], path[512];
	struct command again;
	FILE *f;

	printf("# %s %ld: %s: ", kind_name, i, why);
	print_command(stdout, c);
	fflush(stdout);
	if (n_failed++ >= KEPT_MAX || folder == NULL)
		return;
	snprintf(path, sizeof path, "%.400s/%s-%ld", folder, kind_name, i);
	snprintf(cmd, sizeof cmd, "mkdir -p '%s' && cp -R run '%s/left' && "
	    "find . -maxdepth 1 -type f -exec cp {} '%s' ';'", path, path,
	    path);
	if (system(cmd) != 0)
		return;
	prepare(i, &again);
	snprintf(cmd, sizeof cmd, "cp -R run in '%s'", path);
	if (system(cmd) != 0)
		return;
	strcat(path, "/again");
	if ((f = fopen(path, "w")) == NULL)
		return;
	named = strstr(getenv("QWEN_MODEL"), "/in/model") != NULL ?
	    "../in/model" : model;
	fprintf(f, "# %s\ncd \"${0%%/*}/run\" || exit\nPATH='%s'\n"
	    "QWEN_MODEL='%s'\nexport PATH QWEN_MODEL\n", why, getenv("PATH"),
	    named);
	print_command(f, &again);
	fclose(f);
}

static pid_t
start_gc(void)
{
	static char *const words[] = { "qstate", "gc", "--store", "store",
	    "--store-max", "6k" };
	struct command c = { .in = "/dev/null" };

	memcpy(c.word, words, sizeof words);
	return hammer_start(&c, "out.gc", "err.gc");
}

/* Something is wrong with what it reads, or nothing is. */
static const char *
run_input(struct command *c)
{
	const char *wrong = NULL, *gc_wrong = NULL;
	struct rusage u;
	pid_t gc = 0;
	int status;

	if (kind == HAMMER_STORE && draw(2) == 0)
		gc = start_gc();
	status = command_wait(hammer_start(c, "out", "err"), &u);
	wrong = hammer_judge(c, status, &u, "err", kind == HAMMER_STORE ||
	    strcmp(c->word[0], "qbatch") == 0);
	if (gc != 0)
		gc_wrong = hammer_judge(c, command_wait(gc, &u), &u, "err.gc", 1);
	if (wrong == NULL && hammer_litter() > 0)
		wrong = "a temporary is left";
	if (wrong == NULL && WEXITSTATUS(status) == 1 && !c->init &&
	    access("run/S", F_OK) == 0)
		wrong = "it failed, and its output is there";
	if (wrong == NULL && kind == HAMMER_NONE && WEXITSTATUS(status) != 0)
		wrong = "it failed";
	return wrong != NULL ? wrong : gc_wrong;
}

static void
run_one(long i)
{
	struct command c;
	const char *wrong;
	size_t number;

	number = prepare(i, &c);
	if (kind == HAMMER_SIGNAL)
		wrong = hammer_signal(&c, number);
	else if (kind == HAMMER_CALL)
		wrong = hammer_call(&c, number);
	else
		wrong = run_input(&c);
	n_runs++;
	if (wrong != NULL)
		keep(i, wrong, &c);
}

static long
number_of(const char *name, long without)
{
	const char *s = getenv(name);

	return s != NULL ? strtol(s, NULL, 10) : without;
}

int
main(int argc, char *argv[])
{
	double until;
	char *s, *w;
	size_t n;
	long i;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 3) {
		for (n = 0; kinds[n] != NULL; n++) {
			if (strcmp(argv[1], kinds[n]) == 0) {
				kind = (enum hammer_kind)n;
				kind_name = kinds[n];
			}
		}
	}
	if (kind_name == NULL || getenv("QWEN_MODEL") == NULL) {
		fprintf(stderr, "usage: QWEN_MODEL=... hammer KIND COMMANDS\n");
		return 2;
	}
	model = strdup(getenv("QWEN_MODEL"));
	n_list = command_list(&list, argv[2]);
	seed = (uint64_t)number_of("SEED", 1);
	first = number_of("FIRST", 0);
	step = number_of("STEP", 1);
	hammer_limit_mb = number_of("LIMIT_MB", 1000);
	hammer_limit_s = number_of("LIMIT_S", 10);
	until = now() + (double)number_of("FAULT_SECONDS", 10);
	n = 0;
	if ((s = getenv("WRAP")) != NULL) {
		for (w = strtok(s, " "); w != NULL && n < 7;
		    w = strtok(NULL, " "))
			hammer_wrap[n++] = w;
	}
	for (i = first; now() < until; i += step)
		run_one(i);
	printf("%s %ld %ld %.1f %ld\n", kind_name, n_runs, n_failed, hammer_slowest,
	    hammer_most_kb >> 10);
	return n_failed > 0;
}
