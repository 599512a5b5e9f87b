/* SPDX-License-Identifier: ISC */
/*
 * batch_grammar.c - grammars that requests bring: those with the same text are
 * read once, and kept while somebody uses them, and a few for who may come.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/batch_ask.h"

enum { KEPT = 32 };

struct cli_shared_grammar {
	struct cli_shared_grammar *next;	/* used longer ago */
	char			*text;
	size_t			 n;
	int			 is_schema;
	size_t			 n_users;
	struct qwen_grammar	*grammar;
};

static void
drop(struct cli_shared_grammar *g)
{
	qwen_grammar_close(g->grammar);
	free(g->text);
	free(g);
}

/* Those that nobody uses go, but for some that were used last. */
static void
tidy(struct cli_grammars *all)
{
	struct cli_shared_grammar **at = &all->first, *g;
	size_t n = 0;

	while ((g = *at) != NULL) {
		if (g->n_users > 0 || n++ < KEPT) {
			at = &g->next;
			continue;
		}
		*at = g->next;
		drop(g);
	}
}

/* One of that text, now the first of the list; or NULL. */
static struct cli_shared_grammar *
find(struct cli_grammars *all, const char *text, size_t n, int is_schema)
{
	struct cli_shared_grammar **at, *g;

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

static struct cli_shared_grammar *
make(struct cli_grammars *all, const char *text, size_t n, int is_schema,
    struct qwen_err *err)
{
	struct cli_shared_grammar *g = cli_ask_alloc(1, sizeof *g);

	if ((is_schema ? qwen_grammar_open_schema : qwen_grammar_open)
	    (&g->grammar, text, n, err) < 0) {
		free(g);
		return NULL;
	}
	g->text = cli_ask_alloc(n + 1, 1);
	memcpy(g->text, text, n);
	g->n = n;
	g->is_schema = is_schema;
	g->next = all->first;
	all->first = g;
	tidy(all);
	return g;
}

/* What grammars work on, once one is there. */
static void
need_texts(struct cli_grammars *all)
{
	struct qwen_err err;

	if (all->trie != NULL)
		return;
	if ((all->pieces == NULL && qwen_pieces_open(&all->own, all->gguf,
	    &err) < 0) || qwen_trie_new(&all->trie, all->own != NULL ?
	    all->own : all->pieces, &err) < 0)
		cli_die_err(NULL, &err);
	if (all->own != NULL)
		all->pieces = all->own;
}

static int
take(struct cli_ask *r, const char *what, const char *text, size_t n,
    int is_schema)
{
	struct cli_grammars *all = r->b->grammars;
	struct cli_shared_grammar *g = find(all, text, n, is_schema);
	struct qwen_err err;

	if (g == NULL && (g = make(all, text, n, is_schema, &err)) == NULL)
		return bad(r, "%s: %s", what, err.msg);
	need_texts(all);
	g->n_users++;
	r->item->grammar = g;
	return 0;
}

/* {"type": "json_schema", "json_schema": {"schema": ...}} */
static int
read_format(struct cli_ask *r, yyjson_val *v)
{
	yyjson_val *type = yyjson_obj_get(v, "type"), *schema;
	char *text;
	size_t n;
	int rc;

	if (yyjson_equals_str(type, "text"))
		return 0;
	if (yyjson_equals_str(type, "json_object"))
		return take(r, "response_format", "{\"type\":\"object\"}", 17,
		    1);
	if (!yyjson_equals_str(type, "json_schema"))
		return bad(r, "response_format: the type is not text, "
		    "json_object or json_schema");
	schema = yyjson_obj_get(yyjson_obj_get(v, "json_schema"), "schema");
	if (schema == NULL)
		return bad(r, "response_format: there is no schema in "
		    "json_schema");
	if ((text = yyjson_val_write(schema, 0, &n)) == NULL)
		die("out of memory");
	rc = take(r, "response_format", text, n, 1);
	free(text);
	return rc;
}

int
cli_ask_grammar(struct cli_ask *r)
{
	yyjson_val *format = cli_ask_get(r, "response_format");
	yyjson_val *grammar = cli_ask_get(r, "grammar");

	if (format != NULL && read_format(r, format) < 0)
		return -1;
	if (grammar == NULL)
		return 0;
	if (r->item->grammar != NULL)
		return bad(r, "grammar and response_format: which one?");
	if (!yyjson_is_str(grammar))
		return bad(r, "grammar: is not a string");
	return take(r, "grammar", yyjson_get_str(grammar),
	    yyjson_get_len(grammar), 0);
}

void
cli_item_put_grammar(const struct cli_batch *b, const struct cli_item *item,
    struct qwen_sampler *s)
{
	const struct cli_grammars *all = b->grammars;
	const struct qwen_grammar *g = item->grammar != NULL ?
	    item->grammar->grammar : all->usual;

	if (g == NULL)
		return;
	qwen_sampler_pieces(s, all->pieces);
	qwen_sampler_constrain(s, qwen_grammar_constraint(g, all->trie));
}

int
cli_item_has_grammar(const struct cli_batch *b, const struct cli_item *item)
{
	return item->grammar != NULL || b->grammars->usual != NULL;
}

void
cli_item_drop_grammar(struct cli_item *item)
{
	if (item->grammar != NULL)
		item->grammar->n_users--;
}

void
cli_grammars_open(struct cli_grammars *all, const struct qwen_gguf *g,
    const struct qwen_pieces *pieces, const struct qwen_grammar *usual)
{
	all->gguf = g;
	all->pieces = pieces;
	all->usual = usual;
	if (usual != NULL)
		need_texts(all);
}

void
cli_grammars_fini(struct cli_grammars *all)
{
	struct cli_shared_grammar *g;

	while ((g = all->first) != NULL) {
		all->first = g->next;
		drop(g);
	}
	qwen_trie_free(all->trie);
	qwen_pieces_close(all->own);
}
