/* SPDX-License-Identifier: ISC */
/*
 * state_bad.c - damaged, truncated and forged states: all refused fast, with a
 * message, and without a leak.
 *
 * state_bad -w MODEL writes the forged states for a model into the current
 * folder, NAME.state, for the tests of the tools.
 */
#include <sys/resource.h>
#include <time.h>

#include "state_forge.h"
#include "../tap.h"

static struct qwen_err err;

/* Processor time: what else the machine does is not counted. */
static double
now(void)
{
	return (double)clock() / CLOCKS_PER_SEC;
}

/* 1 if the bytes are refused as they should be. */
static int
refused(struct qwen_model *m, const void *p, size_t n)
{
	struct qwen_session *t = NULL;
	struct qwen_state_extra x;
	int r;

	memset(&err, 0, sizeof err);
	r = load_bytes(&t, &x, m, p, n, NULL, &err);
	if (r == 0) {
		qwen_session_free(t);
		qwen_state_extra_fini(&x);
		return 0;
	}
	return t == NULL && x.sampler == NULL && x.generated == NULL &&
	    err.code != 0 && err.msg[0] != '\0' &&
	    strchr(err.msg, '\n') == NULL;
}

/* The same from a pipe, which has no index to go by. */
static int
refused_piped(struct qwen_model *m, const void *p, size_t n)
{
	struct qwen_session *t = NULL;
	struct qwen_state_extra x;
	char path[64];
	int fd[2], r;

	memset(&err, 0, sizeof err);
	if (n > 60000 || pipe(fd) < 0 || write(fd[1], p, n) != (ssize_t)n)
		abort();
	close(fd[1]);
	snprintf(path, sizeof path, "/dev/fd/%d", fd[0]);
	r = qwen_state_load_file(&t, &x, m, path, NULL, &err);
	close(fd[0]);
	qwen_session_free(t);
	return r < 0 && err.code != 0 && err.msg[0] != '\0';
}

/* Only what is used is read: refused when it is cut to the checkpoint. */
static int
refused_late(struct qwen_model *m, const void *p, size_t n)
{
	struct qwen_session *t = NULL;
	size_t at;
	int r;

	r = load_bytes(&t, NULL, m, p, n, NULL, &err) == 0 &&
	    qwen_session_rewind(t, 3, 1, &at, &err) < 0;
	qwen_session_free(t);
	return r;
}

/* The message names the place: a block, a record, or what precedes them. */
static int
names_place(void)
{
	return strstr(err.msg, "block ") != NULL ||
	    strstr(err.msg, "record ") != NULL ||
	    strstr(err.msg, "header") != NULL ||
	    strstr(err.msg, "another model") != NULL ||
	    strstr(err.msg, "a stream of") != NULL ||
	    strstr(err.msg, ", not a state") != NULL ||
	    strstr(err.msg, ", not state") != NULL;
}

static void
test_bits(int no_compress)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 17, 1), *t = NULL;
	struct qwen_state_extra x = { 0 };
	struct bytes b = { 0 };
	size_t i, accepted = 0, nameless = 0;
	double start = now();
	char options[] = "n=9";
	struct qwen_run run = { .options = options, .from = 13, .count = 4,
	    .has_base = 1 };

	qwen_state_extra_generated(&x, 3, 4, &err);
	x.n_pending = 1;
	qwen_state_extra_run(&x, &run, &err);
	save_bytes(&b, s, &x, no_compress, NULL);
	for (i = 0; i < 8 * b.n; i++) {
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
		if (!refused(m, b.p, b.n)) {
			printf("# bit %zu\n", i);
			accepted++;
		} else if (!names_place()) {
			printf("# bit %zu: %s\n", i, err.msg);
			nameless++;
		}
		b.p[i / 8] ^= (unsigned char)(1 << i % 8);
	}
	ok(accepted == 0, "%zu bits flipped in turn, %zu accepted", i,
	    accepted);
	ok(nameless == 0, "every message names the place");
	ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0,
	    "and the state itself is good (%.1f s)", now() - start);
	qwen_state_extra_fini(&x);
	qwen_session_free(s);
	qwen_session_free(t);
	bytes_free(&b);
	fake_model_free(m);
}

