/* SPDX-License-Identifier: ISC */
/*
 * qwen/embed.h - texts for models that make vectors of them, and for those
 * that say how well a document answers a query.
 *
 * What goes into the model is made here, and what comes out of it (hidden
 * states after the output norm: the member hidden of struct qwen_job or struct
 * qwen_eval) is made a vector.
 */
#ifndef QWEN_QWEN_EMBED_H
#define QWEN_QWEN_EMBED_H

#include "qwen/tok.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of which hidden states a vector is made, as files number them. */
enum qwen_pooling {
	QWEN_POOLING_NONE,	/* the file does not say: a language model */
	QWEN_POOLING_MEAN,	/* of all tokens */
	QWEN_POOLING_CLS,	/* the first token's */
	QWEN_POOLING_LAST,	/* the last token's */
	QWEN_POOLING_RANK,	/* no vector: a model that ranks */
};

/*
 * How texts become vectors: what the file says, and may be changed then.  No size
 * goes with it, since qwen_embedding_read fills all of it.
 */
struct qwen_embedding {
	enum qwen_pooling pooling;	/* NONE is as LAST, and RANK too */
	int32_t		 first;		/* token put in front of a text, */
	int32_t		 last;		/* and after it; -1: none */
	size_t		 dimensions;	/* so many numbers; 0: all */
	int		 unscaled;	/* not brought to length 1 */
};

/*
 * What the file says: ARCH.pooling_type, and of the tokenizer add_bos_token and
 * add_eos_token with the ids.
 */
int qwen_embedding_read(struct qwen_embedding *e, const struct qwen_gguf *g,
    struct qwen_err *err);

/* The token that texts end with where one is put there; -1: the file has none. */
int32_t qwen_embedding_eos(const struct qwen_gguf *g);

/*
 * The ids of a text, free(*ids), with what is put around it: after an
 * instruction (NULL: none) it is a query, "Instruct: TASK\nQuery:TEXT".  flags as
 * of qwen_tok_encode.
 */
int qwen_embedding_encode(const struct qwen_embedding *e,
    const struct qwen_tok *tok, const char *instruct, const void *text,
    size_t n, unsigned flags, int32_t **ids, size_t *n_ids,
    struct qwen_err *err);

/* Put around n ids what is not there yet: *ids, from malloc, may move. */
int qwen_embedding_enclose(const struct qwen_embedding *e, int32_t **ids,
    size_t *n, struct qwen_err *err);

/* Of more than max ids keep the first ones, and the last if it was put there. */
void qwen_embedding_cut(const struct qwen_embedding *e, int32_t *ids,
    size_t *n, size_t max);

/*
 * From which token on hidden states are wanted; *n becomes how many tokens are
 * to be read at all: a state depends on no later ones.
 */
size_t qwen_embedding_from(const struct qwen_embedding *e, size_t *n);

/*
 * Add a hidden state to a sum, zero at first; and make the vector of the sum of
 * so many, of which *n numbers go to out, n_embd at most.  Sums are in double,
 * ascending.
 */
void qwen_embedding_add(double *sum, const float *hidden, size_t n_embd);
void qwen_embedding_finish(const struct qwen_embedding *e, const double *sum,
    size_t n_states, size_t n_embd, float *out, size_t *n);

/*
 * Prompts that ask whether a document answers a query: by the template of the
 * file (tokenizer.chat_template.rerank), or that of Qwen3-Reranker.  instruct
 * takes the place of the instruction in it; NULL: none does.  QWEN_EUNSUP if the
 * template has no place for one.
 */
struct qwen_reranker;

int qwen_reranker_open(struct qwen_reranker **out, const struct qwen_gguf *g,
    const char *instruct, struct qwen_err *err);
void qwen_reranker_close(struct qwen_reranker *r);

/*
 * The ids of a prompt, free(*ids): control tokens are those of the template, and
 * with flags QWEN_TOK_SPECIAL those in the texts too.  Of a document that makes
 * them more than max (0: no limit) the end is left out; where that is not
 * possible, or does not help, there are more all the same.  *n_all, unless NULL,
 * is how many there are of all of it.
 */
int qwen_reranker_encode(const struct qwen_reranker *r,
    const struct qwen_tok *tok, struct qwen_str query, struct qwen_str document,
    unsigned flags, size_t max, int32_t **ids, size_t *n_ids, size_t *n_all,
    struct qwen_err *err);

/*
 * How the score comes about: of the n classes that the model has (n of
 * qwen_model_n_classes) the place of yes; of a model without them, n 0, the
 * place among the logits of the two tokens in ids.  Yes is the class of that
 * name, of LABEL_0 and LABEL_1 the latter, of two without names the first.
 * QWEN_EUNSUP if there is none.
 */
int qwen_reranker_yes(const struct qwen_reranker *r, size_t n, size_t *yes,
    int32_t ids[2], struct qwen_err *err);

#ifdef __cplusplus
}
#endif

#endif
