/* SPDX-License-Identifier: ISC */
/*
 * qbench.c - how fast a model runs here, and how near to what the machine can
 * do.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "qwen.h"

static const char usage[] =
    "qbench [-qv] [-m model] [-p tokens] [-n count] [-t threads] [-r rounds]\n"
    "              [--depth tokens] [--sequences n] [--scattered] [--batch n]\n"
    "              [--tokens file]\n"
    "              [--synthetic shape] [--layers number] [--experts number]\n"
    "              [--vocab-size number] [--numerics version]\n"
    "              [--json | --csv]\n"
    "       qbench --machine [-qv] [-t threads] [--json | --csv]\n"
    "       qbench --sampling [-q] [-r rounds] [--vocab-size number]\n"
    "              [--json | --csv]\n"
    "       qbench --since time [-qv] [-m model] [-t threads]\n";

enum {
	O_DEPTH = 256, O_BATCH, O_TOKENS, O_SYNTHETIC, O_LAYERS, O_EXPERTS,
	O_VOCAB_SIZE, O_JSON, O_CSV, O_MACHINE, O_SAMPLING, O_NUMERICS,
	O_SCATTERED, O_SEQUENCES, O_SINCE
};

static const struct cli_option options[] = {
	{ 'm', "model", 1 },
	{ 'n', "count", 1 },
	{ 'p', "prompt", 1 },
	{ 'r', "rounds", 1 },
	{ 't', "threads", 1 },
	{ O_BATCH, "batch", 1 },
	{ O_CSV, "csv", 0 },
	{ O_DEPTH, "depth", 1 },
	{ O_EXPERTS, "experts", 1 },
	{ O_JSON, "json", 0 },
	{ O_LAYERS, "layers", 1 },
	{ O_MACHINE, "machine", 0 },
	{ O_NUMERICS, "numerics", 1 },
	{ O_SAMPLING, "sampling", 0 },
	{ O_SCATTERED, "scattered", 0 },
	{ O_SEQUENCES, "sequences", 1 },
	{ O_SINCE, "since", 1 },
	{ O_SYNTHETIC, "synthetic", 1 },
	{ O_TOKENS, "tokens", 1 },
	{ O_VOCAB_SIZE, "vocab-size", 1 },
	{ 0, NULL, 0 },
};

enum {
	MAX_LIST = 64, MAX_ROUNDS = 1000, MAX_STATS = 256,
	MAX_TOKENS = 1 << 24, WARM_TOKENS = 16, MAX_SEQUENCES = 4096
};

/* Settings to go through. */
struct list {
	size_t	n, v[MAX_LIST];
};

static struct {
	const char	*model, *tokens, *synthetic;
	struct qwen_synth_opts synth;
	struct list	 prompt, threads, depth, batch, sequences;
	size_t		 n;
	size_t		 rounds;
	unsigned	 numerics;	/* 0: the usual version */
	int		 json, csv, machine, sampling, scattered;
	int		 has_since;
	uint64_t	 since;		/* ns */
} opt = {
	.synth = { .seed = 1, .no_mtp = 1 },
	.prompt = { 1, { 512 } }, .threads = { 1, { 0 } },
	.depth = { 1, { 0 } }, .batch = { 1, { 0 } },
	.sequences = { 1, { 1 } },
	.n = 64, .rounds = 5,
};

/* ------------------------------------------------------------------ options */

static void
parse_list(struct list *l, const char *what, const char *s, int64_t min,
    int64_t max)
{
	char one[32];
	size_t n;

	for (l->n = 0;; s += n + 1) {
		n = strcspn(s, ",");
		if (l->n == MAX_LIST)
			cli_usage("%s: more than %d values", what, MAX_LIST);
		if (n >= sizeof one)
			cli_usage("%s: '%s' is not a number", what, s);
		memcpy(one, s, n);
		one[n] = '\0';
		l->v[l->n++] = (size_t)cli_int(what, one, min, max);
		if (s[n] == '\0')
			return;
	}
}

static void
parse_synthetic(int c, const char *arg)
{
	switch (c) {
	case O_SYNTHETIC:
		opt.synthetic = arg;
		break;
	case O_LAYERS:
		opt.synth.n_layer = (uint32_t)cli_int("--layers", arg, 1,
		    1000);
		break;
	case O_EXPERTS:
		opt.synth.n_expert = (uint32_t)cli_int("--experts", arg, 1,
		    4096);
		break;
	case O_VOCAB_SIZE:
		opt.synth.n_vocab = (uint32_t)cli_int("--vocab-size", arg, 1,
		    QWEN_VOCAB_MAX);
		break;
	}
}

static void
parse_one(int c, const char *arg)
{
	switch (c) {
	case 'm':
		opt.model = arg;
		break;
	case 'n':
		opt.n = (size_t)cli_int("-n", arg, 0, MAX_TOKENS);
		break;
	case 'p':
		parse_list(&opt.prompt, "-p", arg, 0, MAX_TOKENS);
		break;
	case 'r':
		opt.rounds = (size_t)cli_int("-r", arg, 1, MAX_ROUNDS);
		break;
	case 't':
		parse_list(&opt.threads, "-t", arg, 0, 1024);
		break;
	case O_BATCH:
		parse_list(&opt.batch, "--batch", arg, 0, 1 << 20);
		break;
	case O_DEPTH:
		parse_list(&opt.depth, "--depth", arg, 0, MAX_TOKENS);
		break;
	case O_SCATTERED:
		opt.scattered = 1;
		break;
	case O_SEQUENCES:
		parse_list(&opt.sequences, "--sequences", arg, 1,
		    MAX_SEQUENCES);
		break;
	case O_TOKENS:
		opt.tokens = arg;
		break;
	case O_JSON:
		opt.json = 1;
		break;
	case O_CSV:
		opt.csv = 1;
		break;
	case O_MACHINE:
		opt.machine = 1;
		break;
	case O_NUMERICS:
		opt.numerics = cli_numerics(arg);
		break;
	case O_SAMPLING:
		opt.sampling = 1;
		break;
	case O_SINCE:
		opt.since = cli_u64("--since", arg);
		opt.has_since = 1;
		break;
	default:
		parse_synthetic(c, arg);
	}
}