static void
test_cuts(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_session *s = fake_session(m, 17, 1);
	struct bytes b = { 0 };
	size_t i, j, accepted = 0;

	save_bytes(&b, s, NULL, 0, NULL);
	for (i = 0; i < b.n; i++)
		accepted += !refused(m, b.p, i);
	ok(accepted == 0, "cut at each of %zu places", i);
	for (i = 0; i < 256; i++) {
		b.p[b.n] = (unsigned char)i;	/* there is room for one */
		accepted += !refused(m, b.p, b.n + 1);
	}
	ok(accepted == 0, "each byte after the end");
	b.p[b.n] = 0;
	bytes_add(&b, b.p, b.n);
	ok(refused(m, b.p, b.n), "two states in a file: %s", err.msg);
	b.n /= 2;
	for (i = accepted = 0; i < b.n; i++) {
		unsigned char c = b.p[i];

		memmove(b.p + i, b.p + i + 1, b.n - i);
		accepted += !refused(m, b.p, b.n - 1);
		memmove(b.p + i + 1, b.p + i, b.n - i);
		b.p[i] = c;
	}
	ok(accepted == 0, "each byte lost");
	for (i = accepted = 0; i + 1 < b.n; i++) {
		for (j = i + 1; j < b.n && b.p[j] == b.p[i]; j++)
			;
		if (j == b.n)
			break;
		unsigned char c = b.p[i];

		b.p[i] = b.p[j];
		b.p[j] = c;
		accepted += !refused(m, b.p, b.n);
		b.p[j] = b.p[i];
		b.p[i] = c;
	}
	ok(accepted == 0, "each pair of neighbours exchanged");
	qwen_session_free(s);
	bytes_free(&b);
	fake_model_free(m);
}

static void
test_forged(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, 0, 1), *t = NULL;
	struct plan *p = malloc(sizeof *p);
	struct bytes b = { 0 };
	double start, slowest = 0;
	size_t i;

	for (i = 0; i < 2; i++) {
		b.n = 0;
		good_plan(p, s);
		add_checkpoint(p, 3);
		add_mark(p, TOKENS);
		p->index = (int)i;
		write_plan(&b, p);
		ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0 &&
		    t->n_tokens == TOKENS && !refused_piped(m, b.p, b.n),
		    "what nothing is wrong with is accepted %s", err.msg);
		qwen_session_free(t);
	}
	for (i = 0; i < 2 * N_FORGED; i++) {
		b.n = 0;
		good_plan(p, s);
		forged[i / 2].edit(p);
		/* index cases have one of their own; others with and without */
		if (i % 2 != 0 && p->index)
			continue;
		p->index |= i % 2;
		write_plan(&b, p);
		start = now();
		ok(forged[i / 2].edit == checkpoint_nan ?
		    refused_late(m, b.p, b.n) : refused(m, b.p, b.n),
		    "%s%s: %s", forged[i / 2].name,
		    i % 2 ? ", with an index" : "", err.msg);
		ok(refused_piped(m, b.p, b.n), "piped: %s", err.msg);
		slowest = now() - start > slowest ? now() - start : slowest;
	}
	ok(slowest < 10, "the slowest took %.3f s", slowest);
	free(p);
	qwen_session_free(s);
	bytes_free(&b);
}

/* What a later version may add, and this one can do without. */
static void
test_room(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, 0, 1), *t = NULL;
	struct plan *p = malloc(sizeof *p);
	struct item *it;
	struct bytes b = { 0 };

	good_plan(p, s);
	it = add_item(p, "thing", -1, -1, 0, 100);
	it->skip = 1;
	it->more = "whatever";
	write_plan(&b, p);
	ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0,
	    "a block that says it can be skipped");
	qwen_session_free(t);
	good_plan(p, s);
	add_mtp(p);
	b.n = 0;
	write_plan(&b, p);
	ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0 &&
	    !refused_piped(m, b.p, b.n), "the part of a block that the model "
	    "does not have");
	qwen_session_free(t);
	good_plan(p, s);
	add_checkpoint(p, 3);
	add_checkpoint(p, TOKENS - 1);
	b.n = 0;
	write_plan(&b, p);
	ok(load_bytes(&t, NULL, m, b.p, b.n, NULL, &err) == 0 &&
	    qwen_session_n_checkpoints(t) == 2, "checkpoints at earlier tokens");
	qwen_session_free(t);
	free(p);
	qwen_session_free(s);
	bytes_free(&b);
}

