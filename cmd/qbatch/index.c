/* SPDX-License-Identifier: ISC */
/*
 * index.c - an index of result files: for each line of the input, where its
 * result is, and which run made it.  The results stay in the files.
 */
#include <stdlib.h>
#include <string.h>

#include "qbatch.h"

/* ------------------------------------------------- the end of a result file */

/*
 * Return 1 if n bytes can be the beginning of a result: head, a number, and one
 * of the fields in next.
 */
static int
begins_like(const char *s, size_t n, const char *head, const char *const *next)
{
	size_t h = strlen(head), digits = 0, m;

	if (n <= h)
		return memcmp(s, head, n) == 0;
	if (memcmp(s, head, h) != 0)
		return 0;
	for (s += h, n -= h; digits < n && s[digits] >= '0' &&
	    s[digits] <= '9'; digits++)
		;
	if (digits == n || digits == 0)
		return digits > 0;
	for (s += digits, n -= digits; *next != NULL; next++) {
		m = strlen(*next);
		if (memcmp(s, *next, n < m ? n : m) == 0)
			return 1;
	}
	return 0;
}

static int
begins_result(const char *s, size_t n)
{
	static const char *const plain[] = { ",\"id\":", ",\"text\":",
	    ",\"choices\":", ",\"error\":", NULL };
	static const char *const batch[] = { "\",\"custom_id\":", NULL };

	return begins_like(s, n, "{\"line\":", plain) ||
	    begins_like(s, n, "{\"id\":\"batch_req_", batch);
}

/*
 * Check a last line without a newline: it must be the beginning of a result, as
 * a killed run leaves it, or zeros after complete results, as a crash does.
 * Otherwise die.
 */
static void
check_tail(const struct tool_lines *l, const struct tool_line *line)
{
	size_t n = line->s == NULL ? 0 : line->n;

	while (n > 0 && line->s[n - 1] == '\0')
		n--;
	if (line->s == NULL || (n == 0 ? l->line == 1 :
	    !begins_result(line->s, n)))
		die("%s: line %llu is not a result", l->name, cli_llu(l->line));
}

/* --------------------------------------------------------------------- runs */

/*
 * Copies all texts.  options: "temp=1", perhaps after a token limit: "n=30
 * temp=1", "n=context temp=1"; and perhaps before the options of images.
 */
void
qbatch_origin_set(struct qbatch_origin *m, const char *model, const char *hash,
    const char *options)
{
	m->max = 0;
	if (strncmp(options, "n=", 2) == 0) {
		m->max = strncmp(options, "n=context", 9) == 0 ? UINT64_MAX :
		    strtoull(options + 2, NULL, 10);
		options += strcspn(options, " ");
		options += *options == ' ';
	}
	m->model = cli_format("%s", model);
	m->hash = cli_format("%s", hash);
	m->options = cli_format("%s", options);
	m->images = strstr(m->options, " " QBATCH_MMPROJ);
	if (m->images == NULL)
		return;
	m->images[0] = '\0';
	m->images = cli_format("%s", m->images + 1);
}

/*
 * Return 1 if both have the same options of images.  What one has does not
 * matter for requests without images.
 */
static int
same_images(const struct qbatch_origin *m, const struct qbatch_origin *x)
{
	return m->images == NULL || x->images == NULL ||
	    strcmp(m->images, x->images) == 0;
}

/* Return 1 if both have the same model and options; does not compare limits. */
static int
same_origin(const struct qbatch_origin *m, const struct qbatch_origin *x)
{
	return strcmp(m->hash, x->hash) == 0 &&
	    strcmp(m->options, x->options) == 0 && same_images(m, x);
}

int
qbatch_origin_cuts(const struct qbatch_origin *m, const struct qbatch_origin *x)
{
	return m->max >= x->max && same_origin(m, x);
}

/*
 * Return the number of the run that made the result, from 1; 0 if it is not
 * recorded.
 */
