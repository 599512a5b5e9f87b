/* SPDX-License-Identifier: ISC */
/*
 * inject.c - tools that run out of memory.
 *
 *	inject PRELOAD.so COMMANDS
 *
 * COMMANDS has a line for each: a file for its stdin and the command, words
 * parted by blanks.  It is run in an empty folder; "+" before the line: in a
 * copy of the folder init; "~": what comes of it is another thing each time.  It
 * is run once to see what comes of it and where it allocates, then once for
 * each of these places, which fails.  What is wanted then: status 1, one line
 * on stderr that says "out of memory", nothing half-done; or, if the tool can
 * do without, what came of it the first time.
 *
 * FAULTS=N	so many places of each command, drawn from SEED, fewer if it is
 *		slow; without it all of them, in several ways
 */
#define _GNU_SOURCE
#include <sys/stat.h>
#include <sys/wait.h>

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS	64
#define MOST	8192
#define LIMIT	60	/* seconds that a run may take */
#define SLOW	0.3	/* seconds above which it is run less often */

struct command {
	char	*word[WORDS], *in;
	int	 init, varies, slow;
};

static struct place {
	char	name[20], trace[240];
	long	met;
} place[MOST];

static const char *preload;
static char top[4096];
static uint64_t state;

static unsigned
draw(unsigned below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(state >> 33) % below;
}

static char *
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

/* Whether a is b, or with part_of, the beginning of b. */
static int
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

static int
delete(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st;
	(void)type;
	(void)f;
	return remove(path);
}

/* What a run left is what the first one left, or there before, or absent. */
static int
compare(const char *path, const struct stat *st, int type, struct FTW *f)
{
	char other[4096];

	(void)f;
	if (type != FTW_F || st->st_size == 0)
		return 0;
	snprintf(other, sizeof other, "want/%s", path + 4);
	if (same(path, other, 0))
		return 0;
	snprintf(other, sizeof other, "init/%s", path + 4);
	if (same(path, other, 0))
		return 0;
	printf("# %s is neither what it was nor what it should be\n", path + 4);
	return 1;
}

/* All that the first run left is there. */
static int
present(const char *path, const struct stat *st, int type, struct FTW *f)
{
	char other[4096];

	(void)st;
	(void)f;
	snprintf(other, sizeof other, "run/%s", path + 5);
	if (type == FTW_F && access(other, F_OK) == -1) {
		printf("# %s is missing\n", path + 5);
		return 1;
	}
	return 0;
}

static void
child(const struct command *c, const char *out, const char *err, char *at,
    char *log)
{
	char path[4200];

	if (freopen(out, "w", stdout) == NULL ||
	    freopen(err, "w", stderr) == NULL || chdir("run") == -1 ||
	    freopen(c->in, "r", stdin) == NULL)
		_exit(99);
	setenv("LD_PRELOAD", preload, 1);
	if (at != NULL)
		setenv("FAULT_AT", at, 1);
	snprintf(path, sizeof path, "%s/%s", top, log != NULL ? log : "");
	if (log != NULL)
		setenv("FAULT_LOG", path, 1);
	alarm(LIMIT);
	execvp(c->word[0], c->word);
	_exit(99);
}

/* The status of a run in the folder run. */
static int
run(const struct command *c, const char *out, const char *err, char *at,
    char *log)
{
	int status;
	pid_t pid;

	nftw("run", delete, 16, FTW_DEPTH | FTW_PHYS);
	if (c->init ? system("cp -Rp init run") != 0 : mkdir("run", 0777) != 0) {
		perror("run");
		exit(1);
	}
	fflush(stdout);
	if ((pid = fork()) == 0)
		child(c, out, err, at, log);
	if (pid == -1 || waitpid(pid, &status, 0) == -1) {
		perror("fork");
		exit(1);
	}
	return status;
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
		else if (nftw("want", present, 16, FTW_PHYS) != 0)
			wrong = "status 0 and a file that is missing";
	} else if (WEXITSTATUS(status) != 1)
		wrong = "neither status 0 nor 1";
	else if (!says_so(said))
		wrong = "a line on stderr, or none, that is not: out of memory";
	else if (!many && (end == NULL || end[1] != '\0'))
		wrong = "not one line on stderr";
	else if (!c->varies && !same("out", "out.want", 1))
		wrong = "output that is no part of the right one";
	if (wrong == NULL && !c->varies &&
	    nftw("run", compare, 16, FTW_PHYS) != 0)
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
	struct place swap;
	size_t i, j;
	int bad = 0;

	for (i = 0; i < n && i < most; i++) {
		if (most < n) {	/* a part of a shuffle */
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
parse(struct command *c, char *line)
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

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
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
	nftw("want", delete, 16, FTW_DEPTH | FTW_PHYS);
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
	struct command c;
	char line[4096];
	int number = 0, failed = 0;
	FILE *f;

	if (argc != 3 || (f = fopen(argv[2], "r")) == NULL ||
	    getcwd(top, sizeof top) == NULL) {
		fprintf(stderr, "usage: inject PRELOAD.so COMMANDS\n");
		return 2;
	}
	preload = argv[1];
	state = seed != NULL ? strtoul(seed, NULL, 10) : 1;
	while (fgets(line, sizeof line, f) != NULL) {
		if (parse(&c, line) == 0)
			failed |= command(&c, ++number, most);
		fflush(stdout);
	}
	fclose(f);
	printf("1..%d\n", number);
	return failed;
}
