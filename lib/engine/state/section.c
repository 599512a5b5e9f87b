/* SPDX-License-Identifier: ISC */
/*
 * section.c - the sections of a state: how each kind of record is read and
 * written.  kind.c has their fields; layout.c checks that a state is complete.
 *
 * The KV cache is written by positions: all layers of the first positions, then
 * all layers of the next.  So a reader allocates memory for positions only when
 * their bytes arrive.
 */
#include <inttypes.h>
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/state/section.h"
#include "engine/state/write.h"

enum {
	GROUP_BLOCKS = 16,	/* KV blocks in a record: 256 positions */
	TOKENS_ALWAYS = 1 << 20,	/* always accepted, whatever the file's
					   length */
};

/* --------------------------------------------------------------------- info */

/*
 * Bounds the number of tokens by the file's length.  Without a model no context
 * length bounds it, and a run of equal tokens compresses to almost nothing.
 * But the KV cache of 256 positions takes at least one record, of 80 bytes or
 * more.
 */
static int
check_tokens(const struct qwen_state_reader *v, struct qwen_err *err)
{
	uint64_t n = v->lay.info.n_tokens - v->lay.info.from;
	uint64_t most = 8 * v->bytes;

	if (v->bytes == 0 || n <= TOKENS_ALWAYS || n <= most)
		return 0;
	return qwen_fail(err, QWEN_ERANGE, "%llu tokens cannot be in a file of "
	    "%llu bytes", (unsigned long long)n, (unsigned long long)v->bytes);
}

static int
read_info(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	(void)raw;
	if (qwen_state_layout_info(&v->lay, rec, err) < 0)
		return -1;
	if (v->s != NULL && v->lay.info.part)
		return qwen_fail(err, QWEN_EMISMATCH, "a part of a state "
		    "(tokens from %llu) is not a whole state",
		    (unsigned long long)v->lay.info.from);
	if (v->s != NULL && v->lay.info.converted)
		qwen_session_set_converted(v->s);
	return v->s == NULL ? check_tokens(v, err) :
	    qwen_state_layout_match(&v->lay, v->s, err);
}

static int
write_info(struct qwen_save *v)
{
	struct qwen_state_builder *p = &v->builder;
	struct qwen_fp prefix;
	size_t i, j, n;

	/* a shape takes at most 53 bytes */
	if (v->lay.info.n_layers > QWEN_PIECE_MAX / 64)
		return qwen_fail(v->err, QWEN_ERANGE, "%zu layers",
		    v->lay.info.n_layers);
	if (qwen_save_begin(v, QWEN_K_INFO) < 0)
		return -1;
	qwen_state_put_uint(p, "format",
	    qwen_state_format(&v->lay.info.header));
	qwen_state_put_text(p, "writer", "libqwen " QWEN_VERSION);
	qwen_state_put_uint(p, "n_tokens", v->lay.info.n_tokens);
	qwen_state_put_uint(p, "kv_block", QWEN_KV_BLOCK);
	if (v->lay.info.part) {
		qwen_state_prefix(v->tokens, (size_t)v->lay.info.from, &prefix);
		qwen_state_put_uint(p, "from", v->lay.info.from);
		qwen_state_put_bytes(p, "prefix", prefix.b,
		    sizeof prefix.b);
	}
	if (v->lay.info.converted)
		qwen_state_put_bool(p, "converted", 1);
	qwen_state_put_key(p, "layers");
	qwen_state_put_array(p, v->lay.info.n_layers);
	for (i = 0; i < v->lay.info.n_layers; i++) {
		n = v->lay.info.layers[i].kv ? 2 : 5;
		qwen_state_put_array(p, 1 + n);
		qwen_state_put_string(p, n == 2 ? "kv" : "delta");
		for (j = 0; j < n; j++)
			qwen_state_put_number(p, v->lay.info.layers[i].n[j]);
	}
	return qwen_save_finish(v);
}

/* -------------------------------------------------------------------- spans */

