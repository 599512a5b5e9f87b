/* SPDX-License-Identifier: ISC */
/*
 * ref.h - a second implementation of the forward pass, simple and slow, to
 * compare with.
 *
 * Plain C in double precision: it computes a whole sequence at once, without
 * caches, and quantises nothing except for the weights, which are as in the
 * file. It shares with the library only the GGUF reader and the decoding of
 * weights.
 */
#ifndef REF_H
#define REF_H

#include <stddef.h>
#include <stdint.h>

struct ref_model;

/* Open a model and decode all weights.  Exit with a message on errors. */
struct ref_model *ref_open(const char *path);
void ref_close(struct ref_model *m);

size_t ref_n_vocab(const struct ref_model *m);

/*
 * Add an adapter: W + scale * alpha / rank * BA, in f32.  A change of
 * token_embd changes the lookup, but not an output head tied to it.
 */
void ref_add_lora(struct ref_model *m, const char *path, double scale);

/* Round keys and values to f16 from now on, as the library does. */
void ref_round_kv(struct ref_model *m);

/*
 * Callback for each stage, by the names of qwen-trace(7); t is the position of
 * the token, and v lives until the callback returns.  ref_drafts() reports the
 * stages of the main model, too.
 */
struct ref_look {
	void	(*fn)(void *arg, const char *stage, size_t t, const double *v,
		    size_t n);
	void	*arg;
	/*
	 * used by the reference pass: position, and position of the first row
	 */
	size_t	 t, first;
};

void ref_look(struct ref_model *m, struct ref_look *look);

/* Compute the logits after each of n tokens: logits[n][n_vocab]. */
void ref_logits(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits);

/*
 * Compute the logits of the MTP block for the token after the next, from each
 * of the first n - 1 tokens and the token after it: logits[n - 1][n_vocab].
 */
void ref_drafts(const struct ref_model *m, const int32_t *tokens, size_t n,
    double *logits);

#endif
