/* SPDX-License-Identifier: ISC */
/* diff.c - compare two states and show where they differ. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qstate.h"

/*
 * A block of numbers.  The blocks of one kind, layer and position form an
 * object.
 */
struct block_row {
	const char	*kind;
	int64_t		 layer, at;
	size_t		 block;
};

/*
 * The blocks of a state that are compared, sorted by object, then by their
 * order in the file.
 */
struct table {
	struct block_row	*v;
	size_t		 n;
};

/* How two objects differ. */
struct difference {
	uint64_t	 count;		/* numbers that differ */
	uint64_t	 index;		/* index of the first such number; of
					   the KV cache, the one at the lowest
					   position */
	uint64_t	 position;
	int		 v;		/* 1: that number is a value, 0: a
					   key */
	uint32_t	 a, b;		/* the bits of that number */
};

/* ---------------------------------------------------------------- printing */

static int n_differ;

static void
begin_line(const char *what)
{
	qstate_begin("what", what);
	n_differ++;
}

static void
differ(const char *what, const char *a, const char *b)
{
	begin_line(what);
	qstate_word("a", a);
	qstate_word("b", b);
	qstate_end();
}

static void
differ_number(const char *what, uint64_t a, uint64_t b)
{
	char x[24], y[24];

	snprintf(x, sizeof x, "%" PRIu64, a);
	snprintf(y, sizeof y, "%" PRIu64, b);
	differ(what, x, y);
}

/* Print something that only one side has. */
static void
differ_only(const char *side, const char *kind, int64_t layer, uint64_t at)
{
	qstate_begin(NULL, "only");
	qstate_word("only", side);
	qstate_word("what", kind);
	qstate_int("layer", layer);
	qstate_uint("at", at);
	qstate_end();
	n_differ++;
}

static void
put_bits(const char *key, int is_kv, uint32_t v)
{
	char text[24];
	float f;

	memcpy(&f, &v, sizeof f);
	if (is_kv)
		snprintf(text, sizeof text, "0x%04x", (unsigned)v);
	else
		snprintf(text, sizeof text, "%.9g", (double)f);
	qstate_word(key, text);
}

static void
differ_part(const struct block_row *o, const struct difference *d)
{
	int kv = strcmp(o->kind, "kv") == 0;

	begin_line(o->kind);
	if (o->layer >= 0 || !qstate_opt.json)
		qstate_int("layer", o->layer);
	if (kv) {
		qstate_uint("position", d->position);
		qstate_word("of", d->v ? "v" : "k");
	} else {
		qstate_int("at", o->at);
		qstate_uint("index", d->index);
	}
	put_bits("a", kv, d->a);
	put_bits("b", kv, d->b);
	qstate_uint("count", d->count);
	qstate_end();
}

/* Print the token of one side at position i, if the side is that long. */
static void
put_token(const char *key, const struct qwen_state_info *s, uint64_t i)
{
	if (i < s->n_tokens)
		qstate_int(key, s->tokens[i]);
	else
		qstate_word(key, NULL);
}

/* ----------------------------------------------------------------- numbers */

static int
by_object(const struct block_row *x, const struct block_row *y)
{
	/* layer -1, of logits, is the last one */
	uint64_t i = (uint64_t)x->layer, k = (uint64_t)y->layer;

	return i != k ? (i < k ? -1 : 1) : x->at != y->at ?
	    (x->at < y->at ? -1 : 1) : strcmp(x->kind, y->kind);
}

static int
by_row(const void *a, const void *b)
{
	const struct block_row *x = a, *y = b;
	int object = by_object(x, y);

	return object != 0 ? object : (x->block > y->block) -
	    (x->block < y->block);
}

struct cursor {
	struct qstate_state	*s;
	const struct block_row	*next, *end;	/* blocks to read */
	const unsigned char	*p;
	size_t			 left;
};

