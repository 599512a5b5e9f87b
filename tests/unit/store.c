/* SPDX-License-Identifier: ISC */
/* store.c - the prefix store: file names, the longest prefix, removed files. */
#define _GNU_SOURCE	/* F_OFD_SETLK */

#include <sys/wait.h>

#include <fcntl.h>
#include <time.h>

#include "store_util.h"
#include "../tap.h"

static struct qwen_err err;
static int32_t base[8192], other[8192];

/* ------------------------------------------------------------------- names */

static void
test_names(void)
{
	static const char *const bad[] = {
		"", "x", ".tmp-0123456789abcdef",
		"0123456789abcdef0123456789abcdef-0.cp",
		"0123456789abcdef0123456789abcdef-01.cp",
		"0123456789abcdef0123456789abcdef-5.cp.",
		"0123456789abcdef0123456789abcdef-5.cpx",
		"0123456789ABCDEF0123456789abcdef-5.cp",
		"0123456789abcdef0123456789abcde-5.cp",
		"0123456789abcdef0123456789abcdef-99999999999.cp",
		"0123456789abcdef0123456789abcdef--5.cp",
		"0123456789abcdef0123456789abcdef-5."
		"0123456789abcdef0123456789abcdef-5.kv",
		"0123456789abcdef0123456789abcdef-5."
		"0123456789abcdef0123456789abcdef-3.a.kv",
		"0123456789abcdef0123456789abcdef-5."
		"0123456789abcdef0123456789abcdef-3.abc.kv",
		"0123456789abcdef0123456789abcdef-5."
		"0123456789abcdef0123456789abcdef-3.kv.gz",
	};
	static const char *const good[] = {
		"0123456789abcdef0123456789abcdef-5.cp",
		"0123456789abcdef0123456789abcdef-5."
		"fedcba98765432100123456789abcdef-3.kv",
		"0123456789abcdef0123456789abcdef-5."
		"fedcba98765432100123456789abcdef-3.ab.kv",
		"0123456789abcdef0123456789abcdef-2147483647."
		"fedcba98765432100123456789abcdef-0.0123456789abcdef0123.kv",
	};
	char buf[QWEN_STORE_NAME];
	struct qwen_store_name n;
	size_t i;

	for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ok(qwen_store_name_parse(&n, bad[i]) < 0, "no name: '%s'",
		    bad[i]);
	for (i = 0; i < sizeof good / sizeof good[0]; i++) {
		buf[0] = '\0';
		if (qwen_store_name_parse(&n, good[i]) == 0)
			qwen_store_name_format(&n, buf);
		ok(strcmp(buf, good[i]) == 0, "%s", good[i]);
	}
}

static void
test_hashes(void)
{
	static const uint64_t at[] = { 0, 1, 2, 100, 8192 };
	struct qwen_fp all[5], one;
	int i, same = 1;

	qwen_store_hash(base, at, 5, all);
	for (i = 0; i < 5; i++) {
		qwen_store_hash(base, &at[i], 1, &one);
		same = same && qwen_store_same(&one, &all[i]);
	}
	ok(same, "prefixes hashed together and one by one");
	ok(qwen_store_levels(1) == 1 && qwen_store_levels(2) == 2 &&
	    qwen_store_levels(3) == 2 && qwen_store_levels(4) == 3 &&
	    qwen_store_levels(UINT32_MAX) == QWEN_STORE_SKETCH, "levels");
}

/* ------------------------------------------------------ the longest prefix */

