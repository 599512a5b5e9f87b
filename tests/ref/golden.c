/* SPDX-License-Identifier: ISC */
/* golden.c - reads models with known logits (see tests/golden/golden.h). */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../golden/golden.h"

static void
die(const char *what, const char *name)
{
	fprintf(stderr, "golden: %s: %s\n", what, name);
	exit(1);
}

static void *
need(size_t n, size_t size)
{
	void *p = calloc(n > 0 ? n : 1, size);

	if (p == NULL)
		die("out of memory", "");
	return p;
}

static int
exists(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0;
}

/* Run a command, or die. */
static void
run(const char *cmd)
{
	if (system(cmd) != 0)
		die("command failed", cmd);
}

static void
read_ids(const char *path, int32_t *out, size_t n)
{
	FILE *f = fopen(path, "r");
	size_t i;

	if (f == NULL)
		die("cannot open", path);
	for (i = 0; i < n; i++) {
		if (fscanf(f, "%d", &out[i]) != 1)
			die("too few ids", path);
	}
	fclose(f);
}

/* The file itself, or decompressed from path.zst to a file in TMPDIR. */
static void
plain_file(char *out, size_t size, const char *dir, const char *name,
    const char *model)
{
	const char *tmp = getenv("TMPDIR");
	char cmd[2048];

	snprintf(out, size, "%s/%s", dir, name);
	if (exists(out))
		return;
	snprintf(out, size, "%s/%s-%s", tmp != NULL ? tmp : "/tmp", model,
	    name);
	snprintf(cmd, sizeof cmd, "zstd -q -d -f -o '%s' '%s/%s.zst'", out,
	    dir, name);
	run(cmd);
}

static void
read_case(FILE *f, const char *dir, struct golden_model *m,
    struct golden_case *c)
{
	char tokens[64], logits[64], path[1200];
	size_t i;
	FILE *l;

	if (fscanf(f, "%31s %zu %63s %63s %zu", c->name, &c->n_tokens, tokens,
	    logits, &c->n_rows) != 5)
		die("bad case", dir);
	c->rows = need(c->n_rows, sizeof *c->rows);
	for (i = 0; i < c->n_rows; i++) {
		if (fscanf(f, "%zu", &c->rows[i]) != 1)
			die("bad rows", dir);
	}
	for (i = 0; i < 6; i++) {
		if (fscanf(f, "%lf", &c->limit[i]) != 1)
			die("bad limits", dir);
	}
	if (fscanf(f, " peer %lf", &c->peer_kl) != 1)
		die("bad peer", dir);
	snprintf(path, sizeof path, "%s/%s", dir, tokens);
	if (!exists(path)) {	/* this case did not come along */
		c->n_rows = 0;
		return;
	}
	c->tokens = need(c->n_tokens, sizeof *c->tokens);
	read_ids(path, c->tokens, c->n_tokens);
	plain_file(path, sizeof path, dir, logits, m->name);
	c->logits = need(c->n_rows * m->n_vocab, sizeof *c->logits);
	l = fopen(path, "rb");
	if (l == NULL || fread(c->logits, sizeof *c->logits * m->n_vocab,
	    c->n_rows, l) != c->n_rows)
		die("cannot read", path);
	fclose(l);
}

static void
read_greedy(FILE *f, struct golden_model *m)
{
	size_t i;

	if (fscanf(f, "%zu %zu", &m->n_prompt, &m->n_greedy) != 2)
		die("bad greedy line", m->name);
	m->prompt = need(m->n_prompt, sizeof *m->prompt);
	m->greedy = need(m->n_greedy, sizeof *m->greedy);
	m->margin = need(m->n_greedy, sizeof *m->margin);
	for (i = 0; i < m->n_prompt; i++)
		if (fscanf(f, "%d", &m->prompt[i]) != 1)
			die("bad prompt", m->name);
	for (i = 0; i < m->n_greedy; i++)
		if (fscanf(f, "%d", &m->greedy[i]) != 1)
			die("bad greedy ids", m->name);
	for (i = 0; i < m->n_greedy; i++)
		if (fscanf(f, "%lf", &m->margin[i]) != 1)
			die("bad margins", m->name);
}

