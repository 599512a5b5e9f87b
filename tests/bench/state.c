/* SPDX-License-Identifier: ISC */
/*
 * state.c - cost of a state: bytes of each kind of block, time to save it and
 * to continue from it, memory.  tests/bench/state.sh runs this program.
 *	state THREADS TOKENS FILE QDECODE MODEL <ids
 * FILE is overwritten repeatedly.  If there are too few ids, others are made
 * up.
 */
#include <sys/stat.h>
#include <sys/wait.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"

enum { ROUNDS = 9, KINDS = 6 };

static const char *const kinds[KINDS] = { "tokens", "kv", "delta", "conv",
    "logits", "index" };

static struct qwen_err err;
static const char *file, *model_path, *qdecode, *threads;

/* Medians of one form of the file, in ms. */
struct times {
	double	save, copy, step, restored, next, command;
	long	save_kib, restore_kib;		/* peaks; -1: not known */
	double	used;				/* bytes that restoring reads */
};

static void
check(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "state: %s: %s\n", what, err.msg);
	exit(1);
}

static double
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int
compare_doubles(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static double
median(double *v)
{
	qsort(v, ROUNDS, sizeof *v, compare_doubles);
	return v[ROUNDS / 2];
}

/* A line of /proc/self/status, in KiB. */
static long
memory(const char *line)
{
	FILE *f = fopen("/proc/self/status", "r");
	char buf[128];
	long kib = -1;

	while (f != NULL && kib < 0 && fgets(buf, sizeof buf, f) != NULL) {
		if (strncmp(buf, line, strlen(line)) == 0)
			kib = strtol(buf + strlen(line), NULL, 10);
	}
	if (f != NULL)
		fclose(f);
	return kib;
}

/* The peak is what is there now; the latter, or -1. */
static long
reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY), failed;

	if (fd == -1)
		return -1;
	failed = write(fd, "5", 1) != 1;
	close(fd);
	return failed ? -1 : memory("VmRSS:");
}

static long
peak_since(long before)
{
	return before < 0 ? -1 : memory("VmHWM:") - before;
}

/* --------------------------------------------------------------- the parts */

/* Gone, on the disk too, or the next fsync has that to do as well. */
static void
clear_away(const char *path)
{
	char dir[4096];
	char *slash;
	int fd;

	unlink(path);
	snprintf(dir, sizeof dir, "%s", path);
	if ((slash = strrchr(dir, '/')) == NULL)
		strcpy(dir, ".");
	else
		slash[slash == dir] = '\0';
	if ((fd = open(dir, O_RDONLY)) == -1)
		return;
	fsync(fd);
	close(fd);
}

static int
create(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);

	if (fd == -1) {
		perror(path);
		exit(1);
	}
	return fd;
}

static double
time_save(const struct qwen_session *s, const struct qwen_state_opts *o)
{
	struct qwen_writer *w;
	double start;
	int fd;

	clear_away(file);
	start = now();
	fd = create(file);
	check(qwen_writer_open(&w, fd, NULL, &err) < 0 ||
	    qwen_state_save(s, NULL, w, o, NULL, &err) < 0 ||
	    qwen_writer_close(w, &err) < 0, file);
	check(fsync(fd) == -1 || close(fd) == -1, "fsync");
	return now() - start;
}

/* The same bytes as they are, into a file beside it. */
static double
time_copy(void)
{
	char path[4096];
	struct stat st;
	size_t n, done;
	ssize_t got;
	double start;
	char *p;
	int fd;

	snprintf(path, sizeof path, "%s.copy", file);
	fd = open(file, O_RDONLY);
	check(fd == -1 || fstat(fd, &st) == -1, "open");
	n = (size_t)st.st_size;
	check((p = malloc(n)) == NULL, "out of memory");
	for (done = 0; done < n; done += (size_t)got)
		check((got = read(fd, p + done, n - done)) <= 0, "read");
	close(fd);
	clear_away(path);
	start = now();
	fd = create(path);
	for (done = 0; done < n; done += (size_t)got)
		check((got = write(fd, p + done, n - done)) <= 0, "write");
	check(fsync(fd) == -1 || close(fd) == -1, "fsync");
	start = now() - start;
	clear_away(path);
	free(p);
	return start;
}

static struct qwen_session *
restore(struct qwen_model *m)
{
	struct qwen_state_file *f;
	struct qwen_session *s = NULL;

	check(qwen_state_open(&f, file, &err) < 0 || qwen_state_restore(&s,
	    NULL, m, &f, 1, SIZE_MAX, 0, &err) < 0, file);
	qwen_state_close(f);
	return s;
}

static double
time_step(struct qwen_session *s)
{
	double start = now();
	int32_t id = 1;

	check(qwen_session_eval(s, &id, 1, NULL, &err) < 0, "eval");
	return now() - start;
}

/* From the closed file to the logits after one more token. */
static void
time_next(struct qwen_model *m, double *restored, double *next)
{
	double start = now();
	struct qwen_session *s = restore(m);

	*restored = now() - start;
	time_step(s);
	*next = now() - start;
	qwen_session_free(s);
}

/* The whole command, from its start to its end. */
static double
time_command(void)
{
	double start = now();
	int status, fd;
	pid_t pid = fork();

	if (pid == 0) {
		if ((fd = open("/dev/null", O_RDWR)) == -1)
			_exit(127);
		dup2(fd, 0);
		dup2(fd, 1);
		execl(qdecode, "qdecode", "-m", model_path, "-t", threads,
		    "-s", file, "-n", "1", "--ignore-eos", (char *)NULL);
		_exit(127);
	}
	check(pid == -1 || waitpid(pid, &status, 0) == -1 || status != 0,
	    qdecode);
	return now() - start;
}

