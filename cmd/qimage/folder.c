/* SPDX-License-Identifier: ISC */
/*
 * folder.c - a folder of encoded images.
 *
 * The name of a file is KEY-SUM.cbor: the key of the image, and a checksum of
 * the file, since streams have none.  The time of its last use is its mtime.  A
 * reader has a file open before it uses it, so it loses nothing if another
 * process removes the file.
 */
#define _GNU_SOURCE	/* O_DIRECTORY */

#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/disk.h"
#include "base/err.h"
#include "base/tmpfile.h"
#include "qimage.h"

#define DRAFT ".tmp-"
#define SUFFIX ".cbor"

enum {
	DIGITS = 32,		/* of a key and of a checksum */
	NAME = 2 * DIGITS + 1 + sizeof SUFFIX,
	BLOCK = 1 << 16,	/* bytes that are read at a time */
};

struct entry {
	char	 name[NAME];
	uint64_t bytes;
	int64_t	 used;		/* ns since 1970 */
};

struct qimage_folder {
	const char	*dir;
	int		 fd;		/* -1: it cannot be used */
	uint64_t	 max;		/* of a file; 0: no limit */
	int		 by_disk;	/* the limit depends on the disk */
	int		 noted;		/* an error was printed */
	struct entry	*v;		/* the files, by name */
	size_t		 n, cap;
};

/* Prints an error, once. */
static void
note(struct qimage_folder *f, const char *what, const char *why)
{
	if (!f->noted)
		cli_note("images %s: %s: %s", f->dir, what, why);
	f->noted = 1;
}

/* -------------------------------------------------------------------- names */

/* Sets *out to the hash of what st was given, and frees st. */
static void
finish(XXH3_state_t *st, struct qwen_fp *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(st));
	memcpy(out->b, c.digest, sizeof out->b);
	XXH3_freeState(st);
}

static int
is_ours(const char *name)
{
	const char hex[] = "0123456789abcdef";

	return strspn(name, hex) == DIGITS && name[DIGITS] == '-' &&
	    strspn(name + DIGITS + 1, hex) == DIGITS &&
	    strcmp(name + 2 * DIGITS + 1, SUFFIX) == 0;
}

static int
by_name(const void *a, const void *b)
{
	return strcmp(((const struct entry *)a)->name,
	    ((const struct entry *)b)->name);
}

/* Lists the files, and removes what killed processes left: 0, or -1. */
static int
list(struct qimage_folder *f)
{
	int fd = openat(f->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd == -1 ? NULL : fdopendir(fd);
	struct dirent *e;

	f->n = 0;
	if (d == NULL) {
		note(f, "not read", strerror(errno));
		if (fd != -1)
			close(fd);
		return -1;
	}
	while ((e = readdir(d)) != NULL) {
		if (strncmp(e->d_name, DRAFT, sizeof DRAFT - 1) == 0)
			qwen_tmpfile_sweep(f->fd, e->d_name);
		if (!is_ours(e->d_name))
			continue;
		cli_grow(&f->v, &f->cap, f->n + 1, sizeof *f->v);
		f->v[f->n] = (struct entry){ .bytes = 0 };
		memcpy(f->v[f->n++].name, e->d_name, NAME);
	}
	closedir(d);
	if (f->n > 0)
		qsort(f->v, f->n, sizeof *f->v, by_name);
	return 0;
}

struct qimage_folder *
qimage_folder_open(const char *dir, uint64_t max)
{
	struct qimage_folder *f = cli_check_alloc(calloc(1, sizeof *f));
	uint64_t room;

	f->dir = dir;
	f->by_disk = max == 0;
	f->max = max == TOOL_STORE_UNLIMITED ? 0 : max;
	/* images are private; a folder that exists keeps its mode */
	if (mkdir(dir, 0700) == -1 && errno != EEXIST)
		note(f, "not used", strerror(errno));
	f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->fd == -1)
		note(f, "not used", strerror(errno));
	else
		list(f);
	if (f->by_disk && qwen_disk_share(dir, &f->max, &room) < 0)
		f->max = 0;
	return f;
}

void
qimage_folder_close(struct qimage_folder *f)
{
	if (f == NULL)
		return;
	if (f->fd != -1)
		close(f->fd);
	free(f->v);
	free(f);
}

