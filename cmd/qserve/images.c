/* SPDX-License-Identifier: ISC */
/*
 * images.c - the images of requests.  qimage encodes one at a time, in a process
 * of its own, beside the main loop.  Its rows are kept in memory up to a
 * limit, and in a folder, so an image of a conversation is encoded once.
 */
#include <sys/random.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "qserve.h"

enum {
	IMAGE_S = 600,			/* time limit of an image */
	SAID_MAX = 4096,		/* bytes of qimage's errors */
	IMAGES_MAX = 4096,		/* images whose spans are kept */
	ROWS_MAX = 256 << 20,		/* bytes of rows that are kept */
};

#define CHANGED "the URL of an image has another image now: send it again"

/* An image by its bytes, or by its URL. */
struct qserve_image {
	struct qserve_image	*older, *younger;
	unsigned char		 key[16];
	struct qwen_span	 span;		/* n 0: not known yet */
	float			*rows;		/* n_rows numbers, or NULL */
	size_t			 n_rows;
	size_t			 n_users;	/* places in calls */
};

/* -------------------------------------------------------------------- cache */

static void
unlink_image(struct qserve_images *all, struct qserve_image *im)
{
	*(im->older != NULL ? &im->older->younger : &all->oldest) = im->younger;
	*(im->younger != NULL ? &im->younger->older : &all->youngest) =
	    im->older;
}

static void
link_youngest(struct qserve_images *all, struct qserve_image *im)
{
	im->younger = NULL;
	im->older = all->youngest;
	*(im->older != NULL ? &im->older->younger : &all->oldest) = im;
	all->youngest = im;
}

static void
drop_rows(struct qserve_images *all, struct qserve_image *im)
{
	all->n_bytes -= im->n_rows * sizeof *im->rows;
	free(im->rows);
	im->rows = NULL;
	im->n_rows = 0;
}

/* Drop the least recently used images that no call has, to keep the limits. */
static void
sweep(struct qserve_images *all)
{
	struct qserve_image *im, *next;

	for (im = all->oldest; im != NULL && (all->n > IMAGES_MAX ||
	    all->n_bytes > ROWS_MAX); im = next) {
		next = im->younger;
		if (im->n_users > 0 || im == all->image)
			continue;
		drop_rows(all, im);
		if (all->n <= IMAGES_MAX && im->span.n > 0)
			continue;
		unlink_image(all, im);
		all->n--;
		free(im);
	}
}

/*
 * Return the entry of an image, by its bytes or its URL, with one more user; NULL
 * without memory.
 */
static struct qserve_image *
find(struct qserve_images *all, const struct qwen_image_source *src)
{
	struct qserve_image *im;
	unsigned char key[16];

	/* clients do not know the seed, and cannot make two equal hashes */
	XXH128_canonicalFromHash((XXH128_canonical_t *)key,
	    XXH3_128bits_withSeed(src->s, src->n, qwen_le64(all->seed) ^
	    (src->kind == QWEN_SOURCE_URL)));
	for (im = all->youngest; im != NULL && memcmp(im->key, key,
	    sizeof key) != 0; im = im->older)
		;
	if (im != NULL)
		unlink_image(all, im);
	else if ((im = calloc(1, sizeof *im)) != NULL) {
		memcpy(im->key, key, sizeof key);
		all->n++;
	}
	if (im == NULL)
		return NULL;
	link_youngest(all, im);
	im->n_users++;
	return im;
}

/* -------------------------------------------------------------------- calls */

/* Return the first image of the call that is not there; n: all are. */
static size_t
first_missing(const struct qserve_needs *x)
{
	size_t i;

	for (i = 0; i < x->n && x->image[i]->span.n > 0 &&
	    (i < x->from || x->image[i]->rows != NULL); i++)
		;
	return i;
}