static void
parse(int argc, char *argv[])
{
	const char *arg;
	int c, operand;
	size_t i, longest = 0;

	while ((c = cli_getopt(argc, argv, options, NULL, &arg,
	    &operand)) != -1)
		parse_one(c, arg);
	cli_no_operands(argc, argv, operand);
	for (i = 0; i < opt.prompt.n; i++)
		longest |= opt.prompt.v[i];
	if (longest == 0 && opt.n == 0)
		cli_usage("-p 0 -n 0: nothing to measure");
	if (opt.json && opt.csv)
		cli_usage("--json and --csv exclude each other");
	if (opt.machine + opt.sampling + opt.has_since > 1)
		cli_usage("--machine, --sampling and --since exclude each "
		    "other");
	if (opt.synthetic != NULL && opt.model != NULL)
		cli_usage("-m and --synthetic exclude each other");
	if (opt.synthetic == NULL && (opt.synth.n_layer ||
	    opt.synth.n_expert || (opt.synth.n_vocab && !opt.sampling)))
		cli_usage("--layers, --experts and --vocab-size go with "
		    "--synthetic");
}

/* ------------------------------------------------- what the system counts */

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

struct counts {
	uint64_t	ns;
	long		minor, major;	/* page faults */
	uint64_t	steal, ticks;	/* of all processors; 0: not known */
};

/* Time that another machine on the same host took: field 8 of "cpu". */
static void
count_steal(struct counts *c)
{
	FILE *f = fopen("/proc/stat", "r");
	uint64_t v;
	int i;

	c->steal = c->ticks = 0;
	if (f == NULL)
		return;
	if (fscanf(f, "cpu") == 0)
		for (i = 1; i <= 8 && fscanf(f, "%" SCNu64, &v) == 1; i++) {
			c->ticks += v;
			if (i == 8)
				c->steal = v;
		}
	fclose(f);
}

static void
count(struct counts *c)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	c->minor = u.ru_minflt;
	c->major = u.ru_majflt;
	count_steal(c);
	c->ns = now_ns();
}

/* MiB; below 0: not known. */
struct memory {
	double	peak;		/* resident, at most */
	double	mapped;		/* of it, files: the model */
	double	private;	/* and the process's own */
};

/* A line of /proc/self/status, in MiB, or -1. */
static double
status_mib(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p == NULL ? -1 : strtod(p + strlen(key), NULL) / 1024;
}

static void
look_at_memory(struct memory *m)
{
	char text[8192];
	FILE *f = fopen("/proc/self/status", "r");
	struct memory now = { -1, -1, -1 };
	struct rusage u;
	size_t n;

	if (f != NULL) {
		n = fread(text, 1, sizeof text - 1, f);
		text[n] = '\0';
		fclose(f);
		now.peak = status_mib(text, "\nVmHWM:");
		now.private = status_mib(text, "\nRssAnon:");
		now.mapped = status_mib(text, "\nRssFile:");
		if (now.mapped >= 0)	/* a model in a memfd is shmem */
			now.mapped += fmax(status_mib(text, "\nRssShmem:"), 0);
	}
	getrusage(RUSAGE_SELF, &u);
	if (now.peak < 0)
		now.peak = (double)u.ru_maxrss / 1024;
	m->peak = fmax(m->peak, now.peak);
	m->mapped = fmax(m->mapped, now.mapped);
	m->private = fmax(m->private, now.private);
}

/* Forget the peak so far, where Linux lets us. */
static void
reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	if (fd == -1)
		return;
	if (write(fd, "5", 1) != 1)
		errno = 0;
	close(fd);
}

static const char *
cpu_name(void)
{
	static char name[128];
	char line[256];
	const char *p;
	FILE *f = fopen("/proc/cpuinfo", "r");

	if (f == NULL || name[0] != '\0')
		goto out;
	while (fgets(line, sizeof line, f) != NULL)
		if (strncmp(line, "model name", 10) == 0 &&
		    (p = strchr(line, ':')) != NULL) {
			p += 1 + strspn(p + 1, " ");
			snprintf(name, sizeof name, "%.*s",
			    (int)strcspn(p, "\n"), p);
			break;
		}
out:
	if (f != NULL)
		fclose(f);
	return name[0] != '\0' ? name : "unknown";
}

/* ------------------------------------------------------------------- tokens */

static int32_t	*ids;
static size_t	 n_ids;

/* Random numbers that are the same everywhere (SplitMix64). */
static uint64_t
draw(uint64_t *rng)
{
	uint64_t z = *rng += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * The id at position i of a walk that has two properties of text: an id comes
 * about as often as its number is low (a vocabulary made by merging has its
 * commonest words first), and one in four was among the last 64.
 */
static int32_t
walk(size_t i, size_t n_vocab, uint64_t *rng)
{
	uint64_t u = draw(rng), id;
	unsigned bits = 0;

	if (i > 0 && u % 4 == 0)
		return ids[i - 1 - (u >> 8) % (i < 64 ? i : 64)];
	while (n_vocab >> bits > 1)
		bits++;
	do {
		u = draw(rng);
		id = (uint64_t)1 << (u & 0xffff) % (bits + 1);
		id += (u >> 16) % id - 1;
	} while (id >= n_vocab);
	return (int32_t)id;
}

static void
append(const int32_t *more, size_t n)
{
	int32_t *p = realloc(ids, (n_ids + n) * sizeof *ids);

	if (p == NULL)
		die("out of memory");
	ids = p;
	memcpy(ids + n_ids, more, n * sizeof *ids);
	n_ids += n;
}

/* Up to need ids of the file. */
static void
read_tokens(const char *path, size_t need)
{
	struct qwen_reader_opts ro = { .kinds = QWEN_STREAM_TOKENS };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_err err;
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

	if (fd == -1)
		die("%s: %s", path, strerror(errno));
	if (qwen_reader_open(&r, fd, &ro, &err) < 0)
		cli_die_err(path, &err);
	while (n_ids < need && (rc = qwen_reader_next(r, &rec, &err)) != 0) {
		if (rc < 0)
			cli_die_err(path, &err);
		if (rec.kind == QWEN_REC_TOKENS)
			append(rec.ids, rec.n);
	}
	if (n_ids == 0)
		die("%s: no token", path);
	qwen_reader_close(r);
	close(fd);
}

/* The first need ids: of the file, over and over, or of the walk. */
static void
make_tokens(size_t need, size_t n_vocab)
{
	uint64_t rng = 1;
	size_t have;

	if (n_ids >= need)
		return;
	if (opt.tokens != NULL)
		read_tokens(opt.tokens, need);
	have = n_ids;
	ids = realloc(ids, (need > have ? need : have) * sizeof *ids);
	if (ids == NULL)
		die("out of memory");
	for (; n_ids < need; n_ids++)
		ids[n_ids] = have > 0 ? ids[n_ids - have] :
		    walk(n_ids, n_vocab, &rng);
}

static size_t
longest(const struct list *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->n; i++)
		n = l->v[i] > n ? l->v[i] : n;
	return n;
}