static void
test_recurrent(void)
{
	struct qwen_model *m = store_model("a", 0);
	struct qwen_model *m2 = store_model("b", 0);
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, &w);
	struct qwen_header h;
	size_t len, n;

	memcpy(other, base, sizeof other);
	tokens_of(other + 500, 1000, 77);
	ok(restored(st, m, base, 1000) == 0, "nothing in an empty store");
	ok(inserted(st, m, base, 1000, 300) == 0, "1000 tokens, 300 apart");
	ok(restored(st, m, base, 1000) == 1000, "all of them");
	ok(restored(st, m, base, 2000) == 1000, "with more after them");
	ok(restored(st, m, base, 999) == 900, "one less: the checkpoint");
	ok(restored(st, m, base, 300) == 300, "up to the first checkpoint");
	ok(restored(st, m, base, 299) == 0, "less");
	ok(restored(st, m, other, 1000) == 300, "a prompt that parts at 500");
	ok(restored(st, m2, base, 1000) == 0, "nothing for another model");
	n = count_files(st, NULL, NULL);
	ok(n == 8, "%zu files: four runs and checkpoints", n);
	inserted(st, m, base, 1000, 300);
	ok(count_files(st, NULL, NULL) == n, "once more: no new file");
	inserted(st, m, other, 1000, 300);
	ok(count_files(st, NULL, NULL) == n + 6,
	    "another prompt shares the first run");
	ok(restored(st, m, other, 1000) == 1000 &&
	    restored(st, m, base, 1000) == 1000, "both are there");
	inserted(st, m, base, 1500, 0);
	ok(count_files(st, NULL, NULL) == n + 8 &&
	    restored(st, m, base, 1500) == 1500, "a second turn");
	qwen_header_init(&h, QWEN_STREAM_STATE, m->net.gguf, &err);
	ok(qwen_store_find(st, &h, base, 1200, &len, &err) == 0 && len == 1000,
	    "find says %zu", len);
	ok(restored(st, m, base, 0) == 0 && inserted(st, m, base, 0, 0) == 0,
	    "no tokens");
	ok(count_bad(st, 0) == 0, "verify");
	ok(w.n == 0, "no warning");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
	fake_model_free(m2);
}

static void
test_any_cut(void)
{
	struct qwen_model *m = store_model("a", 1);
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, &w);
	static const size_t part[] = { 0, 1, 2, 3, 100, 255, 256, 257, 300, 511,
	    700, 767, 768, 769, 999 };
	size_t i, n;
	int good = 1;

	inserted(st, m, base, 1000, 0);
	n = count_files(st, NULL, NULL);
	ok(n == 5, "%zu files: four runs, the end's logits", n);
	for (i = 0; i < sizeof part / sizeof part[0]; i++) {
		memcpy(other, base, sizeof other);
		tokens_of(other + part[i], 1000, 5);
		if (other[part[i]] == base[part[i]])
			other[part[i]]++;
		ok(restored(st, m, other, 1000) == (long)part[i],
		    "a prompt that parts at %zu", part[i]);
	}
	for (i = 1; i < 1000; i += 37)
		good = good && restored(st, m, base, i) == (long)i - 1;
	ok(good, "a prompt within: its last token is read again");
	ok(restored(st, m, base, 1000) == 1000, "all, and the logits");
	ok(restored(st, m, base, 2000) == 1000, "and more");
	/* forty others that part late: the best is found */
	for (i = 0; i < 40; i++) {
		memcpy(other, base, sizeof other);
		tokens_of(other + 770 + 3 * i, 500, i);
		inserted(st, m, other, 900 + i, 0);
	}
	memcpy(other, base, sizeof other);
	tokens_of(other + 770 + 3 * 29, 500, 29);
	tokens_of(other + 905, 100, 1);
	ok(restored(st, m, other, 1000) == 905,
	    "of forty siblings the one that shares most");
	ok(count_bad(st, 0) == 0, "verify");
	ok(w.n == 0, "no warning");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* A conversation of many turns: chains stay short enough to be opened. */
static void
test_many_turns(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	size_t i, deepest = 0;
	int good = 1;

	for (i = 1; i <= 200; i++) {
		inserted(st, m, base, 10 * i, 0);
		if (i % 40 == 0)
			good = good && restored(st, m, base, 10 * i + 5) ==
			    (long)(10 * i);
	}
	ok(good, "200 turns");
	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		if (qwen_store_list_at(l, i)->depth > deepest)
			deepest = qwen_store_list_at(l, i)->depth;
	}
	ok(deepest <= 160, "%zu runs at most in a chain", deepest + 1);
	ok(restored(st, m, base, 15) == 10, "and the first of them");
	qwen_store_list_free(l);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* --------------------------------------------------------- what is removed */

