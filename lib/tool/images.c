/* SPDX-License-Identifier: ISC */
/* images.c - images of requests: their bytes, qimage, and what it writes. */
#define _GNU_SOURCE	/* memfd_create */
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "models/models.h"
#include "tool/images.h"

enum { SAID_MAX = 4096 };	/* bytes of qimage's errors */

void
tool_image_folder(struct tool_qimage *q, const struct tool_store *at)
{
	if (q->folder == NULL && at->dir != NULL) {
		q->folder = cli_format("%s/images", at->dir);
		q->in_store = 1;
	}
	if (q->folder == NULL && q->folder_max > 0)
		cli_usage("--images-max needs --images or --store");
}

int
tool_image_encoder(const char *mmproj, const char *model)
{
	char *found = NULL;
	int is = mmproj != NULL;

	if (!is && qwen_models_projector(&found, model, &cli_err) < 0)
		cli_note("%s: reads no images: %s", model, cli_err.msg);
	is |= found != NULL;
	free(found);
	return is;
}

/* ------------------------------------------------------------------- places */

int32_t
tool_image_pad(const struct qwen_tok *tok)
{
	static const char pad[] = "<|image_pad|>";
	int32_t *ids, id;
	size_t n;

	cli_must(NULL, qwen_tok_encode(tok, pad, sizeof pad - 1,
	    QWEN_TOK_SPECIAL, &ids, &n, &cli_err));
	id = n == 1 ? ids[0] : -1;
	free(ids);
	return id;
}

int
tool_images_place(struct qwen_ids *ids, int32_t pad, struct qwen_span *span,
    size_t n, struct qwen_err *err)
{
	size_t i, k, at = 0, next = 0, all = ids->n;
	int32_t *id;

	for (i = k = 0; i < ids->n; i++)
		k += ids->id[i] == pad;
	if (k != n)
		return qwen_fail(err, QWEN_EMISMATCH, "the prompt has %zu "
		    "places for %zu images", k, n);
	for (i = 0; i < n; i++)
		all += (size_t)span[i].n - 1;
	if ((id = qwen_alloc(all + 1, sizeof *id)) == NULL)
		return qwen_oom(err);
	for (i = 0; i < ids->n; i++) {
		if (ids->id[i] != pad) {
			id[at++] = ids->id[i];
			continue;
		}
		span[next].start = at;
		for (k = 0; k < span[next].n; k++)
			id[at++] = qwen_span_id(&span[next], k);
		next++;
	}
	free(ids->id);
	*ids = (struct qwen_ids){ id, at };
	return 0;
}

/* -------------------------------------------------------------------- files */

int
tool_image_file(struct qwen_err *err)
{
#ifdef MFD_CLOEXEC
	int fd = memfd_create("image", MFD_CLOEXEC);
#else
	char path[PATH_MAX];
	int fd = cli_temporary("qwen-image", path, sizeof path);

	unlink(path);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
#endif
	return fd != -1 ? fd : qwen_fail_errno(err, "a temporary file");
}

int
tool_image_bytes(const char *s, size_t n, struct qwen_err *err)
{
	int fd = tool_image_file(err);
	ssize_t got = 0;

	for (; fd != -1 && n > 0; s += got, n -= (size_t)got) {
		while ((got = write(fd, s, n)) == -1 && errno == EINTR)
			;
		if (got > 0)
			continue;
		qwen_fail_errno(err, "a temporary file");
		close(fd);
		return -1;
	}
	if (fd != -1)
		lseek(fd, 0, SEEK_SET);
	return fd;
}

/*
 * Opens a file below the folder dir.  No component may be ".." or a symbolic
 * link, so the file is there whoever changes the folder meanwhile.
 */