/* ---------------------------------------------------------------- the model */

static const char	*model_path;	/* to open */
static const char	*model_name;	/* to show */

static int
open_temporary(void)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd, n;

#ifdef MFD_CLOEXEC
	if ((dir == NULL || dir[0] == '\0') &&
	    (fd = memfd_create("qbench", 0)) != -1)
		return fd;
#endif
	n = snprintf(path, sizeof path, "%s/qbench.XXXXXX",
	    dir != NULL && dir[0] != '\0' ? dir : "/tmp");
	if (n < 0 || (size_t)n >= sizeof path)
		die("TMPDIR is too long");
	fd = mkstemp(path);
	if (fd == -1)
		die("%s: %s", path, strerror(errno));
	unlink(path);
	return fd;
}

static void
synth_progress(void *arg, uint64_t done, uint64_t total)
{
	int *started = arg;

	if (!*started)
		cli_progress_start("MiB", total >> 20);
	*started = 1;
	cli_progress(done >> 20);
}

/*
 * A file without a name, which the processes that qbench starts inherit: it is
 * gone when the last of them is.
 */
static void
make_synthetic(void)
{
	static char path[64];
	int started = 0, fd, rc;
	const struct qwen_synth_progress progress = { synth_progress,
	    &started };
	struct qwen_synth *s;
	struct qwen_err err;
	size_t shape;

	if (qwen_synth_find(&shape, opt.synthetic, &err) < 0)
		cli_usage("--synthetic: %s; gguf-synth --list shows those "
		    "known", err.msg);
	if (qwen_synth_new(&s, shape, &opt.synth, &err) < 0)
		cli_usage("--synthetic: %s", err.msg);
	fd = open_temporary();
	rc = qwen_synth_write(s, fd, &progress, &err);
	cli_progress_end();
	if (rc < 0)
		cli_die_err("temporary file", &err);
	qwen_synth_free(s);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	model_path = path;
	model_name = qwen_synth_info(shape)->name;
}

/* Touch every page, so that none is missing when it is needed. */
static void
touch(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const volatile unsigned char *p;
	uint64_t k;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++)
		for (p = t->data, k = 0; k < t->bytes; k += 4096)
			(void)p[k];
}

static void
warm_file(void)
{
	double start = cli_now();
	struct qwen_gguf *g;
	struct qwen_err err;

	if (qwen_gguf_open(&g, model_path, &err) < 0)
		cli_die_err(model_name, &err);
	touch(g);
	qwen_gguf_close(g);
	if (cli_verbose)
		cli_note("model touched in %.2f s", cli_now() - start);
}

/* ------------------------------------------------------- child processes */

/* What the child writes to the descriptor; dies if it fails. */
static size_t
ask_child(void (*child)(void *arg, int fd), void *arg, void *out, size_t size)
{
	char *p = out;
	size_t n = 0;
	ssize_t k;
	int fd[2], status;
	pid_t pid;

	fflush(stdout);
	if (pipe(fd) == -1 || (pid = fork()) == -1)
		die("cannot start a process: %s", strerror(errno));
	if (pid == 0) {
		close(fd[0]);
		child(arg, fd[1]);
		_exit(0);
	}
	close(fd[1]);
	while (n < size && ((k = read(fd[0], p + n, size - n)) > 0 ||
	    (k == -1 && errno == EINTR)))
		n += k > 0 ? (size_t)k : 0;
	close(fd[0]);
	while (waitpid(pid, &status, 0) == -1)
		if (errno != EINTR)
			die("waitpid: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("a process that was to measure failed");
	return n;
}

struct machine_job {
	int			 n_threads;
	const char		*cpu;
	double			 seconds;	/* for each figure; 0: enough */
};

static void
machine_child(void *arg, int fd)
{
	const struct machine_job *job = arg;
	struct qwen_machine m;
	struct qwen_err err;

	if (qwen_machine_measure(&m, job->n_threads, job->cpu, job->seconds,
	    &err) < 0)
		cli_die_err(NULL, &err);
	if (write(fd, &m, sizeof m) != (ssize_t)sizeof m)
		_exit(1);
}

/* In a process of its own, so that its buffer does not count as ours. */
static void
measure_machine(struct qwen_machine *m, int n_threads, double seconds)
{
	struct machine_job job = { n_threads, cli_cpu(), seconds };

	if (ask_child(machine_child, &job, m, sizeof *m) != sizeof *m)
		die("the measurement of the machine was cut short");
}

/* Become qbench --since; the clock starts right before exec. */
static void
since_child(void *arg, int fd)
{
	char since[32], threads[16];
	char *argv[] = { "qbench", "-q", "-m", (char *)model_path, "-t",
	    threads, "--since", since, NULL };

	snprintf(threads, sizeof threads, "%d", *(int *)arg);
	if (dup2(fd, STDOUT_FILENO) == -1)
		_exit(1);
	close(fd);
	snprintf(since, sizeof since, "%" PRIu64, now_ns());
	execv("/proc/self/exe", argv);
	execvp("qbench", argv);
	_exit(1);
}

/* The process that since_child became: two times, in ns. */
static int
run_since(void)
{
	struct qwen_session *s;
	struct qwen_model *m;
	struct qwen_err err;
	uint64_t kernel, token;
	int32_t id = 0;

	m = cli_model_open(opt.model, (int)opt.threads.v[0], opt.numerics);
	if (qwen_session_new(&s, m, &err) < 0)
		cli_die_err(NULL, &err);
	kernel = now_ns();
	if (qwen_session_eval(s, &id, 1, NULL, &err) < 0)
		cli_die_err(NULL, &err);
	token = now_ns();
	if (kernel < opt.since)
		cli_usage("--since: the time is yet to come");
	printf("%" PRIu64 " %" PRIu64 "\n", kernel - opt.since,
	    token - opt.since);
	qwen_session_free(s);
	qwen_model_close(m);
	return cli_finish();
}

/* --------------------------------------------------------------- statistics */

struct spread {
	double	median, min, max;
};

static int
by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts v. */
static struct spread
spread_of(double *v, size_t n)
{
	struct spread s;

	qsort(v, n, sizeof *v, by_value);
	s.median = (v[(n - 1) / 2] + v[n / 2]) / 2;
	s.min = v[0];
	s.max = v[n - 1];
	return s;
}

struct start {
	struct spread	kernel, token;	/* ms */
};

static void
measure_start(struct start *s, int n_threads)
{
	double kernel[MAX_ROUNDS], token[MAX_ROUNDS];
	uint64_t a, b;
	char text[64];
	size_t i, n;

	for (i = 0; i < opt.rounds; i++) {
		n = ask_child(since_child, &n_threads, text, sizeof text - 1);
		text[n] = '\0';
		if (sscanf(text, "%" SCNu64 " %" SCNu64, &a, &b) != 2)
			die("cannot measure the start");
		kernel[i] = (double)a * 1e-6;
		token[i] = (double)b * 1e-6;
	}
	s->kernel = spread_of(kernel, opt.rounds);
	s->token = spread_of(token, opt.rounds);
}

/* ------------------------------------------------------------------- rounds */

struct round {
	double	tok_s, steal;		/* steal: percent */
	double	read, int8;		/* of the machine, right after it */
	long	minor, major;
	int	marked;			/* not to be relied on */
};

/* Prefill or decode at one setting. */
struct phase {
	const char	*name;
	size_t		 n;		/* tokens timed, of each timeline */
	size_t		 depth;		/* tokens before them */
	size_t		 sequences;	/* timelines */
	size_t		 batch;
	int		 one_by_one;
	int		 n_threads;
	struct round	*round;		/* opt.rounds of them */
	struct spread	 tok_s, minor, major, steal;
	struct spread	 of_read, of_int8;	/* percent */
	size_t		 n_marked;
	struct memory	 mem;
	struct qwen_kernel_stat *stat;	/* of one more round */
	size_t		 n_stat;
};

/* Timelines that go on together, each with tokens of its own. */
struct team {
	struct qwen_cache	*cache;
	struct qwen_session	**s;
	struct qwen_part	*part;
	size_t			 n;
};

/* The tokens of timeline i. */
static const int32_t *
ids_of(const struct phase *p, size_t i)
{
	return ids + i * (p->depth + p->n);
}

static void
eval(struct qwen_session *s, const int32_t *t, size_t n,
    const struct qwen_eval *how)
{
	struct qwen_err err;

	if (n > 0 && qwen_session_eval(s, t, n, how, &err) < 0)
		cli_die_err(model_name, &err);
}

static void
team_init(struct team *t, const struct phase *p, struct qwen_model *m)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_NONE };
	size_t i, blocks = (p->depth + p->n) / 16 + 1;
	struct qwen_err err;

	t->n = p->sequences;
	t->s = calloc(t->n, sizeof *t->s);
	t->part = calloc(t->n, sizeof *t->part);
	if (t->s == NULL || t->part == NULL)
		die("out of memory");
	if (qwen_cache_new(&t->cache, m, 0, &err) < 0 || (opt.scattered &&
	    qwen_cache_scatter(t->cache, 4 * blocks * t->n, &err) < 0))
		cli_die_err(model_name, &err);
	for (i = 0; i < t->n; i++) {
		if (qwen_session_new_in(&t->s[i], t->cache, &err) < 0)
			cli_die_err(model_name, &err);
		eval(t->s[i], ids_of(p, i), p->depth, &how);
	}
}

