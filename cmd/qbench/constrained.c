/* SPDX-License-Identifier: ISC */
/*
 * constrained.c - --sampling -m: what a choice costs where a schema says which
 * tokens may come, on the vocabulary of a model.
 */
#include <stdlib.h>
#include <string.h>

#include "qbench.h"

/* What people ask for. */
static const char schema[] =
    "{\"type\":\"object\",\"properties\":{"
    "\"title\":{\"type\":\"string\",\"maxLength\":120},"
    "\"summary\":{\"type\":\"string\"},"
    "\"date\":{\"type\":\"string\",\"format\":\"date\"},"
    "\"rating\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":10},"
    "\"price\":{\"type\":\"number\",\"minimum\":0},"
    "\"tags\":{\"type\":\"array\",\"maxItems\":8,"
    "\"items\":{\"type\":\"string\",\"maxLength\":30}},"
    "\"author\":{\"type\":\"object\",\"properties\":{"
    "\"name\":{\"type\":\"string\"},"
    "\"email\":{\"type\":\"string\",\"format\":\"email\"},"
    "\"role\":{\"enum\":[\"editor\",\"reviewer\",\"reader\"]}},"
    "\"required\":[\"name\",\"role\"]},"
    "\"related\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
    "\"properties\":{"
    "\"id\":{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d{4}$\"},"
    "\"score\":{\"type\":\"number\"}},\"required\":[\"id\",\"score\"]}},"
    "\"public\":{\"type\":\"boolean\"}},"
    "\"required\":[\"title\",\"summary\",\"date\",\"rating\",\"tags\","
    "\"author\",\"public\"]}";

/* What a model could say. */
static const char text[] =
    "{\"title\":\"A short history of lighthouses on the northern coast\","
    "\"summary\":\"The book follows the keepers of four lights from the first "
    "oil lamps to the day when the last of them was left. It is at its best "
    "where it lets letters speak: a storm in 1884, \\\"the worst in living "
    "memory\\\", takes up a chapter, and nobody will wish it shorter.\","
    "\"date\":\"2024-02-29\",\"rating\":8,\"price\":24.5,"
    "\"tags\":[\"history\",\"sea\",\"lighthouses\",\"Norway\"],"
    "\"author\":{\"name\":\"Kari Nordmann\",\"email\":\"kari@example.org\","
    "\"role\":\"editor\"},"
    "\"related\":[{\"id\":\"AB-1234\",\"score\":0.75},"
    "{\"id\":\"XY-0042\",\"score\":0.5}],\"public\":true}";

void
qbench_constrained_open(struct constrained *c, const char *path)
{
	struct qwen_err err;
	struct qwen_tok *tok;

	if (qwen_gguf_open(&c->gguf, path, &err) < 0 ||
	    qwen_pieces_open(&c->pieces, c->gguf, &err) < 0 ||
	    qwen_trie_new(&c->trie, c->pieces, &err) < 0 ||
	    qwen_grammar_open_schema(&c->grammar, schema, strlen(schema),
	    &err) < 0 || qwen_tok_open(&tok, c->gguf, QWEN_TOK_ENCODE,
	    &err) < 0)
		cli_die_err(path, &err);
	if (qwen_tok_encode(tok, text, strlen(text), 0, &c->ids, &c->n_ids,
	    &err) < 0)
		cli_die_err(path, &err);
	c->n_vocab = qwen_tok_n_vocab(tok);
	qwen_tok_close(tok);
}

void
qbench_constrained_close(struct constrained *c)
{
	qwen_grammar_close(c->grammar);
	qwen_trie_free(c->trie);
	qwen_pieces_close(c->pieces);
	qwen_gguf_close(c->gguf);
	free(c->ids);
}

/* Whatever is chosen, the text goes on; most of its states are new. */
struct spread
qbench_constrained_time(const struct constrained *c, const char *chain,
    const float *row)
{
	static double ms[MAX_ROUNDS];
	struct qwen_sampler *s;
	struct qwen_err err;
	uint64_t start;
	size_t i, n = c->n_ids < MAX_ROUNDS ? c->n_ids : MAX_ROUNDS;
	int32_t id;

	if (qwen_sampler_new(&s, &err) < 0 ||
	    qwen_sampler_cpu(s, tool_cpu(), &err) < 0 ||
	    qwen_sampler_read(s, chain, &err) < 0)
		cli_die_err(NULL, &err);
	qwen_sampler_pieces(s, c->pieces);
	qwen_sampler_constrain(s, qwen_grammar_constraint(c->grammar, c->trie));
	if (qwen_sampler_begin(s, c->n_vocab, &err) < 0)
		cli_die_err(NULL, &err);
	for (i = 0; i < n; i++) {
		start = qbench_now_ns();
		if (qwen_sampler_sample(s, row, NULL, c->n_vocab, i, &id,
		    &err) < 0 || qwen_sampler_accept(s, &c->ids[i], 1, 1,
		    &err) < 0)
			cli_die_err(NULL, &err);
		ms[i] = (double)(qbench_now_ns() - start) * 1e-6;
	}
	qwen_sampler_free(s);
	return qbench_spread_of(ms, n);
}
