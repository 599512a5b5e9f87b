/* SPDX-License-Identifier: ISC */
/* model.c - the model file: the given one, or a temporary synthetic one. */
#define _GNU_SOURCE
#include <sys/mman.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qbench.h"

const char	*qbench_model_path;	/* to open */
const char	*qbench_model_name;	/* to print */
double		 qbench_load_s;

static int
open_temporary(void)
{
	const char *dir = getenv("TMPDIR");
	char path[4096];
	int fd;

#ifdef MFD_CLOEXEC
	if ((dir == NULL || dir[0] == '\0') &&
	    (fd = memfd_create("qbench", 0)) != -1)
		return fd;
#endif
	fd = cli_temporary("qbench", path, sizeof path);
	unlink(path);
	return fd;
}

void
qbench_make_synthetic(void)
{
	static char path[64], name[64];
	int started = 0, fd, rc;
	struct qwen_synth *s;
	struct qwen_err err;
	size_t shape;

	if (qwen_synth_find(&shape, qbench_opt.synthetic, &err) < 0)
		cli_usage("--synthetic: %s; gguf-synth --list shows those "
		    "known", err.msg);
	if (qwen_synth_new(&s, shape, &qbench_opt.synth, &err) < 0)
		cli_usage(err.code == QWEN_EUNSUP ? "--recipe: %s; gguf-synth "
		    "--list-recipes shows those known" : "--synthetic: %s",
		    err.msg);
	fd = open_temporary();
	qwen_gguf_writer_progress(qwen_synth_writer(s), cli_progress_bytes,
	    &started);
	rc = qwen_synth_write(s, fd, &cli_err);
	cli_progress_end();
	cli_must("temporary file", rc);
	snprintf(name, sizeof name, "%s", qwen_synth_name(s));
	qwen_synth_free(s);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	qbench_model_path = path;
	qbench_model_name = name;
}

void
qbench_read_pages(const struct qwen_gguf *g)
{
	const struct qwen_gguf_tensor *t;
	const volatile unsigned char *p;
	uint64_t at, n, k;
	size_t i;

	for (i = 0; (t = qwen_gguf_tensor(g, i)) != NULL; i++) {
		for (at = 0; at < t->bytes; at += n) {
			p = qwen_gguf_data(t, at, &n);
			for (k = 0; k < n; k += 4096)
				(void)p[k];
		}
	}
}

void
qbench_warm_file(void)
{
	double start = cli_now();
	struct qwen_gguf *g;

	g = tool_gguf_open(qbench_model_path);
	qbench_read_pages(g);
	qbench_load_s = cli_now() - start;
	qwen_gguf_close(g);
	if (cli_verbose)
		cli_note("model loaded in %.2f s", qbench_load_s);
}
