/* SPDX-License-Identifier: ISC */
/* tmpfile.c - files that are complete or absent: obstacles to a draft. */
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tap.h"
#include "../tree.h"
#include "base/tmpfile.h"

static char temp[] = ".x.tmp", name[] = "x";
static struct qwen_tmpfile d = { .temp = temp, .name = name };
static struct qwen_err err;

/* A file of this content. */
static void
put(const char *path, const char *text)
{
	int fd = openat(d.dir, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd == -1 || write(fd, text, strlen(text)) < 0)
		abort();
	close(fd);
}

/* Whether a file has this content; NULL: there is none. */
static int
has(const char *path, const char *text)
{
	int fd = openat(d.dir, path, O_RDONLY | O_NOFOLLOW);
	char got[64];
	ssize_t n;

	if (fd == -1)
		return text == NULL;
	n = read(fd, got, sizeof got);
	close(fd);
	return text != NULL && n == (ssize_t)strlen(text) &&
	    memcmp(got, text, (size_t)n) == 0;
}

/* What another process gets: locks are between those. */
static int
elsewhere(int (*f)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(f());
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int
is_in_use(void)
{
	return qwen_tmpfile_in_use(d.dir, temp);
}

static int
open_another(void)
{
	struct qwen_tmpfile other = d;

	return qwen_tmpfile_open(&other, 0600, &err);
}

static void
test_life(void)
{
	struct stat st;

	put(name, "old");
	put(temp, "left by one that was killed");
	ok(elsewhere(is_in_use) == 0, "what is left is not in use");
	ok(qwen_tmpfile_open(&d, 0600, &err) == 1 && fstat(d.fd, &st) == 0 &&
	    st.st_size == 0 && (st.st_mode & 07777) == 0600,
	    "it gives way to a new file");
	ok(elsewhere(is_in_use) == 1 && elsewhere(open_another) == 0,
	    "that is in use, and no one else's");
	ok(write(d.fd, "new", 3) == 3 && has(name, "old"),
	    "while it is written, there is what there was");
	ok(qwen_tmpfile_commit(&d) == 0 && has(name, "new") && has(temp, NULL),
	    "then it is in its place");
	close(d.fd);
	if (qwen_tmpfile_open(&d, 0600, &err) != 1)
		abort();
	qwen_tmpfile_drop(&d);
	ok(d.fd == -1 && has(temp, NULL) && has(name, "new"),
	    "one that is dropped leaves nothing");
}

/* Somebody removes the draft, and has another file of that name. */
static void
test_taken(void)
{
	if (qwen_tmpfile_open(&d, 0600, &err) != 1)
		abort();
	unlinkat(d.dir, temp, 0);
	put(temp, "another's");
	errno = 0;
	ok(qwen_tmpfile_commit(&d) == -1 && errno == ENOENT && has(name, "new"),
	    "a draft that is gone is not committed");
	qwen_tmpfile_drop(&d);
	ok(has(temp, "another's"), "nor is another's file dropped");
	unlinkat(d.dir, temp, 0);
}

static void
test_in_the_way(void)
{
	put("victim", "precious");
	if (symlinkat("victim", d.dir, temp) == -1)
		abort();
	ok(qwen_tmpfile_open(&d, 0600, &err) == -1 && has("victim", "precious"),
	    "a link: %s", err.msg);
	unlinkat(d.dir, temp, 0);
	if (mkdirat(d.dir, temp, 0700) == -1)
		abort();
	ok(qwen_tmpfile_open(&d, 0600, &err) == -1, "a folder: %s", err.msg);
	unlinkat(d.dir, temp, AT_REMOVEDIR);
	if (linkat(d.dir, "victim", d.dir, temp, 0) == -1)
		abort();
	ok(qwen_tmpfile_open(&d, 0600, &err) == 1 && write(d.fd, "x", 1) == 1 &&
	    has("victim", "precious"), "another name of a file is taken off it");
	qwen_tmpfile_drop(&d);
}

int
main(void)
{
	const char *tmp = getenv("TMPDIR");
	char dir[1024];

	snprintf(dir, sizeof dir, "%s/qpipe-draft-XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL || (d.dir = open(dir, O_RDONLY)) == -1)
		return 1;
	test_life();
	test_taken();
	test_in_the_way();
	close(d.dir);
	remove_tree(dir);
	return done_testing();
}