/* Return a cursor of the object at this row; end: the end of the table. */
static struct cursor
cursor_of(struct qstate_state *s, const struct block_row *first,
    const struct block_row *end)
{
	const struct block_row *next = first;

	while (next < end && by_object(next, first) == 0)
		next++;
	return (struct cursor){ .s = s, .next = first, .end = next };
}

static const unsigned char *
read_block(struct qstate_state *s, size_t i, size_t *n)
{
	const unsigned char *raw;

	cli_must(s->name, qwen_state_block_read(s->f, i, &raw, n, &cli_err));
	return raw;
}

/* Read the next n bytes of the object; returns fewer at its end. */
static size_t
take_bytes(struct cursor *c, unsigned char *buf, size_t n)
{
	size_t done, part;

	for (done = 0; done < n; done += part) {
		while (c->left == 0 && c->next < c->end)
			c->p = read_block(c->s, c->next++->block, &c->left);
		part = c->left < n - done ? c->left : n - done;
		if (part == 0)
			break;
		memcpy(buf + done, c->p, part);
		c->p += part;
		c->left -= part;
	}
	return done;
}

/*
 * Return the blocks that are compared: KV cache, recurrent states and logits.
 */
static struct table
table_of(const struct qstate_state *s)
{
	struct table t = { .v = cli_check_alloc(calloc(s->info->n_blocks + 1,
	    sizeof *t.v)) };
	struct qwen_state_block b;
	size_t i;

	for (i = 0; i < s->info->n_blocks; i++) {
		qwen_state_block(s->f, i, &b);
		if (strcmp(b.kind, "kv") == 0 || strcmp(b.kind, "delta") == 0 ||
		    strcmp(b.kind, "conv") == 0 ||
		    strcmp(b.kind, "logits") == 0)
			t.v[t.n++] = (struct block_row){ b.kind, b.layer, b.at,
			    i };
	}
	qsort(t.v, t.n, sizeof *t.v, by_row);
	return t;
}

/* Return the bytes of one number; 1 for quantised or mixed keys and values. */
static size_t
width_of(const struct qwen_state_layer *kv)
{
	return kv == NULL || (kv->n[2] == QWEN_KV_F32 &&
	    kv->n[3] == QWEN_KV_F32) ? 4 : kv->n[2] == QWEN_KV_F16 &&
	    kv->n[3] == QWEN_KV_F16 ? 2 : 1;
}

