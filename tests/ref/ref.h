/* SPDX-License-Identifier: ISC */
/*
 * ref.h - a second oracle: the forward pass as it is written down, slowly.
 *
 * Plain C in double precision, a whole sequence at once, nothing cached or
 * quantised but the weights as the file has them.  It shares with the library
 * only the reader of GGUF files and the decoding of weights.
 */
#ifndef REF_H
#define REF_H

#include <stddef.h>
#include <stdint.h>

struct ref_model;

/* Decodes every weight.  Exits with a message if it cannot. */
struct ref_model *ref_open(const char *path);
void ref_close(struct ref_model *m);

size_t ref_n_vocab(const struct ref_model *m);

/*
 * From now on with an adapter: W + scale * alpha / rank * BA, as f32.  Its
 * token_embd changes what is looked up, not a head that is tied to it.
 */
void ref_add_lora(struct ref_model *m, const char *path, double scale);

/* From now on round keys and values to f16, as the library does. */
void ref_round_kv(struct ref_model *m);

/*
 * Told of each stage by the names that traces have, qwen-trace(7), from now on;
 * t is the token's position, and v lives until it returns.  ref_drafts() tells
 * of the trunk too.
 */
struct ref_look {
	void	(*fn)(void *arg, const char *stage, size_t t, const double *v,
		    size_t n);
	void	*arg;
	/* the reference pass's own: the position; that of the first row */
	size_t	 t, first;
};

void ref_look(struct ref_model *m, struct ref_look *look);

/* Logits after each of n tokens: logits[n][n_vocab]. */
void ref_logits(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits);

/*
 * What the block that predicts says of the token after the next one, after each
 * of n - 1 tokens and the one that follows it: logits[n - 1][n_vocab].
 */
void ref_drafts(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits);

#endif
