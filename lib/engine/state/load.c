/* SPDX-License-Identifier: ISC */
/*
 * load.c - a session from a stream of state.  Everything goes into objects of
 * their own, which the caller gets once the end record agrees with all
 * that came; until then, and after any error, there is nothing to see.
 */
#include <sys/stat.h>

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/model/model.h"
#include "engine/state/load.h"
#include "wire/record.h"

/* One record from its bytes: checked, listed, taken. */
static int
take_one(struct qwen_state_in *v, const unsigned char *p, size_t n,
    struct qwen_err *err)
{
	struct qwen_state_entry e;
	struct qwen_state_rec rec;

	qwen_state_sum_total(&v->sum, &v->total);
	if (qwen_state_rec_decode(&rec, &v->sum, p, n, err) < 0)
		return -1;
	qwen_state_entry_of(&e, &rec, p, n);
	if (qwen_state_take(v, &rec, &e, err) < 0)
		return qwen_state_rec_fail(&rec, err);
	return v->list == NULL ? 0 : qwen_state_list_add(v->list, &e, err);
}

int
qwen_state_take_all(struct qwen_state_in *v, struct qwen_reader *r,
    struct qwen_err *err)
{
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
		if (take_one(v, in.raw, in.n_raw, err) < 0)
			return -1;
	}
	return 0;
}

void
qwen_state_in_fini(struct qwen_state_in *v)
{
	qwen_state_sum_fini(&v->sum);
	qwen_state_follow_fini(&v->follow);
	qwen_state_layout_fini(&v->lay);
	qwen_coder_free(v->coder);
	qwen_state_extra_fini(&v->x);
	if (v->s != NULL)
		qwen_kept_fini(&v->kept, v->s->recurrent_bytes);
	qwen_session_free(v->s);
	free(v->tokens);
	memset(v, 0, sizeof *v);
}

int
qwen_state_header(struct qwen_header *h, const struct qwen_model *m,
    struct qwen_err *err)
{
	if (qwen_header_init(h, QWEN_STREAM_STATE, m->gguf, err) < 0)
		return -1;
	h->numerics = m->numerics;
	return 0;
}

int
qwen_state_match(const struct qwen_header *h, struct qwen_model *m,
    struct qwen_err *err)
{
	struct qwen_header self;

	if (qwen_state_header(&self, m, err) < 0)
		return -1;
	if (qwen_header_match(h, &self, err) < 0)
		return qwen_fail_in(err, "header of the state");
	if (h->n_vocab != m->hp.n_vocab)
		return qwen_fail(err, QWEN_EMISMATCH, "header of the state: a "
		    "vocabulary of %u, the model has one of %zu",
		    (unsigned)h->n_vocab, m->hp.n_vocab);
	return 0;
}

int
qwen_state_in_init(struct qwen_state_in *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err)
{
	if (header->kind != QWEN_REC_HEADER ||
	    header->header->kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH, "not a state");
	v->lay.n_vocab = header->header->n_vocab;
	if (qwen_state_sum_init(&v->sum, header->raw, header->n_raw, err) < 0 ||
	    qwen_state_follow_init(&v->follow, err) < 0 ||
	    qwen_coder_new(&v->coder, err) < 0)
		return -1;
	if (m == NULL)
		return 0;
	return qwen_state_match(header->header, m, err) < 0 ? -1 :
	    qwen_session_new(&v->s, m, err);
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
	v->s->n_tokens = v->s->cap_tokens = (size_t)v->lay.n_tokens;
	v->s->have_logits = v->lay.end_logits;
	qwen_session_keep(v->s, v->lay.end_named, NULL);
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
	if (qwen_state_in_init(&v, m, header, err) == 0 &&
	    qwen_state_take_all(&v, r, err) == 0) {
		hand_over(&v, x, fp);
		*out = v.s;
		v.s = NULL;
		rc = 0;
	}
	qwen_state_in_fini(&v);
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
	    "the one that was announced %s", qwen_fp_hex(fp, a),
	    qwen_fp_hex(want, b));
}

/* A pipe or the like: what follows the header, and nothing behind it. */
static int
load_stream(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, int fd, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_STATE };
	struct qwen_reader *r;
	struct qwen_record rec;
	struct qwen_fp fp;
	int got, rc = -1;

	if (qwen_reader_open(&r, fd, &opts, err) < 0)
		return -1;
	if ((got = qwen_reader_next(r, &rec, err)) == 0)
		qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	else if (got > 0 &&
	    qwen_state_load(out, x, m, r, &rec, &fp, err) == 0 &&
	    check_wanted(&fp, want, err) == 0) {
		rc = qwen_reader_next(r, &rec, err) == 0 ? 0 :
		    qwen_fail(err, QWEN_EFORMAT,
		    "bytes follow the end of the state");
	}
	qwen_reader_close(r);
	return rc;
}

/* A file that can be read at any place. */
static int
load_index(struct qwen_session **out, struct qwen_state_extra *x,
    struct qwen_model *m, int fd, const struct qwen_fp *want,
    struct qwen_err *err)
{
	struct qwen_state_file *f;
	int rc = -1;

	if (qwen_state_open_fd(&f, fd, err) < 0)
		return -1;
	if (f->info.part)
		qwen_fail(err, QWEN_EMISMATCH, "a part of a state, of the "
		    "tokens from %llu on, is not a state",
		    (unsigned long long)f->info.from);
	else if (check_wanted(&f->info.fp, want, err) == 0)
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
		rc = load_index(out, x, m, fd, want, err);
	else {
		rc = load_stream(out, x, m, fd, want, err);
		close(fd);
	}
	if (rc < 0) {
		qwen_session_free(*out);
		*out = NULL;
		qwen_state_extra_fini(x);
	}
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
	*header = f->info.header;
	f->in.total = f->info.fp;
	hand_over(&f->in, x, fp);
	*tokens = f->in.tokens;
	*n = (size_t)(f->info.n_tokens - f->info.from);
	f->in.tokens = NULL;
	qwen_state_close(f);
	return 0;
}

void
qwen_state_prefix(const int32_t *tokens, size_t n, struct qwen_fp *out)
{
	XXH128_canonical_t c;

	XXH128_canonicalFromHash(&c, XXH3_128bits(tokens, n * sizeof *tokens));
	memcpy(out->b, c.digest, sizeof out->b);
}
