/* SPDX-License-Identifier: ISC */
/* paths.c - the paths of files, and whether a file is complete. */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gguf-fetch.h"

void
fetch_paths(struct fetch_paths *p, const struct fetch_repo *r,
    const struct fetch_file *f)
{
	memset(p, 0, sizeof *p);
	/* in --to, all files lie side by side */
	if (fetch_opt.to != NULL)
		p->path = cli_format("%s/%s", fetch_opt.to,
		    qwen_base_name(f->path));
	else
		r->hub->place(p, r, f);
	if (p->blob == NULL)
		p->blob = cli_check_alloc(strdup(p->path));
	p->partial = cli_format("%s.incomplete", p->blob);
}

void
fetch_paths_fini(struct fetch_paths *p)
{
	free(p->path);
	free(p->blob);
	free(p->link);
	free(p->partial);
	free(p->lock);
	memset(p, 0, sizeof *p);
}

int
fetch_there(const struct fetch_paths *p, const struct fetch_file *f)
{
	int fd = open(p->blob, O_RDONLY | O_CLOEXEC | O_NONBLOCK), there;
	char sum[FETCH_HASH];
	struct stat st;

	/* without symbolic links the file itself is at path */
	if (fd == -1 && p->link != NULL)
		fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd == -1)
		return 0;
	there = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    (uint64_t)st.st_size == f->bytes;
	if (there && !p->by_hash)
		there = fetch_hash_check(fd, p->blob, f->bytes, f->hash, sum);
	close(fd);
	if (there != 0 || p->by_hash || p->moves)
		return there;
	return fetch_fail("%s exists and is another file: move it away, or "
	    "name another folder", p->path);
}

int
fetch_make_folders(const char *path)
{
	char *s = cli_check_alloc(strdup(path)), *at = s;
	int rc = 0;

	while (rc == 0 && (at = strchr(at + 1, '/')) != NULL) {
		*at = '\0';
		if (mkdir(s, 0777) == -1 && errno != EEXIST) {
			/* the last one says more than its parents */
			rc = access(s, F_OK) == 0 ? 0 : fetch_errno(s);
		}
		*at = '/';
	}
	free(s);
	return rc;
}

int
fetch_write(const char *path, char *text, size_t n)
{
	const struct qwen_text t = { .s = text, .n = n };
	size_t had;
	char *was = cli_try_file(path, n, &had);
	int same = was != NULL && had == n && memcmp(was, text, n) == 0;

	free(was);
	if (same)
		return 0;
	if (fetch_make_folders(path) < 0)
		return -1;
	return cli_replace_file(path, &t, &cli_err) < 0 ?
	    qwen_fail_in(&cli_err, "%s", path) : 0;
}
