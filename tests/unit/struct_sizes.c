/* SPDX-License-Identifier: ISC */
/*
 * struct_sizes.c - callers whose structs are shorter or longer than the
 * library's: functions X_sized.  cli/struct-sizes.t checks that every public
 * function with such a struct has one.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "qwen.h"
#include "qwentext.h"
#include "../tree.h"
#include "../tap.h"

enum { MORE = 32, ROOM = 512 };

static const int32_t ids[] = { 5, 6, 7, 8, 9 };
static struct qwen_err err;
static struct qwen_model *model;
static struct qwen_session *session;
static struct qwen_cache *cache;
static struct qwen_work *work;
static struct qwen_template *template;
static struct qwen_tok *tok;
static struct qwen_store *store;
static struct qwen_state_file *file;
static char dir[1024], store_dir[1100];

static void
must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", err.msg);
	remove_tree(dir);
	exit(1);
}

/* ----------------------------- each function, with what it makes freed again */

static int
reply_new(size_t size, const void *x)
{
	struct qwen_reply *r;
	int rc = qwen_reply_new_sized(size, &r, template, x, &err);

	qwen_reply_free(r);
	return rc;
}

static int
drafts_new(size_t size, const void *x)
{
	struct qwen_drafts *d;
	int rc = qwen_drafts_new_sized(size, &d, model, x, &err);

	qwen_drafts_free(d);
	return rc;
}

static int
model_open(size_t size, const void *x)
{
	struct qwen_model *m;
	int rc = qwen_model_open_sized(size, &m, getenv("QWEN_MODEL"), x, &err);

	qwen_model_close(m);
	return rc;
}

static int
model_open_gguf(size_t size, const void *x)
{
	struct qwen_model *m;
	struct qwen_gguf *g;
	int rc;

	must(qwen_gguf_open(&g, getenv("QWEN_MODEL"), &err));
	rc = qwen_model_open_gguf_sized(size, &m, g, x, &err);
	qwen_model_close(m);
	return rc;
}

static int
session_eval(size_t size, const void *x)
{
	struct qwen_session *s;
	int rc;

	must(qwen_session_new(&s, model, &err));
	rc = qwen_session_eval_sized(size, s, ids, 5, x, &err);
	qwen_session_free(s);
	return rc;
}

static int
session_trace(size_t size, const void *x)
{
	int rc = qwen_session_trace_sized(size, session, x, &err);

	must(qwen_session_trace(session, NULL, &err));
	return rc;
}

static int
reader_open(size_t size, const void *x)
{
	struct qwen_reader *r;
	int rc = qwen_reader_open_sized(size, &r, 0, x, &err);

	qwen_reader_close(r);
	return rc;
}

static struct qwen_writer *
null_writer(int *fd)
{
	struct qwen_writer *w;

	if ((*fd = open("/dev/null", O_WRONLY)) == -1)
		exit(1);
	must(qwen_writer_open(&w, *fd, NULL, &err));
	return w;
}

static int
writer_open(size_t size, const void *x)
{
	struct qwen_writer *w;
	int rc = qwen_writer_open_sized(size, &w, 1, x, &err);

	qwen_writer_free(w);
	return rc;
}

static int
state_save(size_t size, const void *x)
{
	int fd, rc;
	struct qwen_writer *w = null_writer(&fd);

	rc = qwen_state_save_sized(size, session, NULL, w, x, NULL, &err);
	qwen_writer_free(w);
	close(fd);
	return rc;
}

static int
state_copy(size_t size, const void *x)
{
	int fd, rc;
	struct qwen_writer *w = null_writer(&fd);

	rc = qwen_state_copy_sized(size, file, w, x, NULL, &err);
	qwen_writer_free(w);
	close(fd);
	return rc;
}

static int
state_convert(size_t size, const void *x)
{
	struct qwen_state_loss loss;
	int fd, rc;
	struct qwen_writer *w = null_writer(&fd);

	rc = qwen_state_convert_sized(size, file, w, QWEN_KV_Q8_0, QWEN_KV_Q8_0,
	    x, &loss, NULL, &err);
	qwen_writer_free(w);
	close(fd);
	return rc;
}

static int
store_open(size_t size, const void *x)
{
	struct qwen_store *st;
	int rc = qwen_store_open_sized(size, &st, x, &err);

	qwen_store_close(st);
	return rc;
}

static int
store_verify(size_t size, const void *x)
{
	uint64_t n, bad;

	return qwen_store_verify_sized(size, store, x, &n, &bad, &err);
}

static int
work_new(size_t size, const void *x)
{
	struct qwen_work *w;
	int rc = qwen_work_new_sized(size, &w, x, &err);

	qwen_work_free(w);
	return rc;
}