static void
read_model(const char *dir, const char *name, struct golden_model *m)
{
	char cmd[1200], word[32];
	FILE *f;

	snprintf(m->name, sizeof m->name, "%.63s", name);
	snprintf(cmd, sizeof cmd,
	    "sh tests/golden/expected.sh '%s/expected.json'", dir);
	f = popen(cmd, "r");
	if (f == NULL || fscanf(f, " vocab %zu", &m->n_vocab) != 1)
		die("cannot read expected.json", dir);
	plain_file(m->path, sizeof m->path, dir, "model.gguf", name);
	while (fscanf(f, "%31s", word) == 1) {
		if (strcmp(word, "case") == 0) {
			m->cases = realloc(m->cases, (m->n_case + 1) *
			    sizeof *m->cases);
			if (m->cases == NULL)
				die("out of memory", name);
			memset(&m->cases[m->n_case], 0, sizeof *m->cases);
			read_case(f, dir, m, &m->cases[m->n_case++]);
		} else if (strcmp(word, "greedy") == 0)
			read_greedy(f, m);
	}
	pclose(f);
}

/* Embeddings and scores have no logits to compare. */
static int
has_logits(const char *top, const char *name)
{
	char path[1024];

	snprintf(path, sizeof path, "%s/%s/tokens-n65.txt", top, name);
	return exists(path);
}

static size_t
load_from(const char *top, struct golden_model **list, size_t n)
{
	DIR *d = opendir(top);
	struct dirent *e;
	char dir[1024];
	size_t i;

	while (d != NULL && (e = readdir(d)) != NULL) {
		snprintf(dir, sizeof dir, "%s/%s/expected.json", top,
		    e->d_name);
		if (e->d_name[0] == '.' || !exists(dir) ||
		    !has_logits(top, e->d_name))
			continue;
		snprintf(dir, sizeof dir, "%s/%s", top, e->d_name);
		for (i = 0; i < n; i++) {
			if (strcmp((*list)[i].name, e->d_name) == 0)
				break;
		}
		if (i < n)
			continue;
		*list = realloc(*list, (n + 1) * sizeof **list);
		if (*list == NULL)
			die("out of memory", dir);
		memset(*list + n, 0, sizeof **list);
		read_model(dir, e->d_name, *list + n++);
	}
	if (d != NULL)
		closedir(d);
	return n;
}

size_t
golden_load(struct golden_model **out)
{
	const char *only = getenv("GOLDEN_DIR");
	size_t n;

	*out = NULL;
	n = only != NULL ? load_from(only, out, 0) :
	    load_from("../shared/fixtures/models", out, 0);
	return load_from("tests/golden/models", out, n);
}

void
golden_free(struct golden_model *g, size_t n)
{
	size_t i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; j < g[i].n_case; j++) {
			free(g[i].cases[j].tokens);
			free(g[i].cases[j].rows);
			free(g[i].cases[j].logits);
		}
		free(g[i].cases);
		free(g[i].prompt);
		free(g[i].greedy);
		free(g[i].margin);
	}
	free(g);
}

static int
by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* numpy's quantile, linear between neighbours */
static double
quantile(double *v, size_t n, double q)
{
	double at = q * (double)(n - 1), lo = floor(at);
	size_t i = (size_t)lo;

	qsort(v, n, sizeof *v, by_size);
	return i + 1 < n ? v[i] + (at - lo) * (v[i + 1] - v[i]) : v[i];
}

static double
log_sum(const float *x, size_t n)
{
	double m = x[0], s = 0;
	size_t i;

	for (i = 1; i < n; i++)
		m = x[i] > m ? x[i] : m;
	for (i = 0; i < n; i++)
		s += exp(x[i] - m);
	return m + log(s);
}

static size_t
best(const float *x, size_t n)
{
	size_t i, b = 0;

	for (i = 1; i < n; i++)
		b = x[i] > x[b] ? i : b;
	return b;
}

void
golden_distance(const struct golden_model *m, const struct golden_case *c,
    const float *got, double d[6])
{
	double *kl = need(c->n_rows, sizeof *kl);
	double *diff = need(c->n_rows, sizeof *diff), a, b, sum = 0, top = 0;
	size_t r, i;

	for (r = 0; r < c->n_rows; r++) {
		const float *w = c->logits + r * m->n_vocab;
		const float *g = got + r * m->n_vocab;

		a = log_sum(w, m->n_vocab);
		b = log_sum(g, m->n_vocab);
		for (i = 0; i < m->n_vocab; i++) {
			double e = fabs((double)w[i] - (double)g[i]);

			kl[r] += exp(w[i] - a) * ((w[i] - a) - (g[i] - b));
			diff[r] = e > diff[r] || e != e ? e : diff[r];
		}
		sum += kl[r];
		top += best(w, m->n_vocab) == best(g, m->n_vocab);
	}
	d[0] = sum / (double)c->n_rows;
	d[1] = quantile(kl, c->n_rows, 0.5);
	d[2] = quantile(diff, c->n_rows, 1.0);
	d[3] = quantile(diff, c->n_rows, 0.5);
	d[4] = quantile(diff, c->n_rows, 0.9);
	d[5] = top / (double)c->n_rows;
	free(kl);
	free(diff);
}