static void
team_fini(struct team *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		qwen_session_free(t->s[i]);
	qwen_cache_free(t->cache);
	free(t->s);
	free(t->part);
}

/* One token each. */
static void
eval_team(const struct phase *p, struct team *t, size_t at)
{
	struct qwen_err err;
	size_t i;

	for (i = 0; i < t->n; i++)
		t->part[i] = (struct qwen_part){ .s = t->s[i],
		    .tokens = ids_of(p, i) + at, .n = 1 };
	if (qwen_eval_parts(t->part, t->n, &err) < 0)
		cli_die_err(model_name, &err);
	for (i = 0; i < t->n; i++) {
		if (t->part[i].failed)
			cli_die_err(model_name, &t->part[i].err);
	}
}

/* The n tokens behind the depth, all at once or each after the other. */
static void
run_tokens(const struct phase *p, struct team *t, size_t n)
{
	struct qwen_eval how = { .logits = QWEN_LOGITS_LAST,
	    .batch = p->batch };
	size_t i;

	if (!p->one_by_one)
		eval(t->s[0], ids + p->depth, n, &how);
	for (i = 0; p->one_by_one && i < n; i++)
		eval_team(p, t, p->depth + i);
}

/*
 * What the machine gives changes from one second to the next where others share
 * it: so it is measured beside every round.
 */
static void
timed_round(struct phase *p, struct qwen_model *m, struct round *r)
{
	struct qwen_machine machine;
	struct counts a, b;
	struct team t;

	team_init(&t, p, m);
	count(&a);
	run_tokens(p, &t, p->n);
	count(&b);
	look_at_memory(&p->mem);
	team_fini(&t);
	r->tok_s = (double)(p->n * p->sequences) /
	    ((double)(b.ns - a.ns) * 1e-9);
	r->minor = b.minor - a.minor;
	r->major = b.major - a.major;
	r->steal = b.ticks > a.ticks ? 100.0 * (double)(b.steal - a.steal) /
	    (double)(b.ticks - a.ticks) : 0;
	r->marked = r->major > 0 || r->steal > 2;
	if (opt.csv)
		return;
	measure_machine(&machine, p->n_threads, 0.05);
	r->read = machine.read;
	r->int8 = machine.int8;
}

/* A round that is not timed: it warms up, and counts for each kernel. */
static void
counted_round(struct phase *p, struct qwen_model *m)
{
	struct qwen_err err;
	struct team t;

	team_init(&t, p, m);
	if (opt.csv) {
		run_tokens(p, &t, p->n < WARM_TOKENS ? p->n : WARM_TOKENS);
		team_fini(&t);
		return;
	}
	p->stat = calloc(MAX_STATS, sizeof *p->stat);
	if (p->stat == NULL)
		die("out of memory");
	if (qwen_model_profile(m, 1, &err) < 0)
		cli_die_err(NULL, &err);
	run_tokens(p, &t, p->n);
	p->n_stat = qwen_model_stats(m, p->stat, MAX_STATS);
	if (p->n_stat > MAX_STATS)
		p->n_stat = MAX_STATS;
	qwen_model_profile(m, 0, NULL);
	team_fini(&t);
}