/* ---------------------------------------------------------------- together */

static void
measure(struct times *t, struct qwen_session *s,
    const struct qwen_state_opts *o)
{
	double save[ROUNDS], copy[ROUNDS], step[ROUNDS], restored[ROUNDS];
	double next[ROUNDS], command[ROUNDS];
	struct qwen_model *m = qwen_session_model(s);
	struct qwen_session *going;
	long before = reset_peak();
	size_t i;

	time_save(s, o);
	t->save_kib = peak_since(before);
	before = reset_peak();
	qwen_session_free(restore(m));
	t->restore_kib = peak_since(before);
	for (i = 0; i < ROUNDS; i++) {
		save[i] = time_save(s, o);
		copy[i] = time_copy();
	}
	going = restore(m);
	time_step(going);
	time_command();
	for (i = 0; i < ROUNDS; i++) {
		time_next(m, &restored[i], &next[i]);
		step[i] = time_step(going);
		command[i] = time_command();
	}
	qwen_session_free(going);
	t->save = median(save);
	t->copy = median(copy);
	t->step = median(step);
	t->restored = median(restored);
	t->next = median(next);
	t->command = median(command);
}

/* Kinds of blocks: bytes in the file, and those that they stand for. */
static void
tell_kinds(struct times *t)
{
	const struct qwen_state_info *info;
	struct qwen_state_block b;
	struct qwen_state_file *f;
	uint64_t stored, raw;
	size_t i, k;

	check(qwen_state_open(&f, file, &err) < 0, file);
	info = qwen_state_info(f);
	t->used = (double)info->stored;
	for (k = 0; k < KINDS; k++) {
		for (stored = raw = i = 0; i < info->n_blocks; i++) {
			qwen_state_block(f, i, &b);
			if (strcmp(b.kind, kinds[k]) != 0)
				continue;
			stored += b.bytes;
			raw += b.len;
			if (b.at >= 0 && (uint64_t)b.at < info->n_tokens)
				t->used -= (double)b.bytes;
		}
		if (raw > 0)
			printf("  %-8s %10llu of %10llu bytes, %5.1f %%\n",
			    kinds[k], (unsigned long long)stored,
			    (unsigned long long)raw,
			    100 * (double)stored / (double)raw);
	}
	printf("  %-8s %10llu of %10llu bytes, %5.1f %%, %zu checkpoints\n",
	    "all", (unsigned long long)info->stored,
	    (unsigned long long)info->raw,
	    100 * (double)info->stored / (double)info->raw,
	    info->n_checkpoints);
	qwen_state_close(f);
}

static void
tell(const struct times *t, int mapped)
{
	double allowed = 1.5 * t->step + (mapped ? 20 : t->used * 1e-6);

	printf("  saved and synced in %.1f ms, plainly written in %.1f: %.2f "
	    "times\n", t->save, t->copy, t->save / t->copy);
	printf("  restored in %.1f ms; next token after %.1f, a decode step "
	    "%.1f; allowed %.1f\n", t->restored, t->next, t->step, allowed);
	printf("  qdecode -s FILE -n 1, from start to end: %.0f ms\n",
	    t->command);
	if (t->save_kib >= 0 && t->restore_kib >= 0)
		printf("  memory: %ld KiB to save, %ld to restore, the state "
		    "included\n", t->save_kib, t->restore_kib);
}

static struct qwen_session *
prefill(struct qwen_model *m, size_t n)
{
	struct qwen_checkpoints keep = { 0 };
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST, .keep = &keep };
	int32_t *ids = malloc(n * sizeof *ids);
	struct qwen_session *s;
	uint32_t x = 1;
	double start;
	size_t i;
	int id;

	keep.every = qwen_model_checkpoint_every(m);
	check(ids == NULL, "out of memory");
	for (i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		ids[i] = scanf("%d", &id) == 1 ? (int32_t)id :
		    (int32_t)((x >> 8) % qwen_model_n_vocab(m));
	}
	start = now();
	check(qwen_session_new(&s, m, &err) < 0 ||
	    qwen_session_eval(s, ids, n, &how, &err) < 0, "prefill");
	printf("%s, %zu tokens, %s threads: read for the first time in "
	    "%.0f ms\n", model_path, n, threads, now() - start);
	free(ids);
	return s;
}

int
main(int argc, char *argv[])
{
	static const struct qwen_state_opts forms[] = {
		{ 0 }, { .no_compress = 1 },
	};
	struct qwen_model_opts mo = { 0 };
	struct qwen_session *s;
	struct qwen_model *m;
	struct times t;
	size_t i, n;

	if (argc != 6) {
		fputs("usage: state threads tokens file qdecode model\n",
		    stderr);
		return 2;
	}
	threads = argv[1];
	file = argv[3];
	qdecode = argv[4];
	model_path = argv[5];
	mo.n_threads = atoi(threads);
	check(qwen_model_open(&m, model_path, &mo, &err) < 0, model_path);
	n = strtoul(argv[2], NULL, 10);
	if (n + ROUNDS + 1 > qwen_model_n_ctx(m))
		n = qwen_model_n_ctx(m) - ROUNDS - 1;
	s = prefill(m, n);
	for (i = 0; i < 2; i++) {
		printf("%s:\n", i == 0 ? "compressed" : "without compression");
		measure(&t, s, &forms[i]);
		tell_kinds(&t);
		tell(&t, i == 1);
	}
	qwen_session_free(s);
	qwen_model_close(m);
	unlink(file);
	return 0;
}
