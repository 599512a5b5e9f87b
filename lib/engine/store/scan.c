/* SPDX-License-Identifier: ISC */
/*
 * scan.c - the files of a folder.  There is no index that could differ from the
 * files: reading and sorting 10,000 names takes a few milliseconds.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tmpfile.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/store/store.h"

enum { DRAFT_TRIES = 8 };

#ifndef O_DIRECTORY
#define O_DIRECTORY 0
#endif

static char *
join(const char *a, const char *b)
{
	size_t size = strlen(a) + strlen(b) + 2;
	char *s = malloc(size);

	if (s != NULL)
		snprintf(s, size, "%s/%s", a, b);
	return s;
}

char *
qwen_store_path(const struct qwen_store_scan *sc, size_t file)
{
	char name[QWEN_STORE_NAME];

	qwen_store_name_format(&sc->file[file].n, name);
	return join(sc->path, name);
}

int
qwen_store_stat(const struct qwen_store_scan *sc, size_t file, struct stat *st)
{
	char name[QWEN_STORE_NAME];

	qwen_store_name_format(&sc->file[file].n, name);
	return fstatat(sc->fd, name, st, AT_SYMLINK_NOFOLLOW);
}

int
qwen_store_unlink(const struct qwen_store_scan *sc, size_t file)
{
	char name[QWEN_STORE_NAME];

	qwen_store_name_format(&sc->file[file].n, name);
	return unlinkat(sc->fd, name, 0);
}

int
qwen_store_draft(struct qwen_tmpfile *d, const struct qwen_store_scan *sc,
    char temp[QWEN_STORE_TEMP_NAME], mode_t mode, struct qwen_err *err)
{
	char unique[QWEN_STORE_UNIQUE];
	int i, r = 0;

	/* if a sweep removes a draft before it is locked, make another one */
	for (i = 0; i < DRAFT_TRIES && r == 0; i++) {
		qwen_store_unique(unique);
		snprintf(temp, QWEN_STORE_TEMP_NAME, QWEN_STORE_TEMP "%s",
		    unique);
		*d = (struct qwen_tmpfile){ .dir = sc->fd, .temp = temp,
		    .of_file = 1 };
		r = qwen_tmpfile_open(d, mode, err);
	}
	if (r == 1)
		return 0;
	if (r == 0)
		return qwen_fail(err, QWEN_EIO, "%s: other processes keep "
		    "removing the files being written", sc->path);
	return qwen_fail_in(err, "%s", sc->path);
}

static int
push(struct qwen_store_names *l, const char *s)
{
	if (qwen_grow(&l->name, &l->cap, l->n + 1, sizeof *l->name) < 0 ||
	    (l->name[l->n] = strdup(s)) == NULL)
		return -1;
	l->n++;
	return 0;
}

static void
drop(struct qwen_store_names *l)
{
	while (l->n > 0)
		free(l->name[--l->n]);
}

void
qwen_store_names_fini(struct qwen_store_names *l)
{
	drop(l);
	free(l->name);
}

static int
push_file(struct qwen_store_scan *sc, const struct qwen_store_name *n)
{
	if (qwen_grow(&sc->file, &sc->cap_file, sc->n_file + 1,
	    sizeof *sc->file) < 0)
		return -1;
	sc->file[sc->n_file++] = (struct qwen_store_file){ .n = *n,
	    .used = INT64_MAX };
	return 0;
}

/* Adds a file name to the scan.  Foreign names are ignored. */
static int
take_file(struct qwen_store_scan *sc, const char *name)
{
	struct qwen_store_name n;

	if (qwen_store_name_parse(&n, name) == 0)
		return push_file(sc, &n);
	if (strncmp(name, QWEN_STORE_GONE, strlen(QWEN_STORE_GONE)) == 0)
		return push(&sc->gone, name);
	if (strncmp(name, QWEN_STORE_TEMP, strlen(QWEN_STORE_TEMP)) == 0)
		return push(&sc->temp, name);
	return 0;
}

static int
compare_files(const void *a, const void *b)
{
	const struct qwen_store_file *f = a, *g = b;
	const struct qwen_store_name *p = &f->n, *q = &g->n;
	int c;

	if (p->end != q->end)
		return p->end < q->end ? -1 : 1;
	if ((c = memcmp(&p->hash, &q->hash, sizeof p->hash)) != 0)
		return c;
	if (p->kind != q->kind)
		return p->kind == QWEN_STORE_KV ? -1 : 1;
	if (p->from != q->from)
		return p->from < q->from ? -1 : 1;
	return memcmp(&p->parent, &q->parent, sizeof p->parent);
}

/* Opens the folder again, since closedir() closes the descriptor. */
static DIR *
open_folder(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d;

	if (copy == -1)
		return NULL;
	if ((d = fdopendir(copy)) == NULL)
		close(copy);
	return d;
}

