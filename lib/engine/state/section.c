/* SPDX-License-Identifier: ISC */
/*
 * section.c - the sections of a session's state: how each kind of record is
 * read and written, and the table of all kinds. layout.c checks that a state is
 * complete; extra.c has the sections beside the session.
 *
 * The KV cache is written by positions: all layers of the first positions, then
 * all layers of the next.  So a reader allocates memory for positions only when
 * their bytes arrive.
 */
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/save.h"

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
	uint64_t n = v->lay.n_tokens - v->lay.from, most = 8 * v->bytes;

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
	if (v->s != NULL && v->lay.part)
		return qwen_fail(err, QWEN_EMISMATCH, "a part of a state "
		    "(tokens from %llu) is not a whole state",
		    (unsigned long long)v->lay.from);
	if (v->s != NULL && v->lay.converted)
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

	if (v->n_layer > QWEN_PIECE_MAX / 64)	/* a shape takes at most 53
						   bytes */
		return qwen_fail(v->err, QWEN_ERANGE, "%zu layers",
		    v->n_layer);
	if (qwen_save_begin(v, QWEN_K_INFO) < 0)
		return -1;
	qwen_state_put_uint(p, "format", v->format);
	qwen_state_put_text(p, "writer", "libqwen " QWEN_VERSION);
	qwen_state_put_uint(p, "n_tokens", v->to);
	qwen_state_put_uint(p, "kv_block", QWEN_KV_BLOCK);
	if (v->part) {
		qwen_state_prefix(v->tokens, (size_t)v->from, &prefix);
		qwen_state_put_uint(p, "from", v->from);
		qwen_state_put_bytes(p, "prefix", prefix.b,
		    sizeof prefix.b);
	}
	if (v->converted)
		qwen_state_put_bool(p, "converted", 1);
	qwen_state_put_key(p, "layers");
	qwen_state_put_array(p, v->n_layer);
	for (i = 0; i < v->n_layer; i++) {
		n = v->layer[i].kv ? 2 : 5;
		qwen_state_put_array(p, 1 + n);
		qwen_state_put_string(p, v->layer[i].kv ? "kv" : "delta");
		for (j = 0; j < n; j++)
			qwen_state_put_number(p, v->layer[i].n[j]);
	}
	return qwen_save_finish(v);
}

/* ------------------------------------------------------------------- tokens */

static uint64_t
tokens_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer)
{
	(void)layer;
	return (l->n_tokens - l->from) * sizeof(int32_t);
}

static int
read_tokens(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	size_t i, n = (size_t)rec->e.len / 4, first = (size_t)rec->e.off / 4;
	int32_t id;

	for (i = 0; i < n; i++) {
		memcpy(&id, raw + 4 * i, sizeof id);
		if (id < 0 || (uint64_t)id >= v->lay.n_vocab)
			return qwen_fail(err, QWEN_ERANGE, "token %ld is "
			    "outside the vocabulary of %llu", (long)id,
			    (unsigned long long)v->lay.n_vocab);
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
	    qwen_save_add_object(v, QWEN_K_TOKENS, -1, -1, v->tokens + v->from,
	    (size_t)(v->to - v->from) * sizeof *v->tokens);
}

/* ----------------------------------------------------------------- KV cache */

static uint64_t
kv_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer)
{
	return qwen_state_kv_count(l) * qwen_state_kv_block(layer);
}

/* Copies a piece to its blocks, or points the blocks into the mapped file. */
void
qwen_state_copy_blocks(const struct qwen_state_target *p, size_t layer,
    const struct qwen_state_entry *e, const unsigned char *raw)
{
	size_t i, part, at;
	size_t size = qwen_session_view(p->s).kv_bytes;
	uint64_t b = p->first + e->off / size;
	int in_place = p->mapped && e->off % size == 0 && e->len % size == 0 &&
	    (uintptr_t)raw % QWEN_ALIGN == 0;

	at = (size_t)(e->off % size);
	for (i = 0; i < e->len && b < p->stop; i += part, b++, at = 0) {
		part = size - at < e->len - i ? size - at :
		    (size_t)e->len - i;
		if (in_place)
			/* the mapping is private, so it may be written to */
			*qwen_session_kv(p->s, layer, (size_t)b) =
			    (void *)(uintptr_t)(raw + i);
		else
			memcpy((char *)*qwen_session_kv(p->s, layer,
			    (size_t)b) + at, raw + i, part);
	}
}

