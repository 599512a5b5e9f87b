/* SPDX-License-Identifier: ISC */
/*
 * store_faults.c - faults in the prefix store: damaged files, a full disk,
 * processes killed at any moment.  It accepts nothing wrong, incomplete files
 * have no final name, and no existing file is lost.
 */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/wait.h>

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <time.h>

#include "store_util.h"
#include "../tap.h"

static struct qwen_err err;
static int32_t base[4096], other[4096];

/* ------------------------------------------------------------------ damage */

static void
put_file(const char *path, const struct bytes *b)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd == -1 || write(fd, b->p, b->n) != (ssize_t)b->n)
		abort();
	close(fd);
}

static void
get_file(const char *path, struct bytes *b)
{
	int fd = open(path, O_RDONLY);

	b->n = 0;
	if (fd == -1)
		abort();
	bytes_of_fd(b, fd);
	close(fd);
}

/*
 * One file of a store of 40 tokens is b instead of good: what comes of it must
 * be right, and short enough, with one warning at most.
 */
static int
survives(struct qwen_model *m, const char *dir, const char *path,
    const struct bytes *b, long most)
{
	struct warnings w;
	struct qwen_store *st;
	long len;

	put_file(path, b);
	st = open_store(dir, 0, &w);
	len = restored(st, m, base, 45);
	qwen_store_close(st);
	if (len >= 0 && len <= most && w.n == 1 && access(path, F_OK) == -1)
		return 1;
	printf("# %ld tokens, %d warnings: %s\n", len, w.n, w.last);
	return 0;
}

static void
damage_file(struct qwen_model *m, const char *dir,
    const struct qwen_store_entry *e, long most)
{
	struct bytes good = { 0 }, bad = { 0 };
	/* sanitizers make it slow */
	size_t i, step = getenv("QPIPE_SAN") != NULL ? 7 : 1;
	char path[1024];
	int all = 1;

	snprintf(path, sizeof path, "%s/%s", dir, e->path);
	get_file(path, &good);
	get_file(path, &bad);
	for (i = 0; i < good.n; i += step) {
		bad.p[i] ^= (unsigned char)(1 << i % 8);
		all = survives(m, dir, path, &bad, most) && all;
		bad.p[i] = good.p[i];
	}
	ok(all, "%s %llu-%llu: each of %zu bytes",
	    e->kind == QWEN_STORE_KV ? "run" : "checkpoint",
	    (unsigned long long)e->from, (unsigned long long)e->end, good.n);
	for (i = 0, all = 1; i < good.n; i += 1 + i / 16) {
		bad.n = i;
		all = survives(m, dir, path, &bad, most) && all;
	}
	ok(all, "cut off anywhere");
	put_file(path, &good);
	bytes_free(&good);
	bytes_free(&bad);
}

