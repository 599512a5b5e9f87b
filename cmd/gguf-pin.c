/* SPDX-License-Identifier: ISC */
/*
 * gguf-pin.c - bring a model into memory in huge pages, so that a process that
 * maps it has one page fault per 2 MiB.
 *
 * In place: drop the file's pages from the page cache and read them again
 * through a mapping that asks for huge pages.  With -o: copy the file to a
 * tmpfs that is mounted with huge=always.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "tool/tool.h"

static struct {
	const char	*dir;		/* NULL: in place */
	int		 unpin;
} opt;

static const struct cli_opt options[] = {
	CLI_GROUP("options:"),
	CLI_FILE('o', "output", "dir", &opt.dir, "folder",
	    "copy the model to this folder of a tmpfs"),
	CLI_FLAG(0, "unpin", &opt.unpin, "undo an earlier gguf-pin"),
	CLI_END,
};

static const struct cli_tool tool = {
	.name = "gguf-pin", .about = "keep a model in memory in huge pages",
	.usage = "[options] [model]", .options = options, .max = 1,
	.completes = "file gguf",
};

static const size_t huge_page = (size_t)2 << 20;
static const size_t piece = (size_t)8 << 20;	/* bytes per read and write */
static const uint64_t spare = (uint64_t)256 << 20;	/* memory left to
							   others, in bytes */

/* A file of the model. */
struct model_file {
	char		*path;		/* of the original */
	char		*copy;		/* of its copy, or NULL */
	size_t		 bytes;
};

struct model_files {
	struct model_file	*v;
	size_t		 n;
	uint64_t	 bytes;
};

static double
gib(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

/* ---------------------------------------------------------------- the files */

static int
open_part(const char *path, struct stat *st)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd == -1 || fstat(fd, st) == -1)
		die("%s: %s", path, strerror(errno));
	if (!S_ISREG(st->st_mode))
		die("%s: not a regular file", path);
	return fd;
}

/* Open the model and list all its files. */
static void
list_parts(struct model_files *l, const char *model)
{
	struct qwen_gguf *g = tool_gguf_open(model);
	struct stat st;
	size_t i;

	l->n = qwen_gguf_n_shards(g);
	l->v = cli_check_alloc(calloc(l->n, sizeof *l->v));
	for (i = 0; i < l->n; i++) {
		l->v[i].path = cli_format("%s", qwen_gguf_path(g, (unsigned)i));
		close(open_part(l->v[i].path, &st));
		l->v[i].bytes = (size_t)st.st_size;
		l->bytes += l->v[i].bytes;
		if (opt.dir != NULL) {
			l->v[i].copy = cli_format("%s/%s", opt.dir,
			    qwen_base_name(l->v[i].path));
			if (cli_same_file(l->v[i].path, l->v[i].copy))
				cli_usage("-o %s: the model itself is in this "
				    "folder", opt.dir);
		}
	}
	qwen_gguf_close(g);
}

/* ---------------------------------------------------------- memory and room */

/* Return the bytes of files mapped in huge pages by this process, or -1. */
static int64_t
huge_mapped(void)
{
	static const char maps[] = "/proc/self/smaps_rollup";
	uint64_t file = qwen_number_in("", maps, "FilePmdMapped:", UINT64_MAX);
	uint64_t shmem = qwen_number_in("", maps, "ShmemPmdMapped:",
	    UINT64_MAX);

	return file == UINT64_MAX || shmem == UINT64_MAX ? -1 :
	    (int64_t)(file + shmem) * 1024;
}

/* ------------------------------------------------------------------ reading */

/*
 * Touch a file through a mapping that asks for huge pages; that reads what is
 * not in memory yet.  Return how many bytes were mapped in huge pages; -1 if
 * unknown.
 */
static int64_t
touch(int fd, const char *path, size_t bytes)
{
	int64_t before = huge_mapped(), after;
	const volatile unsigned char *p;
	void *map;
	size_t i;

	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("%s: cannot map: %s", path, errno == ENOMEM ?
		    "out of memory" : strerror(errno));
#ifdef MADV_HUGEPAGE
	(void)madvise(map, bytes, MADV_HUGEPAGE);
#endif
	for (p = map, i = 0; i < bytes; i += 4096)
		(void)p[i];
	after = huge_mapped();
	munmap(map, bytes);
	return before < 0 || after < 0 ? -1 : after - before;
}

/*
 * Return 1 if at least 99 % of a file is in huge pages, or if that is unknown.
 */
static int
is_huge(int64_t got, size_t bytes)
{
	return got < 0 || (uint64_t)got >=
	    (bytes - bytes % huge_page) / 100 * 99;
}

