/* SPDX-License-Identifier: ISC */
/* show.c - --list and --dry-run. */
#include <sys/stat.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf-fetch.h"

const char *
fetch_size(uint64_t bytes)
{
	static char text[4][32];
	static unsigned at;
	char *s = text[at++ % 4];
	double v = (double)bytes;

	if (bytes < 1024)
		return strcpy(s, cli_count(bytes, "byte"));
	snprintf(s, sizeof text[0], v < 0x1p20 ? "%.1f KiB" : v < 0x1p30 ?
	    "%.1f MiB" : "%.2f GiB", v < 0x1p20 ? v / 0x1p10 : v < 0x1p30 ?
	    v / 0x1p20 : v / 0x1p30);
	return s;
}

static void
put_row(const char *size, const char *needs, const char *fits, const char *path,
    size_t n_parts)
{
	printf("%11s %11s  %-5s ", size, needs, fits);
	cli_show(path, strlen(path));
	if (n_parts > 1)
		printf(" (%zu parts)", n_parts);
	putchar('\n');
}

void
fetch_list(const struct fetch_repo *r, const struct fetch_models *m)
{
	const struct fetch_model *v;
	struct fetch_fit f;
	size_t i;

	/* the listing of a gated repository is public, its files are not */
	if (fetch_fit(&f, r, m) < 0)
		f.why = cli_check_alloc(strdup(cli_err.msg));
	if (f.why != NULL)
		cli_note("%s: the memory that it takes besides its weights is "
		    "unknown: %s",
		    r->name->text, f.why);
	put_row("size", "needs", "fits", "file", 1);
	for (i = 0; i < m->n; i++) {
		v = &m->v[i];
		put_row(fetch_size(v->bytes), fetch_size(v->bytes + f.own),
		    f.room == UINT64_MAX ? "-" : fetch_fits(&f, v) ? "yes" :
		    "no", r->v[v->file[0]].path, v->n);
	}
	for (i = 0; i < r->n; i++) {
		if (qwen_repo_is_projector(r->v[i].path))
			put_row(fetch_size(r->v[i].bytes), "-", "-",
			    r->v[i].path, 1);
	}
	free(f.why);
}

static void
put_line(const char *what, const char *text)
{
	printf("%-6s ", what);
	cli_show(text, strlen(text));
	putchar('\n');
}

void
fetch_dry(const struct fetch_repo *r, const struct fetch_file *f)
{
	char *url = r->hub->url(r, f);
	struct fetch_paths p;
	uint64_t have = 0;
	struct stat st;

	fetch_paths(&p, r, f);
	if (stat(p.blob, &st) == 0 || (p.link != NULL &&
	    stat(p.path, &st) == 0) || stat(p.partial, &st) == 0)
		have = (uint64_t)st.st_size;
	put_line("file", f->path);
	printf("%-6s %" PRIu64 " bytes, %" PRIu64 " of them fetched already\n",
	    "size", f->bytes, have < f->bytes ? have : f->bytes);
	put_line("from", url);
	put_line("to", p.path);
	fetch_paths_fini(&p);
	free(url);
}
