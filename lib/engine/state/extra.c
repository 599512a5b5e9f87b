/* SPDX-License-Identifier: ISC */
/*
 * extra.c - struct qwen_state_extra: how the text of a state was made.  The
 * table in the middle lists its sections: the format of their records, and the
 * fields of struct qwen_state_extra that they fill.
 */
#include <string.h>

#include "base/cursor.h"
#include "base/err.h"
#include "base/mem.h"
#include "engine/state/save.h"

/* ----------------------------------------------- for programs that generate */

int
qwen_state_extra_sampler(struct qwen_state_extra *x,
    const struct qwen_sampler *s, struct qwen_err *err)
{
	char *text = qwen_alloc(1, QWEN_SAMPLER_MAX);

	if (text == NULL)
		return qwen_oom(err);
	if (qwen_sampler_describe(s, text, QWEN_SAMPLER_MAX) >=
	    QWEN_SAMPLER_MAX) {
		free(text);
		return qwen_fail(err, QWEN_ERANGE, "the sampling options "
		    "exceed %d bytes", QWEN_SAMPLER_MAX);
	}
	free(x->sampler);
	x->sampler = text;
	return 0;
}

int
qwen_state_extra_generated(struct qwen_state_extra *x, uint64_t pos,
    uint64_t n, struct qwen_err *err)
{
	struct qwen_generated *last = x->generated + x->n_generated;

	if (n == 0)
		return 0;
	if (n > UINT64_MAX - pos || (x->n_generated > 0 &&
	    pos < last[-1].pos + last[-1].n))
		return qwen_fail(err, QWEN_ERANGE, "%llu generated tokens at "
		    "%llu do not follow the ones before", (unsigned long long)n,
		    (unsigned long long)pos);
	if (x->n_generated > 0 && last[-1].pos + last[-1].n == pos) {
		last[-1].n += n;
		return 0;
	}
	if (qwen_grow(&x->generated, &x->cap_generated, x->n_generated + 1,
	    sizeof *x->generated) < 0)
		return qwen_oom(err);
	x->generated[x->n_generated++] = (struct qwen_generated){ pos, n };
	return 0;
}

int
qwen_state_extra_run(struct qwen_state_extra *x, const struct qwen_run *run,
    struct qwen_err *err)
{
	char *text = NULL;

	if (run != NULL && run->options == NULL)
		run = NULL;
	if (run != NULL && strlen(run->options) >= QWEN_OPTIONS_MAX)
		return qwen_fail(err, QWEN_ERANGE, "the options of the run "
		    "exceed %d bytes", QWEN_OPTIONS_MAX);
	if (run != NULL && (text = strdup(run->options)) == NULL)
		return qwen_oom(err);
	free(x->run.options);
	memset(&x->run, 0, sizeof x->run);
	if (run != NULL)
		x->run = *run;
	x->run.options = text;
	return 0;
}

/* -------------------------------------------------------------- the sections */

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

static uint64_t
generated_bytes(const struct qwen_state_layout *l,
    const struct qwen_state_layer *layer)
{
	(void)layer;
	return l->n_tokens * 16;	/* upper limit */
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
		if (pos < past || pos >= v->lay.n_tokens || n == 0 ||
		    n > v->lay.n_tokens - pos)
			return qwen_fail(err, QWEN_EFORMAT,
			    "%llu tokens generated at %llu",
			    (unsigned long long)n, (unsigned long long)pos);
		if (qwen_state_extra_generated(&v->x, pos, n, err) < 0)
			return -1;
		past = pos + n + 1;
	}
	return 0;
}

static void
cut_generated(struct qwen_state_extra *x, uint64_t n)
{
	struct qwen_generated *last;

	while (x->n_generated > 0 && x->generated[x->n_generated - 1].pos >= n)
		x->n_generated--;
	if (x->n_generated == 0)
		return;
	last = &x->generated[x->n_generated - 1];
	if (last->n > n - last->pos)
		last->n = n - last->pos;
}

static int
write_generated(struct qwen_save *v)
{
	cut_generated(&v->x, v->to);
	return qwen_save_add_object(v, v->kind, -1, -1, v->x.generated,
	    v->x.n_generated * sizeof *v->x.generated);
}

enum { SAMPLER_OPTIONS = QWEN_F_OWN, SAMPLER_PENDING, SAMPLER_MEMORY };