void
qimage_key(struct qwen_fp *key, const struct qwen_vision *v,
    const struct qwen_image_limits *limits, const void *p, size_t n)
{
	XXH3_state_t *st = cli_check_alloc(XXH3_createState());
	const uint32_t what[] = { QWEN_VISION_VERSION, limits->min_tokens,
	    limits->max_tokens };
	const struct qwen_fp *fp = &qwen_vision_info(v)->fp;
	unsigned char head[sizeof what];
	size_t i;

	for (i = 0; i < sizeof head; i++)
		head[i] = (unsigned char)(what[i / 4] >> 8 * (i % 4));
	XXH3_128bits_reset(st);
	XXH3_128bits_update(st, head, sizeof head);
	XXH3_128bits_update(st, fp->b, sizeof fp->b);
	XXH3_128bits_update(st, p, n);
	finish(st, key);
}

/* ------------------------------------------------------------------ reading */

/* Sets sum to the checksum of an open file, and returns to its begin. */
static int
checksum(int fd, char sum[DIGITS + 1], struct qwen_err *err)
{
	XXH3_state_t *st = cli_check_alloc(XXH3_createState());
	unsigned char *buf = cli_check_alloc(malloc(BLOCK));
	struct qwen_fp fp;
	ssize_t n;

	XXH3_128bits_reset(st);
	lseek(fd, 0, SEEK_SET);
	while ((n = read(fd, buf, BLOCK)) > 0)
		XXH3_128bits_update(st, buf, (size_t)n);
	finish(st, &fp);
	qwen_fp_hex(&fp, sum);
	free(buf);
	if (n == -1 || lseek(fd, 0, SEEK_SET) == -1)
		return qwen_fail_errno(err, "read");
	return 0;
}

static int
open_reader(struct qwen_reader **r, int fd, struct qwen_err *err)
{
	const struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS,
	    .spans = 1 };

	return qwen_reader_open(r, fd, &o, err);
}

/* Reads a stream: sets the span, of which there must be one with all rows. */
static int
read_span(int fd, size_t n_row, struct qwen_span *span, struct qwen_err *err)
{
	struct qwen_reader *r;
	struct qwen_record rec;
	uint64_t n = 0, n_spans = 0;
	int got;

	if (open_reader(&r, fd, err) < 0)
		return -1;
	while ((got = qwen_reader_next(r, &rec, err)) > 0) {
		if (rec.kind == QWEN_REC_SPAN) {
			*span = *qwen_reader_span(r);
			n_spans++;
		} else if (rec.kind == QWEN_REC_ROWS)
			n += rec.n;
	}
	qwen_reader_close(r);
	if (got < 0)
		return -1;
	if (n_spans != 1 || n != span->n * n_row)
		return qwen_fail(err, QWEN_EFORMAT, "not the rows of one image");
	lseek(fd, 0, SEEK_SET);
	return 0;
}

/* Checks an open file against its name, and sets the span: 0 or -1. */
static int
check(int fd, const char *name, size_t n_row, struct qwen_span *span,
    struct qwen_err *err)
{
	char sum[DIGITS + 1];
	struct stat st;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode))
		return qwen_fail(err, QWEN_EIO, "not a regular file");
	if (checksum(fd, sum, err) < 0)
		return -1;
	if (memcmp(sum, name + DIGITS + 1, DIGITS) != 0)
		return qwen_fail(err, QWEN_EFORMAT, "damaged");
	return read_span(fd, n_row, span, err);
}

int
qimage_folder_find(struct qimage_folder *f, const struct qwen_fp *key,
    const struct qwen_vision *v, struct qwen_span *span)
{
	char hex[DIGITS + 1];
	struct qwen_err err;
	const char *name;
	size_t low = 0, high = f->n, i;
	int fd;

	qwen_fp_hex(key, hex);
	while (low < high) {
		i = low + (high - low) / 2;
		if (strncmp(f->v[i].name, hex, DIGITS) < 0)
			low = i + 1;
		else
			high = i;
	}
	for (; low < f->n; low++) {
		name = f->v[low].name;
		if (strncmp(name, hex, DIGITS) != 0)
			break;
		fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
		    O_NONBLOCK);
		if (fd == -1)
			continue;
		if (check(fd, name, qwen_vision_info(v)->n_row, span,
		    &err) == 0) {
			futimens(fd, NULL);	/* its last use */
			return fd;
		}
		close(fd);
		cli_note("images %s: %s: %s: the image is encoded again",
		    f->dir, name, err.msg);
		unlinkat(f->fd, name, 0);
	}
	return -1;
}

