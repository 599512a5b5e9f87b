/* SPDX-License-Identifier: ISC */
/* tree.h - removes a folder that a test made. */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Remove a folder and its contents; do not follow links. */
static inline void
remove_tree(const char *path)
{
	char sub[2048];
	struct dirent *e;
	DIR *d = opendir(path);

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (snprintf(sub, sizeof sub, "%s/%s", path, e->d_name) >=
		    (int)sizeof sub)
			continue;
		if (unlink(sub) == -1)
			remove_tree(sub);
	}
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

#endif
