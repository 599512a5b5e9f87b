/* SPDX-License-Identifier: ISC */
/*
 * load.c - a session from a stream of state.  Everything goes into objects of
 * their own, which the caller gets once the end record agrees with all
 * that came; until then, and after any error, there is nothing to see.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"
#include "state/load.h"
#include "wire/record.h"

static int
take_all(struct qwen_state_in *v, struct qwen_reader *r, struct qwen_err *err)
{
	struct qwen_state_rec rec;
	struct qwen_record in;
	int got;

	while (!v->ended) {
		if ((got = qwen_reader_next(r, &in, err)) < 0)
			return qwen_fail_in(err, "state block %llu",
			    (unsigned long long)v->sum.n);
		if (got == 0 || in.kind != QWEN_REC_STATE)
			return qwen_fail(err, QWEN_EFORMAT, "the state is cut "
			    "off after block %llu",
			    (unsigned long long)v->sum.n);
		qwen_state_sum_total(&v->sum, &v->total);
		if (qwen_state_rec_decode(&rec, &v->sum, in.raw, in.n_raw,
		    err) < 0)
			return -1;
		if (qwen_state_take(v, &rec, err) < 0)
			return qwen_state_rec_fail(&rec, err);
	}
	return 0;
}

static void
fini(struct qwen_state_in *v)
{
	qwen_state_sum_fini(&v->sum);
	qwen_coder_free(v->coder);
	qwen_state_extra_fini(&v->x);
	qwen_session_free(v->s);
	free(v->tokens);
	free(v->got);
}

/* m NULL: the tokens and what else needs no model. */
static int
init(struct qwen_state_in *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err)
{
	struct qwen_header self;

	if (header->kind != QWEN_REC_HEADER ||
	    header->header->kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH, "not a state");
	v->n_vocab = header->header->n_vocab;
	if (qwen_state_sum_init(&v->sum, header->raw, header->n_raw, err) < 0 ||
	    qwen_coder_new(&v->coder, err) < 0)
		return -1;
	if (m == NULL)
		return 0;
	if (qwen_header_init(&self, QWEN_STREAM_STATE, m->gguf, err) < 0)
		return -1;
	if (qwen_header_match(header->header, &self, err) < 0)
		return qwen_fail_in(err, "header of the state");
	if (v->n_vocab != m->hp.n_vocab)
		return qwen_fail(err, QWEN_EMISMATCH, "header of the state: a "
		    "vocabulary of %zu, the model has one of %zu", v->n_vocab,
		    m->hp.n_vocab);
	if (qwen_session_new(&v->s, m, err) < 0)
		return -1;
	v->got = qwen_alloc(v->s->n_layer, sizeof *v->got);
	return v->got != NULL ? 0 :
	    qwen_fail(err, QWEN_ENOMEM, "out of memory");
}

/* Hand over what is complete; what remains in *v is freed by fini. */
static void
hand_over(struct qwen_state_in *v, struct qwen_state_extra *x, struct qwen_fp *fp)
{
	if (x != NULL) {
		*x = v->x;
		memset(&v->x, 0, sizeof v->x);
	}
	if (fp != NULL)
		*fp = v->total;
	if (v->s == NULL)
		return;
	v->s->tokens = v->tokens;
	v->s->n_tokens = v->s->cap_tokens = (size_t)v->n_tokens;
	v->s->have_logits = v->logits_got > 0;
	v->tokens = NULL;
}

int
qwen_state_load(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, struct qwen_reader *r,
    const struct qwen_record *header, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_state_in v = { 0 };
	int rc = -1;

	*out = NULL;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if (init(&v, m, header, err) == 0 && take_all(&v, r, err) == 0) {
		hand_over(&v, x, fp);
		*out = v.s;
		v.s = NULL;
		rc = 0;
	}
	fini(&v);
	return rc;
}

/* A reader of the file at path that stands after the header of a state. */
static int
open_file(struct qwen_reader **r, int *fd, const char *path,
    struct qwen_record *header, struct qwen_err *err)
{
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_STATE };
	int got;

	if ((*fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		return qwen_fail_errno(err, "cannot open it");
	if (qwen_reader_open(r, *fd, &opts, err) < 0)
		return -1;
	if ((got = qwen_reader_next(*r, header, err)) < 0)
		return -1;
	if (got == 0)
		return qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	return header->kind == QWEN_REC_HEADER ? 0 :
	    qwen_fail(err, QWEN_EFORMAT, "not a state");
}

/* Nothing follows the end record, and it is the state that was asked for. */
static int
check_file(struct qwen_reader *r, const struct qwen_fp *fp,
    const struct qwen_fp *want, struct qwen_err *err)
{
	struct qwen_record rec;
	char a[33], b[33];
	int got;

	if (want != NULL && memcmp(want, fp, sizeof *fp) != 0)
		return qwen_fail(err, QWEN_EMISMATCH, "the state in the file "
		    "is %s, the one that was announced %s",
		    qwen_fp_hex(fp, a), qwen_fp_hex(want, b));
	if ((got = qwen_reader_next(r, &rec, err)) == 0)
		return 0;
	return qwen_fail(err, QWEN_EFORMAT, "bytes follow the end of the state");
}

int
qwen_state_load_file(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, const char *path, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct qwen_reader *r = NULL;
	struct qwen_record header;
	struct qwen_fp fp;
	int fd = -1, rc = -1;

	*out = NULL;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if (open_file(&r, &fd, path, &header, err) == 0 &&
	    qwen_state_load(out, x, m, r, &header, &fp, err) == 0)
		rc = check_file(r, &fp, want, err);
	if (rc < 0) {
		qwen_session_free(*out);
		*out = NULL;
		qwen_state_extra_fini(x);
	}
	qwen_reader_close(r);
	if (fd >= 0)
		close(fd);
	return rc;
}

int
qwen_state_load_tokens(int32_t **tokens, size_t *n, struct qwen_state_extra *x,
    struct qwen_header *header, const char *path, struct qwen_fp *fp,
    struct qwen_err *err)
{
	struct qwen_state_in v = { 0 };
	struct qwen_reader *r = NULL;
	struct qwen_record first;
	int fd = -1, rc = -1;

	*tokens = NULL;
	*n = 0;
	if (x != NULL)
		memset(x, 0, sizeof *x);
	if (open_file(&r, &fd, path, &first, err) == 0) {
		*header = *first.header;
		if (init(&v, NULL, &first, err) == 0 &&
		    take_all(&v, r, err) == 0)
			rc = check_file(r, &v.total, NULL, err);
	}
	if (rc == 0) {
		hand_over(&v, x, fp);
		*tokens = v.tokens;
		*n = (size_t)v.n_tokens;
		v.tokens = NULL;
	}
	fini(&v);
	qwen_reader_close(r);
	if (fd >= 0)
		close(fd);
	return rc;
}