/* Bytes moved, or multiply-adds, for a token. */
static void
work_of(const struct phase *p, double *bytes, double *macs)
{
	double n = (double)(p->n * p->sequences);
	size_t i;

	*bytes = *macs = 0;
	for (i = 0; i < p->n_stat; i++) {
		*bytes += (double)p->stat[i].bytes / n;
		*macs += (double)p->stat[i].macs / n;
	}
}

static void
summarise(struct phase *p)
{
	double v[6][MAX_ROUNDS], bytes, macs;
	size_t i;

	work_of(p, &bytes, &macs);
	for (i = 0; i < opt.rounds; i++) {
		v[0][i] = p->round[i].tok_s;
		v[1][i] = (double)p->round[i].minor;
		v[2][i] = (double)p->round[i].major;
		v[3][i] = p->round[i].steal;
		v[4][i] = 100 * bytes * v[0][i] / p->round[i].read;
		v[5][i] = 100 * macs * v[0][i] / p->round[i].int8;
		p->n_marked += (size_t)p->round[i].marked;
		if (p->round[i].major > 0)
			cli_note("%s of %zu, round %zu: %ld pages came from "
			    "the disk; the round is marked", p->name, p->n,
			    i + 1, p->round[i].major);
	}
	p->tok_s = spread_of(v[0], opt.rounds);
	p->minor = spread_of(v[1], opt.rounds);
	p->major = spread_of(v[2], opt.rounds);
	p->steal = spread_of(v[3], opt.rounds);
	if (opt.csv)
		return;
	p->of_read = spread_of(v[4], opt.rounds);
	p->of_int8 = spread_of(v[5], opt.rounds);
}

/* name, n, depth, batch, sequences and one_by_one are set; n 0: nothing. */
static void
measure(struct phase *p, struct qwen_model *m)
{
	size_t i;

	p->mem.peak = p->mem.mapped = p->mem.private = -1;
	if (p->n == 0)
		return;
	p->round = calloc(opt.rounds, sizeof *p->round);
	if (p->round == NULL)
		die("out of memory");
	reset_peak();
	counted_round(p, m);
	for (i = 0; i < opt.rounds; i++)
		timed_round(p, m, &p->round[i]);
	summarise(p);
}

static void
phase_fini(struct phase *p)
{
	free(p->round);
	free(p->stat);
}

/* ------------------------------------------------------------------ results */

/* All that is known of one setting. */
struct result {
	const struct qwen_model	*m;
	struct qwen_machine	 machine;
	struct start		 start;
	size_t			 batch;
	const struct phase	*phase[2];	/* prefill, decode */
};

/* What a phase moved and multiplied a second, by the clock, all in all. */
struct totals {
	double	gb, gmac;
};

static struct totals
totals_of(const struct phase *p)
{
	struct totals t;

	work_of(p, &t.gb, &t.gmac);
	t.gb *= p->tok_s.median * 1e-9;
	t.gmac *= p->tok_s.median * 1e-9;
	return t;
}

/* A kernel's rates, of all threads together, and what the best would be. */
struct rates {
	double		 share;		/* percent of the phase */
	double		 gb, gmac;	/* a second */
	double		 read, peak;	/* percent of the machine's */
	const char	*unit;		/* which peak: "int8", "f32" */
};

static struct rates
rates_of(const struct result *r, const struct phase *p,
    const struct qwen_kernel_stat *k)
{
	double total = 0, s = k->ms * 1e-3 / r->machine.n_threads;
	const char *type = strchr(k->name, '.');
	struct rates x = { 0 };
	size_t i;

	for (i = 0; i < p->n_stat; i++)
		total += p->stat[i].ms;
	x.unit = "f32";
	if ((strncmp(k->name, "matmul.", 7) == 0 ||
	    strncmp(k->name, "gemm.", 5) == 0) && strcmp(type, ".F32") != 0 &&
	    strcmp(type, ".F16") != 0 && strcmp(type, ".BF16") != 0 &&
	    (opt.numerics != 2 || strcmp(k->variant, "amx") == 0))
		x.unit = "int8";
	if (s <= 0)
		return x;
	x.share = 100 * k->ms / total;
	x.gb = (double)k->bytes / s * 1e-9;
	x.gmac = (double)k->macs / s * 1e-9;
	x.read = 100e9 * x.gb / r->machine.read;
	x.peak = 100e9 * x.gmac / (x.unit[0] == 'i' ? r->machine.int8 :
	    r->machine.f32);
	return x;
}

static struct memory
memory_of(const struct result *r)
{
	const struct memory *a = &r->phase[0]->mem, *b = &r->phase[1]->mem;
	struct memory m = { fmax(a->peak, b->peak),
	    fmax(a->mapped, b->mapped), fmax(a->private, b->private) };

	return m;
}

/* --------------------------------------------------------------------- text */

static void
text_line(const char *phase, const char *what, const struct spread *s,
    const char *unit)
{
	printf("%-8s %-14s %12.2f %12.2f %12.2f  %s\n", phase, what, s->median,
	    s->min, s->max, unit);
}

static void
text_one(const char *what, const char *name, double v, const char *unit)
{
	if (v < 0)
		printf("%-8s %-14s %12s %12s %12s  %s\n", what, name, "-", "-",
		    "-", unit);
	else
		printf("%-8s %-14s %12.2f %12s %12s  %s\n", what, name, v, "-",
		    "-", unit);
}

static void
text_phase(const struct phase *p)
{
	struct totals t = totals_of(p);

	if (p->n == 0)
		return;
	text_line(p->name, "speed", &p->tok_s, "tok/s");
	text_one(p->name, "moved", t.gb, "GB/s");
	text_line(p->name, "of_read", &p->of_read, "%");
	text_one(p->name, "multiplied", t.gmac, "GMAC/s");
	text_line(p->name, "of_int8", &p->of_int8, "%");
	text_line(p->name, "minor_faults", &p->minor, "pages");
	text_line(p->name, "major_faults", &p->major, "pages");
	text_line(p->name, "steal", &p->steal, "%");
	text_one(p->name, "marked", (double)p->n_marked, "rounds");
}

static void
text_machine(const struct qwen_machine *m)
{
	text_one("machine", "read", m->read * 1e-9, "GB/s");
	text_one("machine", "copy", m->copy * 1e-9, "GB/s");
	text_one("machine", "int8", m->int8 * 1e-9, "GMAC/s");
	text_one("machine", "f32", m->f32 * 1e-9, "GMAC/s");
}

