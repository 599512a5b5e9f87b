/* SPDX-License-Identifier: ISC */
/*
 * fuzz_tok_seeds.c - what the fuzzer of the tokenizer starts from, replayed,
 * and each with some bytes changed.
 */
#include <dirent.h>

#include "../fuzz/fuzz_tok.c"
#include "../tap.h"

/* In a buffer of just the size, so that a sanitizer sees one byte too far. */
static void
run(const unsigned char *p, size_t n)
{
	unsigned char *copy = malloc(n > 0 ? n : 1);

	if (copy == NULL)
		abort();
	memcpy(copy, p, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

/* Change, drop or double a few bytes. */
static size_t
mutate(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t k, at, len;

	for (k = 1 + rnd(seed) % 4; k > 0 && n > 1; k--) {
		at = rnd(seed) % n;
		len = 1 + rnd(seed) % (n - at) % 16;
		switch (rnd(seed) % 3) {
		case 0:
			p[at] = (unsigned char)rnd(seed);
			break;
		case 1:
			memmove(p + at, p + at + len, n - at - len);
			n -= len;
			break;
		case 2:
			if (n + len <= max) {
				memmove(p + at + len, p + at, n - at);
				n += len;
			}
			break;
		}
	}
	return n;
}

static void
replay_file(const char *path)
{
	unsigned char seed_bytes[2048], p[8192];
	FILE *f = fopen(path, "rb");
	uint64_t seed = 1;
	size_t n, len;
	int i;

	if (f == NULL)
		return;
	n = fread(seed_bytes, 1, sizeof seed_bytes, f);
	fclose(f);
	run(seed_bytes, n);
	for (i = 0; i < 200; i++) {
		memcpy(p, seed_bytes, n);
		len = mutate(p, n, sizeof p, &seed);
		run(p, len);
	}
}

static int
replay(const char *folder)
{
	struct dirent *e;
	char path[1024];
	int n = 0;
	DIR *d = opendir(folder);

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
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

	snprintf(path, sizeof path, "%s/tests/fuzz/seeds/tok",
	    top != NULL ? top : ".");
	n = replay(path);
	ok(n > 10, "%d seeds, each in 200 variations", n);
	return done_testing();
}
