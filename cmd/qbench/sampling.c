/* SPDX-License-Identifier: ISC */
/*
 * sampling.c - --sampling: measure the time to sample a token from a row of
 * logits, with and without a JSON schema.
 */
#include <stdlib.h>
#include <string.h>

#include "qbench.h"

enum { SAMPLING_ROWS = 4, SAMPLING_VOCAB = 248320 };

/* Common settings, in the form of qwen_sampler_read(). */
static const char *const chains[] = {
	"", "repeat-penalty=1.1", "temp=0.7 top-k=20 top-p=0.8",
	"temp=0.7 top-k=40 repeat-penalty=1.1", "temp=0.7",
	"temp=0.7 top-p=0.9", "temp=0.7 min-p=0.05", "temp=0.7 typical=0.9",
	"temp=0.7 top-n-sigma=1", "temp=1 xtc-probability=0.5",
	"dyntemp-max=1", "mirostat=5",
	"temp=2 top-p=0.9 chain=temp,top-p",
	"temp=1 typical=0.9 top-p=0.9 min-p=0.01",
};

/*
 * Make rows with normally distributed small logits; with sure, 40 higher ones
 * per row.
 */
static float *
make_rows(size_t n, int sure)
{
	float *row = cli_check_alloc(calloc(n, SAMPLING_ROWS * sizeof *row));
	uint64_t rng = 1;
	size_t i, k;

	for (i = 0; i < n * SAMPLING_ROWS; i++) {
		double x = -6;

		for (k = 0; k < 12; k++)
			x += qwen_gguf_random_uniform(&rng);
		row[i] = (float)(x * (sure ? 2.5 : 0.3));
	}
	for (i = 0; sure && i < SAMPLING_ROWS * 40; i++)
		row[i % SAMPLING_ROWS * n + qwen_gguf_random_u64(&rng) % n] =
		    (float)(12 + 8 * qwen_gguf_random_uniform(&rng));
	return row;
}

/* A text that matches a schema, in the tokens of a model. */
struct constrained {
	struct qwen_gguf	*gguf;
	struct qwen_pieces	*pieces;
	struct qwen_trie	*trie;
	struct qwen_grammar	*grammar;
	int32_t			*ids;
	size_t			 n_ids, n_vocab;
};

/* A schema with common features. */
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

/* An answer that a model could give. */
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

static void
constrained_open(struct constrained *c, const char *path)
{
	struct qwen_tok *tok;

	c->gguf = tool_gguf_open(path);
	cli_must(path, qwen_pieces_open(&c->pieces, c->gguf, &cli_err));
	cli_must(path, qwen_trie_new(&c->trie, c->pieces, &cli_err));
	cli_must(path, qwen_grammar_open_schema(&c->grammar, schema,
	    strlen(schema), &cli_err));
	cli_must(path, qwen_tok_open(&tok, c->gguf, QWEN_TOK_ENCODE,
	    &cli_err));
	cli_must(path, qwen_tok_encode(tok, text, strlen(text), 0, &c->ids,
	    &c->n_ids, &cli_err));
	c->n_vocab = qwen_tok_n_vocab(tok);
	qwen_tok_close(tok);
}

static void
constrained_close(struct constrained *c)
{
	qwen_grammar_close(c->grammar);
	qwen_trie_free(c->trie);
	qwen_pieces_close(c->pieces);
	qwen_gguf_close(c->gguf);
	free(c->ids);
}

/*
 * Measure sampling and accepting a token, in ms.  With a schema, the tokens of
 * the text are accepted, whatever was sampled; most grammar states of the text
 * are new.
 */
static struct qbench_spread
time_chain(const char *chain, const float *row, size_t n_vocab,
    const struct constrained *c)
{
	static double ms[QBENCH_MAX_ROUNDS];
	struct qwen_sampler *s;
	uint64_t start;
	size_t i, first = c == NULL, n = qbench_opt.rounds + first;
	int32_t id;

	cli_must(NULL, qwen_sampler_new(&s, &cli_err));
	cli_must(NULL, qwen_sampler_cpu(s, tool_cpu(), &cli_err));
	cli_must(NULL, qwen_sampler_read(s, chain, &cli_err));
	if (c != NULL) {
		n = c->n_ids < QBENCH_MAX_ROUNDS ? c->n_ids : QBENCH_MAX_ROUNDS;
		qwen_sampler_pieces(s, c->pieces);
		qwen_sampler_constrain(s, qwen_grammar_constraint(c->grammar,
		    c->trie));
	}
	cli_must(NULL, qwen_sampler_begin(s, n_vocab, &cli_err));
	for (i = 0; i < n; i++) {
		start = qbench_now_ns();
		cli_must(NULL, qwen_sampler_sample(s, c != NULL ? row :
		    row + i % SAMPLING_ROWS * n_vocab, NULL, n_vocab, i, &id,
		    &cli_err));
		cli_must(NULL, qwen_sampler_accept(s, c != NULL ? &c->ids[i] :
		    &id, 1, 1, &cli_err));
		/* the first one allocates memory */
		if (i >= first)
			ms[i - first] = (double)(qbench_now_ns() - start) * 1e-6;
	}
	qwen_sampler_free(s);
	return qbench_spread_of(ms, n - first);
}

static void
show_chain(const char *kind, const char *chain, struct qbench_spread ms)
{
	static int n;
	const struct qbench_cell cell[] = {
		QBENCH_TEXT("rows", "rows", -5, kind),
		QBENCH_TEXT("chain", "chain", -38, chain[0] != '\0' ? chain :
		    "greedy"),
		QBENCH_RANGE("ms", "median", 8, 3, ms),
		QBENCH_TEXT(NULL, "", 0, "ms"),
	};

	qbench_show_row(cell, sizeof cell / sizeof cell[0], n++ == 0);
}

/* Measure with a schema: the tokens of the text, with one row of logits. */
static void
show_constrained(const struct constrained *c, const float *row)
{
	static const char *const with[] = {
		"", "temp=0.7 top-k=20 top-p=0.8", "temp=0.7 top-p=0.9"
	};
	size_t i;

	for (i = 0; i < sizeof with / sizeof with[0]; i++)
		show_chain("json", with[i], time_chain(with[i], row,
		    c->n_vocab, c));
}

void
qbench_show_sampling(void)
{
	struct constrained c = { .n_vocab = qbench_opt.synth.n_vocab != 0 ?
	    qbench_opt.synth.n_vocab : SAMPLING_VOCAB };
	int sure;
	size_t i;

	if (qbench_opt.model != NULL)
		constrained_open(&c, qbench_opt.model);
	for (sure = 1; sure >= 0; sure--) {
		float *row = make_rows(c.n_vocab, sure);

		for (i = 0; i < sizeof chains / sizeof chains[0]; i++)
			show_chain(sure ? "sure" : "flat", chains[i],
			    time_chain(chains[i], row, c.n_vocab, NULL));
		if (!sure && c.gguf != NULL)
			show_constrained(&c, row);
		free(row);
	}
	constrained_close(&c);
}