static void
test_other_side(void)
{
	struct qwen_model *m = fake_model(&small_shape, "a", "x");
	struct qwen_model *b = fake_model(&small_shape, "b", "x");
	struct qwen_model *c = fake_model(&small_shape, "a", "y");
	struct qwen_session *s = fake_session(m, 17, 1);
	struct bytes v = { 0 };

	save_bytes(&v, s, NULL, 0, NULL);
	ok(refused(b, v.p, v.n) && err.code == QWEN_EMISMATCH, "%s", err.msg);
	ok(refused(c, v.p, v.n) && err.code == QWEN_EMISMATCH, "%s", err.msg);
	qwen_session_free(s);
	bytes_free(&v);
	fake_model_free(m);
	fake_model_free(b);
	fake_model_free(c);
}

/* A context of millions of tokens is no reason to take memory for it. */
static void
test_memory(void)
{
	static const struct shape wide = { .n_layer = 8, .n_ctx = 1 << 24,
	    .n_vocab = 9, .n_head_kv = 8, .n_embd_head = 128, .n_head_k = 1,
	    .n_head_v = 1, .dk = 2, .dv = 2, .conv_kernel = 2 };
	struct qwen_model *m = fake_model(&wide, "a", "x");
	struct qwen_session *s = fake_session(m, 0, 1);
	struct plan *p = malloc(sizeof *p);
	struct bytes b = { 0 };
	struct rusage before, after;

	good_plan(p, s);
	p->n_tokens = 1 << 24;
	write_plan(&b, p);
	getrusage(RUSAGE_SELF, &before);
	ok(refused(m, b.p, b.n), "2^24 tokens announced: %s", err.msg);
	getrusage(RUSAGE_SELF, &after);
	ok(after.ru_maxrss - before.ru_maxrss < 32 << 10,
	    "takes %ld KiB", after.ru_maxrss - before.ru_maxrss);
	free(p);
	qwen_session_free(s);
	bytes_free(&b);
	fake_model_free(m);
}

/* qwen_state_verify, or opening, which knows no model. */
static int
refused_alone(const struct bytes *b, int open, int piped)
{
	struct qwen_state_file *f = NULL;
	char path[64] = "/tmp/state-bad-XXXXXX";
	int fd = mkstemp(path), r;

	if (fd < 0 || write(fd, b->p, b->n) != (ssize_t)b->n || close(fd) < 0)
		abort();
	memset(&err, 0, sizeof err);
	if (open)
		r = qwen_state_open(&f, path, &err);
	else if (!piped)
		r = qwen_state_verify(path, 2, &err);
	else {
		char cat[128];
		FILE *p;

		snprintf(cat, sizeof cat, "cat %s", path);
		if ((p = popen(cat, "r")) == NULL)
			abort();
		snprintf(cat, sizeof cat, "/dev/fd/%d", fileno(p));
		r = qwen_state_verify(cat, 2, &err);
		pclose(p);
	}
	qwen_state_close(f);
	unlink(path);
	return r < 0;
}

/* Sizes that a state claims without a model to say otherwise. */
static void
test_alone(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, 0, 1);
	struct plan *p = malloc(sizeof *p);
	struct bytes b = { 0 };
	size_t i, n_nan = 0;
	struct item it;

	for (i = 0; i < N_FORGED; i++) {
		if (strstr(forged[i].name, "_nan") == NULL &&
		    strstr(forged[i].name, "_infinite") == NULL)
			continue;
		b.n = 0;
		good_plan(p, s);
		p->index = 1;
		forged[i].edit(p);
		write_plan(&b, p);
		n_nan += refused_alone(&b, 0, 0) && refused_alone(&b, 0, 1) &&
		    strstr(err.msg, "NaN or infinite") != NULL;
	}
	ok(n_nan == 6, "verify: all that is not finite: %s", err.msg);
	/* all of it but the KV cache, which would be of 2^64 bytes */
	good_plan(p, s);
	shape_wraps(p);
	for (i = 0; i < p->n; i++) {
		if (p->item[i].at == TOKENS)
			p->item[i].at = (int64_t)p->n_tokens;
	}
	it = p->item[p->tokens];
	drop(p, p->tokens);
	for (i = 0; i < 8; i++) {
		it.off = i * QWEN_PIECE_MAX;
		it.len = it.n_data = QWEN_PIECE_MAX;
		memmove(p->item + p->tokens + i + 1, p->item + p->tokens + i,
		    (p->n - p->tokens - i) * sizeof it);
		p->item[p->tokens + i] = it;
		p->n++;
	}
	for (i = 0; i < 2; i++) {
		p->index = (int)i;
		b.n = 0;
		write_plan(&b, p);
		ok(refused_alone(&b, 0, 0) && refused_alone(&b, 0, 1) &&
		    refused_alone(&b, 1, 0), "a KV cache of 2^64 bytes: %s",
		    err.msg);
	}
	free(p);
	qwen_session_free(s);
	bytes_free(&b);
}

