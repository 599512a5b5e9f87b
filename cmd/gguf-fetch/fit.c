/* SPDX-License-Identifier: ISC */
/*
 * fit.c - whether a model fits the memory, by the plan of gguf-inspect --plan.
 *
 * The plan needs no weights, so gguf-fetch fetches only the head of one file and plans
 * with a hole in place of the weights.  The memory beside the weights is the same for
 * all models of a repository.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"

enum { HEAD_MIN = 2 << 20, HEAD_MAX = 64 << 20, BUSY_DIVISOR = 5 };

/* The first bytes of a file: 0, or -1 and cli_err. */
static int
read_head(struct qwen_text *h, const struct fetch_repo *r,
    const struct fetch_file *f, uint64_t want)
{
	char *url = r->hub->url(r, f);
	const struct http_ask a = { .url = url, .repo = r, .to = want,
	    .file = f->path };
	int rc = fetch_text(h, &a, NULL);

	free(url);
	return rc;
}

/* Write the head of a GGUF file, with a hole in place of its weights. */
static int
write_outline(const char *path, const struct qwen_text *h, uint64_t bytes)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), rc;

	if (fd == -1)
		return fetch_errno(path);
	rc = cli_write(fd, h) == h->n && ftruncate(fd, (off_t)bytes) == 0 ? 0 :
	    fetch_errno(path);
	close(fd);
	return rc;
}

/* A folder of our own for outlines, for free(). */
static char *
make_folder(void)
{
	const char *tmp = fetch_env("TMPDIR");
	char *s = cli_format("%s/gguf-fetch.XXXXXX", tmp != NULL ? tmp : "/tmp");

	if (mkdtemp(s) == NULL)
		cli_must(s, qwen_fail_errno(&cli_err, "there is no folder for "
		    "the beginning of a file"));
	return s;
}

/*
 * Open a model by the first bytes (want) of each of its files.  Returns 1; 0 and
 * cli_err if it does not open, perhaps because more bytes are needed; -1 and cli_err
 * on other errors.
 */
static int
open_outline(struct qwen_gguf **g, const struct fetch_repo *r,
    const struct fetch_model *m, uint64_t want)
{
	struct qwen_strings path = { 0 };
	struct qwen_text h = { 0 };
	const struct fetch_file *f;
	char *folder = NULL;
	int rc = 0;
	size_t i;

	*g = NULL;
	for (i = 0; i < m->n && rc == 0; i++) {
		f = &r->v[m->file[i]];
		rc = read_head(&h, r, f, want < f->bytes ? want : f->bytes);
		if (rc < 0)
			break;
		/* made late, so that an interrupted download leaves no folder */
		if (folder == NULL)
			folder = make_folder();
		if (qwen_strings_add(&path, cli_format("%s/%s", folder,
		    qwen_base_name(f->path))) < 0)
			cli_must(NULL, qwen_oom(&cli_err));
		rc = write_outline(path.v[i], &h, f->bytes);
	}
	if (rc == 0)
		rc = qwen_gguf_open(g, path.v[0], &cli_err) == 0;
	for (i = 0; i < path.n; i++)
		unlink(path.v[i]);
	if (folder != NULL)
		rmdir(folder);
	free(folder);
	qwen_strings_fini(&path);
	qwen_text_fini(&h);
	for (i = 0; rc == 1 && i < m->n; i++) {
		/* zeros of the hole may look like a head */
		if (qwen_gguf_data_offset(*g, (unsigned)i) > want &&
		    r->v[m->file[i]].bytes > want)
			rc = 0;
	}
	if (rc < 1)
		qwen_gguf_close(*g);
	return rc;
}

/* Compute the memory needed in addition to the weights.  It closes g. */
static int
plan(struct fetch_fit *f, struct qwen_gguf *g)
{
	const struct qwen_model_opts opts = { .n_threads = 1 };
	struct qwen_checkpoints keep = { 0 };
	size_t n = fetch_opt.context;
	struct qwen_model *m;
	struct qwen_plan p;

	if (qwen_model_open_gguf(&m, g, &opts, &cli_err) < 0) {
		if (cli_err.code == QWEN_ENOMEM)
			cli_die_err(NULL, &cli_err);
		f->why = cli_check_alloc(strdup(cli_err.msg));
		return 0;
	}
	if (n > qwen_model_n_ctx(m))
		n = qwen_model_n_ctx(m);
	keep.every = qwen_model_checkpoint_every(m);
	qwen_plan_make(&p, m, n, 1, 0, QWEN_GUESS_MAX, &keep);
	f->own = p.own;
	qwen_model_close(m);
	return 0;
}

/* The smallest, and of one file if there is such. */
static const struct fetch_model *
easiest(const struct fetch_models *m)
{
	size_t i;

	for (i = 0; i < m->n; i++) {
		if (m->v[i].n == 1 && m->v[i].bytes > 0)
			return &m->v[i];
	}
	return &m->v[0];
}

int
fetch_fit(struct fetch_fit *f, const struct fetch_repo *r,
    const struct fetch_models *m)
{
	const struct fetch_model *one = easiest(m);
	struct qwen_gguf *g = NULL;
	uint64_t want;
	int rc = 0;

	memset(f, 0, sizeof *f);
	f->room = tool_memory_free();
	if (f->room == UINT64_MAX)
		return 0;
	f->room -= f->room / BUSY_DIVISOR;
	for (want = HEAD_MIN; want <= HEAD_MAX && rc == 0; want *= 2) {
		rc = open_outline(&g, r, one, want);
		if (want >= one->bytes)
			break;
	}
	if (rc == 1)
		return plan(f, g);
	if (rc == 0)
		f->why = cli_check_alloc(strdup(cli_err.msg));
	return rc;
}

int
fetch_fits(const struct fetch_fit *f, const struct fetch_model *m)
{
	return f->room != UINT64_MAX && f->own <= f->room &&
	    m->bytes <= f->room - f->own;
}
