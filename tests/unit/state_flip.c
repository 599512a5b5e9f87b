/* SPDX-License-Identifier: ISC */
/*
 * state_flip.c - small states of all kinds of blocks, each with one byte
 * changed (one bit of it; with QPIPE_LONG each bit): a full check refuses all
 * of them, and loading parts never restores anything wrong.
 *
 * state_bad.c does the same for states read from the beginning, state_file.c
 * for states opened by their index, store_faults.c for the files of a store.
 */
#include "state_util.h"
#include "../tap.h"

enum { N = 40, CUT = 20 };

static struct qwen_err err;

/* With a checkpoint that was asked for, and one that was not. */
static struct qwen_session *
session_with(struct qwen_model *m)
{
	static const uint64_t at[] = { 7, CUT, 33 };
	struct qwen_session *s = fake_session(m, N, 7);
	uint64_t x = 99;
	size_t i;

	for (i = 0; i < 3; i++) {
		struct qwen_kept k = { .c = { .at = at[i],
		    .named = i % 2 != 0, .logits = 1 } };

		k.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
		fill_floats(k.recurrent, s->mem.recurrent_bytes / 4, &x);
		k.logits = qwen_alloc(m->net.hp.n_vocab, sizeof(float));
		fill_floats(k.logits, m->net.hp.n_vocab, &x);
		if (qwen_session_add_kept(s, &k, &err) < 0)
			abort();
	}
	return s;
}

static void
save(struct bytes *b, const struct qwen_session *s,
    const struct qwen_state_extra *x, const struct qwen_state_opts *o)
{
	struct qwen_writer *w;
	int fd = fd_of("", 0);

	b->n = 0;
	if (qwen_writer_open(&w, fd, NULL, &err) < 0 ||
	    qwen_state_save(s, x, w, o, NULL, &err) < 0 ||
	    qwen_writer_close(w, &err) < 0) {
		printf("# %s\n", err.msg);
		abort();
	}
	bytes_of_fd(b, fd);
	close(fd);
}

static int
is_good(const struct bytes *b)
{
	char path[64];
	int fd = fd_of(b->p, b->n), r;

	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	r = qwen_state_verify(path, 2, &err);
	close(fd);
	return r == 0;
}

static struct qwen_state_file *
open_bytes(const struct bytes *b)
{
	struct qwen_state_file *f;
	char path[64];
	int fd = fd_of(b->p, b->n);

	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	if (qwen_state_open(&f, path, &err) < 0)
		f = NULL;
	close(fd);
	return f;
}

/* From one bit to the next. */
static size_t
step(void)
{
	return getenv("QPIPE_LONG") != NULL ? 1 : 9;
}

/* qwen_state_verify, which qstate verify is. */
static void
check_verify(const struct qwen_session *s, const struct qwen_state_extra *x,
    const struct qwen_state_opts *o, const char *what)
{
	struct bytes b = { 0 };
	size_t i, n = 0, good = 0, nameless = 0;

	save(&b, s, x, o);
	ok(is_good(&b), "%s: %zu bytes, good", what, b.n);
	for (i = 0; i < 8 * b.n; i += step(), n++) {
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
		if (is_good(&b)) {
			printf("# bit %zu\n", i);
			good++;
		} else
			nameless += err.msg[0] == '\0';
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	ok(good == 0 && nameless == 0, "%s: %zu bits flipped, %zu found good",
	    what, n, good);
	for (good = 0; b.n-- > 0; )
		good += is_good(&b);
	ok(good == 0, "%s: cut anywhere", what);
	bytes_free(&b);
}

/* What a chain gives is right, if it gives anything. */
static void
check_chain(struct qwen_model *m, const struct qwen_session *s,
    int no_compress)
{
	struct qwen_state_opts o[2] = {
		{ .no_compress = no_compress, .to = CUT },
		{ .no_compress = no_compress, .from = CUT } };
	struct bytes b[2] = { { 0 }, { 0 } };
	struct qwen_state_file *f[2];
	struct qwen_session *t;
	size_t i, k, refused = 0, wrong = 0, n = 0;

	save(&b[0], s, NULL, &o[0]);
	save(&b[1], s, NULL, &o[1]);
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 8 * b[k].n; i += step(), n++) {
			b[k].p[i / 8] ^= (unsigned char)(1 << i % 8);
			f[0] = open_bytes(&b[0]);
			f[1] = open_bytes(&b[1]);
			if (f[0] == NULL || f[1] == NULL ||
			    qwen_state_restore(&t, NULL, m, f, 2, SIZE_MAX, 1,
			    &err) < 0)
				refused++;
			else {
				wrong += !same_session(s, t);
				qwen_session_free(t);
			}
			qwen_state_close(f[0]);
			qwen_state_close(f[1]);
			b[k].p[i / 8] ^= (unsigned char)(1 << i % 8);
		}
	}
	ok(wrong == 0 && refused > 0 && refused < n, "a chain of two parts%s: "
	    "%zu bits, %zu refused, the others in what was not used, %zu wrong",
	    no_compress ? ", mapped" : "", n, refused, wrong);
	bytes_free(&b[0]);
	bytes_free(&b[1]);
}

int
main(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = session_with(m);
	char options[] = "n=9";
	struct qwen_run run = { .options = options, .from = 36, .count = 4,
	    .has_base = 1 };
	struct qwen_state_extra x = { 0 };
	struct qwen_state_opts plain = { .no_compress = 1 },
	    head = { .to = CUT }, tail = { .from = CUT };

	qwen_state_extra_generated(&x, 3, 4, &err);
	qwen_state_extra_generated(&x, 36, 4, &err);
	x.n_pending = 1;
	x.sampler = strdup("temp=1");
	qwen_state_extra_run(&x, &run, &err);
	check_verify(s, &x, NULL, "a state");
	check_verify(s, &x, &plain, "a mapped one");
	check_verify(s, NULL, &head, "a first part");
	check_verify(s, NULL, &tail, "a last part");
	check_chain(m, s, 0);
	check_chain(m, s, 1);
	qwen_state_extra_fini(&x);
	qwen_session_free(s);
	fake_model_free(m);
	return done_testing();
}