/* A run of one token is nothing in a file, and all the memory that there is. */
static void
test_tokens(struct qwen_model *m)
{
	enum { PIECES = 256 };		/* 2^25 tokens, of 2^27 bytes */
	struct qwen_session *s = fake_session(m, 0, 1);
	struct plan *p = malloc(sizeof *p);
	struct rusage before, after;
	struct bytes b = { 0 };
	struct item it;
	size_t i;

	good_plan(p, s);
	pack(p, p->tokens, "zstd", QWEN_PIECE_MAX, 0);
	it = p->item[p->tokens];
	it.len = QWEN_PIECE_MAX;
	p->n = 1;
	p->n_tokens = (uint64_t)PIECES * QWEN_PIECE_MAX / 4;
	for (i = 0; i < PIECES; i++) {
		it.off = i * QWEN_PIECE_MAX;
		p->item[p->n++] = it;
	}
	for (i = 0; i < 2; i++) {
		p->index = (int)i;
		b.n = 0;
		write_plan(&b, p);
		getrusage(RUSAGE_SELF, &before);
		ok(refused_alone(&b, 1, 0) && strstr(err.msg,
		    "tokens cannot be in a file") != NULL && refused_alone(&b, 0, 1) &&
		    refused_alone(&b, 0, 0) && strstr(err.msg,
		    "tokens cannot be in a file") != NULL, "2^25 tokens in %zu bytes: %s",
		    b.n, err.msg);
		getrusage(RUSAGE_SELF, &after);
		ok(after.ru_maxrss - before.ru_maxrss < 32 << 10,
		    "takes %ld KiB", after.ru_maxrss - before.ru_maxrss);
	}
	free(p);
	qwen_session_free(s);
	bytes_free(&b);
}

static void
write_file(const char *name, const struct bytes *b)
{
	char path[80];
	FILE *f;

	snprintf(path, sizeof path, "%s.state", name);
	if ((f = fopen(path, "wb")) == NULL ||
	    fwrite(b->p, 1, b->n, f) != b->n || fclose(f) == EOF)
		abort();
}

static int
write_all(const char *path)
{
	struct plan *p = malloc(sizeof *p);
	struct qwen_model *m;
	struct qwen_session *s;
	struct bytes b = { 0 };
	size_t i;

	if (qwen_model_open(&m, path, NULL, &err) < 0) {
		fprintf(stderr, "state_bad: %s\n", err.msg);
		return 1;
	}
	s = fake_session(m, 0, 1);
	good_plan(p, s);
	p->index = 1;
	write_plan(&b, p);
	write_file("good", &b);
	for (i = 0; i < N_FORGED; i++) {
		if (forged[i].edit == checkpoint_nan)
			continue;
		b.n = 0;
		good_plan(p, s);
		p->index = 1;
		forged[i].edit(p);
		write_plan(&b, p);
		write_file(forged[i].name, &b);
	}
	free(p);
	bytes_free(&b);
	qwen_session_free(s);
	qwen_model_close(m);
	return 0;
}

int
main(int argc, char *argv[])
{
	struct qwen_model *m;

	if (argc == 3 && strcmp(argv[1], "-w") == 0)
		return write_all(argv[2]);
	m = fake_model(&small_shape, "a", "x");
	test_bits(0);
	test_bits(1);
	test_cuts();
	test_forged(m);
	test_room(m);
	test_other_side();
	test_memory();
	test_alone(m);
	test_tokens(m);
	fake_model_free(m);
	return done_testing();
}