/* Checks a span, which follows the one before it and ends after `from'. */
static int
check_span(const struct qwen_state_reader *v, const struct qwen_span *p,
    struct qwen_err *err)
{
	const struct qwen_state_info *info = &v->lay.info;
	const struct qwen_span *last = v->span + v->n_span;
	uint64_t past = v->n_span > 0 ? last[-1].start + last[-1].n : 0;

	if (p->start >= past && p->start < info->n_tokens &&
	    p->n >= QWEN_SPAN_MIN && p->n <= INT32_MAX &&
	    p->start + p->n > info->from && (p->width == 0 ?
	    p->height == 0 : (uint64_t)p->height * p->width == p->n))
		return 0;
	return qwen_fail(err, QWEN_EFORMAT, "span of %" PRIu64 " rows at "
	    "position %" PRIu64 ": invalid", p->n, p->start);
}

static int
read_spans(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	struct qwen_span p;

	if (rec->e.len % sizeof p != 0 ||
	    v->lay.done[QWEN_K_TOKENS * v->lay.n_done] != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "incomplete span, or spans after the tokens");
	for (size_t i = 0; i < rec->e.len; i += sizeof p) {
		memcpy(&p, raw + i, sizeof p);
		if (check_span(v, &p, err) < 0)
			return -1;
		if (qwen_grow(&v->span, &v->cap_span, v->n_span + 1,
		    sizeof p) < 0)
			return qwen_oom(err);
		v->span[v->n_span++] = p;
	}
	return 0;
}

/* Writes the spans of the tokens that are written. */
static int
write_spans(struct qwen_save *v)
{
	const struct qwen_span *p = v->span;
	const size_t most = QWEN_PIECE_MAX / sizeof *p;
	struct qwen_save_piece *t;
	size_t i, n = v->n_span, part;

	while (n > 0 && p[n - 1].start >= v->lay.info.n_tokens)
		n--;
	for (; n > 0 && p->start + p->n <= v->lay.info.from; n--)
		p++;
	for (i = 0; i < n; i += part) {
		part = n - i < most ? n - i : most;
		t = qwen_save_add_piece(v, v->kind, -1, -1, i * sizeof *p,
		    part * sizeof *p);
		if (t == NULL)
			return -1;
		t->src = p + i;
	}
	return 0;
}

/* ------------------------------------------------------------------- tokens */

/* Checks the id at a position; *k is a span at or before it. */
static int
check_id(const struct qwen_state_reader *v, int32_t id, uint64_t pos,
    size_t *k, struct qwen_err *err)
{
	uint64_t n_vocab = v->lay.info.header.n_vocab;
	const struct qwen_span *p;

	while (*k < v->n_span && v->span[*k].start + v->span[*k].n <= pos)
		++*k;
	p = *k < v->n_span && v->span[*k].start <= pos ? &v->span[*k] : NULL;
	if (p != NULL)
		return id == qwen_span_id(p, pos - p->start) ? 0 :
		    qwen_fail(err, QWEN_EFORMAT, "token %ld is not that of "
		    "its span", (long)id);
	return id >= 0 && (uint64_t)id < n_vocab ? 0 : qwen_fail(err,
	    QWEN_ERANGE, "token %ld is outside the vocabulary of %llu",
	    (long)id, (unsigned long long)n_vocab);
}

static int
read_tokens(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	size_t i, k = 0, n = (size_t)rec->e.len / 4;
	uint64_t first = rec->e.off / 4;
	int32_t id;

	for (i = 0; i < n; i++) {
		memcpy(&id, raw + 4 * i, sizeof id);
		if (check_id(v, id, v->lay.info.from + first + i, &k, err) < 0)
			return -1;
	}
	if (v->decode_all)
		return 0;
	if (qwen_grow(&v->tokens, &v->cap_tokens, first + n,
	    sizeof *v->tokens) < 0)
		return qwen_oom(err);
	memcpy(v->tokens + first, raw, 4 * n);
	return 0;
}

