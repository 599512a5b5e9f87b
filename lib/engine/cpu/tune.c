/* SPDX-License-Identifier: ISC */
/*
 * tune.c - which variant multiplies many tokens faster on this machine, where
 * that is not known from its instruction set: measured once, and kept in a file.
 *
 * A line is a format by its number in ggml, a number of tokens (the least of a
 * class) and a variant, or one of threads.c; the first line says for which program
 * and processor they are.  Whatever is wrong with the file, it is as if it were not
 * there.  Bits do not depend on it.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/tmpfile.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/cpu/tune.h"

/* What is multiplied: rows of 1024 weights, up to so many tokens. */
enum { ROWS = 256, N_IN = 1024, TOKENS = 128, ROUNDS = 3, RIVALS = 8 };

/* A variant of a lesser rank must be so much faster to be taken instead. */
#define MARGIN 1.03

/* Bytes of a file that is read: all formats and classes have room. */
enum { FILE_MAX = 64 << 10 };

struct bench {
	unsigned char	*w;
	struct qwen_q8	*x;
	float		*y;
	unsigned char	*packed;
	const void	*xp[TOKENS];
	float		*yp[TOKENS];
};

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
bench_free(struct bench *b)
{
	free(b->w);
	free(b->x);
	free(b->y);
	free(b->packed);
	free(b);
}

/* Are tokens two rows, as version 4 has them? */
static int
is_plain(const struct qwen_tuning *t)
{
	return t->k->numerics == 4;
}

/* Scales that are neither huge nor tiny in any format, and weights of all kinds. */
static void
fill(struct bench *b, size_t n_w, const struct qwen_vec *vec, int plain)
{
	float row[N_IN];
	uint32_t r = 1;
	size_t i, t;

	for (i = 0; i < n_w; i++) {
		r = r * 1664525 + 1013904223;
		b->w[i] = (unsigned char)(0x30 | (r >> 24 & 0x0b));
	}
	for (t = 0; t < TOKENS; t++) {
		for (i = 0; i < N_IN; i++) {
			r = r * 1664525 + 1013904223;
			row[i] = (float)(int32_t)r * 0x1p-31f;
		}
		if (!plain)
			vec->quantize(b->x + t * (N_IN / QWEN_GROUP), row,
			    N_IN);
		else if (t % 2 == 0)
			vec->quantize_twice(b->x + t * (N_IN / QWEN_GROUP),
			    row, N_IN);
		b->xp[t] = b->x + t * (N_IN / QWEN_GROUP);
		b->yp[t] = b->y + t * ROWS;
	}
}

/* The most bytes in which any of the variants wants a tile's group. */
static size_t
widest_packing(unsigned features)
{
	const struct qwen_kernel *k[RIVALS];
	const struct qwen_quant *q;
	size_t n, i, widest = 1;
	uint32_t type;

	for (type = 0; type < QT_N; type++) {
		if ((q = qwen_quant_find(type)) == NULL)
			continue;
		n = qwen_kernel_rivals(q, features, TOKENS, k, RIVALS);
		for (i = 0; i < n; i++)
			if (k[i]->packing != NULL &&
			    k[i]->packing->bytes > widest)
				widest = k[i]->packing->bytes;
	}
	return widest;
}

static struct bench *
bench_new(const struct qwen_tuning *t)
{
	struct bench *b = qwen_alloc(1, sizeof *b);
	size_t n_w = (size_t)ROWS * N_IN * 2;	/* no format has more bytes */

	if (b == NULL)
		return NULL;
	b->w = qwen_alloc_large(n_w, 1);
	b->x = qwen_alloc_large(TOKENS * (N_IN / QWEN_GROUP), sizeof *b->x);
	b->y = qwen_alloc_large((size_t)TOKENS * ROWS, sizeof *b->y);
	b->packed = qwen_alloc_large(TOKENS / QWEN_PACK_TOKENS *
	    (N_IN / QWEN_GROUP), widest_packing(t->features));
	if (b->w == NULL || b->x == NULL || b->y == NULL || b->packed == NULL) {
		bench_free(b);
		return NULL;
	}
	fill(b, n_w, t->k->vec->run.vec, is_plain(t));
	return b;
}

