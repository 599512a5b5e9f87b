/* SPDX-License-Identifier: ISC */
/*
 * state_steps.c - a session saved in steps: after each step the file is the
 * state of that step, even if the next step is interrupted anywhere; copied, it
 * has the bytes of a state saved at once.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "../kernel/random.h"
#include "../ref/tiny.h"
#include "../tap.h"
#include "../tree.h"

enum { N_VOCAB = 71, LONG = 1200, N_STEP = 8, CUTS = 60 };

static const size_t end_of[N_STEP] = { 1, 40, 300, 512, 513, 777, 1024, 1199 };

static struct qwen_err err;
static char dir[800], path[1000], copy[1000];
static int32_t ids[LONG];

static const struct tiny_shape shapes[] = {
	{ .arch = "qwen35", .n_layer = 4, .n_nextn = 1, .n_embd = 48,
	    .n_vocab = N_VOCAB, .n_head = 4, .n_head_kv = 2, .n_embd_head = 32,
	    .n_rot = 8, .n_ff = 80, .conv_kernel = 4, .dk = 32, .dv = 32,
	    .n_head_k = 2, .n_head_v = 4 },
	{ .arch = "qwen3", .n_layer = 3, .n_embd = 48, .n_vocab = N_VOCAB,
	    .n_head = 4, .n_head_kv = 2, .n_embd_head = 32, .n_ff = 80 },
};

static void
must(int rc)
{
	if (rc >= 0)
		return;
	printf("Bail out! %s\n", err.msg);
	exit(1);
}

static uint64_t
size_of(const char *p)
{
	struct stat st;

	return stat(p, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* To the end of a file that has so many bytes. */
static void
save_to(const char *p, uint64_t at, const struct qwen_session *s,
    const struct qwen_state_opts *o)
{
	int fd = open(p, O_RDWR | O_CREAT, 0600);
	struct qwen_writer *w;

	if (fd == -1 || ftruncate(fd, (off_t)at) == -1 ||
	    lseek(fd, (off_t)at, SEEK_SET) == -1)
		abort();
	must(qwen_writer_open(&w, fd, NULL, &err));
	must(qwen_state_save(s, NULL, w, o, NULL, &err));
	must(qwen_writer_close(w, &err));
	close(fd);
}

static int
same_files(const char *a, const char *b)
{
	FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
	int x, y;

	if (f == NULL || g == NULL)
		abort();
	do {
		x = getc(f);
		y = getc(g);
	} while (x == y && x != EOF);
	fclose(f);
	fclose(g);
	return x == y;
}

/* What the file holds, saved at once, beside what s is when saved at once. */
static int
holds(struct qwen_model *m, const struct qwen_session *s)
{
	const struct qwen_state_opts plain = { 0 };
	struct qwen_session *got;
	struct qwen_state_file *f;
	struct qwen_writer *w;
	char a[1000], b[1000];
	int same, fd;

	snprintf(a, sizeof a, "%s/a", dir);
	snprintf(b, sizeof b, "%s/b", dir);
	save_to(a, 0, s, &plain);
	must(qwen_state_load_file(&got, NULL, m, path, NULL, &err));
	save_to(b, 0, got, &plain);
	qwen_session_free(got);
	same = same_files(a, b);
	must(qwen_state_open(&f, path, &err));
	fd = open(b, O_RDWR | O_TRUNC);
	must(qwen_writer_open(&w, fd, NULL, &err));
	must(qwen_state_copy(f, w, NULL, NULL, &err));
	must(qwen_writer_close(w, &err));
	close(fd);
	qwen_state_close(f);
	return same && same_files(a, b) &&
	    qwen_state_verify(path, 2, &err) == 0;
}

