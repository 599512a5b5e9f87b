/* SPDX-License-Identifier: ISC */
/* choose.c - which of a repository's files a name means. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-fetch.h"

enum { LISTED = 40 };	/* files that a message lists at most */

/* Returns the index of the file with this path, or r->n. */
static size_t
find_file(const struct fetch_repo *r, const char *path)
{
	size_t i;

	for (i = 0; i < r->n && strcmp(r->v[i].path, path) != 0; i++)
		;
	return i;
}

/* The model whose first file is this one: 0, or -1 and cli_err. */
static int
make_model(struct fetch_model *m, const struct fetch_repo *r, size_t first)
{
	const char *path = r->v[first].path;
	unsigned n = qwen_repo_n_parts(path), i;
	char *part;

	memset(m, 0, sizeof *m);
	if (n > r->n)
		return fetch_fail("the listing lacks parts of %.120s", path);
	m->file = cli_check_alloc(malloc(n * sizeof *m->file));
	for (i = 0; i < n; i++) {
		part = cli_check_alloc(qwen_repo_part(path, i, n));
		m->file[i] = n == 1 ? first : find_file(r, part);
		free(part);
		if (m->file[i] == r->n) {
			free(m->file);
			return fetch_fail("the listing lacks part %u of %.120s",
			    i + 1, path);
		}
		m->bytes += r->v[m->file[i]].bytes;
	}
	m->n = n;
	return 0;
}

static int
by_bytes(const void *a, const void *b)
{
	const struct fetch_model *x = a, *y = b;

	return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int
fetch_match(struct fetch_models *m, const struct fetch_repo *r)
{
	const char *what = r->name->path != NULL ? r->name->path :
	    r->name->quant;
	size_t *at = cli_check_alloc(malloc((r->n + 1) * sizeof *at)), n, i;
	const char **path = cli_check_alloc(calloc(r->n + 1, sizeof *path));
	int rc = 0;

	for (i = 0; i < r->n; i++)
		path[i] = r->v[i].path;
	n = qwen_repo_pick(path, r->n, r->name, at);
	free(path);
	m->n = 0;
	m->v = cli_check_alloc(calloc(n + 1, sizeof *m->v));
	for (i = 0; i < n && rc == 0; i++) {
		rc = make_model(&m->v[m->n], r, at[i]);
		m->n += rc == 0;
	}
	free(at);
	if (rc < 0)
		return -1;
	qsort(m->v, m->n, sizeof *m->v, by_bytes);
	if (m->n > 0)
		return 0;
	if (what == NULL)
		return fetch_fail("the repository has no GGUF file: look for a "
		    "repository of the same name with \"GGUF\" in it, or "
		    "convert it with gguf-convert");
	return fetch_fail("the repository has no %.80s: gguf-fetch --list "
	    "shows what it has", what);
}

void
fetch_models_fini(struct fetch_models *m)
{
	size_t i;

	for (i = 0; i < m->n; i++)
		free(m->v[i].file);
	free(m->v);
	m->v = NULL;
	m->n = 0;
}

/* Returns the largest model that fits, and prints a note with its name. */
static const struct fetch_model *
largest(const struct fetch_repo *r, const struct fetch_models *m)
{
	const struct fetch_model *best = NULL;
	struct fetch_fit f;
	size_t i;

	if (fetch_fit(&f, r, m) < 0)
		return NULL;
	for (i = 0; i < m->n; i++) {
		if (fetch_fits(&f, &m->v[i]))
			best = &m->v[i];
	}
	if (best == NULL && f.room == UINT64_MAX && m->n > 1)
		fetch_fail("the memory of this machine is unknown: choose a "
		    "format, as in %s:Q4_K_M", r->name->text);
	else if (best == NULL && !fetch_opt.force && f.room != UINT64_MAX)
		fetch_fail("the smallest, %.80s, takes %s of memory, but %s "
		    "are free; --force fetches it anyway",
		    r->v[m->v[0].file[0]].path,
		    fetch_size(m->v[0].bytes + f.own), fetch_size(f.room));
	else if (best == NULL)
		best = &m->v[0];
	else if (m->n > 1)
		cli_note("%s: %s of %s, the largest of %zu that fits: with a "
		    "context of %zu tokens it takes %s; 4/5 of the free memory "
		    "are %s", r->name->text,
		    r->v[best->file[0]].path, fetch_size(best->bytes), m->n,
		    fetch_opt.context, fetch_size(best->bytes + f.own),
		    fetch_size(f.room));
	free(f.why);
	return best;
}

const struct fetch_model *
fetch_choose(const struct fetch_repo *r, const struct fetch_models *m)
{
	size_t i;

	if (r->hub == &fetch_ollama)
		return &m->v[0];
	if (r->name->quant == NULL && r->name->path == NULL)
		return largest(r, m);
	if (m->n == 1)
		return &m->v[0];
	warn("%s: %zu files match; name one of them:", r->name->text, m->n);
	for (i = 0; i < m->n && i < LISTED; i++)
		warn("  %s (%s)", r->v[m->v[i].file[0]].path,
		    fetch_size(m->v[i].bytes));
	if (m->n > LISTED)
		warn("  and %zu more", m->n - LISTED);
	cli_err.code = FETCH_TOLD;
	return NULL;
}

/* "Q8_0" and "F16" in a name are 8 and 16. */
static int
bits(const char *path)
{
	const char *s;
	int n = 0;

	for (s = path; *s != '\0'; s++) {
		if (strchr("qQfF", *s) != NULL &&
		    isdigit((unsigned char)s[1]))
			n = atoi(s + 1);
	}
	return n;
}

static size_t
folder_length(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? (size_t)(slash - path) : 0;
}

/* In the folder of the model rather than above it; then the nearest in bits. */
const struct fetch_file *
fetch_projector(const struct fetch_repo *r, const struct fetch_model *m)
{
	const char *model = r->v[m->file[0]].path, *path;
	const struct fetch_file *best = NULL;
	size_t i, n, best_n = 0;
	int far, best_far = 0;

	for (i = 0; i < r->n; i++) {
		path = r->v[i].path;
		n = folder_length(path);
		if (!qwen_repo_is_projector(path) || (n > 0 &&
		    (n > folder_length(model) || strncmp(path, model, n) != 0 ||
		    model[n] != '/')))
			continue;
		far = abs(bits(path) - bits(model));
		if (best == NULL || n > best_n || (n == best_n &&
		    far < best_far)) {
			best = &r->v[i];
			best_n = n;
			best_far = far;
		}
	}
	return best;
}
