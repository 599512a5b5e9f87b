/* SPDX-License-Identifier: ISC */
/* extra.c - struct qwen_state_extra: how the text of a state was made. */
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "engine/state/state.h"

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
		return qwen_fail(err, QWEN_ERANGE, "%" PRIu64 " generated "
		    "tokens at %" PRIu64 " do not follow the ones before", n,
		    pos);
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

/* ----------------------------------------------------- copies, the fields */

void
qwen_state_extra_fini(struct qwen_state_extra *x)
{
	if (x == NULL)
		return;
	free(x->sampler);
	free(x->generated);
	free(x->run.options);
	memset(x, 0, sizeof *x);
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

/* Replaces *text by a copy, if it is not NULL. */
static int
copy_text(char **text)
{
	return *text == NULL || (*text = strdup(*text)) != NULL ? 0 : -1;
}

int
qwen_state_extra_copy(struct qwen_state_extra *out,
    const struct qwen_state_extra *x, uint64_t n, int whole,
    struct qwen_err *err)
{
	int r;

	*out = *x;
	if (!whole) {
		memset(&out->run, 0, sizeof out->run);
		out->memory[0] = '\0';
		out->n_pending = 0;
	}
	out->cap_generated = 0;
	out->generated = NULL;
	r = copy_text(&out->sampler) + copy_text(&out->run.options);
	if (qwen_grow(&out->generated, &out->cap_generated, x->n_generated,
	    sizeof *out->generated) < 0 || r < 0) {
		qwen_state_extra_fini(out);
		return qwen_oom(err);
	}
	if (x->n_generated > 0)
		memcpy(out->generated, x->generated,
		    x->n_generated * sizeof *x->generated);
	cut_generated(out, n);
	return 0;
}

/* A field of struct qwen_state_extra that qwen_state_extra_next shows. */
static const struct field {
	const char	*group, *name;
	enum qwen_value_type type;
	size_t		 at, size;	/* offset; bytes (for a list, of a
					   row) */
	size_t		 n_at;		/* offset of the count, or 0 */
	int		 pointer;	/* to the value */
	unsigned	 width;		/* bytes of a number in a list */
} fields[] = {
#define AT(m) offsetof(struct qwen_state_extra, m)
#define FIELD(t, m) .type = QWEN_VALUE_##t, .at = AT(m), \
	.size = sizeof ((struct qwen_state_extra *)NULL)->m
	{ NULL, "generated", QWEN_VALUE_LIST, AT(generated),
	    sizeof(struct qwen_generated), AT(n_generated), 1, 8 },
	{ NULL, "sampler", FIELD(TEXT, sampler), .pointer = 1 },
	{ NULL, "memory", FIELD(TEXT, memory) },
	{ NULL, "pending", FIELD(BYTES, pending), .n_at = AT(n_pending) },
	{ "run", "from", FIELD(NUMBER, run.from) },
	{ "run", "count", FIELD(NUMBER, run.count) },
	{ "run", "finished", FIELD(FLAG, run.finished) },
	{ "run", "options", FIELD(TEXT, run.options), .pointer = 1 },
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

int
qwen_state_extra_next(const struct qwen_state_extra *x, size_t *i,
    struct qwen_state_value *out)
{
	const struct field *f = &fields[*i];
	const char *p = (const char *)x + f->at;

	if (*i >= N_FIELDS)
		return 0;
	*out = (struct qwen_state_value){ .group = f->group, .name = f->name,
	    .type = f->type, .data = p, .bytes = f->size, .width = f->width,
	    .columns = f->width > 0 ? f->size / f->width : 0,
	    .last = ++*i == N_FIELDS || fields[*i].group != f->group };
	if (f->pointer)
		memcpy(&out->data, p, sizeof out->data);
	if (f->type == QWEN_VALUE_TEXT)
		out->bytes = out->data != NULL ? strlen(out->data) : 0;
	if (f->n_at != 0) {
		memcpy(&out->bytes, (const char *)x + f->n_at,
		    sizeof out->bytes);
		out->bytes *= f->type == QWEN_VALUE_LIST ? f->size : 1;
	}
	/* a text behind a pointer may be empty; its group is set with it */
	out->there = f->group != NULL ? x->run.options != NULL :
	    f->pointer && f->n_at == 0 ? out->data != NULL : out->bytes > 0;
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