static void
text_kernels(const struct result *r, const struct phase *p)
{
	const struct qwen_kernel_stat *k;
	struct rates x;
	size_t i;

	for (i = 0; i < p->n_stat; i++) {
		k = &p->stat[i];
		x = rates_of(r, p, k);
		printf("%-8s %-14s %-10s %8" PRIu64 " %10.2f %6.1f %10.2f "
		    "%8.2f %6.1f %9.2f %6.1f %s\n", p->name, k->name,
		    k->variant, k->calls, k->ms, x.share,
		    (double)k->bytes * 1e-6, x.gb, x.read, x.gmac, x.peak,
		    x.unit);
	}
}

static void
text_result(const struct result *r)
{
	const struct memory mem = memory_of(r);

	printf("model    %s: %s, %zu layers\n", model_name,
	    qwen_model_arch(r->m), qwen_model_n_layer(r->m));
	printf("cpu      %s, %d threads, %s (%s)\n", cpu_name(),
	    r->machine.n_threads, r->machine.variant, r->machine.int8_op);
	printf("setting  prefill of %zu tokens, batch %zu; decode of %zu at "
	    "depth %zu, sequences %zu; %zu rounds; numerics %u\n\n",
	    r->phase[0]->n, r->batch, r->phase[1]->n, r->phase[1]->depth,
	    r->phase[1]->sequences, opt.rounds, qwen_model_numerics(r->m));
	printf("%-8s %-14s %12s %12s %12s  %s\n", "part", "what", "median",
	    "min", "max", "unit");
	text_phase(r->phase[0]);
	text_phase(r->phase[1]);
	text_line("start", "first_kernel", &r->start.kernel, "ms");
	text_line("start", "first_token", &r->start.token, "ms");
	text_one("memory", "peak", mem.peak, "MiB");
	text_one("memory", "mapped", mem.mapped, "MiB");
	text_one("memory", "private", mem.private, "MiB");
	text_machine(&r->machine);
	printf("\n%-8s %-14s %-10s %8s %10s %6s %10s %8s %6s %9s %6s %s\n",
	    "part", "kernel", "variant", "calls", "ms", "share%", "MB",
	    "GB/s", "%read", "GMAC/s", "%peak", "peak");
	text_kernels(r, r->phase[0]);
	text_kernels(r, r->phase[1]);
}

/* --------------------------------------------------------------------- JSON */

static void
json_str(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;

	putchar('"');
	for (; *p != '\0'; p++) {
		if (*p == '"' || *p == '\\')
			printf("\\%c", *p);
		else if (*p < 0x20 || *p >= 0x7f)	/* paths are bytes */
			printf("\\u%04x", *p);
		else
			putchar(*p);
	}
	putchar('"');
}

/* , "name": v */
static void
json_num(const char *name, double v)
{
	if (!isfinite(v) || v < 0)
		printf(", \"%s\": null", name);
	else
		printf(", \"%s\": %.9g", name, v);
}

static void
json_spread(const char *name, const struct spread *s)
{
	printf("\"%s\": {\"median\": %.9g, \"min\": %.9g, \"max\": %.9g}",
	    name, s->median, s->min, s->max);
}

static void
json_phase(const struct phase *p)
{
	printf("\"%s\": ", p->name);
	if (p->n == 0) {
		printf("null");
		return;
	}
	printf("{\"n\": %zu, ", p->n);
	json_spread("tok_s", &p->tok_s);
	printf("}");
}

static void
json_machine(const struct qwen_machine *m)
{
	printf("\"machine\": {\"cpu\": ");
	json_str(cpu_name());
	printf(", \"threads\": %d, \"variant\": ", m->n_threads);
	json_str(m->variant);
	printf(", \"int8_op\": ");
	json_str(m->int8_op);
	json_num("read_gb_s", m->read * 1e-9);
	json_num("copy_gb_s", m->copy * 1e-9);
	json_num("int8_gmac_s", m->int8 * 1e-9);
	json_num("f32_gmac_s", m->f32 * 1e-9);
	printf("}");
}

static int
json_kernels(const struct result *r, const struct phase *p, int n)
{
	const struct qwen_kernel_stat *k;
	struct rates x;
	size_t i;

	for (i = 0; i < p->n_stat; i++, n++) {
		k = &p->stat[i];
		x = rates_of(r, p, k);
		printf("%s{\"phase\": \"%s\", \"name\": ", n ? ", " : "",
		    p->name);
		json_str(k->name);
		printf(", \"variant\": ");
		json_str(k->variant);
		printf(", \"calls\": %" PRIu64, k->calls);
		json_num("ms", k->ms);
		json_num("share_percent", x.share);
		printf(", \"bytes\": %" PRIu64 ", \"macs\": %" PRIu64,
		    k->bytes, k->macs);
		json_num("gb_s", x.gb);
		json_num("read_percent", x.read);
		json_num("gmac_s", x.gmac);
		json_num("peak_percent", x.peak);
		printf(", \"peak\": \"%s\"}", x.unit);
	}
	return n;
}

static int
json_rounds(const struct phase *p, int n)
{
	const struct round *r;
	size_t i;

	for (i = 0; p->n > 0 && i < opt.rounds; i++, n++) {
		r = &p->round[i];
		printf("%s{\"phase\": \"%s\", \"tok_s\": %.9g, "
		    "\"minor\": %ld, \"major\": %ld, \"steal_percent\": %.3g, "
		    "\"marked\": %s}", n ? ", " : "", p->name, r->tok_s,
		    r->minor, r->major, r->steal, r->marked ? "true" :
		    "false");
	}
	return n;
}

static void
json_totals(const struct result *r)
{
	struct totals t;
	int i, n = 0;

	printf("\"totals\": {");
	for (i = 0; i < 2; i++) {
		if (r->phase[i]->n == 0)
			continue;
		t = totals_of(r->phase[i]);
		printf("%s\"%s\": {\"tokens\": %zu", n++ ? ", " : "",
		    r->phase[i]->name, r->phase[i]->n *
		    r->phase[i]->sequences);
		json_num("gb_s", t.gb);
		json_num("read_percent", r->phase[i]->of_read.median);
		json_num("gmac_s", t.gmac);
		json_num("int8_percent", r->phase[i]->of_int8.median);
		printf("}");
	}
	printf("}");
}

static void
json_faults(const struct result *r)
{
	const struct phase *p;
	int i, n = 0;

	printf("\"faults\": {");
	for (i = 0; i < 2; i++) {
		p = r->phase[i];
		if (p->n == 0)
			continue;
		printf("%s\"%s\": {", n++ ? ", " : "", p->name);
		json_spread("minor", &p->minor);
		printf(", ");
		json_spread("major", &p->major);
		printf("}");
	}
	printf("}");
}

