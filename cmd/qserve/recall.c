/* SPDX-License-Identifier: ISC */
/*
 * recall.c - what requests may leave out: earlier responses, which they name, and
 * lines that some clients change each time.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "qserve.h"

enum { BYTES_MAX = 64 << 20 };	/* of all; the oldest go */

struct qserve_response {
	struct qserve_response	*younger;
	uint64_t		 number;
	size_t			 n;
	char			 items[];	/* JSON, of a list */
};

/* -------------------------------------------------------------- responses */

static void
drop_oldest(struct qserve *s)
{
	struct qserve_response *r = s->oldest;

	s->oldest = r->younger;
	if (s->oldest == NULL)
		s->youngest = NULL;
	s->n_response_bytes -= r->n;
	free(r);
}

void
qserve_response_keep(struct qserve_call *c)
{
	struct qserve *s = c->server;
	struct qwen_text t = { 0 };
	struct qserve_response *r;

	if (c->form != QWEN_FORM_RESPONSES || c->q->items == NULL ||
	    c->q->no.err.code != 0)
		return;
	qwen_response_items(c->q, &t);
	if (!t.failed && t.n <= BYTES_MAX / 4) {
		r = cli_got(malloc(sizeof *r + t.n));
		r->younger = NULL;
		r->number = c->q->number;
		r->n = t.n;
		memcpy(r->items, t.s, t.n);
		*(s->youngest != NULL ? &s->youngest->younger :
		    &s->oldest) = r;
		s->youngest = r;
		s->n_response_bytes += r->n;
		while (s->n_response_bytes > BYTES_MAX)
			drop_oldest(s);
	}
	qwen_text_fini(&t);
}

static int
recall(void *arg, const char *id, struct qwen_text *items,
    struct qwen_err *err)
{
	const struct qserve *s = arg;
	const struct qserve_response *r = s->oldest;
	unsigned long long number;
	char *end;

	(void)err;	/* for want of memory the text fails */
	if (strncmp(id, "resp_", 5) != 0 || id[5] < '0' || id[5] > '9')
		return 0;
	number = strtoull(id + 5, &end, 10);
	while (r != NULL && r->number != number)
		r = r->younger;
	if (r == NULL || *end != '\0')
		return 0;
	qwen_text_add(items, r->items, r->n);
	return 1;
}

/* ------------------------------------------------------------------- lines */

struct qserve_lines {
	size_t	n;
	regex_t	re[];
};

static int
pass_over(void *arg, const char *line, size_t n)
{
	const struct qserve_lines *l = arg;
	regmatch_t m = { .rm_so = 0, .rm_eo = (regoff_t)n };
	size_t i;

	for (i = 0; i < l->n; i++) {
		if (regexec(&l->re[i], line, 1, &m, REG_STARTEND) == 0)
			return 1;
		m = (regmatch_t){ .rm_so = 0, .rm_eo = (regoff_t)n };
	}
	return 0;
}

static void
open_lines(struct qserve *s)
{
	struct qserve_lines *l = s->lines = cli_got(calloc(1, sizeof *l +
	    s->ignore.n * sizeof l->re[0]));
	char why[256];
	int rc;

	for (; l->n < s->ignore.n; l->n++) {
		rc = regcomp(&l->re[l->n], s->ignore.v[l->n], REG_EXTENDED);
		if (rc == 0)
			continue;
		regerror(rc, &l->re[l->n], why, sizeof why);
		cli_usage("--ignore-line: '%s': %s", s->ignore.v[l->n], why);
	}
	s->with.service.pass_over = l->n > 0 ? pass_over : NULL;
	s->with.service.pass_over_arg = l;
}

void
qserve_recall_open(struct qserve *s)
{
	s->with.service.recall = recall;
	s->with.service.recall_arg = s;
	open_lines(s);
}

void
qserve_recall_close(struct qserve *s)
{
	while (s->oldest != NULL)
		drop_oldest(s);
	while (s->lines->n > 0)
		regfree(&s->lines->re[--s->lines->n]);
	free(s->lines);
	free(s->ignore.v);
}