/* Put the ids of the images' rows into the prompt: 0, or -1. */
static int
place(struct qserve_call *c, struct qwen_err *err)
{
	struct qserve_needs *x = &c->images;
	struct qwen_span *span = qwen_alloc(x->n + 1, sizeof *span);
	size_t i;
	int rc = -1;

	x->span = calloc(x->n + 1, sizeof *x->span);
	for (i = 0; span != NULL && i < x->n; i++)
		span[i] = x->image[i]->span;
	if (span != NULL && x->span != NULL)
		rc = tool_images_place(&x->q->prompt[0],
		    c->server->images.pad, span, x->n, err);
	else
		*err = (struct qwen_err){ QWEN_ENOMEM, "out of memory" };
	for (i = 0; rc == 0 && i < x->n; i++)
		x->span[i].span = span[i];
	x->q->n_prompt_tokens = x->q->prompt[0].n;
	free(span);
	return rc;
}

/* Set the rows that the engine gets: 0; -1 if a URL has another image now. */
static int
give_rows(struct qserve_needs *x, struct qwen_err *err)
{
	const struct qserve_image *im;
	size_t i;

	x->n_rows = 0;
	for (i = 0; i < x->n; i++) {
		im = x->image[i];
		x->span[i].rows = i < x->from ? NULL : im->rows;
		x->n_rows += i < x->from ? 0 : im->n_rows;
		if (memcmp(&im->span.hash, &x->span[i].span.hash,
		    sizeof im->span.hash) == 0)
			continue;
		*err = (struct qwen_err){ QWEN_EFORMAT, CHANGED };
		return -1;
	}
	return 0;
}

/* Continue a call that waits; code NULL: all that it needs is there. */
static void
resume(struct qserve_call *c, const char *code, const char *message)
{
	struct qserve_needs *x = &c->images;
	void (*then)(struct qserve_call *) = x->then;
	const char *param = c->form == QWEN_FORM_RESPONSES ||
	    c->form == QWEN_FORM_COMPACT ? "input" : "messages";
	struct qwen_err err;

	x->then = NULL;
	if (code != NULL)
		qwen_refuse(&x->q->refusal, code, strcmp(code,
		    "invalid_request") == 0 ? param : NULL, "%s", message);
	else if ((x->span != NULL ? give_rows(x, &err) : place(c, &err)) < 0)
		qwen_refuse(&x->q->refusal, err.code == QWEN_ENOMEM ?
		    "out_of_memory" : "invalid_request", NULL, "%s", err.msg);
	then(c);
}

/* Let the call fail because of image i. */
static void
resume_err(struct qserve_call *c, size_t i, const struct qwen_err *err)
{
	char message[sizeof err->msg + 32];

	snprintf(message, sizeof message, "image %zu: %s", i + 1, err->msg);
	resume(c, err->code == QWEN_ENOMEM ? "out_of_memory" : err->code ==
	    QWEN_ERANGE ? "queue_full" : err->code == QWEN_EIO ? "failed" :
	    "invalid_request", message);
}

/* Count the bytes of a file as if the client had sent them. */
static void
count_bytes(struct qserve_call *c, size_t n)
{
	c->images.n_bytes += n;
	c->server->n_body_bytes += n;
}

/*
 * Read the file of a path that is allowed, as the bytes of the source.  A short
 * request can name many: all its files share the limits of a body.
 */
static int
read_file(struct qserve_call *c, struct qwen_image_source *src,
    struct qwen_err *err)
{
	const struct qserve *s = c->server;
	int fd = tool_image_open(src, s->images.dir, err);
	uint64_t max = s->max_body - c->images.n_bytes;
	uint64_t left = s->max_bodies - s->n_body_bytes;
	struct qwen_text t = { 0 };
	char buf[1 << 14];
	ssize_t n = -1;

	if (fd == -1)
		return -1;
	max = left < max ? left : max;
	while (t.n <= max && ((n = read(fd, buf, sizeof buf)) > 0 ||
	    (n == -1 && errno == EINTR)))
		qwen_text_add(&t, buf, n > 0 ? (size_t)n : 0);
	close(fd);
	if (n == 0 && t.n > 0 && t.n <= max && !t.failed) {
		count_bytes(c, t.n);
		free(src->s);
		src->kind = QWEN_SOURCE_BYTES;
		src->s = t.s;
		src->n = t.n;
		return 0;
	}
	err->code = t.failed ? QWEN_ENOMEM : t.n > max && max == left ?
	    QWEN_ERANGE : QWEN_EFORMAT;
	snprintf(err->msg, sizeof err->msg, "%.120s: %s", src->s, t.failed ?
	    "out of memory" : t.n > max && max == left ? "the requests in "
	    "progress have too many bytes together" : t.n > max ? "the files "
	    "of the request are larger than --max-body" : n == 0 ?
	    "the file is empty" : "cannot be read");
	qwen_text_fini(&t);
	return -1;
}

