/* SPDX-License-Identifier: ISC */
/* disk.c - how much of a disk a cache takes without a limit by the user. */
#include <sys/statvfs.h>

#include "base/disk.h"

enum { DISK_SHARE = 10 };	/* a cache may take a tenth of the disk */

int
qwen_disk_share(const char *dir, uint64_t *most, uint64_t *room)
{
	struct statvfs v;

	if (statvfs(dir, &v) == -1 || v.f_blocks == 0)
		return -1;
	*most = (uint64_t)v.f_blocks / DISK_SHARE * v.f_frsize;
	*room = (uint64_t)v.f_bavail * v.f_frsize;
	/* the limit of a tiny disk must not be 0, which means none */
	*most = *most > 0 ? *most : 1;
	return 0;
}

uint64_t
qwen_disk_limit(const char *dir, uint64_t total)
{
	uint64_t most, room;

	if (qwen_disk_share(dir, &most, &room) < 0)
		return 0;
	room = room / 2 + total / 2;
	return most < room ? most : room;
}
