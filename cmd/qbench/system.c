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

#include "base/cgroup.h"
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
status_mib(const char *key)
{
	uint64_t kib = qwen_number_in("/proc/self/status", "", key,
	    UINT64_MAX);

	return kib == UINT64_MAX ? -1 : (double)kib / 1024;
}

void
qbench_update_memory(struct qbench_memory *m)
{
	double peak = status_mib("VmHWM:"), mapped = status_mib("RssFile:");
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	if (peak < 0)
		peak = (double)u.ru_maxrss / 1024;
	if (mapped >= 0)	/* a model in a memfd counts as shmem */
		mapped += fmax(status_mib("RssShmem:"), 0);
	m->peak = fmax(m->peak, peak);
	m->mapped = fmax(m->mapped, mapped);
	m->private = fmax(m->private, status_mib("RssAnon:"));
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
	FILE *f = fopen("/proc/cpuinfo", "r");

	while (f != NULL && name[0] == '\0' &&
	    fgets(line, sizeof line, f) != NULL)
		sscanf(line, "model name : %127[^\n]", name);
	if (f != NULL)
		fclose(f);
	return name[0] != '\0' ? name : "unknown";
}
