/* SPDX-License-Identifier: ISC */
/*
 * memory.c - whether a model has room here, before it starts.
 *
 * What is mapped can be dropped and read again, so a file that is in the page
 * cache counts as free; where the weights do not fit beside the rest, each token
 * would come from the disk.
 */
#include <sys/resource.h>

#include <limits.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

int tool_force;

/* The number after a word at the beginning of a line of a file; or other. */
static uint64_t
number_in(const char *dir, const char *name, const char *word, uint64_t other)
{
	char path[PATH_MAX + 64], line[256], *end;
	uint64_t v = other;
	size_t n = strlen(word);
	FILE *f;

	snprintf(path, sizeof path, "%s%s", dir, name);
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

static uint64_t
less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What a control group has left; files that it has read can be dropped. */
static uint64_t
left_in_group(const char *dir, int v1)
{
	uint64_t max = number_in(dir, v1 ? "/memory.limit_in_bytes" :
	    "/memory.max", "", UINT64_MAX);
	uint64_t used = number_in(dir, v1 ? "/memory.usage_in_bytes" :
	    "/memory.current", "", 0);
	uint64_t files = number_in(dir, "/memory.stat",
	    v1 ? "total_inactive_file " : "inactive_file ", 0) +
	    number_in(dir, "/memory.stat",
	    v1 ? "total_active_file " : "active_file ", 0);

	return max == UINT64_MAX ? max : less(max, less(used, files));
}

/* Of the group of a line of /proc/self/cgroup, and of those that it is in. */
static uint64_t
left_in_groups(char *line)
{
	char dir[PATH_MAX], *kinds = strchr(line, ':'), *path, *slash;
	uint64_t left = UINT64_MAX;
	size_t root;
	int v1;

	if (kinds == NULL || (path = strchr(kinds + 1, ':')) == NULL)
		return left;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	v1 = kinds[1] != '\0';
	if (v1 && strcmp(kinds + 1, "memory") != 0)
		return left;
	root = (size_t)snprintf(dir, sizeof dir, "/sys/fs/cgroup%s",
	    v1 ? "/memory" : "");
	snprintf(dir + root, sizeof dir - root, "%s", path);
	for (;;) {
		left = least(left, left_in_group(dir, v1));
		slash = strrchr(dir, '/');
		if (strlen(dir) <= root || slash < dir + root)
			return left;
		*slash = '\0';
	}
}

/* Bytes that limits of the process leave, as ulimit(1) sets them. */
static uint64_t
left_in_limit(int which, const char *used)
{
	struct rlimit r;

	if (getrlimit(which, &r) == -1 || r.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return less(r.rlim_cur, 1024 * number_in("/proc/self/status", "", used,
	    0));
}

/* What could be had, with files dropped; UINT64_MAX: nobody knows. */
static uint64_t
memory_free(void)
{
	uint64_t left = number_in("/proc/meminfo", "", "MemAvailable:",
	    UINT64_MAX);
	char line[PATH_MAX];
	FILE *f = fopen("/proc/self/cgroup", "r");

	if (left != UINT64_MAX)
		left *= 1024;
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		left = least(left, left_in_groups(line));
	if (f != NULL)
		fclose(f);
	return left;
}

uint64_t
tool_memory_spare(const struct qwen_model *m)
{
	uint64_t left = memory_free(), one = qwen_cache_need(m,
	    qwen_model_n_ctx(m));
	struct qwen_plan p;

	if (left == UINT64_MAX)
		return 0;
	qwen_plan_make(&p, m, 0, 1, 0, 0, NULL);
	left = less(left, p.weights) / 2;
	return left > one ? left : one;
}

void
tool_fits(const struct qwen_model *m, const struct tool_need *need)
{
	uint64_t free_bytes = memory_free(), own = free_bytes, all;
	struct qwen_plan p;
	const char *why;

	if (tool_force)
		return;
	own = least(own, left_in_limit(RLIMIT_DATA, "VmData:"));
	own = least(own, left_in_limit(RLIMIT_AS, "VmSize:"));
	qwen_plan_make(&p, m, need->n_tokens, need->n_sequences, need->batch,
	    need->draft != NULL ? tool_draft_most(need->draft) : 0, need->keep);
	if (need->cache > 0 && p.own != UINT64_MAX)
		p.own -= less(p.kv + p.state, need->cache);
	all = need->in_memory ? 0 : p.weights;
	all = p.own > UINT64_MAX - all ? UINT64_MAX : p.own + all;
	if (p.own <= own && all <= free_bytes)
		return;
	why = p.own > own ? "beside the weights" :
	    "with the weights, which would be read again for each token";
	die("%s: needs %.1f GiB %s, %.1f are free; --force goes on",
	    qwen_gguf_path(qwen_model_gguf(m), 0),
	    (double)(p.own > own ? p.own : all) / 0x1p30, why,
	    (double)(p.own > own ? own : free_bytes) / 0x1p30);
}

void
tool_memory_return(void)
{
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