static int
write_tokens(struct qwen_save *v)
{
	return v->f != NULL ?
	    qwen_save_copy_records(v, QWEN_K_TOKENS, QWEN_K_TOKENS) :
	    qwen_save_add_object(v, QWEN_K_TOKENS, -1, -1,
	    v->tokens + v->lay.info.from,
	    (size_t)qwen_state_bytes(&v->lay, QWEN_K_TOKENS, -1));
}

/* -------------------------------------- KV cache; records of the MTP block */

/*
 * Adds pieces for KV blocks first .. first + n - 1 of a layer.  Blocks before
 * base are not saved.
 */
static int
add_blocks(struct qwen_save *v, int64_t layer, size_t base, size_t first,
    size_t n)
{
	size_t size = (size_t)qwen_state_kv_block(qwen_state_layer_of(&v->lay,
	    layer));
	size_t done, part, total = n * size;
	struct qwen_save_piece *t;

	for (done = 0; done < total; done += part) {
		part = total - done;
		if (total > QWEN_PIECE_MAX)	/* n is 1 */
			part = part < QWEN_PIECE_MAX ? part : QWEN_PIECE_MAX;
		t = qwen_save_add_piece(v, v->kind, layer, -1,
		    (uint64_t)(first - base) * size + done, part);
		if (t == NULL)
			return -1;
		t->first = first;
		t->at = done;
	}
	return 0;
}

static int
write_kv(struct qwen_save *v)
{
	/* the layers, or only the MTP block, which is layer -1 */
	int64_t i, from = v->kind == QWEN_K_KV ? 0 : -1;
	int64_t stop = from < 0 ? 0 : (int64_t)v->lay.info.n_layers;
	size_t first, step, end, base, group = GROUP_BLOCKS;
	uint64_t at;

	end = (size_t)qwen_state_blocks(&v->lay, v->kind, &at);
	if (end == 0)
		return 0;
	if (v->f != NULL)
		return qwen_save_copy_records(v, v->kind, v->kind);
	base = (size_t)at;
	end += base;
	for (i = from; i < stop; i++) {
		while (group > 1 && group * qwen_state_kv_block(
		    qwen_state_layer_of(&v->lay, i)) > QWEN_PIECE_MAX)
			group /= 2;
	}
	for (first = base; first < end; first += step) {
		/* groups begin at the same positions in every part */
		step = group - first % group;
		step = end - first < step ? end - first : step;
		for (i = from; i < stop; i++) {
			if (qwen_state_layer_of(&v->lay, i)->kv &&
			    add_blocks(v, i, base, first, step) < 0)
				return -1;
		}
	}
	return 0;
}

static int
read_mtp(struct qwen_state_reader *v,
    const struct qwen_state_rec *rec, const unsigned char *raw,
    struct qwen_err *err)
{
	(void)raw;
	return qwen_state_layout_mtp(&v->lay, rec, err);
}

static int
write_mtp(struct qwen_save *v)
{
	const struct qwen_state_mtp *p = &v->lay.mtp;

	if (!p->there)
		return 0;
	if (qwen_save_begin(v, v->kind) < 0)
		return -1;
	qwen_state_put_uint(&v->builder, "heads", p->layer.n[0]);
	qwen_state_put_uint(&v->builder, "size", p->layer.n[1]);
	qwen_state_put_uint(&v->builder, "embd", p->n_embd);
	qwen_state_put_uint(&v->builder, "first", p->first);
	qwen_state_put_bytes(&v->builder, "model", p->model.b,
	    sizeof p->model.b);
	qwen_state_put_bool(&v->builder, "skip", 1);
	return qwen_save_finish(v);
}

/* ------------------ data of a position: DeltaNet, convolution, logits, mark */

static int
read_mark(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	int named = rec->f.v[QWEN_F_NAMED].n != 0;

	(void)raw;
	if (qwen_state_layout_mark(&v->lay, (uint64_t)rec->e.at, named,
	    err) < 0 ||
	    qwen_state_set_position(v, (uint64_t)rec->e.at, err) < 0)
		return -1;
	if (v->kept.c.at != 0)
		v->kept.c.named = named;
	return 0;
}

