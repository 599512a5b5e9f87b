/* SPDX-License-Identifier: ISC */
/*
 * get.c - download a file so that it is right or absent.  A partial file has another
 * name.  Its hash is computed during the download.  The next run hashes the partial
 * file and requests the rest.
 */
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "http.h"

/*
 * So much is written at a time, at multiples of it: as much as Linux keeps pages
 * for on each processor.  TLS gives 16 KiB, for which a file system takes twice as
 * long; and more than this is slower where a virtual machine gives free memory back
 * to its host, which pages beyond these then come from.
 */
enum { PIECE = 32 << 10 };

/* After this many new bytes the count of retries starts again. */
enum { STEP = 1 << 20 };

struct transfer {
	const struct fetch_file *file;
	const struct fetch_paths *place;
	int		 fd;		/* of the partial file */
	int		 lock;		/* or -1 */
	struct fetch_hash *hash;	/* of the bytes up to at */
	uint64_t	 at;		/* bytes that are in the file */
	char		*buf;		/* those that follow */
	size_t		 fill;
	uint64_t	 best;		/* the most that there has been */
	int		 resumed;	/* with bytes of another run or try */
	int		 again;		/* stopped to begin anew */
};

/* Of all files of a model: bytes that come over the network. */
static struct {
	uint64_t	done, todo;
	int		on;
} progress;

static void
end_progress(void)
{
	if (progress.on)
		cli_progress_end();
	progress.on = 0;
	progress.todo -= progress.done;
	progress.done = 0;
}

/* ------------------------------------------------------------------ the bytes */

static int
flush(struct transfer *t)
{
	size_t at = 0;
	ssize_t put;

	fetch_hash_add(t->hash, t->buf, t->fill);
	while (at < t->fill) {
		put = pwrite(t->fd, t->buf + at, t->fill - at,
		    (off_t)(t->at + at));
		if (put == -1 && errno == EINTR)
			continue;
		if (put == -1)
			return fetch_errno(t->place->partial);
		at += (size_t)put;
	}
	t->at += t->fill;
	progress.done += t->fill;
	t->fill = 0;
	cli_progress_bytes(&progress.on, progress.done, progress.todo);
	return 0;
}

/* Discard the partial file and its hash. */
static int
start_over(struct transfer *t)
{
	progress.todo += t->at;
	fetch_hash_free(t->hash);
	t->hash = fetch_hash_new(t->file->hash, t->file->bytes);
	t->at = 0;
	t->fill = 0;
	t->resumed = 0;
	if (ftruncate(t->fd, 0) == -1)
		return fetch_errno(t->place->partial);
	return 0;
}

static int
is_other(const struct fetch_file *f, const struct http_reply *r)
{
	return strlen(r->etag) == strlen(f->hash) &&
	    fetch_is_hex(r->etag, strlen(f->hash)) &&
	    strcmp(r->etag, f->hash) != 0;
}

static int
begin_transfer(void *arg, const struct http_reply *r)
{
	struct transfer *t = arg;
	const struct fetch_file *f = t->file;

	if (is_other(f, r))
		return fetch_fail("%.120s changed since it was listed: try "
		    "again", f->path);
	if (r->status == 206 && (!r->ranged || r->from != t->at ||
	    (r->total > 0 && r->total != f->bytes))) {
		if (t->at == 0)
			return fetch_fail("the server sent another part than "
			    "requested");
		t->again = start_over(t) == 0;
		return -1;
	}
	if (r->status == 200 && t->at > 0 && start_over(t) < 0)
		return -1;
	if (r->length_known && r->length > f->bytes - t->at)
		return fetch_fail("the server has %" PRIu64 " bytes of %.120s, "
		    "but listed %" PRIu64, t->at + r->length, f->path,
		    f->bytes);
	return 0;
}

static int
data(void *arg, const char *p, size_t n)
{
	struct transfer *t = arg;
	size_t room, part;

	if (n > t->file->bytes - t->at - t->fill)
		return fetch_fail("the server sends more than the %" PRIu64 " "
		    "bytes that it listed for %.120s", t->file->bytes,
		    t->file->path);
	for (; n > 0; p += part, n -= part) {
		room = PIECE - (size_t)(t->at % PIECE) - t->fill;
		part = n < room ? n : room;
		memcpy(t->buf + t->fill, p, part);
		t->fill += part;
		if (part == room && flush(t) < 0)
			return -1;
	}
	return 0;
}

