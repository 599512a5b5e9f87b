/* SPDX-License-Identifier: ISC */
/*
 * qwen/grammar.h - grammars and JSON schemas for constrained output.
 *
 * Open a grammar; open the pieces of the vocabulary and a trie of them; then
 * call
 *	qwen_sampler_pieces(s, pieces);
 *	qwen_sampler_constrain(s, qwen_grammar_constraint(g, trie));
 * before qwen_sampler_begin.
 */
#ifndef QWEN_QWEN_GRAMMAR_H
#define QWEN_QWEN_GRAMMAR_H

#include "qwen/constraint.h"
#include "qwen/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A grammar: GBNF rules as in qsample(1); the rule root is the whole reply.
 * Any number of samplers and threads may share grammars and tries.
 */
struct qwen_grammar;
struct qwen_trie;	/* the texts of a vocabulary's tokens */

/* Parses n bytes of GBNF.  QWEN_EFORMAT names the line and the problem. */
int qwen_grammar_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err);
void qwen_grammar_close(struct qwen_grammar *g);

/* Returns the approximate memory size in bytes. */
size_t qwen_grammar_size(const struct qwen_grammar *g);

/*
 * Opens the grammar of a JSON Schema.  Its texts are valid by the schema and
 * contain no white space; qsample(1) lists the restrictions.  An unsupported
 * keyword is an error that names it.
 */
int qwen_grammar_open_schema(struct qwen_grammar **out, const char *text,
    size_t n, struct qwen_err *err);

/* Builds a trie of the token texts of a vocabulary, which it copies. */
int qwen_trie_new(struct qwen_trie **out, const struct qwen_pieces *p,
    struct qwen_err *err);
void qwen_trie_free(struct qwen_trie *t);

/*
 * Returns the constraint for qwen_sampler_constrain: the grammar over the
 * tokens of the trie, which must be built from the sampler's pieces.  Borrows
 * both.  Without a trie qwen_sampler_begin fails with QWEN_EUNSUP.
 */
struct qwen_constraint qwen_grammar_constraint(const struct qwen_grammar *g,
    const struct qwen_trie *t);

#ifdef __cplusplus
}
#endif

#endif