/*
 * Writes the recurrent state, logits and hidden state after at tokens; the last
 * two may be NULL.
 */
static int
write_position(struct qwen_save *v, uint64_t at, const void *recurrent,
    const float *logits, const float *hidden)
{
	const char *base = recurrent;
	size_t i;
	int k;

	for (i = 0; i < v->lay.info.n_layers; i++) {
		if (v->lay.info.layers[i].kv)
			continue;
		for (k = QWEN_K_DELTA; k <= QWEN_K_CONV; k++) {
			if (qwen_save_add_object(v, (enum qwen_kind)k,
			    (int64_t)i, (int64_t)at, base +
			    qwen_session_recurrent_at(v->s, i,
			    k == QWEN_K_CONV), (size_t)
			    qwen_state_bytes(&v->lay, (enum qwen_kind)k,
			    (int64_t)i)) < 0)
				return -1;
		}
	}
	if (logits != NULL && qwen_save_add_object(v, QWEN_K_LOGITS, -1,
	    (int64_t)at, logits,
	    (size_t)qwen_state_bytes(&v->lay, QWEN_K_LOGITS, -1)) < 0)
		return -1;
	return hidden == NULL || !v->lay.mtp.there ? 0 : qwen_save_add_object(v,
	    QWEN_K_HIDDEN, -1, (int64_t)at, hidden,
	    (size_t)v->lay.mtp.n_embd * sizeof *hidden);
}

/* Writes a checkpoint, from memory or from its file. */
static int
write_checkpoint(struct qwen_save *v, const struct qwen_kept *k)
{
	struct qwen_state_file *f = qwen_state_file_of(k->src);
	const struct qwen_state_entry *e;
	enum qwen_kind stop;
	size_t i;

	if (f == NULL && write_position(v, k->c.at, k->recurrent, k->logits,
	    k->hidden) < 0)
		return -1;
	stop = f != NULL && qwen_state_mtp_fits(&f->in.lay.mtp, &v->lay.mtp) ?
	    QWEN_K_HIDDEN : QWEN_K_LOGITS;
	for (i = 0; f != NULL && i < f->list.n; i++) {
		e = &f->list.entry[i];
		if ((uint64_t)e->at == k->c.at && e->has_data &&
		    e->kind >= QWEN_K_DELTA && e->kind <= stop &&
		    qwen_save_add_record(v, f, i) < 0)
			return -1;
	}
	return k->c.named ? qwen_save_mark(v, k->c.at) : 0;
}

/* Writes the checkpoints within the range, and the state at its end. */
static int
write_positions(struct qwen_save *v)
{
	const struct qwen_session *s = v->s;
	const struct qwen_kept *k;
	size_t i;

	if (v->f != NULL)
		return qwen_save_copy_records(v, QWEN_K_DELTA,
		    QWEN_K_CHECKPOINT);
	for (i = 0; !v->opts->no_checkpoints &&
	    i < qwen_session_n_checkpoints(s); i++) {
		k = qwen_session_kept(s, i);
		if (k->c.at > v->lay.info.from &&
		    k->c.at < v->lay.info.n_tokens &&
		    write_checkpoint(v, k) < 0)
			return -1;
	}
	if (v->opts->no_recurrent)
		return 0;
	if (v->kept != NULL)
		return write_checkpoint(v, v->kept);
	/* sessions can continue without a state */
	if (v->lay.info.n_tokens < v->n_tokens)
		return 0;
	if (write_position(v, v->lay.info.n_tokens,
	    qwen_session_view(s).recurrent,
	    qwen_session_logits(s), v->lay.info.n_tokens == 0 ? NULL :
	    qwen_hidden_at(s, (size_t)v->lay.info.n_tokens - 1)) < 0)
		return -1;
	return qwen_session_view(s).end_named &&
	    v->lay.info.n_tokens > v->lay.info.from ?
	    qwen_save_mark(v, v->lay.info.n_tokens) : 0;
}

