/* SPDX-License-Identifier: ISC */
/*
 * state_file.c - states in files: cut, in parts, mapped, damaged in places that
 * are not read, and saved again while their data is still in the file.
 */
#include <sys/stat.h>

#include "engine/state/read.h"
#include "state_util.h"
#include "../tap.h"

enum { N = 300 };

static const uint64_t at[] = { 40, 64, 111, 112, 250 };
enum { N_AT = 5 };

static struct qwen_err err;

/* A session of N tokens with checkpoints, of which some lack their logits. */
static struct qwen_session *
session_with(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, N, 7);
	uint64_t x = 99;
	size_t i;

	for (i = 0; i < N_AT; i++) {
		struct qwen_kept k = { .c = { .at = at[i],
		    .named = i % 2 != 0,
		    .logits = i != 2 || s->mem.recurrent_bytes == 0 } };

		if (s->mem.recurrent_bytes > 0) {
			k.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
			fill_floats(k.recurrent, s->mem.recurrent_bytes / 4, &x);
		}
		if (k.c.logits) {
			k.logits = qwen_alloc(m->net.hp.n_vocab, sizeof(float));
			fill_floats(k.logits, m->net.hp.n_vocab, &x);
		}
		qwen_session_add_kept(s, &k, &err);
	}
	return s;
}