/* Request the missing bytes once; the result says whether to try again. */
static enum http_end
ask(struct transfer *t, const struct fetch_repo *r, struct http_reply *reply)
{
	char *url = r->hub->url(r, t->file);
	const struct http_ask a = { .url = url, .repo = r, .from = t->at,
	    .begin = begin_transfer, .data = data, .arg = t };
	struct qwen_err why;
	enum http_end end;

	t->again = 0;
	cli_err.code = 0;
	end = fetch_http(&a, reply);
	why = cli_err;
	free(url);
	if (t->fill > 0 && flush(t) < 0)
		return HTTP_FAILED;
	cli_err = why;
	if (end == HTTP_STOPPED && t->again) {
		fetch_fail("the server sent another part than requested");
		return HTTP_AGAIN;
	}
	if (end != HTTP_DONE)
		return end;
	if (reply->status == 416 && reply->total != t->file->bytes &&
	    reply->total > 0) {
		fetch_fail("the server has %" PRIu64 " bytes of %.120s, but "
		    "listed %" PRIu64, reply->total, t->file->path,
		    t->file->bytes);
		return HTTP_FAILED;
	}
	if (reply->status == 416 && t->at > 0)
		return start_over(t) < 0 ? HTTP_FAILED : HTTP_AGAIN;
	end = fetch_status(r, reply);
	if (end == HTTP_DONE && t->at < t->file->bytes) {
		fetch_fail("%.120s ended after %" PRIu64 " of %" PRIu64 " "
		    "bytes", t->file->path, t->at, t->file->bytes);
		end = HTTP_AGAIN;
	}
	return end;
}

/* Fetch all missing bytes, with retries: 0, or -1 and cli_err. */
static int
transfer(struct transfer *t, const struct fetch_repo *r)
{
	struct http_reply reply;
	int tries = 0;

	while (t->at < t->file->bytes) {
		switch (ask(t, r, &reply)) {
		case HTTP_DONE:
			continue;
		case HTTP_AGAIN:
			break;
		case HTTP_FAILED: case HTTP_STOPPED:
			return -1;
		}
		if (t->at >= t->best + STEP) {
			t->best = t->at;
			tries = 0;
		}
		if (fetch_wait(&tries, &reply) < 0)
			return -1;
		t->resumed = t->at > 0;
	}
	return 0;
}

/* ------------------------------------------------------------------- the files */

/* Lock an open file: 0, or -1 if wait is 0 and another process holds the lock. */
static int
lock(int fd, int wait)
{
	while (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) == -1) {
		if (errno == EWOULDBLOCK)
			return -1;
		/* the file system has no locks: continue without */
		if (errno != EINTR)
			return 0;
	}
	return 0;
}

/* Open and lock a file, which still has this name then; -1 and cli_err. */
static int
open_locked(const char *path, const char *what)
{
	struct stat open_file, named;
	int fd;

	for (;;) {
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
		if (fd == -1)
			return fetch_errno(path);
		if (lock(fd, 0) < 0) {
			cli_note("another process is fetching %s: waiting for "
			    "it",
			    what);
			lock(fd, 1);
		}
		if (fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
		    open_file.st_ino == named.st_ino &&
		    open_file.st_dev == named.st_dev)
			return fd;
		close(fd);
	}
}