static int
open_below(const char *dir, const char *path)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;
	char *name, *rest, *all = cli_format("%s", path), *at = all;

	while (fd != -1 && (name = strtok_r(at, "/", &rest)) != NULL) {
		at = NULL;
		errno = EACCES;
		next = strcmp(name, "..") == 0 ? -1 : openat(fd, name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	free(all);
	return fd;
}

static int
open_path(const char *dir, const char *path, struct qwen_err *err)
{
	size_t n = strlen(dir);
	struct stat st;
	int fd;

	/* a path that begins with the folder's name is the same file */
	if (path[0] == '/' && strncmp(path, dir, n) == 0 &&
	    (path[n] == '/' || dir[n - 1] == '/'))
		path += n;
	else if (path[0] == '/')
		return qwen_fail(err, QWEN_EUNSUP, "%.120s is not below the "
		    "folder of --image-dir", path);
	if ((fd = open_below(dir, path)) == -1)
		return qwen_fail(err, QWEN_EUNSUP, "%.120s: %s", path,
		    errno == EACCES || errno == ELOOP ? "not a file below the "
		    "folder of --image-dir" : strerror(errno));
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return qwen_fail(err, QWEN_EFORMAT, "%.120s: not a regular file", path);
}

int
tool_image_open(const struct qwen_image_source *src, const char *dir,
    struct qwen_err *err)
{
	if (src->kind == QWEN_SOURCE_BYTES)
		return tool_image_bytes(src->s, src->n, err);
	if (src->kind == QWEN_SOURCE_PATH && dir != NULL)
		return open_path(dir, src->s, err);
	return src->kind == QWEN_SOURCE_NONE ? qwen_fail(err, QWEN_EFORMAT,
	    "the part has no image") : src->kind == QWEN_SOURCE_PATH ?
	    qwen_fail(err, QWEN_EUNSUP, "names of files are refused: send a "
	    "data: URL, or use --image-dir") : qwen_fail(err, QWEN_EUNSUP,
	    "http: and https: URLs are refused: send a data: URL, or use "
	    "--image-url of qserve");
}

/* ------------------------------------------------------------------- qimage */

/* In the child process: connect the descriptors, and run qimage. */
static void
run_qimage(const struct tool_qimage *q, char *const *argv, const int fd[3])
{
	int i;

	if (q->apart)
		setpgid(0, 0);
	signal(SIGPIPE, SIG_DFL);
	for (i = 0; i < 3; i++) {
		if (fd[i] != -1 && dup2(fd[i], i) == -1)
			_exit(126);
	}
	if (q->before != NULL)
		q->before(q->arg);
	execvp(argv[0], argv);
	_exit(127);
}

pid_t
tool_qimage_start(const struct tool_qimage *q, const char *const *operand,
    size_t n, const int fd[3], struct qwen_err *err)
{
	struct cli_list l = { 0 };
	pid_t pid;
	size_t i;

	cli_grow(&l.v, &l.cap, n + 17, sizeof *l.v);
	l.v[l.n++] = tool_sibling_path("qimage");
	l.v[l.n++] = "-m";
	l.v[l.n++] = q->model;
	if (q->mmproj != NULL) {
		l.v[l.n++] = "--mmproj";
		l.v[l.n++] = q->mmproj;
	}
	if (q->max_tokens > 0) {
		l.v[l.n++] = "--max-tokens";
		l.v[l.n++] = cli_format("%u", q->max_tokens);
	}
	if (q->n_threads > 0) {
		l.v[l.n++] = "-t";
		l.v[l.n++] = cli_format("%d", q->n_threads);
	}
	if (q->folder != NULL) {
		l.v[l.n++] = "--images";
		l.v[l.n++] = q->folder;
	}
	if (q->folder != NULL && q->folder_max > 0) {
		l.v[l.n++] = "--images-max";
		l.v[l.n++] = q->folder_max == TOOL_STORE_UNLIMITED ? "none" :
		    cli_format("%llu", cli_llu(q->folder_max));
	}
	if (q->no_rows)
		l.v[l.n++] = "--no-rows";
	if (cli_quiet || fd[2] != -1)
		l.v[l.n++] = "-q";
	l.v[l.n++] = "--";
	for (i = 0; i < n; i++)
		l.v[l.n++] = operand[i];
	l.v[l.n] = NULL;
	/* with the mode of the store's own folders */
	if (q->in_store)
		(void)!mkdir(q->folder, 0777);
	fflush(stdout);
	if ((pid = fork()) == 0)
		run_qimage(q, (char *const *)(uintptr_t)l.v, fd);
	/* here too: whichever process comes first */
	if (pid > 0 && q->apart)
		setpgid(pid, pid);
	free(l.v);
	return pid != -1 ? pid : qwen_fail_errno(err, "cannot start qimage");
}

int
tool_qimage_ended(int status, const char *said, struct qwen_err *err)
{
	static const char name[] = "qimage: ", in[] = "stdin: ";
	int code = QWEN_EIO;
	size_t n;

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return qwen_fail(err, QWEN_EIO, "qimage, which encodes images, "
		    "is not beside this program");
	if (WIFSIGNALED(status))
		return qwen_fail(err, QWEN_EFORMAT, "qimage was ended by "
		    "signal %d", WTERMSIG(status));
	if (said != NULL && strncmp(said, name, sizeof name - 1) == 0)
		said += sizeof name - 1;
	if (said != NULL && (strncmp(said, in, sizeof in - 1) == 0 ||
	    strncmp(said, "/dev/fd/", 8) == 0))
		code = QWEN_EFORMAT;
	if (said != NULL && strncmp(said, in, sizeof in - 1) == 0)
		said += sizeof in - 1;
	n = said != NULL ? strcspn(said, "\n") : 0;
	return n > 0 ? qwen_fail(err, code, "%.*s", (int)n, said) :
	    qwen_fail(err, QWEN_EIO, "qimage failed");
}

/* ------------------------------------------------------------------ streams */

/*
 * Adds numbers of rows: a record with the same hash continues the one before it.
 * Rows that come again, as in joined streams, are left out.
 */
static int
take_rows(struct tool_encoded *e, const struct qwen_record *rec,
    struct qwen_err *err)
{
	struct tool_image_rows *r = e->n_rows > 0 ? &e->rows[e->n_rows - 1] :
	    NULL;

	if (!e->in_rows || r == NULL || memcmp(&r->hash, &rec->fp,
	    sizeof r->hash) != 0) {
		e->in_rows = 0;
		if (tool_encoded_find(e, &rec->fp) != NULL)
			return 0;
		if (qwen_grow(&e->rows, &e->cap_rows, e->n_rows + 1,
		    sizeof *e->rows) < 0)
			return qwen_oom(err);
		r = &e->rows[e->n_rows++];
		*r = (struct tool_image_rows){ .hash = rec->fp };
		e->in_rows = 1;
	}
	if (qwen_grow(&r->x, &r->cap, r->n + rec->n, sizeof *r->x) < 0)
		return qwen_oom(err);
	if (rec->n > 0)
		memcpy(r->x + r->n, rec->logits, rec->n * sizeof *r->x);
	r->n += rec->n;
	return 0;
}

static int
take_record(struct tool_encoded *e, struct qwen_reader *r,
    const struct qwen_record *rec, struct qwen_err *err)
{
	if (rec->kind == QWEN_REC_ROWS)
		return take_rows(e, rec, err);
	e->in_rows = 0;
	if (rec->kind == QWEN_REC_HEADER)
		return 0;
	if (rec->kind != QWEN_REC_SPAN)
		return qwen_fail(err, QWEN_EFORMAT, "a stream of tokens, and "
		    "not of images alone, as qimage writes it");
	if (qwen_grow(&e->span, &e->cap, e->n + 1, sizeof *e->span) < 0)
		return qwen_oom(err);
	e->span[e->n++] = *qwen_reader_span(r);
	return 0;
}

int
tool_encoded_read(struct tool_encoded *e, int fd,
    const struct qwen_header *self, struct qwen_err *err)
{
	struct qwen_reader_opts o = { .kinds = QWEN_STREAM_TOKENS, .spans = 1,
	    .self = self };
	struct qwen_reader *r;
	struct qwen_record rec;
	int rc;

	if (qwen_reader_open(&r, fd, &o, err) < 0)
		return -1;
	while ((rc = qwen_reader_next(r, &rec, err)) > 0 &&
	    (rc = take_record(e, r, &rec, err)) == 0)
		;
	qwen_reader_close(r);
	return rc;
}

void
tool_encoded_fini(struct tool_encoded *e)
{
	while (e->n_rows > 0)
		free(e->rows[--e->n_rows].x);
	free(e->rows);
	free(e->span);
	*e = (struct tool_encoded){ 0 };
}

const struct tool_image_rows *
tool_encoded_find(const struct tool_encoded *e, const struct qwen_fp *hash)
{
	size_t i;

	for (i = 0; i < e->n_rows; i++) {
		if (memcmp(&e->rows[i].hash, hash, sizeof *hash) == 0)
			return &e->rows[i];
	}
	return NULL;
}

/* ------------------------------------------------------------- many at once */

/* In a message about an operand /dev/fd/N, puts the image's number for it. */
static int
name_image(char *const *operand, size_t n, struct qwen_err *err)
{
	size_t i, len;
	char msg[sizeof err->msg];

	for (i = 0; i < n; i++) {
		len = strlen(operand[i]);
		if (strncmp(operand[i], "/dev/fd/", 8) != 0 ||
		    strncmp(err->msg, operand[i], len) != 0)
			continue;
		memcpy(msg, err->msg + len, sizeof msg - len);
		snprintf(err->msg, sizeof err->msg, "image %zu%.200s", i + 1,
		    msg);
	}
	return -1;
}

/* Reads what qimage printed, up to its end. */
static void
read_said(int fd, char said[SAID_MAX])
{
	size_t n = 0;
	char rest[512];
	ssize_t got;

	do {
		got = n < SAID_MAX - 1 ? read(fd, said + n, SAID_MAX - 1 - n) :
		    read(fd, rest, sizeof rest);
		n += got > 0 && n < SAID_MAX - 1 ? (size_t)got : 0;
	} while (got > 0 || (got == -1 && errno == EINTR));
	said[n] = '\0';
}

/* Runs qimage, and reads its output. */
static int
run(const struct tool_qimage *q, const char *const *operand,
    const struct tool_image_input *in, const struct qwen_header *self,
    struct tool_encoded *out, struct qwen_err *err)
{
	int to[3] = { -1, tool_image_file(err), -1 }, said[2] = { -1, -1 };
	char text[SAID_MAX] = "";
	int status = 0, rc = -1;
	pid_t pid = -1;

	if (to[1] == -1)
		return -1;
	if (in->quiet && pipe(said) == -1)
		qwen_fail_errno(err, "a pipe");
	else {
		to[2] = said[1];
		pid = tool_qimage_start(q, operand, in->n, to, err);
	}
	if (said[1] != -1)
		close(said[1]);
	if (pid != -1 && in->quiet)
		read_said(said[0], text);
	if (said[0] != -1)
		close(said[0]);
	while (pid != -1 && waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	/* it has said why */
	if (!in->quiet && !in->survives && WIFEXITED(status) &&
	    (WEXITSTATUS(status) == 1 || WEXITSTATUS(status) == 2))
		exit(1);
	if (pid != -1 && lseek(to[1], 0, SEEK_SET) == 0)
		rc = tool_qimage_ended(status, in->quiet ? text : NULL,
		    err) < 0 ?
		    -1 : tool_encoded_read(out, to[1], self, err);
	close(to[1]);
	return rc;
}

int
tool_images_encode(const struct tool_qimage *q,
    const struct tool_image_input *in, const struct qwen_header *self,
    struct tool_encoded *out, struct qwen_err *err)
{
	char **operand = cli_check_alloc(calloc(in->n + 1, sizeof *operand));
	int *fd = cli_check_alloc(calloc(in->n + 1, sizeof *fd));
	size_t i, opened = 0, before = out->n;
	int rc = 0;

	for (i = 0; i < in->n && rc == 0; i++) {
		if (in->own && in->src[i].kind == QWEN_SOURCE_PATH) {
			operand[i] = cli_format("%s", in->src[i].s);
			continue;
		}
		fd[opened] = tool_image_open(&in->src[i], in->dir, err);
		if (fd[opened] == -1) {
			rc = qwen_fail_in(err, "image %zu", i + 1);
			break;
		}
		fcntl(fd[opened], F_SETFD, 0);
		operand[i] = cli_format("/dev/fd/%d", fd[opened++]);
	}
	if (rc == 0)
		rc = run(q, (const char *const *)(uintptr_t)operand, in,
		    self, out, err) < 0 ? name_image(operand, in->n,
		    err) : 0;
	if (rc == 0 && out->n - before != in->n)
		rc = qwen_fail(err, QWEN_EFORMAT, "qimage gave %zu images for "
		    "%zu", out->n - before, in->n);
	while (opened > 0)
		close(fd[--opened]);
	for (i = 0; i < in->n; i++)
		free(operand[i]);
	free(operand);
	free(fd);
	return rc;
}