static void
json_result(const struct result *r)
{
	const struct memory mem = memory_of(r);

	printf("{");
	json_phase(r->phase[0]);
	printf(", ");
	json_phase(r->phase[1]);
	printf(", ");
	json_machine(&r->machine);
	printf(", \"kernels\": [");
	json_kernels(r, r->phase[1], json_kernels(r, r->phase[0], 0));
	printf("], ");
	json_totals(r);
	printf(", \"start\": {");
	json_spread("first_kernel_ms", &r->start.kernel);
	printf(", ");
	json_spread("first_token_ms", &r->start.token);
	printf("}, \"memory\": {\"unit\": \"MiB\"");
	json_num("peak", mem.peak);
	json_num("mapped", mem.mapped);
	json_num("private", mem.private);
	printf("}, ");
	json_faults(r);
	printf(", \"rounds\": [");
	json_rounds(r->phase[1], json_rounds(r->phase[0], 0));
	printf("], \"model\": {\"name\": ");
	json_str(model_name);
	printf(", \"arch\": ");
	json_str(qwen_model_arch(r->m));
	printf(", \"n_layer\": %zu}, \"setting\": {\"threads\": %d, "
	    "\"batch\": %zu, \"depth\": %zu, \"sequences\": %zu, "
	    "\"scattered\": %s, \"numerics\": %u}}\n",
	    qwen_model_n_layer(r->m), r->machine.n_threads, r->batch,
	    r->phase[1]->depth, r->phase[1]->sequences, opt.scattered ?
	    "true" : "false", qwen_model_numerics(r->m));
}

/* ---------------------------------------------------------------------- CSV */

static void
csv_str(const char *s)
{
	putchar('"');
	for (; *s != '\0'; s++) {
		if (*s == '"')
			putchar('"');
		putchar((unsigned char)*s < 0x20 ? ' ' : *s);
	}
	putchar('"');
}

static void
csv_head(void)
{
	printf("model,threads,batch,prompt,depth,n,"
	    "prefill_median,prefill_min,prefill_max,prefill_marked,"
	    "decode_median,decode_min,decode_max,decode_marked,"
	    "first_kernel_ms,first_token_ms,"
	    "peak_mib,mapped_mib,private_mib,prefill_minor,prefill_major,"
	    "decode_minor,decode_major,"
	    "read_gb_s,copy_gb_s,int8_gmac_s,f32_gmac_s,sequences\n");
}

static void
csv_phase(const struct phase *p)
{
	if (p->n == 0)
		printf(",,,,");
	else
		printf(",%.6g,%.6g,%.6g,%zu", p->tok_s.median, p->tok_s.min,
		    p->tok_s.max, p->n_marked);
}

static void
csv_faults(const struct phase *p)
{
	if (p->n == 0)
		printf(",,");
	else
		printf(",%.0f,%.0f", p->minor.median, p->major.median);
}

static void
csv_mib(double v)
{
	if (v < 0)
		printf(",");
	else
		printf(",%.2f", v);
}

static void
csv_result(const struct result *r)
{
	const struct memory mem = memory_of(r);
	const struct qwen_machine *m = &r->machine;

	csv_str(model_name);
	printf(",%d,%zu,%zu,%zu,%zu", m->n_threads, r->batch, r->phase[0]->n,
	    r->phase[1]->depth, r->phase[1]->n);
	csv_phase(r->phase[0]);
	csv_phase(r->phase[1]);
	printf(",%.3f,%.3f", r->start.kernel.median, r->start.token.median);
	csv_mib(mem.peak);
	csv_mib(mem.mapped);
	csv_mib(mem.private);
	csv_faults(r->phase[0]);
	csv_faults(r->phase[1]);
	printf(",%.4g,%.4g,%.4g,%.4g,%zu\n", m->read * 1e-9, m->copy * 1e-9,
	    m->int8 * 1e-9, m->f32 * 1e-9, r->phase[1]->sequences);
}

static void
show(const struct result *r)
{
	static int shown;

	if (opt.csv)
		csv_result(r);
	else if (opt.json)
		json_result(r);
	else {
		printf("%s", shown++ ? "\n" : "");
		text_result(r);
	}
	if (fflush(stdout) == EOF)
		die("stdout: %s", strerror(errno));
}

/* -------------------------------------------------------------------- main */

/*
 * Decoding does not depend on the prompt: once for each depth and number of
 * timelines.
 */
static size_t
measure_decodes(struct phase *decode, struct qwen_model *m, int n_threads)
{
	size_t i, k, n = 0;

	for (i = 0; i < opt.depth.n; i++)
		for (k = 0; k < opt.sequences.n; k++, n++) {
			decode[n] = (struct phase){ .name = "decode",
			    .n = opt.n, .depth = opt.depth.v[i],
			    .sequences = opt.sequences.v[k], .one_by_one = 1,
			    .n_threads = n_threads };
			measure(&decode[n], m);
		}
	return n;
}

static void
measure_prefills(struct result *r, const struct phase *decode,
    size_t n_decode, struct qwen_model *m)
{
	size_t i, k, b;

	for (b = 0; b < opt.batch.n; b++)
		for (i = 0; i < opt.prompt.n; i++) {
			struct phase p = { .name = "prefill",
			    .n = opt.prompt.v[i], .batch = opt.batch.v[b],
			    .sequences = 1,
			    .n_threads = r->machine.n_threads };

			measure(&p, m);
			r->batch = p.batch;
			r->phase[0] = &p;
			for (k = 0; k < n_decode; k++) {
				r->phase[1] = &decode[k];
				show(r);
			}
			phase_fini(&p);
		}
}

/* Tokens for the longest of all that is measured. */
static void
prepare_tokens(const struct qwen_model *m)
{
	size_t one = longest(&opt.depth) + opt.n, p = longest(&opt.prompt);
	size_t need = one > p ? one : p;

	if (need > qwen_model_n_ctx(m))
		die("%s: %zu tokens, and the context is %zu", model_name, need,
		    qwen_model_n_ctx(m));
	one *= longest(&opt.sequences);
	make_tokens(one > p ? one : p, qwen_model_n_vocab(m));
}

