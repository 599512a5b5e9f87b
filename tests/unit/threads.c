/* SPDX-License-Identifier: ISC */
/*
 * threads.c - which processors share a core according to Linux; and the
 * measured number of threads is recorded and used.
 */
#define _GNU_SOURCE		/* sched_getaffinity */
#include <sys/stat.h>

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "engine/cpu/tune.h"
#include "../tap.h"

static char dir[] = "/tmp/threads.XXXXXX";

/* ------------------------------------------------------------------- cores */

#if defined(__linux__)
/* Each line of lists for a processor that this process has, from the first on. */
static int
cores(const char *file, const char *const *lists, int n_lists)
{
	char path[256];
	cpu_set_t set;
	int cpu, n = 0;
	FILE *f;

	sched_getaffinity(0, sizeof set, &set);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		snprintf(path, sizeof path, "%s/cpu%d", dir, cpu);
		mkdir(path, 0700);
		strcat(path, "/topology");
		mkdir(path, 0700);
		strcat(path, "/");
		strcat(path, file);
		if ((f = fopen(path, "w")) == NULL)
			return -1;
		/* where there are more, each is alone */
		if (n < n_lists)
			fputs(lists[n++], f);
		else
			fprintf(f, "%d\n", cpu);
		fclose(f);
	}
	return qwen_cpu_cores(dir);
}

static void
trees(void)
{
	cpu_set_t set;
	int n, a = -1, b = -1, cpu;
	char both[64], range[64], one[2][32];

	sched_getaffinity(0, sizeof set, &set);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &set))
			continue;
		if (a < 0)
			a = cpu;
		else if (b < 0)
			b = cpu;
	}
	n = CPU_COUNT(&set);
	ok(qwen_cpu_cores("/nowhere") == INT_MAX, "nothing is told");
	if (b < 0) {
		skip("siblings", "one processor");
		return;
	}
	snprintf(both, sizeof both, "%d,%d\n", a, b);
	snprintf(range, sizeof range, "%d-%d\n", a, b);
	snprintf(one[0], sizeof one[0], "%d\n", a);
	snprintf(one[1], sizeof one[1], "%d,99999\n", b);
	ok(cores("thread_siblings_list", (const char *[]){ one[0], one[1] },
	    2) == n, "%d cores of their own", n);
	ok(cores("thread_siblings_list", (const char *[]){ both, both }, 2) ==
	    n - 1, "two are siblings, by the older name");
	ok(cores("core_cpus_list", (const char *[]){ range, range }, 2) ==
	    n - (b - a), "and by the newer one, a range");
	ok(cores("core_cpus_list", (const char *[]){ "x\n", both }, 2) ==
	    INT_MAX, "no list");
	ok(cores("core_cpus_list", (const char *[]){ "", both }, 2) ==
	    INT_MAX, "an empty one");
	ok(cores("core_cpus_list", (const char *[]){ "-3,9-\n", both }, 2) ==
	    INT_MAX, "nonsense");
}
#else
static void
trees(void)
{
	ok(qwen_cpu_cores(dir) == INT_MAX, "nothing is told");
}
#endif

/* ----------------------------------------------------------- what is faster */

static int
lines(const char *path, const char *begin)
{
	char line[256];
	FILE *f = fopen(path, "r");
	int n = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		n += strncmp(line, begin, strlen(begin)) == 0;
	if (f != NULL)
		fclose(f);
	return n;
}

static void
put(const char *path, const char *mode, const char *line)
{
	FILE *f = fopen(path, mode);

	if (f != NULL) {
		fputs(line, f);
		fclose(f);
	}
}

static void
choices(void)
{
	unsigned features = qwen_cpu_detect();
	char path[128];
	int n;

	snprintf(path, sizeof path, "%s/kernels", dir);
	ok(qwen_tune_threads(path, features, 4, 4) == 4 &&
	    access(path, F_OK) < 0, "no siblings: nothing to be found out");
	ok(qwen_tune_threads(path, features, INT_MAX, 3) == 3 &&
	    access(path, F_OK) < 0, "nor where nothing is told");
	n = qwen_tune_threads(path, features, 1, 2);
	ok(n == 1 || n == 2, "of 1 and 2: %d", n);
	ok(lines(path, "threads 1 2 ") == 1, "and that is kept");
	ok(qwen_tune_threads(path, features, 1, 2) == n &&
	    lines(path, "threads ") == 1, "it is known then");
	put(path, "a", "threads 3 6 3\nthreads 4 8 8\nthreads 2 9 5\n");
	ok(qwen_tune_threads(path, features, 3, 6) == 3 &&
	    qwen_tune_threads(path, features, 4, 8) == 8, "as the file has it");
	n = qwen_tune_threads(path, features, 2, 9);
	ok((n == 2 || n == 9) && lines(path, "threads 2 9 ") == 2 &&
	    qwen_tune_threads(path, features, 2, 9) == n &&
	    lines(path, "threads 2 9 ") == 2, "nonsense is not taken");
	put(path, "w", "something else\nthreads 3 6 3\n");
	n = qwen_tune_threads(path, features, 3, 6);
	ok((n == 3 || n == 6) && lines(path, "something") == 0 &&
	    lines(path, "threads 3 6 ") == 1, "nor another file");
	n = qwen_tune_threads(NULL, features, 1, 2);
	ok(n == 1 || n == 2, "without a file");
}

int
main(void)
{
	char command[64];

	if (mkdtemp(dir) == NULL)
		return 1;
	trees();
	choices();
	snprintf(command, sizeof command, "rm -r %s", dir);
	ok(system(command) == 0, "%s", command);
	return done_testing();
}