/* Return 1 if as many calls wait for images as may wait for engines. */
static int
is_full(const struct qserve *s)
{
	const struct qserve_call *c;
	size_t n = 0;

	for (c = s->calls; c != NULL; c = c->next)
		n += c->images.then != NULL;
	return n > s->max_waiting;
}

void
qserve_images_get(struct qserve_call *c, struct qwen_request *q,
    void (*then)(struct qserve_call *c))
{
	struct qserve_needs *x = &c->images;
	struct qwen_image_source *src = q->images.v;
	size_t n = q->images.n;
	struct qwen_err err;

	if (q->refusal.err.code != 0 || n == 0) {
		then(c);
		return;
	}
	*x = (struct qserve_needs){ .q = q, .from = SIZE_MAX, .then = then };
	x->image = calloc(n, sizeof(struct qserve_image *));
	if (is_full(c->server)) {
		resume(c, "queue_full", "the server is busy: many requests "
		    "wait for images");
		return;
	}
	for (; x->image != NULL && x->n < n; x->n++) {
		if (src[x->n].kind != QWEN_SOURCE_BYTES &&
		    (src[x->n].kind != QWEN_SOURCE_URL ||
		    c->server->images.urls == QSERVE_URLS_NONE) &&
		    read_file(c, &src[x->n], &err) < 0) {
			resume_err(c, x->n, &err);
			return;
		}
		x->image[x->n] = find(&c->server->images, &src[x->n]);
		if (x->image[x->n] == NULL)
			break;
	}
	if (x->n < n)
		resume(c, "out_of_memory", "out of memory");
	else if (first_missing(x) == n)
		resume(c, NULL, NULL);
}

/* The rows are there, or refused: make the jobs, or fail. */
static void
make_jobs(struct qserve_call *c)
{
	const struct qserve_needs *x = &c->images;
	const struct qwen_refusal *r = &x->q->refusal;

	if (r->err.code != 0)
		x->handler->fail(c, r->code, r->err.msg);
	else
		qserve_jobs_make(c, x->n_jobs, x->handler);
}

void
qserve_images_jobs(struct qserve_call *c, size_t n_cached, size_t n_jobs,
    const struct qserve_handler *handler)
{
	struct qserve_needs *x = &c->images;

	x->n_jobs = n_jobs;
	x->handler = handler;
	if (x->n == 0) {
		qserve_jobs_make(c, n_jobs, handler);
		return;
	}
	for (x->from = 0; x->from < x->n && x->span[x->from].span.start +
	    x->span[x->from].span.n <= n_cached; x->from++)
		;
	x->then = make_jobs;
	if (first_missing(x) == x->n)
		resume(c, NULL, NULL);
}

static void
end_qimage(struct qserve_images *all)
{
	if (all->pid != 0)
		kill(-all->pid, SIGKILL);
}

void
qserve_images_drop(struct qserve_call *c)
{
	struct qserve_images *all = &c->server->images;
	struct qserve_needs *x = &c->images;

	c->server->n_body_bytes -= x->n_bytes;
	while (x->n > 0)
		x->image[--x->n]->n_users--;
	free(x->image);
	free(x->span);
	*x = (struct qserve_needs){ 0 };
	/* the last call that waited for this image has ended */
	if (all->image != NULL && all->image->n_users == 0) {
		all->unwanted = 1;
		end_qimage(all);
	}
	sweep(all);
}

/* ------------------------------------------------------------------- qimage */

/* Return the call that waits longest for an image, and the image's index. */
static struct qserve_call *
next_call(const struct qserve *s, size_t *i)
{
	struct qserve_call *c, *found = NULL;

	for (c = s->calls; c != NULL; c = c->next) {
		if (c->images.then != NULL && (found == NULL || c->since <
		    found->since))
			found = c;
	}
	*i = found != NULL ? first_missing(&found->images) : 0;
	return found;
}