void
qimage_folder_copy(int fd, struct qwen_writer *w)
{
	struct qwen_reader *r;
	struct qwen_record rec;

	cli_must("--images", open_reader(&r, fd, &cli_err));
	while (cli_must("--images", qwen_reader_next(r, &rec, &cli_err)) > 0) {
		if (rec.kind == QWEN_REC_ROWS)
			cli_must("stdout", qwen_write_rows(w, &rec.fp,
			    rec.logits, rec.n, &cli_err));
	}
	qwen_reader_close(r);
}

/* ------------------------------------------------------------------ writing */

static int
stat_entry(const struct qimage_folder *f, struct entry *e)
{
	struct stat st;

	if (fstatat(f->fd, e->name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return -1;
	e->bytes = (uint64_t)st.st_size;
	e->used = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

static int
by_use(const void *a, const void *b)
{
	const struct entry *p = a, *q = b;

	return p->used != q->used ? (p->used > q->used) - (p->used < q->used) :
	    by_name(a, b);
}

/* Removes the least recently used files until the limit holds. */
static void
sweep(struct qimage_folder *f)
{
	uint64_t total = 0, max;
	struct entry now;
	size_t i;

	if (list(f) < 0)
		return;
	for (i = 0; i < f->n; i++) {
		if (stat_entry(f, &f->v[i]) == 0)
			total += f->v[i].bytes;
	}
	max = f->by_disk ? qwen_disk_limit(f->dir, total) : f->max;
	if (max == 0 || total <= max)
		return;
	qsort(f->v, f->n, sizeof *f->v, by_use);
	for (i = 0; i < f->n && total > max; i++) {
		now = f->v[i];
		/* another process has used it meanwhile */
		if (stat_entry(f, &now) == 0 && now.used != f->v[i].used)
			continue;
		if (unlinkat(f->fd, now.name, 0) == -1 && errno != ENOENT)
			note(f, "not removed", strerror(errno));
		else
			total -= f->v[i].bytes;
	}
	qsort(f->v, f->n, sizeof *f->v, by_name);
}

/* Writes the stream of an image to an open file. */
static int
write_stream(int fd, const struct qwen_header *h, const struct qwen_span *span,
    const float *rows, size_t n, struct qwen_err *err)
{
	struct qwen_writer *w;

	if (qwen_writer_open(&w, fd, NULL, err) < 0)
		return -1;
	if (qwen_write_header(w, h, err) < 0 ||
	    qwen_write_span(w, span, err) < 0 ||
	    qwen_write_rows(w, &span->hash, rows, n, err) < 0) {
		qwen_writer_free(w);
		return -1;
	}
	return qwen_writer_close(w, err);
}

void
qimage_folder_add(struct qimage_folder *f, const struct qwen_fp *key,
    const struct qwen_header *h, const struct qwen_span *span,
    const float *rows, size_t n)
{
	char hex[DIGITS + 1], sum[DIGITS + 1], temp[NAME], name[NAME];
	struct qwen_tmpfile d = { .dir = f->fd, .temp = temp, .name = name };
	struct qwen_err err;
	int got;

	if (f->fd == -1)
		return;
	if (f->max > 0 && n > f->max / sizeof *rows) {
		note(f, "not written", "an image exceeds the limit");
		return;
	}
	qwen_fp_hex(key, hex);
	snprintf(temp, sizeof temp, DRAFT "%s", hex);
	if ((got = qwen_tmpfile_open(&d, 0666, &err)) < 0)
		note(f, "not written", err.msg);
	if (got <= 0)
		return;		/* 0: another process is writing the same */
	if (write_stream(d.fd, h, span, rows, n, &err) < 0 ||
	    checksum(d.fd, sum, &err) < 0) {
		note(f, "not written", err.msg);
		qwen_tmpfile_drop(&d);
		return;
	}
	snprintf(name, sizeof name, "%s-%s" SUFFIX, hex, sum);
	if (qwen_tmpfile_commit(&d) == -1) {
		note(f, "not written", strerror(errno));
		qwen_tmpfile_drop(&d);
		return;
	}
	close(d.fd);
	sweep(f);
}
