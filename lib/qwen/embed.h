/* SPDX-License-Identifier: ISC */
/*
 * qwen/embed.h - embeddings and reranking.
 *
 * These functions prepare the model's input, and turn its output (hidden states
 * after the output norm: the member hidden of struct qwen_job or struct
 * qwen_eval) into a vector.
 */
#ifndef QWEN_QWEN_EMBED_H
#define QWEN_QWEN_EMBED_H

#include "qwen/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Pooling types, numbered as in files. */
enum qwen_pooling {
	QWEN_POOLING_NONE,	/* not in the file: a language model */
	QWEN_POOLING_MEAN,	/* mean of all tokens */
	QWEN_POOLING_CLS,	/* the first token */
	QWEN_POOLING_LAST,	/* the last token */
	QWEN_POOLING_RANK,	/* no vector: a reranker */
};

/*
 * How a text becomes a vector: first as the file says, then as the caller
 * changes it.  No size goes with it, since qwen_embedding_read fills all of it.
 */
struct qwen_embedding {
	enum qwen_pooling pooling;	/* NONE and RANK count as LAST */
	int32_t		 first;		/* token put before a text; -1: none */
	int32_t		 last;		/* token put after a text; -1: none */
	size_t		 dimensions;	/* length of vectors; 0: full length */
	int		 unscaled;	/* do not scale to length 1 */
};

/*
 * Reads the settings of a file: ARCH.pooling_type, and the tokenizer's
 * add_bos_token and add_eos_token with their ids.
 */
int qwen_embedding_read(struct qwen_embedding *e, const struct qwen_gguf *g,
    struct qwen_err *err);

/* Returns the token to put after texts; -1 if the file has none. */
int32_t qwen_embedding_eos(const struct qwen_gguf *g);

/*
 * Encodes a text with the tokens put around it; the caller frees *ids.  With an
 * instruction (NULL: none) the text is a query: "Instruct: TASK\nQuery:TEXT".
 * flags as for qwen_tok_encode.
 */
int qwen_embedding_encode(const struct qwen_embedding *e,
    const struct qwen_tok *tok, const char *instruct, const void *text,
    size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/*
 * Adds the tokens around n ids that are missing: *ids, from malloc(), may move.
 */
int qwen_embedding_enclose(const struct qwen_embedding *e, int32_t **ids,
    size_t *n, struct qwen_err *err);

/*
 * Truncates to max ids: keeps the first ones, and the token put after the text.
 */
void qwen_embedding_cut(const struct qwen_embedding *e, int32_t *ids,
    size_t *n, size_t max);

/*
 * Returns the first token whose hidden state is needed, and sets *n to the
 * number of tokens to read: a state does not depend on later tokens.
 */
size_t qwen_embedding_from(const struct qwen_embedding *e, size_t *n);

/*
 * qwen_embedding_add adds a hidden state to a sum, initially zero.
 * qwen_embedding_finish makes the vector from the sum of n_states states and
 * writes *n numbers (at most n_embd) to out.  Sums are in double, in ascending
 * order.
 */
void qwen_embedding_add(double *sum, const float *hidden, size_t n_embd);
void qwen_embedding_finish(const struct qwen_embedding *e, const double *sum,
    size_t n_states, size_t n_embd, float *out, size_t *n);

/*
 * A reranker's prompt, which asks whether a document answers a query: the
 * file's template (tokenizer.chat_template.rerank), or that of Qwen3-Reranker.
 * instruct replaces the instruction in it; NULL keeps it.  QWEN_EUNSUP if the
 * template has no place for an instruction.
 */
struct qwen_reranker;

int qwen_reranker_open(struct qwen_reranker **out, const struct qwen_gguf *g,
    const char *instruct, struct qwen_err *err);
void qwen_reranker_close(struct qwen_reranker *r);

/*
 * Encodes a prompt; the caller frees *ids.  Recognises the template's control
 * tokens; with QWEN_TOK_SPECIAL in flags also those in the texts.  If there are
 * more than max ids (0: no limit), cuts the end of the document; if that is
 * impossible or not enough, returns more than max ids.  *n_all (may be NULL) is
 * the number of ids without the cut.
 */
int qwen_reranker_encode(const struct qwen_reranker *r,
    const struct qwen_tok *tok, struct qwen_str query, struct qwen_str document,
    unsigned flags, size_t max, int32_t **ids, size_t *n_ids, size_t *n_all,
    struct qwen_err *err);

/*
 * Finds the output that means "yes".  For a model with n classes
 * (qwen_model_n_classes), *yes is the class called yes; or LABEL_1 of LABEL_0
 * and LABEL_1; or the first of two without names.  For a model without classes
 * (n = 0), *yes is the index of "yes" in ids, the two tokens whose logits to
 * compare.  QWEN_EUNSUP if there is no such class or token.
 */
int qwen_reranker_yes(const struct qwen_reranker *r, size_t n, size_t *yes,
    int32_t ids[2], struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