/* -------------------------------------------------------- index and the end */

static int
read_index(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	struct qwen_index_check *f = &v->index;

	if (f->offset == 0)
		f->offset = rec->e.offset;
	if (rec->e.len == 0 || rec->e.off != f->n_bytes ||
	    rec->e.len > f->n_records * QWEN_ENTRY_BYTES - f->n_bytes)
		return qwen_fail(err, QWEN_EFORMAT, "index of %llu bytes at "
		    "%llu for %llu blocks: invalid",
		    (unsigned long long)rec->e.len,
		    (unsigned long long)rec->e.off,
		    (unsigned long long)f->n_records);
	qwen_index_check_entries(f, raw, (size_t)rec->e.len);
	return 0;
}

/* Writes the index, which lists all records so far. */
static int
write_index(struct qwen_save *v)
{
	unsigned char *b;
	size_t i, n;
	int r;

	if (qwen_send(v) < 0)
		return -1;
	n = v->list.n;
	if ((b = qwen_alloc(n, QWEN_ENTRY_BYTES)) == NULL)
		return qwen_oom(v->err);
	for (i = 0; i < n; i++)
		qwen_state_entry_pack(&v->list.entry[i],
		    b + i * QWEN_ENTRY_BYTES);
	v->index = v->counts.bytes;
	r = qwen_save_add_object(v, QWEN_K_INDEX, -1, -1, b,
	    n * QWEN_ENTRY_BYTES) < 0 ? -1 : qwen_send(v);
	free(b);
	return r;
}

static int
read_end(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v;

	(void)raw;
	if (v->f == NULL && f[QWEN_F_STEPS].n != 0)
		return qwen_fail(err, QWEN_EUNSUP, "saved in steps: readable "
		    "from a file, not as a stream; convert it with qstate pack");
	/* v->sum includes this record; v->total does not */
	if (f[QWEN_F_RECORDS].n != rec->index ||
	    f[QWEN_F_BYTES].n != rec->e.offset ||
	    f[QWEN_F_RAW].n != v->counts.raw)
		return qwen_fail(err, QWEN_EFORMAT, "the counts are wrong");
	if (f[QWEN_F_TOTAL].n != sizeof v->total.b ||
	    memcmp(f[QWEN_F_TOTAL].s, v->total.b, sizeof v->total.b) != 0)
		return qwen_fail(err, QWEN_EFORMAT,
		    "the blocks differ from those that were written");
	/* a missing field is 0, as is follow.offset without an index */
	if (f[QWEN_F_INDEX].n != v->index.offset)
		return qwen_fail(err, QWEN_EFORMAT, "the index is at byte %llu "
		    "instead", (unsigned long long)v->index.offset);
	if (qwen_index_check_end(&v->index, err) < 0 ||
	    qwen_state_layout_end(&v->lay, err) < 0 ||
	    qwen_state_add_checkpoint(v, err) < 0)
		return -1;
	v->ended = 1;
	return 0;
}

/*
 * The end record has a fixed length, so that readers find it from the end of
 * the file.
 */
static int
write_end(struct qwen_save *v)
{
	static const unsigned char zero[QWEN_END_BYTES];
	struct qwen_state_builder *p = &v->builder;

	if (qwen_save_begin(v, QWEN_K_END) < 0)
		return -1;
	qwen_state_counts_hash(&v->counts, &v->total);
	qwen_state_put_uint(p, "records", v->counts.n);
	qwen_state_put_uint(p, "bytes", v->counts.bytes);
	qwen_state_put_uint(p, "raw", v->counts.raw);
	qwen_state_put_bytes(p, "total", v->total.b, sizeof v->total.b);
	qwen_state_put_uint(p, "index", v->index);
	if (v->steps != NULL)
		qwen_state_put_bool(p, "steps", 1);
	/* minus key and head of the pad, empty data, and check */
	qwen_state_put_bytes(p, "pad", zero, QWEN_END_BYTES - p->n -
	    (4 + 2) - 1 - (1 + QWEN_CHECK_BYTES));
	return qwen_save_finish(v);
}

