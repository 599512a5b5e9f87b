/* SPDX-License-Identifier: ISC */
/*
 * state_cost.c - a large state needs no memory beside its own, and only the
 * needed data of a file is read.  Each step has its own process, so that peaks
 * of memory can be measured.
 */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "engine/state/read.h"
#include "state_util.h"
#include "../tap.h"

enum {
	N = 1021,		/* tokens */
	N_AT = 3,
	THREADS = 16,		/* each has buffers */
	ALLOWED = 64 << 10,	/* KiB */
};

/* 67 MB of KV cache, 8.4 MB in each checkpoint. */
static const struct shape shape = { .n_layer = 8, .n_ctx = 2048,
    .n_vocab = 200000, .n_head_kv = 16, .n_embd_head = 256, .n_head_k = 8,
    .n_head_v = 32, .dk = 128, .dv = 128, .conv_kernel = 4 };
static const uint64_t at[N_AT] = { 250, 512, 1000 };

static char path[256];

/* What a step found. */
struct report {
	long		 kib;		/* more at the peak than before */
	uint64_t	 read;		/* bytes, by system calls */
	uint64_t	 state;		/* bytes that are now in memory */
	int		 done, same;
	struct qwen_err	 err;
};

static struct qwen_model *
make_model(void)
{
	struct qwen_model *m = fake_model(&shape, "a", "x");

	qwen_pool_free(m->place.pool);
	if (qwen_pool_new(&m->place.pool, THREADS, NULL) < 0)
		abort();
	return m;
}

static struct qwen_session *
make_session(struct qwen_model *m)
{
	struct qwen_session *s = fake_session(m, N, 7);
	uint64_t x = 99;
	size_t i;

	for (i = 0; i < N_AT; i++) {
		struct qwen_kept k = { .c = { .at = at[i], .logits = 1 } };

		k.recurrent = qwen_map_zero(s->mem.recurrent_bytes);
		k.logits = qwen_alloc(shape.n_vocab, sizeof(float));
		if (k.recurrent == NULL || k.logits == NULL)
			abort();
		fill_floats(k.recurrent, s->mem.recurrent_bytes / 4, &x);
		fill_floats(k.logits, shape.n_vocab, &x);
		qwen_session_add_kept(s, &k, NULL);
	}
	return s;
}

