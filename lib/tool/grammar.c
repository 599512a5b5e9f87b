/* SPDX-License-Identifier: ISC */
/* grammar.c - --grammar and --json-schema of every tool that chooses tokens. */
#include <stdlib.h>

#include "text/request/request.h"
#include "tool/tool.h"

enum { GRAMMAR_MAX = 1 << 23 };	/* bytes; the library has its own limits, too */

void
tool_grammar_open(struct tool_grammar *c, struct qwen_sampler *s)
{
	struct qwen_unknown u = { .strict = 0 };
	char *text;
	int is_schema = c->schema != NULL;
	size_t n, i;
	int rc;

	if (c->path != NULL && is_schema)
		cli_usage("--grammar or --json-schema, not both");
	if (is_schema)
		c->path = c->schema;
	if (c->path == NULL)
		return;
	text = cli_read_file(c->path, GRAMMAR_MAX, &n);
	rc = is_schema ? qwen_grammar_open_noted(&c->grammar, text, n, &u,
	    &cli_err) : qwen_grammar_open(&c->grammar, text, n, &cli_err);
	/* FNV-1a */
	c->hash = 0xcbf29ce484222325 + (uint64_t)is_schema;
	for (i = 0; i < n; i++)
		c->hash = (c->hash ^ (unsigned char)text[i]) * 0x100000001b3;
	free(text);
	cli_must(c->path, rc);
	/* the parts of a schema that are not enforced */
	tool_report_notes(&u);
	qwen_sampler_constrain(s, qwen_grammar_constraint(c->grammar, NULL));
}

void
tool_grammar_begin(struct tool_grammar *c, const struct qwen_pieces *p,
    struct qwen_sampler *s)
{
	if (c->grammar == NULL)
		return;
	qwen_trie_free(c->trie);
	cli_must(NULL, qwen_trie_new(&c->trie, p, &cli_err));
	qwen_sampler_constrain(s, qwen_grammar_constraint(c->grammar, c->trie));
}