static int
work_add(size_t size, const void *x)
{
	int rc = qwen_work_add_sized(size, work, x, &err);

	if (rc == 0 && qwen_work_cancel(work, NULL) != 1)
		return -1;
	return rc;
}

static int
gguf_check(size_t size, const void *x)
{
	return (int)qwen_gguf_check_sized(size, qwen_model_gguf(model), x,
	    &err);
}

static int
model_check(size_t size, const void *x)
{
	return qwen_model_check_sized(size, qwen_model_gguf(model), x, &err);
}

static int
tok_encode_fim(size_t size, const void *x)
{
	int32_t *got;
	size_t n;
	int rc = qwen_tok_encode_fim_sized(size, tok, x, &got, &n, &err);

	free(got);
	return rc;
}

/* ------------------------------------------------------ all of them, in turn */

static int
value(void *arg, const struct qwen_trace_value *v, struct qwen_err *e)
{
	(void)arg;
	(void)v;
	(void)e;
	return 0;
}

static void
bad_file(void *arg, const char *path, const char *msg)
{
	(void)arg;
	(void)path;
	(void)msg;
}

static void
problem(void *arg, const char *msg)
{
	(void)arg;
	(void)msg;
}

static void
job_end(void *arg, enum qwen_job_end why, const struct qwen_err *e)
{
	(void)arg;
	(void)why;
	(void)e;
}

/* least: so many bytes are set; what follows is zero. */
static void
try(const char *name, int (*call)(size_t, const void *), const void *x,
    size_t known, size_t least)
{
	_Alignas(16) unsigned char b[ROOM];

	if (known + MORE > sizeof b)
		exit(1);
	memset(b, 0xa5, sizeof b);
	memcpy(b, x, known);
	ok(call(known, b) == 0, "%s: the size of the library", name);
	memset(b + known, 0, MORE);
	ok(call(known + MORE, b) == 0, "%s: longer, with zeroes", name);
	b[known + MORE - 1] = 1;
	ok(call(known + MORE, b) == -1 && err.code == QWEN_EUNSUP &&
	    strstr(err.msg, name) != NULL, "%s: longer: %s", name, err.msg);
	memset(b + least, 0xa5, sizeof b - least);
	ok(call(least, b) == 0, "%s: shorter, the rest is zero", name);
	ok(call(0, b) == -1 && err.code == QWEN_ERANGE &&
	    strncmp(err.msg, name, strlen(name)) == 0, "%s: %s", name, err.msg);
}

#define TRY(f, type, after, ...) try("qwen_" #f, f, \
	&(struct type){ __VA_ARGS__ }, sizeof(struct type), \
	offsetof(struct type, after))

static void
test_all(void)
{
	static const char *const stages[] = { "norm" };

	TRY(reply_new, qwen_reply_opts, continues, 0);
	TRY(drafts_new, qwen_draft_opts, n, .mode = QWEN_DRAFT_LOOKUP);
	TRY(model_open, qwen_model_opts, draft, .n_threads = 1);
	TRY(model_open_gguf, qwen_model_opts, draft, .n_threads = 1);
	TRY(session_eval, qwen_eval, row, .batch = 4);
	TRY(session_trace, qwen_trace, arg, .patterns = stages,
	    .n_patterns = 1, .value = value);
	TRY(reader_open, qwen_reader_opts, self, .kinds = QWEN_STREAM_STATE);
	TRY(writer_open, qwen_writer_opts, lines, .format = QWEN_FORMAT_TEXT);
	TRY(state_save, qwen_state_opts, from, .no_compress = 1);
	TRY(state_copy, qwen_state_opts, from, .no_compress = 1);
	TRY(state_convert, qwen_state_opts, from, .no_compress = 1);
	TRY(store_open, qwen_store_opts, max, .dir = store_dir);
	TRY(store_verify, qwen_store_verifier, progress, .bad = bad_file);
	TRY(work_new, qwen_work_opts, n_sequences, .model = model,
	    .cache = cache);
	TRY(work_add, qwen_job, arg, .tokens = ids, .n = 5, .max = 1,
	    .end = job_end);
	TRY(gguf_check, qwen_gguf_checker, progress, .problem = problem);
	TRY(model_check, qwen_gguf_checker, progress, .problem = problem);
	TRY(tok_encode_fim, qwen_fim_text, line, .prefix = { "x = ", 4 });
	ok(model_open(0, NULL) == 0 && session_eval(0, NULL) == 0 &&
	    session_trace(0, NULL) == 0 && reader_open(0, NULL) == 0 &&
	    writer_open(0, NULL) == 0 && state_save(0, NULL) == 0 &&
	    state_copy(0, NULL) == 0, "without a struct no size is needed");
}