/* Keys and values that the last save wrote: those of 256 positions at most. */
static int
is_new(uint64_t from, size_t begun)
{
	struct qwen_state_file *f;
	struct qwen_state_block b;
	uint64_t least = UINT64_MAX, ahead = UINT64_MAX, per;
	size_t i, n;

	must(qwen_state_open(&f, path, &err));
	n = qwen_state_info(f)->n_blocks;
	for (i = 0; i < n; i++) {
		qwen_state_block(f, i, &b);
		if (b.offset >= from && strcmp(b.kind, "kv") == 0 &&
		    b.off < least)
			least = b.off;
		/* of the block that predicts: the row of p is in slot p - 1 */
		if (b.offset >= from && strcmp(b.kind, "mtp-kv") == 0 &&
		    b.off < ahead)
			ahead = b.off;
	}
	/* two heads of 32 numbers in f16, keys and values */
	per = 2 * 32 * 2 * 2;
	qwen_state_close(f);
	return least >= begun / 256 * 256 * per &&
	    (begun == 0 || ahead >= (begun - 1) / 256 * 256 * per);
}

/* The file up to byte n is the state of so many tokens, or (0) none. */
static int
cut_at(uint64_t n, size_t want)
{
	static char buf[1 << 22];
	struct qwen_state_file *f;
	int fd = open(path, O_RDONLY), out, same;

	if (n > sizeof buf || read(fd, buf, (size_t)n) != (ssize_t)n)
		abort();
	close(fd);
	out = open(copy, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (write(out, buf, (size_t)n) != (ssize_t)n)
		abort();
	close(out);
	if (qwen_state_open(&f, copy, &err) < 0)
		return want == 0;
	same = qwen_state_info(f)->n_tokens == want;
	qwen_state_close(f);
	return same && qwen_state_verify(copy, 2, &err) == 0;
}

static void
test_steps(const struct tiny_shape *shape, int no_compress)
{
	const struct qwen_model_opts opts = { .n_threads = 2, .draft = 1 };
	const struct qwen_checkpoints keep = { .every = 64 };
	const struct qwen_eval how = { .keep = &keep };
	struct qwen_state_opts o = { .no_compress = no_compress };
	uint64_t before = 0, now, at;
	size_t done = 0, k, i, bad;
	char file[1000];
	struct qwen_session *s;
	struct qwen_model *m;
	struct tiny *t;

	snprintf(file, sizeof file, "%s/model", dir);
	t = tiny_new(shape);
	tiny_drop_key(t, "context_length");
	tiny_u32(t, "context_length", LONG);
	tiny_write(t, file);
	tiny_free(t);
	must(qwen_model_open(&m, file, &opts, &err));
	must(qwen_session_new(&s, m, &err));
	must(qwen_state_steps_new(&o.steps, &err));
	unlink(path);
	for (k = 0; k < N_STEP; k++) {
		must(qwen_session_eval(s, ids + done, end_of[k] - done, &how,
		    &err));
		save_to(path, before, s, &o);
		now = size_of(path);
		ok(now == qwen_state_steps_bytes(o.steps) && holds(m, s),
		    "%s, %zu tokens, %llu bytes more", shape->arch, end_of[k],
		    (unsigned long long)(now - before));
		ok(is_new(before, done), "no old keys and values among them");
		for (bad = i = 0; i < CUTS; i++) {
			at = i == 0 ? now - 1 : i == 1 ? before :
			    before + random_u32() % (now - before);
			bad += !cut_at(at, done);
		}
		ok(bad == 0, "broken off anywhere: %zu tokens", done);
		done = end_of[k];
		before = now;
	}
	for (k = 0; k < 40 && !qwen_state_steps_worn(o.steps); k++)
		save_to(path, qwen_state_steps_bytes(o.steps), s, &o);
	unlink(copy);
	qwen_state_steps_forget(o.steps);
	before = size_of(path);
	save_to(copy, 0, s, &o);
	ok(k < 40 && before > 2 * size_of(copy) &&
	    before < 4 * size_of(copy), "worn after %zu more", k);
	qwen_state_steps_free(o.steps);
	qwen_session_free(s);
	qwen_model_close(m);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	size_t i;

	snprintf(dir, sizeof dir, "%s/state-steps-XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL)
		abort();
	snprintf(path, sizeof path, "%s/state", dir);
	snprintf(copy, sizeof copy, "%s/copy", dir);
	for (i = 0; i < LONG; i++)
		ids[i] = (int32_t)(random_u32() % N_VOCAB);
	for (i = 0; i < 2; i++) {
		test_steps(&shapes[i], 0);
		test_steps(&shapes[i], 1);
	}
	remove_tree(dir);
	return done_testing();
}