static void
test_damage(int any_cut)
{
	struct qwen_model *m = store_model("a", any_cut);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	size_t i, n;

	inserted(st, m, base, 40, 20);
	qwen_store_list(&l, st, &err);
	n = qwen_store_list_n(l);
	for (i = 0; i < n; i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		/* which files 45 tokens need */
		if (any_cut && e->kind == QWEN_STORE_CHECKPOINT)
			continue;
		if (!any_cut && e->kind == QWEN_STORE_CHECKPOINT &&
		    e->end == 20)
			continue;
		damage_file(m, dir, e, e->kind == QWEN_STORE_KV ?
		    (long)e->from : 20);
	}
	ok(restored(st, m, base, 45) == 40, "repaired: all is there again");
	qwen_store_list_free(l);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* Under the name of a file is something else, which must not be waited for. */
static void
test_no_file(void)
{
	static const char *const what[] = { "a FIFO", "a folder", "a link" };
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	char path[1024], away[1024];
	struct warnings w;
	size_t i;
	long len;

	inserted(st, m, base, 40, 20);
	qwen_store_list(&l, st, &err);
	for (i = 0; strstr(qwen_store_list_at(l, i)->path, "-20.cp") == NULL;
	    i++)
		;
	snprintf(path, sizeof path, "%s/%s", dir,
	    qwen_store_list_at(l, i)->path);
	snprintf(away, sizeof away, "%s/away", dir);
	qwen_store_list_free(l);
	qwen_store_close(st);
	for (i = 0; i < sizeof what / sizeof what[0]; i++) {
		rename(path, away);
		if (i == 0 ? mkfifo(path, 0600) : i == 1 ? mkdir(path, 0700) :
		    symlink(away, path))
			abort();
		st = open_store(dir, 0, &w);
		len = restored(st, m, base, 30);
		ok(len == 0 && w.n == 1 && restored(st, m, base, 40) == 40 &&
		    count_bad(st, 0) == (i == 1), "%s for a file: %s", what[i],
		    w.last);
		qwen_store_close(st);
		if (rmdir(path) == -1)
			unlink(path);
		rename(away, path);
	}
	remove_tree(dir);
	fake_model_free(m);
}

/* Files that are whole, but somebody else's. */
static void
test_swapped(int any_cut)
{
	struct qwen_model *m = store_model("a", any_cut);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	char path[2][1024];
	struct bytes b[2] = { { 0 }, { 0 } };
	struct warnings w;
	size_t i, k, n;
	int good = 1;
	uint64_t bad;

	/* the same tokens after others: only what is before tells them apart */
	memcpy(other, base, sizeof other);
	tokens_of(other, 20, 99);
	inserted(st, m, base, 40, 20);
	inserted(st, m, other, 40, 20);
	qwen_store_list(&l, st, &err);
	n = qwen_store_list_n(l);
	for (i = 0; i < n; i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		for (k = i + 1; k < n && !(e->kind ==
		    qwen_store_list_at(l, k)->kind && e->from ==
		    qwen_store_list_at(l, k)->from && e->end ==
		    qwen_store_list_at(l, k)->end); k++)
			;
		if (k == n)
			continue;
		snprintf(path[0], sizeof path[0], "%s/%s", dir, e->path);
		snprintf(path[1], sizeof path[1], "%s/%s", dir,
		    qwen_store_list_at(l, k)->path);
		get_file(path[0], &b[0]);
		get_file(path[1], &b[1]);
		put_file(path[0], &b[1]);
		put_file(path[1], &b[0]);
		qwen_store_close(st);
		st = open_store(dir, 0, &w);
		bad = count_bad(st, 0);
		good = good && bad == 2 && restored(st, m, base, 40) >= 0 &&
		    restored(st, m, other, 40) >= 0;
		put_file(path[0], &b[0]);
		put_file(path[1], &b[1]);
	}
	ok(good, "files that have changed places are found out");
	ok(restored(st, m, base, 40) == 40 && restored(st, m, other, 40) == 40,
	    "and are all right in their own");
	bytes_free(&b[0]);
	bytes_free(&b[1]);
	qwen_store_list_free(l);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* A damaged run in the middle: written again by the next insertion. */
static void
test_healing(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	struct bytes b = { 0 };
	char path[1024];
	size_t i, n, orphans;

	inserted(st, m, base, 400, 100);
	n = count_files(st, NULL, NULL);
	qwen_store_list(&l, st, &err);
	for (i = 0; i < n; i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		if (e->kind != QWEN_STORE_KV || e->end != 200)
			continue;
		snprintf(path, sizeof path, "%s/%s", dir, e->path);
		get_file(path, &b);
		b.p[b.n / 2] ^= 1;
		put_file(path, &b);
	}
	qwen_store_list_free(l);
	ok(count_bad(st, 0) == 1, "verify finds the damage");
	ok(restored(st, m, base, 400) == 100, "the prefix before it is used");
	count_files(st, &orphans, NULL);
	ok(orphans == 5, "what hung on it is not reached: %zu", orphans);
	inserted(st, m, base, 400, 0);
	count_files(st, &orphans, NULL);
	ok(restored(st, m, base, 400) == 400 && orphans < 5,
	    "an insertion makes it whole");
	b.p[b.n / 2] ^= 1;
	put_file(path, &b);
	b.p[3] ^= 1;
	put_file(path, &b);
	ok(count_bad(st, 1) == 1 && count_bad(st, 0) == 0,
	    "verify removes, if told so");
	bytes_free(&b);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* ----------------------------------------------------------------- no room */

static uint64_t
largest_file(struct qwen_store *st)
{
	struct qwen_store_list *l;
	uint64_t n = 0;
	size_t i;

	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		if (qwen_store_list_at(l, i)->bytes > n)
			n = qwen_store_list_at(l, i)->bytes;
	}
	qwen_store_list_free(l);
	return n;
}

/* No file can grow beyond so many bytes: as a disk that is full there. */
static void
test_no_room(void)
{
	struct qwen_model *m = store_model("a", 0);
	struct qwen_session *s = session_of(m, base, 40, 20);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct rlimit limit, was;
	struct warnings w;
	uint64_t most, k;
	int good = 1, r;

	qwen_store_insert(st, s, &err);
	most = largest_file(st);
	qwen_store_close(st);
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &was);
	for (k = 0; k < most; k += 1 + k / 64) {
		st = open_store(dir, 0, NULL);
		qwen_store_remove(st, NULL, NULL, &err);
		qwen_store_close(st);
		limit = was;
		limit.rlim_cur = (rlim_t)k;
		setrlimit(RLIMIT_FSIZE, &limit);
		st = open_store(dir, 0, &w);
		r = qwen_store_insert(st, s, &err);
		setrlimit(RLIMIT_FSIZE, &was);
		good = good && r == 0 && w.n == 1 && count_hidden(dir) == 0 &&
		    count_bad(st, 0) == 0 && restored(st, m, base, 40) >= 0;
		qwen_store_close(st);
	}
	ok(good, "no room at any of %llu bytes: one warning (%s)",
	    (unsigned long long)most, w.last);
	st = open_store(dir, 0, &w);
	qwen_store_insert(st, s, &err);
	ok(restored(st, m, base, 40) == 40 && w.n == 0, "with room again");
	qwen_store_close(st);
	qwen_session_free(s);
	remove_tree(dir);
	fake_model_free(m);
}

/* ----------------------------------------------------------------- kill -9 */

enum { N_TREE = 6, PIN = 300 };

/* One of many prompts with common beginnings. */
static size_t
some_prompt(int32_t *out, uint64_t *x)
{
	unsigned tree = next_random(x) % N_TREE, turn = next_random(x) % 8;

	tokens_of(out, 1000, 1000 + tree % 2);
	tokens_of(out + 60, 900, 2000 + tree);
	return 60 + 30 * (size_t)turn + next_random(x) % 3;
}

static void
work(const char *dir, struct qwen_model *m, uint64_t limit, uint64_t seed)
{
	struct qwen_store *st = open_store(dir, limit, NULL);
	int32_t t[1024];
	size_t n;

	for (;;) {
		n = some_prompt(t, &seed);
		if (restored(st, m, base, PIN) < 0)
			_exit(1);
		inserted(st, m, t, n, next_random(&seed) % 2 ? 25 : 0);
		if (next_random(&seed) % 4 == 0)
			qwen_store_gc(st, limit, NULL, NULL);
	}
}

static void
test_kill(void)
{
	int i, rounds = getenv("QPIPE_LONG") != NULL ? 200 : 20;
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	const char *seed = getenv("SEED");
	uint64_t x = seed != NULL ? strtoull(seed, NULL, 10) : 1;
	uint64_t bad = 0, bytes;
	int lost = 0, wrong = 0;
	int32_t t[1024];
	pid_t pid;

	inserted(st, m, base, PIN, 50);
	count_files(st, NULL, &bytes);
	for (i = 0; i < rounds; i++) {
		struct timespec wait = { 0,
		    (long)(next_random(&x) % 60000000) };
		int k;

		fflush(stdout);
		if ((pid = fork()) == 0)
			work(dir, m, 4 * bytes, x);
		nanosleep(&wait, NULL);
		kill(pid, SIGKILL);
		waitpid(pid, &k, 0);
		wrong += WIFEXITED(k);
		bad += count_bad(st, 0);
		qwen_store_gc(st, 0, NULL, &err);
		lost += restored(st, m, base, PIN) != PIN;
		for (k = 0; k < 4; k++) {
			size_t n = some_prompt(t, &x);

			wrong += restored(st, m, t, n) < 0;
		}
	}
	ok(bad == 0, "%d times killed: no file of a final name is incomplete",
	    rounds);
	ok(wrong == 0, "nothing wrong is restored");
	ok(lost == 0, "what is in use is never lost (%d)", lost);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* --------------------------------------------------- a device with faults */

/* The linker has the library's calls of these go through here. */
struct dirent *__real_readdir(DIR *d);
struct dirent *__wrap_readdir(DIR *d);
int __real_fstatat(int fd, const char *name, struct stat *st, int flags);
int __wrap_fstatat(int fd, const char *name, struct stat *st, int flags);

int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);

/* until one fails */
static long readdirs_left = -1, stats_left = -1, unlinks_left = -1;

struct dirent *
__wrap_readdir(DIR *d)
{
	if (readdirs_left >= 0 && readdirs_left-- == 0) {
		errno = EIO;
		return NULL;
	}
	return __real_readdir(d);
}

int
__wrap_fstatat(int fd, const char *name, struct stat *st, int flags)
{
	if (stats_left >= 0 && stats_left-- == 0) {
		errno = EIO;
		return -1;
	}
	return __real_fstatat(fd, name, st, flags);
}

int
__wrap_unlinkat(int fd, const char *name, int flags)
{
	if (unlinks_left >= 0 && unlinks_left-- == 0) {
		errno = EACCES;
		return -1;
	}
	return __real_unlinkat(fd, name, flags);
}

static long n_files;

static int
count_file(const char *path, const struct stat *s, int type, struct FTW *f)
{
	(void)path;
	(void)s;
	(void)f;
	n_files += type == FTW_F;
	return 0;
}

/* What cannot be removed is said, and goes the next time, whatever its name. */
static void
test_no_removing(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_gc_result left;
	long i, silent = 0, kept = 0;
	int gc, failed = 1;

	for (gc = 0; gc < 2; gc++) {
		/* the first that gc removes is empty: it tells the time */
		for (i = gc, failed = 1; failed; i++) {
			inserted(st, m, base, 40, 20);
			unlinks_left = i;
			failed = (gc ? qwen_store_gc(st, 1, &left, &err) :
			    qwen_store_remove(st, NULL, &left, &err)) != 0;
			silent += (unlinks_left < 0) != failed;
			unlinks_left = -1;
			qwen_store_remove(st, NULL, &left, &err);
			n_files = 0;
			nftw(dir, count_file, 8, FTW_PHYS);
			kept += n_files;
		}
		ok(i > 2 && silent == 0, "what cannot be removed is told of: "
		    "%ld of %ld not", silent, i - 1);
		ok(kept == 0, "and goes when all are removed again");
	}
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* A folder, or what is said of a file, that cannot be read: not an empty one. */
static void
test_no_reading(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_verifier v = { .bad = ignore_bad };
	struct qwen_store_gc_result left;
	struct qwen_store_list *l;
	uint64_t files, bad;
	long i, silent = 0;
	size_t n;

	inserted(st, m, base, 40, 20);
	qwen_store_list(&l, st, &err);
	n = qwen_store_list_n(l);
	qwen_store_list_free(l);
	/* ., .. and the model's folder; then the same there, and its files */
	for (i = 0; i < 2 * 3 + (long)n; i++) {
		readdirs_left = i;
		silent += qwen_store_list(&l, st, &err) == 0;
		qwen_store_list_free(l);
	}
	readdirs_left = -1;
	ok(silent == 0, "a folder that cannot be read to its end is no shorter "
	    "one: %ld of %ld", silent, i);
	for (i = silent = 0; i < (long)n; i++) {
		stats_left = i;
		silent += qwen_store_list(&l, st, &err) == 0;
		qwen_store_list_free(l);
	}
	ok(silent == 0, "a file of which nothing is known is not left out: %ld "
	    "of %ld", silent, i);
	for (i = silent = 0; i < (long)n; i++) {
		stats_left = i;
		if (qwen_store_verify(st, &v, &files, &bad, &err) == 0)
			silent += files != n;
	}
	ok(silent == 0, "nor is it when files are verified: %ld of %ld", silent,
	    i);
	for (i = silent = 0; i < (long)n; i++) {
		stats_left = i;
		if (qwen_store_gc(st, 0, &left, &err) == 0)
			silent += left.left_files != n;
	}
	stats_left = -1;
	ok(silent == 0, "nor when old ones are removed: %ld of %ld", silent, i);
	/* each is looked at before it goes, again to see whether one is needed */
	for (i = silent = 0; i < 6 * (long)n; i++) {
		inserted(st, m, base, 40, 20);
		stats_left = i;
		if (qwen_store_remove(st, NULL, &left, &err) == 0) {
			stats_left = -1;
			qwen_store_list(&l, st, &err);
			silent += qwen_store_list_n(l) != left.left_files ||
			    left.left_files != 0;
			qwen_store_list_free(l);
		}
		stats_left = -1;
	}
	ok(silent == 0, "nor when all are: %ld of %ld", silent, i);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

int
main(void)
{
	tokens_of(base, sizeof base / sizeof base[0], 3);
	test_damage(0);
	test_damage(1);
	test_no_file();
	test_no_reading();
	test_no_removing();
	test_swapped(0);
	test_swapped(1);
	test_healing();
	test_no_room();
	test_kill();
	return done_testing();
}