static int
read_sampler(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_cbor_item *tail = &rec->f.v[SAMPLER_PENDING];
	const struct qwen_cbor_item *memory = &rec->f.v[SAMPLER_MEMORY];

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
	if (copy_text(&v->x.sampler, &rec->f.v[SAMPLER_OPTIONS],
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

static void
cut_sampler(struct qwen_state_extra *x, uint64_t n)
{
	(void)n;
	x->memory[0] = '\0';
	x->n_pending = 0;
}

enum { RUN_START = QWEN_F_OWN, RUN_COUNT, RUN_INPUT, RUN_OPTIONS, RUN_FINISHED,
    RUN_AGAIN, RUN_BASE };

/* Reads the run, whose tokens are the last of the state. */
static int
read_run(struct qwen_state_reader *v, const struct qwen_state_rec *rec,
    const unsigned char *raw, struct qwen_err *err)
{
	const struct qwen_cbor_item *f = rec->f.v, *base = &f[RUN_BASE];
	struct qwen_run *run = &v->x.run;

	(void)raw;
	if (run->options != NULL)
		return qwen_fail(err, QWEN_EFORMAT, "a second block of this "
		    "kind");
	if (f[RUN_START].n > v->lay.n_tokens ||
	    f[RUN_COUNT].n != v->lay.n_tokens - f[RUN_START].n ||
	    f[RUN_INPUT].n > f[RUN_START].n)
		return qwen_fail(err, QWEN_ERANGE,
		    "the run does not fit the state: %llu tokens from %llu of "
		    "%llu, %llu before it", (unsigned long long)f[RUN_COUNT].n,
		    (unsigned long long)f[RUN_START].n,
		    (unsigned long long)v->lay.n_tokens,
		    (unsigned long long)f[RUN_INPUT].n);
	if (base->n != 0 && base->n != sizeof run->base.b)
		return qwen_fail(err, QWEN_ERANGE, "a fingerprint of %llu "
		    "bytes", (unsigned long long)base->n);
	run->has_base = base->n != 0;
	run->from = f[RUN_START].n;
	run->count = f[RUN_COUNT].n;
	run->input = f[RUN_INPUT].n;
	run->finished = f[RUN_FINISHED].n != 0;
	run->again = f[RUN_AGAIN].n != 0;
	memcpy(run->base.b, base->s, (size_t)base->n);
	return copy_text(&run->options, &f[RUN_OPTIONS], QWEN_OPTIONS_MAX,
	    err);
}

/* Writes the run, unless tokens were added after it or it was cut. */
static int
write_run(struct qwen_save *v)
{
	const struct qwen_run *run = &v->x.run;
	struct qwen_state_builder *p = &v->builder;

	if (run->options == NULL || run->from > v->to ||
	    run->count != v->to - run->from)
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

#define X(m) offsetof(struct qwen_state_extra, m)
#define MEMBER(t, m) .type = QWEN_VALUE_##t, .at = X(m), \
	.size = sizeof ((struct qwen_state_extra *)NULL)->m
#define TEXT(m) MEMBER(TEXT, m), .owned = 1
#define MEMBERS(...) (const struct qwen_extra_member[]){ __VA_ARGS__, { 0 } }

const struct qwen_section qwen_extra_sections[] = {
	{ "generated", QWEN_PIECE_FIELDS, .width = 1, .bytes = generated_bytes,
	  .read = read_generated, .write = write_generated,
	  .cut = cut_generated,
	  .member = MEMBERS({ "generated", QWEN_VALUE_LIST, X(generated),
	    sizeof(struct qwen_generated), X(n_generated), 1, .width = 8 }) },
	{ "sampler", .own = { QWEN_TEXT("options"), QWEN_BYTES("pending"),
	    QWEN_TEXT("memory") }, .optional = 1u << SAMPLER_MEMORY,
	  .read = read_sampler, .write = write_sampler, .cut = cut_sampler,
	  .member = MEMBERS({ "sampler", TEXT(sampler) },
	    { "memory", MEMBER(TEXT, memory) },
	    { "pending", MEMBER(BYTES, pending), .n_at = X(n_pending) }) },
	{ "run", .own = { QWEN_UINT("start"), QWEN_UINT("count"),
	    QWEN_UINT("input"), QWEN_TEXT("options"), QWEN_BOOL("finished"),
	    QWEN_BOOL("again"), QWEN_BYTES("base") },
	  .read = read_run, .write = write_run, .group = 1,
	  .member = MEMBERS({ "from", MEMBER(NUMBER, run.from) },
	    { "count", MEMBER(NUMBER, run.count) },
	    { "finished", MEMBER(FLAG, run.finished) },
	    { "options", TEXT(run.options) },
	    { NULL, MEMBER(NUMBER, run.input) },
	    { NULL, MEMBER(FLAG, run.again) },
	    { NULL, MEMBER(FLAG, run.has_base) },
	    { NULL, MEMBER(BYTES, run.base) }) },
};

const size_t qwen_n_extra_sections =
    sizeof qwen_extra_sections / sizeof qwen_extra_sections[0];

/* --------------------------------------------------------- for all sections */

/* Returns member i of all sections, and its section; NULL after the last. */
static const struct qwen_extra_member *
extra_member(size_t i, const struct qwen_section **k)
{
	const struct qwen_extra_member *m;

	for (*k = qwen_extra_sections;
	    *k < qwen_extra_sections + qwen_n_extra_sections; ++*k) {
		for (m = (*k)->member; m->size > 0; m++) {
			if (i-- == 0)
				return m;
		}
	}
	return NULL;
}

/* Fills *v with the value of the member in x. */
static void
get_value(struct qwen_state_value *v, const struct qwen_state_extra *x,
    const struct qwen_extra_member *m)
{
	const char *p = (const char *)x + m->at;

	*v = (struct qwen_state_value){ .name = m->name, .type = m->type,
	    .data = p, .bytes = m->size, .width = m->width,
	    .columns = m->width > 0 ? m->size / m->width : 0 };
	if (m->owned)
		memcpy(&v->data, p, sizeof v->data);
	if (m->type == QWEN_VALUE_TEXT)
		v->bytes = v->data != NULL ? strlen(v->data) : 0;
	if (m->n_at != 0) {
		memcpy(&v->bytes, (const char *)x + m->n_at, sizeof v->bytes);
		v->bytes *= m->type == QWEN_VALUE_LIST ? m->size : 1;
	}
	/* an owned empty text counts as set */
	v->there = m->owned && m->n_at == 0 ? v->data != NULL : v->bytes > 0;
}

void
qwen_state_extra_fini(struct qwen_state_extra *x)
{
	const struct qwen_section *k;
	const struct qwen_extra_member *m;
	struct qwen_state_value v;
	size_t i;

	for (i = 0; x != NULL && (m = extra_member(i, &k)) != NULL; i++) {
		get_value(&v, x, m);
		free(m->owned ? (void *)(uintptr_t)v.data : NULL);
	}
	if (x != NULL)
		memset(x, 0, sizeof *x);
}

int
qwen_state_extra_copy(struct qwen_state_extra *out,
    const struct qwen_state_extra *x, uint64_t n, int whole,
    struct qwen_err *err)
{
	const struct qwen_section *k;
	const struct qwen_extra_member *m;
	struct qwen_state_value v;
	size_t i;
	char *p;

	memset(out, 0, sizeof *out);
	for (i = 0; (m = extra_member(i, &k)) != NULL; i++) {
		if (!whole && k->cut == NULL)
			continue;
		get_value(&v, x, m);
		p = (char *)out + m->at;
		if (m->owned && v.data != NULL) {
			if ((p = malloc(v.bytes + 1)) == NULL) {
				qwen_state_extra_fini(out);
				return qwen_oom(err);
			}
			memcpy((char *)out + m->at, &p, sizeof p);
			p[v.bytes] = '\0';
		}
		if (v.data != NULL)
			memcpy(p, v.data, m->owned ? v.bytes : m->size);
		if (m->n_at != 0)
			memcpy((char *)out + m->n_at, (const char *)x +
			    m->n_at, sizeof(size_t));
	}
	for (k = qwen_extra_sections;
	    !whole && k < qwen_extra_sections + qwen_n_extra_sections; k++) {
		if (k->cut != NULL)
			k->cut(out, n);
	}
	return 0;
}

int
qwen_state_extra_next(const struct qwen_state_extra *x, size_t *i,
    struct qwen_state_value *out)
{
	const struct qwen_section *k;
	const struct qwen_extra_member *m;
	struct qwen_state_value last;

	do {
		if ((m = extra_member((*i)++, &k)) == NULL)
			return 0;
	} while (m->name == NULL);
	get_value(out, x, m);
	out->last = m[1].name == NULL;
	if (!k->group)
		return 1;
	/* the last member of a group decides whether the group is set */
	out->group = k->name;
	for (; m[1].name != NULL; m++)
		;
	get_value(&last, x, m);
	out->there = last.there;
	return 1;
}

/* ------------------------------------------------------------- for samplers */

int
qwen_state_extra_replay(const struct qwen_state_extra *x,
    struct qwen_sampler *s, const int32_t *tokens, size_t n,
    struct qwen_err *err)
{
	const struct qwen_generated *g = x->generated;
	size_t i, pos = 0;

	for (i = 0; i <= x->n_generated; i++) {
		size_t end = i < x->n_generated && g[i].pos < n ?
		    (size_t)g[i].pos : n;

		if (qwen_sampler_accept(s, tokens + pos, end - pos, 0,
		    err) < 0)
			return -1;
		pos = end;
		if (i == x->n_generated || pos == n)
			break;
		end = g[i].n < n - pos ? pos + (size_t)g[i].n : n;
		if (qwen_sampler_accept(s, tokens + pos, end - pos, 1,
		    err) < 0)
			return -1;
		pos = end;
	}
	return qwen_sampler_restore(s, x->memory, err);
}