static void
save_opts(struct bytes *b, const struct qwen_session *s,
    const struct qwen_state_opts *o)
{
	struct qwen_writer *w;
	int fd = fd_of("", 0);

	b->n = 0;
	if (qwen_writer_open(&w, fd, NULL, &err) < 0 ||
	    qwen_state_save(s, NULL, w, o, NULL, &err) < 0 ||
	    qwen_writer_close(w, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	bytes_of_fd(b, fd);
	close(fd);
}

static struct qwen_state_file *
open_bytes(const void *p, size_t n)
{
	struct qwen_state_file *f;
	char path[64];
	int fd = fd_of(p, n);

	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	if (qwen_state_open(&f, path, &err) < 0)
		f = NULL;
	close(fd);
	return f;
}

static struct qwen_session *
restore(struct qwen_model *m, struct qwen_state_file *const *f, size_t n,
    size_t n_max, int want)
{
	struct qwen_session *s;

	err.msg[0] = '\0';
	return qwen_state_restore(&s, NULL, m, f, n, n_max, want, &err) < 0 ?
	    NULL : s;
}

/* s cut in memory to where it can be for n, as restoring should have it. */
static struct qwen_session *
expected(struct qwen_model *m, size_t n, int want)
{
	struct qwen_session *s = session_with(m);
	size_t to;

	if (qwen_session_rewind(s, n, want, &to, &err) < 0)
		abort();
	return s;
}

/* And the same checkpoints. */
static int
same_kept(const struct qwen_session *a, const struct qwen_session *b)
{
	struct qwen_checkpoint p, q;
	size_t i, n = qwen_session_n_checkpoints(a);

	if (n != qwen_session_n_checkpoints(b))
		return 0;
	for (i = 0; i < n; i++) {
		qwen_session_checkpoint(a, i, &p);
		qwen_session_checkpoint(b, i, &q);
		if (memcmp(&p, &q, sizeof p) != 0)
			return 0;
	}
	return 1;
}

static int
restores(struct qwen_model *m, struct qwen_state_file *const *f, size_t n,
    size_t n_max, int want)
{
	struct qwen_session *s = restore(m, f, n, n_max, want);
	struct qwen_session *w = expected(m, n_max, want);
	int good = s != NULL && same_session(s, w) && same_kept(s, w);

	if (!good)
		printf("# to %zu, logits %d: %zu, %zu %s\n", n_max, want,
		    s != NULL ? s->n_tokens : 0, w->n_tokens, err.msg);
	qwen_session_free(s);
	qwen_session_free(w);
	return good;
}

/* One file, cut at every position. */
static void
test_cuts(struct qwen_model *m, const char *what, int no_compress)
{
	struct qwen_state_opts o = { .no_compress = no_compress };
	struct qwen_session *s = session_with(m);
	struct bytes b = { 0 };
	struct qwen_state_file *f;
	size_t n, bad = 0;

	save_opts(&b, s, &o);
	f = open_bytes(b.p, b.n);
	ok(f != NULL && qwen_state_info(f)->mapped == no_compress &&
	    qwen_state_info(f)->n_checkpoints == N_AT &&
	    qwen_state_info(f)->n_tokens == N && !qwen_state_info(f)->part &&
	    qwen_state_info(f)->stored == b.n, "%s: opened %s", what, err.msg);
	for (n = 0; f != NULL && n <= N + 1; n++)
		bad += !restores(m, &f, 1, n, n % 2 != 0);
	bad += !restores(m, &f, 1, SIZE_MAX, 1);
	for (n = 0; n < N_AT; n++)
		bad += !restores(m, &f, 1, (size_t)at[n], 0) ||
		    !restores(m, &f, 1, (size_t)at[n], 1);
	ok(bad == 0, "%s: restored at any position", what);
	qwen_state_close(f);
	qwen_session_free(s);
	bytes_free(&b);
}

/* What stays in the file is read when it is needed, and copied when saved. */
static void
test_left(struct qwen_model *m)
{
	struct qwen_state_opts plain = { .no_compress = 1 }, o = { 0 };
	struct qwen_session *s = session_with(m), *t, *w;
	struct bytes a = { 0 }, b = { 0 }, c = { 0 };
	struct qwen_state_file *f;
	size_t i, to, bad = 0;
	char path[64];
	int fd[2];

	save_opts(&a, s, &o);
	for (i = 0; i < N_AT; i++) {
		f = open_bytes(a.p, a.n);
		t = restore(m, &f, 1, SIZE_MAX, 0);
		qwen_state_close(f);
		w = expected(m, (size_t)at[i], 0);
		bad += qwen_session_rewind(t, (size_t)at[i], 0, &to, &err) < 0 ||
		    to != at[i] || !same_session(t, w) || !same_kept(t, w);
		qwen_session_free(t);
		qwen_session_free(w);
	}
	ok(bad == 0, "cut to a checkpoint in the file, which is closed");
	f = open_bytes(a.p, a.n);
	t = restore(m, &f, 1, SIZE_MAX, 0);
	qwen_state_close(f);
	save_opts(&b, t, &o);
	ok(a.n == b.n && memcmp(a.p, b.p, a.n) == 0,
	    "saved again: the same bytes");
	save_opts(&b, t, &plain);
	save_opts(&c, s, &plain);
	ok(b.n == c.n && memcmp(b.p, c.p, b.n) == 0,
	    "saved without compression, likewise");
	qwen_session_free(t);
	f = open_bytes(b.p, b.n);
	t = restore(m, &f, 1, SIZE_MAX, 0);
	qwen_state_close(f);
	save_opts(&c, t, &o);
	ok(a.n == c.n && memcmp(a.p, c.p, a.n) == 0, "and back");
	qwen_session_free(t);
	if (a.n < 60000 && pipe(fd) == 0) {
		if (write(fd[1], a.p, a.n) != (ssize_t)a.n)
			abort();
		close(fd[1]);
		snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
		qwen_state_load_file(&t, NULL, m, path, NULL, &err);
		close(fd[0]);
		save_opts(&c, t, &o);
		ok(same_kept(s, t) && a.n == c.n &&
		    memcmp(a.p, c.p, a.n) == 0, "through a pipe: all in memory");
		qwen_session_free(t);
	}
	o.no_checkpoints = 1;
	save_opts(&b, s, &o);
	f = open_bytes(b.p, b.n);
	ok(b.n < a.n && qwen_state_info(f)->n_checkpoints == 0,
	    "without checkpoints");
	qwen_state_close(f);
	qwen_session_free(s);
	bytes_free(&a);
	bytes_free(&b);
	bytes_free(&c);
}

/* Parts that end at checkpoints, with KV and recurrent state together. */
static void
test_parts(struct qwen_model *m, const char *what, int no_compress)
{
	struct qwen_session *s = session_with(m);
	struct qwen_state_file *f[N_AT + 1];
	struct bytes b = { 0 };
	size_t i, n, bad = 0;

	for (i = 0; i <= N_AT; i++) {
		struct qwen_state_opts o = { .no_compress = no_compress,
		    .from = i > 0 ? at[i - 1] : 0, .to = i < N_AT ? at[i] : 0 };

		save_opts(&b, s, &o);
		f[i] = open_bytes(b.p, b.n);
		bad += f[i] == NULL || qwen_state_info(f[i])->from != o.from ||
		    qwen_state_info(f[i])->part != (i > 0) ||
		    qwen_state_info(f[i])->n_checkpoints != 0;
	}
	ok(bad == 0, "%s: %zu parts %s", what, i, err.msg);
	for (n = bad = 0; n <= N + 1; n++)
		bad += !restores(m, f, N_AT + 1, n, n % 2 != 0);
	ok(bad == 0, "%s: any position of a chain of parts", what);
	for (i = 0; i <= N_AT; i++)
		qwen_state_close(f[i]);
	/* checkpoints within a part */
	for (i = 0; i < 2; i++) {
		struct qwen_state_opts o = { .no_compress = no_compress,
		    .from = i > 0 ? at[2] : 0, .to = i > 0 ? 0 : at[2] };

		save_opts(&b, s, &o);
		f[i] = open_bytes(b.p, b.n);
	}
	for (n = bad = 0; n <= N + 1; n++)
		bad += !restores(m, f, 2, n, n % 2 == 0);
	ok(bad == 0 && qwen_state_info(f[0])->n_checkpoints == 2 &&
	    qwen_state_info(f[1])->n_checkpoints == 2,
	    "%s: two parts with checkpoints", what);
	qwen_state_close(f[0]);
	qwen_state_close(f[1]);
	qwen_session_free(s);
	bytes_free(&b);
}

/* KV alone in some parts, and the state of its end in others. */
static void
test_apart(struct qwen_model *m)
{
	struct qwen_session *s = session_with(m), *t = NULL;
	struct qwen_state_file *f[2 * N_AT + 2];
	struct qwen_state_file *kv_only;
	struct bytes b = { 0 };
	size_t i, n, n_f = 0, bad = 0;

	for (i = 0; i <= N_AT; i++) {
		struct qwen_state_opts o = { .no_recurrent = 1,
		    .no_checkpoints = 1, .from = i > 0 ? at[i - 1] : 0,
		    .to = i < N_AT ? at[i] : N };

		save_opts(&b, s, &o);
		f[n_f++] = open_bytes(b.p, b.n);
		bad += f[n_f - 1] == NULL ||
		    (s->mem.recurrent_bytes > 0 &&
		    qwen_state_info(f[n_f - 1])->recurrent);
		o.from = o.to;
		o.no_recurrent = 0;
		save_opts(&b, s, &o);
		f[n_f++] = open_bytes(b.p, b.n);
		bad += f[n_f - 1] == NULL ||
		    !qwen_state_info(f[n_f - 1])->recurrent;
	}
	ok(bad == 0, "KV and states apart: %zu files %s", n_f, err.msg);
	for (n = bad = 0; n <= N + 1; n++)
		bad += !restores(m, f, n_f, n, n % 2 != 0);
	ok(bad == 0, "restored from both");
	kv_only = f[0];
	t = restore(m, &kv_only, 1, SIZE_MAX, 0);
	ok(t != NULL && t->n_tokens == (s->mem.recurrent_bytes > 0 ? 0 : at[0]),
	    "KV alone does not lead far: %zu", t != NULL ? t->n_tokens : 999);
	qwen_session_free(t);
	for (i = 0; i < n_f; i++)
		qwen_state_close(f[i]);
	qwen_session_free(s);
	bytes_free(&b);
}

static void
test_wrong_chains(struct qwen_model *m)
{
	struct qwen_session *s = session_with(m), *t;
	struct qwen_state_opts head = { .to = 64 }, tail = { .from = 64 },
	    later = { .from = 112 };
	struct qwen_state_file *f[4], *c[2];
	struct bytes b = { 0 };
	struct qwen_state_extra x;

	save_opts(&b, s, &head);
	f[0] = open_bytes(b.p, b.n);
	save_opts(&b, s, &later);
	f[2] = open_bytes(b.p, b.n);
	save_opts(&b, s, &tail);
	f[1] = open_bytes(b.p, b.n);
	ok(load_bytes(&t, &x, m, b.p, b.n, NULL, &err) < 0 &&
	    err.code == QWEN_EMISMATCH, "%s", err.msg);
	s->tokens[3] ^= 1;
	save_opts(&b, s, &tail);
	f[3] = open_bytes(b.p, b.n);
	c[0] = f[1];
	ok(restore(m, c, 1, SIZE_MAX, 0) == NULL &&
	    err.code == QWEN_EMISMATCH, "a part alone: %s", err.msg);
	c[0] = f[0];
	c[1] = f[2];
	ok(restore(m, c, 2, SIZE_MAX, 0) == NULL &&
	    err.code == QWEN_EMISMATCH, "a gap: %s", err.msg);
	c[1] = f[0];
	ok(restore(m, c, 2, SIZE_MAX, 0) == NULL &&
	    err.code == QWEN_EMISMATCH, "the same twice: %s", err.msg);
	c[1] = f[3];
	ok(restore(m, c, 2, SIZE_MAX, 0) == NULL &&
	    err.code == QWEN_EMISMATCH, "other tokens: %s", err.msg);
	c[1] = f[1];
	t = restore(m, c, 2, SIZE_MAX, 0);
	ok(t != NULL && t->n_tokens == N, "and the right one");
	qwen_session_free(t);
	t = restore(m, c, 0, SIZE_MAX, 0);
	ok(t != NULL && t->n_tokens == 0, "no file, no token");
	qwen_session_free(t);
	tail.from = N + 1;
	ok(qwen_state_save(s, NULL, NULL, &tail, NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	head.to = 65;
	ok(qwen_state_save(s, NULL, NULL, &head, NULL, &err) < 0 &&
	    err.code == QWEN_ERANGE, "%s", err.msg);
	qwen_state_close(f[0]);
	qwen_state_close(f[1]);
	qwen_state_close(f[2]);
	qwen_state_close(f[3]);
	qwen_session_free(s);
	bytes_free(&b);
}

/* In place, and private: nobody else sees what is written. */
static void
test_mapped(struct qwen_model *m)
{
	struct qwen_state_opts o = { .no_compress = 1 };
	struct qwen_session *s = session_with(m), *t, *u;
	struct bytes b = { 0 }, c = { 0 };
	struct qwen_state_file *f;
	size_t i, j, in_place = 0, all = 0;
	char path[64];
	int fd;

	save_opts(&b, s, &o);
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	qwen_state_open(&f, path, &err);
	t = restore(m, &f, 1, SIZE_MAX, 0);
	u = restore(m, &f, 1, SIZE_MAX, 0);
	for (i = 0; i < t->mem.n_layer; i++) {
		for (j = 0; j < t->mem.layer[i].n_block; j++) {
			const char *p = (const char *)t->mem.layer[i].block[j];
			const char *map = t->mapping[0].p;

			all++;
			in_place += p >= map && p < map + t->mapping[0].bytes;
			memset(t->mem.layer[i].block[j], 0x55,
			    t->mem.layer[i].kv_block_bytes);
		}
	}
	ok(all > 0 && in_place == all, "%zu of %zu blocks in place", in_place,
	    all);
	bytes_of_fd(&c, fd);
	ok(c.n == b.n && memcmp(b.p, c.p, b.n) == 0 && same_session(s, u),
	    "written to, and nobody else sees it");
	qwen_state_close(f);
	qwen_session_clear(t);
	ok(qwen_session_reserve(t, 100, &err) == 0 &&
	    t->mem.layer[1].block[0][0] == 0, "cleared: memory of its own");
	qwen_session_free(s);
	qwen_session_free(t);
	qwen_session_free(u);
	bytes_free(&b);
	bytes_free(&c);
	close(fd);
}

/*
 * Every bit: what is used of a damaged file is refused, or nothing of it was
 * used and the session is as it should be.
 */
static void
test_bits(struct qwen_model *m, int no_compress, size_t n_max)
{
	struct qwen_state_opts o = { .no_compress = no_compress };
	struct qwen_session *s = fake_session(m, 20, 7), *w, *t;
	struct qwen_kept k = { .c = { .at = 17, .logits = 1 } };
	struct qwen_state_file *f;
	struct bytes b = { 0 };
	size_t i, refused = 0, wrong = 0, at17;
	uint64_t x = 5;

	k.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
	fill_floats(k.recurrent, s->mem.recurrent_bytes / 4, &x);
	k.logits = qwen_alloc(m->net.hp.n_vocab, sizeof(float));
	fill_floats(k.logits, m->net.hp.n_vocab, &x);
	qwen_session_add_kept(s, &k, &err);
	save_opts(&b, s, &o);
	qwen_session_rewind(s, n_max, 0, &at17, &err);
	w = s;
	for (i = 0; i < 8 * b.n; i++) {
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
		f = open_bytes(b.p, b.n);
		t = f == NULL ? NULL : restore(m, &f, 1, n_max, 0);
		if (t == NULL)
			refused++;
		else if (!same_session(t, w)) {
			printf("# bit %zu\n", i);
			wrong++;
		}
		qwen_session_free(t);
		qwen_state_close(f);
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	ok(wrong == 0, "%zu bits, restored to %zu: %zu refused, %zu wrong", i,
	    w->n_tokens, refused, wrong);
	ok(refused < i, "%zu were in blocks that are not used", i - refused);
	qwen_session_free(s);
	bytes_free(&b);
}

static void
test_blocks(struct qwen_model *m)
{
	struct qwen_session *s = session_with(m);
	struct qwen_state_file *f;
	struct qwen_state_block bl;
	struct bytes b = { 0 };
	const unsigned char *raw;
	uint64_t bytes = 0, got = 0;
	size_t i, n, bad = 0;
	char path[64];
	int fd;

	save_opts(&b, s, NULL);
	f = open_bytes(b.p, b.n);
	for (i = 0; i < qwen_state_info(f)->n_blocks; i++) {
		qwen_state_block(f, i, &bl);
		bytes += bl.bytes;
		if (qwen_state_block_read(f, i, &raw, &n, &err) < 0 ||
		    n != bl.len)
			bad++;
		else if (strcmp(bl.kind, "tokens") == 0) {
			bad += memcmp(raw, (char *)s->tokens + bl.off, n) != 0;
			got += n;
		}
	}
	ok(bad == 0 && got == N * 4 && bytes + f->n_head == b.n &&
	    strcmp(bl.kind, "end") == 0, "%zu blocks, read one by one", i);
	qwen_state_close(f);
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ok(qwen_state_verify(path, 2, &err) == 0, "verified %s", err.msg);
	close(fd);
	b.p[b.n / 2] ^= 4;
	fd = fd_of(b.p, b.n);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ok(qwen_state_verify(path, 2, &err) < 0 &&
	    strstr(err.msg, "state block") != NULL, "%s", err.msg);
	close(fd);
	ok(qwen_state_open(&f, "/dev/null", &err) < 0 && f == NULL,
	    "%s", err.msg);
	ok(qwen_state_open(&f, "/", &err) < 0 && f == NULL, "%s", err.msg);
	qwen_session_free(s);
	bytes_free(&b);
}

/* What a caller gets wrong is told, and nothing happens. */
static void
test_misuse(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, 40, 1);
	struct qwen_state_extra x = { 0 };
	struct qwen_run none = { 0 };
	struct qwen_state_file *f;
	struct qwen_state_block b;
	struct qwen_checkpoint c = { .at = 1 };
	struct bytes bytes = { 0 };
	const unsigned char *raw;
	size_t n;

	save_opts(&bytes, s, NULL);
	if ((f = open_bytes(bytes.p, bytes.n)) == NULL)
		abort();
	n = qwen_state_info(f)->n_blocks;
	qwen_state_block(f, n, &b);
	ok(b.kind[0] == '\0' && b.len == 0, "no block after the last");
	ok(qwen_state_block_read(f, n, &raw, &n, &err) < 0 &&
	    err.code == QWEN_ERANGE, "to read it: %s", err.msg);
	qwen_session_checkpoint(s, 0, &c);
	ok(c.at == 0, "no checkpoint where there is none");
	ok(qwen_state_extra_generated(&x, 5, 3, &err) == 0 &&
	    qwen_state_extra_generated(&x, 7, 2, &err) < 0 &&
	    err.code == QWEN_ERANGE, "out of order: %s", err.msg);
	ok(qwen_state_extra_generated(&x, UINT64_MAX, 2, &err) < 0 &&
	    x.n_generated == 1, "far out: %s", err.msg);
	ok(qwen_state_extra_run(&x, &none, &err) == 0 &&
	    x.run.options == NULL, "a run without options is none");
	qwen_state_extra_fini(&x);
	qwen_state_close(f);
	qwen_session_free(s);
	bytes_free(&bytes);
}

int
main(void)
{
	/* attention alone; blocks and states of several records each */
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_model *kv = fake_model(&small_shape, "a", "x");
	static const struct shape wide = { .n_layer = 2, .n_ctx = 512,
	    .n_vocab = 200000, .n_head_kv = 40, .n_embd_head = 256,
	    .n_head_k = 8, .n_head_v = 33, .dk = 128, .dv = 128,
	    .conv_kernel = 4 };
	struct qwen_model *big = fake_model(&wide, "a", "x");

	kv->net.hp.recurrent[0] = 0;
	test_cuts(m, "hybrid", 0);
	test_cuts(m, "hybrid, mapped", 1);
	test_cuts(kv, "attention alone", 0);
	test_cuts(kv, "attention alone, mapped", 1);
	test_left(m);
	test_left(kv);
	test_left(big);
	test_parts(m, "hybrid", 0);
	test_parts(m, "hybrid, mapped", 1);
	test_parts(kv, "attention alone", 1);
	test_apart(m);
	test_apart(kv);
	test_wrong_chains(m);
	test_mapped(m);
	test_bits(m, 0, 20);
	test_bits(m, 0, 18);
	test_bits(m, 1, 20);
	test_bits(m, 1, 18);
	test_blocks(m);
	test_blocks(big);
	test_misuse(m);
	fake_model_free(m);
	fake_model_free(kv);
	fake_model_free(big);
	return done_testing();
}