static uint32_t
bits_at(const unsigned char *p, size_t width)
{
	uint32_t v = (uint32_t)p[0];

	if (width == 1)
		return v;
	v |= (uint32_t)p[1] << 8;

	return width == 2 ? v : v | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
note_number(struct difference *d, uint64_t index, uint64_t position, int v,
    uint32_t a, uint32_t b)
{
	/* in the KV cache, keep the number at the lowest position */
	if (d->count++ > 0 && position >= d->position)
		return;
	d->index = index;
	d->position = position;
	d->v = v;
	d->a = a;
	d->b = b;
}

/* Compare n bytes of two objects; first is the index of the first number. */
static void
compare_bytes(struct difference *d, const struct qwen_state_layer *kv,
    uint64_t limit, uint64_t first, const unsigned char *a,
    const unsigned char *b, size_t n)
{
	size_t i, width = width_of(kv);
	uint64_t at, pos;
	uint32_t x, y;
	int v = 0;

	if (memcmp(a, b, n) == 0)
		return;
	for (i = 0; i + width <= n; i += width) {
		x = bits_at(a + i, width);
		y = bits_at(b + i, width);
		if (x == y)
			continue;
		at = first + i / width;
		pos = kv == NULL ? 0 : qwen_state_kv_position(kv, at * width,
		    &v);
		/* positions from limit on are padding in the shorter state */
		if (kv == NULL || pos < limit)
			note_number(d, at, pos, v, x, y);
	}
}

/*
 * Compare two objects.  kv: the layer of a KV object, NULL for other kinds;
 * limit: number of KV positions that both states have.
 */
static void
compare(struct difference *d, const struct qwen_state_layer *kv,
    struct cursor ca,
    struct cursor cb, uint64_t limit)
{
	static unsigned char a[1 << 16], b[1 << 16];
	uint64_t first = 0;
	size_t n, m;

	memset(d, 0, sizeof *d);
	do {
		n = take_bytes(&ca, a, sizeof a);
		m = take_bytes(&cb, b, sizeof b);
		n = n < m ? n : m;
		compare_bytes(d, kv, limit, first, a, b, n);
		first += n / width_of(kv);
	} while (n == sizeof a);
}

/* ----------------------------------------------------------------- contents */

static const char *
rope_of(const struct qwen_header *h, char buf[QWEN_ROPE_TEXT])
{
	return h->rope.kind == QWEN_ROPE_FILE ? "as the model says" :
	    qwen_rope_text(&h->rope, buf);
}

static void
diff_headers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	const struct qwen_header *x = &a->header, *y = &b->header;
	char s[QWEN_ROPE_TEXT], t[QWEN_ROPE_TEXT];

	if (memcmp(&x->model, &y->model, sizeof x->model) != 0)
		differ("model", qwen_fp_hex(&x->model, s),
		    qwen_fp_hex(&y->model, t));
	if (memcmp(&x->vocab, &y->vocab, sizeof x->vocab) != 0)
		differ("vocabulary", qwen_fp_hex(&x->vocab, s),
		    qwen_fp_hex(&y->vocab, t));
	if (x->numerics != y->numerics)
		differ_number("numerics", x->numerics, y->numerics);
	if (x->k != y->k)
		differ("keys", qwen_kv_name(x->k), qwen_kv_name(y->k));
	if (x->v != y->v)
		differ("values", qwen_kv_name(x->v), qwen_kv_name(y->v));
	if (!qwen_rope_same(&x->rope, &y->rope))
		differ("rope", rope_of(x, s), rope_of(y, t));
}

/*
 * Print the first token that differs.  Return the number of equal tokens before
 * it.
 */
static uint64_t
diff_tokens(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	uint64_t i, n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;

	for (i = 0; i < n && a->tokens[i] == b->tokens[i]; i++)
		;
	if (i == a->n_tokens && i == b->n_tokens)
		return i;
	begin_line("token");
	qstate_uint("position", i);
	put_token("a", a, i);
	put_token("b", b, i);
	qstate_end();
	return i;
}

/*
 * Return 1 if the object belongs to the end of the state, not to a checkpoint.
 */
static int
is_end(const struct qstate_state *s, const struct block_row *o)
{
	return o->at == -1 || (uint64_t)o->at == s->info->n_tokens;
}

/* Compare all objects up to the first `same' tokens, which are equal. */
static void
diff_objects(struct qstate_state *a, struct qstate_state *b, uint64_t same)
{
	struct table ta = table_of(a), tb = table_of(b);
	const struct block_row *x = ta.v, *y = tb.v, *x_end = x + ta.n;
	const struct block_row *y_end = y + tb.n, *o;
	int whole = same == a->info->n_tokens && same == b->info->n_tokens;
	int order, is_kv;
	struct cursor cx, cy;
	struct difference d;

	while (x < x_end || y < y_end) {
		order = x == x_end ? 1 : y == y_end ? -1 : by_object(x, y);
		o = order <= 0 ? x : y;
		cx = cursor_of(a, x, x_end);
		cy = cursor_of(b, y, y_end);
		x = order <= 0 ? cx.end : x;
		y = order >= 0 ? cy.end : y;
		if (order != 0) {
			if (whole && is_end(a, o))
				differ_only(order < 0 ? "a" : "b", o->kind,
				    o->layer, same);
			continue;
		}
		if (o->at >= 0 && (uint64_t)o->at > same)
			continue;
		is_kv = strcmp(o->kind, "kv") == 0;
		compare(&d, is_kv ? &a->info->layers[o->layer] : NULL, cx, cy,
		    same);
		if (d.count > 0)
			differ_part(o, &d);
	}
	free(ta.v);
	free(tb.v);
}