static long
peak(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

/* Bytes that this process has read; 0 where the system does not tell. */
static uint64_t
bytes_read(void)
{
	unsigned long long n = 0;
	FILE *f = fopen("/proc/self/io", "r");

	if (f != NULL) {
		if (fscanf(f, "rchar: %llu", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

/* ------------------------------------------------------------------- steps */

static void
save(struct report *r, int plain, size_t n_max)
{
	struct qwen_state_opts o = { .no_compress = plain };
	struct qwen_session *s = make_session(make_model());
	int fd = open(path, O_WRONLY | O_TRUNC);
	struct qwen_writer *w;
	long before = peak();

	(void)n_max;
	r->done = qwen_writer_open(&w, fd, NULL, &r->err) == 0 &&
	    qwen_state_save(s, NULL, w, &o, NULL, &r->err) == 0 &&
	    qwen_writer_close(w, &r->err) == 0 && close(fd) == 0;
	r->kib = peak() - before;
}

/* What a session cut to n holds, checkpoints not counted. */
static uint64_t
size_of(const struct qwen_session *s)
{
	uint64_t n = s->mem.recurrent_bytes + s->n_tokens * sizeof *s->tokens +
	    shape.n_vocab * sizeof(float);
	size_t i;

	for (i = 0; i < s->mem.n_layer; i++)
		n += s->mem.layer[i].n_block * s->mem.layer[i].kv_block_bytes;
	return n;
}

static void
restore(struct report *r, int plain, size_t n_max)
{
	struct qwen_model *m = make_model();
	struct qwen_session *s, *w;
	struct qwen_state_file *f;
	uint64_t had = bytes_read();
	long before = peak();
	size_t to;

	(void)plain;
	r->done = qwen_state_open(&f, path, &r->err) == 0 &&
	    qwen_state_restore(&s, NULL, m, &f, 1, n_max, 0, &r->err) == 0;
	r->kib = peak() - before;
	r->read = bytes_read() - had;
	if (!r->done)
		return;
	r->state = size_of(s);
	w = make_session(m);
	r->same = qwen_session_rewind(w, n_max, 0, &to, NULL) == 0 &&
	    same_session(s, w);
}

/* Through a pipe: then the checkpoints come too. */
static void
load(struct report *r, int plain, size_t n_max)
{
	struct qwen_model *m = make_model();
	struct qwen_session *s;
	FILE *cat;
	char cmd[sizeof path + 16], fifo[64];
	long before;

	(void)plain;
	(void)n_max;
	snprintf(cmd, sizeof cmd, "exec cat '%s'", path);
	if ((cat = popen(cmd, "r")) == NULL)
		return;
	snprintf(fifo, sizeof fifo, "/dev/fd/%d", fileno(cat));
	before = peak();
	r->done = qwen_state_load_file(&s, NULL, m, fifo, NULL, &r->err) == 0;
	r->kib = peak() - before;
	pclose(cat);
	if (!r->done)
		return;
	r->state = size_of(s) + N_AT * (s->mem.recurrent_bytes +
	    shape.n_vocab * sizeof(float));
	r->same = same_session(s, make_session(m));
}

/* As qstate pack does, without the model. */
static void
copy(struct report *r, int plain, size_t n_max)
{
	struct qwen_state_opts o = { .no_compress = plain };
	int fd = open("/dev/null", O_WRONLY);
	struct qwen_state_file *f;
	struct qwen_writer *w;
	long before = peak();

	(void)n_max;
	r->done = qwen_state_open(&f, path, &r->err) == 0 &&
	    qwen_writer_open(&w, fd, NULL, &r->err) == 0 &&
	    qwen_state_copy(f, w, &o, NULL, &r->err) == 0 &&
	    qwen_writer_close(w, &r->err) == 0;
	r->kib = peak() - before;
}

static void
verify(struct report *r, int plain, size_t n_max)
{
	long before = peak();

	(void)plain;
	(void)n_max;
	r->done = qwen_state_verify(path, 16, &r->err) == 0;
	r->kib = peak() - before;
}

/* The step in a process of its own. */
static struct report
run(void (*step)(struct report *r, int plain, size_t n_max), int plain,
    size_t n_max)
{
	struct report r = { 0 };
	int fd[2], status;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) == -1 || (pid = fork()) == -1)
		abort();
	if (pid == 0) {
		close(fd[0]);
		step(&r, plain, n_max);
		_exit(write(fd[1], &r, sizeof r) != (ssize_t)sizeof r);
	}
	close(fd[1]);
	if (read(fd[0], &r, sizeof r) != (ssize_t)sizeof r)
		strcpy(r.err.msg, "the process died");
	close(fd[0]);
	waitpid(pid, &status, 0);
	return r;
}

/* ------------------------------------------------------------------- tests */

static void
is_cheap(const struct report *r, const char *what, const char *form)
{
	/* a sanitizer's own memory is larger */
	int limited = getenv("QPIPE_SAN") == NULL;

	ok(r->done && (!limited ||
	    r->kib <= (long)(r->state >> 10) + ALLOWED),
	    "%s, %s: %ld KiB and %ld more %s", what, form,
	    (long)(r->state >> 10), r->kib - (long)(r->state >> 10),
	    r->err.msg);
}

/* 0: there is no room for it, which is nobody's fault. */
static int
saved(struct report *r, int plain, const char *form)
{
	*r = run(save, plain, 0);
	if (!r->done && strstr(r->err.msg, "No space") != NULL) {
		skip("save", "no room for 105 MB");
		return 0;
	}
	is_cheap(r, "saved", form);
	return r->done;
}

static void
test_memory(int plain, const char *form)
{
	struct report r;
	struct stat st;

	if (!saved(&r, plain, form))
		return;
	r = run(restore, plain, SIZE_MAX);
	is_cheap(&r, "restored", form);
	ok(r.same, "and is as it was");
	if (r.read == 0 || stat(path, &st) == -1)
		skip("bytes read", "no /proc/self/io");
	else
		ok(r.read < (uint64_t)st.st_size - N_AT * (8 << 20) / 2,
		    "%llu bytes read of %llu", (unsigned long long)r.read,
		    (unsigned long long)st.st_size);
	r = run(load, plain, 0);
	is_cheap(&r, "through a pipe", form);
	ok(r.same, "and is as it was");
	r = run(copy, !plain, 0);
	is_cheap(&r, "copied to the other form", form);
	r = run(verify, plain, 0);
	is_cheap(&r, "verified", form);
}

static int
is_at(const struct qwen_state_block *b, const char *kind, int64_t pos)
{
	return strcmp(b->kind, kind) == 0 && b->at == pos;
}

/* Is the block part of the state after n tokens? */
static int
is_needed(const struct qwen_state_block *b, uint64_t n)
{
	const uint64_t kv = 2 * 16 * 256 * 16 * sizeof(uint16_t);

	if (strcmp(b->kind, "kv") == 0)
		return b->off < (n + 15) / 16 * kv;
	return b->at == -1 || is_at(b, "checkpoint", b->at) ||
	    b->at == (int64_t)n;
}

/* Zeros in place of all blocks that the state after n tokens has no use for. */
static size_t
blot_out(uint64_t n)
{
	static const char zero[1 << 20];
	struct qwen_state_block b;
	struct qwen_state_file *f;
	int fd = open(path, O_WRONLY);
	size_t i, blotted = 0;

	if (fd == -1 || qwen_state_open(&f, path, NULL) < 0)
		abort();
	for (i = 0; i < qwen_state_info(f)->n_blocks; i++) {
		qwen_state_block(f, i, &b);
		if (is_needed(&b, n))
			continue;
		if (pwrite(fd, zero, (size_t)b.bytes, (off_t)b.offset) !=
		    (ssize_t)b.bytes)
			abort();
		blotted++;
	}
	qwen_state_close(f);
	close(fd);
	return blotted;
}

/* Blocks of no use are gone: nobody notices, until they are of use. */
static void
test_unneeded(int plain, const char *form)
{
	const uint64_t to[] = { N, at[1] }, other[] = { at[1], N };
	struct report r;
	size_t i, n;

	for (i = 0; i < 2; i++) {
		if (!saved(&r, plain, form))
			return;
		n = blot_out(to[i]);
		r = run(restore, 0, (size_t)to[i]);
		ok(n > 0 && r.done && r.same, "%s, restored to %llu, without "
		    "%zu blocks that are of no use %s", form,
		    (unsigned long long)to[i], n, r.err.msg);
		r = run(restore, 0, (size_t)other[i]);
		ok(!r.done && strncmp(r.err.msg, "state block", 11) == 0,
		    "to %llu: %s", (unsigned long long)other[i], r.err.msg);
	}
}

int
main(void)
{
	const char *dir = getenv("TMPDIR");
	int fd;

	snprintf(path, sizeof path, "%s/state-cost-XXXXXX",
	    dir != NULL ? dir : "/tmp");
	if ((fd = mkstemp(path)) == -1)
		abort();
	close(fd);
	test_memory(0, "compressed");
	test_memory(1, "mapped");
	test_unneeded(0, "compressed");
	test_unneeded(1, "mapped");
	unlink(path);
	return done_testing();
}
