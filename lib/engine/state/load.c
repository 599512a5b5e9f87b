/* SPDX-License-Identifier: ISC */
/*
 * load.c - reads the records of a state, from a stream or by the index of a
 * file, and loads a session from a stream.  The caller gets the new objects
 * only once the end record has confirmed all records; after an error it gets
 * nothing.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/load.h"
#include "wire/record.h"

/* -------------------------------------------------------------- the records */

/* Reads the next record of the stream. */
static int
next_of_stream(struct qwen_state_reader *v, struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	struct qwen_record in;
	int got;

	if ((got = qwen_reader_next(v->r, &in, err)) < 0)
		return qwen_fail_in(err, "state block %llu",
		    (unsigned long long)v->counts.n);
	if (got == 0 || in.kind != QWEN_REC_STATE)
		return qwen_fail(err, QWEN_EFORMAT, "the state is truncated "
		    "after block %llu", (unsigned long long)v->counts.n);
	return qwen_state_rec_decode(rec, &v->counts, in.raw, in.n_raw, err);
}

/*
 * Reads the next record of the file; of a record whose data can wait, only the
 * entry.
 */
static int
next_of_file(struct qwen_state_reader *v, struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	const struct qwen_state_list *l = &v->f->list;
	size_t i = (size_t)v->counts.n;

	if (i == l->n)
		return qwen_fail(err, QWEN_EFORMAT, "the index is truncated");
	if (qwen_state_can_wait(&l->entry[i])) {
		memset(rec, 0, sizeof *rec);
		rec->index = i;
		rec->e = l->entry[i];
	} else if (qwen_state_file_rec(v->f, i, rec, v->buf, err) < 0)
		return -1;
	qwen_state_counts_add(&v->counts, &rec->e);
	return 0;
}

int
qwen_state_next(struct qwen_state_reader *v, struct qwen_state_rec *rec,
    struct qwen_err *err)
{
	qwen_state_counts_hash(&v->counts, &v->total);
	return v->r != NULL ? next_of_stream(v, rec, err) :
	    next_of_file(v, rec, err);
}

int
qwen_state_use(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    struct qwen_state_target *p, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &rec->e;
	const struct qwen_section *k = qwen_section(e->kind);
	const unsigned char *raw = NULL;
	int last = e->kind == QWEN_K_INDEX || e->kind == QWEN_K_END;

	if ((rec->index == 0) != (e->kind == QWEN_K_INFO))
		return qwen_fail(err, QWEN_EFORMAT, rec->index == 0 ?
		    "the first block is not info" : "a second info block");
	if (v->index.offset != 0 && !last)
		return qwen_fail(err, QWEN_EFORMAT, "a block after the index");
	if (!last)
		qwen_index_check_record(&v->index, e);
	if (e->kind == QWEN_K_NONE && (rec->f.there & 1u << QWEN_F_SKIP) &&
	    rec->f.v[QWEN_F_SKIP].n == 1)
		return 0;
	if (rec->read && qwen_state_rec_want(rec, err) < 0)
		return -1;
	if (k->bytes != NULL && qwen_state_layout_add(&v->lay, e, err) < 0)
		return -1;
	if (!rec->read || (k->copy != NULL && v->s == NULL && !v->decode_all))
		return 0;
	if (k->copy != NULL && v->s != NULL) {
		*p = (struct qwen_state_target){ .s = v->s };
		return k->set_target(v, e, p, err);
	}
	if (k->width > 0 && (qwen_coder_decode(v->coder, e->codec, rec->data,
	    rec->n_data, (size_t)e->len, &raw, err) < 0 ||
	    qwen_state_layout_check(&v->lay, e, raw, err) < 0))
		return -1;
	return k->copy != NULL ? 0 : k->read(v, rec, raw, err);
}

int
qwen_state_read_all(struct qwen_state_reader *v, struct qwen_err *err)
{
	struct qwen_state_rec rec;

	if (v->s != NULL)
		return qwen_state_receive(v, err);
	while (!v->ended) {
		if (qwen_state_next(v, &rec, err) < 0)
			return -1;
		if (qwen_state_use(v, &rec, NULL, err) < 0)
			return qwen_state_rec_fail(&rec, err);
		if (v->list != NULL &&
		    qwen_state_list_add(v->list, &rec.e, err) < 0)
			return -1;
	}
	return 0;
}

