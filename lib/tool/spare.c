/* SPDX-License-Identifier: ISC */
/* spare.c - protects the files of a Hugging Face folder from outputs. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

static int
is_of_hub(const char *name)
{
	static const char *const ends[] = { ".safetensors", ".json", ".jinja",
	    ".txt" };
	size_t i, n = strlen(name), m;

	for (i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		m = strlen(ends[i]);
		if (n > m && strcmp(name + n - m, ends[i]) == 0)
			return 1;
	}
	return 0;
}

void
tool_protect_folder(const char *folder)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	char *path;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (!is_of_hub(e->d_name))
			continue;
		path = cli_format("%s/%s", folder, e->d_name);
		cli_protect_input(path, "a file of the model that is in use");
		free(path);
	}
	if (d != NULL)
		closedir(d);
}