/* ------------------------------------------------- an array: qwen_eval_parts */

/* The first row says which session; the second one's stops its part. */
static int
row(void *arg, size_t pos, const float *logits, struct qwen_err *e)
{
	(void)pos;
	(void)logits;
	if (arg == NULL)
		return 0;
	if (e != NULL)
		*e = (struct qwen_err){ QWEN_EIO, "stopped" };
	return 1;
}

/* Two parts, each in size bytes, of which the second one fails. */
static void
try_parts(size_t size)
{
	_Alignas(16) unsigned char b[2 * ROOM] = { 0 };
	size_t have = size < sizeof(struct qwen_part) ? size :
	    sizeof(struct qwen_part);
	struct qwen_part got[2] = { { 0 }, { 0 } };
	struct qwen_session *s[2];
	int i, rc;

	for (i = 0; i < 2; i++) {
		struct qwen_part p = { .tokens = ids, .n = 3 + (size_t)i,
		    .row = row, .arg = i == 0 ? NULL : b };

		must(qwen_session_new_in(&s[i], cache, &err));
		p.s = s[i];
		memcpy(b + (size_t)i * size, &p, have);
	}
	rc = qwen_eval_parts_sized(size, (void *)b, 2, &err);
	for (i = 0; i < 2; i++)
		memcpy(&got[i], b + (size_t)i * size, have);
	ok(rc == 0 && qwen_session_n_tokens(s[0]) == 3 && !got[0].failed &&
	    got[1].failed, "parts of %zu bytes: the one that failed", size);
	if (have == sizeof got[0])
		ok(strcmp(got[1].err.msg, "stopped") == 0, "and why");
	for (i = 0; i < 2; i++)
		qwen_session_free(s[i]);
}

static void
test_parts(void)
{
	struct qwen_part p[2] = { { .s = session, .tokens = ids, .n = 1 } };
	size_t n = qwen_session_n_tokens(session);

	try_parts(offsetof(struct qwen_part, err));
	try_parts(sizeof(struct qwen_part));
	try_parts(sizeof(struct qwen_part) + MORE);
	ok(qwen_eval_parts_sized(0, p, 1, &err) == -1 &&
	    err.code == QWEN_ERANGE, "parts of size 0: %s", err.msg);
	p[1].n = 1;
	ok(qwen_eval_parts_sized(sizeof p, p, 1, &err) == -1 &&
	    err.code == QWEN_EUNSUP, "parts of a newer libqwen: %s", err.msg);
	ok(qwen_session_n_tokens(session) == n, "nothing was read");
}

/* ----------------------------------------------------------- what they need */

static void
save_state(const char *path)
{
	struct qwen_writer *w;
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	must(fd == -1 ? -1 : qwen_writer_open(&w, fd, NULL, &err));
	must(qwen_state_save(session, NULL, w, NULL, NULL, &err));
	must(qwen_writer_close(w, &err));
	close(fd);
}

static void
set_up(void)
{
	char path[1100];
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/struct-sizes-XXXXXX",
	    tmp != NULL ? tmp : "/tmp");
	if (mkdtemp(dir) == NULL || getenv("QWEN_MODEL") == NULL)
		exit(1);
	snprintf(store_dir, sizeof store_dir, "%s/store", dir);
	snprintf(path, sizeof path, "%s/state", dir);
	must(qwen_model_open(&model, getenv("QWEN_MODEL"),
	    &(struct qwen_model_opts){ .n_threads = 1 }, &err));
	must(qwen_cache_new(&cache, model, 0, &err));
	must(qwen_session_new_in(&session, cache, &err));
	must(qwen_session_eval(session, ids, 5, NULL, &err));
	must(qwen_template_open(&template, "qwen3", &err));
	must(qwen_tok_open(&tok, qwen_model_gguf(model), QWEN_TOK_ENCODE,
	    &err));
	must(qwen_store_open(&store,
	    &(struct qwen_store_opts){ .dir = store_dir }, &err));
	must(qwen_work_new(&work, &(struct qwen_work_opts){ .model = model,
	    .cache = cache }, &err));
	save_state(path);
	must(qwen_state_open(&file, path, &err));
}

int
main(void)
{
	set_up();
	test_all();
	test_parts();
	qwen_state_close(file);
	qwen_work_free(work);
	qwen_store_close(store);
	qwen_tok_close(tok);
	qwen_template_close(template);
	qwen_session_free(session);
	qwen_cache_free(cache);
	qwen_model_close(model);
	remove_tree(dir);
	return done_testing();
}