/* Make a file, and all others of the store, so much older. */
static void
age(struct qwen_store *st, time_t seconds)
{
	struct qwen_store_list *l;
	struct timespec t[2];
	char path[1024];
	struct stat s;
	size_t i;

	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		snprintf(path, sizeof path, "%s/%s", st->dir,
		    qwen_store_list_at(l, i)->path);
		stat(path, &s);
		t[0] = t[1] = s.st_mtim;
		t[0].tv_sec -= seconds;
		t[1].tv_sec -= seconds;
		utimensat(AT_FDCWD, path, t, 0);
	}
	qwen_store_list_free(l);
}

static void
test_limit(int any_cut)
{
	struct qwen_model *m = store_model("a", any_cut);
	const char *dir = store_dir();
	struct warnings w;
	struct qwen_store *st = open_store(dir, 0, NULL), *lim;
	struct qwen_store_gc_result r;
	uint64_t bytes, one;
	size_t i, orphans;
	int good = 1;

	inserted(st, m, base, 600, 0);
	count_files(st, NULL, &one);
	for (i = 0; i < 20; i++) {
		age(st, 10);
		tokens_of(other, 600, 100 + i);
		inserted(st, m, other, 600, 0);
		if (i == 9)
			good = restored(st, m, base, 600) == 600;
	}
	ok(good && count_files(st, NULL, &bytes) > 40 && bytes > 20 * one,
	    "no limit: everything stays");
	ok(qwen_store_gc(st, 12 * one, &r, &err) == 0, "gc");
	count_files(st, &orphans, &bytes);
	ok(bytes <= 12 * one && r.left_bytes == bytes && r.files > 0,
	    "the limit is kept");
	ok(orphans == 0, "no orphans");
	tokens_of(other, 600, 119);
	ok(restored(st, m, other, 600) == 600, "the last one is there");
	ok(restored(st, m, base, 600) == 600, "the first, which was used, too");
	tokens_of(other, 600, 100);
	ok(restored(st, m, other, 600) == 0, "the second, which was not, not");
	qwen_store_close(st);
	lim = open_store(dir, 5 * one, &w);
	for (i = 0, good = 1; i < 10; i++) {
		tokens_of(other, 600, 200 + i);
		inserted(lim, m, other, 600, 0);
		count_files(lim, &orphans, &bytes);
		good = good && bytes <= 5 * one && orphans == 0 &&
		    restored(lim, m, other, 600) == 600;
	}
	ok(good && w.n == 0, "each insertion keeps the limit");
	qwen_store_close(lim);
	lim = open_store(dir, 10, &w);
	inserted(lim, m, base, 600, 0);
	count_files(lim, NULL, &bytes);
	ok(bytes <= 10 && w.n == 1, "what does not fit: %s", w.last);
	qwen_store_close(lim);
	lim = open_store(dir, one - 10, &w);
	inserted(lim, m, base, 600, 0);
	count_files(lim, &orphans, NULL);
	ok(orphans == 0 && w.n == 1, "nor does it leave what hangs on nothing");
	qwen_store_close(lim);
	remove_tree(dir);
	fake_model_free(m);
}

static size_t
count_kind(struct qwen_store *st, enum qwen_store_kind kind, uint64_t *bytes)
{
	struct qwen_store_list *l;
	size_t i, n = 0;

	qwen_store_list(&l, st, &err);
	for (i = 0, *bytes = 0; i < qwen_store_list_n(l); i++) {
		if (qwen_store_list_at(l, i)->kind != kind)
			continue;
		*bytes += qwen_store_list_at(l, i)->bytes;
		n++;
	}
	qwen_store_list_free(l);
	return n;
}