void
qwen_state_reader_fini(struct qwen_state_reader *v)
{
	qwen_state_counts_fini(&v->counts);
	qwen_index_check_fini(&v->index);
	qwen_state_layout_fini(&v->lay);
	qwen_coder_free(v->coder);
	qwen_state_extra_fini(&v->x);
	if (v->s != NULL)
		qwen_kept_fini(&v->kept,
		    qwen_session_view(v->s).recurrent_bytes);
	qwen_session_free(v->s);
	free(v->tokens);
	free(v->hidden);
	memset(v, 0, sizeof *v);
}

int
qwen_state_match(const struct qwen_header *h, struct qwen_model *m,
    struct qwen_err *err)
{
	struct qwen_header self;
	size_t n_vocab = qwen_model_n_vocab(m);

	if (qwen_model_header(&self, m, QWEN_STREAM_STATE, err) < 0)
		return -1;
	if (qwen_header_match(h, &self, err) < 0)
		return qwen_fail_in(err, "header of the state");
	if (h->n_vocab != n_vocab)
		return qwen_fail(err, QWEN_EMISMATCH, "header of the state: "
		    "vocabulary of %u, but the model has %zu",
		    (unsigned)h->n_vocab, n_vocab);
	return 0;
}

int
qwen_state_reader_init(struct qwen_state_reader *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err)
{
	if (header->kind != QWEN_REC_HEADER ||
	    header->header->kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH, "not a state");
	v->lay.n_vocab = header->header->n_vocab;
	v->lay.format = qwen_state_format(header->header);
	v->lay.k = header->header->k;
	v->lay.v = header->header->v;
	if (qwen_state_counts_init(&v->counts, header->raw, header->n_raw,
	    err) < 0 || qwen_index_check_init(&v->index, err) < 0 ||
	    qwen_coder_new(&v->coder, err) < 0)
		return -1;
	if (m == NULL)
		return 0;
	return qwen_state_match(header->header, m, err) < 0 ||
	    qwen_session_new(&v->s, m, err) < 0 ? -1 :
	    qwen_state_mtp_of(&v->mtp, v->s, err);
}

int
qwen_state_read_through(struct qwen_state_reader *v, struct qwen_model *m,
    int fd, struct qwen_header *h, struct qwen_err *err)
{
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_STATE };
	struct qwen_record rec;
	int got, rc = -1;

	if (lseek(fd, 0, SEEK_SET) == -1 && errno != ESPIPE)
		return qwen_fail_errno(err, "cannot seek");
	if (qwen_reader_open(&v->r, fd, &opts, err) < 0)
		return -1;
	if ((got = qwen_reader_next(v->r, &rec, err)) == 0)
		qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	if (got > 0 && rec.kind == QWEN_REC_HEADER)
		*h = *rec.header;
	if (got > 0 && qwen_state_reader_init(v, m, &rec, err) == 0 &&
	    qwen_state_read_all(v, err) == 0)
		rc = qwen_reader_next(v->r, &rec, err) == 0 ? 0 :
		    qwen_fail(err, QWEN_EFORMAT,
		    "bytes follow the end of the state");
	qwen_reader_close(v->r);
	v->r = NULL;
	return rc;
}

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
	    .n_tokens = (size_t)v->lay.n_tokens,
	    .logits = v->lay.end_logits, .named = v->lay.end_named };

	if (qwen_state_mtp_fits(&v->lay.mtp, &v->mtp))
		qwen_session_mtp_set(v->s, (size_t)v->lay.mtp.first,
		    end.n_tokens, v->hidden);
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
	struct qwen_state_reader v = { .r = r };
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
	struct qwen_header h;
	int rc = -1;

	if (qwen_state_read_through(&v, m, fd, &h, err) == 0 &&
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
	if (f->info.part)
		qwen_fail(err, QWEN_EMISMATCH, "a part of a state (tokens from "
		    "%llu) is not a whole state",
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
	*header = f->info.header;
	if (fp != NULL)
		*fp = f->info.fp;
	hand_over_extra(&f->content, x);
	*tokens = f->content.tokens;
	*n = (size_t)(f->info.n_tokens - f->info.from);
	f->content.tokens = NULL;
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