static void
report_file(const char *path, size_t bytes, int64_t got)
{
	if (!cli_verbose)
		return;
	if (got < 0)
		cli_note("%s: %.2f GiB in memory", path, gib(bytes));
	else
		cli_note("%s: %.2f GiB in memory, %.2f in huge pages", path,
		    gib(bytes), gib((uint64_t)got));
}

/* ----------------------------------------------------------------- in place */

/*
 * Drop a file's pages from the page cache.  Pages that other processes have
 * mapped stay; the file is synced first, since dirty pages would stay too.
 */
static void
drop(int fd)
{
	(void)fsync(fd);
	(void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void
pin_in_place(const struct model_file *p)
{
	struct stat st;
	int fd = open_part(p->path, &st);
	int64_t got = touch(fd, p->path, p->bytes);

	if (!is_huge(got, p->bytes)) {
		drop(fd);
		got = touch(fd, p->path, p->bytes);
	}
	close(fd);
	report_file(p->path, p->bytes, got);
	if (!is_huge(got, p->bytes))
		cli_note("%s: only %.2f of %.2f GiB are in huge pages: the "
		    "file system has none, or other processes are using the "
		    "model; see -o",
		    p->path, gib((uint64_t)got), gib(p->bytes));
}

/* ------------------------------------------------------------------- copies */

/*
 * Copy all of a file, which must not shrink meanwhile.  done: bytes of the
 * files copied before, for the progress line.
 */
static void
copy_bytes(const struct model_file *p, int to, uint64_t done)
{
	struct qwen_text t = { .s = cli_check_alloc(malloc(piece)) };
	size_t at = 0;
	struct stat st;
	int fd = open_part(p->path, &st);

	for (; at < p->bytes; at += t.n) {
		if ((t.n = cli_read(fd, p->path, t.s, piece)) == 0)
			die("%s: the file became shorter", p->path);
		cli_write_all(to, p->copy, &t);
		cli_progress((done + at) >> 20);
	}
	free(t.s);
	close(fd);
}

static void
pin_copy(const struct model_file *p, uint64_t done)
{
	struct cli_output *o = cli_output_open(p->copy);
	int64_t got;

	copy_bytes(p, cli_output_fd(o), done);
	got = touch(cli_output_fd(o), p->copy, p->bytes);
	if (!is_huge(got, p->bytes))
		die("%s: a copy there would be in small pages, without gain: "
		    "mount a tmpfs with -o huge=always, see gguf-pin(1)",
		    opt.dir);
	cli_output_commit(o);
	report_file(p->copy, p->bytes, got);
}

/* --------------------------------------------------------------------- main */

static void
unpin(const struct model_file *p)
{
	struct stat st;
	int fd;

	if (p->copy != NULL) {
		if (unlink(p->copy) == -1)
			warn("%s: %s", p->copy, strerror(errno));
		return;
	}
	fd = open_part(p->path, &st);
	drop(fd);
	close(fd);
}

/* Pin all files, the first one last: once it exists, all the others do. */
static void
pin(const struct model_files *l)
{
	uint64_t done = 0, have = qwen_number_in("/proc", "/meminfo",
	    "MemAvailable:", UINT64_MAX);
	struct statvfs v;
	size_t i;

	if (have != UINT64_MAX && l->bytes + spare > have * 1024)
		die("the model has %.1f GiB, but only %.1f GiB of memory are "
		    "available: end other programs, unpin other models, or do "
		    "not pin it", gib(l->bytes), gib(have * 1024));
	/* older copies take room until they are replaced */
	if (opt.dir != NULL && statvfs(opt.dir, &v) == -1)
		die("%s: %s", opt.dir, strerror(errno));
	if (opt.dir != NULL && l->bytes / v.f_frsize + 1 > v.f_bavail)
		die("%s: has room for %.1f GiB, the model has %.1f: mount it "
		    "with a larger size=, or remove files there", opt.dir,
		    gib((uint64_t)v.f_bavail * v.f_frsize), gib(l->bytes));
	if (opt.dir != NULL)
		cli_progress_start("MiB", l->bytes >> 20);
	for (i = l->n; i-- > 0; done += l->v[i].bytes) {
		if (opt.dir != NULL)
			pin_copy(&l->v[i], done);
		else
			pin_in_place(&l->v[i]);
	}
	cli_progress_end();
	puts(opt.dir != NULL ? l->v[0].copy : l->v[0].path);
}

int
main(int argc, char *argv[])
{
	static struct model_files parts;
	size_t i;

	cli_begin(&tool, argc, argv);
	list_parts(&parts, tool_model_path(argv[1]));
	for (i = 0; opt.unpin && i < parts.n; i++)
		unpin(&parts.v[i]);
	if (!opt.unpin)
		pin(&parts);
	return cli_finish();
}
