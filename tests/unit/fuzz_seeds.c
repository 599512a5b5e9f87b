/* SPDX-License-Identifier: ISC */
/*
 * fuzz_seeds.c - runs each fuzzer, tests/fuzz/fuzz_NAME.c, on its seeds, the
 * files in tests/fuzz/seeds/NAME and tests/files/NAME, and on each seed with
 * some bytes changed.  Arguments: only the fuzzers of these names.
 */
#include <sys/time.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../fuzz/mutate.h"
#include "../tap.h"

#define FUZZER(name) int fuzz_##name(const uint8_t *data, size_t size);
#include "fuzzers.inc"
#undef FUZZER

typedef int fuzz_fn(const uint8_t *, size_t);

static const struct fuzzer {
	const char	*name;
	fuzz_fn		*run;
} fuzzers[] = {
#define FUZZER(name) { #name, fuzz_##name },
#include "fuzzers.inc"
};

/* Runs with bytes changed for each fuzzer, all its seeds together. */
enum { RUNS = 2200, LONG_RUNS = 20 * RUNS, SEED_MAX = 1 << 15 };

/* A run that takes more seconds of a processor ends the test. */
enum { SECONDS_MAX = 10 };

/* In a buffer of just the size, so that a sanitizer sees one byte too far. */
static void
run(fuzz_fn *fn, const unsigned char *p, size_t n)
{
	const struct itimerval limit = { .it_value.tv_sec = SECONDS_MAX };
	unsigned char *copy = malloc(n > 0 ? n : 1);

	if (copy == NULL || setitimer(ITIMER_PROF, &limit, NULL) == -1)
		abort();
	memcpy(copy, p, n);
	fn(copy, n);
	free(copy);
}

/* What a fuzzer's input is, for those whose input has a form. */
static enum mutate_kind
kind_of(const char *name)
{
	static const struct {
		const char		*name;
		enum mutate_kind	 kind;
	} kinds[] = {
		{ "gguf", MUTATE_GGUF }, { "model", MUTATE_GGUF },
		{ "adapter", MUTATE_GGUF }, { "mmproj", MUTATE_GGUF },
		{ "state", MUTATE_CBOR }, { "stream", MUTATE_CBOR },
		{ "engine", MUTATE_CBOR }, { "image", MUTATE_BYTES },
	};
	size_t i;

	for (i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kinds[i].name, name) == 0)
			return kinds[i].kind;
	}
	return MUTATE_TEXT;
}

/* Every second time any bytes are changed, else what has a meaning. */
static void
replay_file(const struct fuzzer *f, const char *path, int times, uint64_t seed)
{
	static unsigned char bytes[SEED_MAX], p[SEED_MAX + 64];
	FILE *in = fopen(path, "rb");
	size_t n;

	if (in == NULL)
		exit(1);
	n = fread(bytes, 1, sizeof bytes, in);
	fclose(in);
	run(f->run, bytes, n);
	for (; times > 0; times--) {
		memcpy(p, bytes, n);
		run(f->run, p, mutate(times % 2 == 0 ? MUTATE_BYTES :
		    kind_of(f->name), p, n, sizeof p, &seed));
	}
}

/* The files of a folder: how many; run, if times is not negative. */
static int
replay_folder(const struct fuzzer *f, const char *folder, int times, uint64_t seed)
{
	struct dirent *e;
	char path[1024];
	DIR *d = opendir(folder);
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
		if (times >= 0)
			replay_file(f, path, times,
			    seed * 2654435761u + (uint64_t)n);
		n++;
	}
	if (d != NULL)
		closedir(d);
	return n;
}

static void
replay(const struct fuzzer *f, uint64_t seed)
{
	static const char *const where[] = { "tests/fuzz/seeds", "tests/files" };
	int runs = getenv("QPIPE_LONG") != NULL ? LONG_RUNS : RUNS;
	const char *top = getenv("TOP");
	char folder[2][512];
	int i, n = 0;

	for (i = 0; i < 2; i++) {
		snprintf(folder[i], sizeof folder[i], "%s/%s/%s",
		    top != NULL ? top : ".", where[i], f->name);
		n += replay_folder(f, folder[i], -1, seed);
	}
	for (i = 0; i < 2 && n > 0; i++)
		replay_folder(f, folder[i], runs / n, seed);
	ok(n > 1, "%s: %d seeds, each in %d variations, seed %" PRIu64,
	    f->name, n, n > 0 ? runs / n : 0, seed);
}

static int
is_wanted(const char *name, int argc, char *argv[])
{
	int i;

	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return 1;
	}
	return argc < 2;
}

int
main(int argc, char *argv[])
{
	const char *s = getenv("SEED");
	size_t i;

	for (i = 0; i < sizeof fuzzers / sizeof fuzzers[0]; i++) {
		if (is_wanted(fuzzers[i].name, argc, argv))
			replay(&fuzzers[i], s != NULL ?
			    strtoull(s, NULL, 10) : 1);
	}
	return done_testing();
}