/* Old checkpoints go before the runs that lead to new ones. */
static void
test_inner_checkpoints(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	uint64_t bytes, runs;
	size_t i, orphans, n;

	for (i = 1; i <= 10; i++) {
		inserted(st, m, base, 100 * i, 0);
		age(st, 10);
	}
	n = count_files(st, NULL, &bytes);
	ok(qwen_store_gc(st, bytes - 1, NULL, &err) == 0, "gc");
	ok(count_files(st, &orphans, NULL) == n - 1 && orphans == 0 &&
	    restored(st, m, base, 100) == 0 &&
	    restored(st, m, base, 200) == 200 &&
	    restored(st, m, base, 1000) == 1000,
	    "the oldest checkpoint has gone, its run not");
	age(st, 10);
	restored(st, m, base, 1000);
	count_kind(st, QWEN_STORE_CHECKPOINT, &bytes);
	count_kind(st, QWEN_STORE_KV, &runs);
	ok(qwen_store_gc(st, runs + bytes / 8, NULL, &err) == 0 &&
	    count_kind(st, QWEN_STORE_CHECKPOINT, &bytes) == 1 &&
	    count_kind(st, QWEN_STORE_KV, &runs) == 10 &&
	    restored(st, m, base, 1000) == 1000,
	    "all old checkpoints have gone, no run");
	ok(qwen_store_gc(st, 1, NULL, &err) == 0 &&
	    count_files(st, NULL, NULL) == 0, "nothing fits: all has gone");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* The folder of the only model. */
static void
model_folder(const struct qwen_store *st, char *path, size_t size)
{
	struct qwen_store_names names;

	qwen_store_models(st, &names, &err);
	snprintf(path, size, "%s/v1/%s", st->dir, names.name[0]);
	qwen_store_names_fini(&names);
}

static void
touch_file(const char *dir, const char *name, time_t age_s)
{
	char path[1024];
	struct timespec t[2];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir, name);
	if ((f = fopen(path, "w")) == NULL)
		abort();
	fputs("half of it", f);
	fclose(f);
	clock_gettime(CLOCK_REALTIME, &t[0]);
	t[0].tv_sec -= age_s;
	t[1] = t[0];
	utimensat(AT_FDCWD, path, t, 0);
}

static int
there(const char *dir, const char *name)
{
	char path[1024];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* The path of the first file with this end, or "". */
static void
find_one(char path[1024], struct qwen_store *st, enum qwen_store_kind kind,
    uint64_t end)
{
	struct qwen_store_list *l;
	size_t i;

	path[0] = '\0';
	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l) && path[0] == '\0'; i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		if (e->kind == kind && e->end == end)
			snprintf(path, 1024, "%s/%s", st->dir, e->path);
	}
	qwen_store_list_free(l);
}

static int
remove_one(struct qwen_store *st, enum qwen_store_kind kind, uint64_t end)
{
	char path[1024];

	find_one(path, st, kind, end);
	return unlink(path);
}