/* ------------------------------------------------- struct qwen_state_extra */

/* Copies the text of a field, of less than max bytes. */
static int
copy_text(char **out, const struct qwen_cbor_item *it, size_t max,
    struct qwen_err *err)
{
	if (it->n >= max || memchr(it->s, 0, (size_t)it->n) != NULL)
		return qwen_fail(err, QWEN_ERANGE, "options of %llu bytes are "
		    "too long or contain NUL", (unsigned long long)it->n);
	*out = strndup((const char *)it->s, (size_t)it->n);
	return *out != NULL ? 0 : qwen_oom(err);
}

/* Reads pairs of position and number, ascending and not adjacent. */
static int
read_generated(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	uint64_t pos, n, past = 0;
	size_t i;

	if (rec->e.len % 16 != 0)
		return qwen_fail(err, QWEN_EFORMAT, "incomplete pair of "
		    "numbers");
	if (v->x.n_generated > 0)
		past = v->x.generated[v->x.n_generated - 1].pos +
		    v->x.generated[v->x.n_generated - 1].n + 1;
	for (i = 0; i < rec->e.len; i += 16) {
		pos = qwen_le64(raw + i);
		n = qwen_le64(raw + i + 8);
		if (pos < past || pos >= v->lay.info.n_tokens || n == 0 ||
		    n > v->lay.info.n_tokens - pos)
			return qwen_fail(err, QWEN_EFORMAT,
			    "%llu tokens generated at %llu",
			    (unsigned long long)n, (unsigned long long)pos);
		if (qwen_state_extra_generated(&v->x, pos, n, err) < 0)
			return -1;
		past = pos + n + 1;
	}
	return 0;
}

static int
write_generated(struct qwen_save *v)
{
	return qwen_save_add_object(v, v->kind, -1, -1, v->x.generated,
	    v->x.n_generated * sizeof *v->x.generated);
}

static int
read_sampler(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_cbor_item *tail = &rec->f.v[QWEN_F_PENDING];
	const struct qwen_cbor_item *memory = &rec->f.v[QWEN_F_MEMORY];

	(void)raw;
	if (v->x.sampler != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "a second block of this "
		    "kind");
	if (memory->n >= QWEN_SAMPLER_MEMORY || (memory->n > 0 &&
	    memchr(memory->s, 0, (size_t)memory->n) != NULL))
		return qwen_fail(err, QWEN_ERANGE, "sampler memory of %llu "
		    "bytes is too long or contains NUL",
		    (unsigned long long)memory->n);
	if (tail->n > sizeof v->x.pending)
		return qwen_fail(err, QWEN_ERANGE, "pending text of %llu bytes "
		    "is too long", (unsigned long long)tail->n);
	if (copy_text(&v->x.sampler, &rec->f.v[QWEN_F_OPTIONS],
	    QWEN_SAMPLER_MAX, err) < 0)
		return -1;
	if (memory->n > 0)
		memcpy(v->x.memory, memory->s, (size_t)memory->n);
	memcpy(v->x.pending, tail->s, (size_t)tail->n);
	v->x.n_pending = (size_t)tail->n;
	return 0;
}

static int
write_sampler(struct qwen_save *v)
{
	const struct qwen_state_extra *x = &v->x;
	int memory = x->memory[0] != '\0';

	if (x->sampler == NULL && x->n_pending == 0 && !memory)
		return 0;
	if (qwen_save_begin(v, v->kind) < 0)
		return -1;
	qwen_state_put_text(&v->builder, "options",
	    x->sampler != NULL ? x->sampler : "");
	qwen_state_put_bytes(&v->builder, "pending", x->pending,
	    x->n_pending);
	if (memory)
		qwen_state_put_text(&v->builder, "memory", x->memory);
	return qwen_save_finish(v);
}

