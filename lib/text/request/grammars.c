/* SPDX-License-Identifier: ISC */
/*
 * grammars.c - grammars that requests bring: those with the same text are read
 * once, and kept while somebody uses them, and a few for who may come.
 */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "text/request/ask.h"

enum { KEPT = 32, KEPT_BYTES = 16 << 20 };

struct qwen_shared_grammar {
	struct qwen_shared_grammar *next;	/* used longer ago */
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

/* Those that nobody uses go, but for some that were used last. */
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

/* One of that text, now the first of the list; or NULL. */
static struct qwen_shared_grammar *
find(struct qwen_grammars *all, const char *text, size_t n, int is_schema)
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

static int
make(struct qwen_grammars *all, const char *text, size_t n, int is_schema,
    struct qwen_shared_grammar **out, struct qwen_err *err)
{
	struct qwen_shared_grammar *g = calloc(1, sizeof *g);

	if (g == NULL || (g->text = malloc(n + 1)) == NULL) {
		drop(g);
		return qwen_oom(err);
	}
	if ((is_schema ? qwen_grammar_open_schema : qwen_grammar_open)
	    (&g->grammar, text, n, err) < 0) {
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
	struct qwen_shared_grammar *g = find(all, text, n, is_schema);

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
qwen_ask_take_grammar(struct qwen_ask *r, const char *what, const char *text,
    size_t n, int is_schema)
{
	struct qwen_shared_grammar *g;
	struct qwen_constraint c;
	struct qwen_err err;

	if (qwen_grammar_share(r->s->grammars, text, n, is_schema, &g, &c,
	    &err) < 0)
		return qwen_ask_failed(r->no, what, &err);
	r->holds = what;
	r->q->shared = g;
	r->q->grammar = g->grammar;
	r->q->n_bytes += g->bytes;
	return 0;
}

/* A schema, as an object or as a text that has one. */
static int
take_schema(struct qwen_ask *r, const char *what, yyjson_val *schema)
{
	char *text;
	size_t n;
	int rc;

	if (yyjson_is_str(schema))
		return qwen_ask_take_grammar(r, what, yyjson_get_str(schema),
		    yyjson_get_len(schema), 1);
	if ((text = yyjson_val_write(schema, 0, &n)) == NULL)
		return qwen_oom(&r->no->err);
	rc = qwen_ask_take_grammar(r, what, text, n, 1);
	free(text);
	return rc;
}

/*
 * {"type": "json_schema", "json_schema": {"schema": ...}}; or with the schema
 * beside the type, also of json_object, as llama.cpp has it.
 */
static int
take_format(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type"), *schema;
	int any = yyjson_equals_str(type, "json_object");

	if (yyjson_equals_str(type, "text"))
		return 0;
	if (!any && !yyjson_equals_str(type, "json_schema"))
		return wrong(r->no, what, "the type is not text, json_object "
		    "or json_schema");
	schema = any ? NULL : qwen_ask_get(yyjson_obj_get(v, "json_schema"),
	    "schema");
	if (schema == NULL)
		schema = qwen_ask_get(v, "schema");
	if (schema != NULL)
		return take_schema(r, what, schema);
	return any ? qwen_ask_take_grammar(r, what, "{\"type\":\"object\"}",
	    17, 1) : wrong(r->no, what, "there is no schema in json_schema");
}

static int
take_gbnf(struct qwen_ask *r, const char *what, yyjson_val *v)
{
	if (!yyjson_is_str(v))
		return wrong(r->no, what, "is not a string");
	return qwen_ask_take_grammar(r, what, yyjson_get_str(v),
	    yyjson_get_len(v), 0);
}

/* One of these at most. */
int
qwen_ask_grammar(struct qwen_ask *r)
{
	static const struct {
		const char	*key;
		int		(*take)(struct qwen_ask *r, const char *what,
				    yyjson_val *v);
	} ways[] = {
		{ "response_format", take_format },
		{ "json_schema", take_schema }, { "guided_json", take_schema },
		{ "grammar", take_gbnf },
	};
	yyjson_val *v;
	size_t i;

	for (i = 0; i < sizeof ways / sizeof ways[0]; i++) {
		if ((v = qwen_ask_get(r->body, ways[i].key)) == NULL)
			continue;
		if (r->holds != NULL)
			return bad(r->no, ways[i].key, "%s and %s: which one?",
			    ways[i].key, r->holds);
		if (ways[i].take(r, ways[i].key, v) < 0)
			return -1;
	}
	return 0;
}

int
qwen_request_grammar(const struct qwen_request *q, char **gbnf, size_t *n,
    struct qwen_err *err)
{
	const struct qwen_shared_grammar *g = q->shared;

	*gbnf = NULL;
	*n = 0;
	if (g == NULL)
		return 0;
	if (g->is_schema)
		return qwen_schema_grammar(gbnf, n, g->text, g->n, err);
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
