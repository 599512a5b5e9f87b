/* SPDX-License-Identifier: ISC */
/* fuzz_gguf_seeds.c - what the fuzzer of GGUF files starts from, replayed. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "../fuzz/fuzz_gguf.c"
#include "../tap.h"

/* In a buffer of just the size, so that a sanitizer sees one byte too far. */
static void
replay_file(const char *path)
{
	unsigned char buf[65536], *p;
	FILE *f = fopen(path, "rb");
	size_t n;

	if (f == NULL)
		return;
	n = fread(buf, 1, sizeof buf, f);
	fclose(f);
	if ((p = malloc(n > 0 ? n : 1)) == NULL)
		return;
	memcpy(p, buf, n);
	LLVMFuzzerTestOneInput(p, n);
	free(p);
}

static int
replay(const char *folder)
{
	struct dirent *e;
	char path[1024];
	int n = 0;
	DIR *d = opendir(folder);

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strstr(e->d_name, ".gguf") == NULL)
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		replay_file(path);
		n++;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

int
main(void)
{
	const char *top = getenv("TOP");
	char path[512];
	int n;

	snprintf(path, sizeof path, "%s/tests/files/gguf", top ? top : ".");
	n = replay(path);
	ok(n > 100, "%d good and bad files", n);
	return done_testing();
}