static void
copy_kv(const struct qwen_state_target *p, const struct qwen_state_entry *e,
    const unsigned char *raw)
{
	qwen_state_copy_blocks(p, (size_t)e->layer, e, raw);
}

static int
set_target_kv(struct qwen_state_reader *v, const struct qwen_state_entry *e,
    struct qwen_state_target *p, struct qwen_err *err)
{
	size_t size = qwen_session_view(v->s).kv_bytes;

	p->stop = UINT64_MAX;
	return qwen_state_grow(v, (size_t)((e->off + e->len + size - 1) /
	    size), err) < 0 ? -1 : 1;
}

int
qwen_save_add_blocks(struct qwen_save *v, enum qwen_kind kind, int64_t layer,
    size_t size, size_t base, size_t first, size_t n)
{
	size_t done, part, total = n * size;
	struct qwen_save_piece *t;

	for (done = 0; done < total; done += part) {
		part = total - done;
		if (total > QWEN_PIECE_MAX)	/* n is 1 */
			part = part < QWEN_PIECE_MAX ? part : QWEN_PIECE_MAX;
		t = qwen_save_add_piece(v, kind, layer, -1,
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
	size_t base = (size_t)(v->from / QWEN_KV_BLOCK);
	size_t n = (size_t)((v->to + QWEN_KV_BLOCK - 1) / QWEN_KV_BLOCK);
	size_t i, first, step, group = GROUP_BLOCKS;

	if (v->f != NULL)
		return qwen_save_copy_records(v, QWEN_K_KV, QWEN_K_KV);
	if (v->from == v->to)
		n = base;
	for (i = 0; i < v->n_layer; i++) {
		while (group > 1 && group * qwen_state_kv_block(
		    &v->layer[i]) > QWEN_PIECE_MAX)
			group /= 2;
	}
	for (first = base; first < n; first += step) {
		/* groups begin at the same positions in every part */
		step = group - first % group;
		step = n - first < step ? n - first : step;
		for (i = 0; i < v->n_layer; i++) {
			if (v->layer[i].kv && qwen_save_add_blocks(v, QWEN_K_KV,
			    (int64_t)i, (size_t)qwen_state_kv_block(
			    &v->layer[i]), base, first, step) < 0)
				return -1;
		}
	}
	return 0;
}

/* ------------------ data of a position: DeltaNet, convolution, logits, mark */

static uint64_t
delta_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *p)
{
	(void)l;
	return p->kv ? 0 : p->n[0] * p->n[1] * p->n[2] * sizeof(float);
}

static uint64_t
conv_bytes(const struct qwen_state_layout *l, const struct qwen_state_layer *p)
{
	(void)l;
	return p->kv ? 0 : p->n[3] * p->n[4] * sizeof(float);
}

static uint64_t
logits_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *p)
{
	(void)p;
	return l->n_vocab * sizeof(float);
}

/* Adds the current checkpoint, if there is one, to the session. */
static int
add_checkpoint(struct qwen_state_reader *v, struct qwen_err *err)
{
	return v->s == NULL || v->kept.c.at == 0 ? 0 :
	    qwen_session_add_kept(v->s, &v->kept, err);
}

/*
 * Makes `at' the current position.  Its data goes to the session itself at the
 * end of the state, and to a checkpoint before.
 */
static int
set_position(struct qwen_state_reader *v, uint64_t at, struct qwen_err *err)
{
	size_t n;

	if (v->s == NULL || v->kept.c.at == at)
		return 0;
	if (add_checkpoint(v, err) < 0)
		return -1;
	if (at == v->lay.n_tokens)
		return 0;
	v->kept.c.at = at;
	if ((n = qwen_session_view(v->s).recurrent_bytes) == 0)
		return 0;
	v->kept.recurrent = qwen_map_zero(n);
	return v->kept.recurrent != NULL ? 0 : qwen_oom(err);
}