/* Start qimage for image i of the call: 0, or -1. */
static int
start(struct qserve_images *all, const struct qserve_call *c, size_t i,
    struct qwen_err *err)
{
	const struct qwen_image_source *src = &c->images.q->images.v[i];
	const char *const operand[] = { "-" };
	struct tool_qimage how = all->how;
	struct qserve_url url = { src->s, all->urls == QSERVE_URLS_ANY,
	    c->server->max_body };
	int fd[3] = { -1, -1, -1 }, said[2] = { -1, -1 }, rc = -1;
	pid_t pid;

	/* a URL is read only once */
	how.no_rows = i < c->images.from && src->kind != QWEN_SOURCE_URL;
	if (src->kind == QWEN_SOURCE_URL) {
		how.before = qserve_fetch;
		how.arg = &url;
		fd[0] = tool_image_file(err);
	} else
		fd[0] = tool_image_bytes(src->s, src->n, err);
	if (fd[0] != -1)
		fd[1] = tool_image_file(err);
	if (fd[1] != -1 && (pipe(said) == -1 || tool_fd_prepare(said[0]) ==
	    -1 || tool_fd_prepare(said[1]) == -1))
		*err = (struct qwen_err){ QWEN_EIO, "no descriptors" };
	else if (fd[1] != -1) {
		fd[2] = said[1];
		pid = tool_qimage_start(&how, operand, 1, fd, err);
		rc = pid == -1 ? -1 : 0;
		all->pid = rc == 0 ? pid : 0;
	}
	if (fd[0] != -1)
		close(fd[0]);
	if (said[1] != -1)
		close(said[1]);
	if (rc < 0 && fd[1] != -1)
		close(fd[1]);
	if (rc < 0 && said[0] != -1)
		close(said[0]);
	if (rc < 0)
		return -1;
	all->out = fd[1];
	all->said = said[0];
	all->image = c->images.image[i];
	all->rows = !how.no_rows;
	all->killed = all->unwanted = 0;
	all->kill_at = cli_now() + IMAGE_S;
	all->n_runs += (uint64_t)all->rows;
	return 0;
}

/* Read what qimage says: 1 at its end. */
static int
read_said(struct qserve_images *all)
{
	char buf[512];
	ssize_t n;

	do {
		n = read(all->said, buf, sizeof buf);
		if (n > 0 && all->text.n < SAID_MAX)
			qwen_text_add(&all->text, buf, (size_t)n);
	} while (n > 0 || (n == -1 && errno == EINTR));
	return n == 0;
}

/* Take the span and the rows that qimage wrote. */
static int
take_output(struct qserve_images *all, struct qserve_image *im,
    struct qwen_err *err)
{
	struct tool_encoded e = { 0 };
	int rc = lseek(all->out, 0, SEEK_SET) == -1 ||
	    tool_encoded_read(&e, all->out, &all->self, err) < 0 || e.n != 1 ||
	    e.n_rows != (size_t)all->rows ? -1 : 0;

	if (rc < 0)
		*err = (struct qwen_err){ QWEN_EIO, "qimage wrote something "
		    "else" };
	else if (im->span.n > 0 && memcmp(&im->span.hash, &e.span[0].hash,
	    sizeof im->span.hash) != 0) {
		*err = (struct qwen_err){ QWEN_EFORMAT, CHANGED };
		im->span.n = 0;
		rc = -1;
	}
	if (rc == 0) {
		im->span = e.span[0];
		if (all->rows && im->rows == NULL) {
			im->rows = e.rows[0].x;
			im->n_rows = e.rows[0].n;
			all->n_bytes += im->n_rows * sizeof *im->rows;
			e.rows[0].x = NULL;
		}
	}
	tool_encoded_fini(&e);
	return rc;
}