/* Open the partial file and hash its bytes. */
static int
open_partial(struct transfer *t)
{
	const struct fetch_paths *p = t->place;
	struct stat st;

	if (fetch_make_folders(p->partial) < 0 ||
	    (p->lock != NULL && fetch_make_folders(p->lock) < 0))
		return -1;
	if (p->lock != NULL && (t->lock = open_locked(p->lock,
	    t->file->path)) == -1)
		return -1;
	t->fd = p->lock == NULL ? open_locked(p->partial, t->file->path) :
	    open(p->partial, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (t->fd == -1)
		return p->lock == NULL ? -1 : fetch_errno(p->partial);
	if (fstat(t->fd, &st) == -1)
		return fetch_errno(p->partial);
	t->hash = fetch_hash_new(t->file->hash, t->file->bytes);
	if (!S_ISREG(st.st_mode))
		return fetch_fail("%s is in the way: it is not a regular file",
		    p->partial);
	if (st.st_size == 0 || (uint64_t)st.st_size > t->file->bytes)
		return start_over(t);
	end_progress();
	if (cli_verbose)
		cli_note("%s: resuming after the %s already fetched",
		    t->file->path, fetch_size((uint64_t)st.st_size));
	t->at = t->best = (uint64_t)st.st_size;
	t->resumed = 1;
	return fetch_hash_file(t->hash, t->fd, p->partial, t->at);
}

/* The path is a link to the blob. */
static int
make_link(const struct fetch_paths *p, uint64_t bytes)
{
	struct stat st;
	char *temp;
	int rc = 0;

	if (p->link == NULL || (stat(p->path, &st) == 0 &&
	    (uint64_t)st.st_size == bytes))
		return 0;
	if (fetch_make_folders(p->path) < 0)
		return -1;
	temp = cli_format("%s.%ld.tmp", p->path, (long)getpid());
	if (symlink(p->link, temp) == 0)
		rc = rename(temp, p->path);
	else	/* no links here: the file itself */
		rc = rename(p->blob, p->path);
	if (rc == -1)
		fetch_errno(p->path);
	unlink(temp);
	free(temp);
	return rc;
}

/* All bytes are there: into its place, if they are the right ones. */
static int
finish(struct transfer *t, int *again)
{
	char sum[FETCH_HASH];
	int right = fetch_hash_is(t->hash, t->file->hash, sum);

	t->hash = NULL;
	if (!right && t->resumed) {
		cli_note("%s: the part fetched earlier is wrong: fetching it "
		    "again", t->file->path);
		*again = 1;
		return start_over(t);
	}
	if (!right) {
		unlink(t->place->partial);
		return fetch_fail("%.100s: removed, since its hash is not the "
		    "listed one: try again", t->file->path);
	}
	if (fsync(t->fd) == -1 || rename(t->place->partial,
	    t->place->blob) == -1)
		return fetch_errno(t->place->blob);
	return make_link(t->place, t->file->bytes);
}

static int
get_locked(struct transfer *t, const struct fetch_repo *r)
{
	int again, there = open_partial(t);

	/* hashing another file shows its own progress */
	if (!t->place->by_hash)
		end_progress();
	if (there == 0)
		there = fetch_there(t->place, t->file);
	if (there == 1) {
		/* another process has fetched it in the meantime */
		if (t->place->lock == NULL || t->at == 0)
			unlink(t->place->partial);
		return make_link(t->place, t->file->bytes);
	}
	do {
		again = 0;
		if (there < 0 || transfer(t, r) < 0 || finish(t, &again) < 0)
			return -1;
	} while (again);
	return 0;
}

static int
get_one(const struct fetch_repo *r, const struct fetch_file *f,
    const struct fetch_paths *p)
{
	struct transfer t = { .file = f, .place = p, .fd = -1, .lock = -1 };
	int rc;

	t.buf = cli_check_alloc(malloc(PIECE));
	rc = get_locked(&t, r);
	if (rc < 0 && t.at > 0 && access(p->partial, F_OK) == 0)
		cli_note("%s: fetched %s of %s; the same command resumes",
		    f->path, fetch_size(t.at),
		    fetch_size(f->bytes));
	fetch_hash_free(t.hash);
	free(t.buf);
	if (t.fd != -1)
		close(t.fd);
	if (t.lock != -1)
		close(t.lock);
	return rc;
}

/* Whether the file system of a path has room for this many more bytes. */
static int
has_room(const char *path, uint64_t bytes)
{
	char *folder = cli_check_alloc(strdup(path)), *slash;
	struct statvfs fs;
	uint64_t room;
	int rc = 0, found;

	/* the folder, or the one above that exists */
	do {
		if ((slash = strrchr(folder, '/')) == NULL)
			strcpy(folder, ".");
		else
			slash[slash == folder] = '\0';
	} while ((found = statvfs(folder, &fs)) == -1 && slash != NULL &&
	    slash != folder);
	if (found == 0) {
		room = (uint64_t)fs.f_bavail * fs.f_frsize;
		/* file systems need some for themselves */
		if (room < bytes || room - bytes < bytes / 20)
			rc = fetch_fail("%.100s has %s free, but %s are "
			    "needed: make room, or name another folder with "
			    "--to", strcmp(folder, ".") == 0 ? "this folder" :
			    folder, fetch_size(room),
			    fetch_size(bytes + bytes / 20));
	}
	free(folder);
	return rc;
}

int
fetch_get(const struct fetch_repo *r, const struct fetch_file *const *v,
    size_t n)
{
	struct fetch_paths *p = cli_check_alloc(calloc(n + 1, sizeof *p));
	int *there = cli_check_alloc(calloc(n + 1, sizeof *there)), rc = 0;
	struct stat st;
	size_t i;

	memset(&progress, 0, sizeof progress);
	for (i = 0; i < n && rc >= 0; i++) {
		fetch_paths(&p[i], r, v[i]);
		if ((there[i] = rc = fetch_there(&p[i], v[i])) != 0)
			continue;
		progress.todo += v[i]->bytes;
		if (stat(p[i].partial, &st) == 0 && st.st_size > 0 &&
		    (uint64_t)st.st_size <= v[i]->bytes)
			progress.todo -= (uint64_t)st.st_size;
	}
	if (rc >= 0)
		rc = progress.todo > 0 ? has_room(p[0].partial,
		    progress.todo) : 0;
	for (i = 0; i < n && rc == 0; i++)
		rc = there[i] ? make_link(&p[i], v[i]->bytes) :
		    get_one(r, v[i], &p[i]);
	end_progress();
	for (i = 0; i < n; i++)
		fetch_paths_fini(&p[i]);
	free(p);
	free(there);
	return rc;
}
