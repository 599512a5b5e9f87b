/* SPDX-License-Identifier: ISC */
/*
 * qwen/grammar.h - grammars and schemas that replies follow.
 *
 * Open a grammar; open the pieces of the vocabulary, and a trie of these; then
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
 * Grammars: rules in GBNF, as qsample(1) has it, of which root is what a
 * reply must be.  Both are for any number of samplers and threads at once.
 */
struct qwen_grammar;
struct qwen_trie;	/* the tokens of a vocabulary, by their texts */

/* Read n bytes of GBNF.  QWEN_EFORMAT says in which line what is wrong. */
int qwen_grammar_open(struct qwen_grammar **out, const char *text, size_t n,
    struct qwen_err *err);
void qwen_grammar_close(struct qwen_grammar *g);

/* The bytes of memory that it takes, about. */
size_t qwen_grammar_size(const struct qwen_grammar *g);

/*
 * The grammar of a JSON Schema, or its text in GBNF (for free()): what it takes
 * is valid by the schema and has no white space; qsample(1) says what else.  A
 * keyword that it would not do justice to is an error that names it.
 */
int qwen_grammar_open_schema(struct qwen_grammar **out, const char *text,
    size_t n, struct qwen_err *err);
int qwen_schema_grammar(char **out, size_t *n_out, const char *text, size_t n,
    struct qwen_err *err);

/* The tokens of a vocabulary by their texts, which are copied. */
int qwen_trie_new(struct qwen_trie **out, const struct qwen_pieces *p,
    struct qwen_err *err);
void qwen_trie_free(struct qwen_trie *t);

/*
 * The grammar as what a sampler is told (qwen_sampler_constrain), over the
 * tokens of the trie: one of the pieces that the sampler has.  Both are
 * borrowed.  Without a trie the sampler's begin fails with QWEN_EUNSUP.
 */
struct qwen_constraint qwen_grammar_constraint(const struct qwen_grammar *g,
    const struct qwen_trie *t);

#ifdef __cplusplus
}
#endif

#endif
