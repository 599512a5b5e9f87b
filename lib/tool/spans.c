/* SPDX-License-Identifier: ISC */
/* spans.c - the images in a token stream, and the rows that come for them. */
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

/* Returns what has come for the span with this hash; NULL: no such span. */
static struct tool_rows *
find(const struct tool_spans *p, const struct qwen_fp *hash)
{
	size_t i;

	for (i = 0; i < p->n_rows; i++) {
		if (memcmp(&p->rows[i].hash, hash, sizeof *hash) == 0)
			return &p->rows[i];
	}
	return NULL;
}

void
tool_spans_add(struct tool_spans *p, const struct qwen_model *m,
    const struct qwen_span *s, uint64_t start)
{
	size_t need = (size_t)s->n * qwen_model_n_row(m);
	struct tool_rows *r = find(p, &s->hash);

	if (r == NULL) {
		cli_grow(&p->rows, &p->cap_rows, p->n_rows + 1,
		    sizeof *p->rows);
		r = &p->rows[p->n_rows++];
		*r = (struct tool_rows){ .hash = s->hash, .need = need };
	}
	if (r->need != need)
		die("%s: two images with the same hash have different sizes",
		    p->name);
	cli_grow(&p->v, &p->cap, p->n + 1, sizeof *p->v);
	p->v[p->n] = (struct qwen_span_rows){ .span = *s };
	p->v[p->n++].span.start = start;
}

void
tool_spans_take(struct tool_spans *p, const struct qwen_record *rec)
{
	struct tool_rows *r = find(p, &rec->fp);

	if (r == NULL)
		die("%s: rows of an image before its place in the text",
		    p->name);
	/* the rows of an image that comes twice count once */
	if (r->n == r->need || rec->n == 0)
		return;
	if (rec->n > r->need - r->n)
		die("%s: an image has more numbers than the %zu that this "
		    "model takes: make the rows with its mmproj file", p->name,
		    r->need);
	cli_grow(&r->x, &r->cap, r->n + rec->n, sizeof *r->x);
	memcpy(r->x + r->n, rec->logits, rec->n * sizeof *r->x);
	r->n += rec->n;
}

void
tool_spans_end(struct tool_spans *p, uint64_t by)
{
	const struct tool_rows *r;
	size_t i;

	for (i = 0; i < p->n; i++) {
		r = find(p, &p->v[i].span.hash);
		if (r->n > 0 && r->n < r->need)
			die("%s: an image has %zu numbers, and this model "
			    "takes %zu: make the rows with its mmproj file",
			    p->name, r->n, r->need);
		p->v[i].rows = r->x;
		p->v[i].span.start += by;
	}
}

void
tool_spans_check(const struct tool_spans *p, uint64_t from)
{
	size_t i;

	for (i = 0; i < p->n; i++) {
		if (p->v[i].rows == NULL &&
		    p->v[i].span.start + p->v[i].span.n > from)
			die("%s: the image at position %llu has no rows: "
			    "encode it with qimage --mmproj", p->name,
			    cli_llu(p->v[i].span.start));
	}
}

void
tool_spans_fini(struct tool_spans *p)
{
	size_t i;

	for (i = 0; i < p->n_rows; i++)
		free(p->rows[i].x);
	free(p->rows);
	free(p->v);
	memset(p, 0, sizeof *p);
}
