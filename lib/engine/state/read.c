/* SPDX-License-Identifier: ISC */
/*
 * read.c - reads the records of a state, in order, whatever the transport.  The
 * caller gets the new objects only once the end record has confirmed all
 * records.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/section.h"

int
qwen_state_next_of_stream(struct qwen_state_reader *v,
    struct qwen_state_rec *rec, struct qwen_err *err)
{
	struct qwen_record in;
	int got;

	if ((got = qwen_reader_next(v->r, &in, err)) < 0)
		return qwen_fail_in(err, "state block %" PRIu64, v->counts.n);
	if (got == 0 || in.kind != QWEN_REC_STATE)
		return qwen_fail(err, QWEN_EFORMAT, "the state is truncated "
		    "after block %" PRIu64, v->counts.n);
	return qwen_state_rec_decode(rec, &v->counts, in.raw, in.n_raw, err);
}

/*
 * Checks the sequence and fields of a record and uses its content.  Returns 1
 * if its data still has to be decoded and placed at *p; 0; -1.
 */
static int
use(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    struct qwen_state_place *p, struct qwen_err *err)
{
	const struct qwen_state_entry *e = &rec->e;
	const struct qwen_kind_row *k = &qwen_kinds[e->kind];
	const unsigned char *raw = NULL;
	int last = e->kind == QWEN_K_INDEX || e->kind == QWEN_K_END;

	if ((rec->index == 0) != (e->kind == QWEN_K_INFO))
		return qwen_fail(err, QWEN_EFORMAT, rec->index == 0 ?
		    "the first block is not info" : "a second info block");
	if (v->index.offset != 0 && !last)
		return qwen_fail(err, QWEN_EFORMAT, "a block after the index");
	if (!last)
		qwen_index_check_record(&v->index, e);
	if (e->kind == QWEN_K_NONE && rec->f.v[QWEN_F_SKIP].n == 1)
		return 0;
	if (rec->read && qwen_state_rec_want(rec, err) < 0)
		return -1;
	if (k->width > 0 && !last && qwen_state_layout_add(&v->lay, e, err) < 0)
		return -1;
	if (!rec->read || (k->waits && v->s == NULL && !v->decode_all))
		return 0;
	if (k->waits && v->s != NULL)
		return qwen_state_find_place(v, e, p, err);
	if (k->width > 0 && qwen_state_rec_data(&v->lay, rec, v->coder, &raw,
	    err) < 0)
		return -1;
	return k->waits ? 0 : qwen_sections[e->kind].read(v, rec, raw, err);
}

/*
 * Reads records up to one that has to be placed: returns 1; 0 after the end
 * record; -1.
 */
static int
next_piece(void *arg, struct qwen_state_job *j)
{
	struct qwen_state_reader *v = arg;
	struct qwen_err *err = &j->err;
	int rc = 0;

	j->lay = &v->lay;
	while (rc == 0 && !v->ended) {
		j->n = v->counts.n;
		qwen_state_counts_hash(&v->counts, &v->total);
		if (v->next(v, &j->rec, err) < 0)
			return -1;
		if ((rc = use(v, &j->rec, &j->place, err)) < 0)
			return qwen_state_rec_fail(&j->rec, err);
		if (v->list != NULL &&
		    qwen_state_list_add(v->list, &j->rec.e, err) < 0)
			return -1;
	}
	if (rc > 0) {	/* the reader's buffer is reused for the next record */
		memcpy(j->buf, j->rec.data, j->rec.n_data);
		j->rec.data = j->buf;
	}
	return rc;
}

int
qwen_state_read_all(struct qwen_state_reader *v, struct qwen_err *err)
{
	struct qwen_state_supply from = { .arg = v, .s = v->s,
	    .blocks = &v->blocks, .n = SIZE_MAX, .next = next_piece };
	struct qwen_state_job j = { .n = 0 };
	int rc;

	if (v->s == NULL) {
		if ((rc = next_piece(v, &j)) < 0 && err != NULL)
			*err = j.err;
		return rc;
	}
	pthread_rwlock_init(&v->blocks, NULL);
	rc = qwen_state_place_all(&from,
	    qwen_model_pool(qwen_session_model(v->s)), err);
	pthread_rwlock_destroy(&v->blocks);
	return rc;
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
	free(v->span);
	free(v->tokens);
	free(v->end.hidden);
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
		return -1;
	if (h->n_vocab != n_vocab)
		return qwen_fail(err, QWEN_EMISMATCH, "made with another "
		    "model: its vocabulary has %u tokens, not %zu; give that "
		    "model with -m", (unsigned)h->n_vocab, n_vocab);
	return 0;
}

int
qwen_state_reader_init(struct qwen_state_reader *v, struct qwen_model *m,
    const struct qwen_record *header, struct qwen_err *err)
{
	struct qwen_view view;

	if (header->kind != QWEN_REC_HEADER ||
	    header->header->kind != QWEN_STREAM_STATE)
		return qwen_fail(err, QWEN_EMISMATCH, "not a state");
	v->lay.info.header = *header->header;
	if (qwen_state_counts_init(&v->counts, header->raw, header->n_raw,
	    err) < 0 || qwen_index_check_init(&v->index, err) < 0 ||
	    qwen_coder_new(&v->coder, err) < 0)
		return -1;
	if (m == NULL)
		return 0;
	if (qwen_state_match(header->header, m, err) < 0 ||
	    qwen_session_new(&v->s, m, err) < 0)
		return -1;
	view = qwen_session_view(v->s);
	v->end = (struct qwen_kept){ .recurrent = view.recurrent,
	    .logits = view.row };
	return qwen_state_mtp_of(&v->mtp, v->s, err);
}

int
qwen_state_read_through(struct qwen_state_reader *v, struct qwen_model *m,
    int fd, struct qwen_err *err)
{
	struct qwen_reader_opts opts = { .kinds = QWEN_STREAM_STATE };
	struct qwen_record rec;
	int got, rc = -1;

	if (lseek(fd, 0, SEEK_SET) == -1 && errno != ESPIPE)
		return qwen_fail_errno(err, "cannot seek");
	if (qwen_reader_open(&v->r, fd, &opts, err) < 0)
		return -1;
	v->next = qwen_state_next_of_stream;
	if ((got = qwen_reader_next(v->r, &rec, err)) == 0)
		qwen_fail(err, QWEN_EFORMAT, "the file is empty");
	if (got > 0 && qwen_state_reader_init(v, m, &rec, err) == 0 &&
	    qwen_state_read_all(v, err) == 0)
		rc = qwen_reader_next(v->r, &rec, err) == 0 ? 0 :
		    qwen_fail(err, QWEN_EFORMAT,
		    "bytes follow the end of the state");
	qwen_reader_close(v->r);
	v->r = NULL;
	return rc;
}