static void
copy_recurrent(const struct qwen_state_target *p,
    const struct qwen_state_entry *e, const unsigned char *raw)
{
	memcpy((char *)p->recurrent + qwen_session_recurrent_at(p->s,
	    (size_t)e->layer, e->kind == QWEN_K_CONV) + e->off, raw,
	    (size_t)e->len);
}

static void
copy_logits(const struct qwen_state_target *p, const struct qwen_state_entry *e,
    const unsigned char *raw)
{
	memcpy((char *)p->logits + e->off, raw, (size_t)e->len);
}

/*
 * Returns the memory for the hidden state of the current position; NULL without
 * memory.
 */
static float *
hidden_memory(struct qwen_state_reader *v)
{
	float **p = v->kept.c.at != 0 ? &v->kept.hidden : &v->hidden;

	if (*p == NULL)
		*p = qwen_alloc((size_t)v->mtp.n_embd, sizeof **p);
	return *p;
}

static int
set_target_position(struct qwen_state_reader *v,
    const struct qwen_state_entry *e, struct qwen_state_target *p,
    struct qwen_err *err)
{
	if (set_position(v, (uint64_t)e->at, err) < 0)
		return -1;
	p->recurrent = qwen_session_view(v->s).recurrent;
	p->logits = qwen_session_view(v->s).row;
	if (e->kind == QWEN_K_HIDDEN) {
		if (!qwen_state_mtp_fits(&v->lay.mtp, &v->mtp))
			return 0;
		p->hidden = hidden_memory(v);
		if (p->hidden == NULL)
			return qwen_oom(err);
	}
	if (v->kept.c.at != 0) {
		if (e->kind == QWEN_K_LOGITS && v->kept.logits == NULL) {
			v->kept.logits = qwen_alloc_large((size_t)
			    v->lay.n_vocab, sizeof *v->kept.logits);
			if (v->kept.logits == NULL)
				return qwen_oom(err);
			v->kept.c.logits = 1;
		}
		p->recurrent = v->kept.recurrent;
		p->logits = v->kept.logits;
	}
	return 1;
}

static int
read_mark(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	int named = rec->f.v[QWEN_F_NAMED].n != 0;

	(void)raw;
	if (qwen_state_layout_mark(&v->lay, (uint64_t)rec->e.at, named,
	    err) < 0 || set_position(v, (uint64_t)rec->e.at, err) < 0)
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

	for (i = 0; i < v->n_layer; i++) {
		for (k = QWEN_K_DELTA; !v->layer[i].kv && k <= QWEN_K_CONV;
		    k++) {
			if (qwen_save_add_object(v, (enum qwen_kind)k,
			    (int64_t)i, (int64_t)at, base +
			    qwen_session_recurrent_at(v->s, i,
			    k == QWEN_K_CONV), (size_t)
			    qwen_section(k)->bytes(NULL, &v->layer[i])) < 0)
				return -1;
		}
	}
	if (logits != NULL && qwen_save_add_object(v, QWEN_K_LOGITS, -1,
	    (int64_t)at, logits, v->n_vocab * sizeof *logits) < 0)
		return -1;
	return hidden == NULL || !v->mtp.there ? 0 : qwen_save_add_object(v,
	    QWEN_K_HIDDEN, -1, (int64_t)at, hidden,
	    (size_t)v->mtp.n_embd * sizeof *hidden);
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
	stop = f != NULL && qwen_state_mtp_fits(&f->content.lay.mtp, &v->mtp) ?
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
		if (k->c.at > v->from && k->c.at < v->to && write_checkpoint(v,
		    k) < 0)
			return -1;
	}
	if (v->opts->no_recurrent)
		return 0;
	if (v->kept != NULL)
		return write_checkpoint(v, v->kept);
	if (v->to < v->n_tokens)	/* sessions can continue without a
					   state */
		return 0;
	if (write_position(v, v->to, qwen_session_view(s).recurrent,
	    qwen_session_logits(s), v->to == 0 ? NULL :
	    qwen_hidden_at(s, (size_t)v->to - 1)) < 0)
		return -1;
	return qwen_session_view(s).end_named && v->to > v->from ?
	    qwen_save_mark(v, v->to) : 0;
}

