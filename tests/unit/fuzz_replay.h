/* SPDX-License-Identifier: ISC */
/* fuzz_replay.h - a fuzzer's seeds, and each with some bytes changed. */
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#include <dirent.h>
#include <inttypes.h>

#include "../tap.h"
#include "tok_util.h"

/* In a buffer of just the size, so that a sanitizer sees one byte too far. */
static inline void
replay_run(const unsigned char *p, size_t n)
{
	unsigned char *copy = malloc(n > 0 ? n : 1);

	if (copy == NULL)
		abort();
	memcpy(copy, p, n);
	LLVMFuzzerTestOneInput(copy, n);
	free(copy);
}

/* Change, drop, double or exchange a few bytes. */
static inline size_t
replay_mutate(unsigned char *p, size_t n, size_t max, uint64_t *seed)
{
	size_t k, at, to, len;

	for (k = 1 + rnd(seed) % 4; k > 0 && n > 1; k--) {
		at = rnd(seed) % n;
		len = 1 + rnd(seed) % (n - at) % 16;
		switch (rnd(seed) % 4) {
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
		case 3:
			to = rnd(seed) % (n - len + 1);
			memmove(p + to, p + at, len);
			break;
		}
	}
	return n;
}

static inline void
replay_file(const char *path, int times, uint64_t seed)
{
	unsigned char seed_bytes[8192], p[16384];
	FILE *f = fopen(path, "rb");
	size_t n, len;
	int i;

	if (f == NULL)
		exit(1);
	n = fread(seed_bytes, 1, sizeof seed_bytes, f);
	fclose(f);
	replay_run(seed_bytes, n);
	for (i = 0; i < times; i++) {
		memcpy(p, seed_bytes, n);
		len = replay_mutate(p, n, sizeof p, &seed);
		replay_run(p, len);
	}
}

/*
 * The seeds in tests/fuzz/seeds/NAME, each so many times, in make check-long
 * twenty times as many, drawn from $SEED.
 */
static inline int
replay_main(const char *name, int times)
{
	const char *top = getenv("TOP"), *s = getenv("SEED");
	uint64_t seed = s != NULL ? strtoull(s, NULL, 10) : 1;
	struct dirent *e;
	char path[1024];
	int n = 0;
	DIR *d;

	if (getenv("QPIPE_LONG") != NULL)
		times *= 20;
	snprintf(path, sizeof path, "%s/tests/fuzz/seeds/%s",
	    top != NULL ? top : ".", name);
	d = opendir(path);
	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/tests/fuzz/seeds/%s/%s",
		    top != NULL ? top : ".", name, e->d_name);
		replay_file(path, times, seed * 2654435761u + (uint64_t)n);
		n++;
	}
	if (d != NULL)
		closedir(d);
	ok(n > 10, "%d seeds, each in %d variations, seed %" PRIu64, n, times,
	    seed);
	return done_testing();
}

#endif
