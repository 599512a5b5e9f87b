/* SPDX-License-Identifier: ISC */
/* memory_free.c - the available memory, also for tools without a model. */
#include "base/cgroup.h"
#include "tool/tool.h"

/* Lowers *left to what a control group has left; page cache counts as free. */
static void
take_group(void *left, const char *dir, int v1)
{
	uint64_t max = qwen_number_in(dir, v1 ? "/memory.limit_in_bytes" :
	    "/memory.max", "", UINT64_MAX);
	uint64_t used = qwen_number_in(dir, v1 ? "/memory.usage_in_bytes" :
	    "/memory.current", "", 0);
	uint64_t files = qwen_number_in(dir, "/memory.stat",
	    v1 ? "total_inactive_file " : "inactive_file ", 0) +
	    qwen_number_in(dir, "/memory.stat",
	    v1 ? "total_active_file " : "active_file ", 0);

	if (max == UINT64_MAX)
		return;
	used -= files < used ? files : used;
	max -= used < max ? used : max;
	if (max < *(uint64_t *)left)
		*(uint64_t *)left = max;
}

uint64_t
tool_memory_free(void)
{
	uint64_t left = qwen_number_in("/proc/meminfo", "",
	    "MemAvailable:", UINT64_MAX);

	if (left != UINT64_MAX)
		left *= 1024;
	qwen_cgroup_each("memory", take_group, &left);
	return left;
}