static unsigned
origin_of(struct qbatch_index *ix, const struct qwen_result *r,
    const struct tool_lines *l)
{
	struct qbatch_origin m = { .file = l->name, .line = l->line };
	size_t i;

	if (r->failed)		/* errors record no run */
		return 0;
	if (r->model == NULL || r->hash == NULL || r->options == NULL) {
		ix->n_unrecorded++;
		return 0;
	}
	qbatch_origin_set(&m, r->model, r->hash, r->options);
	for (i = 0; i < ix->n_origins && (ix->origin[i].max != m.max ||
	    !same_origin(&ix->origin[i], &m) || (ix->origin[i].images ==
	    NULL) != (m.images == NULL)); i++)
		;
	if (i < ix->n_origins) {
		free(m.model);
		free(m.hash);
		free(m.options);
		free(m.images);
	} else {
		cli_grow(&ix->origin, &ix->cap_origins, i + 1, sizeof m);
		ix->origin[ix->n_origins++] = m;
	}
	ix->origin[i].cut |= r->cut != QWEN_CUT_NONE;
	return (unsigned)i + 1;
}

/* Add the words of a that b lacks. */
static void
add_words(struct qwen_text *t, const char *a, const char *b)
{
	size_t n, m, before = t->n;
	const char *w;

	for (; *a != '\0'; a += n + (a[n] == ' ')) {
		n = strcspn(a, " ");
		for (w = b; *w != '\0'; w += m + (w[m] == ' ')) {
			m = strcspn(w, " ");
			if (m == n && memcmp(a, w, n) == 0)
				break;
		}
		if (*w != '\0' || n == 0)
			continue;
		qwen_text_str(t, t->n > before ? " " : "");
		qwen_text_add(t, a, n < 80 ? n : 80);
	}
}

static void
add_options(struct qwen_text *t, const struct qbatch_origin *m,
    const struct qbatch_origin *other)
{
	size_t before;

	qwen_text_str(t, "\"");
	before = t->n;
	if (m->max != other->max && m->max == UINT64_MAX)
		qwen_text_str(t, "n=context");
	else if (m->max != other->max && m->max > 0)
		qwen_text_fmt(t, "n=%llu", cli_llu(m->max));
	if (t->n > before && strcmp(m->options, other->options) != 0)
		qwen_text_str(t, " ");
	add_words(t, m->options, other->options);
	if (!same_images(m, other)) {
		qwen_text_str(t, t->n > before ? " " : "");
		add_words(t, m->images, other->images);
	}
	if (t->n == before)
		qwen_text_str(t, "none of these");
	qwen_text_str(t, "\"");
}

/* Add 'model "a" there, "b" here; options ...'. */
static void
add_difference(struct qwen_text *t, const struct qbatch_origin *there,
    const struct qbatch_origin *self)
{
	struct qbatch_origin own = *self, *here = &own;
	int models = strcmp(there->hash, here->hash) != 0;
	int same_name = strcmp(there->model, here->model) == 0;

	if (there->max == 0)	/* results of requests with their own limit: -n
				   has no effect */
		own.max = 0;
	if (models && same_name)
		qwen_text_fmt(t, "model \"%s\" with the hash %s there, %s here",
		    there->model, there->hash, here->hash);
	else if (models)
		qwen_text_fmt(t, "model \"%s\" there, \"%s\" here",
		    there->model, here->model);
	if (there->max == here->max && same_images(there, here) &&
	    strcmp(there->options, here->options) == 0)
		return;
	qwen_text_str(t, models ? "; options " : "options ");
	add_options(t, there, here);
	qwen_text_str(t, " there, ");
	add_options(t, here, there);
	qwen_text_str(t, " here");
}

/*
 * Return 1 if the results of m equal those of a run of `with'.  An answer that
 * was not cut is the same with a larger limit, and -n has no effect on requests
 * with their own limit.
 */
static int
same_results(const struct qbatch_origin *m, const struct qbatch_origin *with)
{
	return same_origin(m, with) && (m->max == with->max || m->max == 0 ||
	    (m->max < with->max && !m->cut));
}

