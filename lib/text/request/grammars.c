/* SPDX-License-Identifier: ISC */
/*
 * grammars.c - grammars of requests.  Each text is parsed once; its grammar is
 * kept while it is used, and the last unused ones are kept too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/parser.h"
#include "text/schema/rules.h"

enum { KEPT = 32, KEPT_BYTES = 16 << 20 };

struct qwen_shared_grammar {
	struct qwen_shared_grammar *next;	/* less recently used */
	char			*text;
	size_t			 n;
	int			 is_schema;
	size_t			 n_users;
	size_t			 bytes;
	struct qwen_grammar	*grammar;
};

static void
drop(struct qwen_shared_grammar *g)
{
	if (g == NULL)
		return;
	qwen_grammar_close(g->grammar);
	free(g->text);
	free(g);
}

/* Drops unused grammars, except the most recently used ones. */
static void
tidy(struct qwen_grammars *all)
{
	struct qwen_shared_grammar **at = &all->first, *g;
	size_t n = 0, bytes = 0;

	while ((g = *at) != NULL) {
		bytes += g->n_users > 0 ? 0 : g->bytes;
		if (g->n_users > 0 || (n++ < KEPT && bytes < KEPT_BYTES)) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		drop(g);
	}
}

/* Finds the grammar of this text and moves it to the front; NULL if none. */
static struct qwen_shared_grammar *
find_grammar(struct qwen_grammars *all, const char *text, size_t n,
    int is_schema)
{
	struct qwen_shared_grammar **at, *g;

	for (at = &all->first; (g = *at) != NULL; at = &g->next) {
		if (g->n != n || g->is_schema != is_schema ||
		    memcmp(g->text, text, n) != 0)
			continue;
		*at = g->next;
		g->next = all->first;
		return all->first = g;
	}
	return NULL;
}

int
qwen_grammar_open_noted(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_unknown *u, struct qwen_err *err)
{
	struct qwen_schema_how how = { .strict = u != NULL && u->strict };

	if (qwen_schema_open(out, text, n, &how, err) < 0)
		return -1;
	if (how.note[0] != '\0')
		qwen_unknown_note(u, "of a schema, not all is kept: %s",
		    how.note);
	return 0;
}

static int
make(struct qwen_grammars *all, const char *text, size_t n, int is_schema,
    struct qwen_shared_grammar **out, struct qwen_err *err)
{
	struct qwen_shared_grammar *g = calloc(1, sizeof *g);

	if (g == NULL || (g->text = malloc(n + 1)) == NULL) {
		drop(g);
		return qwen_oom(err);
	}
	if ((is_schema ? qwen_grammar_open_noted(&g->grammar, text, n,
	    all->unknown, err) : qwen_grammar_open(&g->grammar, text, n, err)) < 0) {
		drop(g);
		return -1;
	}
	memcpy(g->text, text, n);
	g->n = n;
	g->bytes = n + qwen_grammar_size(g->grammar);
	g->is_schema = is_schema;
	g->next = all->first;
	*out = all->first = g;
	return 0;
}

int
qwen_grammars_prepare(struct qwen_grammars *all, struct qwen_err *err)
{
	if (all->trie != NULL)
		return 0;
	if (all->pieces == NULL) {
		if (qwen_pieces_open(&all->own, all->gguf, err) < 0)
			return -1;
		all->pieces = all->own;
	}
	return qwen_trie_new(&all->trie, all->pieces, err);
}

int
qwen_grammar_share(struct qwen_grammars *all, const char *text, size_t n,
    int is_schema, struct qwen_shared_grammar **out,
    struct qwen_constraint *c, struct qwen_err *err)
{
	struct qwen_shared_grammar *g = find_grammar(all, text, n, is_schema);

	*out = NULL;
	if ((g == NULL && make(all, text, n, is_schema, &g, err) < 0) ||
	    qwen_grammars_prepare(all, err) < 0)
		return -1;
	g->n_users++;
	tidy(all);
	*out = g;
	*c = qwen_grammar_constraint(g->grammar, all->trie);
	return 0;
}

int
qwen_parse_set_grammar(struct qwen_parser *r, const char *what,
    const char *text, size_t n, int is_schema)
{
	struct qwen_shared_grammar *g;
	struct qwen_constraint c;
	struct qwen_err err;

	r->s->grammars->unknown = r->s->unknown;
	if (qwen_grammar_share(r->s->grammars, text, n, is_schema, &g, &c,
	    &err) < 0)
		return qwen_refuse_error(r->refusal, what, &err);
	r->grammar_field = what;
	r->q->shared = g;
	r->q->grammar = g->grammar;
	r->q->n_bytes += g->bytes;
	return 0;
}

const char *
qwen_parse_get_schema(const struct qwen_parser *r, size_t *n)
{
	const struct qwen_shared_grammar *g = r->q->shared;

	if (g == NULL || !g->is_schema)
		return NULL;
	*n = g->n;
	return g->text;
}

void
qwen_parse_drop_grammar(struct qwen_parser *r)
{
	if (r->q->shared != NULL)
		r->q->n_bytes -= r->q->shared->bytes;
	qwen_grammar_unshare(r->q->shared);
	r->q->shared = NULL;
	r->q->grammar = NULL;
	r->grammar_field = NULL;
}

int
qwen_request_grammar(const struct qwen_request *q, char **gbnf, size_t *n,
    struct qwen_err *err)
{
	const struct qwen_shared_grammar *g = q->shared;
	struct qwen_schema_how how = { .strict = 0 };

	*gbnf = NULL;
	*n = 0;
	if (g == NULL)
		return 0;
	if (g->is_schema)
		return qwen_schema_gbnf(gbnf, n, g->text, g->n, &how, err);
	if ((*gbnf = malloc(g->n + 1)) == NULL)
		return qwen_oom(err);
	memcpy(*gbnf, g->text, g->n);
	*n = g->n;
	return 0;
}

void
qwen_grammar_unshare(struct qwen_shared_grammar *g)
{
	if (g != NULL)
		g->n_users--;
}

void
qwen_grammars_fini(struct qwen_grammars *all)
{
	struct qwen_shared_grammar *g;

	while ((g = all->first) != NULL) {
		all->first = g->next;
		drop(g);
	}
	qwen_trie_free(all->trie);
	qwen_pieces_close(all->own);
}
