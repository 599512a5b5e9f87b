/* SPDX-License-Identifier: ISC */
/* fuzz_stream_seeds.c - what the fuzzer of streams starts from, replayed. */
#include <dirent.h>
#include <stdio.h>

#include "../fuzz/fuzz_stream.c"
#include "../tap.h"

static int
replay(const char *folder)
{
	unsigned char buf[32768];
	char path[1024];
	struct dirent *e;
	int n = 0;
	size_t size;
	DIR *d;
	FILE *f;

	if ((d = opendir(folder)) == NULL)
		return 0;
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (e->d_name[0] == '.' || (f = fopen(path, "rb")) == NULL)
			continue;
		size = fread(buf, 1, sizeof buf, f);
		fclose(f);
		LLVMFuzzerTestOneInput(buf, size);
		n++;
	}
	closedir(d);
	return n;
}

int
main(void)
{
	static const char *const folders[] = {
		"tests/fuzz/seeds/stream", "tests/files/stream",
	};
	const char *top = getenv("TOP");
	char path[512];
	size_t i;
	int n;

	for (i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", top != NULL ? top : ".",
		    folders[i]);
		n = replay(path);
		ok(n > 0, "%d seeds from %s", n, folders[i]);
	}
	return done_testing();
}