double
qwen_tune_best(void (*fn)(void *arg), void *arg)
{
	double t, best = 0;
	int i;

	for (i = 0; i <= ROUNDS; i++) {
		t = now_s();
		fn(arg);
		t = now_s() - t;
		if (i == 1 || (i > 1 && t < best))
			best = t;
	}
	return best;
}

struct product {
	const struct qwen_kernel *k;
	struct qwen_matmul	 m;
};

static void
multiply(void *arg)
{
	const struct product *p = arg;

	p->k->run.matmul(&p->m);
}

static double
measure(const struct qwen_tuning *t, struct bench *b,
    const struct qwen_kernel *k, const struct qwen_quant *q, size_t n_tok)
{
	struct product p = { k, { .w = b->w, .quant = q, .n_in = N_IN,
	    .row_bytes = qwen_quant_row_bytes(q->type, N_IN), .x = b->xp,
	    .y = b->yp, .n_tok = n_tok, .r1 = ROWS, .packing = k->packing,
	    .packed = b->packed, .plain = is_plain(t) } };

	if (k->packing != NULL)
		qwen_pack(k->packing, b->packed, b->xp, n_tok, N_IN);
	return qwen_tune_best(multiply, &p);
}

/* Measure them, tell of it, and return the one to take. */
static const struct qwen_kernel *
compare(const struct qwen_tuning *t, struct bench *b,
    const struct qwen_quant *q, size_t c, const struct qwen_kernel **k,
    size_t n)
{
	struct qwen_tune_row row = { .type = q->type,
	    .tokens = qwen_token_classes[c] };
	double took[RIVALS];
	size_t i, best = 0;

	for (i = 0; i < n; i++) {
		took[i] = measure(t, b, k[i], q, row.tokens);
		if (i > 0 && took[i] * MARGIN < took[best])
			best = i;
	}
	for (i = 0; t->row != NULL && i < n; i++) {
		row.variant = k[i]->name;
		row.macs = (double)ROWS * N_IN * (double)row.tokens / took[i];
		row.chosen = i == best;
		t->row(t->arg, &row);
	}
	return k[best];
}

/* ---- the file */

/* What it begins with here. */
static void
head(struct qwen_text *t)
{
	char cpu[49] = "";
#if defined(__x86_64__)
	unsigned r[12], i;

	for (i = 0; i < 3; i++)
		if (!__get_cpuid(0x80000002 + i, &r[4 * i], &r[4 * i + 1],
		    &r[4 * i + 2], &r[4 * i + 3]))
			memset(r + 4 * i, 0, 16);
	memcpy(cpu, r, sizeof r);
	for (i = 0; i < 48; i++)
		cpu[i] = cpu[i] == '\n' ? ' ' : cpu[i];
#endif
	qwen_text_fmt(t, "qpipe kernels %s %s\n", QWEN_VERSION, cpu);
}

void
qwen_tune_load(const char *path, struct qwen_text *t)
{
	char buf[4096];
	struct qwen_text all = { 0 };
	struct stat st;
	ssize_t n;
	/* whatever is there, it is not waited for */
	int fd = path != NULL ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) :
	    -1;

	head(t);
	while (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    all.n < FILE_MAX && (n = read(fd, buf, sizeof buf)) > 0)
		qwen_text_add(&all, buf, (size_t)n);
	if (!t->failed && !all.failed && all.n > t->n && all.n < FILE_MAX &&
	    memcmp(all.s, t->s, t->n) == 0 && strlen(all.s) == all.n &&
	    all.s[all.n - 1] == '\n')
		qwen_text_str(t, all.s + t->n);
	qwen_text_fini(&all);
	if (fd >= 0)
		close(fd);
}

/* Make the folder that a file is in, and the one that this is in. */
static void
make_folders(char *path, int depth)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL || slash == path)
		return;
	*slash = '\0';
	if (mkdir(path, 0700) < 0 && errno == ENOENT && depth > 0) {
		make_folders(path, depth - 1);
		mkdir(path, 0700);
	}
	*slash = '/';
}