static void
test_litter(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char folder[512], path[600];
	size_t orphans, n;
	int fd;

	inserted(st, m, base, 900, 300);
	model_folder(st, folder, sizeof folder);
	touch_file(folder, ".tmp-0000000000000001", 4000);
	touch_file(folder, ".tmp-0000000000000002", 0);
	touch_file(folder, ".tmp-0000000000000003", 4000);
	touch_file(folder, "somebody's notes", 9000);
	snprintf(path, sizeof path, "%s/.tmp-0000000000000003", folder);
	fd = open(path, O_RDWR);
	ok(fd != -1 && fcntl(fd, F_OFD_SETLK, &l) == 0, "a temporary is in use");
	qwen_store_gc(st, 0, NULL, &err);
	ok(!there(folder, ".tmp-0000000000000001"), "an old temporary goes");
	ok(!there(folder, ".tmp-0000000000000002"), "so does a new one");
	ok(there(folder, ".tmp-0000000000000003"),
	    "one that another thread of this process writes stays");
	close(fd);
	qwen_store_gc(st, 0, NULL, &err);
	ok(!there(folder, ".tmp-0000000000000003"), "as long as it does");
	ok(there(folder, "somebody's notes"), "what is not ours stays");
	remove_one(st, QWEN_STORE_KV, 300);
	count_files(st, &orphans, NULL);
	ok(orphans == 5, "%zu orphans", orphans);
	ok(restored(st, m, base, 900) == 0, "are not reached");
	qwen_store_gc(st, 0, NULL, &err);
	ok(count_files(st, NULL, NULL) == 5, "and stay for an hour");
	inserted(st, m, base, 300, 0);
	ok(restored(st, m, base, 900) == 900, "in which they can be adopted");
	remove_one(st, QWEN_STORE_KV, 600);
	age(st, 4000);
	inserted(st, m, base, 300, 0);
	qwen_store_gc(st, 0, NULL, &err);
	n = count_files(st, &orphans, NULL);
	ok(orphans == 0 && n == 2 && restored(st, m, base, 900) == 300,
	    "after that they go, and nothing else: %zu left", n);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* A run whose parent went while another one came to the same end. */
static void
test_two_ways(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	char path[1024], aside[1024];
	size_t orphans;

	inserted(st, m, base, 200, 100);
	find_one(path, st, QWEN_STORE_KV, 200);
	snprintf(aside, sizeof aside, "%.900s/aside", dir);
	rename(path, aside);
	remove_one(st, QWEN_STORE_KV, 100);
	remove_one(st, QWEN_STORE_CHECKPOINT, 100);
	inserted(st, m, base, 200, 0);
	rename(aside, path);
	count_files(st, &orphans, NULL);
	ok(orphans == 1 && restored(st, m, base, 200) == 200,
	    "two ways to one end, of which one begins nowhere");
	inserted(st, m, base, 200, 0);
	count_files(st, &orphans, NULL);
	ok(orphans == 0 && restored(st, m, base, 200) == 200,
	    "whoever inserts the same finds its beginning");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* Runs that a killed process had on their way out. */
static void
test_gone(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	char folder[512], from[1024], to[1024];
	size_t i, k = 0;

	inserted(st, m, base, 900, 300);
	model_folder(st, folder, sizeof folder);
	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		if (e->kind != QWEN_STORE_KV)
			continue;
		snprintf(from, sizeof from, "%s/%s", dir, e->path);
		snprintf(to, sizeof to, "%s/.gone-%016zx-%s", folder, ++k,
		    strrchr(e->path, '/') + 1);
		if (e->end < 900)
			rename(from, to);
	}
	qwen_store_list_free(l);
	ok(k == 3 && restored(st, m, base, 900) == 0, "two runs are away");
	qwen_store_gc(st, 0, NULL, &err);
	ok(restored(st, m, base, 900) == 900, "gc: their child brings them back");
	ok(count_hidden(dir) == 0, "under their names");
	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		snprintf(from, sizeof from, "%s/%s", dir, e->path);
		snprintf(to, sizeof to, "%s/.gone-%016zx-%s", folder, ++k,
		    strrchr(e->path, '/') + 1);
		if (e->end == 900)
			rename(from, to);
	}
	qwen_store_list_free(l);
	qwen_store_gc(st, 0, NULL, &err);
	ok(restored(st, m, base, 900) == 600, "without a child, it goes");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

static void
test_remove(void)
{
	struct qwen_model *m = store_model("a", 0), *m2 = store_model("b", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_gc_result r;
	struct qwen_header h;
	char hex[33];
	uint64_t at[] = { 600, 300 };
	struct qwen_fp fp[2];

	memcpy(other, base, sizeof other);
	tokens_of(other + 400, 1000, 77);
	inserted(st, m, base, 900, 300);
	inserted(st, m, other, 900, 300);
	inserted(st, m2, base, 900, 300);
	ok(qwen_store_remove(st, "g", NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	ok(qwen_store_remove(st, "", NULL, &err) < 0, "%s", err.msg);
	qwen_header_init(&h, QWEN_STREAM_STATE, m2->net.gguf, &err);
	ok(qwen_store_remove(st, qwen_fp_hex(&h.model, hex), &r, &err) == 0 &&
	    r.files == 6 && restored(st, m2, base, 900) == 0 &&
	    restored(st, m, base, 900) == 900, "a model");
	qwen_store_hash(base, &at[0], 1, &fp[0]);
	qwen_fp_hex(&fp[0], hex);
	hex[20] = '\0';
	ok(qwen_store_remove(st, hex, &r, &err) == 0 && r.files == 4 &&
	    restored(st, m, base, 900) == 300 &&
	    restored(st, m, other, 900) == 900,
	    "a prefix and what goes on from it");
	ok(qwen_store_remove(st, NULL, &r, &err) == 0 && r.files == 6 &&
	    count_files(st, NULL, NULL) == 0, "everything");
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
	fake_model_free(m2);
}

static void
test_list(void)
{
	struct qwen_model *m = store_model("a", 0);
	const char *dir = store_dir();
	struct qwen_store *st = open_store(dir, 0, NULL);
	struct qwen_store_list *l;
	char got[200] = "";
	size_t i;

	memcpy(other, base, sizeof other);
	tokens_of(other + 400, 1000, 77);
	inserted(st, m, base, 600, 300);
	inserted(st, m, other, 500, 300);
	inserted(st, m, base, 700, 300);
	qwen_store_list(&l, st, &err);
	for (i = 0; i < qwen_store_list_n(l); i++) {
		const struct qwen_store_entry *e = qwen_store_list_at(l, i);

		snprintf(got + strlen(got), sizeof got - strlen(got),
		    "%s%zu:%llu-%llu ", e->kind == QWEN_STORE_KV ? "" : "c",
		    e->depth, (unsigned long long)e->from,
		    (unsigned long long)e->end);
	}
	ok(strcmp(got, "0:0-300 c0:300-300 1:300-500 c1:500-500 "
	    "1:300-600 c1:600-600 2:600-700 c2:700-700 ") == 0, "%s", got);
	qwen_store_list_free(l);
	qwen_store_close(st);
	remove_tree(dir);
	fake_model_free(m);
}

/* ---------------------------------------------------- no store to speak of */

static void
test_no_store(void)
{
	struct qwen_model *m = store_model("a", 0);
	/* where somebody else can come, too */
	const char *dir = store_dir_in("/tmp");
	struct warnings w;
	struct qwen_store *st;
	char path[512];
	pid_t pid;
	int status;

	touch_file(dir, "file", 0);
	snprintf(path, sizeof path, "%s/file", dir);
	st = open_store(path, 0, &w);
	ok(restored(st, m, base, 100) == 0 &&
	    inserted(st, m, base, 100, 0) == 0 && w.n == 1, "%s", w.last);
	qwen_store_close(st);
	snprintf(path, sizeof path, "%s/none/such", dir);
	st = open_store(path, 0, &w);
	ok(restored(st, m, base, 100) == 0 &&
	    inserted(st, m, base, 100, 0) == 0 && w.n == 1, "%s", w.last);
	qwen_store_close(st);
	/* somebody else's, read-only and then not even that */
	st = open_store(dir, 0, &w);
	inserted(st, m, base, 100, 0);
	qwen_store_close(st);
	model_folder(&(struct qwen_store){ .dir = (char *)dir }, path,
	    sizeof path);
	chmod(dir, 0755);
	chmod(path, 0555);
	fflush(stdout);
	if ((pid = fork()) == 0) {
		if (getuid() == 0 && setuid(65534) == -1)
			_exit(3);
		if (access(dir, R_OK) == -1)
			_exit(3);	/* hidden by a folder above it */
		st = open_store(dir, 0, &w);
		status = restored(st, m, base, 150) == 100 && w.n == 0 &&
		    inserted(st, m, base, 100, 0) == 0 && w.n == 0 &&
		    inserted(st, m, base, 150, 0) == 0 && w.n == 1;
		printf("# %s\n", w.last);
		fflush(stdout);
		_exit(status ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip("a read-only store", "cannot become somebody else here");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		    "a read-only store is read, with one warning for the rest");
	chmod(path, 0);
	if ((pid = fork()) == 0) {
		if (getuid() == 0 && setuid(65534) == -1)
			_exit(3);
		st = open_store(dir, 0, &w);
		_exit(restored(st, m, base, 150) == 0 && w.n == 1 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		skip("an unreadable store", "cannot become somebody else here");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
		    "an unreadable store is no store");
	chmod(path, 0755);
	remove_tree(dir);
	fake_model_free(m);
}

int
main(void)
{
	tokens_of(base, sizeof base / sizeof base[0], 3);
	test_names();
	test_hashes();
	test_recurrent();
	test_any_cut();
	test_many_turns();
	test_limit(0);
	test_limit(1);
	test_inner_checkpoints();
	test_litter();
	test_two_ways();
	test_gone();
	test_remove();
	test_list();
	test_no_store();
	return done_testing();
}