void
qbatch_index_check(const struct qbatch_index *ix,
    const struct qbatch_origin *self, const char *way_on)
{
	const struct qbatch_origin *with = self;
	struct qwen_text t = { 0 };
	size_t i;

	for (i = 0; self == NULL && i < ix->n_origins; i++) {
		if (with == NULL || ix->origin[i].max > with->max)
			with = &ix->origin[i];
	}
	for (i = 0; i < ix->n_origins && same_results(&ix->origin[i], with);
	    i++)
		;
	/* results that have images among results that have none */
	if (i == ix->n_origins && with != NULL && with->images == NULL) {
		for (i = 0; i < ix->n_origins && ix->origin[i].images == NULL;
		    i++)
			;
		with = i < ix->n_origins ? &ix->origin[i] : with;
		for (; i < ix->n_origins && same_images(&ix->origin[i], with);
		    i++)
			;
	}
	if (i == ix->n_origins)
		return;
	add_difference(&t, &ix->origin[i], with);
	if (t.failed)
		die("out of memory");
	if (self != NULL)
		die("%s: line %llu is of another run: %s; %s",
		    ix->origin[i].file, cli_llu(ix->origin[i].line),
		    t.s, way_on);
	die("%s: line %llu is of another run than line %llu of %s: %s; %s",
	    ix->origin[i].file, cli_llu(ix->origin[i].line),
	    cli_llu(with->line), with->file, t.s, way_on);
}

/* ------------------------------------------------------------------ entries */

static void
add_entry(struct qbatch_index *ix, const struct qwen_result *r,
    struct qbatch_index_entry p, const struct tool_lines *l)
{
	p.number = r->number;
	p.id = qbatch_hash_text(r->id);
	p.request = r->request == NULL ? 0 : strtoull(r->request, NULL, 16);
	p.line = l->line;
	p.failed = r->failed;
	p.cut = r->failed ? QWEN_CUT_NONE : r->cut;
	p.origin = origin_of(ix, r, l);
	cli_grow(&ix->entry, &ix->cap, ix->n + 1, sizeof p);
	ix->entry[ix->n++] = p;
}

int
qbatch_index_scan(struct qbatch_index *ix, int fd, const char *name,
    unsigned file, uint64_t *end)
{
	/* results with log-probabilities can exceed the limit of requests */
	struct tool_lines l = { .fd = fd, .name = name, .max = SIZE_MAX };
	struct tool_line line;
	struct qwen_result r;
	struct qbatch_index_entry p = { .file = file };

	*end = 0;
	while (tool_lines_next(&l, &line) && !l.torn) {
		if (qwen_result_parse(line.s, line.n, &r, &cli_err) < 0) {
			cli_die_oom(&cli_err);
			die("%s: line %llu is not a result", name,
			    cli_llu(l.line));
		}
		p.offset = *end;
		p.n = line.n;
		add_entry(ix, &r, p, &l);
		qwen_result_fini(&r);
		*end = l.offset;
	}
	if (l.torn)
		check_tail(&l, &line);
	tool_lines_fini(&l);
	return l.torn;
}

/* Order by number; of equal numbers, failed results come last. */
static int
compare(const void *a, const void *b)
{
	const struct qbatch_index_entry *x = a, *y = b;

	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	if (x->failed != y->failed)
		return x->failed - y->failed;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

void
qbatch_index_sort(struct qbatch_index *ix)
{
	if (ix->n > 0)
		qsort(ix->entry, ix->n, sizeof *ix->entry, compare);
}

static int
compare_number(const void *key, const void *entry)
{
	uint64_t x = *(const uint64_t *)key;
	uint64_t y = ((const struct qbatch_index_entry *)entry)->number;

	return (x > y) - (x < y);
}

const struct qbatch_index_entry *
qbatch_index_find(const struct qbatch_index *ix, uint64_t number)
{
	return ix->n == 0 ? NULL : bsearch(&number, ix->entry, ix->n,
	    sizeof *ix->entry, compare_number);
}

void
qbatch_index_count(const struct qbatch_index *ix, struct qbatch_tally *out)
{
	size_t i;

	*out = (struct qbatch_tally){ .n = ix->n };
	for (i = 0; i < ix->n; i++) {
		out->failed += (uint64_t)ix->entry[i].failed;
		out->cut += ix->entry[i].cut != QWEN_CUT_NONE;
		out->broken += ix->entry[i].cut == QWEN_CUT_SCHEMA;
	}
}