/* Returns the next name; NULL at the end (errno 0) or on errors (errno set). */
static const char *
next_name(DIR *d)
{
	struct dirent *e;

	errno = 0;
	e = readdir(d);
	return e != NULL ? e->d_name : NULL;
}

int
qwen_store_rescan(struct qwen_store_scan *sc, struct qwen_err *err)
{
	DIR *d = open_folder(sc->fd);
	const char *name;
	int r = -1;

	sc->n_file = 0;
	drop(&sc->gone);
	drop(&sc->temp);
	if (d == NULL)
		return qwen_fail_errno(err, "%s", sc->path);
	while ((name = next_name(d)) != NULL) {
		if (take_file(sc, name) < 0) {
			qwen_oom(err);
			goto out;
		}
	}
	if (errno != 0) {
		qwen_fail_errno(err, "%s", sc->path);
		goto out;
	}
	if (sc->n_file > 0)
		qsort(sc->file, sc->n_file, sizeof *sc->file, compare_files);
	r = 0;
out:
	closedir(d);
	return r;
}

/*
 * Returns 1 if a link in the store may be followed: its owner is the owner of
 * the store or this account.  A link of another account could point anywhere.
 */
static int
may_follow(const struct qwen_store *st, int at, const char *name)
{
	struct stat link, dir;

	return fstatat(at, name, &link, AT_SYMLINK_NOFOLLOW) == 0 &&
	    stat(st->dir, &dir) == 0 && (link.st_uid == geteuid() ||
	    link.st_uid == dir.st_uid);
}

/*
 * Opens a folder: 1 and the descriptor in *out; 0 if it does not exist; -1 and
 * *err.
 */
static int
open_in(int *out, const struct qwen_store *st, int at, const char *name,
    int create, const char *path, struct qwen_err *err)
{
	const int how = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	int fd = openat(at, name, how | O_NOFOLLOW);

	if (fd == -1 && errno == ENOENT) {
		if (!create)
			return 0;
		if (mkdirat(at, name, 0777) == 0 || errno == EEXIST)
			fd = openat(at, name, how | O_NOFOLLOW);
	}
	/* it is a link, or not a folder */
	if (fd == -1 && (errno == ELOOP || errno == ENOTDIR)) {
		if (!may_follow(st, at, name))
			return qwen_fail(err, QWEN_EIO,
			    "%s: a link owned by another user", path);
		fd = openat(at, name, how);
	}
	if (fd == -1)
		return qwen_fail_errno(err, "%s", path);
	*out = fd;
	return 1;
}

int
qwen_store_scan(struct qwen_store_scan *sc, const struct qwen_store *st,
    const char *name, int create, struct qwen_err *err)
{
	char *v1 = join(st->dir, "v1");
	int dir = -1, at = -1, r = -1;

	memset(sc, 0, sizeof *sc);
	sc->fd = -1;
	if (v1 == NULL || (sc->path = join(v1, name)) == NULL) {
		qwen_oom(err);
		goto out;
	}
	dir = open(st->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir == -1) {
		r = errno == ENOENT && !create ? 0 : qwen_fail_errno(err, "%s",
		    v1);
		goto out;
	}
	if ((r = open_in(&at, st, dir, "v1", create, v1, err)) == 1)
		r = open_in(&sc->fd, st, at, name, create, sc->path, err);
	if (r == 1 && qwen_store_rescan(sc, err) < 0)
		r = -1;
out:
	if (dir != -1)
		close(dir);
	if (at != -1)
		close(at);
	free(v1);
	return r;
}

void
qwen_store_scan_fini(struct qwen_store_scan *sc)
{
	qwen_store_names_fini(&sc->gone);
	qwen_store_names_fini(&sc->temp);
	free(sc->file);
	free(sc->path);
	if (sc->fd != -1)
		close(sc->fd);
	memset(sc, 0, sizeof *sc);
	sc->fd = -1;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int
qwen_store_models(const struct qwen_store *st, struct qwen_store_names *names,
    struct qwen_err *err)
{
	char *v1 = join(st->dir, "v1");
	struct qwen_header h;
	const char *name;
	DIR *d = NULL;
	int r = 0;

	memset(names, 0, sizeof *names);
	if (v1 == NULL)
		r = qwen_oom(err);
	else if ((d = opendir(v1)) == NULL && errno != ENOENT)
		r = qwen_fail_errno(err, "%s", v1);
	while (d != NULL && r == 0 && (name = next_name(d)) != NULL) {
		if (qwen_store_dir_parse(&h, name) == 0 &&
		    push(names, name) < 0)
			r = qwen_oom(err);
	}
	if (d != NULL && r == 0 && errno != 0)
		r = qwen_fail_errno(err, "%s", v1);
	if (names->n > 0)
		qsort(names->name, names->n, sizeof *names->name, by_name);
	if (d != NULL)
		closedir(d);
	free(v1);
	return r;
}
