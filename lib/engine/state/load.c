/* SPDX-License-Identifier: ISC */
/*
 * load.c - loads a session, or only its tokens, from a stream or a file.  After
 * an error the caller gets nothing.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/read.h"

/* --------------------------------------------------------------- a session */

static void
hand_over_extra(struct qwen_state_reader *v, struct qwen_state_extra *x)
{
	if (x == NULL)
		return;
	*x = v->x;
	memset(&v->x, 0, sizeof v->x);
}

/* Gives the complete objects to the caller; fini frees what remains in *v. */
static int
hand_over(struct qwen_state_reader *v, struct qwen_session **out,
    struct qwen_state_extra *x, struct qwen_err *err)
{
	const struct qwen_settled end = { .tokens = v->tokens,
	    .n_tokens = (size_t)v->lay.info.n_tokens,
	    .span = v->span, .n_span = v->n_span,
	    .logits = v->lay.info.logits, .named = v->lay.info.named };

	if (qwen_state_mtp_fits(&v->lay.mtp, &v->mtp))
		qwen_session_mtp_set(v->s, (size_t)v->lay.mtp.first,
		    end.n_tokens, v->end.hidden);
	if (qwen_session_settle(v->s, &end, err) < 0)
		return -1;
	v->tokens = NULL;
	hand_over_extra(v, x);
	*out = v->s;
	v->s = NULL;
	return 0;
}

int
qwen_state_load(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_reader *r,
    const struct qwen_record *header, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_state_reader v = { .r = r,
	    .next = qwen_state_next_of_stream };
	int rc = -1;

	*out = NULL;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if (qwen_state_reader_init(&v, m, header, err) == 0 &&
	    qwen_state_read_all(&v, err) == 0)
		rc = hand_over(&v, out, x, err);
	if (rc == 0 && fp != NULL)
		*fp = v.total;
	qwen_state_reader_fini(&v);
	return rc;
}

static int
check_wanted(const struct qwen_fp *fp, const struct qwen_fp *want,
    struct qwen_err *err)
{
	char a[33], b[33];

	if (want == NULL || memcmp(want, fp, sizeof *fp) == 0)
		return 0;
	return qwen_fail(err, QWEN_EMISMATCH, "the state in the file is %s, "
	    "but %s was announced", qwen_fp_hex(fp, a), qwen_fp_hex(want, b));
}

/* Loads from a pipe or another descriptor that cannot seek. */
static int
load_stream(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, int fd, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct qwen_state_reader v = { 0 };
	int rc = -1;

	if (qwen_state_read_through(&v, m, fd, err) == 0 &&
	    check_wanted(&v.total, want, err) == 0)
		rc = hand_over(&v, out, x, err);
	qwen_state_reader_fini(&v);
	return rc;
}

/* Loads from a seekable file. */
static int
load_index(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, int fd, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct qwen_state_file *f;
	int rc = -1;

	if (qwen_state_open_fd(&f, fd, err) < 0)
		return -1;
	if (f->in.lay.info.part)
		qwen_fail(err, QWEN_EMISMATCH, "a part of a state (tokens from "
		    "%llu) is not a whole state",
		    (unsigned long long)f->in.lay.info.from);
	else if (check_wanted(&f->in.lay.info.fp, want, err) == 0)
		rc = qwen_state_restore(out, x, m, &f, 1, SIZE_MAX, 0, err);
	qwen_state_close(f);
	return rc;
}

int
qwen_state_load_file(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, const char *path, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct stat st;
	int fd, rc;

	*out = NULL;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 || fstat(fd, &st) < 0) {
		qwen_fail_errno(err, "cannot open it");
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (S_ISREG(st.st_mode))
		return load_index(out, x, m, fd, want, err);
	rc = load_stream(out, x, m, fd, want, err);
	close(fd);
	return rc;
}

int
qwen_state_load_tokens(int32_t **tokens, size_t *n, struct qwen_state_extra *x,
    struct qwen_header *header, const char *path, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_state_file *f;

	*tokens = NULL;
	*n = 0;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if (qwen_state_open(&f, path, err) < 0)
		return -1;
	*header = f->in.lay.info.header;
	if (fp != NULL)
		*fp = f->in.lay.info.fp;
	hand_over_extra(&f->in, x);
	*tokens = f->in.tokens;
	*n = (size_t)(f->in.lay.info.n_tokens - f->in.lay.info.from);
	f->in.tokens = NULL;
	qwen_state_close(f);
	return 0;
}
