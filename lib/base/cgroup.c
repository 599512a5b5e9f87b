/* SPDX-License-Identifier: ISC */
/* cgroup.c - the control groups of Linux that this process is in. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"

uint64_t
qwen_number_in(const char *folder, const char *file, const char *word,
    uint64_t other)
{
	char path[PATH_MAX + 64], line[256], *end;
	uint64_t v = other;
	size_t n = strlen(word);
	FILE *f;

	snprintf(path, sizeof path, "%s%s", folder, file);
	if ((f = fopen(path, "r")) == NULL)
		return other;
	while (fgets(line, sizeof line, f) != NULL) {
		if (strncmp(line, word, n) != 0)
			continue;
		v = strtoull(line + n, &end, 10);
		if (end == line + n)	/* "max" */
			v = other;
		break;
	}
	fclose(f);
	return v;
}

/* Is controller in list, a comma-separated list? */
static int
names(const char *list, const char *controller)
{
	size_t n = strlen(controller);

	for (;;) {
		if (strncmp(list, controller, n) == 0 &&
		    (list[n] == '\0' || list[n] == ','))
			return 1;
		if ((list = strchr(list, ',')) == NULL)
			return 0;
		list++;
	}
}

/*
 * A line of /proc/self/cgroup is NUMBER:CONTROLLERS:PATH; in version 2 it is
 * 0::PATH.
 */
static void
each_of_line(char *line, const char *controller,
    void (*fn)(void *arg, const char *folder, int v1), void *arg)
{
	char dir[PATH_MAX], *kinds = strchr(line, ':'), *path, *slash;
	size_t root;
	int v1;

	if (kinds == NULL || (path = strchr(kinds + 1, ':')) == NULL)
		return;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	v1 = kinds[1] != '\0';
	if (v1 && !names(kinds + 1, controller))
		return;
	root = (size_t)snprintf(dir, sizeof dir, "/sys/fs/cgroup%s%s",
	    v1 ? "/" : "", v1 ? controller : "");
	snprintf(dir + root, sizeof dir - root, "%s", path);
	for (;;) {
		fn(arg, dir, v1);
		slash = strrchr(dir, '/');
		if (strlen(dir) <= root || slash < dir + root)
			return;
		*slash = '\0';
	}
}

void
qwen_cgroup_each(const char *controller,
    void (*fn)(void *arg, const char *folder, int v1), void *arg)
{
	char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "r");

	if (f == NULL)
		return;
	while (fgets(line, sizeof line, f) != NULL)
		each_of_line(line, controller, fn, arg);
	fclose(f);
}
