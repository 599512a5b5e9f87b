/* SPDX-License-Identifier: ISC */
/* system.c - counters of the operating system. */
#include <sys/resource.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qbench.h"

uint64_t
qbench_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/*
 * Count all processor time, and that which the host took for other machines:
 * field 8 of "cpu".
 */
static void
count_steal(struct qbench_counts *c)
{
	FILE *f = fopen("/proc/stat", "r");
	uint64_t v;
	int i;

	c->steal = c->ticks = 0;
	if (f == NULL)
		return;
	if (fscanf(f, "cpu") == 0)
		for (i = 1; i <= 8 && fscanf(f, "%" SCNu64, &v) == 1; i++) {
			c->ticks += v;
			if (i == 8)
				c->steal = v;
		}
	fclose(f);
}

void
qbench_read_counts(struct qbench_counts *c)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	c->minor = u.ru_minflt;
	c->major = u.ru_majflt;
	count_steal(c);
	c->ns = qbench_now_ns();
}

/* Return a value of /proc/self/status in MiB, or -1. */
static double
status_mib(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p == NULL ? -1 : strtod(p + strlen(key), NULL) / 1024;
}

void
qbench_update_memory(struct qbench_memory *m)
{
	char text[8192];
	FILE *f = fopen("/proc/self/status", "r");
	struct qbench_memory now = { -1, -1, -1 };
	struct rusage u;
	size_t n;

	if (f != NULL) {
		n = fread(text, 1, sizeof text - 1, f);
		text[n] = '\0';
		fclose(f);
		now.peak = status_mib(text, "\nVmHWM:");
		now.private = status_mib(text, "\nRssAnon:");
		now.mapped = status_mib(text, "\nRssFile:");
		if (now.mapped >= 0)	/* a model in a memfd counts as shmem */
			now.mapped += fmax(status_mib(text, "\nRssShmem:"), 0);
	}
	getrusage(RUSAGE_SELF, &u);
	if (now.peak < 0)
		now.peak = (double)u.ru_maxrss / 1024;
	m->peak = fmax(m->peak, now.peak);
	m->mapped = fmax(m->mapped, now.mapped);
	m->private = fmax(m->private, now.private);
}

void
qbench_reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd == -1)
		return;
	if (write(fd, "5", 1) != 1)
		errno = 0;
	close(fd);
}

const char *
qbench_cpu_name(void)
{
	static char name[128];
	char line[256];
	const char *p;
	FILE *f = fopen("/proc/cpuinfo", "r");

	if (f == NULL || name[0] != '\0')
		goto out;
	while (fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, "model name", 10) == 0 &&
		    (p = strchr(line, ':')) != NULL) {
			p += 1 + strspn(p + 1, " ");
			snprintf(name, sizeof name, "%.*s",
			    (int)strcspn(p, "\n"), p);
			break;
		}
out:
	if (f != NULL)
		fclose(f);
	return name[0] != '\0' ? name : "unknown";
}