/* --------------------------------------------------------- index and the end */

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
	    add_checkpoint(v, err) < 0)
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

/* ---------------------------------------------------------------- the table */

#define BIT(f) (1u << QWEN_F_##f)
#define PIECE QWEN_PIECE_FIELDS

static const struct qwen_section sections[QWEN_K_EXTRA] = {
	[QWEN_K_NONE] = { .name = "" },
	[QWEN_K_INFO] = { "info", 0, .own = { QWEN_UINT("format"),
	    QWEN_TEXT("writer"), QWEN_UINT("n_tokens"), QWEN_UINT("kv_block"),
	    QWEN_ARRAY("layers"), QWEN_UINT("from"), QWEN_BYTES("prefix"),
	    QWEN_BOOL("converted") },
	    .optional = BIT(FROM) | BIT(PREFIX) | BIT(CONVERTED),
	    .read = read_info, .write = write_info },
	[QWEN_K_TOKENS] = { "tokens", PIECE, .width = 4,
	    .bytes = tokens_bytes, .read = read_tokens, .write = write_tokens },
	[QWEN_K_KV] = { "kv", PIECE | BIT(LAYER), .width = 2,
	    .bytes = kv_bytes, .copy = copy_kv, .set_target = set_target_kv,
	    .write = write_kv },
	[QWEN_K_MTP] = { "mtp", 0, .own = { QWEN_UINT("heads"),
	    QWEN_UINT("size"), QWEN_UINT("embd"), QWEN_UINT("first"),
	    QWEN_BYTES("model") },
	    .read = qwen_state_mtp_read, .write = qwen_state_mtp_write },
	[QWEN_K_MTP_KV] = { "mtp-kv", PIECE, .width = 2,
	    .bytes = qwen_state_mtp_kv_bytes, .copy = qwen_state_mtp_copy_kv,
	    .set_target = qwen_state_mtp_set_target,
	    .write = qwen_state_mtp_write_kv, .skip = 1 },
	[QWEN_K_DELTA] = { "delta", PIECE | BIT(LAYER) | BIT(AT), .width = 4,
	    .bytes = delta_bytes, .copy = copy_recurrent,
	    .set_target = set_target_position, .write = write_positions },
	[QWEN_K_CONV] = { "conv", PIECE | BIT(LAYER) | BIT(AT), .width = 4,
	    .bytes = conv_bytes, .copy = copy_recurrent,
	    .set_target = set_target_position },
	[QWEN_K_LOGITS] = { "logits", PIECE | BIT(AT), .width = 4,
	    .bytes = logits_bytes, .copy = copy_logits,
	    .set_target = set_target_position },
	[QWEN_K_HIDDEN] = { "hidden", PIECE | BIT(AT), .width = 4,
	    .bytes = qwen_state_mtp_hidden_bytes,
	    .copy = qwen_state_mtp_copy_hidden,
	    .set_target = set_target_position, .skip = 1 },
	[QWEN_K_CHECKPOINT] = { "checkpoint", BIT(AT),
	    .own = { QWEN_BOOL("named") }, .read = read_mark },
	[QWEN_K_INDEX] = { "index", PIECE, .width = 1,
	    .read = read_index, .write = write_index },
	[QWEN_K_END] = { "end", 0, .own = { QWEN_UINT("records"),
	    QWEN_UINT("bytes"), QWEN_UINT("raw"), QWEN_BYTES("total"),
	    QWEN_UINT("index"), QWEN_BOOL("steps") },
	    .optional = BIT(INDEX) | BIT(STEPS),
	    .read = read_end, .write = write_end },
};

const struct qwen_section *
qwen_section(enum qwen_kind kind)
{
	return kind < QWEN_K_EXTRA ? &sections[kind] :
	    &qwen_extra_sections[kind - QWEN_K_EXTRA];
}

enum qwen_kind
qwen_kind_find(const char *name)
{
	enum qwen_kind k;

	for (k = QWEN_K_INFO; k < QWEN_K_EXTRA + qwen_n_extra_sections; k++) {
		if (strcmp(qwen_section(k)->name, name) == 0)
			return k;
	}
	return QWEN_K_NONE;
}
