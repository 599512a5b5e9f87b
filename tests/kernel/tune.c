/* SPDX-License-Identifier: ISC */
/*
 * tune.c - which variant is faster: measurements in the tuning file are used,
 * wrong ones count as absent, and absent ones are measured once.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tap.h"
#include "engine/cpu/tune.h"
#include "variants.h"

static const char path[] = "tune-test.tmp/a/kernels";

struct seen {
	size_t	rows, chosen;
};

static void
note(void *arg, const struct qwen_tune_row *r)
{
	struct seen *s = arg;

	s->rows++;
	s->chosen += (size_t)r->chosen;
	if (r->macs <= 0 || r->tokens < 1)
		s->chosen = SIZE_MAX / 2;
}

static unsigned numerics = 1;

/* Tune for one format; the kernels, and how many rows were measured. */
static struct seen
tune(struct qwen_kernels *k, unsigned features, uint32_t type, int anew)
{
	unsigned char used[QT_N] = { 0 };
	struct seen s = { 0, 0 };
	struct qwen_tuning t = { .k = k, .features = features, .used = used,
	    .path = path, .anew = anew, .row = note, .arg = &s };

	used[type] = 1;
	qwen_kernels_init(k, features, numerics);
	ok(qwen_tune(&t) == 0, "it works");
	return s;
}

static size_t
read_file(char *buf, size_t size)
{
	FILE *f = fopen(path, "rb");
	size_t n = f != NULL ? fread(buf, 1, size - 1, f) : 0;

	if (f != NULL)
		fclose(f);
	buf[n] = '\0';
	return n;
}

static void
write_file(const char *buf, size_t n)
{
	FILE *f = fopen(path, "wb");

	if (f == NULL || fwrite(buf, 1, n, f) != n || fclose(f) != 0)
		abort();
}

/* Is it the variant for so many tokens? */
static int
is(const struct qwen_kernels *k, size_t n, const char *name)
{
	return strcmp(k->gemm[QT_Q4_K].by[qwen_token_class(n)]->name,
	    name) == 0;
}

/* What a file says, and what is wrong with one. */
static void
check_file(unsigned both)
{
	static const char line[] = "12 65 avx2\n";
	char good[4096], head[256], bad[4096];
	struct qwen_kernels k;
	size_t n, h;

	n = read_file(good, sizeof good);
	h = strcspn(good, "\n") + 1;
	snprintf(head, sizeof head, "%.*s", (int)h, good);
	ok(strncmp(head, "qpipe kernels ", 14) == 0, "its head: %s", head);
	n = (size_t)snprintf(bad, sizeof bad, "%s%s", head, line);
	write_file(bad, n);
	ok(tune(&k, both, QT_Q4_K, 0).rows == 0, "nothing is measured");
	ok(is(&k, 65, "avx2") && is(&k, 36, "avx512vnni") &&
	    is(&k, 33, "avx512vnni"), "what the file says is taken, no more");
	numerics = 4;
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx2") && is(&k, 36, "avx512vnni"), "in version 4 as well");
	numerics = 1;
	write_file(bad, n - 1);
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx512vnni"), "not of a file that is cut off");
	bad[h - 2] ^= 1;
	write_file(bad, n);
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx512vnni"), "nor of one for another processor");
	bad[h - 2] ^= 1;
	bad[h] = '\0';
	write_file(bad, n);
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx512vnni"), "nor of one with a NUL");
	n = (size_t)snprintf(bad, sizeof bad, "%s12 65 amx\n12 65 xyz\n"
	    "12 36 avx2 \n12\n\n", head);
	write_file(bad, n);
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx512vnni") && is(&k, 36, "avx512vnni"),
	    "a set that is not allowed, or is none, is not taken");
	unlink(path);
	mkdir(path, 0700);
	tune(&k, both, QT_Q4_K, 0);
	ok(is(&k, 65, "avx512vnni"), "a folder in its place is no matter");
	rmdir(path);
}

/* Tiles and AVX-512 both serve: measured once. */
static void
check_once(unsigned with)
{
	struct qwen_kernels k;
	struct seen s = tune(&k, with, QT_Q4_K, 0);

	ok(s.rows == 22 && s.chosen == 11,
	    "with AMX, two are measured for 8 tokens and more: %zu, %zu",
	    s.rows, s.chosen);
	s = tune(&k, with, QT_Q4_K, 0);
	ok(s.rows == 0, "then they are known");
	s = tune(&k, with, QT_Q8_0, 0);
	ok(s.rows == 22, "but not those of another format");
	s = tune(&k, with, QT_Q4_K, 0);
	ok(s.rows == 0, "which is added");
	numerics = 4;
	s = tune(&k, with, QT_Q4_K, 0);
	ok(s.rows == 22, "nor those of version 4, whose rows take fewer tiles");
	s = tune(&k, with, QT_Q4_K, 0);
	ok(s.rows == 0, "which are kept beside them");
	numerics = 1;
	s = tune(&k, with, QT_Q4_K, 0);
	ok(s.rows == 0, "and these are still known");
	unlink(path);
}

/*
 * Chosen after the first choice, a variant has room for the tokens that it wants
 * packed, and had it when it was measured.
 */
static void
check_packing(unsigned have)
{
	struct qwen_kernels k, fresh;
	struct qwen_tuning t = { .k = &k, .features = have, .anew = 1 };
	uint32_t type;

	qwen_kernels_init(&k, 0, 1);
	ok(k.pack_bytes == 0, "scalar variants want no tokens packed");
	qwen_kernels_init(&fresh, have, 1);
	memcpy(k.gemm, fresh.gemm, sizeof k.gemm);
	ok(qwen_tune(&t) == 0, "all formats anew");
	for (type = 0; type < QT_N; type++) {
		const struct qwen_kernel *g = k.gemm[type].by[QWEN_TOKEN_CLASSES - 1];

		if (g != NULL && g->packing != NULL)
			ok(k.pack_bytes >= g->packing->bytes,
			    "%s: room for its tokens", qwen_ggml_name(type));
	}
	qwen_kernels_packing(&k, (unsigned char[QT_N]){ [QT_F32] = 1 });
	ok(k.pack_bytes == 0, "none is taken for floats");
}

int
main(void)
{
	const unsigned both = QWEN_CPU_AVX2 | QWEN_CPU_AVX512VNNI;
	unsigned have = variant_cpu();
	struct qwen_kernels k;
	struct seen s;

	check_packing(have & qwen_cpu_detect());
	if ((have & both) != both) {
		skip("two sets to choose from", "this CPU has but one");
		return done_testing();
	}
	s = tune(&k, both, QT_Q4_K, 0);
	ok(s.rows == 0 && access(path, F_OK) != 0,
	    "without AMX nothing is measured, and no file made");
	s = tune(&k, both, QT_Q4_K, 1);
	ok(s.rows > 0 && s.rows == 2 * s.chosen && access(path, F_OK) == 0,
	    "anew: %zu variants, of which %zu are chosen", s.rows, s.chosen);
	check_file(both);
	if ((have & QWEN_CPU_AMX) != 0)
		check_once(both | QWEN_CPU_AVX512VBMI | QWEN_CPU_AMX);
	else
		skip("AMX", "neither there nor emulated");
	rmdir("tune-test.tmp/a");
	rmdir("tune-test.tmp");
	return done_testing();
}