static void
bench(int n_threads)
{
	struct phase *decode;
	struct result r;
	struct qwen_model *m;
	size_t i, n;

	/* these start processes, so they come before the threads */
	measure_start(&r.start, n_threads);
	measure_machine(&r.machine, n_threads, 0);
	m = cli_model_open(model_path, n_threads, opt.numerics);
	prepare_tokens(m);
	touch(qwen_model_gguf(m));
	decode = calloc(opt.depth.n * opt.sequences.n, sizeof *decode);
	if (decode == NULL)
		die("out of memory");
	r.m = m;
	n = measure_decodes(decode, m, n_threads);
	measure_prefills(&r, decode, n, m);
	for (i = 0; i < n; i++)
		phase_fini(&decode[i]);
	free(decode);
	qwen_model_close(m);
}

static void
machine_line(const struct qwen_machine *m)
{
	const char *form = opt.csv ? "%d,%s,%.4g,%.4g,%.4g,%.4g,%s\n" :
	    "%7d %-10s %10.2f %10.2f %11.2f %11.2f  %s\n";

	if (opt.json) {
		printf("{");
		json_machine(m);
		printf("}\n");
	} else {
		printf(form, m->n_threads, m->variant, m->read * 1e-9,
		    m->copy * 1e-9, m->int8 * 1e-9, m->f32 * 1e-9, m->int8_op);
	}
	fflush(stdout);
}

/* 1 .. t threads, for the largest t of the list; above 4, doubling. */
static void
show_machine(void)
{
	struct qwen_machine m;
	int i, n;

	n = (int)longest(&opt.threads);
	if (n == 0)
		n = (int)sysconf(_SC_NPROCESSORS_ONLN);
	if (opt.csv)
		printf("threads,variant,read_gb_s,copy_gb_s,int8_gmac_s,"
		    "f32_gmac_s,int8_op\n");
	else if (!opt.json)
		printf("%7s %-10s %10s %10s %11s %11s  %s\n", "threads",
		    "variant", "read GB/s", "copy GB/s", "int8 GMAC/s",
		    "f32 GMAC/s", "int8 by");
	for (i = 1; i <= n; i = i < 4 ? i + 1 : i < n && 2 * i > n ? n : 2 * i) {
		measure_machine(&m, i, 0);
		machine_line(&m);
	}
}

/* ----------------------------------------------------------------- sampling */

enum { SAMPLING_ROWS = 4, SAMPLING_VOCAB = 248320 };

/* What people ask for, as qwen_sampler_read takes it. */
static const char *const chains[] = {
	"", "repeat-penalty=1.1", "temp=0.7 top-k=20 top-p=0.8",
	"temp=0.7 top-k=40 repeat-penalty=1.1", "temp=0.7",
	"temp=0.7 top-p=0.9", "temp=0.7 min-p=0.05", "temp=0.7 typical=0.9",
	"temp=0.7 top-n-sigma=1", "temp=1 xtc-probability=0.5",
	"dyntemp-max=1", "mirostat=5",
};

/*
 * Rows like those of a model: a bell of small logits, and in a sure one a few
 * high ones.
 */
static float *
make_rows(size_t n, int sure)
{
	float *row = calloc(n, SAMPLING_ROWS * sizeof *row);
	uint64_t rng = 1;
	size_t i, k;

	if (row == NULL)
		die("out of memory");
	for (i = 0; i < n * SAMPLING_ROWS; i++) {
		double x = -6;

		for (k = 0; k < 12; k++)
			x += (double)(draw(&rng) >> 11) * 0x1p-53;
		row[i] = (float)(x * (sure ? 2.5 : 0.3));
	}
	for (i = 0; sure && i < SAMPLING_ROWS * 40; i++)
		row[i % SAMPLING_ROWS * n + draw(&rng) % n] = (float)(12 +
		    (double)(draw(&rng) >> 11) * 0x1p-50);
	return row;
}

/* Milliseconds of choices and what belongs to them. */
static struct spread
time_chain(const char *chain, const float *row, size_t n)
{
	static double ms[MAX_ROUNDS];
	struct qwen_sampler *s;
	struct qwen_err err;
	uint64_t start;
	size_t i;
	int32_t id;

	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_read(s, chain, &err) < 0 ||
	    qwen_sampler_begin(s, n, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; i <= opt.rounds; i++) {
		start = now_ns();
		if (qwen_sampler_sample(s, row + i % SAMPLING_ROWS * n, NULL,
		    n, i, &id, &err) < 0 ||
		    qwen_sampler_accept(s, &id, 1, 1, &err) < 0)
			cli_die_err(NULL, &err);
		/* the first one takes up the memory */
		if (i > 0)
			ms[i - 1] = (double)(now_ns() - start) * 1e-6;
	}
	qwen_sampler_free(s);
	return spread_of(ms, opt.rounds);
}

static void
show_chain(const char *kind, const char *chain, const struct spread *s)
{
	const char *name = chain[0] != '\0' ? chain : "greedy";

	if (opt.json) {
		printf("{\"rows\": \"%s\", \"chain\": \"%s\", ", kind, name);
		json_spread("ms", s);
		printf("}\n");
	} else {
		printf(opt.csv ? "%s,%s,%.4g,%.4g,%.4g\n" :
		    "%-5s %-38s %8.3f %8.3f %8.3f  ms\n", kind, name,
		    s->median, s->min, s->max);
	}
	fflush(stdout);
}

static void
show_sampling(void)
{
	size_t n = opt.synth.n_vocab != 0 ? opt.synth.n_vocab : SAMPLING_VOCAB;
	int sure;
	size_t i;

	if (opt.csv)
		printf("rows,chain,median_ms,min_ms,max_ms\n");
	else if (!opt.json)
		printf("%-5s %-38s %8s %8s %8s\n", "rows", "chain", "median",
		    "min", "max");
	for (sure = 1; sure >= 0; sure--) {
		float *row = make_rows(n, sure);

		for (i = 0; i < sizeof chains / sizeof chains[0]; i++) {
			struct spread s = time_chain(chains[i], row, n);

			show_chain(sure ? "sure" : "flat", chains[i], &s);
		}
		free(row);
	}
}

int
main(int argc, char *argv[])
{
	size_t i;

	cli_init("qbench", usage);
	parse(argc, argv);
	if (opt.has_since)
		return run_since();
	if (opt.machine) {
		show_machine();
		return cli_finish();
	}
	if (opt.sampling) {
		show_sampling();
		return cli_finish();
	}
	model_path = model_name = opt.synthetic == NULL ?
	    cli_model_path(opt.model) : NULL;
	if (opt.synthetic != NULL)
		make_synthetic();
	warm_file();
	if (opt.csv)
		csv_head();
	for (i = 0; i < opt.threads.n; i++)
		bench((int)opt.threads.v[i]);
	free(ids);
	return cli_finish();
}