/*
 * Print the checkpoints within the first `same' tokens that a has and b lacks.
 */
static void
diff_checkpoints(const struct qwen_state_info *a,
    const struct qwen_state_info *b, const char *side, uint64_t same)
{
	size_t i, k;

	for (i = k = 0; i < a->n_checkpoints; i++) {
		while (k < b->n_checkpoints &&
		    b->checkpoints[k].at < a->checkpoints[i].at)
			k++;
		if (a->checkpoints[i].at <= same && (k == b->n_checkpoints ||
		    b->checkpoints[k].at != a->checkpoints[i].at))
			differ_only(side, "checkpoint", -1,
			    a->checkpoints[i].at);
	}
}

/*
 * Compare what the states record about the generation of the text; it has no
 * influence on later tokens.
 */
static void
diff_extra(const struct qwen_state_extra *a, const struct qwen_state_extra *b)
{
	struct qwen_state_value x, y;
	size_t i = 0, k = 0;

	while (qwen_state_extra_next(a, &i, &x) &&
	    qwen_state_extra_next(b, &k, &y)) {
		if (x.there == y.there && x.bytes == y.bytes &&
		    (x.bytes == 0 || memcmp(x.data, y.data, x.bytes) == 0))
			continue;
		begin_line(x.group != NULL ? x.group : x.name);
		if (x.group != NULL)
			qstate_word("of", x.name);
		qstate_json_value("a", &x);
		qstate_json_value("b", &y);
		qstate_end();
	}
}

static int
same_layers(const struct qwen_state_info *a, const struct qwen_state_info *b)
{
	size_t i;

	if (a->n_layers != b->n_layers)
		return 0;
	for (i = 0; i < a->n_layers; i++) {
		if (a->layers[i].kv != b->layers[i].kv || memcmp(
		    a->layers[i].n, b->layers[i].n, (a->layers[i].kv ? 4 : 5) *
		    sizeof a->layers[i].n[0]) != 0)
			return 0;
	}
	return 1;
}

/* Compare two traces and exit; return if the operands are not traces. */
static void
diff_traces(char *paths[])
{
	struct qstate_trace t[2];
	struct qstate_state other;
	int is[2], i, differ;

	for (i = 0; i < 2; i++)
		is[i] = qstate_trace_open(&t[i], paths[i]);
	if (!is[0] && !is[1]) {
		if (cli_given(&qstate_opt.within))
			cli_usage("--within applies only to traces");
		return;
	}
	if (!is[0] || !is[1]) {
		qstate_open(&other, paths[is[0]]);	/* dies if it is not a
							   state */
		die("%s is a trace, but %s is a state", t[!is[0]].name,
		    other.name);
	}
	differ = qstate_trace_diff(t);
	for (i = 0; i < 2; i++)
		qstate_trace_close(&t[i]);
	exit(cli_finish() | differ);
}

void
qstate_diff(char *paths[])
{
	struct qstate_state s[2];
	uint64_t same = 0;
	int i;

	diff_traces(paths);
	for (i = 0; i < 2; i++)
		qstate_open_whole(&s[i], paths[i]);
	qstate_diff_begin(s[0].name, s[1].name);
	diff_headers(s[0].info, s[1].info);
	if (!same_layers(s[0].info, s[1].info))
		differ_number("layers", s[0].info->n_layers,
		    s[1].info->n_layers);
	else if (n_differ == 0) {
		same = diff_tokens(s[0].info, s[1].info);
		diff_objects(&s[0], &s[1], same);
	}
	if (qstate_opt.all) {
		diff_checkpoints(s[0].info, s[1].info, "a", same);
		diff_checkpoints(s[1].info, s[0].info, "b", same);
		diff_extra(s[0].info->extra, s[1].info->extra);
	}
	qstate_close_json(']');
	qstate_diff_end(n_differ > 0);
	qwen_state_close(s[0].f);
	qwen_state_close(s[1].f);
	if (n_differ > 0)
		exit(cli_finish() | 1);
}
