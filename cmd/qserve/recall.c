/* SPDX-License-Identifier: ISC */
/*
 * recall.c - earlier responses, which requests may refer to, and --ignore-line,
 * for lines that some clients change in each request.
 */
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "qserve.h"
#include "text/json/json.h"

enum { BYTES_MAX = 64 << 20 };	/* of all kept responses; the oldest are
				   dropped */

struct qserve_response {
	struct qserve_response	*younger;
	uint64_t		 number;
	size_t			 n_items, n;
	char			 json[];	/* n bytes: a list of n_items
						   bytes, then the response
						   body */
};

/* -------------------------------------------------------------- responses */

/* Drop the response after an older one, or with NULL the oldest. */
static void
drop(struct qserve *s, struct qserve_response *after)
{
	struct qserve_response **at = after != NULL ? &after->younger :
	    &s->oldest, *r = *at;

	*at = r->younger;
	if (s->youngest == r)
		s->youngest = after;
	s->n_response_bytes -= r->n;
	free(r);
}

void
qserve_response_keep(struct qserve *s, const struct qwen_request *q,
    uint64_t created)
{
	struct qwen_text t = { 0 };
	struct qserve_response *r;
	size_t n_items;

	if (q->form != QWEN_FORM_RESPONSES || q->items == NULL ||
	    q->refusal.err.code != 0)
		return;
	qwen_response_items(q, &t);
	n_items = t.n;
	qwen_request_body(q, created, &t);
	if (!t.failed && t.n <= BYTES_MAX / 4 &&
	    (r = malloc(sizeof *r + t.n)) != NULL) {
		r->younger = NULL;
		r->number = q->number;
		r->n_items = n_items;
		r->n = t.n;
		memcpy(r->json, t.s, t.n);
		*(s->youngest != NULL ? &s->youngest->younger :
		    &s->oldest) = r;
		s->youngest = r;
		s->n_response_bytes += r->n;
		while (s->n_response_bytes > BYTES_MAX)
			drop(s, NULL);
	}
	qwen_text_fini(&t);
}

/*
 * Return the response with this id, or NULL; *before: the next older one, or
 * NULL.
 */
static struct qserve_response *
find_response(const struct qserve *s, const char *id,
    struct qserve_response **before)
{
	struct qserve_response *r = s->oldest;
	unsigned long long number;
	char *end;

	*before = NULL;
	if (strncmp(id, "resp_", 5) != 0 || id[5] < '0' || id[5] > '9')
		return NULL;
	number = strtoull(id + 5, &end, 10);
	for (; r != NULL && r->number != number; r = r->younger)
		*before = r;
	return *end == '\0' ? r : NULL;
}

static int
recall(void *arg, const char *id, struct qwen_text *items,
    struct qwen_err *err)
{
	struct qserve_response *before, *r = find_response(arg, id, &before);

	(void)err;	/* out of memory shows in items */
	if (r == NULL)
		return 0;
	qwen_text_add(items, r->json, r->n_items);
	return 1;
}

/* Return the response in the path of the call, or NULL after status 404. */
static struct qserve_response *
find_named(struct qserve_call *c, struct qserve_response **before)
{
	const char *id = c->path + strlen("/v1/responses/");
	struct qserve_response *r = find_response(c->server, id, before);

	if (r == NULL)
		qserve_error(c, 404, "response_not_found", "no response "
		    "'%.60s' here: responses are kept in memory unless the "
		    "request has \"store\": false", id);
	return r;
}

void
qserve_response_get(struct qserve_call *c)
{
	struct qserve_response *before, *r = find_named(c, &before);

	if (r == NULL)
		return;
	qwen_text_add(&c->out, r->json + r->n_items, r->n - r->n_items);
	qserve_done(c, 200);
}

void
qserve_response_delete(struct qserve_call *c)
{
	struct qserve_response *before, *r = find_named(c, &before);

	if (r == NULL)
		return;
	qwen_json_put(&c->out, "{'id':'resp_%llu','object':'response',"
	    "'deleted':true}", cli_llu(r->number));
	drop(c->server, before);
	qserve_done(c, 200);
}

/* ----------------------------------------------------------- ignored lines */

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

void
qserve_recall_open(struct qserve *s)
{
	struct qserve_lines *l = s->lines = cli_check_alloc(calloc(1,
	    sizeof *l + s->ignore.n * sizeof l->re[0]));
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
	s->with.service.recall = recall;
	s->with.service.recall_arg = s;
}