/* Reads the run, whose tokens are the last of the state. */
static int
read_run(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v, *base = &f[QWEN_F_RUN_BASE];
	struct qwen_run *run = &v->x.run;

	(void)raw;
	if (run->options != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "a second block of this "
		    "kind");
	if (f[QWEN_F_RUN_START].n > v->lay.info.n_tokens ||
	    f[QWEN_F_RUN_COUNT].n !=
	    v->lay.info.n_tokens - f[QWEN_F_RUN_START].n ||
	    f[QWEN_F_RUN_INPUT].n > f[QWEN_F_RUN_START].n)
		return qwen_fail(err, QWEN_ERANGE,
		    "the run does not fit the state: %llu tokens from %llu of "
		    "%llu, %llu before it",
		    (unsigned long long)f[QWEN_F_RUN_COUNT].n,
		    (unsigned long long)f[QWEN_F_RUN_START].n,
		    (unsigned long long)v->lay.info.n_tokens,
		    (unsigned long long)f[QWEN_F_RUN_INPUT].n);
	if (base->n != 0 && base->n != sizeof run->base.b)
		return qwen_fail(err, QWEN_ERANGE, "a fingerprint of %llu "
		    "bytes", (unsigned long long)base->n);
	run->has_base = base->n != 0;
	run->from = f[QWEN_F_RUN_START].n;
	run->count = f[QWEN_F_RUN_COUNT].n;
	run->input = f[QWEN_F_RUN_INPUT].n;
	run->finished = f[QWEN_F_RUN_FINISHED].n != 0;
	run->again = f[QWEN_F_RUN_AGAIN].n != 0;
	memcpy(run->base.b, base->s, (size_t)base->n);
	return copy_text(&run->options, &f[QWEN_F_RUN_OPTIONS],
	    QWEN_OPTIONS_MAX, err);
}

/* Writes the run, unless tokens were added after it or it was cut. */
static int
write_run(struct qwen_save *v)
{
	const struct qwen_run *run = &v->x.run;
	struct qwen_state_builder *p = &v->builder;

	if (run->options == NULL || run->from > v->lay.info.n_tokens ||
	    run->count != v->lay.info.n_tokens - run->from)
		return 0;
	if (qwen_save_begin(v, v->kind) < 0)
		return -1;
	qwen_state_put_uint(p, "start", run->from);
	qwen_state_put_uint(p, "count", run->count);
	qwen_state_put_uint(p, "input", run->input);
	qwen_state_put_text(p, "options", run->options);
	qwen_state_put_bool(p, "finished", run->finished);
	qwen_state_put_bool(p, "again", run->again);
	qwen_state_put_bytes(p, "base", run->base.b,
	    run->has_base ? sizeof run->base.b : 0);
	qwen_state_put_bool(p, "skip", 1);
	return qwen_save_finish(v);
}

/* ---------------------------------------------------------------- the table */

const struct qwen_section qwen_sections[QWEN_N_KINDS] = {
	[QWEN_K_INFO] = { read_info, write_info },
	[QWEN_K_SPANS] = { read_spans, write_spans },
	[QWEN_K_TOKENS] = { read_tokens, write_tokens },
	[QWEN_K_KV] = { NULL, write_kv },
	[QWEN_K_MTP] = { read_mtp, write_mtp },
	[QWEN_K_MTP_KV] = { NULL, write_kv },
	[QWEN_K_DELTA] = { NULL, write_positions },
	[QWEN_K_CHECKPOINT] = { read_mark, NULL },
	[QWEN_K_GENERATED] = { read_generated, write_generated },
	[QWEN_K_SAMPLER] = { read_sampler, write_sampler },
	[QWEN_K_RUN] = { read_run, write_run },
	[QWEN_K_INDEX] = { read_index, write_index },
	[QWEN_K_END] = { read_end, write_end },
};
