/* SPDX-License-Identifier: ISC */
/* fuzz_state_seeds.c - what the fuzzer of states starts from, replayed. */
#include <dirent.h>

#include "../fuzz/fuzz_state.c"
#include "../tap.h"

int
main(void)
{
	static unsigned char buf[1 << 16];
	const char *top = getenv("TOP");
	char path[1024];
	struct dirent *e;
	int n = 0;
	size_t size;
	DIR *d;
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/fuzz/seeds/state",
	    top != NULL ? top : ".");
	if ((d = opendir(path)) == NULL)
		return 1;
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof path, "%s/tests/fuzz/seeds/state/%s",
		    top != NULL ? top : ".", e->d_name);
		if (e->d_name[0] == '.' || (f = fopen(path, "rb")) == NULL)
			continue;
		size = fread(buf, 1, sizeof buf, f);
		fclose(f);
		LLVMFuzzerTestOneInput(buf, size);
		n++;
	}
	closedir(d);
	fake_model_free(model);
	ok(n > 0, "%d seeds", n);
	return done_testing();
}