void
qwen_tune_save(const char *path, const struct qwen_text *t)
{
	struct qwen_text temp = { 0 }, name = { 0 };
	struct qwen_tmpfile d = { .dir = AT_FDCWD, .fd = -1 };
	struct qwen_err err;

	qwen_text_fmt(&temp, "%s.new", path);
	qwen_text_str(&name, path);
	if (!temp.failed && !name.failed && !t->failed) {
		make_folders(name.s, 1);
		d.temp = temp.s;
		d.name = name.s;
		if (qwen_tmpfile_open(&d, 0600, &err) == 1) {
			if (write(d.fd, t->s, t->n) != (ssize_t)t->n ||
			    qwen_tmpfile_commit(&d) < 0)
				qwen_tmpfile_drop(&d);
			else
				close(d.fd);
		}
	}
	qwen_text_fini(&temp);
	qwen_text_fini(&name);
}

/*
 * Format, rows of tokens, variant; and of version 4 that it is, for tiles take
 * half as long with its rows, other sets as long.
 */
#define LINE "%u %u %s%s\n"

/* The variant that the text has for a format and a class, of these; or NULL. */
static const struct qwen_kernel *
find(const struct qwen_text *t, const struct qwen_quant *q, size_t c,
    const struct qwen_kernel **k, size_t n, const char *version)
{
	char line[128];
	size_t i;

	for (i = 0; i < n && !t->failed; i++) {
		snprintf(line, sizeof line, "\n" LINE, (unsigned)q->type,
		    qwen_token_classes[c], k[i]->name, version);
		if (strstr(t->s, line) != NULL)
			return k[i];
	}
	return NULL;
}

/* ---- all of it */

/* A format: 1 if something was measured, 0 if not, -1 if memory is short. */
static int
tune_format(const struct qwen_tuning *t, const struct qwen_quant *q,
    struct bench **b, struct qwen_text *text)
{
	const struct qwen_kernel *k[RIVALS], *best;
	const char *version;
	size_t c, n;
	int measured = 0;

	for (c = 0; c < QWEN_TOKEN_CLASSES; c++) {
		n = qwen_kernel_rivals(q, t->features,
		    qwen_token_classes[c], k, RIVALS);
		version = is_plain(t) && n > 0 && k[0]->rank == QWEN_BY_AMX ?
		    " 4" : "";
		best = t->anew ? NULL : find(text, q, c, k, n, version);
		/* without being asked, tiles alone have a rival: the next */
		if (best == NULL && !t->anew)
			n = n > 1 && k[0]->rank == QWEN_BY_AMX ? 2 : 0;
		if (best == NULL && n > 1) {
			if (*b == NULL && (*b = bench_new(t)) == NULL)
				return -1;
			best = compare(t, *b, q, c, k, n);
			qwen_text_fmt(text, LINE, (unsigned)q->type,
			    qwen_token_classes[c], best->name, version);
			measured = 1;
		}
		if (best != NULL)
			t->k->gemm[q->type].by[c] = best;
	}
	return measured;
}

int
qwen_tune(const struct qwen_tuning *t)
{
	struct qwen_text text = { 0 };
	struct bench *b = NULL;
	const struct qwen_quant *q;
	uint32_t type;
	int measured = 0, r = 0;

	if (t->anew)
		head(&text);
	else
		qwen_tune_load(t->path, &text);
	/* without tiles and a file there is nothing to be found out */
	if (!t->anew && (t->features & QWEN_CPU_AMX) == 0 && !text.failed &&
	    strchr(text.s, '\n') == text.s + text.n - 1)
		goto out;
	for (type = 0; type < QT_N && r >= 0; type++) {
		q = qwen_quant_find(type);
		if (q == NULL || (t->used != NULL && !t->used[type]))
			continue;
		r = tune_format(t, q, &b, &text);
		measured |= r > 0;
	}
	if (measured && t->path != NULL)
		qwen_tune_save(t->path, &text);
	if (b != NULL)
		bench_free(b);
	qwen_kernels_packing(t->k, t->used);
out:
	r = text.failed || r < 0 ? -1 : 0;
	qwen_text_fini(&text);
	return r;
}

int
qwen_tune_measure(const char *path, void (*row)(void *arg,
    const struct qwen_tune_row *r), void *arg, struct qwen_err *err)
{
	struct qwen_kernels k;
	struct qwen_tuning t = { .k = &k, .features = qwen_cpu_detect(),
	    .path = path, .anew = 1, .row = row, .arg = arg };

	qwen_kernels_init(&k, t.features, 1);
	if (qwen_tune(&t) < 0)
		return qwen_oom(err);
	qwen_tune_threads(path, t.features, qwen_cpu_cores(QWEN_CPU_TREE),
	    qwen_cpu_count());
	return 0;
}