/* qimage has ended: continue the calls that waited for its image, or fail them. */
static void
reap(struct qserve *s)
{
	struct qserve_images *all = &s->images;
	struct qserve_image *im = all->image;
	struct qserve_call *c;
	struct qwen_err err = { 0 };
	int status = 0, rc;
	size_t i;

	while (waitpid(all->pid, &status, 0) == -1 && errno == EINTR)
		;
	qwen_text_str(&all->text, "");
	rc = tool_qimage_ended(status, all->text.s, &err) < 0 ? -1 :
	    take_output(all, im, &err);
	if (all->killed)
		snprintf(err.msg, sizeof err.msg, "took longer than %d s",
		    IMAGE_S);
	close(all->out);
	close(all->said);
	qwen_text_fini(&all->text);
	all->pid = 0;
	all->image = NULL;
	for (c = s->calls; c != NULL; c = c->next) {
		for (i = 0; i < c->images.n && c->images.image[i] != im; i++)
			;
		if (c->images.then == NULL || i == c->images.n)
			continue;
		/* whoever came after it was unwanted waits for the next one */
		if (rc < 0 && !all->unwanted)
			resume_err(c, i, &err);
		else if (first_missing(&c->images) == c->images.n)
			resume(c, NULL, NULL);
	}
	sweep(all);
}

void
qserve_images_run(struct qserve *s, double now)
{
	struct qserve_images *all = &s->images;
	struct qserve_call *c;
	struct qwen_err err;
	size_t i;

	if (all->pid != 0 && now > all->kill_at && !all->killed) {
		all->killed = 1;
		end_qimage(all);
	}
	if (all->pid != 0 && read_said(all))
		reap(s);
	for (c = s->calls; s->timeout_s > 0 && c != NULL; c = c->next) {
		if (c->images.then != NULL && now > c->since + s->timeout_s)
			resume(c, "deadline", "the request timed out");
	}
	while (all->pid == 0 && (c = next_call(s, &i)) != NULL) {
		if (start(all, c, i, &err) < 0)
			resume_err(c, i, &err);
	}
}

/* --------------------------------------------------------------- the server */

/* Make a temporary folder of encoded images. */
static const char *
make_folder(struct qserve *s)
{
	const char *tmp = getenv("TMPDIR");

	s->images.temporary = cli_format("%s/qserve-images.XXXXXX",
	    tmp != NULL && tmp[0] != '\0' ? tmp : "/tmp");
	if (mkdtemp(s->images.temporary) != NULL)
		return s->images.temporary;
	cli_note("%s: %s: images may be encoded more than once",
	    s->images.temporary, strerror(errno));
	free(s->images.temporary);
	s->images.temporary = NULL;
	return NULL;
}

void
qserve_images_open(struct qserve *s)
{
	struct qserve_images *all = &s->images;
	const struct qwen_template *t = s->with.service.template;

	all->how.model = s->model_path;
	all->how.apart = 1;
	if (!tool_image_encoder(all->how.mmproj, s->model_path)) {
		if (all->dir != NULL || all->urls || all->how.max_tokens > 0)
			die("%s: no image encoder (mmproj file) beside it: "
			    "options for images have no effect", s->model_path);
		return;
	}
	all->pad = tool_image_pad(s->with.service.tok);
	if (t == NULL || !qwen_template_names(t, "image_pad") || all->pad < 0) {
		if (all->how.mmproj != NULL)
			die("--mmproj: the chat template and the vocabulary "
			    "need a place for images (<|image_pad|>)");
		cli_note("an image encoder is beside the model, but the chat "
		    "template or the vocabulary has no place for images");
		return;
	}
	cli_must(s->model_path, qwen_header_init(&all->self,
	    QWEN_STREAM_TOKENS, s->gguf, &cli_err));
	if (getentropy(all->seed, sizeof all->seed) == -1)
		die("getentropy: %s", strerror(errno));
	if (all->how.folder == NULL)
		all->how.folder = make_folder(s);
	s->with.service.reads_images = 1;
}

/* Remove a folder of files. */
static void
remove_folder(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		unlinkat(dirfd(d), e->d_name, 0);
	if (d != NULL)
		closedir(d);
	rmdir(path);
}

void
qserve_images_close(struct qserve *s)
{
	struct qserve_images *all = &s->images;

	end_qimage(all);
	while (all->pid != 0 && waitpid(all->pid, NULL, 0) == -1 &&
	    errno == EINTR)
		;
	if (all->temporary != NULL)
		remove_folder(all->temporary);
}
